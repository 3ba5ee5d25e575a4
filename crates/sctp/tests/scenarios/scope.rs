//! Loopback addresses. A host does not announce 127.0.0.1 to other hosts, and ignores this address when another host
//! lists it.

use crate::net::{A, B};
use crate::script::Script;
use expect_test::expect;

#[test]
fn loopback_addresses_are_not_listed_to_remote_peers() {
    let mut script = Script::new(&[]);
    for side in [A, B] {
        let now = script.net.now;
        let loopback = "127.0.0.1:0".parse().expect("an address");
        script.net.end(side).engine.add_address(now, loopback, 65_535);
    }
    script.associate().run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 10 streams out, 10 in
    "#]]);
}
