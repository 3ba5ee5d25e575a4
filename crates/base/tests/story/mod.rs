//! Runs two engines through a random sequence of events, once with the fast path and once without it. The two logs must
//! be equal.
//!
//! This module has the clock, the network between the engines, and the comparison of the two logs. The network loses,
//! delays, duplicates, marks and damages packets. The tests of an engine include this file, and add the actions of the
//! applications and the values to log.

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Packet, RecvBatch, Rng, SendBatch};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

struct PacketInFlight {
    at: Instant,
    to: usize,
    ends: (SocketAddr, SocketAddr),
    ecn: Ecn,
    tag: u64,
    bytes: Vec<u8>,
}

/// One run with one seed. `A` is the state of the applications at both ends.
pub struct Story<E, A> {
    pub rng: Rng,
    pub now: Instant,
    pub ends: [E; 2],
    pub app: A,
    /// The network that is down in an outage. `Some(net)` drops only packets to `10.0.net.*`, and `None` drops all
    /// packets.
    pub dark_net: Option<u8>,
    in_flight: Vec<PacketInFlight>,
    batch: SendBatch,
    arrived: RecvBatch,
    /// The rates of loss, delay, duplication, ECN marks and damage, in this order. A rate of `n` means one packet in
    /// `n`, and 0 means no packet.
    faults: [u64; 5],
    /// The one-way delay in milliseconds.
    latency: u64,
    /// The end of the current outage.
    dark_until: Instant,
    lines: Vec<String>,
}

pub fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

pub fn one_in(rng: &mut Rng, n: u64) -> bool {
    n > 0 && rng.below(n) == 0
}

pub fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

impl<E: Engine, A> Story<E, A> {
    /// Creates a run with random faults. One run in four is traced.
    pub fn new(mut rng: Rng, mut ends: [E; 2], app: A) -> Self {
        let traced = one_in(&mut rng, 4);
        for end in &mut ends {
            end.set_tracing(traced);
        }
        let kinds: [&[u64]; 5] = [&[0, 0, 200, 40], &[0, 30, 8], &[0, 0, 60], &[0, 50], &[0, 0, 300]];
        let faults = kinds.map(|often| pick(&mut rng, often));
        let batch = SendBatch::new(pick(&mut rng, &[1, 1, 1, 4, 16]));
        Self {
            now: Instant::ZERO,
            ends,
            app,
            dark_net: None,
            in_flight: Vec::new(),
            batch,
            arrived: RecvBatch::new(pick(&mut rng, &[1, 1, 8])),
            faults,
            latency: pick(&mut rng, &[0, 5, 5, 20]),
            dark_until: Instant::ZERO,
            lines: Vec::new(),
            rng,
        }
    }

    pub fn log(&mut self, end: usize, line: String) {
        self.lines.push(format!("{:?} {end} {line}", self.now));
    }

    /// Returns the log.
    pub fn lines(self) -> Vec<String> {
        self.lines
    }

    /// Moves the clock: usually by less than `pace` µs, sometimes not at all, sometimes by more than a timeout. From
    /// time to time an outage of less than `darkness` ms begins.
    pub fn pass(&mut self, pace: u64, darkness: u64) {
        let span = pick(&mut self.rng, &[0, 1000, pace, pace, pace]);
        self.now += Duration::from_micros(self.rng.below(span + 1));
        if self.rng.below(150) == 0 {
            self.now += Duration::from_millis(self.rng.below(1500));
        }
        if self.faults[0] > 0 && self.rng.below(300) == 0 {
            self.dark_until = self.now + Duration::from_millis(self.rng.below(darkness));
        }
    }

    /// Passes arrived packets to an engine, singly or in batches, and calls its timeout handler if a timer is due.
    pub fn receive(&mut self, end: usize) {
        while let Some(at) = self.in_flight.iter().position(|p| p.at <= self.now && p.to == end) {
            let first = self.in_flight.remove(at);
            if one_in(&mut self.rng, 20) {
                let (source, target) = first.ends;
                let PacketInFlight { ecn, tag, ref bytes, .. } = first;
                self.ends[end].handle_packet(self.now, Packet { source, target, ecn, tag, payload: bytes });
                continue;
            }
            self.arrived.clear();
            (self.arrived.source, self.arrived.target) = first.ends;
            (self.arrived.ecn, self.arrived.first_tag) = (first.ecn, first.tag);
            self.arrived.push(&first.bytes);
            let goes_along = |p: &PacketInFlight| {
                p.at <= self.now
                    && p.to == end
                    && p.ends == first.ends
                    && p.ecn == first.ecn
                    && p.bytes.len() == first.bytes.len()
            };
            while self.arrived.has_room()
                && let Some(at) = self.in_flight.iter().position(goes_along)
            {
                let more = self.in_flight.remove(at);
                self.arrived.push(&more.bytes);
            }
            self.ends[end].handle_batch(self.now, &mut self.arrived);
        }
        if self.ends[end].poll_timeout().is_some_and(|at| at <= self.now) {
            self.ends[end].handle_timeout(self.now);
        }
    }

    pub fn transmit(&mut self, end: usize) {
        self.batch.clear();
        while self.ends[end].poll_transmit(self.now, &mut self.batch) {
            let tag = self.batch.first_tag;
            let packets: Vec<Vec<u8>> = self.batch.segments().map(<[u8]>::to_vec).collect();
            let (source, target, ecn) = (self.batch.source, self.batch.target, self.batch.ecn);
            let sums: Vec<_> = packets.iter().map(|p| (p.len(), digest(p))).collect();
            let fragments = self.batch.may_fragment;
            self.log(end, format!("sends {source} {target} {ecn:?} {fragments} {tag} {sums:?}"));
            for (n, bytes) in packets.into_iter().enumerate() {
                self.fly(PacketInFlight {
                    at: self.now,
                    to: 1 - end,
                    ends: (source, target),
                    ecn,
                    tag: tag + n as u64,
                    bytes,
                });
            }
            self.batch.clear();
        }
    }

    fn fly(&mut self, mut packet: PacketInFlight) {
        let [lost, late, twice, marked, broken] = self.faults;
        let dark = match (self.dark_net, packet.ends.1.ip()) {
            (Some(net), IpAddr::V4(target)) => target.octets()[2] == net,
            _ => true,
        };
        if dark && self.now < self.dark_until || one_in(&mut self.rng, lost) {
            return;
        }
        if one_in(&mut self.rng, marked) && packet.ecn != Ecn::NotEct {
            packet.ecn = Ecn::Ce;
        }
        if one_in(&mut self.rng, broken) {
            let at = self.rng.below(packet.bytes.len() as u64) as usize;
            packet.bytes[at] ^= 1;
        }
        let wait = if one_in(&mut self.rng, late) { self.rng.below(30) } else { 0 };
        packet.at += Duration::from_millis(self.latency + wait);
        if one_in(&mut self.rng, twice) {
            self.in_flight.push(PacketInFlight {
                at: packet.at + Duration::from_millis(self.rng.below(9)),
                bytes: packet.bytes.clone(),
                ..packet
            });
        }
        self.in_flight.push(packet);
    }
}

/// Runs every seed with and without the fast path, and compares the logs. The environment variable `SEED` selects one
/// seed, and `SEEDS` the number of seeds (default `usual`).
pub fn compare(package: &str, usual: u64, tell: impl Fn(u64, bool) -> Vec<String>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(usual),
    };
    let (mut batches, mut closed, mut count) = (0, 0, 0);
    for seed in seeds {
        let (fast, slow) = (tell(seed, true), tell(seed, false));
        let differs = fast.iter().zip(&slow).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!(
                "line {at} differs\n  fast: {}\n  slow: {}\nreplay with: SEED={seed} cargo test -p {package} --test fast_path",
                fast[at], slow[at]
            );
        }
        assert_eq!(fast.len(), slow.len(), "seed {seed}");
        batches += fast.iter().filter(|line| line.contains(" sends ")).count() as u64;
        closed += fast.iter().filter(|line| line.contains("Closed {")).count();
        count += 1;
    }
    println!("{count} stories twice: {batches} batches, {closed} ends closed");
    assert!(batches > 100 * count, "{batches} batches in {count} stories");
}
