//! How one run becomes the number that a paper prints.
//!
//! A metric is of a whole run, or of one object of it. Times are seconds, rates are bytes a second except where a paper's
//! tool counts otherwise.

use crate::results::{Object, Run};
use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Seconds from the start of the run until the object (its number, from 1) is delivered.
    ObjectEnd,
    /// Seconds from the request of the object until it is delivered.
    ObjectTime,
    /// Mean over the objects of the seconds from request to delivery.
    ObjectMean,
    /// Seconds until every object is delivered.
    Page,
    /// What httperf prints as Net I/O: KiB a second of HTTP bytes in both directions, heads included, of the requests that
    /// were answered, over the time until the last one ended; 0 where none was.
    NetIo,
    /// Seconds until the last answered request ended.
    LastAnswer,
    /// Requests without an answer.
    Failed,
    /// Body bytes a second until every object is delivered.
    Goodput,
    /// IP bytes of both directions a second, until every object is delivered.
    WireRate,
    /// IP bytes of both directions.
    WireBytes,
    /// Packets of both directions.
    Packets,
    /// Packets of the client.
    PacketsUp,
    /// Packets of the server.
    PacketsDown,
    /// Packets that the network lost.
    Lost,
    /// The same for each object.
    LostPerObject,
    /// The share of the packets of both directions that the network lost.
    LossShare,
    /// Packets that carried a retransmission.
    Retransmissions,
    /// Retransmissions known to have been needless.
    Spurious,
    /// Retransmission timers that ran out.
    Timeouts,
    /// Fast retransmissions.
    Fast,
    /// Connections or associations.
    Connections,
    /// Mean seconds until user data may flow on a connection.
    Connect,
    /// Seconds until every object is delivered, less those until user data may flow.
    Transfer,
    /// Seconds from a path's failure to the first data sent after it that arrived.
    Failover,
    /// Mean over the objects of the seconds that they lay complete at the receiver behind another object's hole.
    Blocked,
    /// Of contestants that share the network: this one's part of the bytes delivered while all were at work.
    Share,
    /// Jain's index of these parts, of all contestants together: 1 where they are equal.
    Jain,
}

/// All of them, but those of one object, in the order in which files hold them.
pub const OF_RUNS: [Metric; 25] = [
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
];

impl Metric {
    /// The metric of this name.
    ///
    /// # Errors
    /// One line: there is none.
    pub fn parse(name: &str) -> Result<Self, String> {
        let text = toml::Value::String(name.to_owned());
        text.try_into().map_err(|_| format!("no metric '{name}'"))
    }

    /// It is of one object, not of the run.
    #[must_use]
    pub const fn is_of_objects(self) -> bool {
        matches!(self, Self::ObjectEnd | Self::ObjectTime)
    }

    /// The run's number; `heads` are the bytes of a request and its response's head together, `shared` its part and Jain's
    /// index where contestants share the network. `None` where the run has none.
    #[must_use]
    pub fn of(self, run: &Run, heads: u64, shared: Option<(f64, f64)>) -> Option<f64> {
        let page = run.page_ns.map(seconds).filter(|page| *page > 0.0);
        let both =
            |of: fn(&crate::results::Packets) -> u64| (of(&run.packets.up) + of(&run.packets.down)) as f64;
        let wire = (run.wire_bytes.up + run.wire_bytes.down) as f64;
        match self {
            Self::ObjectEnd | Self::ObjectTime => None,
            Self::ObjectMean => {
                mean(run, |object| Some(object.delivered_ns?.saturating_sub(object.issued_ns?)))
            }
            Self::Page => run.page_ns.map(seconds),
            Self::NetIo => {
                // Nothing that was answered is no throughput, whatever the time.
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
            Self::Blocked => mean(run, |object| object.why.and_then(|why| why.blocked_ns)),
            Self::Share => shared.map(|(share, _)| share),
            Self::Jain => shared.map(|(_, jain)| jain),
        }
    }

    /// What it is counted in; `1` where it is a number alone.
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
            | Self::Jain => "1",
        }
    }

    /// What files and tables call it.
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

/// Of a run in which every object has it: a mean over survivors would flatter.
fn mean(run: &Run, of: impl Fn(&Object) -> Option<u64>) -> Option<f64> {
    let values = run.objects.iter().map(of).collect::<Option<Vec<u64>>>()?;
    (!values.is_empty()).then(|| seconds(values.iter().sum()) / values.len() as f64)
}

/// Nanoseconds as seconds.
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
