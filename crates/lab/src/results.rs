//! The results of a race: the schema `anabranch.race/2`.
//!
//! Owns the types that `--json` and `--out` write and that the report reads back. Every figure can be redrawn from them
//! without another run. The JSON Schema beside the source (`schema/race-2.json`) describes the same format for other
//! languages. Names carry their units. Times are integer nanoseconds of the run's own clock, from its start. Keys are
//! written in the order of the fields, maps in alphabetical order, so equal results have equal bytes. Facts of the host are
//! in [`Host`] and nowhere else.

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

/// The complete result of a race.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Race {
    /// [`SCHEMA`].
    pub schema: String,
    /// Everything needed to run it again: the keys and values of the plan file.
    pub plan: serde_json::Value,
    /// The kind of network on which it ran.
    pub world: World,
    /// Facts of the machine; the only part that may differ between two runs of one plan.
    pub host: Host,
    /// What the reader must know before trusting the numbers, for example page entries that cannot be used.
    pub warnings: Vec<String>,
    /// One for each combination of the factors; a plain race has one.
    pub points: Vec<Point>,
    /// The outcome of each `[[expect]]` of the plan.
    pub expectations: Vec<Expectation>,
}

/// The kind of network on which a race ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// The simulated network, in virtual time.
    Virtual,
    /// Real packets through the same link elements.
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
    /// Number of threads that ran simulations; absent if the race was run point by point, perhaps on several machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Seconds that the whole race took; absent in the same case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// The kernel's version, if the kernel's protocols and namespaces were used (the emulated world).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether that kernel has its own SCTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_sctp: Option<bool>,
}

/// One combination of the factors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Level of each factor, as text; empty for a plain race.
    pub factors: BTreeMap<String, String>,
    /// The network, described in one line.
    pub network: String,
    /// When the first path fails, nanoseconds of a run's clock; absent if no path fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_ns: Option<u64>,
    /// The workload of this point.
    pub workload: Workload,
    /// Something is drawn from the seed, for example loss or jitter. Otherwise identical runs count as one.
    pub chance: bool,
    /// How contestants that raced together shared the network, one entry per seed; left out if each raced alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<Sharing>,
    /// The contestants, in the order of the plan.
    #[serde(rename = "arms")]
    pub contestants: Vec<Contestant>,
    /// Each contestant compared with every contestant before it. Comparisons with the first cover every metric, the others
    /// only the metric of the verdict.
    pub comparisons: Vec<Comparison>,
}

/// The data to transfer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// Name of the page, or a description of the objects.
    pub name: String,
    /// Number of objects.
    pub objects: u64,
    /// Sum of their body bytes.
    pub bytes: u64,
    /// Bytes of each request's head; left out if the plan does not specify them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_head: Option<u64>,
    /// Bytes of each response's head; left out if the plan does not specify them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_head: Option<u64>,
    /// When an unfinished run is stopped, nanoseconds of its clock; null in results that do not record it.
    #[serde(default)]
    pub deadline_ns: Option<u64>,
    /// The objects are messages: the result is their delays, not the time until the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages: bool,
}

impl Workload {
    /// Whether this is a bulk transfer: one object named `bulk ...`.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        self.objects == 1 && self.name.starts_with("bulk ")
    }

    /// The noun for what `page_ms` measures, the time until the whole workload has arrived.
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
    /// The seed with the median page time: the run to show when one run represents all.
    pub median_seed: u64,
    /// The number of runs that differ in more than their seed.
    pub distinct_runs: u64,
    /// One for each seed, in the order of the seeds.
    pub runs: Vec<Run>,
    /// Statistics over the runs.
    pub summary: Summary,
}

/// One page load (or transfer) by one contestant under one seed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// How the run ended.
    pub outcome: Outcome,
    /// When the run started on the clock of the network, which times path failures. Absent in the virtual world, where both
    /// clocks are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
    /// From the start until every object was delivered; null unless the outcome is `done`.
    pub page_ns: Option<u64>,
    /// Lower bound on the page time for any contestant on this network, from the start until everything is released and
    /// transferred.
    pub limit_ns: Option<u64>,
    /// Mean time from opening a connection until it may carry user data; null if none was established.
    pub connect_ns: Option<u64>,
    /// From the first path failure until the data's sender declared that path failed; null if it never did.
    #[serde(default)]
    pub declared_failed_ns: Option<u64>,
    /// From the first path failure to the first arrival of data that was sent after it; null if either is missing.
    pub failover_ns: Option<u64>,
    /// From the first path failure until the application again received data at half the previous rate or more. The rate
    /// must last for a second, or to the end of the transfer. Null if that never happened.
    #[serde(default)]
    pub restored_ns: Option<u64>,
    /// Path state changes that a multipath transport detected, in order of time.
    pub path_events: Vec<PathEvent>,
    /// Connections or associations opened.
    pub connections: u64,
    /// The objects, in the order of the page.
    pub objects: Vec<Object>,
    /// Packets by direction.
    pub packets: Directions<Packets>,
    /// What iptables rules counted, if they dropped packets in place of the links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Directions<Rules>>,
    /// Whether Multipath TCP connections remained multipath; absent for other transports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<Multipath>,
    /// The longest delay by which a packet left an emulated link late because this machine was busy; absent in the virtual
    /// world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// Loss recovery events of the senders.
    pub events: Events,
    /// IP bytes the hosts handed to the paths, by direction.
    pub wire_bytes: Directions<u64>,
    /// Bytes over time.
    pub series: Series,
}

/// A change of the state that a transport assigns to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathEvent {
    /// The number of the path, from 1.
    pub path: u64,
    /// When its host detected the change.
    pub at_ns: u64,
    /// The state from then on.
    pub state: PathState,
    /// The host that detected the change.
    pub by: Side,
    /// The association that owns the path, identified by the port of its initiator.
    pub connection: u64,
}

/// The state that a transport assigns to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Recent packets were not answered; data goes to other paths (RFC 7829).
    #[serde(rename = "potentially-failed")]
    PotentiallyFailed,
    /// Nothing answers on this path (for SCTP: RFC 9260 §8.2).
    Failed,
    /// The path answers again.
    Active,
}

impl PathState {
    /// The state in words, as every output writes it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::PotentiallyFailed => "potentially failed",
            Self::Failed => "failed",
            Self::Active => "active",
        }
    }
}

/// One of the two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The host that fetches.
    Client,
    /// The host that serves.
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
    /// The run's clock reached its deadline before every object was delivered.
    Deadline,
}

/// The record of one object in one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Object {
    /// The object's name, a path or URL as in the page.
    pub name: String,
    /// Body bytes.
    pub bytes: u64,
    /// The connection that carried it, identified by the port of its initiator; null if it was never assigned one.
    pub connection: Option<u64>,
    /// The stream that carried it (0 on TCP); null if it was never assigned one.
    pub stream: Option<u64>,
    /// When the client wanted it; null if the object that triggers it was not delivered.
    pub issued_ns: Option<u64>,
    /// When the first byte of its response reached the application.
    pub first_byte_ns: Option<u64>,
    /// When its last byte reached the application; null if it never did.
    pub delivered_ns: Option<u64>,
    /// The object is background traffic and counts in no figure about objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Why it failed; null if it did not.
    pub failure: Option<String>,
    /// The response time in parts that add up to `delivered_ns - issued_ns`; null if not delivered.
    pub why: Option<Why>,
    /// The parts of `send_ns`; null if not known.
    pub send_detail: Option<SendDetail>,
    /// The instants between `issued_ns` and `delivered_ns` that separate the parts; null if not known.
    pub instants: Option<Instants>,
}

/// The response time of one object, partitioned. In the emulated world a part that cannot be measured is null. In the
/// virtual world no part is null, and they add up exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Why {
    /// Wait for the transport's handshake of the object's connection. If the transport has built-in encryption, only until
    /// the server's first packet arrives.
    pub connect_ns: Option<u64>,
    /// Wait for the TLS handshake that follows, or for the DTLS handshake that comes before. If the transport has built-in
    /// encryption, the rest of the handshake after the server's first packet.
    #[serde(default = "no_time")]
    pub secure_ns: Option<u64>,
    /// Wait for a free stream or slot.
    pub queue_ns: Option<u64>,
    /// Wait in the sender while it had nothing to retransmit: for window or pacing, or while other objects were sent.
    pub send_ns: Option<u64>,
    /// Wait in the server's transport while it retransmitted other bytes.
    pub stalled_ns: Option<u64>,
    /// Wait of the request behind earlier exchanges of its connection.
    pub ahead_ns: Option<u64>,
    /// Processing time of the server.
    pub server_ns: Option<u64>,
    /// Repair of the object's own bytes by fast retransmission.
    pub recovery_ns: Option<u64>,
    /// Repair of the object's own bytes by a retransmission timer.
    pub timeout_ns: Option<u64>,
    /// Network time of the two decisive packets: queues, serialization, propagation.
    pub wire_ns: Option<u64>,
    /// Complete at the receiver, but withheld because of another object's missing bytes.
    pub blocked_ns: Option<u64>,
}

/// The value of `secure_ns` in results that predate TLS and lack it.
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
    /// The parts, in the order of [`PARTS`]; `None` if a part is not known.
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

    /// Whether every part is known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.parts().iter().all(Option::is_some)
    }

    /// The sum of all parts in nanoseconds; unknown parts count as zero.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.parts().into_iter().flatten().sum()
    }
}

/// The parts of `send_ns`; the three add up to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SendDetail {
    /// The congestion window was full.
    pub cwnd_ns: u64,
    /// The receiver's window was full.
    pub rwnd_ns: u64,
    /// The sender served other objects first, or waited for a reason of its own.
    pub turn_ns: u64,
}

/// Nine of the eleven instants, in non-decreasing order; `issued` and `delivered` are in [`Object`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Instants {
    /// Connection usable, and a stream or slot free.
    pub assigned_ns: u64,
    /// First transmission of the packet whose arrival completed the request.
    pub req_sent_ns: u64,
    /// Transmission of the copy of that packet that arrived.
    pub req_copy_ns: u64,
    /// The request is complete at the server host.
    pub req_in_ns: u64,
    /// The server starts to process the request.
    pub serving_ns: u64,
    /// First response byte given to the transport.
    pub written_ns: u64,
    /// First transmission of the packet whose arrival completed the object.
    pub sent_ns: u64,
    /// Transmission of the copy of that packet that arrived first.
    pub copy_ns: u64,
    /// All bytes of the object are at the receiver.
    pub complete_ns: u64,
}

impl Point {
    /// The runs of a contestant that had not ended when the first path failed; only one run if all are identical.
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

/// What iptables rules counted in one direction, over all paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rules {
    /// Packets that reached the rules.
    pub packets: u64,
    /// Packets that the rules dropped; the direction's lost packets include them.
    pub dropped: u64,
}

/// Whether Multipath TCP connections remained multipath.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Multipath {
    /// Connections opened.
    pub connections: u64,
    /// Connections that fell back to plain TCP; null if the kernel does not report it.
    pub fallbacks: Option<u64>,
}

/// Loss recovery events of the senders on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Events {
    /// Retransmission timers that expired.
    pub timeouts: u64,
    /// Fast retransmissions (packets).
    pub fast: u64,
    /// Retransmissions known to have been unnecessary; null if the stack cannot know.
    pub spurious: Option<u64>,
}

/// Bytes over time. Each list has one number per bucket of `bucket_ns`, from the start; trailing zeros are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// [`BUCKET_NS`].
    pub bucket_ns: u64,
    /// The paths, in order.
    pub paths: Vec<Directions<PathSeries>>,
    /// Body bytes as the receiving application read them. A response that was fetched again counts from its second start.
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

/// The outcome of one `[[expect]]` at one point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Expectation {
    /// Index of the point, from 0.
    pub point: u64,
    /// The expectation, in one line.
    pub expected: String,
    /// The measured value; null if nothing finished.
    pub found: Option<f64>,
    /// Whether the expectation holds.
    pub met: bool,
}

impl Race {
    /// Reads a result file.
    ///
    /// # Errors
    /// A one-line message if the text is not JSON, has another schema, or has a field that is missing or of the wrong type.
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
