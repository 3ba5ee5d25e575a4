//! The results of a race: the schema `anabranch.race/3`, and everything that is computed from results alone.
//!
//! Defines the types that `--json` and `--out` write and that the report reads back. Every figure of the report can be
//! drawn again from them without another run. The JSON Schema in `schema/race-3.json` describes the same format for
//! other languages.
//!
//! The names of fields carry units. Times are integer nanoseconds of the run's own clock, from its start. The fields of
//! a structure are written in the order of their declaration, the keys of a map in alphabetical order. Equal results
//! therefore have equal bytes. Facts of the host are only in [`Host`].
//!
//! [`stats`] computes the figures of a race, and [`verdict`] and [`cell`] determine which contestant is fastest.
//! [`label`] names contestants. [`json`] and [`csv`] write results. [`calibration`] compares recorded loads with
//! simulated ones. [`course`] holds facts of a run that neither results nor packets contain.

pub mod axes;
pub mod calibration;
mod cause;
pub mod cell;
pub mod changes;
mod columns;
pub mod course;
mod coverage;
pub mod csv;
mod detail;
pub mod json;
pub mod label;
pub mod stats;
mod summary;
pub mod verdict;
mod version2;

pub use cause::{Cause, Condition, Effect, Experiment, TestedFactor};
pub use changes::Changed;
pub use detail::PartSums;
pub use summary::{Bound, Comparison, Sharing, Stat, Summary, Verdict};
pub use version2::current_knob;

use crate::stats::metrics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name and version of the schema, the first key of every result file.
pub const SCHEMA: &str = "anabranch.race/3";

/// The width in nanoseconds of the time intervals (buckets) in which [`Series`] counts bytes.
pub const BUCKET_NS: u64 = 100_000_000;

/// The complete result of a race.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Race {
    /// The schema, always [`SCHEMA`].
    pub schema: String,
    /// The keys and values of the plan file, which are all that is needed to run the race again.
    pub plan: serde_json::Value,
    /// The kind of network on which the race ran: simulated or emulated.
    pub world: World,
    /// Facts about the machine. Only this part may differ between two runs of one plan.
    pub host: Host,
    /// Warnings that the reader must know before trusting the numbers, for example about page entries that cannot be
    /// used.
    pub warnings: Vec<String>,
    /// For each page that comes from a HAR file: its recorded load, compared with the simulation of the same load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibrations: Vec<calibration::Calibration>,
    /// The points, one for each combination of the factors. A race without factors has one point.
    pub points: Vec<Point>,
    /// The outcome of each `[[expect]]` of the plan.
    pub expectations: Vec<Expectation>,
}

/// The kind of network on which a race ran: simulated or emulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// The simulated network, in virtual time.
    Virtual,
    /// Real packets through the kernel, with the same link elements as in the simulation.
    Emulated,
}

/// Facts about the machine, and about this execution of the program.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// The version of the program.
    pub version: String,
    /// The operating system.
    pub os: String,
    /// The processor architecture.
    pub arch: String,
    /// The number of threads that ran simulations; absent for a sweep, whose points may run at different times and on
    /// different machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The seconds that the whole race took; absent for a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// The version of the kernel, if the race ran in the emulated network, which uses the kernel's protocols and
    /// namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether the kernel has its own SCTP implementation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_sctp: Option<bool>,
}

/// The results of one point of a race: one combination of the factors' levels.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// The level of each factor, as text; empty for a race without factors.
    pub factors: BTreeMap<String, String>,
    /// The network, described in one line.
    pub network: String,
    /// When the first path fails, in nanoseconds on the clock of the network; absent if no path fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_ns: Option<u64>,
    /// The workload of this point.
    pub workload: Workload,
    /// Whether runs can differ by chance, for example because of random loss or jitter. If not, all identical runs
    /// count as a single run in the statistics.
    pub chance: bool,
    /// How contestants that raced at the same time shared the network, one entry per seed; left out if each contestant
    /// raced alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<Sharing>,
    /// The contestants, in the order of the plan.
    #[serde(alias = "arms")]
    pub contestants: Vec<Contestant>,
    /// Each contestant compared with every contestant before it. Comparisons with the first contestant cover every
    /// metric. All other comparisons cover only the metric of the verdict.
    pub comparisons: Vec<Comparison>,
    /// The results after each of several changes to the point. They show which changes make another contestant win.
    /// Left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Changed>,
}

/// The data that a run transfers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// The name of the page, or a description of the objects.
    pub name: String,
    /// Number of objects.
    pub objects: u64,
    /// The sum of the objects' body bytes.
    pub bytes: u64,
    /// Bytes of each request's head; left out if the plan does not specify them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_head: Option<u64>,
    /// Bytes of each response's head; left out if the plan does not specify them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_head: Option<u64>,
    /// The deadline, at which an unfinished run is stopped, in nanoseconds on the run's clock; null in results that do
    /// not record the deadline.
    #[serde(default)]
    pub deadline_ns: Option<u64>,
    /// Whether the objects are messages. Contestants are then compared by the delays of the messages, and not by the
    /// time until the last message arrives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages: bool,
}

impl Workload {
    /// Returns whether the workload is a bulk transfer: one object in a workload named `bulk ...`.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        self.objects == 1 && self.name.starts_with("bulk ")
    }

    /// Returns the noun for the workload whose time `page_ms` measures: page, transfer or messages.
    #[must_use]
    pub fn workload_noun(&self) -> &'static str {
        match (self.messages, self.is_bulk()) {
            (true, _) => "messages",
            (false, true) => "transfer",
            (false, false) => "page",
        }
    }
}

/// The results of one contestant at one point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Contestant {
    /// The contestant, as the user typed it.
    #[serde(alias = "arm")]
    pub name: String,
    /// Every setting that the contestant ran with, as text: `transport`, `connections`, `streams`, `pipeline`,
    /// `profile`, and each knob of the profile.
    pub settings: BTreeMap<String, String>,
    /// The seed of the run with the median page time. Figures that show only one run of the contestant show this one.
    pub median_seed: u64,
    /// The number of different results among the runs. Two results are different if the outcome, the page time, or the
    /// times of an object differ.
    pub distinct_runs: u64,
    /// The sums of the parts of the response times over all runs. Result files have them, because they have the parts of
    /// each object only for the runs of [`Point::drawn_runs`]. [`Contestant::part_sums`] computes them otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_sums: Option<PartSums>,
    /// The runs, one for each seed, in the order of the seeds.
    #[serde(with = "columns::runs")]
    pub runs: Vec<Run>,
    /// Statistics over the contestant's runs, by metric.
    pub summary: Summary,
}

/// One page load (or transfer) by one contestant under one seed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The seed of the run.
    pub seed: u64,
    /// How the run ended.
    pub outcome: Outcome,
    /// The start of the run on the clock of the network, in nanoseconds. Path failures are given on the same clock.
    /// Absent in the simulation, where the run's clock and the network's clock are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
    /// Time from the start until every object was delivered; null unless the outcome is `done`.
    pub page_ns: Option<u64>,
    /// Time from the start until a browser could render the page for the first time: its parser had reached the body, and
    /// the style sheets and blocking scripts of the head had arrived. Absent if the client was no browser, or if the run
    /// ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_render_ns: Option<u64>,
    /// Time from the start until a browser had the whole of the largest image, by body bytes. Absent if the client was no
    /// browser, if the page has no images, or if this image was not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_image_ns: Option<u64>,
    /// The integral over time of the share of the body bytes that a browser had not received, in nanoseconds. It is a lower
    /// bound if the run did not finish. Absent if the client was no browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_index_ns: Option<u64>,
    /// Lower bound on the page time for any contestant on this network. The laboratory's `limit` computes it.
    pub limit_ns: Option<u64>,
    /// Mean time from opening a connection until it may carry user data; null if no connection was established.
    pub connect_ns: Option<u64>,
    /// Time from the first path failure until the sender of the data declared this path as failed; null if it never
    /// did.
    #[serde(default)]
    pub declared_failed_ns: Option<u64>,
    /// Time from the first path failure to the first arrival of data that was sent after the failure; null if no such
    /// data arrived.
    pub failover_ns: Option<u64>,
    /// Time from the first path failure until the application again received data at half the previous rate or more.
    /// The rate must last for a second, or to the end of the transfer. Null if the rate was not reached again.
    #[serde(default)]
    pub restored_ns: Option<u64>,
    /// Changes of path states that a multipath transport detected, sorted by time.
    pub path_events: Vec<PathEvent>,
    /// The number of connections or associations that were opened.
    pub connections: u64,
    /// The objects, in the order of the page. Results hold them as columns.
    #[serde(with = "columns")]
    pub objects: Vec<Object>,
    /// The number of packets in each direction.
    pub packets: Directions<Packets>,
    /// The packets that packet filter rules counted. Absent if only the links dropped packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Directions<Rules>>,
    /// For Multipath TCP, how many connections there were and how many fell back to plain TCP; absent for other
    /// transports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<Multipath>,
    /// The longest delay that a busy machine added to a packet on an emulated link; absent in the simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// Loss recovery events of the senders.
    pub events: Events,
    /// IP bytes that the hosts handed to the paths, by direction.
    pub wire_bytes: Directions<u64>,
    /// The bytes transferred over time.
    pub series: Series,
    /// Bursts, and gaps between lost packets; absent outside the simulation. Only studies use this field, so result
    /// files leave it out.
    #[serde(skip)]
    pub spacing: Option<Spacing>,
}

/// How the packets of a run followed each other on the network paths: bursts, and gaps between lost packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spacing {
    /// The largest number of packets that the servers sent at one instant.
    pub burst: u64,
    /// The smallest and the largest number of packets between two lost packets, both directions counted together. Absent
    /// if fewer than two packets were lost.
    pub loss_gaps: Option<[u64; 2]>,
}

/// A change of the state that a transport assigns to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathEvent {
    /// The number of the path, from 1.
    pub path: u64,
    /// The time in nanoseconds, on the clock of the network, at which the change was detected.
    pub at_ns: u64,
    /// The state after the change.
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
    /// The peer did not answer recent packets, so data goes to other paths (RFC 7829).
    #[serde(rename = "potentially-failed")]
    PotentiallyFailed,
    /// The peer does not answer on this path at all (for SCTP: RFC 9260 §8.2).
    Failed,
    /// The peer answers again on this path.
    Active,
}

impl PathState {
    /// Returns the state in words, as every output writes it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::PotentiallyFailed => "potentially failed",
            Self::Failed => "failed",
            Self::Active => "active",
        }
    }
}

/// One of the two hosts of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The host that requests the objects.
    Client,
    /// The host that sends the objects.
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
    /// The object's name: a path or URL, as the page lists it.
    pub name: String,
    /// The number of bytes in the body of the object.
    pub bytes: u64,
    /// The connection that carried the object, identified by the port of its initiator; null if the object was never
    /// assigned to a connection.
    pub connection: Option<u64>,
    /// The stream that carried the object (0 on TCP); null if the object was never assigned to a stream.
    pub stream: Option<u64>,
    /// When the client wanted the object; null if the object that triggers it was not delivered.
    pub issued_ns: Option<u64>,
    /// When the first byte of the response reached the application; null if no byte did.
    pub first_byte_ns: Option<u64>,
    /// When the last byte of the response reached the application; null if this byte never did.
    pub delivered_ns: Option<u64>,
    /// Whether the object is background traffic. If so, no statistics about objects include it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Why the object failed; null if it did not fail.
    pub failure: Option<String>,
    /// The parts of the response time, which add up to `delivered_ns - issued_ns`; null if the object was not
    /// delivered.
    pub why: Option<TimeBreakdown>,
    /// The parts of `send_ns`; null if not known.
    pub send_detail: Option<SendDetail>,
    /// The instants between `issued_ns` and `delivered_ns` that separate the parts of the response time; null if not
    /// known.
    pub instants: Option<Instants>,
}

/// The response time of one object, divided into parts. In the simulation every part is known, and the parts add up
/// exactly. In the emulated world a part is null if it cannot be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TimeBreakdown {
    /// Time that the object waited for the transport handshake of the connection that it uses. If the transport has
    /// built-in encryption, this time ends when the server's first packet arrives.
    pub connect_ns: Option<u64>,
    /// Time that the object waited for the TLS handshake, which follows the transport handshake, or for the DTLS
    /// handshake, which precedes it. If the transport has built-in encryption, this time extends from the arrival of
    /// the server's first packet to the end of the handshake.
    #[serde(default = "no_time")]
    pub secure_ns: Option<u64>,
    /// Time that the request waited for a free stream, or for its turn on a connection.
    pub queue_ns: Option<u64>,
    /// Time that the request and the response waited at their senders while nothing had to be retransmitted. A sender
    /// waited for window space or pacing, or sent other objects.
    pub send_ns: Option<u64>,
    /// Time that the request and the response waited at their senders while lost bytes of other objects were
    /// retransmitted.
    pub stalled_ns: Option<u64>,
    /// Time that the request waited at the server behind earlier requests of its connection.
    pub ahead_ns: Option<u64>,
    /// Processing time of the server, and the time that the response then waited behind other responses until the
    /// transport took its head.
    pub server_ns: Option<u64>,
    /// Time to repair lost bytes of the object by fast retransmission.
    pub recovery_ns: Option<u64>,
    /// Time to repair lost bytes of the object by a retransmission timer.
    pub timeout_ns: Option<u64>,
    /// Network time (queues, serialization, propagation) of two packets: those whose arrival completed the request and
    /// the response.
    pub wire_ns: Option<u64>,
    /// Time that the complete object was withheld at the receiver because bytes of another object were missing.
    pub blocked_ns: Option<u64>,
}

/// Returns the value of `secure_ns` for results without this field. These come from old program versions without TLS.
#[expect(clippy::unnecessary_wraps, reason = "the part's type")]
const fn no_time() -> Option<u64> {
    Some(0)
}

/// The parts of a response time, in the order in which they occur.
pub const PARTS: [&str; 11] = [
    "connect", "secure", "queue", "send", "stalled", "ahead", "server", "recovery", "timeout", "wire",
    "blocked",
];

impl TimeBreakdown {
    /// Returns the parts of the response time in the order of [`PARTS`]. A part is `None` if it is not known.
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

    /// Returns the response time with these parts, in the order of [`PARTS`].
    #[must_use]
    pub const fn from_parts(parts: [Option<u64>; 11]) -> Self {
        let [connect_ns, secure_ns, queue_ns, send_ns, stalled_ns, ahead_ns, rest @ ..] = parts;
        let [server_ns, recovery_ns, timeout_ns, wire_ns, blocked_ns] = rest;
        Self {
            connect_ns,
            secure_ns,
            queue_ns,
            send_ns,
            stalled_ns,
            ahead_ns,
            server_ns,
            recovery_ns,
            timeout_ns,
            wire_ns,
            blocked_ns,
        }
    }

    /// Returns whether every part of the response time is known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.parts().iter().all(Option::is_some)
    }

    /// Returns the sum of all parts of the response time in nanoseconds. Unknown parts count as zero.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.parts().into_iter().flatten().sum()
    }
}

/// The three parts of the time `send_ns` that an object's bytes waited at their senders. Their sum is `send_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SendDetail {
    /// Time during which the congestion window was full.
    pub cwnd_ns: u64,
    /// Time during which the receiver's window was full.
    pub rwnd_ns: u64,
    /// Time during which the sender sent other objects first, or waited although neither the congestion window nor the
    /// receiver's window was full.
    pub turn_ns: u64,
}

/// Nine of the eleven instants in the life of an object, in nanoseconds on the run's clock and in non-decreasing order.
/// The other two, `issued` and `delivered`, are in [`Object`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Instants {
    /// The time from which the object can use a connection: the connection is usable, and a stream or slot is free.
    pub assigned_ns: u64,
    /// The time of the first transmission of the packet that completed the request.
    pub req_sent_ns: u64,
    /// The send time of the copy that completed the request: the first transmission of its packet or a retransmission.
    pub req_copy_ns: u64,
    /// The time at which the request is complete at the server's host.
    pub req_in_ns: u64,
    /// The time at which the server starts to process the request.
    pub serving_ns: u64,
    /// The time at which the server gives the first response byte to the transport.
    pub written_ns: u64,
    /// The time of the first transmission of the packet that completed the object.
    pub sent_ns: u64,
    /// The send time of the copy that completed the object: the first transmission of its packet or a retransmission.
    pub copy_ns: u64,
    /// The time at which all bytes of the object have arrived at the receiver.
    pub complete_ns: u64,
}

impl Point {
    /// Returns those runs of a contestant that were still under way when the first path failed. If all runs are
    /// identical, only the first run is considered.
    pub fn runs_with_path_failure<'a>(&self, contestant: &'a Contestant) -> impl Iterator<Item = &'a Run> {
        let at = self.failure_ns;
        let runs = metrics::counted(&contestant.runs, self.terms()).iter();
        runs.filter(move |run| at.is_some_and(|at| run.page_ns.is_none_or(|end| end > at)))
    }
}

/// One value for the direction to the server (`up`), and one for the direction to the client (`down`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Directions<T> {
    /// Client to server.
    pub up: T,
    /// Server to client.
    pub down: T,
}

/// The numbers of packets in one direction, over all paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Packets {
    /// Packets that the host sent.
    pub sent: u64,
    /// Packets that the network lost, whatever the reason (loss model, full queue, outage, corruption).
    pub lost: u64,
    /// Packets that carried a retransmission.
    pub retransmitted: u64,
}

/// The numbers of packets that iptables rules counted in one direction, over all paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rules {
    /// Packets that the iptables rules examined.
    pub packets: u64,
    /// Packets that the iptables rules dropped. The direction's number of lost packets includes them.
    pub dropped: u64,
}

/// How many Multipath TCP connections were opened, and how many fell back to plain TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Multipath {
    /// The number of Multipath TCP connections that were opened.
    pub connections: u64,
    /// The number of connections that fell back to plain TCP; null if the kernel does not report it.
    pub fallbacks: Option<u64>,
}

/// Loss recovery events of the senders on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Events {
    /// The number of retransmission timers that expired.
    pub timeouts: u64,
    /// The number of packets sent by fast retransmission.
    pub fast: u64,
    /// The number of retransmissions known to have been unnecessary; null if the protocol stack cannot know.
    pub spurious: Option<u64>,
}

/// Bytes over time. Each list has one number per bucket, an interval of `bucket_ns`, from the start of the run.
/// Trailing zeros are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The width of a bucket, always [`BUCKET_NS`].
    pub bucket_ns: u64,
    /// The bytes on each path, in the order of the network's paths.
    pub paths: Vec<Directions<PathSeries>>,
    /// Body bytes that the receiving application read. If a response was fetched twice, only the bytes of the second
    /// fetch count.
    pub application: Vec<u64>,
}

/// The bytes and packets in one direction of one path over time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PathSeries {
    /// IP bytes that the host handed to the path.
    pub wire: Vec<u64>,
    /// IP bytes that arrived at the other host.
    pub delivered: Vec<u64>,
    /// The number of packets that the host handed to the path; empty outside the simulation. Only studies draw these
    /// numbers, so result files leave them out.
    #[serde(skip)]
    pub packets: Vec<u64>,
}

/// The outcome of one expectation of the plan (`[[expect]]`) at one point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Expectation {
    /// The index in the race of the point to which the expectation applies, from 0.
    pub point: u64,
    /// The expectation, in one line.
    pub expected: String,
    /// The measured value; null if no run finished.
    pub found: Option<f64>,
    /// Whether the expectation holds.
    pub met: bool,
}

impl Race {
    /// Reads the text of a result file.
    ///
    /// # Errors
    /// A one-line message if the text is not JSON, has another schema, or has a field that is missing or of the wrong
    /// type.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
        match value.get("schema").and_then(|s| s.as_str()) {
            Some(SCHEMA) => {}
            Some(version2::SCHEMA) => {
                return version2::read(value)
                    .map_err(|e| format!("not a result of schema {}: {e}", version2::SCHEMA));
            }
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
