//! Requests for address changes that are refused (RFC 5061 §5.2, §5.3, §8).
//!
//! The test writes the requests and signs them with the key of the association. A host that has seen the handshake can
//! do this (RFC 4895 §9), and so can a malicious peer.

use crate::net::{self, A, B};
use crate::script::Script;
use anabranch_sctp::{AssociationState, Event};
use anabranch_wire::sctp::*;
use expect_test::expect;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use std::net::IpAddr;

/// An association whose key the test knows.
pub struct Known {
    pub script: Script,
    key: Vec<u8>,
    serial: u32,
}

/// RFC 4895 §6.1: returns the part of an association's key vector that comes from the parameters of one packet. `bytes`
/// is that packet, which contains an INIT or INIT ACK.
fn vector(bytes: &[u8]) -> Vec<u8> {
    let mut params = &bytes[packet::HEADER + Init::FIXED..];
    let mut vector = Vec::new();
    while let [k0, k1, l0, l1, ..] = *params {
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        if matches!(u16::from_be_bytes([k0, k1]), 0x8002..=0x8004) {
            vector.extend_from_slice(&params[..length]);
        }
        params = params.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    vector
}

impl Known {
    /// Sets up an association over two networks with delays of 25 ms. A has `addresses` addresses, and B has two.
    pub fn with(addresses: usize) -> Self {
        let on = [("auth", "yes"), ("auth_hmac", "sha1"), ("asconf", "yes")];
        let mut script = Script::multi_homed(&[25, 25], &on);
        for n in addresses + 1..=2 {
            let now = script.net.now;
            script.net.end(A).engine.remove_address(now, net::address(A, n).ip());
        }
        script.associate().run(10);
        let one = vector(&script.under_way(A, 1));
        script.run(25);
        let other = vector(&script.under_way(B, 2));
        script.run(3_000);
        let key = if (one.len(), &one) <= (other.len(), &other) {
            [&one[..], &other].concat()
        } else {
            [&other[..], &one].concat()
        };
        // The network loses the ASCONF ACKs with which B answers the test's requests. A never sent these requests, so
        // it would end the association when an answer arrives (RFC 5061 §5.3 F0).
        script.lose_times(B, "ASCONF ACK", 99);
        let serial = script.net.ladder.numbers().first(A).expect("a TSN");
        script.forget();
        Self { script, key, serial }
    }

    /// Sends B a signed ASCONF as A, from A's address in network `n`.
    pub fn ask(&mut self, n: usize, requests: &[Param<'_>]) {
        self.ask_by(at(1), n, requests);
    }

    /// Sends A a signed ASCONF ACK as if from B. Its serial number is that of A's first ASCONF plus `later`. From now
    /// on, the network loses the answers that B itself sends.
    pub fn answer(&mut self, later: u32, results: &[Param<'_>]) {
        let (source, target) = self.script.ports(B);
        let first = self.script.net.ladder.numbers().first(A).expect("a TSN");
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, source, target, self.script.tag(A));
        let at = bytes.len();
        Auth { key: 0, hmac: 1, mac: &[0; 20] }.emit(&mut bytes);
        let serial = first.wrapping_add(later);
        let mut chunk = AsconfAck { serial, params: Default::default() }.open(&mut bytes);
        for result in results {
            result.emit(&mut chunk);
        }
        chunk.close();
        let mut mac = Hmac::<Sha1>::new_from_slice(&self.key).expect("any length");
        mac.update(&bytes[at..]);
        bytes[at + 8..at + 28].copy_from_slice(&mac.finalize().into_bytes());
        packet::finish(&mut bytes, start);
        self.script.net.rules.clear();
        self.script.net.inject(B, 1, bytes);
        self.script.run(30).lose_times(B, "ASCONF ACK", 99);
    }

    /// Like [`ask`](Self::ask), but the ASCONF contains `address` in its Address Parameter. The receiver looks up the
    /// association by this address (RFC 5061 §4.1.1).
    pub fn ask_by(&mut self, address: IpAddr, n: usize, requests: &[Param<'_>]) {
        let (source, target) = self.script.ports(A);
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, source, target, self.script.tag(B));
        let at = bytes.len();
        Auth { key: 0, hmac: 1, mac: &[0; 20] }.emit(&mut bytes);
        let mut chunk = Asconf { serial: self.serial, address, params: Default::default() }.open(&mut bytes);
        for request in requests {
            request.emit(&mut chunk);
        }
        chunk.close();
        self.serial = self.serial.wrapping_add(1);
        let mut mac = Hmac::<Sha1>::new_from_slice(&self.key).expect("any length");
        mac.update(&bytes[at..]);
        bytes[at + 8..at + 28].copy_from_slice(&mac.finalize().into_bytes());
        packet::finish(&mut bytes, start);
        self.script.net.inject(A, n, bytes);
        self.script.run(200);
    }

    /// Checks that data from B still reaches A, and that B knows `addresses` addresses of A.
    pub fn lives(&mut self, addresses: usize) {
        self.script.net.draws_ladder = false;
        let before = self.script.app(A).messages;
        self.script.send(B, 0, 100).run(3_000);
        assert_eq!(self.script.app(A).messages, before + 1);
        let id = self.script.id(B);
        let info = self.script.net.end(B).engine.info(id).expect("it lives");
        let gone = |event: &&Event| matches!(event, Event::PathRemoved { .. });
        let gone = self.script.net.end(B).events.iter().filter(gone).count();
        assert_eq!((info.state, info.paths.len() - gone), (AssociationState::Established, addresses));
    }
}

fn at(n: usize) -> IpAddr {
    net::address(A, n).ip()
}

/// RFC 5061 §5.3 F7: the last address cannot be deleted (error 0x00a0). F8: the source address of the request cannot be
/// deleted (error 0x00a2). An address that is not in the association cannot be deleted either. Each request in the
/// ASCONF has its own result.
#[test]
fn addresses_that_stay() {
    let mut known = Known::with(1);
    known.ask(1, &[Param::DeleteAddress { id: 1, address: at(1) }]);
    known.ask(1, &[Param::DeleteAddress { id: 2, address: at(7) }]);
    known.script.check(expect![[r#"
        3.035  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 delete=10.0.1.1     injected
        3.060  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1 failed=delete-last-address     ✗ lost
        3.235  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.1.1 delete=10.0.7.1     injected
        3.260  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=2 failed=unresolvable-address     ✗ lost
    "#]]);
    known.lives(1);
    let mut known = Known::with(2);
    known.ask(2, &[Param::DeleteAddress { id: 1, address: at(2) }]);
    // The request comes from A's second address, so B deletes only the first address. The order of the two deletions
    // does not matter.
    known.ask(
        2,
        &[Param::DeleteAddress { id: 2, address: at(1) }, Param::DeleteAddress { id: 3, address: at(2) }],
    );
    known.script.check(expect![[r#"
        3.035  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 delete=10.0.2.1     injected
        3.060  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=1 failed=delete-source-address     ✗ lost
        3.235  A.2 ──► B.2   AUTH key=0 hmac=sha1; ASCONF serial=2 from=10.0.1.1 delete=10.0.1.1 delete=10.0.2.1     injected
        3.260          B: peer gives 10.0.1.1 up
        3.260  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=2 failed=delete-last-address     ✗ lost
    "#]]);
    known.lives(1);
}

/// RFC 5061 §5.4: an address outside the association cannot become the primary, and the answer reports the failure.
#[test]
fn set_primary_of_an_unknown_address_is_refused() {
    let mut known = Known::with(1);
    known.ask(1, &[Param::SetPrimary { id: 1, address: at(7) }]);
    known.script.check(expect![[r#"
        3.035  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 primary=10.0.7.1     injected
        3.060  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1 failed=unresolvable-address     ✗ lost
    "#]]);
    known.lives(1);
}

/// RFC 5061 §5.3 F11, RFC 5062 §5.1: an attacker asks B to add more than a hundred addresses, which belong to victims.
/// B accepts fewer than 64 of them. Before an accepted address has answered, it receives no data (§5.3 F14) and is not
/// used as the primary (§5.4).
#[test]
fn a_hundred_requests() {
    let mut known = Known::with(1);
    let victim = |n: u32| IpAddr::from([10, 0, 2, 9 + n as u8]);
    known.script.lose_times(B, "HEARTBEAT", 999);
    let add = |n: u32| Param::AddAddress { id: n, address: victim(n) };
    known.ask(1, &(1..=64).map(add).collect::<Vec<_>>());
    known.ask(1, &(65..=165).map(add).collect::<Vec<_>>());
    known.ask(1, &[Param::SetPrimary { id: 200, address: victim(1) }]);
    let id = known.script.id(B);
    let info = known.script.net.end(B).engine.info(id).expect("it lives");
    let (mut added, mut bytes) = (0, 0);
    for path in info.paths.iter().filter(|path| path.address != at(1)) {
        added += 1;
        assert!(!path.primary, "{path:?}");
        assert_eq!(path.state, anabranch_sctp::PathState::Unconfirmed, "{path:?}");
        bytes += path.stats.bytes_sent;
    }
    println!("{added} addresses, {bytes} bytes to them");
    assert!(added < 64 && bytes < 64 * 100, "{added} addresses, {bytes} bytes");
    known.script.forget();
    known.script.net.draws_ladder = false;
    known.script.send(B, 0, 100).run(3_000);
    assert_eq!(known.script.app(A).messages, 1);
}

/// RFC 5061 §5.2 E2, E5: a repeated request is answered again but not executed again. A request with an older or a
/// future serial number is not answered.
#[test]
fn serial_numbers() {
    let mut known = Known::with(2);
    let first = known.serial;
    let delete = [Param::DeleteAddress { id: 1, address: at(2) }];
    known.ask(1, &delete);
    known.serial = first;
    known.ask(1, &delete);
    for wrong in [first.wrapping_sub(1), first.wrapping_add(2), first.wrapping_add(1 << 31)] {
        known.serial = wrong;
        known.ask(1, &delete);
    }
    known.script.check(expect![[r#"
        3.035  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 delete=10.0.2.1     injected
        3.060          B: peer gives 10.0.2.1 up
        3.060  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1     ✗ lost
        3.235  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 delete=10.0.2.1     injected
        3.260  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1     ✗ lost
        3.435  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=0 from=10.0.1.1 delete=10.0.2.1     injected
        3.635  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=3 from=10.0.1.1 delete=10.0.2.1     injected
        3.835  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=2147483649 from=10.0.1.1 delete=10.0.2.1     injected
    "#]]);
    known.lives(1);
}
