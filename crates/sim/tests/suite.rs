//! The behaviour suite of `anabranch-world`, in virtual time.

use anabranch_base::Instant;
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, SimWorld};
use anabranch_world::suite::{HostPair, cases};

fn link() -> LinkSpec {
    LinkSpec::parse("rate=10mbit,rtt=8ms").expect("a link")
}

/// Runs the tests that every `World` must pass. Two links connect the two hosts. A deadline in virtual time ends tests
/// that would wait forever.
#[test]
fn between_two_hosts() {
    for (name, case) in cases::<SimWorld>() {
        let network = Network::new(1);
        let near = network.host("near", &[[10, 0, 0, 1].into(), "2001:db8::1".parse().expect("an address")]);
        let far = network.host("far", &[[10, 0, 0, 2].into(), "2001:db8::2".parse().expect("an address")]);
        network.link(near, far, &link()).expect("a link");
        network.link(near, far, &link()).expect("a link");
        let pair = HostPair { near: network.world(near), far: network.world(far) };
        println!("{name}");
        network.run(case(pair), Instant::from_millis(3_600_000)).expect_done();
    }
}

/// Runs the suite on one host, which sends to itself.
#[test]
fn on_one_host() {
    for (name, case) in cases::<SimWorld>() {
        let network = Network::new(1);
        let host = network.host("host", &[[10, 0, 0, 1].into()]);
        let pair = HostPair { near: network.world(host), far: network.world(host) };
        println!("{name}");
        network.run(case(pair), Instant::from_millis(3_600_000)).expect_done();
    }
}
