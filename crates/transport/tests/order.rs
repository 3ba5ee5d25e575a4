//! Tests, for the TCP engine and the SCTP engine, the two guarantees of `Engine` on which the drive loop relies. First,
//! the order of the polls between two calls that change the engine affects neither packets nor events. Second, once no
//! poll returns anything more, the engine's deadline is in the future.

use anabranch_base::time::Duration;
use anabranch_base::units::Ratio;
use anabranch_base::{Engine, Instant, Packet, Rng, SendBatch};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

/// The output of an engine: its packets with their times, and its events in order.
#[derive(Default, PartialEq, Eq, Debug)]
struct Log {
    packets: Vec<(Instant, Vec<u8>)>,
    events: Vec<String>,
}

struct PacketInFlight {
    to: usize,
    source: SocketAddr,
    target: SocketAddr,
    bytes: Vec<u8>,
}

/// Two engines and the wire between them. The wire loses packets, and reorders them by random delays.
struct Pair<E> {
    engines: [E; 2],
    logs: [Log; 2],
    /// Packets in flight, by arrival time and order of sending.
    wire: BTreeMap<(Instant, u64), PacketInFlight>,
    sent: u64,
    rng: Rng,
    loss: Ratio,
    /// Chooses the order in which packets and events are polled. With `None`, all packets are polled first, and then
    /// all events.
    order: Option<Rng>,
}

impl<E: Engine> Pair<E>
where
    E::Event: Debug + Clone,
{
    /// Polls one engine until it has no packets or events left, and puts its packets on the wire.
    fn drain(&mut self, now: Instant, side: usize) -> Vec<E::Event> {
        let (mut transmitting, mut telling) = (true, true);
        let mut events = Vec::new();
        let mut batch = SendBatch::new(3);
        while transmitting || telling {
            let transmit_first = match &mut self.order {
                Some(order) => order.below(2) == 0,
                None => true,
            };
            let engine = &mut self.engines[side];
            // Reading the engine's deadline must have no effect, so the test reads it at random moments.
            let _ = engine.poll_timeout();
            if transmitting && (transmit_first || !telling) {
                batch.clear();
                transmitting = engine.poll_transmit(now, &mut batch);
                let packets: Vec<_> = batch.segments().map(<[u8]>::to_vec).collect();
                for packet in packets {
                    self.logs[side].packets.push((now, packet.clone()));
                    self.sent += 1;
                    let delay = Duration::from_millis(20) + self.rng.duration_up_to(Duration::from_millis(3));
                    if !self.rng.chance(self.loss) {
                        let (source, target) = (batch.source, batch.target);
                        let entry = PacketInFlight { to: 1 - side, source, target, bytes: packet };
                        self.wire.insert((now + delay, self.sent), entry);
                    }
                }
            } else if telling {
                match engine.poll_event() {
                    Some(event) => {
                        self.logs[side].events.push(format!("{now} {event:?}"));
                        events.push(event);
                    }
                    None => telling = false,
                }
            }
        }
        let deadline = self.engines[side].poll_timeout();
        assert!(deadline.is_none_or(|at| at > now), "a deadline at {deadline:?} is left behind at {now}");
        events
    }

    /// Returns the time of the next arrival or deadline, if it is not after `until`.
    fn next(&self, until: Instant) -> Option<Instant> {
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        let deadlines = self.engines.iter().filter_map(Engine::poll_timeout);
        deadlines.chain(arrival).min().filter(|at| *at <= until)
    }

    /// Processes the next arrival or deadline that is due at `now`. Returns the index of the engine that processed it,
    /// or `None` if nothing is due.
    fn happen(&mut self, now: Instant) -> Option<usize> {
        if let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let PacketInFlight { to: side, source, target, bytes } = entry.remove();
            let ecn = anabranch_base::Ecn::NotEct;
            self.engines[side].handle_packet(now, Packet { source, target, ecn, tag: 0, payload: &bytes });
            return Some(side);
        }
        let due = |engine: &E| engine.poll_timeout().is_some_and(|at| at <= now);
        let side = self.engines.iter().position(due)?;
        self.engines[side].handle_timeout(now);
        Some(side)
    }
}

/// Runs a transfer between two engines. `act` issues commands. It is called once with `None` at the start, and later
/// with each event.
fn play<E: Engine>(
    engines: [E; 2],
    seed: u64,
    order: Option<Rng>,
    mut act: impl FnMut(Instant, usize, &mut E, Option<E::Event>),
) -> [Log; 2]
where
    E::Event: Debug + Clone,
{
    let loss = if seed.is_multiple_of(3) { Ratio::ZERO } else { Ratio::new(seed % 3, 20).expect("a ratio") };
    let mut pair = Pair {
        engines,
        logs: Default::default(),
        wire: BTreeMap::new(),
        sent: 0,
        rng: Rng::new(seed).fork("wire"),
        loss,
        order,
    };
    let mut now = Instant::from_millis(1);
    act(now, 0, &mut pair.engines[0], None);
    let mut side = Some(0);
    for _ in 0..200_000 {
        if let Some(side) = side {
            loop {
                let events = pair.drain(now, side);
                if events.is_empty() {
                    break;
                }
                // Commands change the engine, so they are issued only when no poll returns anything more.
                for event in events {
                    act(now, side, &mut pair.engines[side], Some(event));
                }
            }
        }
        side = pair.happen(now);
        if side.is_none() {
            match pair.next(Instant::from_millis(600_000)) {
                Some(at) => now = at.max(now),
                None => return pair.logs,
            }
        }
    }
    panic!("the engines keep each other busy for ever");
}

const NEAR: [u8; 4] = [10, 0, 0, 1];
const FAR: [u8; 4] = [10, 0, 0, 2];

fn play_tcp(seed: u64, order: Option<Rng>) -> ([Log; 2], usize) {
    use anabranch_tcp::{Config, Endpoint, Event};
    let profile = anabranch_tcp::PROFILES[seed as usize % anabranch_tcp::PROFILES.len()];
    let config = || Config::profile(profile).expect("a profile");
    let engine =
        |ip: [u8; 4], name| Endpoint::new(config(), vec![IpAddr::from(ip)], Rng::new(seed).fork(name));
    let mut server = engine(FAR, "server");
    server.listen(80, 0).expect("listening");
    let (mut left, mut got) = ([3_000usize, 150_000], 0);
    let logs = play([engine(NEAR, "client"), server], seed, order, |now, side, engine, event| {
        let id = match event {
            None => {
                engine.connect(now, None, (FAR, 80).into()).expect("a connection");
                return;
            }
            Some(Event::Closed { .. }) => return,
            Some(
                Event::Connected { id }
                | Event::Accepted { id, .. }
                | Event::Readable { id }
                | Event::Writable { id }
                | Event::Finished { id },
            ) => id,
        };
        let mut buffer = [0; 4_000];
        while let Ok(read @ 1..) = engine.recv(now, id, &mut buffer) {
            got += read;
        }
        while left[side] > 0 {
            let piece = vec![side as u8; left[side].min(2_500)];
            match engine.send(now, id, &piece) {
                Ok(0) | Err(_) => break,
                Ok(taken) => left[side] -= taken,
            }
        }
        if left[side] == 0 {
            engine.finish(now, id);
        }
    });
    (logs, got)
}

/// Returns the size in bytes of the message that is sent when `left` messages remain.
fn size(left: u32) -> usize {
    1 + (left as usize * 997) % 5_000
}

/// Returns the total size in bytes of the messages of both sides.
fn total_bytes() -> usize {
    (1..=3).chain(1..=60).map(size).sum()
}

fn play_sctp(seed: u64, order: Option<Rng>) -> ([Log; 2], usize) {
    use anabranch_sctp::{Associate, Config, Endpoint, Event, Message, Reliability};
    let profile = anabranch_sctp::PROFILES[seed as usize % anabranch_sctp::PROFILES.len()];
    let config = || {
        let mut config = Config::profile(profile).expect("a profile");
        config.partial_reliability = seed % 2 == 1;
        config
    };
    let engine = |ip: [u8; 4], name| Endpoint::new(config(), vec![(ip, 0).into()], Rng::new(seed).fork(name));
    let mut server = engine(FAR, "server");
    server.listen(80).expect("listening");
    let (mut left, mut got) = ([3u32, 60], 0);
    let logs = play([engine(NEAR, "client"), server], seed, order, |now, side, engine, event| {
        let id = match event {
            None => {
                let ask = Associate::to((FAR, 0).into(), 80);
                let _ = engine.associate(now, ask).expect("an association");
                return;
            }
            Some(
                Event::Established { id, .. }
                | Event::Accepted { id, .. }
                | Event::Readable { id, .. }
                | Event::Writable { id },
            ) => id,
            Some(_) => return,
        };
        let mut buffer = [0; 4_000];
        for stream in 0..4 {
            while let Ok(Some(received)) = engine.recv(now, id, stream, &mut buffer) {
                got += received.bytes;
            }
        }
        while left[side] > 0 {
            let stream = (left[side] % 4) as u16;
            let size = size(left[side]);
            // These limits are never reached, so every message arrives. The limits only make the engine keep the state
            // that it needs to abandon messages.
            let reliability = match left[side] % 5 {
                1 => Reliability::Lifetime(Duration::from_secs(60)),
                2 => Reliability::Retransmissions(50),
                _ => Reliability::Full,
            };
            let unordered = left[side].is_multiple_of(7);
            let message = Message { stream, unordered, reliability, ..Message::default() };
            match engine.send(now, id, message, &vec![side as u8; size]) {
                Ok(()) => left[side] -= 1,
                Err(_) => break,
            }
        }
        if got == total_bytes() {
            engine.shutdown(now, id);
        }
    });
    (logs, got)
}

#[test]
fn the_order_of_polls_does_not_matter_to_tcp() {
    for seed in 0..30 {
        let (canonical, got) = play_tcp(seed, None);
        assert_eq!(got, 153_000, "seed {seed}: {:?}", canonical.each_ref().map(|log| &log.events));
        for order in 0..3 {
            let (shuffled, _) = play_tcp(seed, Some(Rng::new(order)));
            assert!(shuffled == canonical, "seed {seed}, order {order}");
        }
    }
}

#[test]
fn the_order_of_polls_does_not_matter_to_sctp() {
    for seed in 0..30 {
        let (canonical, got) = play_sctp(seed, None);
        assert_eq!(got, total_bytes(), "seed {seed}: {:?}", canonical.each_ref().map(|log| &log.events));
        for order in 0..3 {
            let (shuffled, _) = play_sctp(seed, Some(Rng::new(order)));
            assert!(shuffled == canonical, "seed {seed}, order {order}");
        }
    }
}
