//! Compares the fast path with the slow path. A run with the fast path and a run without it must give the same
//! segments, events, reads, deadlines, counters and trace records.
//!
//! A seed chooses the profile and its knobs, and the size of batches. It also chooses the faults of the network (loss,
//! reordering, duplication, marks, outages), and the actions of the two applications.
//!
//! `SEED=n` runs one seed, `SEEDS=n` the first n seeds:
//! `SEEDS=10000 cargo test --release -p anabranch-tcp --test fast_path`.

#[path = "../../base/tests/story/mod.rs"]
mod story;

use anabranch_base::{Engine, Instant, Rng};
use anabranch_tcp::{Config, ConnectionId, Endpoint, Event, PROFILES};
use std::net::IpAddr;
use story::{digest, one_in, pick};

/// The number of seeds that run by default.
const SEEDS: u64 = 72;

/// The number of steps of the clock in a run.
const STEPS: u64 = 900;

/// A test run with two endpoints. The array holds, for each endpoint, the connection that its application uses.
type Story = story::Story<Endpoint, [Option<ConnectionId>; 2]>;

/// Returns a profile. In two of three seeds, a few knobs are changed.
fn configuration(seed: u64, rng: &mut Rng) -> Config {
    let mut config = Config::profile(PROFILES[seed as usize % PROFILES.len()]).expect("a profile");
    let mut set = |key: &str, value: &str| config.set(key, value).expect("a knob");
    set("rcvbuf", pick(rng, &["8000B", "90kB", "1MiB"]));
    set("sndbuf", pick(rng, &["20000B", "60000B", "1MiB"]));
    if seed.is_multiple_of(3) {
        return config;
    }
    for (key, values) in [
        ("cc", &["reno", "cubic", "bbr"][..]),
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
    fn begin(seed: u64, fast_path: bool) -> Self {
        let mut rng = Rng::new(seed).fork("fast path");
        let addresses = [1, 2].map(|end| IpAddr::from([10, 0, 0, end]));
        let config = configuration(seed, &mut rng);
        let ends = [0, 1].map(|end: usize| {
            let rng = Rng::new(seed).fork(if end == 0 { "left" } else { "right" });
            let mut engine = Endpoint::new(config.clone(), vec![addresses[end]], rng);
            engine.set_fast_path(fast_path);
            engine
        });
        let mut story = Self::new(rng, ends, [None; 2]);
        story.ends[1].listen(80, 0).expect("free");
        let first = story.ends[0].connect(Instant::ZERO, None, (addresses[1], 80).into());
        story.app[0] = Some(first.expect("begun"));
        story
    }

    fn tell(mut self) -> Vec<String> {
        for step in 0..STEPS {
            self.pass(3000, 3000);
            for end in [0, 1] {
                self.receive(end);
                if let Some(id) = self.app[end] {
                    self.act(end, id, step);
                }
                self.transmit(end);
                self.observe(end);
            }
        }
        for end in [0, 1] {
            let trace = format!("{:?} {:?}", self.ends[end].dropped(), self.ends[end].take_trace());
            self.log(end, trace);
        }
        self.lines()
    }

    /// Carries out one action of an application. Mostly one side sends. A read takes a part of the available data, or
    /// all of it. Near the end of the run, the left side finishes, closes or aborts its connection, and later the right
    /// side closes.
    fn act(&mut self, end: usize, id: ConnectionId, step: u64) {
        let now = self.now;
        if self.rng.below(if end == 0 { 2 } else { 9 }) == 0 {
            let bytes = vec![self.rng.next_u32() as u8; 1 + self.rng.below(9000) as usize];
            let taken = self.ends[end].send(now, id, &bytes);
            self.log(end, format!("wrote {taken:?}"));
        }
        if self.rng.below(4) > 0 {
            let mut into = vec![0; self.rng.below(6000) as usize];
            let read = self.ends[end].recv(now, id, &mut into);
            self.log(end, format!("read {read:?} {}", digest(&into)));
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

    /// Records the events and the state of the endpoint with the index `end`.
    fn observe(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            if let Event::Accepted { id, .. } = event {
                self.app[end] = Some(id);
            }
            self.log(end, format!("{event:?}"));
        }
        let engine = &self.ends[end];
        let of = |id| {
            let buffers = (engine.writable(id), engine.buffered_bytes(id), engine.is_finished(id));
            format!("{:?} {:?} {buffers:?}", engine.stats(id), engine.info(id))
        };
        let line = format!("{:?} {:?}", engine.poll_timeout(), self.app[end].map(of));
        self.log(end, line);
    }
}

#[test]
fn the_fast_path_does_what_the_slow_path_does() {
    story::compare("anabranch-tcp", SEEDS, |seed, fast_path| Story::begin(seed, fast_path).tell());
}
