//! The load generator in virtual time. The latencies of an open loop include the time in which requests wait for a slow
//! server. The latencies of a closed loop do not.

use crate::rig::page;
use crate::rig::sim::{Rig, sctp_hosts, sctp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::observe::Recorder;
use anabranch_http::serve::{self, PageSite, Versions};
use anabranch_load::generator::{Cause, Load, Pace, Plan, Tally};
use anabranch_transport::sctp::{LowerProtocol, SctpConnector};
use anabranch_world::World;
use std::rc::Rc;

fn plan(pace: Pace) -> Plan {
    Plan {
        authority: "server".to_owned(),
        secure: false,
        target: page(1_000, &[]).objects[0].name.clone(),
        pace,
        objects: None,
        streams: 1,
        versions: Versions::Http1,
        requests: None,
        sessions: None,
        duration: Some(Duration::from_secs(4)),
        timeout: Duration::from_secs(60),
        max_sessions: 10_000,
        seed: None,
    }
}

/// Runs the plan against a server that needs 50 ms for each request. The server handles the requests of a session one
/// after another.
fn load(plan: Plan) -> Tally {
    let rig = Rig::new(&["rate=100mbit,rtt=10ms"], 1);
    let run = async {
        let (client, server) = sctp_hosts(&rig, "modern", 100, LowerProtocol::Ip).await;
        let listener = server.listen(80).expect("listening");
        let options =
            serve::Options { service_time: Duration::from_millis(50), serial: true, ..Default::default() };
        let site = Rc::new(PageSite::new(&page(1_000, &[])));
        let serving = serve::run(rig.server.clone(), listener, site, options, Recorder::default());
        let _server = rig.server.spawn("server", serving);
        let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
        let load = Load::new(rig.client.clone(), connector, 0, plan);
        load.run().await;
        load.tally()
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

#[test]
fn latency_counts_from_the_plan_only_where_there_is_one() {
    // The server handles 20 requests per second. The load makes 40 requests per second for 4 s, so the queue grows. The
    // last request waits about 4 s.
    let interval = Duration::from_millis(25);
    let open = load(plan(Pace::Pool { interval, random: false, sessions: 1 }));
    assert_eq!((open.replies, open.error_count()), (160, 0));
    let worst = open.latency.max();
    assert!(worst > Duration::from_secs(4), "{worst:?}");
    assert!(open.latency.percentile(0.5) > Duration::from_secs(1), "{:?}", open.latency.percentile(0.5));
    // A session does not send a request that is due until the previous reply has arrived. The latency counts from the
    // time when the request was due. The service time counts from the time when it was sent.
    assert!(open.service.max() < Duration::from_millis(150), "{:?}", open.service.max());

    let closed = load(plan(Pace::Closed { sessions: 1 }));
    assert!((60..=70).contains(&closed.replies), "{}", closed.replies);
    assert!(closed.latency.max() < Duration::from_millis(150), "{:?}", closed.latency.max());
}

#[test]
fn objects_of_a_session_ride_at_the_same_time_and_count_from_its_beginning() {
    let pace = Pace::Open { interval: Duration::from_secs(1), random: false };
    let tally = load(Plan { objects: Some(5), streams: 5, ..plan(pace) });
    assert_eq!((tally.sessions, tally.requests, tally.replies, tally.sessions_with_replies), (4, 20, 20, 4));
    // An object's latency is a handshake, a round trip, and one to five service times.
    let (first, last) = (tally.latency.min(), tally.latency.max());
    assert!((Duration::from_millis(65)..Duration::from_millis(85)).contains(&first), "{first:?}");
    assert!((Duration::from_millis(265)..Duration::from_millis(285)).contains(&last), "{last:?}");
    assert_eq!(tally.lines.iter().map(|line| line.replies).sum::<u64>(), 20);
}

#[test]
fn a_random_schedule_keeps_its_rate_and_limits_hold() {
    let pace = Pace::Open { interval: Duration::from_millis(10), random: true };
    let tally = load(Plan { max_sessions: 3, duration: Some(Duration::from_secs(10)), ..plan(pace) });
    let due = tally.sessions + tally.errors[Cause::Full as usize];
    assert!((850..=1150).contains(&due), "{due}");
    assert_eq!(tally.max_concurrent, 3);
    assert_eq!(tally.replies, tally.sessions);
}

/// The random intervals between sessions must depend only on the plan's seed, not on the seed of the world.
#[test]
fn a_seed_of_the_plan_draws_its_gaps() {
    let pace = Pace::Open { interval: Duration::from_millis(100), random: true };
    let drawn = |seed| {
        let plan = Plan { seed: Some(seed), ..plan(pace) };
        let due = plan.first_due(1_000).expect("drawn");
        let tally = load(Plan { objects: Some(1), ..plan });
        assert_eq!(tally.sessions, due.len() as u64);
        due.len()
    };
    let counts: Vec<_> = (1..=4).map(drawn).collect();
    assert!(counts.iter().any(|count| *count != counts[0]), "{counts:?}");
}

/// A load that overwhelms its server must end one timeout after the end of its plan. Each request without a reply must
/// count as failed, even if the request was never sent.
#[test]
fn an_overload_ends_after_the_timeout() {
    let short = Plan { timeout: Duration::from_secs(2), ..plan(Pace::Closed { sessions: 1 }) };
    // Objects are due twice as fast as the server can answer, so they wait for a free stream.
    let interval = Duration::from_millis(25);
    let tally = load(Plan { pace: Pace::Pool { interval, random: false, sessions: 1 }, ..short.clone() });
    let (replies, failed) = (tally.replies, tally.errors[Cause::Timeout as usize]);
    assert_eq!((replies + failed, failed), (160, tally.error_count()));
    assert!((95..=110).contains(&replies) && tally.duration() < Duration::from_millis(6_300), "{tally:?}");
    // Each new session requests many objects one after another. This load must also end 2 s (`timeout`) after the 4 s
    // of its plan.
    let interval = Duration::from_secs(1);
    let pace = Pace::Open { interval, random: false };
    let tally = load(Plan { pace, objects: Some(1_000), ..short });
    assert_eq!(tally.replies + tally.errors[Cause::Timeout as usize], 4_000);
    assert!(tally.duration() < Duration::from_millis(6_300), "{:?}", tally.duration());
}

/// If no server listens, a load must end: objects that wait for a session must fail at their timeout.
#[test]
fn a_load_without_a_listener_ends() {
    let rig = Rig::new(&["rate=100mbit,rtt=10ms"], 1);
    let interval = Duration::from_millis(10);
    let plan = Plan {
        requests: Some(10),
        duration: None,
        timeout: Duration::from_secs(2),
        ..plan(Pace::Pool { interval, random: false, sessions: 2 })
    };
    let run = async {
        let (client, _server) = sctp_hosts(&rig, "modern", 100, LowerProtocol::Ip).await;
        let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
        let load = Load::new(rig.client.clone(), connector, 0, plan);
        load.run().await;
        load.tally()
    };
    let tally = rig.network.run(run, Instant::MAX).expect_done();
    assert_eq!((tally.replies, tally.errors[Cause::Timeout as usize]), (0, 10));
    assert!(tally.errors[Cause::Refused as usize] > 10 && tally.duration() < Duration::from_secs(3));
}
