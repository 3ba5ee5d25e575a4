//! Compares the fast path with the slow path. A run with the fast path and a run without it give the same packets,
//! events, reads, deadlines, counters and trace records.
//!
//! A seed chooses the configuration of the endpoints, one or two paths, and the size of batches. The seed also chooses
//! the faults of the network (loss, reordering, duplication, ECN marks, outages), and the actions of the two
//! applications.
//!
//! `SEED=n` runs one seed, `SEEDS=n` the first n seeds:
//! `SEEDS=10000 cargo test --release -p anabranch-sctp --test fast_path`.

#[path = "../../base/tests/story/mod.rs"]
mod story;

use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Rng};
use anabranch_sctp::{
    Associate, AssociationId, Config, Direction, Endpoint, Event, Message, PROFILES, Reliability,
};
use std::net::SocketAddr;
use story::{digest, one_in, pick};

/// The number of seeds that run by default.
const SEEDS: u64 = 72;

/// The number of steps of the clock in a run.
const STEPS: u64 = 700;

/// The state of the applications at both ends.
struct Applications {
    ids: [Option<AssociationId>; 2],
    addresses: [Vec<SocketAddr>; 2],
    /// On average, one in `control` actions is neither a send nor a read. With 0, all actions are sends or reads.
    control: u64,
}

type Story = story::Story<Endpoint, Applications>;

/// Returns a random configuration: a profile with some settings changed. For one seed in three, only the buffer sizes
/// and the maximum RTO are changed, because many other settings prevent the fast path.
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
        ("cc", &["rfc9260", "cubic", "bbr"]),
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
        ("rtt_from_cookie", &["yes", "no"]),
    ] {
        if one_in(rng, 2) {
            set(key, pick(rng, values));
        }
    }
    for (key, value) in [("fast_recovery", "no"), ("fast_again", "yes"), ("burst_window", "yes")] {
        if one_in(rng, 8) {
            set(key, value);
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
    fn begin(seed: u64, fast_path: bool) -> Self {
        let mut rng = Rng::new(seed).fork("fast path");
        let hosts = 1 + rng.below(2) as u8;
        let addresses = [1, 2]
            .map(|end| (0..hosts).map(|net| SocketAddr::from(([10, 0, net, end], 0))).collect::<Vec<_>>());
        let config = configuration(seed, &mut rng);
        let ends = [0, 1].map(|end: usize| {
            let rng = Rng::new(seed).fork(if end == 0 { "left" } else { "right" });
            let mut engine = Endpoint::new(config.clone(), addresses[end].clone(), rng);
            engine.set_fast_path(fast_path);
            engine
        });
        let ask = Associate { streams: Some(8), ..Associate::to(addresses[1][0], 80) };
        let app = Applications { ids: [None; 2], addresses, control: 0 };
        let mut story = Self::new(rng, ends, app);
        story.dark_net = pick(&mut story.rng, &[None, Some(1)]);
        story.app.control = pick(&mut story.rng, &[0, 0, 150, 30]);
        story.ends[1].listen(80).expect("free");
        story.app.ids[0] = Some(story.ends[0].associate(Instant::ZERO, ask).expect("begun"));
        story
    }

    fn tell(mut self) -> Vec<String> {
        for step in 0..STEPS {
            self.pass(4000, 5000);
            for end in [0, 1] {
                self.receive(end);
                if let Some(id) = self.app.ids[end] {
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
            self.log(end, totals);
        }
        self.lines()
    }

    /// Carries out one action of an application. Mostly one side sends messages, smaller or larger than a packet. A
    /// read takes a part of a message, a whole message, or all available data.
    fn act(&mut self, end: usize, id: AssociationId) {
        let now = self.now;
        if self.rng.below(if end == 0 { 2 } else { 9 }) == 0 {
            let message = Message {
                stream: if one_in(&mut self.rng, 6) { self.rng.below(8) as u16 } else { 0 },
                unordered: one_in(&mut self.rng, 40),
                immediate: one_in(&mut self.rng, 40),
                reliability: match self.rng.below(60 + 5 * self.app.control.min(1)) {
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
            self.log(end, format!("wrote {taken}"));
        }
        let mut into = vec![0; self.rng.below(5000) as usize];
        let read = match self.rng.below(5) {
            0 => format!("{:?}", self.ends[end].recv(now, id, self.rng.below(8) as u16, &mut into)),
            1 => format!("{:?}", self.ends[end].recv_next(now, id, &mut into)),
            2 | 3 => format!("{:?}", self.ends[end].recv_bytes(now, id, 0, &mut into, |_| true)),
            _ => String::new(),
        };
        self.log(end, format!("read {read} {}", digest(&into)));
        if one_in(&mut self.rng, self.app.control) {
            let done = self.act_rarely(end, id);
            self.log(end, done);
        }
    }

    /// Carries out one of the actions that produce control chunks, and returns its result as text.
    fn act_rarely(&mut self, end: usize, id: AssociationId) -> String {
        let now = self.now;
        let direction = pick(&mut self.rng, &[Direction::Outgoing, Direction::Incoming]);
        let (stream, far) = (self.rng.below(8) as u16, self.rng.below(40) == 0);
        let wanted = one_in(&mut self.rng, 2);
        let address = pick(&mut self.rng, &self.app.addresses[end]);
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

    /// Records the events and the state of an end.
    fn observe(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            if let Event::Accepted { id, .. } = event {
                self.app.ids[end] = Some(id);
            }
            self.log(end, format!("{event:?}"));
        }
        let engine = &self.ends[end];
        let of = |id| {
            let buffers = (engine.writable_bytes(id), engine.readable_bytes(id, 0));
            format!("{:?} {:?} {buffers:?}", engine.stats(id), engine.info(id))
        };
        let line = format!("{:?} {:?}", engine.poll_timeout(), self.app.ids[end].map(of));
        self.log(end, line);
    }
}

#[test]
fn the_fast_path_does_what_the_slow_path_does() {
    story::compare("anabranch-sctp", SEEDS, |seed, fast_path| Story::begin(seed, fast_path).tell());
}
