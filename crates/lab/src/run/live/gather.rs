//! Turns the records of an emulated run into the results of its contestants.

use super::counters::Counters;
use super::hosts::{ClientOutcome, HostRecords, Served};
use crate::plan::{Contestant, LossBy, PointPlan};
use crate::run::collect::{self, NamedObject};
use crate::run::{bound, failover, paint, traffic};
use anabranch_base::Instant;
use anabranch_base::time::nanos;
use anabranch_emu::record::BUCKET_NS as EMULATED_BUCKET_NS;
use anabranch_emu::relay::{LaneCounts, LaneOutcome, Outcome as Driven};
use anabranch_emu::rules::RuleCounts;
use anabranch_emu::wiring::{AddressRange, LinkEnd};
use anabranch_http::fetch::FetchStatus as FetchEnd;
use anabranch_http::observe::ObjectRecord;
use anabranch_results::{
    BUCKET_NS, Directions, Events, Multipath, Object, Packets, PathEvent, PathSeries, Rules, Run, Series,
    Side,
};
use anabranch_transport::protocol::PathChange;
use std::net::IpAddr;

/// Returns the result of a contestant. `place` is the contestant's range of addresses. The number of the address block,
/// `place.block`, is the contestant's index in the packet counts of each link.
///
/// # Errors
/// A one-line message if the contestant contradicts the workload. Plans are checked for this error before any run.
pub fn run(
    (point, contestant, seed): (&PointPlan, &Contestant, u64),
    place: AddressRange,
    (ended, served): (&ClientOutcome, &Served),
    driven: &[Driven],
    ruled: Option<&[[RuleCounts; 2]]>,
) -> Result<Run, String> {
    let lanes: Vec<&LaneOutcome> = driven.iter().map(|path| &path.lanes[usize::from(place.block)]).collect();
    let ClientOutcome { fetched, record, seen } = ended;
    let server_seen = &served.seen;
    let (named, items) = collect::objects_of(point, contestant)?;
    let series = Series {
        bucket_ns: BUCKET_NS,
        paths: lanes.iter().map(|lane| path_series(lane)).collect(),
        application: traffic::application(&record.objects, fetched.started),
    };
    let rules = ruled.map(|paths| {
        let of = |way: usize| Rules {
            packets: paths.iter().map(|path| path[way].packets).sum(),
            dropped: paths.iter().map(|path| path[way].dropped).sum(),
        };
        Directions { up: of(0), down: of(1) }
    });
    let dropped = rules.unwrap_or_default();
    let sum = |way: usize, of: fn(&LaneCounts) -> u64| {
        lanes.iter().map(|lane| of(&lane.directions[way])).sum::<u64>()
    };
    let [client, server] = counters(point, contestant, [seen, server_seen]);
    let packets = |way: usize, retransmitted: u64, rules: Rules| Packets {
        // The sender's iptables rules drop these packets before the link, so the link did not count them as entered.
        sent: sum(way, |passed| passed.entered.packets)
            + if point.loss_by == LossBy::IptablesOut { rules.dropped } else { 0 },
        lost: sum(way, |passed| passed.lost) + rules.dropped,
        retransmitted,
    };
    let bytes = |way: usize| sum(way, |passed| passed.entered.bytes);
    let page_ns = (fetched.end == FetchEnd::Done).then(|| nanos(fetched.elapsed()));
    let path_events = path_events(point, place, seen, server_seen);
    let failure = point.network.first_failure().map(|(path, at)| (path, nanos(at)));
    let failover_ns = next_data(point, ended, &lanes, rules.is_some());
    // Time 0 of `series` is the start of the fetch, but the time of the failure is on the network's clock.
    let started_ns = seen.on_network(fetched.started).as_nanos();
    let restored = |(_, at): (u64, u64)| {
        failover::restored(&series.application, at.checked_sub(started_ns)?, failover_ns, page_ns)
    };
    let connections = fetched.connections as u64;
    let objects = objects(point, named, ended, served);
    let paint = paint::of(point, record, &objects, [fetched.started, fetched.finished]);
    let late = driven.iter().flat_map(|path| [&path.report.up, &path.report.down]);
    let late = late.filter(|way| way.late.count() > 0).map(|way| nanos(way.late.max()));
    let detects_spurious =
        contestant.transport.is_kernel_in_emulation() || contestant.engine.detects_spurious_retransmissions();
    Ok(Run {
        seed,
        outcome: collect::outcome(fetched.end),
        started_ns: Some(started_ns),
        page_ns,
        start_render_ns: paint.start_render_ns,
        largest_image_ns: paint.largest_image_ns,
        byte_index_ns: paint.byte_index_ns,
        limit_ns: bound::of(&point.network, &items),
        connect_ns: collect::mean_handshake_ns(record),
        declared_failed_ns: failure.and_then(|failure| failover::declared(&path_events, failure)),
        failover_ns,
        restored_ns: failure.and_then(restored),
        path_events,
        connections,
        objects,
        packets: Directions {
            up: packets(0, client.retransmitted, dropped.up),
            down: packets(1, server.retransmitted, dropped.down),
        },
        rules,
        multipath: contestant.is_kernels_multipath().then(|| multipath(connections, [seen, server_seen])),
        late_ns: late.max(),
        events: Events {
            timeouts: client.timeouts + server.timeouts,
            fast: client.fast + server.fast,
            spurious: detects_spurious.then_some(client.spurious + server.spurious),
        },
        wire_bytes: Directions { up: bytes(0), down: bytes(1) },
        series,
        spacing: None,
    })
}

/// Returns the results of the objects, on the client's clock from the start of the fetch. If the workload consists of
/// messages, only the server knows when each message was sent, and on which connection and stream.
fn objects(
    point: &PointPlan,
    named: Vec<NamedObject>,
    client: &ClientOutcome,
    server: &Served,
) -> Vec<Object> {
    // The clock of the hosts starts before the fetch. The times in a result count from the start of the fetch, so this
    // start is subtracted.
    let begun = client.fetched.started.as_nanos();
    let since = |at: Option<u64>| at.map(|at| at.saturating_sub(begun));
    let object = |(index, named): (usize, NamedObject)| {
        let object = collect::object(point, named, client.record.objects.get(index), None);
        let object = match server.record.objects.get(index) {
            Some(there) => completed(object, there, |at| client.seen.on_host(server.seen.on_network(at))),
            None => object,
        };
        Object {
            issued_ns: since(object.issued_ns),
            first_byte_ns: since(object.first_byte_ns),
            delivered_ns: since(object.delivered_ns),
            ..object
        }
    };
    named.into_iter().enumerate().map(object).collect()
}

/// Returns the counters of the client and of the server. The counters are those of the hosts' kernels, or those of the
/// engines.
fn counters(
    point: &PointPlan,
    contestant: &Contestant,
    [client, server]: [&HostRecords; 2],
) -> [Counters; 2] {
    if !contestant.transport.is_kernel_in_emulation() {
        return [client, server].map(|host| Counters {
            retransmitted: collect::retransmitted(&host.trace, |_| true),
            timeouts: host.totals.timeouts,
            fast: collect::retransmitted(&host.trace, collect::is_fast),
            spurious: collect::spurious(&host.trace),
            ..Counters::default()
        });
    }
    // If both ends are the same host, its kernel counts the events of client and server. The server's counters are read
    // last, so all counts are attributed to the server.
    let own = if point.one_host { Counters::default() } else { client.kernel };
    [own, server.kernel]
}

/// Completes the client's record of an object with values from the server's record. `here` converts the server's times
/// to the client's clock.
fn completed(object: Object, there: &ObjectRecord, here: impl Fn(Instant) -> Instant) -> Object {
    let exchange = there.assigned.as_ref().map(|assigned| assigned.exchange);
    Object {
        issued_ns: object.issued_ns.or(there.issued.map(|at| here(at).as_nanos())),
        connection: object.connection.or(exchange.map(|exchange| exchange.connection)),
        stream: object.stream.or(exchange.map(|exchange| exchange.stream)),
        ..object
    }
}

/// Returns the time from the first path failure to the arrival of the first data that the server sent after the
/// failure. Data that arrives after the client has finished does not count. Returns `None` if iptables rules drop
/// packets behind the link, because the link does not know which packets were dropped.
fn next_data(point: &PointPlan, ended: &ClientOutcome, lanes: &[&LaneOutcome], ruled: bool) -> Option<u64> {
    let failed = first_failure(point).filter(|_| !ruled)?;
    let end = ended.seen.on_network(ended.fetched.finished);
    let came = lanes.iter().filter_map(|lane| lane.watch?.first_data_at()).min()?;
    (came <= end).then(|| nanos(came - failed))
}

/// Returns the time of the first path failure, if a path fails.
pub fn first_failure(point: &PointPlan) -> Option<Instant> {
    point.network.first_failure().map(|(_, at)| Instant::ZERO + at)
}

/// Returns how many connections fell back from Multipath TCP. Either host may detect a fallback, so the higher count is
/// used.
fn multipath(connections: u64, ends: [&HostRecords; 2]) -> Multipath {
    let most = ends.iter().filter_map(|host| host.kernel.fallbacks).max();
    Multipath { connections, fallbacks: most.map(|count| count.min(connections)) }
}

fn path_series(lane: &LaneOutcome) -> Directions<PathSeries> {
    const { assert!(EMULATED_BUCKET_NS == BUCKET_NS) };
    let [up, down] = &lane.directions;
    let series = |way: &LaneCounts| PathSeries {
        wire: way.series.entered.clone(),
        delivered: way.series.left.clone(),
        packets: Vec::new(),
    };
    Directions { up: series(up), down: series(down) }
}

/// Returns the state changes of paths that the client or the server noticed. The times are on the network's clock.
fn path_events(
    point: &PointPlan,
    place: AddressRange,
    client: &HostRecords,
    server: &HostRecords,
) -> Vec<PathEvent> {
    let links = point.network.paths.len();
    let events_of = |host: &HostRecords, by: Side, peers: Vec<IpAddr>| -> Vec<PathEvent> {
        let event = |change: &PathChange| {
            let index = peers.iter().position(|ip| *ip == change.address)?;
            let at = host.on_network(change.at);
            Some(collect::path_event(change, index, at.as_nanos(), by))
        };
        host.totals.path_changes.iter().filter_map(event).collect()
    };
    let mut events = events_of(client, Side::Client, place.addresses(links, LinkEnd::Far));
    events.extend(events_of(server, Side::Server, place.addresses(links, LinkEnd::Near)));
    events.sort_by_key(|event| (event.at_ns, event.path, event.connection));
    events
}
