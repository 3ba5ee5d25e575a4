//! What a race found: the schema `anabranch.race/2`.
//!
//! Owns the types that `--json` and `--out` write and that the report reads
//! back; every figure can be redrawn from them without another run. The JSON
//! Schema beside the source (`schema/race-2.json`) says the same to other
//! languages. Names carry their units. Times are integer nanoseconds of the
//! run's own clock, from its start. Keys come out in the order of the fields,
//! maps in alphabetical order, so equal results are equal bytes; facts of the
//! host stand in [`Host`] and nowhere else.

mod cause;
mod coverage;
pub mod label;
mod summary;

pub use cause::{Cause, Condition, Effect, Experiment, Tried};
pub use summary::{Bound, Comparison, Sharing, Stat, Summary, Verdict};

use crate::stats::metrics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema's name, the first key of every result file.
pub const SCHEMA: &str = "anabranch.race/2";

/// Width of the buckets of [`Series`], nanoseconds.
pub const BUCKET_NS: u64 = 100_000_000;

/// Everything a race found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Race {
    /// [`SCHEMA`].
    pub schema: String,
    /// Everything needed to run it again: the plan file's keys and values.
    pub plan: serde_json::Value,
    /// Which network it ran on.
    pub world: World,
    /// Facts of the machine; the only part that may differ between two runs of one plan.
    pub host: Host,
    /// What the reader must know before trusting the numbers (unusable page entries and the like).
    pub warnings: Vec<String>,
    /// One for each combination of the factors; a plain race has one.
    pub points: Vec<Point>,
    /// How the plan's `[[expect]]` fared.
    pub expectations: Vec<Expectation>,
}

/// Which network a race ran on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Virtual time.
    Virtual,
    /// Live packets through the same link elements.
    Emulated,
}

/// Facts of the machine and of this execution.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// The program's version.
    pub version: String,
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Threads that ran worlds; absent where the race was run point by point, perhaps on several machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Seconds the whole race took; absent in the same case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// The kernel, where its protocols and namespaces had a part in it: the emulated world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether that kernel has SCTP of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_sctp: Option<bool>,
}

/// One combination of the factors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Factor to level, as text; empty for a plain race.
    pub factors: BTreeMap<String, String>,
    /// The network in one line.
    pub network: String,
    /// When the first path fails, nanoseconds of a run's clock; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_ns: Option<u64>,
    /// The workload of this point.
    pub workload: Workload,
    /// Something is drawn from the seed: loss, jitter and the like. Without it, runs that are alike are one.
    pub chance: bool,
    /// What contestants that raced together had of the network, seed by seed; left out where each raced alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<Sharing>,
    /// The contestants, in the order of the plan.
    #[serde(rename = "arms")]
    pub contestants: Vec<Contestant>,
    /// Every contestant against each before it: against the first metric by metric, against others in what the verdict
    /// is about.
    pub comparisons: Vec<Comparison>,
}

/// What is to be transferred.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// Name of the page, or what the objects are.
    pub name: String,
    /// Objects in it.
    pub objects: u64,
    /// Their body bytes in all.
    pub bytes: u64,
    /// Bytes of each request's head; left out where the plan does not say them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_head: Option<u64>,
    /// Bytes of each response's head; left out where the plan does not say them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_head: Option<u64>,
    /// When a run is ended, whatever is left of it, nanoseconds of its clock; null in results that do not tell.
    #[serde(default)]
    pub deadline_ns: Option<u64>,
    /// The objects are messages: their delays are the result, not the time until the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages: bool,
}

impl Workload {
    /// A bulk transfer, which is one object of that name.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        self.objects == 1 && self.name.starts_with("bulk ")
    }

    /// Whose time `page_ms` is: that until all of the workload is there.
    #[must_use]
    pub fn whole(&self) -> &'static str {
        match (self.messages, self.is_bulk()) {
            (true, _) => "messages",
            (false, true) => "transfer",
            (false, false) => "page",
        }
    }
}

/// One contestant at one point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Contestant {
    /// The contestant's string as typed.
    #[serde(rename = "arm")]
    pub name: String,
    /// Every setting it ran with, as text: `transport`, `connections`, `streams`, `pipeline`, `profile`, and each
    /// knob of the profile.
    pub settings: BTreeMap<String, String>,
    /// The seed whose page time is the median: the run to show when one must stand for all.
    pub median_seed: u64,
    /// Runs that differ by more than their seed.
    pub distinct_runs: u64,
    /// One for each seed, in order of the seeds.
    pub runs: Vec<Run>,
    /// Over the runs.
    pub summary: Summary,
}

/// One page load (or transfer) by one contestant under one seed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// When it started on the network's clock, from which a path's failure counts; absent in the virtual world, where
    /// the two are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
    /// From the start until every object was delivered; null unless `done`.
    pub page_ns: Option<u64>,
    /// What no contestant can beat on this network, from the start until everything is released and carried.
    pub limit_ns: Option<u64>,
    /// Mean time from opening a connection until user data may flow on it; null if none was established.
    pub connect_ns: Option<u64>,
    /// From the first path failure until the sender of the data declared that path failed; null if it never did.
    #[serde(default)]
    pub declared_failed_ns: Option<u64>,
    /// From the first path failure to the arrival of the first data that was sent after it; null without either.
    pub failover_ns: Option<u64>,
    /// From the first path failure until the application received data again at half the rate of before or more, for a
    /// second (or to the end of the transfer); null if it never did.
    #[serde(default)]
    pub restored_ns: Option<u64>,
    /// Paths that a transport of several paths found dead, and found alive again, in order of time.
    pub path_events: Vec<PathEvent>,
    /// Connections or associations opened.
    pub connections: u64,
    /// The objects, in the order of the page.
    pub objects: Vec<Object>,
    /// Packets by direction.
    pub packets: Directions<Packets>,
    /// What rules of iptables counted, where they took the links' place in losing packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Directions<Rules>>,
    /// Whether connections of Multipath TCP stayed that; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<Multipath>,
    /// How late the latest packet left an emulated link, because this machine was busy; absent in the virtual world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// What the senders had to do about loss.
    pub events: Events,
    /// IP bytes the hosts handed to the paths, by direction.
    pub wire_bytes: Directions<u64>,
    /// Bytes over time.
    pub series: Series,
}

/// A transport's mind on a path has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathEvent {
    /// Which path, from 1.
    pub path: u64,
    /// When its host found out.
    pub at_ns: u64,
    /// What it takes the path for from then on.
    pub state: PathState,
    /// The host that found out.
    pub by: Side,
    /// Whose path: the association's initiator's port.
    pub connection: u64,
}

/// What a transport takes a path for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Nothing has answered there of late; data goes elsewhere (RFC 7829).
    #[serde(rename = "potentially-failed")]
    PotentiallyFailed,
    /// Nothing answers there (for SCTP: RFC 9260 §8.2).
    Failed,
    /// The path answers again.
    Active,
}

impl PathState {
    /// The state in words, the same everywhere.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::PotentiallyFailed => "potentially failed",
            Self::Failed => "failed",
            Self::Active => "active",
        }
    }
}

/// One of the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Who fetches.
    Client,
    /// Who serves.
    Server,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every object was delivered.
    Done,
    /// At least one object failed.
    Failed,
    /// The run's clock reached its deadline first.
    Deadline,
}

/// One object's fate in one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Object {
    /// The object's name: a path or URL, as the page has it.
    pub name: String,
    /// Body bytes.
    pub bytes: u64,
    /// The connection that carried it: the initiator's port; null if it never got one.
    pub connection: Option<u64>,
    /// The stream that carried it (0 on TCP); null if it never got one.
    pub stream: Option<u64>,
    /// When the client wanted it; null if that never came (its initiator was not delivered).
    pub issued_ns: Option<u64>,
    /// When the first byte of its response reached the application.
    pub first_byte_ns: Option<u64>,
    /// When its last byte reached the application; null if it never did.
    pub delivered_ns: Option<u64>,
    /// The object runs beside what is measured, and counts in no figure about objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Why it failed; null if it did not.
    pub failure: Option<String>,
    /// The response time in parts that add up to `delivered_ns - issued_ns`; null if not delivered.
    pub why: Option<Why>,
    /// What held the sender in `send`: details of `send_ns`; null if not known.
    pub send_detail: Option<SendDetail>,
    /// The instants between `issued_ns` and `delivered_ns` that the parts are cut at; null if not known.
    pub instants: Option<Instants>,
}

/// The response time of one object, partitioned. A part is null where it cannot be told apart (emulated world); in the
/// virtual world none is, and they add up exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Why {
    /// Waiting for the transport's handshake of its connection; of one that is secure by itself until the server's first
    /// packet comes.
    pub connect_ns: Option<u64>,
    /// Waiting for the handshake of TLS that follows it, or of DTLS before it; of one within, what follows the server's first
    /// packet.
    #[serde(default = "no_time")]
    pub secure_ns: Option<u64>,
    /// Waiting for a stream or slot.
    pub queue_ns: Option<u64>,
    /// Waiting in the sender while it had nothing to retransmit: window, pacing, other objects' turn.
    pub send_ns: Option<u64>,
    /// Waiting in the server's transport while it retransmitted other bytes.
    pub stalled_ns: Option<u64>,
    /// The request waiting behind earlier exchanges of its connection.
    pub ahead_ns: Option<u64>,
    /// The server's own time.
    pub server_ns: Option<u64>,
    /// Repair of its own bytes by fast retransmission.
    pub recovery_ns: Option<u64>,
    /// Repair of its own bytes by a retransmission timer.
    pub timeout_ns: Option<u64>,
    /// Flight of the two decisive packets: queues, serialization, propagation.
    pub wire_ns: Option<u64>,
    /// Complete at the receiver but withheld behind another object's hole.
    pub blocked_ns: Option<u64>,
}

/// What results from before there was TLS do not say.
#[expect(clippy::unnecessary_wraps, reason = "the part's type")]
const fn no_time() -> Option<u64> {
    Some(0)
}

/// The parts of a response time, in the order in which they occur.
pub const PARTS: [&str; 11] = [
    "connect", "secure", "queue", "send", "stalled", "ahead", "server", "recovery", "timeout", "wire",
    "blocked",
];

impl Why {
    /// The parts, in the order of [`PARTS`]; `None` where a part cannot be told.
    #[must_use]
    pub const fn parts(&self) -> [Option<u64>; 11] {
        [
            self.connect_ns,
            self.secure_ns,
            self.queue_ns,
            self.send_ns,
            self.stalled_ns,
            self.ahead_ns,
            self.server_ns,
            self.recovery_ns,
            self.timeout_ns,
            self.wire_ns,
            self.blocked_ns,
        ]
    }

    /// None of the parts is unknown.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.parts().iter().all(Option::is_some)
    }

    /// All parts together, unknown ones as zero; nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.parts().into_iter().flatten().sum()
    }
}

/// What `send_ns` was spent on; the three add up to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SendDetail {
    /// The congestion window was full.
    pub cwnd_ns: u64,
    /// The receiver's window was full.
    pub rwnd_ns: u64,
    /// Other objects were ahead in the sender, or it held back for another reason of its own.
    pub turn_ns: u64,
}

/// Nine of the eleven instants; `issued` and `delivered` stand in [`Object`]. Never decreasing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Instants {
    /// Connection usable, and a stream or slot free.
    pub assigned_ns: u64,
    /// First transmission of the request packet whose arrival completed the request.
    pub req_sent_ns: u64,
    /// Transmission of the copy of it that arrived.
    pub req_copy_ns: u64,
    /// Request complete at the server host.
    pub req_in_ns: u64,
    /// The server starts on it.
    pub serving_ns: u64,
    /// First response byte given to the transport.
    pub written_ns: u64,
    /// First transmission of the packet whose arrival completed the object.
    pub sent_ns: u64,
    /// Transmission of the copy of it that arrived first.
    pub copy_ns: u64,
    /// All own bytes at the receiver.
    pub complete_ns: u64,
}

impl Point {
    /// Runs of a contestant in which the first failure of a path came before the end; one, where all are one case.
    pub fn met_failure<'a>(&self, contestant: &'a Contestant) -> impl Iterator<Item = &'a Run> {
        let at = self.failure_ns;
        let runs = metrics::counted(&contestant.runs, self.terms()).iter();
        runs.filter(move |run| at.is_some_and(|at| run.page_ns.is_none_or(|end| end > at)))
    }
}

/// One value for each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Directions<T> {
    /// Client to server.
    pub up: T,
    /// Server to client.
    pub down: T,
}

/// Packets of one direction, over all paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Packets {
    /// Sent by the host.
    pub sent: u64,
    /// Lost by the network, whatever the reason (loss model, full queue, outage, corruption).
    pub lost: u64,
    /// Packets that carried a retransmission.
    pub retransmitted: u64,
}

/// What rules of iptables counted of one direction, over all paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rules {
    /// Packets that came to them.
    pub packets: u64,
    /// Of these, dropped; among the direction's lost packets, too.
    pub dropped: u64,
}

/// What became of connections of Multipath TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Multipath {
    /// Connections begun.
    pub connections: u64,
    /// Of these, gone on as plain TCP; null where the kernel does not tell.
    pub fallbacks: Option<u64>,
}

/// What the senders of both sides had to do about loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Events {
    /// Retransmission timers that ran out.
    pub timeouts: u64,
    /// Fast retransmissions (packets).
    pub fast: u64,
    /// Retransmissions known to have been needless; null where the stack cannot know.
    pub spurious: Option<u64>,
}

/// Bytes over time. Every list has one number a bucket of `bucket_ns`, from the start; trailing zeros are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// [`BUCKET_NS`].
    pub bucket_ns: u64,
    /// The paths, in order.
    pub paths: Vec<Directions<PathSeries>>,
    /// Body bytes as the receiving application read them; a response that was fetched anew counts from its second begin.
    pub application: Vec<u64>,
}

/// One direction of one path over time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PathSeries {
    /// IP bytes the host handed to the path.
    pub wire: Vec<u64>,
    /// IP bytes that arrived at the other host.
    pub delivered: Vec<u64>,
}

/// How one `[[expect]]` fared at one point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Expectation {
    /// Which of the points, from 0.
    pub point: u64,
    /// What was expected, in one line.
    pub expected: String,
    /// What was found; null when nothing finished.
    pub found: Option<f64>,
    /// Whether the expectation holds.
    pub met: bool,
}

impl Race {
    /// Reads a result file.
    ///
    /// # Errors
    /// One line: not JSON, another schema, or a field that is missing or of the wrong kind.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
        match value.get("schema").and_then(|s| s.as_str()) {
            Some(SCHEMA) => {}
            Some("anabranch.race/1") => {
                return Err(format!(
                    "a result of schema anabranch.race/1, of an older version: its summaries are other ones than those of \
                     {SCHEMA}; run its plan again"
                ));
            }
            Some(other) => return Err(format!("schema '{other}' where '{SCHEMA}' is needed")),
            None => return Err(format!("no schema is named where '{SCHEMA}' is needed")),
        }
        serde_json::from_value(value).map_err(|e| format!("not a result of schema {SCHEMA}: {e}"))
    }
}
