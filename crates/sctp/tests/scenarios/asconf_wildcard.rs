//! The wildcard address, which stands for the source address of a request. A host behind a NAT needs the wildcard,
//! because the host does not know its address as the peer sees it (RFC 5061 §4.1.1, §4.2.1, §4.2.2, §4.2.4).

use crate::asconf_refused::Known;
use crate::net::B;
use crate::script::flush_left;
use anabranch_wire::sctp::Param;
use expect_test::expect;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// RFC 5061 §4.1.1, §4.2.1: if a request comes from an unknown address, its tag identifies the association, and the
/// source address is added. §5.3 F14: until the new address is verified, it receives only a HEARTBEAT.
#[test]
fn what_is_added() {
    for any in [ANY, ANY_V6] {
        let mut known = Known::with(1);
        known.script.lose_times(B, "HEARTBEAT", 99);
        known.ask_by(any, 2, &[Param::AddAddress { id: 1, address: any }]);
        let drawn = known.script.net.ladder.take();
        assert!(drawn.contains("B: peer has 10.0.2.1\n"), "{drawn}");
    }
}

/// RFC 5061 §4.2.4: Set Primary with the wildcard makes the source address the primary. §4.2.2: a deletion with the
/// wildcard deletes all other addresses.
#[test]
fn what_is_primary_and_what_goes() {
    let mut drawn = [ANY, ANY_V6].map(|any| {
        let mut known = Known::with(2);
        known.ask(2, &[Param::SetPrimary { id: 1, address: any }]);
        known.ask(2, &[Param::DeleteAddress { id: 2, address: any }]);
        // The source address is now the only address, so nothing is left to delete.
        known.ask(2, &[Param::DeleteAddress { id: 3, address: any }]);
        let drawn = known.script.net.ladder.take();
        known.lives(1);
        drawn
    });
    drawn[1] = drawn[1].replace("=::", "=0.0.0.0");
    assert_eq!(drawn[0], drawn[1]);
    expect![[r#"
        3.035  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 primary=0.0.0.0     injected
        3.060          B: primary is 10.0.2.1
        3.060  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=1     ✗ lost
        3.235  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.1.1 delete=0.0.0.0     injected
        3.260          B: peer gives 10.0.1.1 up
        3.260  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=2     ✗ lost
        3.435  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=3 from=10.0.1.1 delete=0.0.0.0     injected
        3.460  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=3     ✗ lost
    "#]]
    .assert_eq(&flush_left(&drawn[0]));
}

/// RFC 5061 §4.2.2: a wildcard deletion keeps only the source address of its ASCONF. If this address is not part of the
/// association, no address would remain, so nothing is deleted.
#[test]
fn nothing_goes_for_a_stranger() {
    let mut known = Known::with(1);
    known.ask_by(ANY, 2, &[Param::DeleteAddress { id: 1, address: ANY }]);
    known.script.check(expect![[r#"
        3.035  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=1 from=0.0.0.0 delete=0.0.0.0     injected
        3.060  A.2 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1 failed=unresolvable-address     ✗ lost
    "#]]);
    known.lives(1);
}
