//! Two SCTP stacks without UDP share a loopback address. Each stack receives the packets of both stacks.

use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use anabranch_sctp::testing::transmit_all_bytes;
use anabranch_sctp::{Config, Endpoint};
use anabranch_wire::sctp::*;
use std::net::SocketAddr;

/// Returns the number of packets with which an endpoint without listeners answers a packet with `chunk`.
fn answers(source: &str, target: &str, tag: u32, chunk: impl Fn(&mut Vec<u8>)) -> usize {
    let (source, target): (SocketAddr, SocketAddr) =
        (source.parse().expect("an address"), target.parse().expect("an address"));
    let mut endpoint = Endpoint::new(Config::default(), vec![target], Rng::new(1));
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, 40_000, 80, tag);
    chunk(&mut bytes);
    packet::finish(&mut bytes, start);
    let now = Instant::from_millis(1);
    endpoint.handle_packet(now, Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &bytes });
    transmit_all_bytes(&mut endpoint, now).len()
}

/// RFC 9260 §8.4: a packet that belongs to no association of this stack is answered, unless another stack on this host
/// may own the association.
#[test]
fn nobody_answers_for_another_on_the_same_address() {
    let init = |bytes: &mut Vec<u8>| {
        Init {
            tag: 5,
            window: 9_000,
            outbound_streams: 1,
            inbound_streams: 1,
            tsn: Tsn(1),
            ..Init::default()
        }
        .emit(bytes);
    };
    let data = |bytes: &mut Vec<u8>| {
        Data { tsn: Tsn(9), begin: true, end: true, payload: b"not ours", ..Data::default() }.emit(bytes);
    };
    for (source, target, wanted) in [
        ("[::1]:0", "[::1]:0", 0),
        ("127.0.0.1:0", "127.0.0.1:0", 0),
        // With UDP encapsulation, no other stack can own the association, because a UDP port belongs to a single
        // program.
        ("[::1]:40000", "[::1]:9899", 1),
        ("127.0.0.2:0", "127.0.0.1:0", 1),
        ("[fd00::2]:0", "[fd00::1]:0", 1),
        // The source and target address are equal, but they are not a loopback address. So the packet cannot be meant
        // for another stack, and is answered.
        ("[fd00::1]:0", "[fd00::1]:0", 1),
    ] {
        assert_eq!(answers(source, target, 0, init), wanted, "INIT from {source} to {target}");
        assert_eq!(answers(source, target, 0xdead, data), wanted, "DATA from {source} to {target}");
    }
}
