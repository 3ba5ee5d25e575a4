//! Reports events on the paths of SCTP associations on real networks. A path event is either a state change (a path
//! fails, potentially fails or becomes active again) or an interruption of user data. The events and the bytes of each
//! path are printed on standard error and listed in the JSON.
//!
//! The path states are those of RFC 9260 §8.2 and RFC 7829 §3.

use crate::clock::now as wall_clock;
use crate::complain;
use anabranch_base::time::{Instant, nanos};
use anabranch_load::throughput::paths::{self, PathReport, ServerReports};
use anabranch_load::throughput::{Settings, report};
use anabranch_transport::network::PathFigures;
use anabranch_transport::protocol::{PathEvent, PathState};
use anabranch_transport::{Host, Session};
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The path events of a run. Clones share one log.
#[derive(Clone)]
pub struct PathLog {
    started_at: Rc<Cell<Instant>>,
    quiet: bool,
    /// Whether interruptions of sent data are reported. `received` is the same for received data.
    sent: bool,
    received: bool,
    events: Rc<RefCell<Vec<PathEvent>>>,
    /// The hosts whose paths are counted. The event callback of a host has its own empty list, because a host in this
    /// list would keep itself alive.
    hosts: Rc<RefCell<Vec<Rc<dyn Host>>>>,
}

impl PathLog {
    /// Creates an empty log. With `quiet`, events are recorded but not printed.
    pub fn new(quiet: bool) -> Self {
        Self {
            started_at: Rc::default(),
            quiet,
            sent: true,
            received: true,
            events: Rc::default(),
            hosts: Rc::default(),
        }
    }

    /// Limits reports of interruptions to the directions in which data is always waiting to be sent. In other
    /// directions a pause may only mean that there was no data. SCTP does not tell a receiver whether its peer has data
    /// to send.
    pub fn only_tested_directions(self, sent: bool, received: bool) -> Self {
        Self { sent, received, ..self }
    }

    /// Sets the start of the run. The printed times of path events count from this start.
    pub fn begin(&self, started_at: Instant) {
        self.started_at.set(started_at);
    }

    /// Records and prints the path events of `host` from now on, and counts the bytes of its paths.
    pub fn watch(&self, host: &Rc<dyn Host>) {
        let log = Self { hosts: Rc::default(), ..self.clone() };
        let mut hosts = self.hosts.borrow_mut();
        if hosts.len() < MAX_HOSTS {
            hosts.push(host.clone());
        }
        host.on_path_event(Box::new(move |event| {
            match &event {
                // This event is not logged, because the command's error message has the same text.
                PathEvent::BlackHole { .. } => return,
                PathEvent::Interrupted(it) if !(if it.received { log.received } else { log.sent }) => return,
                _ => {}
            }
            if !log.quiet {
                clear_progress();
                complain(&text(&event, |at| {
                    format!("{:.3} s", at.since(log.started_at.get()).as_secs_f64())
                }));
            }
            let mut events = log.events.borrow_mut();
            if events.len() < MAX_EVENTS {
                events.push(event);
            }
        }));
    }

    /// Returns one entry for each server address that was the destination of a path. Only associations with several
    /// paths count, including ended ones. A removed path is left out if no user data arrived on it.
    pub fn paths(&self) -> Vec<PathFigures> {
        let hosts = self.hosts.borrow();
        let paths = hosts.iter().flat_map(|host| host.paths());
        paths.filter(|path| !path.removed || path.received > 0).collect()
    }

    /// Returns the lines about the used paths, or an empty string if no event has occurred on any path.
    pub fn summary(&self) -> String {
        if self.events.borrow().is_empty() { String::new() } else { report::path_lines(&self.paths()) }
    }

    /// Returns the fields `path_changes`, `interruptions` and `paths` of a result.
    pub fn fields_with_paths(&self) -> Map<String, Value> {
        let mut fields = self.fields();
        fields.insert("paths".to_owned(), report::paths(&self.paths()));
        fields
    }

    /// Returns the fields `path_changes` and `interruptions` of a result.
    pub fn fields(&self) -> Map<String, Value> {
        let events = self.events.borrow();
        let since = |at: Instant| nanos(at.since(self.started_at.get()));
        let change = |event: &PathEvent| match event {
            PathEvent::Changed(change) => Some(json!({
                "at_ns": since(change.at),
                "connection": change.connection,
                "address": change.address.to_string(),
                "state": name(change.state),
            })),
            _ => None,
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
            _ => None,
        };
        let fields: [(&str, Value); 2] = [
            ("path_changes", events.iter().filter_map(change).collect()),
            ("interruptions", events.iter().filter_map(interruption).collect()),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }
}

/// Prints the path events of a server's transport with the time of day (UTC). If many events occur at once, only some
/// are printed.
pub fn watch_server(host: &dyn Host, world: &OsWorld) {
    let print = printer(world);
    host.on_path_event(Box::new(move |event| print(&event)));
}

/// Returns the function with which a server prints a path event.
fn printer(world: &OsWorld) -> impl Fn(&PathEvent) + 'static {
    let world = world.clone();
    // The start of the current period, and the number of events in this period. Each period has a maximum number of
    // lines.
    let period = Cell::new((world.now(), 0));
    move |event| {
        let now = world.now();
        let (period_start, lines) = period.get();
        let (period_start, lines) =
            if now.since(period_start) > PERIOD { (now, 0) } else { (period_start, lines) };
        period.set((period_start, lines + 1));
        match lines.cmp(&MAX_LINES) {
            Ordering::Less => complain(&text(event, |at| time_of_day(wall_clock() - now.since(at)))),
            Ordering::Equal => complain("more path events; some are not shown"),
            Ordering::Greater => {}
        }
    }
}

/// The settings and the path events of one listener of a `bulk` server. The events of all sessions are printed. Each
/// session also reports its own events to its client. Clones share one log.
#[derive(Clone, Debug)]
pub struct ServerLog {
    settings: Settings,
    /// Events that no session has reported yet, the oldest first.
    events: Rc<RefCell<VecDeque<PathEvent>>>,
    /// For each client port: whether the test has data to send, and whether it has data to receive.
    directions: Rc<RefCell<BTreeMap<u64, (bool, bool)>>>,
}

impl ServerLog {
    /// Creates a log for a host with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings, events: Rc::default(), directions: Rc::default() }
    }

    /// Prints and keeps the path events of `host` from now on.
    pub fn watch(&self, host: &dyn Host, world: &OsWorld) {
        let (log, print) = (self.clone(), printer(world));
        host.on_path_event(Box::new(move |event| {
            if let PathEvent::Interrupted(it) = &event {
                let directions = log.directions.borrow().get(&it.connection).copied();
                let (sends, receives) = directions.unwrap_or((true, true));
                if !(if it.received { receives } else { sends }) {
                    return;
                }
            }
            print(&event);
            if let PathEvent::BlackHole { .. } = event {
                return;
            }
            let mut events = log.events.borrow_mut();
            if events.len() >= MAX_EVENTS {
                events.pop_front();
            }
            events.push_back(event);
        }));
    }
}

impl<N: Session> ServerReports<N> for ServerLog {
    fn settings(&self, session: &N) -> Settings {
        let mut settings = self.settings.clone();
        // If the settings do not select the congestion control, adds the one that the kernel uses.
        if settings.iter().all(|(key, _)| key != "cc") {
            settings.extend(session.congestion().map(|name| ("cc".to_owned(), name)));
        }
        settings
    }

    fn test_started(&self, session: &N, sends: bool, receives: bool) {
        let Some((connection, _)) = paths_of(session) else { return };
        let mut directions = self.directions.borrow_mut();
        if directions.len() >= MAX_EVENTS {
            directions.pop_first();
        }
        directions.insert(connection, (sends, receives));
    }

    fn paths(&self, session: &N, started_at: Instant) -> PathReport {
        let mut report = PathReport::default();
        let Some((connection, all)) = paths_of(session) else { return report };
        self.directions.borrow_mut().remove(&connection);
        // Clients at different addresses may have the same port, so the address is compared, too.
        let is_own = |address: IpAddr| all.iter().any(|path| path.address == address);
        self.events.borrow_mut().retain(|event| {
            match event {
                PathEvent::Changed(it) if it.connection == connection && is_own(it.address) => {
                    let (at, address, state) = (it.at.since(started_at), it.address, name(it.state));
                    report.changes.push(paths::PathChange { at, address, state });
                }
                PathEvent::Interrupted(it) if it.connection == connection && is_own(it.to) => {
                    report.interruptions.push(paths::Interruption {
                        from: it.since.since(started_at),
                        to: it.until.since(started_at),
                        received: it.received,
                        before: it.from,
                        after: it.to,
                    });
                }
                _ => return true,
            }
            false
        });
        report.paths = paths::listed_paths(all);
        report
    }
}

/// Returns the client's port and the paths of a session that a server has accepted. The port identifies the session in
/// path events. Returns `None` if the transport does not distinguish paths.
fn paths_of(session: &impl Session) -> Option<(u64, Vec<PathFigures>)> {
    let paths = session.figures().map(|figures| figures.paths).filter(|paths| !paths.is_empty())?;
    Some((session.peer()?.port().into(), paths))
}

/// Formats a time of day, for example `08:49:37.250 UTC`.
fn time_of_day(at: SystemTime) -> String {
    let millis = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_millis());
    // The time of day is cut from a date of the form `Sun, 06 Nov 1994 08:49:37 GMT`.
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
        PathEvent::BlackHole { address, at, reason } => {
            format!("{}: session with {address} ended: {reason}", time(*at))
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

/// The maximum number of hosts whose paths are counted. The log keeps these hosts alive, and each host keeps its
/// sockets open.
const MAX_HOSTS: usize = 64;
/// The maximum number of events kept for results.
const MAX_EVENTS: usize = 1024;
/// The maximum number of lines that a server prints per period. Without a limit, a client could fill the log by making
/// paths fail.
const MAX_LINES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);
