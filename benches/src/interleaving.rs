//! Measures how large messages delay small messages of the same association. The results are one table.
//!
//! The command `interleaving` prints the table. A test of `sctp` checks its figures.
//!
//! The measurement uses virtual time, and one association over a link of 10 Mbit/s with a round trip of 40 ms and a
//! queue of one bandwidth-delay product. Stream 0 always has messages of 256 kB to send, as many as the send buffer
//! takes (1 MiB). Stream 1 gets 8 bytes every 200 to 600 ms. The delay of a small message is measured from the call of
//! `send` until the message has been read. If the send buffer has no room, the delay starts when `send` would have been
//! called.
//!
//! The delays are measured with DATA and with I-DATA, under each scheduler (RFC 8260 §3). With DATA, a message whose
//! transmission has begun is finished before the next message. The priority scheduler sends small messages first. The
//! weighted scheduler gives the stream of small messages sixteen times the weight of the stream of large messages.

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng, SendBatch};
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::net::SocketAddr;

const RATE: u64 = 10_000_000;
const ONE_WAY: Duration = Duration::from_millis(20);
/// The capacity of the link's queue in bytes: one bandwidth-delay product.
const QUEUE: u64 = 50_000;
const IP_HEADER: u64 = 20;
const BULK: usize = 256_000;
const EVERY: Duration = Duration::from_millis(400);
/// Small messages are sent from `FIRST`, which is after slow start, until `END`, the end of the run.
const FIRST: Instant = Instant::from_millis(5_000);
const END: Instant = Instant::from_millis(125_000);
const SCHEDULERS: [&str; 6] = ["fcfs", "rr", "rr_packet", "priority", "fair", "wfq"];

/// The result of one run with one scheduler.
struct Outcome {
    /// The delays of the small messages, ascending.
    delays: Vec<Duration>,
    /// The number of bytes of large messages that were delivered while small messages were sent.
    bulk: u64,
}

impl Outcome {
    fn percentile(&self, percent: usize) -> String {
        let at = (self.delays.len() * percent).div_ceil(100).max(1) - 1;
        let micros = self.delays[at].as_micros();
        format!("{}.{}", micros / 1_000, micros / 100 % 10)
    }

    /// Returns the bulk goodput in Mbit/s, with two decimals.
    fn goodput(&self) -> String {
        let span = (END - FIRST).as_millis() as u64;
        let rate = self.bulk * 8 / span / 10;
        format!("{}.{:02}", rate / 100, rate % 100)
    }
}

/// Measures all combinations of scheduler and chunk type, and returns the results as a text table.
pub fn table() -> String {
    let mut out = String::from(
        "8-byte pings beside 256 kB messages on one association; 10 Mbit/s, RTT 40 ms, queue 1 bdp\n\
         delay of the pings in ms, bulk in Mbit/s\n\n\
         \x20            DATA                       I-DATA\n\
         scheduler    median     p95    bulk     median     p95    bulk\n",
    );
    for scheduler in SCHEDULERS {
        let _ = write!(out, "{scheduler:<11}");
        for interleaving in ["no", "yes"] {
            let outcome = run(scheduler, interleaving, true);
            let (median, p95) = (outcome.percentile(50), outcome.percentile(95));
            let _ = write!(out, "{median:>8}{p95:>8}{:>8}   ", outcome.goodput());
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    let alone = run("fcfs", "no", false);
    let _ = writeln!(out, "{:<11}{:>8}{:>8}", "(no bulk)", alone.percentile(50), alone.percentile(95));
    out
}

/// One direction of the link. Packets leave in the order in which they entered.
#[derive(Default)]
struct Link {
    free_at: Instant,
    in_flight: VecDeque<(Instant, Vec<u8>)>,
}

impl Link {
    fn carry(&mut self, now: Instant, bytes: &[u8]) {
        let backlog = self.free_at.max(now) - now;
        if backlog.as_nanos() as u64 * RATE / 8 / 1_000_000_000 + bytes.len() as u64 > QUEUE {
            return;
        }
        let size = bytes.len() as u64 + IP_HEADER;
        self.free_at = self.free_at.max(now) + Duration::from_nanos(size * 8 * 1_000_000_000 / RATE);
        self.in_flight.push_back((self.free_at + ONE_WAY, bytes.to_vec()));
    }
}

/// The two SCTP endpoints, and the link between them in both directions.
struct World {
    now: Instant,
    ends: [Endpoint; 2],
    links: [Link; 2],
    addresses: [SocketAddr; 2],
    accepted: Option<AssociationId>,
    batch: SendBatch,
}

impl World {
    fn new(scheduler: &str, interleaving: &str) -> Self {
        let mut config = Config::default();
        config.set("scheduler", scheduler).expect("a scheduler");
        config.set("interleaving", interleaving).expect("yes or no");
        let addresses = [SocketAddr::from(([10, 0, 0, 1], 0)), SocketAddr::from(([10, 0, 0, 2], 0))];
        let end = |side: usize| Endpoint::new(config.clone(), vec![addresses[side]], Rng::new(side as u64));
        let mut ends = [end(0), end(1)];
        ends[1].listen(80).expect("a free port");
        Self {
            now: Instant::ZERO,
            ends,
            links: Default::default(),
            addresses,
            accepted: None,
            batch: SendBatch::new(8),
        }
    }

    /// Sends all packets that both ends want to send now. Returns the streams that have become readable at the
    /// receiver.
    fn settle(&mut self) -> Vec<u16> {
        let mut readable = Vec::new();
        for side in 0..2 {
            self.batch.clear();
            while self.ends[side].poll_transmit(self.now, &mut self.batch) {
                for packet in self.batch.packets() {
                    self.links[side].carry(self.now, packet.payload);
                }
                self.batch.clear();
            }
            while let Some(event) = self.ends[side].poll_event() {
                match event {
                    Event::Accepted { id, .. } => self.accepted = Some(id),
                    Event::Readable { stream, .. } if side == 1 => readable.push(stream),
                    Event::Closed { reason, .. } => panic!("the association ended: {reason:?}"),
                    _ => {}
                }
            }
        }
        readable
    }

    /// Returns the time of the next packet arrival or timer.
    fn next(&self) -> Option<Instant> {
        let arrivals = self.links.iter().filter_map(|link| Some(link.in_flight.front()?.0));
        arrivals.chain(self.ends.iter().filter_map(Engine::poll_timeout)).min()
    }

    /// Processes all packet arrivals and timers that are due now.
    fn happen(&mut self) {
        for side in 0..2 {
            while self.links[side].in_flight.front().is_some_and(|(at, _)| *at <= self.now) {
                let Some((_, bytes)) = self.links[side].in_flight.pop_front() else { break };
                let (source, target) = (self.addresses[side], self.addresses[1 - side]);
                let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
                self.ends[1 - side].handle_packet(self.now, packet);
            }
        }
        for end in &mut self.ends {
            if end.poll_timeout().is_some_and(|at| at <= self.now) {
                end.handle_timeout(self.now);
            }
        }
    }
}

fn run(scheduler: &str, interleaving: &str, with_bulk: bool) -> Outcome {
    let mut world = World::new(scheduler, interleaving);
    let mut rng = Rng::new(7);
    let bulk = vec![0x55; BULK];
    let mut buffer = vec![0; 1 << 16];
    let id =
        world.ends[0].associate(world.now, Associate::to(world.addresses[1], 80)).expect("an association");
    // Stream 0 has the large messages, stream 1 the small ones. Both schedulers prefer stream 1: by a lower value,
    // which means a higher priority, or by a larger weight.
    let values = if scheduler == "priority" { [1, 0] } else { [1, 16] };
    for (stream, value) in [0, 1].into_iter().zip(values) {
        world.ends[0].set_stream_value(world.now, id, stream, value).expect("a stream");
    }
    let mut outcome = Outcome { delays: Vec::new(), bulk: 0 };
    let mut due = FIRST;
    let mut sent_at: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut waiting: VecDeque<u64> = VecDeque::new();
    let mut number = 0_u64;
    while world.now < END || !sent_at.is_empty() {
        if world.now >= due && world.now < END {
            waiting.push_back(number);
            sent_at.insert(number, world.now);
            number += 1;
            due = due + EVERY / 2 + rng.duration_up_to(EVERY);
        }
        while let Some(&ping) = waiting.front() {
            let message = Message { stream: 1, ..Message::default() };
            if world.ends[0].send(world.now, id, message, &ping.to_be_bytes()).is_err() {
                break;
            }
            waiting.pop_front();
        }
        while with_bulk && world.ends[0].send(world.now, id, Message::default(), &bulk).is_ok() {}
        for stream in world.settle() {
            let receiver = world.accepted.expect("accepted before anything is readable");
            while let Ok(Some(got)) = world.ends[1].recv(world.now, receiver, stream, &mut buffer) {
                if stream == 1 {
                    let number = u64::from_be_bytes(buffer[..8].try_into().expect("eight bytes"));
                    let at = sent_at.remove(&number).expect("a ping comes once");
                    outcome.delays.push(world.now - at);
                } else if world.now >= FIRST && world.now < END {
                    outcome.bulk += got.bytes as u64;
                }
            }
        }
        world.settle();
        let application = (world.now < END).then_some(due.max(world.now));
        world.now = world.next().into_iter().chain(application).min().expect("something is to happen");
        world.happen();
    }
    outcome.delays.sort_unstable();
    outcome
}
