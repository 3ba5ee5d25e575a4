//! The fast path against the slow path: the same story, told with the fast path on and off, is the same
//! in every segment, event, read, deadline, counter and trace record.
//!
//! A seed chooses the profile and its knobs, how large batches are, what the network loses, reorders,
//! repeats, marks and breaks, and what the two applications do.
//!
//! `SEED=n` runs one seed, `SEEDS=n` that many:
//! `SEEDS=10000 cargo test --release -p anabranch-tcp --test fast_path`.

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Packet, RecvBatch, Rng, SendBatch};
use anabranch_tcp::{Config, ConnectionId, Endpoint, Event, PROFILES};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// Seeds that run by default.
const SEEDS: u64 = 72;

/// Times the clock moves.
const STEPS: u64 = 900;

/// A segment on its way to an end.
struct Flying {
    at: Instant,
    to: usize,
    ends: (SocketAddr, SocketAddr),
    ecn: Ecn,
    tag: u64,
    bytes: Vec<u8>,
}

/// What a seed lets happen.
struct Story {
    rng: Rng,
    now: Instant,
    ends: [Endpoint; 2],
    ids: [Option<ConnectionId>; 2],
    flying: Vec<Flying>,
    batch: SendBatch,
    arrived: RecvBatch,
    /// One segment in so many is lost, comes late, comes twice, is marked, is broken; 0 for none.
    faults: [u64; 5],
    /// One way, in milliseconds.
    latency: u64,
    /// Nothing passes before this.
    dark_until: Instant,
    lines: Vec<String>,
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn one_in(rng: &mut Rng, n: u64) -> bool {
    n > 0 && rng.below(n) == 0
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

/// A profile, in two seeds of three with a few of its knobs turned.
fn configuration(seed: u64, rng: &mut Rng) -> Config {
    let mut config = Config::profile(PROFILES[seed as usize % PROFILES.len()]).expect("a profile");
    let mut set = |key: &str, value: &str| config.set(key, value).expect("a knob");
    set("rcvbuf", pick(rng, &["8000B", "90kB", "1MiB"]));
    set("sndbuf", pick(rng, &["20000B", "60000B", "1MiB"]));
    if seed.is_multiple_of(3) {
        return config;
    }
    for (key, values) in [
        ("cc", &["reno", "cubic"][..]),
        ("timestamps", &["yes", "no"]),
        ("sack", &["yes", "no"]),
        ("ecn", &["yes", "no"]),
        ("nagle", &["yes", "no", "minshall"]),
        ("delack", &["0", "40ms", "200ms"]),
        ("mss", &["536B", "1000B", "auto"]),
        ("max_burst", &["off", "1", "4"]),
        ("pacing", &["yes", "no"]),
        ("rack", &["yes", "no"]),
        ("push", &["write", "burst"]),
        ("rcvbuf_auto", &["yes", "no"]),
        ("sndbuf_auto", &["yes", "no"]),
        ("limited_transmit", &["yes", "no"]),
        ("syncookies", &["no", "yes"]),
    ] {
        if one_in(rng, 3) {
            set(key, pick(rng, values));
        }
    }
    config
}

impl Story {
    fn new(seed: u64, fast_path: bool) -> Self {
        let mut rng = Rng::new(seed).fork("fast path");
        let addresses = [1, 2].map(|end| IpAddr::from([10, 0, 0, end]));
        let config = configuration(seed, &mut rng);
        let mut ends = [0, 1].map(|end: usize| {
            let rng = Rng::new(seed).fork(if end == 0 { "left" } else { "right" });
            Endpoint::new(config.clone(), vec![addresses[end]], rng)
        });
        let traced = one_in(&mut rng, 4);
        for end in &mut ends {
            end.set_fast_path(fast_path);
            end.set_tracing(traced);
        }
        ends[1].listen(80, 0).expect("free");
        let first = ends[0].connect(Instant::ZERO, None, (addresses[1], 80).into()).expect("begun");
        let kinds: [&[u64]; 5] = [&[0, 0, 200, 40], &[0, 30, 8], &[0, 0, 60], &[0, 50], &[0, 0, 300]];
        let faults = kinds.map(|often| pick(&mut rng, often));
        let segments = pick(&mut rng, &[1, 1, 1, 4, 16]);
        Self {
            now: Instant::ZERO,
            ends,
            ids: [Some(first), None],
            flying: Vec::new(),
            batch: SendBatch::new(segments),
            arrived: RecvBatch::new(pick(&mut rng, &[1, 1, 8])),
            faults,
            latency: pick(&mut rng, &[0, 5, 5, 20]),
            dark_until: Instant::ZERO,
            lines: Vec::new(),
            rng,
        }
    }

    fn say(&mut self, end: usize, what: String) {
        self.lines.push(format!("{:?} {end} {what}", self.now));
    }

    fn tell(mut self) -> Vec<String> {
        for step in 0..STEPS {
            // Several things may happen at one instant, and nothing for longer than a timeout.
            let span = pick(&mut self.rng, &[0, 1000, 3000, 3000, 3000]);
            self.now += Duration::from_micros(self.rng.below(span + 1));
            if self.rng.below(150) == 0 {
                self.now += Duration::from_millis(self.rng.below(1500));
            }
            if self.faults[0] > 0 && self.rng.below(300) == 0 {
                self.dark_until = self.now + Duration::from_millis(self.rng.below(3000));
            }
            for end in [0, 1] {
                self.receive(end);
                if self.ends[end].poll_timeout().is_some_and(|at| at <= self.now) {
                    self.ends[end].handle_timeout(self.now);
                }
                if let Some(id) = self.ids[end] {
                    self.act(end, id, step);
                }
                self.transmit(end);
                self.observe(end);
            }
        }
        for end in [0, 1] {
            let trace = format!("{:?} {:?}", self.ends[end].dropped(), self.ends[end].take_trace());
            self.say(end, trace);
        }
        self.lines
    }

    /// Hands over what has arrived at an end: one by one, or as many at once as go together.
    fn receive(&mut self, end: usize) {
        while let Some(at) = self.flying.iter().position(|p| p.at <= self.now && p.to == end) {
            let first = self.flying.remove(at);
            if one_in(&mut self.rng, 20) {
                let (source, target) = first.ends;
                let Flying { ecn, tag, ref bytes, .. } = first;
                self.ends[end].handle_packet(self.now, Packet { source, target, ecn, tag, payload: bytes });
                continue;
            }
            self.arrived.clear();
            (self.arrived.source, self.arrived.target) = first.ends;
            (self.arrived.ecn, self.arrived.first_tag) = (first.ecn, first.tag);
            self.arrived.push(&first.bytes);
            let goes_along = |p: &Flying| {
                p.at <= self.now
                    && p.to == end
                    && p.ends == first.ends
                    && p.ecn == first.ecn
                    && p.bytes.len() == first.bytes.len()
            };
            while self.arrived.has_room()
                && let Some(at) = self.flying.iter().position(goes_along)
            {
                let more = self.flying.remove(at);
                self.arrived.push(&more.bytes);
            }
            self.ends[end].handle_batch(self.now, &mut self.arrived);
        }
    }

    fn transmit(&mut self, end: usize) {
        self.batch.clear();
        while self.ends[end].poll_transmit(self.now, &mut self.batch) {
            let tag = self.batch.first_tag;
            let packets: Vec<Vec<u8>> = self.batch.segments().map(<[u8]>::to_vec).collect();
            let (source, target, ecn) = (self.batch.source, self.batch.target, self.batch.ecn);
            let sums: Vec<_> = packets.iter().map(|p| (p.len(), digest(p))).collect();
            self.say(end, format!("sends {source} {target} {ecn:?} {tag} {sums:?}"));
            for (n, bytes) in packets.into_iter().enumerate() {
                self.fly(Flying {
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

    fn fly(&mut self, mut packet: Flying) {
        let [lost, late, twice, marked, broken] = self.faults;
        if self.now < self.dark_until || one_in(&mut self.rng, lost) {
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
            self.flying.push(Flying {
                at: packet.at + Duration::from_millis(self.rng.below(9)),
                bytes: packet.bytes.clone(),
                ..packet
            });
        }
        self.flying.push(packet);
    }

    /// What the application at an end does: mostly one side sends; reads are of a part or of all that is there. In
    /// the end one side finishes, and now and then an end leaves or breaks off.
    fn act(&mut self, end: usize, id: ConnectionId, step: u64) {
        let now = self.now;
        if self.rng.below(if end == 0 { 2 } else { 9 }) == 0 {
            let bytes = vec![self.rng.next_u32() as u8; 1 + self.rng.below(9000) as usize];
            let taken = self.ends[end].send(now, id, &bytes);
            self.say(end, format!("wrote {taken:?}"));
        }
        if self.rng.below(4) > 0 {
            let mut into = vec![0; self.rng.below(6000) as usize];
            let read = self.ends[end].recv(now, id, &mut into);
            self.say(end, format!("read {read:?} {}", digest(&into)));
        }
        if step == STEPS - 150 && end == 0 {
            match self.rng.below(8) {
                0 => self.ends[end].abort(now, id),
                1 => self.ends[end].close(now, id),
                _ => self.ends[end].finish(now, id),
            }
        }
        if step == STEPS - 80 && end == 1 {
            self.ends[end].close(now, id);
        }
    }

    /// Everything else that can be seen of an end.
    fn observe(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            if let Event::Accepted { id, .. } = event {
                self.ids[end] = Some(id);
            }
            self.say(end, format!("{event:?}"));
        }
        let engine = &self.ends[end];
        let of = |id| {
            let buffers = (engine.writable(id), engine.buffered_bytes(id), engine.is_finished(id));
            format!("{:?} {:?} {buffers:?}", engine.stats(id), engine.info(id))
        };
        let line = format!("{:?} {:?}", engine.poll_timeout(), self.ids[end].map(of));
        self.say(end, line);
    }
}

#[test]
fn the_fast_path_does_what_the_slow_path_does() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(SEEDS),
    };
    let (mut segments, mut closed, mut count) = (0, 0, 0);
    for seed in seeds {
        let (fast, slow) = (Story::new(seed, true).tell(), Story::new(seed, false).tell());
        let differs = fast.iter().zip(&slow).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!(
                "line {at} differs\n  fast: {}\n  slow: {}\nreplay with: SEED={seed} cargo test -p anabranch-tcp --test fast_path",
                fast[at], slow[at]
            );
        }
        assert_eq!(fast.len(), slow.len(), "seed {seed}");
        segments += fast.iter().filter(|line| line.contains(" sends ")).count();
        closed += fast.iter().filter(|line| line.contains("Closed {")).count();
        count += 1;
    }
    println!("{count} stories twice: {segments} batches, {closed} ends closed");
    assert!(segments > 100 * count, "{segments} batches in {count} stories");
}
