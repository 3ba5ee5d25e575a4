//! Packets that the host itself failed to send. Their chunks are sent on another path at once, or as soon as the routes
//! change.

use crate::net::{self, A, B};
use crate::script::Script;
use anabranch_base::engine::{Engine, Packet};
use anabranch_base::{Ecn, Instant};
use anabranch_wire::sctp::packet;
use expect_test::expect;

impl Script {
    /// Makes A's host report that it failed to send a packet from A's address in network `from` to B's address in
    /// network `to`.
    fn unsent(&mut self, from: usize, to: usize) -> &mut Self {
        let (source, target) = self.ports(A);
        let tag = self.net.ladder.numbers().latest_tag(B).expect("a tag");
        let mut payload = Vec::new();
        packet::begin(&mut payload, source, target, tag);
        let now = self.net.now;
        let (source, target) = (net::address(A, from), net::address(B, to));
        let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &payload };
        self.net.end(A).engine.handle_unsent(now, packet);
        self
    }

    /// Makes A's host report that its routes have changed.
    fn rerouted(&mut self) -> &mut Self {
        let now: Instant = self.net.now;
        self.net.end(A).engine.handle_routes(now);
        self
    }
}

/// RFC 7829 §3 (4), (5): the operating system refuses to send a packet on a path. As after a timeout, the data is sent
/// on another path, and a HEARTBEAT probes the failed path, both at once. The error counter of the failed path stays at
/// 0.
#[test]
fn data_goes_by_another_path() {
    let mut script = Script::established_on(&[25, 35], &[("pf_max_retrans", "0"), ("hb_interval", "1000s")]);
    script.send(A, 0, 8).run(1_000);
    script.forget();
    script.kill(1).send(A, 0, 100).run(100);
    // The host reports every packet that it refuses.
    script.unsent(1, 1).unsent(1, 1).heal(1).run(2_000);
    script.check(expect![[r#"
        5.000          network 1 fails
        5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        5.100          network 1 is back
        5.100          A: path to 10.0.1.2 may have failed
        5.100  A.1 ──► B.1   HEARTBEAT
        5.100  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        5.125  A.1 ◄── B.1   HEARTBEAT ACK
        5.135          B: received sid=0 len=100
        5.150          A: path to 10.0.1.2 is up
        5.335  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
    "#]]);
    let id = script.id(A);
    let paths = script.net.end(A).engine.info(id).expect("it is up").paths;
    assert_eq!((paths[0].errors, paths[0].stats.t3_expirations), (0, 0));
}

/// With a single path, data that the host refused waits until the host's routes change.
#[test]
fn data_goes_when_routes_have_changed() {
    let mut script = Script::established(&[]);
    script.kill(1).send(A, 0, 100).run(100).unsent(1, 1).run(100);
    script.heal(1).rerouted().run(500).rerouted().run(500);
    script.check(expect![[r#"
        1.000          network 1 fails
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        1.200          network 1 is back
        1.200  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        1.225          B: received sid=0 len=100
        1.225  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// If the host refused no packet, a change of its routes has no effect. Packets lost in the network are retransmitted
/// only when T3-rtx expires.
#[test]
fn routes_that_change_for_others() {
    let mut script = Script::established(&[]);
    script.kill(1).send(A, 0, 100).run(100).heal(1).rerouted().run(1_500);
    script.check(expect![[r#"
        1.000          network 1 fails
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        1.100          network 1 is back
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        2.025          B: received sid=0 len=100
        2.025  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 5061 §5.1 A4: a new address exists before the host has a route for it. The ASCONF is sent when the route exists,
/// without waiting for T4 to expire.
#[test]
fn an_asconf_goes_when_routes_have_changed() {
    let on = [("auth", "yes"), ("auth_hmac", "sha1"), ("asconf", "yes"), ("hb_interval", "1000s")];
    let mut script = Script::multi_homed(&[25, 40], &on);
    let gone = |script: &mut Script, n: usize| {
        let now = script.net.now;
        script.net.end(A).engine.remove_address(now, net::address(A, n).ip());
    };
    gone(&mut script, 2);
    script.associate().run(3_000);
    script.forget();
    script.kill(1).kill(2);
    let now = script.net.now;
    script.net.end(A).engine.add_address(now, net::address(A, 2), 1500);
    gone(&mut script, 1);
    script.run(50).unsent(2, 1).heal(1).heal(2).rerouted().run(300);
    script.check(expect![[r#"
        3.000          network 1 fails
        3.000          network 2 fails
        3.000  A.2 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1     ✗ lost
        3.050          network 1 is back
        3.050          network 2 is back
        3.050  A.2 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
        3.075          B: peer has 10.0.2.1
        3.075  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=1; HEARTBEAT
        3.115          A: 10.0.2.1: Added
        3.115  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
        3.115  A.2 ──► B.2   HEARTBEAT ACK
        3.155          B: peer gives 10.0.1.1 up
        3.155  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=2
        3.155          B: path to 10.0.2.1 is up
        3.195          A: 10.0.1.1: Removed
    "#]]);
}
