//! Reports events on the paths of SCTP associations on real networks. A path fails, potentially fails or becomes active
//! again; user data is interrupted at a time and for a duration. The events are printed on standard error and listed in
//! the JSON.
//!
//! The path states are those of RFC 9260 §8.2 and RFC 7829 §3.

use crate::{complain, serve};
use anabranch_base::time::{Instant, nanos};
use anabranch_transport::protocol::{PathEvent, PathState};
use anabranch_transport::sctp::SctpHost;
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::io::IsTerminal;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The path events of a run. Clones share one log.
#[derive(Clone, Debug)]
pub struct PathLog {
    begun: Rc<Cell<Instant>>,
    quiet: bool,
    /// Whether interruptions of sent data are reported. `received` is the same for received data.
    sent: bool,
    received: bool,
    events: Rc<RefCell<Vec<PathEvent>>>,
}

impl PathLog {
    /// Creates an empty log. With `quiet`, events are recorded but not printed.
    pub fn new(quiet: bool) -> Self {
        Self { begun: Rc::default(), quiet, sent: true, received: true, events: Rc::default() }
    }

    /// Limits reports of interruptions to the directions in which data is always waiting to be sent. In other directions a
    /// pause may only mean that there was no data. SCTP does not tell a receiver whether its peer has data to send.
    pub fn only_where_data_waits(self, sent: bool, received: bool) -> Self {
        Self { sent, received, ..self }
    }

    /// Makes the times of events count from `begun`, like the other times of the run.
    pub fn begin(&self, begun: Instant) {
        self.begun.set(begun);
    }

    /// Records and prints the path events of `host` from now on.
    pub fn watch(&self, host: &SctpHost<OsWorld>) {
        let log = self.clone();
        host.on_path_event(move |event| {
            if let PathEvent::Interrupted(it) = &event
                && !(if it.received { log.received } else { log.sent })
            {
                return;
            }
            if !log.quiet {
                clear_progress();
                complain(&text(&event, |at| format!("{:.3} s", at.since(log.begun.get()).as_secs_f64())));
            }
            let mut events = log.events.borrow_mut();
            if events.len() < MAX_EVENTS {
                events.push(event);
            }
        });
    }

    /// Returns the fields `path_changes` and `interruptions` of a result.
    pub fn fields(&self) -> Map<String, Value> {
        let events = self.events.borrow();
        let since = |at: Instant| nanos(at.since(self.begun.get()));
        let change = |event: &PathEvent| match event {
            PathEvent::Changed(change) => Some(json!({
                "at_ns": since(change.at),
                "connection": change.connection,
                "address": change.address.to_string(),
                "state": name(change.state),
            })),
            PathEvent::Interrupted(_) => None,
        };
        let interruption = |event: &PathEvent| match event {
            PathEvent::Interrupted(it) => Some(json!({
                "from_ns": since(it.since),
                "to_ns": since(it.until),
                "connection": it.connection,
                "direction": if it.received { "received" } else { "sent" },
                "before": it.from.to_string(),
                "after": it.to.to_string(),
            })),
            PathEvent::Changed(_) => None,
        };
        let fields: [(&str, Value); 2] = [
            ("path_changes", events.iter().filter_map(change).collect()),
            ("interruptions", events.iter().filter_map(interruption).collect()),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }
}

/// Prints the path events of a server's SCTP host with the time of day (UTC). If many events occur at once, only some are
/// printed.
pub fn watch_server(host: &SctpHost<OsWorld>, world: &OsWorld) {
    let world = world.clone();
    // The start of the current period, and the number of lines printed in this period.
    let period = Cell::new((world.now(), 0));
    host.on_path_event(move |event| {
        let now = world.now();
        let (begun, lines) = period.get();
        let (begun, lines) = if now.since(begun) > PERIOD { (now, 0) } else { (begun, lines) };
        period.set((begun, lines + 1));
        match lines.cmp(&MAX_LINES) {
            Ordering::Less => complain(&text(&event, |at| time_of_day(serve::now() - now.since(at)))),
            Ordering::Equal => complain("more path events; some are not shown"),
            Ordering::Greater => {}
        }
    });
}

/// Formats a time of day, for example `08:49:37.250 UTC`.
fn time_of_day(at: SystemTime) -> String {
    let millis = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_millis());
    // The date has the form `Sun, 06 Nov 1994 08:49:37 GMT`.
    let date = httpdate::fmt_http_date(at);
    format!("{}.{millis:03} UTC", date.get(17..25).unwrap_or_default())
}

/// Clears the progress line if standard error is a terminal.
fn clear_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

fn text(event: &PathEvent, time: impl Fn(Instant) -> String) -> String {
    match event {
        PathEvent::Changed(change) => {
            format!("{}: path to {} {}", time(change.at), change.address, name(change.state))
        }
        PathEvent::Interrupted(it) => {
            let outage = it.until.since(it.since).as_secs_f64();
            let path = if it.from == it.to { "again" } else { "now" };
            let data = if it.received { "data from the peer" } else { "data" };
            format!(
                "{}: {data} goes on after an interruption of {outage:.3} s, {path} on the path to {}",
                time(it.until),
                it.to
            )
        }
    }
}

/// The name of a path state in results.
fn name(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially-failed",
        PathState::Failed => "failed",
    }
}

/// The maximum number of events kept for results.
const MAX_EVENTS: usize = 1024;
/// The maximum number of lines that a server prints per period. Without a limit, a client could fill the log by making
/// paths fail.
const MAX_LINES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);
