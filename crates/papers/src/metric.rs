//! The metrics of a study. A metric turns a simulated run into a number of the kind that papers publish.
//!
//! A metric describes a whole run, or one object of the run. Times are in seconds. Rates are in bytes per second,
//! unless a paper's tool uses another unit.

use anabranch_results::{Object, Run};
use serde::{Deserialize, Serialize};

/// A metric of a run or of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Seconds from the start of the run until the object is delivered.
    ObjectEnd,
    /// Seconds from the request of the object until it is delivered.
    ObjectTime,
    /// Seconds from the request of an object to its delivery, as a mean over the objects.
    ObjectMean,
    /// Seconds until every object is delivered.
    Page,
    /// The Net I/O of httperf: KiB per second of HTTP bytes in both directions, including heads. The bytes of answered
    /// requests are divided by the time until the last answered request ended. The rate is 0 if no request was
    /// answered.
    NetIo,
    /// Seconds until the last answered request ended.
    LastAnswer,
    /// The number of requests without an answer.
    Failed,
    /// Body bytes per second until every object is delivered.
    Goodput,
    /// IP bytes per second in both directions, until every object is delivered.
    WireRate,
    /// IP bytes in both directions.
    WireBytes,
    /// Packets in both directions.
    Packets,
    /// Packets sent by the client.
    PacketsUp,
    /// Packets sent by the server.
    PacketsDown,
    /// Packets that the network lost.
    Lost,
    /// Packets that the network lost, per object.
    LostPerObject,
    /// The share of the packets of both directions that the network lost.
    LossShare,
    /// Packets that carried a retransmission.
    Retransmissions,
    /// Retransmissions known to have been unnecessary.
    Spurious,
    /// Retransmission timers that expired.
    Timeouts,
    /// Fast retransmissions.
    Fast,
    /// The number of connections or associations that were opened.
    Connections,
    /// Mean seconds from opening a connection until it may carry user data.
    Connect,
    /// Seconds from the time when a connection may carry user data until every object is delivered.
    Transfer,
    /// Seconds from a path failure to the first arrival of data that was sent after the failure.
    Failover,
    /// Seconds for which a complete object waited at the receiver for missing bytes of another object, as a mean over
    /// the objects.
    Blocked,
    /// The contestant's share of the bytes delivered while all contestants that share the network were active.
    Share,
    /// Jain's index of the shares of all contestants, which is 1 if the shares are equal.
    Jain,
    /// The largest number of packets that the servers sent at one instant.
    Burst,
    /// The smallest number of packets between two lost packets, both directions counted together.
    LossGapLeast,
    /// The largest number of packets between two lost packets, both directions counted together.
    LossGapMost,
}

/// All metrics that describe whole runs, in the order in which files store them.
pub const OF_RUNS: [Metric; 28] = [
    Metric::ObjectMean,
    Metric::Page,
    Metric::NetIo,
    Metric::LastAnswer,
    Metric::Failed,
    Metric::Goodput,
    Metric::WireRate,
    Metric::WireBytes,
    Metric::Packets,
    Metric::PacketsUp,
    Metric::PacketsDown,
    Metric::Lost,
    Metric::LostPerObject,
    Metric::LossShare,
    Metric::Retransmissions,
    Metric::Spurious,
    Metric::Timeouts,
    Metric::Fast,
    Metric::Connections,
    Metric::Connect,
    Metric::Transfer,
    Metric::Failover,
    Metric::Blocked,
    Metric::Share,
    Metric::Jain,
    Metric::Burst,
    Metric::LossGapLeast,
    Metric::LossGapMost,
];

impl Metric {
    /// Returns the metric of this name.
    ///
    /// # Errors
    /// A one-line message if there is no such metric.
    pub fn parse(name: &str) -> Result<Self, String> {
        let text = toml::Value::String(name.to_owned());
        text.try_into().map_err(|_| format!("no metric '{name}'"))
    }

    /// Returns whether the metric describes one object and not the whole run.
    #[must_use]
    pub const fn is_of_objects(self) -> bool {
        matches!(self, Self::ObjectEnd | Self::ObjectTime)
    }

    /// Returns the value of the metric in a run; `None` if the run has no value. `heads` is the number of bytes of an
    /// HTTP request's head and a response's head together. If contestants share the network, `shared` has two numbers:
    /// the contestant's share of the bandwidth (0 to 1), and Jain's fairness index of all contestants.
    #[must_use]
    pub fn of(self, run: &Run, heads: u64, shared: Option<(f64, f64)>) -> Option<f64> {
        let page = run.page_ns.map(seconds).filter(|page| *page > 0.0);
        let both =
            |of: fn(&anabranch_results::Packets) -> u64| (of(&run.packets.up) + of(&run.packets.down)) as f64;
        let wire = (run.wire_bytes.up + run.wire_bytes.down) as f64;
        match self {
            Self::ObjectEnd | Self::ObjectTime => None,
            Self::ObjectMean => {
                mean(run, |object| Some(object.delivered_ns?.saturating_sub(object.issued_ns?)))
            }
            Self::Page => run.page_ns.map(seconds),
            Self::NetIo => {
                // If no request was answered, the rate is 0, whatever the duration of the run.
                let Some(last) = last_answer(run).filter(|last| *last > 0.0) else { return Some(0.0) };
                let answered = run.objects.iter().filter(|object| object.delivered_ns.is_some());
                let bytes: u64 = answered.map(|object| object.bytes + heads).sum();
                Some(bytes as f64 / 1024.0 / last)
            }
            Self::LastAnswer => last_answer(run),
            Self::Failed => Some(run.objects.iter().filter(|o| o.delivered_ns.is_none()).count() as f64),
            Self::Goodput => Some(run.objects.iter().map(|object| object.bytes).sum::<u64>() as f64 / page?),
            Self::WireRate => Some(wire / page?),
            Self::WireBytes => Some(wire),
            Self::Packets => Some(both(|packets| packets.sent)),
            Self::PacketsUp => Some(run.packets.up.sent as f64),
            Self::PacketsDown => Some(run.packets.down.sent as f64),
            Self::Lost => Some(both(|packets| packets.lost)),
            Self::LostPerObject => Some(both(|packets| packets.lost) / run.objects.len().max(1) as f64),
            Self::LossShare => Some(both(|packets| packets.lost) / both(|packets| packets.sent).max(1.0)),
            Self::Retransmissions => Some(both(|packets| packets.retransmitted)),
            Self::Spurious => run.events.spurious.map(|count| count as f64),
            Self::Timeouts => Some(run.events.timeouts as f64),
            Self::Fast => Some(run.events.fast as f64),
            Self::Connections => Some(run.connections as f64),
            Self::Connect => run.connect_ns.map(seconds),
            Self::Transfer => Some(seconds(run.page_ns?.saturating_sub(run.connect_ns?))),
            Self::Failover => run.failover_ns.map(seconds),
            Self::Blocked => mean(run, |object| object.why.and_then(|breakdown| breakdown.blocked_ns)),
            Self::Share => shared.map(|(share, _)| share),
            Self::Jain => shared.map(|(_, jain)| jain),
            Self::Burst => run.spacing.map(|spacing| spacing.burst as f64),
            Self::LossGapLeast => Some(run.spacing?.loss_gaps?[0] as f64),
            Self::LossGapMost => Some(run.spacing?.loss_gaps?[1] as f64),
        }
    }

    /// Returns the unit of the metric; `1` for a plain number.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::ObjectEnd
            | Self::ObjectTime
            | Self::ObjectMean
            | Self::Page
            | Self::LastAnswer
            | Self::Connect
            | Self::Transfer
            | Self::Failover
            | Self::Blocked => "s",
            Self::NetIo => "KiB/s",
            Self::Goodput | Self::WireRate => "B/s",
            Self::WireBytes => "B",
            Self::Failed
            | Self::Packets
            | Self::PacketsUp
            | Self::PacketsDown
            | Self::Lost
            | Self::LostPerObject
            | Self::LossShare
            | Self::Retransmissions
            | Self::Spurious
            | Self::Timeouts
            | Self::Fast
            | Self::Connections
            | Self::Share
            | Self::Jain
            | Self::Burst
            | Self::LossGapLeast
            | Self::LossGapMost => "1",
        }
    }

    /// Returns the name of the metric in files and tables.
    #[must_use]
    pub fn name(self) -> String {
        match toml::Value::try_from(self) {
            Ok(toml::Value::String(name)) => name,
            _ => String::new(),
        }
    }
}

fn last_answer(run: &Run) -> Option<f64> {
    run.objects.iter().filter_map(|object| object.delivered_ns).max().map(seconds)
}

/// Returns the mean over the objects of a run. `None` if an object has no value, because a mean over the other objects
/// would be too optimistic.
fn mean(run: &Run, of: impl Fn(&Object) -> Option<u64>) -> Option<f64> {
    let values = run.objects.iter().map(of).collect::<Option<Vec<u64>>>()?;
    (!values.is_empty()).then(|| seconds(values.iter().sum()) / values.len() as f64)
}

/// Converts nanoseconds to seconds.
#[must_use]
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_name_and_is_found_by_it() {
        for metric in OF_RUNS.into_iter().chain([Metric::ObjectEnd, Metric::ObjectTime]) {
            assert_eq!(Metric::parse(&metric.name()), Ok(metric));
        }
        assert!(Metric::parse("speed").expect_err("none").contains("speed"));
    }
}
