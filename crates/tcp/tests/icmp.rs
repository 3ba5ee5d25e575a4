//! Tests of ICMP messages (RFC 9293 §3.9.2.2, RFC 5927), of the user timeout, and of IPv6.

use crate::common::*;
use anabranch_base::{Engine, IcmpKind, Instant, Rng};
use anabranch_tcp::testing::{Fate, Pair, transmit_all};
use anabranch_tcp::{CloseReason, Endpoint, Event};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Returns a cell that always holds the last packet sent by the left side. If `lose` is set, all packets of both sides
/// are lost.
fn remember(pair: &mut Pair, lose: bool) -> Rc<RefCell<Vec<u8>>> {
    let last = Rc::new(RefCell::new(Vec::new()));
    let keep = last.clone();
    pair.judge(move |_, side, _, bytes| {
        if side == Left {
            *keep.borrow_mut() = bytes.to_vec();
        }
        if lose { Fate::Lose } else { Fate::Arrive }
    });
    last
}

fn closed(pair: &Pair) -> Option<CloseReason> {
    pair.events.iter().find_map(|(_, _, event)| match event {
        Event::Closed { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// RFC 9293 §3.9.2.2: an ICMP message with a hard error ends a connection whose handshake is not complete.
#[test]
fn a_hard_error_ends_an_attempt() {
    let mut pair = Pair::new(&plain());
    let last = remember(&mut pair, true);
    pair.connect();
    let quoted = last.borrow()[..8].to_vec();
    pair.icmp(Left, IcmpKind::Unreachable(3), &quoted);
    assert_eq!(closed(&pair), Some(CloseReason::Unreachable(3)));
}

/// An ICMP message with a soft error does not end a connection attempt. If the attempt later times out, the soft error
/// is reported as the reason.
#[test]
fn a_soft_error_is_remembered() {
    let mut pair = Pair::new(&plain_with(&[("syn_retries", "1")]));
    let last = remember(&mut pair, true);
    pair.connect();
    let quoted = last.borrow()[..8].to_vec();
    pair.icmp(Left, IcmpKind::Unreachable(1), &quoted);
    assert_eq!(closed(&pair), None);
    pair.run_to_end(at(60_000));
    assert_eq!(closed(&pair), Some(CloseReason::Unreachable(1)));
}

/// RFC 5927 §4, §5.2: ICMP messages do not end an open connection. A message is ignored if the data that it quotes is
/// not in flight.
#[test]
fn an_open_connection_takes_no_harm() {
    let mut pair = opened(&plain());
    let last = remember(&mut pair, false);
    pair.write(Left, b"data");
    let quoted = last.borrow()[..8].to_vec();
    pair.icmp(Left, IcmpKind::Unreachable(3), &quoted);
    pair.settle();
    // The quoted data is already acknowledged, so it is not in flight.
    pair.icmp(Left, IcmpKind::TooBig(600), &quoted);
    assert_eq!(closed(&pair), None);
    assert_eq!(pair.received[1], b"data");
    assert_eq!(pair.info(Left).mss, 1000);
}

/// The user timeout ends a connection whose peer does not answer, before the number of retries is used up.
#[test]
fn user_timeout() {
    let mut pair = opened(&plain_with(&[("user_timeout", "5s")]));
    let _ = remember(&mut pair, true);
    pair.write(Left, b"data");
    pair.run_to_end(at(600_000));
    assert_eq!(closed(&pair), Some(CloseReason::TimedOut));
    assert!(pair.now < at(8_000));
}

/// A connection over IPv6 uses the pseudo-header of IPv6, and an MSS of 1440.
#[test]
fn over_ipv6() {
    let ips: [IpAddr; 2] = ["2001:db8::1".parse().expect("v6"), "2001:db8::2".parse().expect("v6")];
    let mut hosts = ips.map(|ip| Endpoint::new(with(&[("timestamps", "no")]), vec![ip], Rng::new(3)));
    hosts[1].listen(80, 0).expect("free");
    let now = Instant::ZERO;
    let id = hosts[0].connect(now, None, SocketAddr::new(ips[1], 80)).expect("reachable");
    hosts[0].send(now, id, &pattern(5_000)).expect("open");
    let mut got = Vec::new();
    for _ in 0..20 {
        for turn in 0..2 {
            for packet in transmit_all(&mut hosts[turn], now) {
                assert!(packet.source.is_ipv6() && packet.source.port() == 0);
                hosts[1 - turn].handle_packet(now, packet.packet());
            }
        }
        while let Some(event) = hosts[1].poll_event() {
            if let Event::Readable { id } = event {
                let mut buffer = [0; 10_000];
                let count = hosts[1].recv(now, id, &mut buffer).expect("open");
                got.extend_from_slice(&buffer[..count]);
            }
        }
    }
    assert_eq!(got, pattern(5_000));
    assert_eq!(hosts[0].info(id).expect("open").mss, 1440);
}
