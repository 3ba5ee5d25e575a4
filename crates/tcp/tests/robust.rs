//! Tests that no input makes the engine panic, and that the order of polls does not matter.

use crate::common::*;
use anabranch_base::{Ecn, Engine, Icmp, IcmpKind, Instant, Packet, Rng, SendBatch};
use anabranch_tcp::testing::{LEFT, Pair, RIGHT, Side, transmit_all_bytes};
use anabranch_tcp::{Config, Endpoint, Event};
use anabranch_wire::tcp::seal;
use std::net::SocketAddr;

fn packet(side: Side, payload: &[u8], ecn: Ecn) -> Packet<'_> {
    let (source, target) = if side == Right { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
    let (source, target) = (SocketAddr::new(source, 0), SocketAddr::new(target, 0));
    Packet { source, target, ecn, tag: 7, payload }
}

/// The packets of a connection are changed at random and get correct checksums. The engine must not panic.
#[test]
fn mutated_and_random_segments_do_no_harm() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let config = if seed % 2 == 0 { with(&[("ecn", "yes")]) } else { plain() };
        let mut pair = Pair::with(config.clone(), config, seed).silent();
        let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let keep = seen.clone();
        let mut fault_rng = Rng::new(seed + 1000);
        pair.judge(move |_, side, _, bytes| {
            keep.borrow_mut().push((side.other(), bytes.to_vec()));
            if fault_rng.below(10) == 0 {
                anabranch_tcp::testing::Fate::Lose
            } else {
                anabranch_tcp::testing::Fate::Arrive
            }
        });
        pair.open();
        for round in 0..60 {
            pair.write(Left, &pattern(rng.below(4_000) as usize));
            pair.write(Right, &pattern(rng.below(4_000) as usize));
            if round == 40 {
                pair.finish(if rng.below(2) == 0 { Left } else { Right });
            }
            for _ in 0..rng.below(12) {
                pair.step();
            }
            for _ in 0..10 {
                let (side, mut bytes) = {
                    let seen = seen.borrow();
                    seen[rng.below(seen.len() as u64) as usize].clone()
                };
                let changes = 1 + rng.below(4);
                for _ in 0..changes {
                    let place = rng.below(bytes.len().min(64) as u64) as usize;
                    bytes[place] = rng.next_u32() as u8;
                }
                if rng.below(8) == 0 {
                    bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
                }
                if bytes.len() >= 20 {
                    let (source, target) = if side == Right { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
                    seal(&mut bytes, source, target);
                }
                let ecn = Ecn::from_bits(rng.next_u32() as u8);
                let now = pair.now;
                pair.host(side).handle_packet(now, packet(side, &bytes, ecn));
                if rng.below(4) == 0 {
                    let kind = match rng.below(2) {
                        0 => IcmpKind::TooBig(rng.below(2_000) as u32),
                        _ => match rng.below(17) as u8 {
                            16 => IcmpKind::UnknownNextHeader,
                            code => IcmpKind::Unreachable(code),
                        },
                    };
                    let (source, target) = if side == Left { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
                    // The ICMP message quotes the last packet that its receiver sent.
                    let quoted =
                        seen.borrow().iter().rev().find(|(to, _)| *to != side).map(|(_, b)| b.clone());
                    let quoted = quoted.unwrap_or_default();
                    let length = rng.below(quoted.len().min(30) as u64 + 1) as usize;
                    let icmp = Icmp { kind, source, target };
                    pair.host(side).handle_icmp(now, &icmp, &quoted[..length]);
                }
                pair.pump();
                for host in &pair.hosts {
                    host.check_invariants();
                }
            }
        }
        // Packets and ICMP messages of random bytes must not make the engine panic.
        for _ in 0..200 {
            let mut bytes = vec![0; rng.below(100) as usize];
            rng.fill(&mut bytes);
            let now = pair.now;
            pair.host(Right).handle_packet(now, packet(Right, &bytes, Ecn::Ce));
            pair.host(Right).handle_icmp(
                now,
                &Icmp { kind: IcmpKind::TooBig(0), source: RIGHT, target: LEFT },
                &bytes,
            );
        }
        pair.run_until(pair.now + std::time::Duration::from_secs(3));
    }
}

/// A flood of SYNs, and of segments of unknown connections, takes a bounded amount of memory.
#[test]
fn floods_are_bounded() {
    let mut pair = Pair::with(plain(), plain_with(&[("backlog", "8")]), 3).silent();
    pair.judge(|_, _, _, _| anabranch_tcp::testing::Fate::Lose);
    for n in 0..5_000_u32 {
        let header = anabranch_wire::tcp::Header {
            source_port: (1 + n % 60_000) as u16,
            target_port: if n % 2 == 0 { 80 } else { 81 },
            seq: anabranch_wire::tcp::Seq(n),
            flags: anabranch_wire::tcp::Flags::SYN,
            window: 1000,
            ..Default::default()
        };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        seal(&mut bytes, LEFT, RIGHT);
        let now = pair.now;
        pair.host(Right).handle_packet(now, packet(Right, &bytes, Ecn::NotEct));
    }
    assert_eq!(pair.host(Right).connections(), 8);
    let now = pair.now;
    let answers = transmit_all_bytes(pair.host(Right), now).len();
    assert!(answers <= 8 + 1024, "{answers}");
}

/// Runs two endpoints and returns their outputs as lines of text. The seed `order` decides the order in which the
/// packets and events of an endpoint are polled.
fn transcript(config: &Config, order: u64) -> Vec<String> {
    let mut rng = Rng::new(order);
    let mut hosts = [LEFT, RIGHT].map(|ip| Endpoint::new(config.clone(), vec![ip], Rng::new(5)));
    hosts[1].listen(80, 0).expect("free");
    let mut now = Instant::ZERO;
    let id = hosts[0].connect(now, None, SocketAddr::new(RIGHT, 80)).expect("reachable");
    let mut lines = Vec::new();
    let mut other = None;
    let mut in_flight: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut batch = SendBatch::new(1);
    let mut count = 0;
    for round in 0..120 {
        // After each call that may change the state of a side, the outputs of that side are polled in random order.
        let arriving = std::mem::take(&mut in_flight);
        now = now.plus_nanos(10_000_000);
        for (to, bytes) in arriving {
            count += 1;
            if count % 13 == 0 {
                continue;
            }
            let side = if to == 0 { Left } else { Right };
            hosts[to].handle_packet(now, packet(side, &bytes, Ecn::NotEct));
            poll(&mut hosts[to], to, now, &mut rng, &mut batch, &mut in_flight, &mut lines, &mut other);
        }
        for (index, host) in hosts.iter_mut().enumerate() {
            if host.poll_timeout().is_some_and(|at| at <= now) {
                host.handle_timeout(now);
                assert!(host.poll_timeout().is_none_or(|at| at > now), "time moves on");
                poll(host, index, now, &mut rng, &mut batch, &mut in_flight, &mut lines, &mut other);
            }
        }
        if round % 10 == 1 {
            let _ = hosts[0].send(now, id, &pattern(5_000));
            poll(&mut hosts[0], 0, now, &mut rng, &mut batch, &mut in_flight, &mut lines, &mut other);
        }
        if let Some(id) = other {
            let mut scratch = [0; 3_000];
            let got = hosts[1].recv(now, id, &mut scratch);
            lines.push(format!("read {got:?}"));
            poll(&mut hosts[1], 1, now, &mut rng, &mut batch, &mut in_flight, &mut lines, &mut other);
        }
    }
    lines
}

#[expect(clippy::too_many_arguments, reason = "the state of one small test")]
fn poll(
    host: &mut Endpoint,
    index: usize,
    now: Instant,
    rng: &mut Rng,
    batch: &mut SendBatch,
    in_flight: &mut Vec<(usize, Vec<u8>)>,
    lines: &mut Vec<String>,
    other: &mut Option<anabranch_tcp::ConnectionId>,
) {
    let (mut events, mut packets) = (Vec::new(), Vec::new());
    let (mut no_event, mut no_packet) = (false, false);
    while !(no_event && no_packet) {
        match rng.below(3) {
            0 => match host.poll_event() {
                Some(event) => {
                    if let Event::Accepted { id, .. } = event {
                        *other = Some(id);
                    }
                    events.push(format!("{now} {index} {event:?}"));
                }
                None => no_event = true,
            },
            1 => {
                batch.clear();
                if host.poll_transmit(now, batch) {
                    packets.push(batch.bytes().to_vec());
                } else {
                    no_packet = true;
                }
            }
            _ => {
                let _ = host.poll_timeout();
            }
        }
    }
    lines.append(&mut events);
    for bytes in packets {
        lines.push(format!("{now} {index} {bytes:?}"));
        in_flight.push((1 - index, bytes));
    }
}

/// The first guarantee of `Engine`: between two calls that change the state, the polls may come in any order.
#[test]
fn the_order_of_polls_does_not_matter() {
    for config in [plain(), with(&[]), with(&[("rcvbuf", "4000B"), ("nagle", "no"), ("sndbuf", "20kB")])] {
        let first = transcript(&config, 1);
        assert!(first.len() > 100, "{}", first.len());
        for order in 2..30 {
            let other = transcript(&config, order);
            let differs = first.iter().zip(&other).position(|(a, b)| a != b);
            assert!(differs.is_none() && first.len() == other.len(), "order {order} differs at {differs:?}");
        }
    }
}
