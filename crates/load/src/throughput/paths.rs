//! The path report: at the end of a test, a server sends its client this report on the server's network paths.
//!
//! Only the sender of data detects which path has failed, and how long its data was interrupted (RFC 9260 §8.2). In a
//! test in which the server sends, the client therefore needs the server's report.

use super::Settings;
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use anabranch_transport::network::PathFigures;
use std::fmt::Write;
use std::net::IpAddr;
use std::rc::Rc;

/// Supplies the settings of a server's transport and the report on the paths of a session, which the server sends to
/// its client.
pub trait ServerReports<N> {
    /// Returns the settings of the transport.
    fn settings(&self, session: &N) -> Settings;

    /// Called when the client has requested a test in which this end `sends` data, `receives` data, or both.
    fn test_started(&self, session: &N, sends: bool, receives: bool) {
        let _ = (session, sends, receives);
    }

    /// Returns the report on the paths of the session, with times since `started_at`. The server calls this function
    /// once, at the end of the test.
    fn paths(&self, session: &N, started_at: Instant) -> PathReport {
        let _ = (session, started_at);
        PathReport::default()
    }
}

/// A closure reports only the settings. This is enough for a transport with a single path.
impl<N, F: Fn(&N) -> Settings> ServerReports<N> for F {
    fn settings(&self, session: &N) -> Settings {
        self(session)
    }
}

/// The [`ServerReports`] that all sessions of a server share.
pub(super) type Reports<N> = Rc<dyn ServerReports<N>>;

/// The paths of one end of a session, and their events. Times count from the start of the test at that end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathReport {
    /// The paths at the end of the test; empty for a session with one path.
    pub paths: Vec<PathFigures>,
    /// Changes of paths, in order of time.
    pub changes: Vec<PathChange>,
    /// Interruptions of user data, in order of time.
    pub interruptions: Vec<Interruption>,
}

/// A change of a path's state to `failed`, `potentially-failed` (RFC 7829) or `active`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathChange {
    /// When this end detected the change.
    pub at: Duration,
    /// The peer's address on the path.
    pub address: IpAddr,
    /// The new state: `active`, `potentially-failed` or `failed`.
    pub state: &'static str,
}

/// An interruption: a time in which no user data made progress. The data then resumed on another path, or on the same
/// path after a failure of this path or after a long wait. A wait is long if it exceeds the retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interruption {
    /// The time from the start of the test to the last progress of user data before the interruption.
    pub from: Duration,
    /// The time from the start of the test to the first progress of user data after the interruption.
    pub to: Duration,
    /// Whether this end was the receiver.
    pub received: bool,
    /// The peer's address on the path that carried the last data before the interruption.
    pub before: IpAddr,
    /// The peer's address on the path that carried the first data after the interruption.
    pub after: IpAddr,
}

/// The states of a path that a report can have.
const STATES: [&str; 4] = ["active", "potentially-failed", "failed", "unconfirmed"];
/// The maximum number of bytes of an encoded path report.
pub(super) const MAX_REPORT: usize = 8 << 10;

impl PathReport {
    /// Returns the report as text of at most [`MAX_REPORT`] bytes. If it is too long, the last events are left out.
    pub(super) fn encode(&self) -> String {
        let mut out = String::new();
        let mut add = |line: String| {
            if out.len() + line.len() < MAX_REPORT {
                let _ = writeln!(out, "{line}");
            }
        };
        for path in &self.paths {
            let PathFigures { address, state, current, cwnd, acknowledged, received, removed: _ } = path;
            add(format!("path {address} {state} {} {cwnd} {acknowledged} {received}", u8::from(*current)));
        }
        for Interruption { from, to, received, before, after } in &self.interruptions {
            let (from, to, received) = (nanos(*from), nanos(*to), u8::from(*received));
            add(format!("interruption {from} {to} {received} {before} {after}"));
        }
        for PathChange { at, address, state } in &self.changes {
            add(format!("change {} {address} {state}", nanos(*at)));
        }
        out
    }

    /// Reads a report. Unknown lines are skipped, because a newer peer may send further kinds of lines.
    pub(super) fn decode(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let _ = report.add_line(&fields);
        }
        report
    }

    fn add_line(&mut self, fields: &[&str]) -> Option<()> {
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let span = |at| number(at).map(Duration::from_nanos);
        let address = |at: usize| fields.get(at)?.parse::<IpAddr>().ok();
        // The state is printed on a terminal, so only known words are accepted.
        let state = |at: usize| STATES.into_iter().find(|state| fields.get(at) == Some(state));
        match *fields.first()? {
            "path" => self.paths.push(PathFigures {
                address: address(1)?,
                state: state(2)?,
                current: number(3)? != 0,
                cwnd: number(4)?,
                acknowledged: number(5)?,
                received: number(6)?,
                removed: false,
            }),
            "interruption" => self.interruptions.push(Interruption {
                from: span(1)?,
                to: span(2)?,
                received: number(3)? != 0,
                before: address(4)?,
                after: address(5)?,
            }),
            "change" => {
                self.changes.push(PathChange { at: span(1)?, address: address(2)?, state: state(3)? })
            }
            _ => {}
        }
        Some(())
    }

    /// Removes interruptions from the report. Keeps those of sent data only if `sends` is set, and those of received
    /// data only if `receives` is set. In a direction without test data, interruptions are normal.
    pub(super) fn only_tested_directions(mut self, sends: bool, receives: bool) -> Self {
        self.interruptions.retain(|it| if it.received { receives } else { sends });
        self
    }

    /// Adds the report of another session of the same test.
    pub(super) fn add(mut self, other: Self) -> Self {
        self.paths = other.paths.into_iter().fold(self.paths, add_path);
        self.changes.extend(other.changes);
        self.changes.sort_by_key(|change| change.at);
        self.interruptions.extend(other.interruptions);
        self.interruptions.sort_by_key(|it| it.to);
        self
    }
}

/// Returns the paths that a result lists: all paths that were not removed. Returns no paths if only one path is left.
#[must_use]
pub fn listed_paths(mut paths: Vec<PathFigures>) -> Vec<PathFigures> {
    paths.retain(|path| !path.removed);
    if paths.len() > 1 { paths } else { Vec::new() }
}

/// Adds the measurements of a path to the sums in `all`. Paths of different sessions with the same address share one
/// sum.
pub(super) fn add_path(mut all: Vec<PathFigures>, path: PathFigures) -> Vec<PathFigures> {
    match all.iter_mut().find(|other| other.address == path.address) {
        Some(other) => {
            other.cwnd += path.cwnd;
            other.acknowledged += path.acknowledged;
            other.received += path.received;
            other.current |= path.current;
        }
        None => all.push(path),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> PathReport {
        let address: IpAddr = "100.64.0.2".parse().expect("an address");
        let other: IpAddr = "fd61::2".parse().expect("an address");
        let path = |address, current| PathFigures {
            address,
            state: "potentially-failed",
            current,
            cwnd: 5,
            acknowledged: u64::MAX,
            received: 0,
            removed: false,
        };
        let second = Duration::from_secs(1);
        PathReport {
            paths: vec![path(address, false), path(other, true)],
            changes: vec![PathChange { at: second, address, state: "failed" }],
            interruptions: vec![Interruption {
                from: second,
                to: second * 2,
                received: false,
                before: address,
                after: other,
            }],
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        assert_eq!(PathReport::decode(&some().encode()), some());
        let only = |sends, receives| some().only_tested_directions(sends, receives).interruptions.len();
        assert_eq!((only(true, false), only(false, true)), (1, 0));
    }

    /// A path report comes from the network. Lines that cannot be parsed must be left out, and the number of entries
    /// must be limited.
    #[test]
    fn a_report_is_bounded_and_noise_is_left_out() {
        let noise =
            "path\npath x active 1 2 3 4\nchange 1 1.1.1.1 \u{1b}[2J\nchange -1 1.1.1.1 failed\n\nnews 1\n";
        assert_eq!(PathReport::decode(noise), PathReport::default());
        let mut many = some();
        many.changes = vec![many.changes[0]; 10_000];
        let text = many.encode();
        assert!(text.len() <= MAX_REPORT);
        let read = PathReport::decode(&text);
        assert!(read.changes.len() > 100 && read.paths == many.paths && read.interruptions.len() == 1);
    }
}
