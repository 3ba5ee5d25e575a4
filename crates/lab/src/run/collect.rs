//! Turns the records of a simulated run into a [`Run`], the result of one contestant.

use super::contest::{self, Contest};
use super::topology::{Built, ContestantHosts};
use super::{bound, failover, host, paint, traffic};
use crate::attribution::{self, Attributed, Records};
use crate::limit::Item;
use crate::plan::workload::BESIDE;
use crate::plan::{Contestant, LossBy, PointPlan};
use anabranch_base::trace::{SendCause, TraceEvent, TraceRecord};
use anabranch_base::{Instant, time::nanos};
use anabranch_http::fetch::{FetchStatus, Outcome as Fetched};
use anabranch_http::observe::{ObjectRecord, Record};
use anabranch_results::{Events, Instants, Object, Outcome, PathEvent, PathState, Run, Side};
use anabranch_sim::TapRecord;
use anabranch_transport::Host;
use anabranch_transport::protocol::{self, PathChange};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The name of an object, and the size of its body in bytes.
pub type NamedObject = (String, u64);

/// The traces that the engines of a contestant recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct Traces {
    /// The trace of the client's engine.
    pub client: Vec<TraceRecord>,
    /// The traces of the servers' engines, in the order of the servers.
    pub servers: Vec<Vec<TraceRecord>>,
    /// The records of the layers between the engines and the application, for example TLS.
    pub records: Records,
}

impl Traces {
    /// Takes the recorded traces out of the contestant's transport engines.
    pub fn of(contest: &Contest) -> Self {
        let servers = contest.servers.iter().map(|host| host.take_trace()).collect();
        let mut records = Records { up: contest.client.take_record_map(), ..Records::default() };
        contest.servers.iter().for_each(|host| records.down.merge(host.take_record_map()));
        Self { client: contest.client.take_trace(), servers, records }
    }
}

/// Returns the result of one contestant.
///
/// # Errors
/// A one-line message if the contestant's settings contradict the workload. Plans are checked for this error before any
/// run.
pub fn run(
    built: &Built,
    lane: &ContestantHosts,
    contest: &Contest,
    fetched: &Fetched,
    (link_events, traces): (&[TapRecord], Traces),
    (point, contestant, seed): (&PointPlan, &Contestant, u64),
) -> Result<Run, String> {
    // The result shows the settings of the contestant. This check makes sure that the engines really used them.
    let servers = contest.servers.iter().map(|host| (host, true));
    for (at, is_server) in servers.chain([(&contest.client, false)]) {
        let asked = host::settings(point, contestant, is_server);
        let other = at.settings().is_some_and(|settings| !settings.same(&*asked));
        assert!(!other, "the engine of {} runs with other settings", contestant.text);
    }
    let record = contest.recorder.take();
    let Traces { client, servers, records } = traces;
    // The traces of all servers can be merged, because the client's port identifies a connection, whichever server it
    // leads to.
    let mut served: Vec<TraceRecord> = servers.iter().flatten().cloned().collect();
    served.sort_by_key(|record| record.at);
    let why = attribution::attribute(&record, &client, &served, &records);
    let (named, items) = objects_of(point, contestant)?;
    let objects: Vec<Object> = named
        .into_iter()
        .enumerate()
        .map(|(index, named)| {
            let object = object(point, named, record.objects.get(index), why.get(index).copied().flatten());
            since(object, fetched.started)
        })
        .collect();
    let paint = paint::of(point, &record, &objects, [fetched.started, fetched.finished]);
    let mut traffic = traffic::of(built, lane, link_events);
    traffic.packets.up.retransmitted = retransmitted(&client, |_| true);
    traffic.packets.down.retransmitted = servers.iter().map(|trace| retransmitted(trace, |_| true)).sum();
    let everyone = || std::iter::once(&client).chain(&servers);
    let hosts = || std::iter::once(&contest.client).chain(&contest.servers);
    traffic.series.application = traffic::application(&record.objects, fetched.started);
    let page_ns = (fetched.end == FetchStatus::Done).then(|| nanos(fetched.elapsed()));
    let begun = fetched.started.as_nanos();
    let path_events = path_events(lane, contest);
    let failure = point.network.first_failure().map(|(path, at)| (path, nanos(at)));
    let failover_ns = failure.and_then(|(_, at)| next_data(Instant::from_nanos(at), &client, &servers));
    let rules = (point.loss_by == LossBy::IptablesOut).then(|| traffic.filter_counts());
    Ok(Run {
        seed,
        outcome: outcome(fetched.end),
        started_ns: (begun > 0).then_some(begun),
        page_ns,
        start_render_ns: paint.start_render_ns,
        largest_image_ns: paint.largest_image_ns,
        byte_index_ns: paint.byte_index_ns,
        limit_ns: bound::of(&point.network, &items),
        connect_ns: mean_handshake_ns(&record),
        declared_failed_ns: failure.and_then(|failure| failover::declared(&path_events, failure)),
        failover_ns,
        restored_ns: failure
            .and_then(|(_, at)| at.checked_sub(begun))
            .and_then(|at| failover::restored(&traffic.series.application, at, failover_ns, page_ns)),
        path_events,
        connections: fetched.connections as u64,
        objects,
        packets: traffic.packets,
        rules,
        multipath: None,
        late_ns: None,
        events: Events {
            timeouts: hosts().map(|host| host.totals().timeouts).sum(),
            fast: everyone().map(|trace| retransmitted(trace, is_fast)).sum(),
            spurious: contestant
                .engine
                .detects_spurious_retransmissions()
                .then(|| everyone().map(|trace| spurious(trace)).sum()),
        },
        wire_bytes: traffic.wire_bytes,
        series: traffic.series,
        spacing: Some(traffic.spacing),
    })
}

/// Returns the names and sizes of the objects that a contestant requests at a point, in the order of the page. Also
/// returns the objects as `Item`s, from which the lower bound of the page time is computed.
pub fn objects_of(
    point: &PointPlan,
    contestant: &Contestant,
) -> Result<(Vec<NamedObject>, Vec<Item>), String> {
    let workload = &point.workload;
    let policy = contest::policy_of(contestant, workload)?;
    let Some(bulk) = contest::bulk_of(contestant, &policy, workload) else {
        let named = workload.page.objects.iter().map(|object| (object.name.clone(), object.body));
        return Ok((
            named.collect(),
            bound::items(workload, contestant.streams(), contestant.frame_header_bytes()),
        ));
    };
    let count = bulk.connections.max(1) as u64;
    // If the bytes cannot be divided evenly, the first connections carry one byte more than the other connections.
    // The server divides the bytes of a bulk transfer in the same way.
    let share = |i: u64| bulk.bytes / count + u64::from(i < bulk.bytes % count);
    let name = |i: u64| if count == 1 { "/bulk".to_owned() } else { format!("/bulk-{}", i + 1) };
    let items = (0..count).map(|i| Item { response: share(i), ..Item::default() });
    Ok(((0..count).map(|i| (name(i), share(i))).collect(), items.collect()))
}

/// Makes the result of an object from the times that were recorded for it.
pub fn object(
    point: &PointPlan,
    (name, bytes): NamedObject,
    seen: Option<&ObjectRecord>,
    why: Option<Attributed>,
) -> Object {
    let nothing = ObjectRecord::default();
    let seen = seen.unwrap_or(&nothing);
    let exchange = seen.assigned.as_ref().map(|assigned| assigned.exchange);
    let delivered = seen.delivered.as_ref().map(|delivered| delivered.at.as_nanos());
    let failure = match (&seen.failed, delivered) {
        (Some((_, error)), None) => Some(error.to_string()),
        _ => None,
    };
    Object {
        background: point.workload.messages.is_some() && name == BESIDE,
        name,
        bytes,
        connection: exchange.map(|exchange| exchange.connection),
        stream: exchange.map(|exchange| exchange.stream),
        issued_ns: seen.issued.map(Instant::as_nanos),
        first_byte_ns: seen.first_byte.map(Instant::as_nanos),
        delivered_ns: delivered,
        failure,
        why: why.map(|why| why.why),
        send_detail: why.and_then(|why| why.send_detail),
        instants: why.and_then(|why| why.instants),
    }
}

/// Returns `object` with its times counted from `begun`, when the fetch began.
fn since(object: Object, begun: Instant) -> Object {
    let begun = begun.as_nanos();
    let since = |at: u64| at.saturating_sub(begun);
    Object {
        issued_ns: object.issued_ns.map(since),
        first_byte_ns: object.first_byte_ns.map(since),
        delivered_ns: object.delivered_ns.map(since),
        instants: object.instants.map(|instants| Instants {
            assigned_ns: since(instants.assigned_ns),
            req_sent_ns: since(instants.req_sent_ns),
            req_copy_ns: since(instants.req_copy_ns),
            req_in_ns: since(instants.req_in_ns),
            serving_ns: since(instants.serving_ns),
            written_ns: since(instants.written_ns),
            sent_ns: since(instants.sent_ns),
            copy_ns: since(instants.copy_ns),
            complete_ns: since(instants.complete_ns),
        }),
        ..object
    }
}

/// Returns how the fetch of a contestant ended.
pub fn outcome(end: FetchStatus) -> Outcome {
    match end {
        FetchStatus::Done => Outcome::Done,
        FetchStatus::Failed => Outcome::Failed,
        FetchStatus::Deadline => Outcome::Deadline,
    }
}

/// Returns whether a packet was retransmitted by fast retransmission.
pub fn is_fast(cause: SendCause) -> bool {
    cause == SendCause::Fast
}

/// Returns the number of retransmissions that were found to be spurious.
pub fn spurious(trace: &[TraceRecord]) -> u64 {
    trace.iter().filter(|record| record.event == TraceEvent::Spurious).count() as u64
}

/// Returns the number of packets that carried retransmitted data. Only retransmissions whose cause `reason` accepts are
/// counted.
pub fn retransmitted(trace: &[TraceRecord], reason: impl Fn(SendCause) -> bool) -> u64 {
    let again = |record: &TraceRecord| match &record.event {
        TraceEvent::Sent { packet, cause, .. } => {
            let repair = matches!(cause, SendCause::Fast | SendCause::Timeout) && reason(*cause);
            repair.then_some(*packet)
        }
        _ => None,
    };
    trace.iter().filter_map(again).collect::<BTreeSet<u64>>().len() as u64
}

/// Returns the mean time in nanoseconds from opening a connection to its establishment; `None` if no connection was
/// established.
pub fn mean_handshake_ns(record: &Record) -> Option<u64> {
    let spans: Vec<u64> = record
        .connections
        .values()
        .filter_map(|connection| Some(nanos(connection.established? - connection.opened)))
        .collect();
    (!spans.is_empty()).then(|| spans.iter().sum::<u64>() / spans.len() as u64)
}

/// Makes the event for a state change of a path. `by` is the host that noticed the change. `index` is the path's
/// number, counted from 0.
pub fn path_event(change: &PathChange, index: usize, at_ns: u64, by: Side) -> PathEvent {
    PathEvent {
        path: index as u64 + 1,
        at_ns,
        state: match change.state {
            protocol::PathState::Active => PathState::Active,
            protocol::PathState::PotentiallyFailed => PathState::PotentiallyFailed,
            protocol::PathState::Failed => PathState::Failed,
        },
        by,
        connection: change.connection,
    }
}

/// Returns the state changes of paths that the client or a server noticed, in order of time.
fn path_events(lane: &ContestantHosts, contest: &Contest) -> Vec<PathEvent> {
    // The peer's address on a path identifies the path.
    let seen = |host: &dyn Host, by: Side, peers: &[Vec<IpAddr>]| -> Vec<PathEvent> {
        let event = |change: PathChange| {
            let index = peers.iter().find_map(|own| own.iter().position(|ip| *ip == change.address))?;
            Some(path_event(&change, index, change.at.as_nanos(), by))
        };
        host.totals().path_changes.into_iter().filter_map(event).collect()
    };
    let mut events = seen(&*contest.client, Side::Client, &lane.server_addresses);
    for server in &contest.servers {
        events.extend(seen(&**server, Side::Server, std::slice::from_ref(&lane.client_addresses)));
    }
    events.sort_by_key(|event| (event.at_ns, event.path, event.connection));
    events
}

/// Returns the time from the first path failure to the arrival of the first new data that was sent after the failure.
/// Packets in flight when the path failed do not count, because they say nothing about the failover.
fn next_data(failed: Instant, client: &[TraceRecord], servers: &[Vec<TraceRecord>]) -> Option<u64> {
    // The packets that the servers sent after the failure, by connection.
    let sent_after = |record: &TraceRecord| match &record.event {
        TraceEvent::Sent { packet, .. } if record.at > failed => Some((record.connection, *packet)),
        _ => None,
    };
    let later: BTreeSet<(u64, u64)> = servers.iter().flatten().filter_map(sent_after).collect();
    let arrived = client.iter().find(|record| match &record.event {
        TraceEvent::Received { packet, units } => {
            record.at > failed && !units.is_empty() && later.contains(&(record.connection, *packet))
        }
        _ => false,
    })?;
    Some(nanos(arrived.at - failed))
}
