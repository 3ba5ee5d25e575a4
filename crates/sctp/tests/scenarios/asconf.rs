//! Addresses that are added and deleted: requests, answers and refusals (RFC 5061).

use crate::net::{self, A, B};
use crate::script::{Script, configured};
use anabranch_sctp::{AddressError, AssociationState, Event};
use anabranch_wire::ladder::Side;
use expect_test::expect;

const ON: &[(&str, &str)] = &[("auth", "yes"), ("auth_hmac", "sha1"), ("asconf", "yes")];

/// Sets up an association over two networks with delays of 25 and 40 ms. A has an address in the first network only. B
/// has an address in the first network and, if `peer` is 2, another one in the second network.
fn roaming(peer: usize, changes: &[(&str, &str)]) -> Script {
    let mut script = Script::multi_homed(&[25, 40], &[ON, changes].concat());
    script.remove(A, 2);
    for n in peer + 1..=2 {
        script.remove(B, n);
    }
    script.associate().run(3_000);
    script.forget();
    script
}

impl Script {
    fn add(&mut self, side: Side, n: usize) -> &mut Self {
        let now = self.net.now;
        self.net.end(side).engine.add_address(now, net::address(side, n), 1500);
        self
    }

    fn remove(&mut self, side: Side, n: usize) -> &mut Self {
        let now = self.net.now;
        self.net.end(side).engine.remove_address(now, net::address(side, n).ip());
        self
    }
}

/// RFC 5061 §4.2.7: the INIT and the INIT ACK list ASCONF as a supported extension. They also carry the adaptation code
/// point (§4.2.6).
#[test]
fn handshake() {
    let mut script = Script::new(&[ON, &[("adaptation", "7")]].concat());
    script.associate().run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=15,193,128 random chunks=128,193 hmac=sha1 adaptation=0x7 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie extensions=15,193,128 random chunks=128,193 hmac=sha1 adaptation=0x7
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: adaptation 7
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 10 streams out, 10 in
        0.100          A: adaptation 7
    "#]]);
}

/// Make before break: A adds a second address and then deletes the first. Data continues to flow.
#[test]
fn make_before_break() {
    let mut script = roaming(1, &[]);
    script.add(A, 2).run(1_000);
    script.send(B, 0, 100).run(500);
    script.remove(A, 1).run(1_000);
    script.send(A, 0, 100).send(B, 0, 100).run(1_000);
    script.check(expect![[r#"
        3.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
        3.025          B: peer has 10.0.2.1
        3.025  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        3.025  A.2 ◄── B.1   HEARTBEAT
        3.050          A: 10.0.2.1: Added
        3.065  A.1 ──► B.1   HEARTBEAT ACK
        3.090          B: path to 10.0.2.1 is up
        4.000  A.1 ◄── B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        4.025          A: received sid=0 len=100
        4.025  A.1 ──► B.1   SACK          cum=1 rwnd=64k
        4.500  A.2 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
        4.525          B: peer gives 10.0.1.1 up
        4.525  A.2 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=2
        4.565          A: 10.0.1.1: Removed
        5.500  A.2 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        5.500  A.2 ◄── B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        5.525          B: received sid=0 len=100
        5.525  A.2 ◄── B.1   SACK          cum=1 rwnd=64k
        5.540          A: received sid=0 len=100
        5.740  A.2 ──► B.1   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §7.2.5.2: packets that leave from another address use another path, so congestion control starts anew.
#[test]
fn a_new_source_resets_the_window() {
    let mut script = roaming(1, &[]);
    let window = |script: &Script| {
        let path = script.net.ends[0].engine.info(script.id(A)).expect("an association").paths[0];
        (path.source, path.cwnd, path.srtt.is_some())
    };
    let first = window(&script).1;
    script.add(A, 2).run(1_000);
    script.send(A, 0, 60_000).run(3_000);
    assert!(window(&script).1 > first);
    script.remove(A, 1).run(1_000);
    assert_eq!(window(&script), (net::address(A, 2).ip(), first, false));
    script.forget();
}

/// The network that carried the data fails, and A loses its address in that network. A sends the ASCONF through the
/// other network at once, without waiting for T4 to expire.
#[test]
fn an_asconf_does_not_go_where_no_route_leads() {
    let mut script = roaming(2, &[]);
    script.add(A, 2).run(1_000);
    script.forget();
    script.remove(A, 1).kill(1).send(B, 0, 100).run(500);
    script.check(expect![[r#"
        4.000          network 1 fails
        4.000  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
        4.000  A.1 ◄── B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        4.040          B: peer gives 10.0.1.1 up
        4.040  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=2
        4.040  A.2 ◄── B.2   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        4.080          A: 10.0.1.1: Removed
        4.080          A: received sid=0 len=100
        4.080  A.2 ──► B.2   SACK          cum=1 rwnd=64k
    "#]]);
}

/// A deletes its only verified address after B has sent SHUTDOWN and stopped verifying A's other address. B must verify
/// the other address again, and then repeat the SHUTDOWN to that address.
#[test]
fn the_verified_address_goes_while_shutting_down() {
    let mut script = roaming(1, &[]);
    script.lose(B, "HEARTBEAT").add(A, 2).run(200);
    script.lose(B, "SHUTDOWN cum").shutdown(B).run(300);
    script.remove(A, 1).send(A, 0, 100).run(3_000);
    script.check(expect![[r#"
        3.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
        3.025          B: peer has 10.0.2.1
        3.025  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        3.025  A.2 ◄── B.1   HEARTBEAT     ✗ lost
        3.050          A: 10.0.2.1: Added
        3.200  A.1 ◄── B.1   SHUTDOWN      cum=0     ✗ lost
        3.500  A.2 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
        3.500  A.2 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        3.525          B: peer gives 10.0.1.1 up
        3.525  A.2 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=2; HEARTBEAT
        3.525          B: received sid=0 len=100
        3.565          A: 10.0.1.1: Removed
        3.565  A.2 ──► B.1   HEARTBEAT ACK
        3.590          B: path to 10.0.2.1 is up
        3.590  A.2 ◄── B.1   SHUTDOWN      cum=1
        3.630          A: peer wants to shut down
        3.630  A.2 ──► B.1   SHUTDOWN ACK
        3.655          B: closed: Shutdown
        3.655  A.2 ◄── B.1   SHUTDOWN COMPLETE
        3.695          A: closed: Shutdown
    "#]]);
}

/// Break before make (RFC 5061 §5.3.2): A deletes its only address, and adds another address a second later. The
/// association survives, and all data arrives.
#[test]
fn break_before_make() {
    let mut script = roaming(1, &[]);
    script.remove(A, 1).send(A, 0, 100).send(B, 0, 100).run(1_000);
    script.add(A, 2).run(3_000);
    script.send(A, 0, 100).send(B, 0, 100).run(1_000);
    script.check(expect![[r#"
        3.000  A.1 ◄── B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        3.025          A: received sid=0 len=100
        4.000  A.1 ◄── B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        4.000  A.2 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1 delete=10.0.1.1
        4.025          B: peer has 10.0.2.1
        4.025          B: peer gives 10.0.1.1 up
        4.025  A.2 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1; HEARTBEAT
        4.065          A: 10.0.2.1: Added
        4.065          A: 10.0.1.1: Removed
        4.065  A.2 ──► B.1   HEARTBEAT ACK; SACK cum=1 rwnd=64k dups=1; DATA tsn=1 sid=0 ssn=0 len=100 BE
        4.090          B: path to 10.0.2.1 is up
        4.090          B: received sid=0 len=100
        4.090  A.2 ◄── B.1   SACK          cum=1 rwnd=64k
        7.000  A.2 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        7.000  A.2 ◄── B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        7.025          B: received sid=0 len=100
        7.040          A: received sid=0 len=100
        7.225  A.2 ◄── B.1   SACK          cum=2 rwnd=64k
        7.240  A.2 ──► B.1   SACK          cum=2 rwnd=64k
    "#]]);
}

/// Without ASCONF, a host that deletes its only address and then adds another address loses the association.
#[test]
fn break_before_make_without() {
    let mut script = Script::multi_homed(&[25, 40], &[("assoc_max_retrans", "3"), ("rto_max", "2s")]);
    script.remove(A, 2).remove(B, 2).associate().run(1_000);
    script.forget();
    script.remove(A, 1).kill(1).add(A, 2).send(A, 0, 100).send(B, 0, 100).run(60_000);
    let closed = |script: &mut Script, side| {
        script.net.end(side).events.iter().any(|event| matches!(event, Event::Closed { .. }))
    };
    assert!(closed(&mut script, A) && closed(&mut script, B));
}

/// RFC 5061 §5.1 B1 to B5, §5.2 E2: a lost ASCONF is retransmitted unchanged, and a lost ASCONF ACK is sent again.
#[test]
fn losses() {
    let mut script = roaming(2, &[]);
    script.lose(A, "ASCONF").add(A, 2).run(3_000);
    script.lose(B, "ASCONF ACK").remove(A, 1).run(5_000);
    script.check(expect![[r#"
        3.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1     ✗ lost
        4.000  A.1 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
        4.040          B: peer has 10.0.2.1
        4.040  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        4.040  A.2 ◄── B.2   HEARTBEAT
        4.065          A: 10.0.2.1: Added
        4.080  A.1 ──► B.2   HEARTBEAT ACK
        4.120          B: path to 10.0.2.1 is up
        6.000  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
        6.040          B: peer gives 10.0.1.1 up
        6.040  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=2     ✗ lost
        7.000  A.2 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
        7.025  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=2
        7.065          A: 10.0.1.1: Removed
    "#]]);
}

/// RFC 5061 §5.1 A5: three ASCONFs are lost one after the other, and the retransmission of each is answered. Each
/// answer clears the error count, so the association survives with an Association.Max.Retrans of 1.
#[test]
fn an_answer_clears_the_count_of_errors() {
    let mut script = roaming(2, &[("assoc_max_retrans", "1")]);
    script.lose(A, "ASCONF").add(A, 2).run(3_000);
    script.lose(A, "ASCONF").remove(A, 2).run(5_000);
    script.lose(A, "ASCONF").add(A, 2).run(5_000);
    script.check(expect![[r#"
         3.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1     ✗ lost
         4.000  A.1 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
         4.040          B: peer has 10.0.2.1
         4.040  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
         4.040  A.2 ◄── B.2   HEARTBEAT
         4.065          A: 10.0.2.1: Added
         4.080  A.1 ──► B.2   HEARTBEAT ACK
         4.120          B: path to 10.0.2.1 is up
         6.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.1.1 delete=10.0.2.1     ✗ lost
         8.000  A.1 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.1.1 delete=10.0.2.1
         8.040          B: peer gives 10.0.2.1 up
         8.040  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=2
         8.065          A: 10.0.2.1: Removed
        11.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=3 from=10.0.1.1 add=10.0.2.1     ✗ lost
        15.000  A.1 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=3 from=10.0.1.1 add=10.0.2.1
        15.040          B: peer has 10.0.2.1
        15.040  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=3
        15.040  A.2 ◄── B.2   HEARTBEAT
        15.065          A: 10.0.2.1: Added
        15.080  A.1 ──► B.2   HEARTBEAT ACK
        15.120          B: path to 10.0.2.1 is up
    "#]]);
}

/// RFC 5061 §5.1.1 C1: only one ASCONF is outstanding. Later requests wait for the answer.
#[test]
fn a_wish_waits_for_the_answer() {
    let mut script = roaming(2, &[]);
    script.lose(A, "ASCONF").add(A, 2).run(100);
    let (id, now) = (script.id(A), script.net.now);
    let first = net::address(A, 1).ip();
    script.net.end(A).engine.set_peer_primary(now, id, first).expect("dynamic");
    script.run(3_000);
    script.check(expect![[r#"
        3.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1     ✗ lost
        4.000  A.1 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
        4.040          B: peer has 10.0.2.1
        4.040  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        4.040  A.2 ◄── B.2   HEARTBEAT
        4.065          A: 10.0.2.1: Added
        4.065  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.1.1 primary=10.0.1.1
        4.080  A.1 ──► B.2   HEARTBEAT ACK
        4.090  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=2
        4.115          A: 10.0.1.1: Primary
        4.120          B: path to 10.0.2.1 is up
    "#]]);
}

/// RFC 5061 §5.4: the peer's request for a primary address takes effect when the address is verified.
#[test]
fn set_primary() {
    let mut script = roaming(1, &[]);
    let (id, now) = (script.id(A), script.net.now);
    let second = net::address(A, 2).ip();
    script.net.end(A).engine.set_peer_primary(now, id, second).expect("dynamic");
    script.add(A, 2).run(1_000);
    script.send(B, 0, 100).run(1_000);
    script.check(expect![[r#"
        3.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1 primary=10.0.2.1
        3.025          B: peer has 10.0.2.1
        3.025  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        3.025  A.2 ◄── B.1   HEARTBEAT
        3.050          A: 10.0.2.1: Added
        3.050          A: 10.0.2.1: Primary
        3.065  A.1 ──► B.1   HEARTBEAT ACK
        3.090          B: path to 10.0.2.1 is up
        3.090          B: primary is 10.0.2.1
        4.000  A.2 ◄── B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        4.040          A: received sid=0 len=100
        4.040  A.1 ──► B.1   SACK          cum=1 rwnd=64k
    "#]]);
}

/// A Set Primary request arrives while B sends data. Once B has verified the new address, B sends data to it, although
/// the old address still exists.
#[test]
fn set_primary_moves_data_that_flows() {
    let mut script = roaming(1, &[("asconf_primary", "yes")]);
    script.send(B, 0, 12_000).run(10).add(A, 2).run(1_000);
    script.check(expect![[r#"
        3.000  A.1 ◄── B.1   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        3.000  A.1 ◄── B.1   DATA          tsn=2 sid=0 ssn=0 len=1452
        3.000  A.1 ◄── B.1   DATA          tsn=3 sid=0 ssn=0 len=1452
        3.010  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1 primary=10.0.2.1
        3.025  A.1 ──► B.1   SACK          cum=1 rwnd=64084
        3.025  A.1 ──► B.1   SACK          cum=3 rwnd=61180
        3.035          B: peer has 10.0.2.1
        3.035  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        3.035  A.2 ◄── B.1   HEARTBEAT
        3.050  A.1 ◄── B.1   DATA          tsn=4 sid=0 ssn=0 len=1452
        3.050  A.1 ◄── B.1   DATA          tsn=5 sid=0 ssn=0 len=1452
        3.050  A.1 ◄── B.1   DATA          tsn=6 sid=0 ssn=0 len=1452
        3.050  A.1 ◄── B.1   DATA          tsn=7 sid=0 ssn=0 len=1452
        3.060          A: 10.0.2.1: Added
        3.060          A: 10.0.2.1: Primary
        3.075  A.1 ──► B.1   HEARTBEAT ACK
        3.075  A.1 ──► B.1   SACK          cum=5 rwnd=58276
        3.075  A.1 ──► B.1   SACK          cum=7 rwnd=55372
        3.100          B: path to 10.0.2.1 is up
        3.100          B: primary is 10.0.2.1
        3.100  A.2 ◄── B.1   DATA          tsn=8 sid=0 ssn=0 len=1452
        3.100  A.2 ◄── B.1   DATA          tsn=9 sid=0 ssn=0 len=384 E
        3.140          A: received sid=0 len=12000
        3.140  A.1 ──► B.1   SACK          cum=9 rwnd=64k
    "#]]);
}

/// The application first withholds a new local address from an association, so no ASCONF is sent. When the application
/// allows the address, an ASCONF adds it.
#[test]
fn one_association() {
    let mut script = roaming(1, &[]);
    let (id, now) = (script.id(A), script.net.now);
    let second = net::address(A, 2).ip();
    script.net.end(A).engine.use_address(now, id, second, false).expect("dynamic");
    script.add(A, 2).run(1_000);
    script.net.end(A).engine.use_address(now, id, second, true).expect("dynamic");
    script.run(1_000);
    script.check(expect![[r#"
        4.000  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
        4.025          B: peer has 10.0.2.1
        4.025  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        4.025  A.2 ◄── B.1   HEARTBEAT
        4.050          A: 10.0.2.1: Added
        4.065  A.1 ──► B.1   HEARTBEAT ACK
        4.090          B: path to 10.0.2.1 is up
    "#]]);
    let mut fixed = Script::established(&[]);
    let (id, now) = (fixed.id(A), fixed.net.now);
    assert_eq!(fixed.net.end(A).engine.set_peer_primary(now, id, second), Err(AddressError::NotDynamic));
}

/// The host moves through twenty networks. The association survives, all data arrives, and indices of removed paths are
/// reused.
#[test]
fn many_moves() {
    let delays = [20; 20];
    let mut script = Script::multi_homed(&delays, ON);
    for n in 2..=20 {
        script.remove(A, n).remove(B, n);
    }
    script.associate().run(1_000);
    for lap in 0..60 {
        let (from, to) = (1 + lap % 20, 1 + (lap + 1) % 20);
        if lap % 2 == 0 {
            script.add(A, to).run(300).send(B, 0, 5_000).remove(A, from);
        } else {
            script.remove(A, from).send(A, 0, 5_000).run(100).add(A, to);
        }
        script.run(2_000);
    }
    for side in [A, B] {
        assert!(script.app(side).is_served(&Default::default()));
        let id = script.id(side);
        let info = script.net.end(side).engine.info(id).expect("it lives");
        assert_eq!(info.state, AssociationState::Established);
        assert!(info.paths.len() <= 4, "places are used again: {}", info.paths.len());
    }
    script.forget();
}

/// RFC 5061 §5.3: a host deletes its only address and adds no other address. Its association ends after the same time
/// as an association whose peer does not answer.
#[test]
fn no_address_ever() {
    let mut script = roaming(1, &[("assoc_max_retrans", "3"), ("rto_max", "2s")]);
    script.remove(A, 1).send(A, 0, 100).run(30_000);
    script.check_drawn(expect![[r#"
        10.000          A: not delivered: sid=0 len=100 context=1, unsent
        10.000          A: closed: Unreachable
    "#]]);
}

/// RFC 5061 §4.1.1, §5.2 D5: ASCONF is not used without authentication. The setting `asconf=yes` is refused without
/// `auth`.
#[test]
fn never_unauthenticated() {
    let mut config = configured(&[("asconf", "yes")]);
    assert_eq!(
        config.check().expect_err("without auth").to_string(),
        "sctp:asconf=yes needs auth=yes (RFC 5061 §4.1.1)"
    );
    config.set("auth", "yes").expect("a knob");
    assert_eq!(config.check(), Ok(()));
    let mut script = roaming(2, &[]);
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    let serial = script.net.ladder.numbers().first(A).expect("a TSN");
    for signed in [false, true] {
        script.inject(A, tag, |b| {
            if signed {
                anabranch_wire::sctp::Auth { key: 0, hmac: 1, mac: &[9; 20] }.emit(b);
            }
            let (address, id) = (net::address(A, 1).ip(), 1);
            let asconf = anabranch_wire::sctp::Asconf { serial, address, params: Default::default() };
            let mut chunk = asconf.open(b);
            anabranch_wire::sctp::Param::AddAddress { id, address: [10, 0, 2, 99].into() }.emit(&mut chunk);
            chunk.close();
        });
        script.run(100);
    }
    script.check(expect![[r#"
        3.000  A.1 ──► B.1   ASCONF serial=1 from=10.0.1.1 add=10.0.2.99     injected
        3.100  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.99     injected
    "#]]);
}
