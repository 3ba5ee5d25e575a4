//! The fast path against the slow path: the same story, told with the fast path on and off, is the same
//! in every packet, event, read, deadline, counter and trace record.
//!
//! A seed chooses the profile and its knobs, one or two paths, how large batches are, what the network
//! loses, reorders, repeats, marks and breaks, and what the two applications do.
//!
//! `SEED=n` runs one seed, `SEEDS=n` that many:
//! `SEEDS=10000 cargo test --release -p anabranch-sctp --test fast_path`.

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, RecvBatch, Rng, SendBatch};
use anabranch_sctp::{
    Associate, AssociationId, Config, Direction, Endpoint, Event, Message, PROFILES, Reliability,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// Seeds that run by default.
const SEEDS: u64 = 72;

/// Times the clock moves.
const STEPS: u64 = 700;

/// A packet on its way to an end.
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
    ids: [Option<AssociationId>; 2],
    addresses: [Vec<SocketAddr>; 2],
    flying: Vec<Flying>,
    batch: SendBatch,
    arrived: RecvBatch,
    /// One packet in so many is lost, comes late, comes twice, is marked, is broken; 0 for none.
    faults: [u64; 5],
    /// One way, in milliseconds.
    latency: u64,
    /// Nothing passes before this, to the second addresses or to all.
    dark_until: Instant,
    dark_nets: Option<u8>,
    /// One action in so many is something else than sending and reading; 0 for none.
    control: u64,
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

/// A profile, mostly with a few of its knobs turned. One seed in three has no extension, so that the fast path is
/// taken in earnest.
fn configuration(seed: u64, rng: &mut Rng) -> Config {
    let mut config = Config::profile(PROFILES[seed as usize % PROFILES.len()]).expect("a profile");
    let mut set = |key: &str, value: &str| config.set(key, value).expect("a knob");
    set("rcvbuf", pick(rng, &["6000B", "40000B", "100kB", "1MiB"]));
    set("sndbuf", pick(rng, &["20000B", "60000B", "1MiB"]));
    set("rto_max", "10s");
    if seed.is_multiple_of(3) {
        return config;
    }
    for (key, values) in [
        ("delack", &["0", "10ms", "200ms"][..]),
        ("mss", &["200B", "1000B", "auto"]),
        ("nagle", &["yes", "no"]),
        ("max_burst", &["0", "1", "4"]),
        ("sack_path", &["same", "other"]),
        ("rtx_path", &["same", "timeout", "all"]),
        ("scheduler", &["fcfs", "rr", "fair", "wfq", "priority"]),
        ("cc", &["rfc9260", "cubic"]),
        ("rto_initial", &["100ms", "1s"]),
        ("rto_min", &["10ms", "200ms", "1s"]),
        ("hb_interval", &["100ms", "1s", "30s"]),
        ("partial_delivery", &["1000B", "64KiB"]),
        ("pmtud", &["icmp", "plpmtud", "blackhole"]),
        ("ack_every", &["1", "2", "4"]),
        ("assoc_max_retrans", &["1", "2", "3", "10"]),
        ("path_max_retrans", &["0", "1", "5"]),
        ("partial_reliability", &["yes", "no"]),
        ("reconfig", &["yes", "no"]),
    ] {
        if one_in(rng, 2) {
            set(key, pick(rng, values));
        }
    }
    for key in ["ecn", "interleaving", "nr_sack", "rack", "pacing", "prr", "zero_checksum", "auth"] {
        if one_in(rng, 5) {
            set(key, "yes");
        }
    }
    if one_in(rng, 4) {
        set("auth", "yes");
        set("asconf", "yes");
    }
    config
}

impl Story {
    fn new(seed: u64, fast_path: bool) -> Self {
        let mut rng = Rng::new(seed).fork("fast path");
        let hosts = 1 + rng.below(2) as u8;
        let addresses = [1, 2]
            .map(|end| (0..hosts).map(|net| SocketAddr::from(([10, 0, net, end], 0))).collect::<Vec<_>>());
        let config = configuration(seed, &mut rng);
        let mut ends = [0, 1].map(|end: usize| {
            let rng = Rng::new(seed).fork(if end == 0 { "left" } else { "right" });
            Endpoint::new(config.clone(), addresses[end].clone(), rng)
        });
        let traced = one_in(&mut rng, 4);
        for end in &mut ends {
            end.set_fast_path(fast_path);
            end.set_tracing(traced);
        }
        ends[1].listen(80).expect("free");
        let ask = Associate { streams: Some(8), ..Associate::to(addresses[1][0], 80) };
        let first = ends[0].associate(Instant::ZERO, ask).expect("begun");
        let kinds: [&[u64]; 5] = [&[0, 0, 200, 40], &[0, 30, 8], &[0, 0, 60], &[0, 50], &[0, 0, 300]];
        let faults = kinds.map(|often| pick(&mut rng, often));
        let segments = pick(&mut rng, &[1, 1, 1, 4, 16]);
        Self {
            now: Instant::ZERO,
            ends,
            ids: [Some(first), None],
            addresses,
            flying: Vec::new(),
            batch: SendBatch::new(segments),
            arrived: RecvBatch::new(pick(&mut rng, &[1, 1, 8])),
            faults,
            latency: pick(&mut rng, &[0, 5, 5, 20]),
            dark_until: Instant::ZERO,
            dark_nets: pick(&mut rng, &[None, Some(1)]),
            control: pick(&mut rng, &[0, 0, 150, 30]),
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
            let span = pick(&mut self.rng, &[0, 1000, 4000, 4000, 4000]);
            self.now += Duration::from_micros(self.rng.below(span + 1));
            if self.rng.below(150) == 0 {
                self.now += Duration::from_millis(self.rng.below(1500));
            }
            if self.faults[0] > 0 && self.rng.below(300) == 0 {
                self.dark_until = self.now + Duration::from_millis(self.rng.below(5000));
            }
            for end in [0, 1] {
                self.receive(end);
                if self.ends[end].poll_timeout().is_some_and(|at| at <= self.now) {
                    self.ends[end].handle_timeout(self.now);
                }
                if let Some(id) = self.ids[end] {
                    self.act(end, id);
                    if step == STEPS - 100 && end == 0 {
                        self.ends[0].shutdown(self.now, id);
                    }
                }
                self.transmit(end);
                self.observe(end);
            }
        }
        for end in [0, 1] {
            let totals = format!("{:?} {:?}", self.ends[end].totals(), self.ends[end].take_trace());
            self.say(end, totals);
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
                let packet = anabranch_base::Packet { source, target, ecn, tag, payload: bytes };
                self.ends[end].handle_packet(self.now, packet);
                continue;
            }
            self.arrived.clear();
            (self.arrived.source, self.arrived.target) = first.ends;
            (self.arrived.ecn, self.arrived.first_tag) = (first.ecn, first.tag);
            self.arrived.push(&first.bytes);
            let goes_along = |p: &Flying| {
                p.at <= first.at.max(self.now)
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
            let fragments = self.batch.may_fragment;
            self.say(end, format!("sends {source} {target} {ecn:?} {fragments} {tag} {sums:?}"));
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
        let dark = match (self.dark_nets, packet.ends.1.ip()) {
            (Some(net), std::net::IpAddr::V4(target)) => target.octets()[2] == net,
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
            self.flying.push(Flying {
                at: packet.at + Duration::from_millis(self.rng.below(9)),
                bytes: packet.bytes.clone(),
                ..packet
            });
        }
        self.flying.push(packet);
    }

    /// What the application at an end does: mostly one side sends, messages of a packet, of less and of more; reads
    /// are of a part, of one message, or of all that is there.
    fn act(&mut self, end: usize, id: AssociationId) {
        let now = self.now;
        if self.rng.below(if end == 0 { 2 } else { 9 }) == 0 {
            let message = Message {
                stream: if one_in(&mut self.rng, 6) { self.rng.below(8) as u16 } else { 0 },
                unordered: one_in(&mut self.rng, 40),
                immediate: one_in(&mut self.rng, 40),
                reliability: match self.rng.below(60 + 5 * self.control.min(1)) {
                    60 => Reliability::Lifetime(Duration::from_millis(30)),
                    61 => Reliability::Retransmissions(0),
                    _ => Reliability::Full,
                },
                ..Message::default()
            };
            let bytes = vec![self.rng.next_u32() as u8; 1 + self.rng.below(6000) as usize];
            let taken = match self.rng.below(3) {
                0 => format!("{:?}", self.ends[end].send(now, id, message, &bytes)),
                _ => format!("{:?}", self.ends[end].send_pieces(now, id, message, &bytes, 1452)),
            };
            self.say(end, format!("wrote {taken}"));
        }
        let mut into = vec![0; self.rng.below(5000) as usize];
        let read = match self.rng.below(5) {
            0 => format!("{:?}", self.ends[end].recv(now, id, self.rng.below(8) as u16, &mut into)),
            1 => format!("{:?}", self.ends[end].recv_next(now, id, &mut into)),
            2 | 3 => format!("{:?}", self.ends[end].recv_bytes(now, id, 0, &mut into, |_| true)),
            _ => String::new(),
        };
        self.say(end, format!("read {read} {}", digest(&into)));
        if one_in(&mut self.rng, self.control) {
            let done = self.act_rarely(end, id);
            self.say(end, done);
        }
    }

    /// Everything that makes control chunks.
    fn act_rarely(&mut self, end: usize, id: AssociationId) -> String {
        let now = self.now;
        let direction = pick(&mut self.rng, &[Direction::Outgoing, Direction::Incoming]);
        let (stream, far) = (self.rng.below(8) as u16, self.rng.below(40) == 0);
        let wanted = one_in(&mut self.rng, 2);
        let address = pick(&mut self.rng, &self.addresses[end]);
        let engine = &mut self.ends[end];
        match self.rng.below(10) {
            0 => format!("{:?}", engine.reset_streams(now, id, direction, &[stream])),
            1 => format!("{:?}", engine.add_streams(now, id, 1, u16::from(wanted))),
            2 => format!("{:?}", engine.reset_association(now, id)),
            3 => format!("{:?}", engine.set_primary(now, id, stream.into())),
            4 => format!("{:?}", engine.use_address(now, id, address.ip(), wanted)),
            5 => format!("{:?}", engine.set_peer_primary(now, id, address.ip())),
            6 => {
                let new = SocketAddr::from(([10, 0, 7, end as u8], 0));
                if wanted {
                    engine.add_address(now, new, 1500)
                } else {
                    engine.remove_address(now, new.ip())
                }
                "addresses".to_owned()
            }
            7 => format!("{:?}", engine.set_stream_value(now, id, stream, 5)),
            8 => format!("{:?}", engine.tune(now, id, |config| config.nagle = wanted)),
            _ => {
                if far {
                    engine.abort(now, id)
                } else {
                    engine.cancel(now, id, stream)
                }
                "cancelled".to_owned()
            }
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
            let buffers = (engine.writable_bytes(id), engine.readable_bytes(id, 0));
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
    let (mut packets, mut closed, mut count) = (0, 0, 0);
    for seed in seeds {
        let (fast, slow) = (Story::new(seed, true).tell(), Story::new(seed, false).tell());
        let differs = fast.iter().zip(&slow).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!(
                "line {at} differs\n  fast: {}\n  slow: {}\nreplay with: SEED={seed} cargo test -p anabranch-sctp --test fast_path",
                fast[at], slow[at]
            );
        }
        assert_eq!(fast.len(), slow.len(), "seed {seed}");
        packets += fast.iter().filter(|line| line.contains(" sends ")).count();
        closed += fast.iter().filter(|line| line.contains("Closed {")).count();
        count += 1;
    }
    println!("{count} stories twice: {packets} batches, {closed} ends closed");
    assert!(packets > 100 * count, "{packets} batches in {count} stories");
}
