//! Attempts to move an association to other addresses. With the empty key, a host that has seen the handshake can do
//! this. With shared keys, only a host that knows these keys can (RFC 4895 §4, §6.3; RFC 5061 §8; RFC 5062 §2).

use crate::net::{self, A, B, Flight};
use crate::script::{Script, configured};
use anabranch_base::time::Duration;
use anabranch_sctp::{AssociationState, Config, Endpoint, SharedKeys};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::*;
use expect_test::expect;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use std::net::IpAddr;

const OURS: &str = "1 00112233445566778899aabbccddeeff";

fn with_keys(keys: Option<&str>, changes: &[(&str, &str)]) -> Config {
    let on = [("auth", "yes"), ("auth_hmac", "sha1"), ("asconf", "yes")];
    let mut config = configured(&[&on[..], changes].concat());
    if let Some(text) = keys {
        config.shared_keys = SharedKeys::parse(text).expect("keys");
    }
    config
}

/// Sets up an association over two networks with delays of 25 ms. A has an address in the first network only, and knows
/// both addresses of B.
fn associated(keys: [Option<&str>; 2], changes: &[(&str, &str)]) -> (Script, Attacker) {
    let [a, b] = keys.map(|keys| with_keys(keys, changes));
    let mut script = Script::with(a, b, &[25, 25]);
    let now = script.net.now;
    script.net.end(A).engine.remove_address(now, net::address(A, 2).ip());
    script.associate().run(10);
    let init = script.under_way(A, 1);
    script.run(25);
    let attacker = Attacker::of(&init, &script.under_way(B, 2));
    script.run(3_000);
    script.forget();
    (script, attacker)
}

fn address(n: usize) -> IpAddr {
    net::address(A, n).ip()
}

/// An attacker who has seen the INIT and the INIT ACK. The attacker sends and receives with A's address in network 2,
/// and tries to take over A's association.
struct Attacker {
    ports: (u16, u16),
    /// The tag that B chose.
    tag: u32,
    serial: u32,
    vectors: [Vec<u8>; 2],
}

impl Attacker {
    fn of(init: &[u8], ack: &[u8]) -> Self {
        let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        let half = |at: usize| u16::from_be_bytes([init[at], init[at + 1]]);
        Self {
            ports: (half(0), half(2)),
            tag: word(ack, 16),
            // RFC 5061 §5.1 A2: the initial serial number of ASCONF chunks equals the initial TSN.
            serial: word(init, 28),
            vectors: [init, ack].map(vector),
        }
    }

    /// RFC 4895 §6.1: returns the key of the association, assuming that `secret` is the shared key.
    fn key(&self, secret: &[u8]) -> Vec<u8> {
        let [one, other] = &self.vectors;
        let (first, second) =
            if (one.len(), one) <= (other.len(), other) { (one, other) } else { (other, one) };
        [secret, first, second].concat()
    }

    /// Sends an ASCONF as A from its address in network `n`, signed with the shared key `id`.
    fn ask(&mut self, script: &mut Script, n: usize, (id, secret): (u16, &[u8]), requests: &[Param<'_>]) {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, self.ports.0, self.ports.1, self.tag);
        let at = bytes.len();
        Auth { key: id, hmac: 1, mac: &[0; 20] }.emit(&mut bytes);
        let asconf = Asconf { serial: self.serial, address: address(1), params: Default::default() };
        let mut chunk = asconf.open(&mut bytes);
        for request in requests {
            request.emit(&mut chunk);
        }
        chunk.close();
        let mut mac = Hmac::<Sha1>::new_from_slice(&self.key(secret)).expect("any length");
        mac.update(&bytes[at..]);
        bytes[at + 8..at + 28].copy_from_slice(&mac.finalize().into_bytes());
        packet::finish(&mut bytes, start);
        script.net.inject(A, n, bytes);
    }

    /// Runs for `ms` milliseconds. Packets to network 2 reach the attacker, who answers HEARTBEATs. Returns the number
    /// of DATA chunks that reached the attacker.
    fn run(&mut self, script: &mut Script, ms: u64) -> usize {
        let (mut data, mut heartbeats) = (0, Vec::new());
        let mut fate = |_, side: Side, flight: &Flight| {
            if side == A || net::network(flight.target.ip()) != 2 {
                return vec![(Duration::ZERO, flight.clone())];
            }
            let view = PacketView::parse(&flight.bytes).expect("a good packet");
            for chunk in view.chunks().flatten() {
                match chunk {
                    Chunk::Heartbeat(heartbeat) => heartbeats.push(heartbeat.info.to_vec()),
                    Chunk::Data(_) => data += 1,
                    _ => {}
                }
            }
            Vec::new()
        };
        let until = script.net.now + Duration::from_millis(ms);
        script.net.run_until(until, &mut fate, None);
        for info in heartbeats {
            let mut bytes = Vec::new();
            let start = packet::begin(&mut bytes, self.ports.0, self.ports.1, self.tag);
            HeartbeatAck { info: &info, rest: &[] }.emit(&mut bytes);
            packet::finish(&mut bytes, start);
            script.net.inject(A, 2, bytes);
        }
        data
    }

    /// Adds the attacker's address to the association, makes it the primary, and deletes A's address. Returns whether B
    /// then sends data to the attacker.
    fn hijack(&mut self, script: &mut Script, key: (u16, &[u8])) -> bool {
        self.ask(script, 2, key, &[Param::AddAddress { id: 1, address: address(2) }]);
        self.run(script, 60);
        self.run(script, 60);
        self.serial = self.serial.wrapping_add(1);
        self.ask(
            script,
            2,
            key,
            &[
                Param::SetPrimary { id: 2, address: address(2) },
                Param::DeleteAddress { id: 3, address: address(1) },
            ],
        );
        self.run(script, 60);
        self.serial = self.serial.wrapping_sub(1);
        script.net.draws_ladder = false;
        script.send(B, 0, 100);
        self.run(script, 60) > 0
    }
}

/// RFC 4895 §6.1: returns the key vector of an INIT or INIT ACK: its RANDOM, CHUNKS and HMAC-ALGO parameters.
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

/// RFC 4895 §9: the empty key is no secret. Anyone who has seen the handshake can take over the association.
#[test]
fn the_empty_key_protects_from_nobody_who_saw_the_handshake() {
    let (mut script, mut attacker) = associated([None; 2], &[]);
    assert!(attacker.hijack(&mut script, (0, b"")));
    assert_eq!(script.app(A).messages, 0, "A gets nothing any more");
}

/// An association with a shared key cannot be taken over. B rejects chunks signed with the empty key, under any
/// identifier, and chunks signed with a guessed key.
#[test]
fn a_shared_key_protects() {
    for (id, secret) in [(0, &b""[..]), (1, b""), (1, b"guessed"), (2, b"")] {
        for file in [OURS.to_owned(), format!("{OURS} active\n2 ffeeddccbbaa99887766554433221100")] {
            let (mut script, mut attacker) = associated([Some(&file); 2], &[]);
            assert!(!attacker.hijack(&mut script, (id, secret)), "key {id}");
            script.run(3_000);
            assert_eq!(script.app(A).messages, 1, "the message arrives where it should");
            let b = script.id(B);
            let info = script.net.end(B).engine.info(b).expect("it lives");
            assert_eq!(info.paths.iter().map(|path| path.address).collect::<Vec<_>>(), [address(1)]);
            let refused = script.net.end(B).engine.stats(b).expect("it lives").auth_refused;
            assert_eq!(refused, 2, "RFC 4895 6.3: both were discarded in silence");
        }
    }
    // For comparison: an attacker who knows the shared key is accepted as the peer.
    let (mut script, mut attacker) = associated([Some(OURS); 2], &[]);
    let secret: Vec<u8> = (0..16).map(|n| n * 0x11).collect();
    assert!(attacker.hijack(&mut script, (1, &secret)));
}

/// The shared keys remain in force when A restarts, even if A did not sign any chunk before.
#[test]
fn a_restart_does_not_bring_the_empty_key_back() {
    let (mut script, _) = associated([Some(OURS); 2], &[]);
    let plain = configured(&[]);
    for config in [plain, with_keys(None, &[])] {
        let (source, _) = script.ports(A);
        let seed = u64::from(config.auth) + 77;
        let engine = Endpoint::new(config, vec![net::address(A, 1)], anabranch_base::Rng::new(seed));
        script.net.reboot(A, engine);
        script.net.associate_from(A, 1, Some(source), net::PORT);
        script.run(10);
        let init = script.under_way(A, 1);
        script.run(25);
        let mut attacker = Attacker::of(&init, &script.under_way(B, 2));
        script.run(3_000);
        let id = script.id(B);
        assert_eq!(script.net.end(B).engine.info(id).expect("it lives").state, AssociationState::Established);
        assert!(!attacker.hijack(&mut script, (0, b"")), "with the empty key");
        script.run(1_000);
    }
}

/// Two hosts that share a key can change addresses as usual. AUTH chunks name the key by its identifier.
#[test]
fn who_has_the_key_roams() {
    let (mut script, _) = associated([Some(OURS); 2], &[]);
    let now = script.net.now;
    script.net.end(A).engine.add_address(now, net::address(A, 2), 1500);
    script.run(1_000);
    let now = script.net.now;
    script.net.end(A).engine.remove_address(now, address(1));
    script.run(1_000).send(B, 0, 100).run(1_000);
    script.check(expect![[r#"
        3.035  A.1 ──► B.1   AUTH key=1 hmac=sha1; ASCONF serial=1 from=10.0.1.1 add=10.0.2.1
        3.060          B: key 1: PeerUses
        3.060          B: peer has 10.0.2.1
        3.060  A.1 ◄── B.1   AUTH key=1 hmac=sha1; ASCONF ACK serial=1
        3.060  A.2 ◄── B.2   HEARTBEAT
        3.085          A: key 1: PeerUses
        3.085          A: 10.0.2.1: Added
        3.085  A.1 ──► B.2   HEARTBEAT ACK
        3.110          B: path to 10.0.2.1 is up
        4.035  A.2 ──► B.2   AUTH key=1 hmac=sha1; ASCONF serial=2 from=10.0.2.1 delete=10.0.1.1
        4.060          B: peer gives 10.0.1.1 up
        4.060  A.2 ◄── B.2   AUTH key=1 hmac=sha1; ASCONF ACK serial=2
        4.085          A: 10.0.1.1: Removed
        5.035  A.2 ◄── B.2   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        5.060          A: received sid=0 len=100
        5.060  A.2 ──► B.2   SACK          cum=1 rwnd=64k
    "#]]);
}

/// Key rollover: both hosts accept both keys. Then one host signs with the new key, later the other host does as well,
/// and last the old key is removed.
#[test]
fn keys_are_exchanged_end_by_end() {
    let two = "2 ffeeddccbbaa99887766554433221100";
    let (old, first, last) = (format!("{OURS} active\n{two}"), format!("{OURS}\n{two}"), two.to_owned());
    for (a, b) in [(&old, &old), (&first, &old), (&first, &first), (&last, &first), (&last, &last)] {
        let (mut script, _) = associated([Some(a), Some(b)], &[("auth_chunks", "data")]);
        let now = script.net.now;
        script.net.end(A).engine.add_address(now, net::address(A, 2), 1500);
        script.run(1_000).send(A, 0, 100).send(B, 0, 100).run(1_000);
        script.net.draws_ladder = false;
        let b = script.id(B);
        assert_eq!(
            script.net.end(B).engine.info(b).expect("it lives").paths.len(),
            2,
            "the address is taken"
        );
        assert_eq!((script.app(A).messages, script.app(B).messages), (1, 1));
    }
}

/// RFC 4895 §6.3: B silently discards a chunk that is signed wrongly, or with a key that B does not have. A's new
/// address is not accepted, and the association continues with the old address.
#[test]
fn with_another_key_the_addresses_stay() {
    for keys in [Some("1 ffeeddccbbaa99887766554433221100"), Some("9 00112233445566778899aabbccddeeff"), None]
    {
        let (mut script, _) = associated([keys, Some(OURS)], &[]);
        script.net.draws_ladder = false;
        let now = script.net.now;
        script.net.end(A).engine.add_address(now, net::address(A, 2), 1500);
        for round in 1..=40 {
            script.send(A, 0, 100).send(B, 0, 100).run(5_000);
            assert_eq!((script.app(A).messages, script.app(B).messages), (round, round), "{keys:?}");
        }
        for side in [A, B] {
            let id = script.id(side);
            let info = script.net.end(side).engine.info(id).expect("it lives");
            assert_eq!(info.state, AssociationState::Established);
            assert!(info.paths.iter().all(|path| side == A || path.address == address(1)), "{keys:?}");
        }
    }
}
