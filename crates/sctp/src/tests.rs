//! Tests of two endpoints that a [`Pair`] connects.

use crate::testing::{Pair, Side, address, transmit_all};
use crate::{Associate, AssociationId, Config, Event, Message};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Rng};
use std::collections::BTreeMap;

/// Starts an association from A to port 80 of B and runs until it is established on both sides.
fn connect(pair: &mut Pair, paths: usize) -> (AssociationId, AssociationId) {
    pair.b.listen(80).expect("a free port");
    let peer = (0..paths).map(|path| address(Side::B, path)).collect();
    let now = pair.now;
    let ask = Associate { peer, peer_port: 80, local_port: None, streams: None };
    let a = pair.a.associate(now, ask).expect("a route");
    let mut b = None;
    let mut up = false;
    let until = pair.now + Duration::from_secs(300);
    let done = pair.run(until, |pair| {
        for event in pair.events(Side::B) {
            if let Event::Accepted { id, .. } = event {
                b = Some(id);
            }
        }
        up |= pair.events(Side::A).iter().any(|event| matches!(event, Event::Established { .. }));
        up && b.is_some()
    });
    assert!(done, "no association");
    (a, b.expect("accepted"))
}

/// Reads the messages that a side receives, and puts their parts together.
#[derive(Default)]
struct Reader {
    partial: BTreeMap<u16, Vec<u8>>,
    whole: Vec<(u16, bool, Vec<u8>)>,
}

impl Reader {
    fn read(&mut self, pair: &mut Pair, side: Side, id: AssociationId, stream: u16) {
        let now = pair.now;
        let mut buffer = [0; 4000];
        while let Ok(Some(received)) = pair.endpoint(side).recv(now, id, stream, &mut buffer) {
            let so_far = self.partial.entry(stream).or_default();
            so_far.extend_from_slice(&buffer[..received.bytes]);
            if received.end_of_message {
                self.whole.push((stream, received.unordered, std::mem::take(so_far)));
            }
        }
    }
}

#[test]
fn a_message_goes_there_and_the_association_closes() {
    let mut pair = Pair::new(Config::default(), Config::default(), 1, 1);
    let (a, b) = connect(&mut pair, 1);
    let now = pair.now;
    pair.a.send(now, a, Message { stream: 3, ppid: 63, ..Message::default() }, b"hello").expect("room");
    pair.a.shutdown(now, a);
    let mut reader = Reader::default();
    let mut closed = 0;
    let until = pair.now + Duration::from_secs(10);
    let done = pair.run(until, |pair| {
        for event in pair.events(Side::B) {
            match event {
                Event::Readable { stream, .. } => reader.read(pair, Side::B, b, stream),
                Event::Closed { reason, .. } => {
                    assert_eq!(reason, crate::CloseReason::Shutdown);
                    closed += 1;
                }
                _ => {}
            }
        }
        closed += pair.events(Side::A).iter().filter(|e| matches!(e, Event::Closed { .. })).count();
        closed == 2
    });
    assert!(done);
    assert_eq!(reader.whole, [(3, false, b"hello".to_vec())]);
    assert_eq!(pair.a.totals().associations, 1);
    assert_eq!(pair.a.totals().sum.data_sent, 1);
    assert!(pair.a.poll_timeout().is_none() || pair.a.stats(a).is_none());
}

/// The side that sends, the association, and the messages that the side sends.
type Plan = (Side, AssociationId, Vec<(Message, Vec<u8>)>);

/// Checks that all messages that both sides send arrive exactly once, whole, and in order per stream.
fn storm(seed: u64, paths: usize, shape: impl FnOnce(&mut Pair, &mut Config)) {
    let mut rng = Rng::new(seed ^ 0x5707);
    let mut config = Config::default();
    if rng.below(2) == 0 {
        config.set("rcvbuf", "20kB").expect("a size");
    }
    if rng.below(3) == 0 {
        config.set("scheduler", "rr").expect("a scheduler");
    }
    if rng.below(3) == 0 {
        config.set("nagle", "yes").expect("yes");
    }
    if rng.below(3) == 0 {
        config.set("cc", "cubic").expect("cubic");
    }
    config.set("assoc_max_retrans", "1000").expect("a number");
    config.set("init_max_retrans", "100").expect("a number");
    config.set("rto_max", "4s").expect("a time");
    let mut pair = Pair::new(config.clone(), config.clone(), paths, seed);
    shape(&mut pair, &mut config);
    let (a, b) = connect(&mut pair, paths);
    let mut plans: Vec<Plan> = Vec::new();
    for (side, id) in [(Side::A, a), (Side::B, b)] {
        let plan = (0..60)
            .map(|n| {
                let size = match rng.below(4) {
                    0 => 1 + rng.below(50_000),
                    1 => 1 + rng.below(5_000),
                    _ => 1 + rng.below(200),
                };
                let mut payload = vec![0; size as usize];
                rng.fill(&mut payload);
                payload[0] = n as u8;
                let message = Message {
                    stream: rng.below(5) as u16,
                    ppid: n,
                    unordered: rng.below(5) == 0,
                    immediate: rng.below(10) == 0,
                    ..Message::default()
                };
                (message, payload)
            })
            .collect();
        plans.push((side, id, plan));
    }
    let mut at = [0; 2];
    let mut readers = [Reader::default(), Reader::default()];
    let until = pair.now + Duration::from_secs(4000);
    let done = pair.run(until, |pair| {
        for (i, (side, id, plan)) in plans.iter().enumerate() {
            while at[i] < plan.len() {
                let (message, payload) = &plan[at[i]];
                let now = pair.now;
                match pair.endpoint(*side).send(now, *id, *message, payload) {
                    Ok(()) => at[i] += 1,
                    Err(crate::SendError::Full) => break,
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            for event in pair.events(*side) {
                match event {
                    Event::Readable { stream, .. } => readers[i].read(pair, *side, *id, stream),
                    Event::Closed { reason, .. } => panic!("seed {seed}: closed: {reason:?}"),
                    _ => {}
                }
            }
        }
        readers.iter().all(|reader| reader.whole.len() == 60)
    });
    let counts = [readers[0].whole.len(), readers[1].whole.len()];
    assert!(
        done,
        "seed {seed}: {counts:?} messages at {}: {:?} {:?}",
        pair.now,
        pair.a.info(a),
        pair.b.info(b)
    );
    for (i, (_, _, plan)) in plans.iter().enumerate() {
        let got = &readers[1 - i].whole;
        for stream in 0..5 {
            let want: Vec<_> =
                plan.iter().filter(|(m, _)| m.stream == stream && !m.unordered).map(|(_, p)| p).collect();
            let have: Vec<_> = got.iter().filter(|m| m.0 == stream && !m.1).map(|m| &m.2).collect();
            assert!(want == have, "seed {seed}: stream {stream}");
        }
        let mut want: Vec<_> = plan.iter().filter(|(m, _)| m.unordered).map(|(_, p)| p).collect();
        let mut have: Vec<_> = got.iter().filter(|m| m.1).map(|m| &m.2).collect();
        want.sort();
        have.sort();
        assert!(want == have, "seed {seed}: unordered");
    }
    // Neither side has buffered or outstanding data after all data is acknowledged.
    let quiet = pair.now + Duration::from_secs(60);
    pair.run(quiet, |_| false);
    for info in [pair.a.info(a), pair.b.info(b)].into_iter().flatten() {
        assert_eq!((info.outstanding, info.buffered), (0, 0), "seed {seed}");
        assert!(info.paths.iter().all(|path| path.flight == 0), "seed {seed}: {info:?}");
    }
    let now: Instant = pair.now;
    pair.a.shutdown(now, a);
    let mut closed = [false; 2];
    let until = pair.now + Duration::from_secs(600);
    let done = pair.run(until, |pair| {
        for (i, side) in [Side::A, Side::B].into_iter().enumerate() {
            closed[i] |= pair.events(side).iter().any(|event| matches!(event, Event::Closed { .. }));
        }
        closed == [true, true]
    });
    assert!(done, "seed {seed}: no end");
}

#[test]
fn storms_on_one_path() {
    for seed in 0..60 {
        storm(seed, 1, |pair, _| {
            let mut rng = Rng::new(seed);
            let percent = |n: u64| anabranch_base::Ratio::new(n, 100).expect("a share");
            pair.network.loss = percent(rng.below(31));
            if rng.below(2) == 0 {
                pair.network.jitter = Duration::from_millis(rng.below(20));
            }
            pair.network.duplicate = percent(rng.below(2) * rng.below(10));
            pair.network.corrupt = percent(rng.below(2) * rng.below(5));
        });
    }
}

#[test]
fn storms_on_two_paths_with_outages() {
    for seed in 100..140 {
        storm(seed, 2, |pair, _| {
            let mut rng = Rng::new(seed);
            pair.network.loss = anabranch_base::Ratio::new(rng.below(20), 100).expect("a share");
            pair.network.jitter = Duration::from_millis(rng.below(10));
            // The failing path is chosen anew every 300 packets. Sometimes both paths work, but they never fail at the
            // same time.
            let mut count = 0_u64;
            let mut dead = 2;
            pair.lose = Some(Box::new(move |_, path, _| {
                count += 1;
                if count.is_multiple_of(300) {
                    dead = rng.below(3) as usize;
                }
                path == dead
            }));
        });
    }
}

/// RFC 9260 §6.4.1, §8.2: the primary path fails during a transfer. The transfer continues on the other path. When the
/// primary path works again, data returns to it.
#[test]
fn failover_and_failback() {
    let mut config = Config::default();
    config.set("hb_interval", "2s").expect("a time");
    config.set("path_max_retrans", "2").expect("a number");
    let mut pair = Pair::new(config.clone(), config, 2, 7);
    let (a, b) = connect(&mut pair, 2);
    let mut reader = Reader::default();
    let (mut down, mut up) = (None, None);
    let mut sent = 0_u32;
    let start = pair.now;
    let until = start + Duration::from_secs(60);
    pair.run(until, |pair| {
        let elapsed = pair.now - start;
        pair.network.cut = if (Duration::from_secs(5)..Duration::from_secs(25)).contains(&elapsed) {
            vec![0]
        } else {
            vec![]
        };
        let now = pair.now;
        // Send one message about every 10 ms.
        if u128::from(sent) * 10 < elapsed.as_millis() {
            let payload = [sent.to_be_bytes().as_slice(), &[7; 400]].concat();
            if pair.a.send(now, a, Message::default(), &payload).is_ok() {
                sent += 1;
            }
        }
        for event in pair.events(Side::A) {
            match event {
                Event::PathDown { path: 0, .. } => down = Some(elapsed),
                Event::PathUp { path: 0, .. } => up = Some(elapsed),
                Event::Closed { reason, .. } => panic!("{reason:?}"),
                _ => {}
            }
        }
        for event in pair.events(Side::B) {
            if let Event::Readable { stream, .. } = event {
                reader.read(pair, Side::B, b, stream);
            }
        }
        false
    });
    // The network cuts the path at 5 s. The path fails at the third timeout in a row, which is 1 + 2 + 4 = 7 s later.
    let down = down.expect("the path was found dead");
    assert!((Duration::from_secs(11)..Duration::from_secs(14)).contains(&down), "{down:?}");
    let up = up.expect("the path came back");
    assert!(up > Duration::from_secs(25), "{up:?}");
    let states: Vec<_> = pair.a.totals().path_changes.iter().map(|change| change.state).collect();
    assert_eq!(states, [crate::PathState::Inactive, crate::PathState::Active]);
    assert!(reader.whole.len() > 3000, "{}", reader.whole.len());
    for (i, (_, _, payload)) in reader.whole.iter().enumerate() {
        assert_eq!(payload[..4], (i as u32).to_be_bytes());
    }
    let info = pair.a.info(a).expect("alive");
    assert!(info.paths[0].primary && info.paths[0].state == crate::PathState::Active);
}

/// RFC 9260 §6.4.1, RFC 7829 §3: a HEARTBEAT times out before T3-rtx of the data on the same path expires. The data is
/// then retransmitted on the other path at once, without waiting for T3-rtx.
#[test]
fn data_leaves_a_path_whose_heartbeat_is_not_answered() {
    let mut config = Config::profile("modern").expect("a profile");
    config.set("hb_interval", "1s").expect("a time");
    let mut pair = Pair::new(config.clone(), config, 2, 3);
    let (a, b) = connect(&mut pair, 2);
    // Wait until both paths are verified and have an RTT sample.
    for _ in 0..10 {
        pair.settle();
        pair.events(Side::A);
    }
    let heartbeats = |pair: &Pair| pair.a.info(a).expect("alive").paths[0].stats.heartbeats_sent;
    let before = heartbeats(&pair);
    pair.network.cut = vec![0];
    let until = pair.now + Duration::from_secs(10);
    assert!(pair.run(until, |pair| heartbeats(pair) > before), "a HEARTBEAT");
    // The data is sent 100 ms after the HEARTBEAT, so T3-rtx expires after the timer of the HEARTBEAT.
    let begun = pair.now;
    let wait = begun + Duration::from_millis(100);
    pair.run(wait, |_| false);
    pair.a.send(pair.now, a, Message::default(), &[7; 500]).expect("room");
    let mut suspected = None;
    let until = pair.now + Duration::from_secs(10);
    let arrived = pair.run(until, |pair| {
        let is_it = |event: &Event| matches!(event, Event::PathPotentiallyFailed { path: 0, .. });
        if pair.events(Side::A).iter().any(is_it) {
            suspected = Some(pair.now);
        }
        pair.b.readable_bytes(b, 0) > 0
    });
    assert!(arrived, "the data");
    let suspected = suspected.expect("the path is suspected");
    assert_eq!(pair.now - suspected, pair.network.delay, "one way on the other path");
    assert_eq!(pair.a.stats(a).expect("alive").t3_expirations, 0, "the HEARTBEAT has shown it");
}

/// After associations have ended, the bytes sent on each of their paths are still known. The counters are summed over
/// the associations.
#[test]
fn totals_keep_the_bytes_of_the_paths_of_ended_associations() {
    let mut pair = Pair::new(Config::default(), Config::default(), 2, 1);
    let bytes = |pair: &Pair| {
        let of = |path: &crate::PathInfo| (path.address, path.stats.bytes_acked, path.stats.bytes_received);
        pair.a.totals().paths.iter().map(of).collect::<Vec<_>>()
    };
    let (first, _) = connect(&mut pair, 2);
    let mut before = Vec::new();
    for association in 0..2 {
        let id = match association {
            0 => first,
            _ => {
                let peer = (0..2).map(|path| address(Side::B, path)).collect();
                let ask = Associate { peer, peer_port: 80, local_port: None, streams: None };
                pair.a.associate(pair.now, ask).expect("a route")
            }
        };
        pair.settle();
        pair.a.send(pair.now, id, Message::default(), &[7; 5_000]).expect("room");
        pair.settle();
        let alive = bytes(&pair);
        pair.a.abort(pair.now, id);
        assert_eq!((pair.a.info(id), bytes(&pair)), (None, alive.clone()), "what ended is not forgotten");
        let addresses = [0, 1].map(|path| address(Side::B, path).ip());
        assert_eq!(alive.iter().map(|path| path.0).collect::<Vec<_>>(), addresses);
        let acked: u64 = alive.iter().map(|path| path.1).sum();
        assert!((5_000..6_000).contains(&(acked / (association + 1))), "{alive:?}");
        for (now, then) in alive.iter().zip(&before) {
            let (now, then): (&(_, u64, u64), &(_, u64, u64)) = (now, then);
            assert!(now.1 >= then.1 && now.2 > then.2, "{now:?} after {then:?}");
        }
        before = alive;
    }
}

/// Random and mutated packets never cause a panic, whatever the state of the association. A mutated packet with a
/// wrong checksum has no effect.
#[test]
fn mutated_packets_never_panic() {
    use anabranch_wire::sctp::crc32c;
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut config =
            Config::profile(crate::PROFILES[seed as usize % crate::PROFILES.len()]).expect("a profile");
        config.set("ecn", "yes").expect("yes");
        config.set("rcvbuf", "9000B").expect("a size");
        let mut pair = Pair::new(config.clone(), config, 2, seed);
        pair.b.listen(80).expect("free");
        let now = pair.now;
        let ask = Associate::to(address(Side::B, 0), 80);
        let a = pair.a.associate(now, ask).expect("a route");
        let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::<(Side, Vec<u8>)>::new()));
        let log = seen.clone();
        pair.observer = Some(Box::new(move |_, side, packet, _| {
            let mut log = log.borrow_mut();
            if log.len() < 400 {
                log.push((side, packet.to_vec()));
            }
        }));
        pair.network.loss = anabranch_base::Ratio::new(1, 10).expect("a share");
        let mut ids = [Some(a), None];
        for round in 0..400 {
            let until = pair.now + Duration::from_millis(rng.below(200));
            pair.step(until);
            for (i, side) in [Side::A, Side::B].into_iter().enumerate() {
                for event in pair.events(side) {
                    match event {
                        Event::Accepted { id, .. } => ids[i] = Some(id),
                        Event::Readable { id, stream } => {
                            let now = pair.now;
                            let mut buffer = [0; 100];
                            let _ = pair.endpoint(side).recv(now, id, stream, &mut buffer);
                        }
                        Event::Closed { .. } => ids[i] = None,
                        _ => {}
                    }
                }
                let now = pair.now;
                if let Some(id) = ids[i] {
                    let payload = vec![1; 1 + rng.below(6000) as usize];
                    let stream = rng.below(120) as u16;
                    let message = Message { stream, unordered: round % 3 == 0, ..Message::default() };
                    let _ = pair.endpoint(side).send(now, id, message, &payload);
                    if rng.below(150) == 0 {
                        pair.endpoint(side).shutdown(now, id);
                    }
                } else if i == 0 && rng.below(20) == 0 {
                    ids[0] = pair.a.associate(now, Associate::to(address(Side::B, 0), 80)).ok();
                }
            }
            let log = seen.borrow();
            if log.is_empty() {
                continue;
            }
            let (from, mut packet) = log[rng.below(log.len() as u64) as usize].clone();
            drop(log);
            for _ in 0..rng.below(4) {
                // Most mutations are after the common header, so that the verification tag stays right.
                let at = if rng.below(10) == 0 { 0 } else { 12.min(packet.len() - 1) };
                let at = at + rng.below((packet.len() - at) as u64) as usize;
                match rng.below(4) {
                    0 => packet[at] = rng.next_u32() as u8,
                    1 => packet[at] ^= 1 << rng.below(8),
                    2 => packet.truncate(at.max(12)),
                    _ => packet[at] = [0, 1, 3, 4, 6, 7, 9, 10, 0xff, 0xc0, 0x80][rng.below(11) as usize],
                }
            }
            if rng.below(20) == 0 {
                packet.resize(12 + rng.below(300) as usize, 0);
                let (_, body) = packet.split_at_mut(12);
                rng.fill(body);
            }
            if packet.len() >= 12 {
                crc32c::put(&mut packet);
            }
            let now = pair.now;
            let path = rng.below(2) as usize;
            let to = from.other();
            let arriving = anabranch_base::Packet {
                source: address(from, path),
                target: address(to, path),
                ecn: anabranch_base::Ecn::from_bits(rng.below(4) as u8),
                tag: 0,
                payload: &packet,
            };
            pair.endpoint(to).handle_packet(now, arriving);
            if rng.below(10) == 0 {
                let kind = match rng.below(2) {
                    0 => anabranch_base::IcmpKind::TooBig(rng.below(2000) as u32),
                    _ => match rng.below(6) as u8 {
                        5 => anabranch_base::IcmpKind::UnknownNextHeader,
                        code => anabranch_base::IcmpKind::Unreachable(code),
                    },
                };
                let report = anabranch_base::Icmp {
                    kind,
                    source: address(from, path).ip(),
                    target: address(to, path).ip(),
                };
                pair.endpoint(from).handle_icmp(now, &report, &packet);
            }
        }
    }
}

/// RFC 9260 §6.1 D: Max.Burst limits the packets of one burst. A real clock may stand still while a burst is sent,
/// arrives and is acknowledged. The next burst is then sent at the same instant.
#[test]
fn a_clock_that_stands_still_does_not_stop_the_sender() {
    use crate::Endpoint;
    use std::net::SocketAddr;

    let addresses = [1, 2].map(|n| SocketAddr::from(([10, 0, 0, n], 0)));
    let mut ends = addresses.map(|a| Endpoint::new(Config::default(), vec![a], Rng::new(1)));
    let now = Instant::ZERO;
    ends[1].listen(80).expect("free");
    let id = ends[0].associate(now, Associate::to(addresses[1], 80)).expect("begun");
    for _ in 0..40 {
        ends[0].send(now, id, Message::default(), &[7; 1400]).expect("room");
    }
    for _ in 0..100 {
        for from in [0, 1] {
            for packet in transmit_all(&mut ends[from], now) {
                ends[1 - from].handle_packet(now, packet.packet());
            }
        }
    }
    assert_eq!(ends[0].stats(id).expect("alive").data_sent, 40);
}

/// RFC 6056 §2: the port of one association reveals nothing about the port of the next association. All concurrent
/// associations have different ports.
#[test]
fn local_ports_do_not_follow_each_other() {
    let mut pair = Pair::new(Config::default(), Config::default(), 1, 1);
    let mut ports = Vec::new();
    for _ in 0..200 {
        let id = pair.a.associate(pair.now, Associate::to(address(Side::B, 0), 80)).expect("a port is free");
        ports.push(pair.a.info(id).expect("it is begun").local_port);
    }
    let near = ports.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 8).count();
    assert!(near < 5, "{near} of 200 ports lie beside the one before: {ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 200, "each has its own");
}

/// A congestion controller for this test. It has a large congestion window and a fixed pacing rate, and records the
/// packets that were sent.
#[derive(Debug, Default)]
struct FixedRate(std::sync::Arc<std::sync::Mutex<Vec<(Instant, u64)>>>);

impl anabranch_congestion::Controller for FixedRate {
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.0.lock().expect("one thread").push((now, bytes));
    }
    fn pacing_rate(&self) -> Option<anabranch_base::BitRate> {
        anabranch_base::BitRate::from_bits_per_second(1_000_000)
    }
    fn on_acked(&mut self, _: Instant, _: anabranch_congestion::Acked) {}
    fn on_loss(&mut self, _: Instant, _: u64, _: bool) {}
    fn on_timeout(&mut self, _: Instant, _: u64) {}
    fn on_idle(&mut self, _: Duration, _: Duration) {}
    fn leave_slow_start(&mut self) {}
    fn set_mss(&mut self, _: u64) {}
    fn window(&self) -> u64 {
        1 << 20
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
    fn name(&self) -> &'static str {
        "fixed"
    }
}

/// A congestion controller is informed of every packet that is sent, and packets are sent at its rate.
#[test]
fn a_controller_sees_what_leaves_and_sets_the_pace() {
    let addresses = [1, 2].map(|n| std::net::SocketAddr::from(([10, 0, 0, n], 0)));
    let mut ends = addresses.map(|a| crate::Endpoint::new(Config::default(), vec![a], Rng::new(1)));
    let mut now = Instant::ZERO;
    ends[1].listen(80).expect("free");
    let id = ends[0].associate(now, Associate::to(addresses[1], 80)).expect("begun");
    let exchange = |ends: &mut [crate::Endpoint; 2], now| {
        for from in [0, 1, 0, 1, 0, 1] {
            ends[from].handle_timeout(now);
            for packet in transmit_all(&mut ends[from], now) {
                ends[1 - from].handle_packet(now, packet.packet());
            }
        }
    };
    exchange(&mut ends, now);
    let controller = FixedRate::default();
    let sent = controller.0.clone();
    let association =
        ends[0].slots.iter_mut().find_map(|slot| slot.association.as_mut()).expect("it is open");
    let controller = anabranch_congestion::Algorithm::Other(Box::new(controller));
    association.use_controller(0, controller);
    for _ in 0..60 {
        ends[0].send(now, id, Message::default(), &[7; 1000]).expect("there is room");
    }
    let before = ends[0].stats(id).expect("it lives").data_sent;
    for _ in 0..1_000 {
        exchange(&mut ends, now);
        if sent.lock().expect("one thread").len() == 60 {
            break;
        }
        now = ends.iter().filter_map(Engine::poll_timeout).min().expect("data waits").max(now);
    }
    assert_eq!(ends[0].stats(id).expect("it lives").data_sent - before, 60);
    let sent = sent.lock().expect("one thread").clone();
    let (first, last) = (sent[0].0, sent[sent.len() - 1].0);
    let bytes: u64 = sent.iter().map(|(_, bytes)| bytes).sum();
    // At 1 Mbit/s a byte takes 8 us. The first ten packets may be sent at once, and `took` ends when the last packet
    // starts. So `took` may be too short by the time of 11 packets, and the test allows 12 packets.
    let took = last.since(first).as_micros() as u64;
    assert!(took <= 8 * bytes && took + 8 * 12 * 1_500 >= 8 * bytes, "{took} us for {bytes} bytes");
}

/// RFC 4895 §6.2: a HEARTBEAT leaves no room in its packet for a lost DATA chunk that must be authenticated. The
/// HEARTBEAT is sent first, in a small packet of its own, and the DATA follows in the next packet.
#[test]
fn a_heartbeat_before_a_whole_packet_of_lost_data() {
    let mut config = Config::default();
    config.set("auth", "yes").expect("a switch");
    config.set("auth_chunks", "data").expect("chunks");
    let (mut pair, id, _) = Pair::associated(&config);
    pair.network.cut = vec![0];
    pair.a.send(pair.now, id, Message::default(), &[7; 5_000]).expect("there is room");
    pair.flush(Side::A);
    let path = address(Side::B, 0).ip();
    let after_a_timer = |pair: &mut Pair| {
        let at = pair.a.poll_timeout().expect("a timer runs");
        pair.a.handle_timeout(at);
        pair.a.request_heartbeats(at, id, Some(path));
        transmit_all(&mut pair.a, at).iter().map(|packet| packet.bytes.len()).collect::<Vec<_>>()
    };
    let sizes: Vec<_> = (0..6).map(|_| after_a_timer(&mut pair)).collect();
    assert!(
        sizes.iter().any(|sizes| sizes[0] < 60 && sizes[1..].iter().any(|&size| size > 1_000)),
        "{sizes:?}"
    );
}
