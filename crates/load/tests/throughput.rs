//! Throughput tests in virtual networks: what they count, when sending ends, and what counts as progress.

use crate::rig::sim::{Rig, sctp_server, tcp_hosts, tcp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_load::throughput::report::{self, ReportContext};
use anabranch_load::throughput::{Failure, Interval, Outcome, Plan, Settings, Test, serve};
use anabranch_sctp::Config;
use anabranch_sim::SimWorld;
use anabranch_transport::sctp::{LowerProtocol, SctpConnector, SctpHost};
use anabranch_transport::tcp::TcpConnector;
use anabranch_transport::{Connector, Listener};
use anabranch_world::World;
use std::rc::Rc;

/// Returns the plan of a test in which only the client sends.
fn plan() -> Plan {
    Plan {
        up: true,
        down: false,
        message: 65_536,
        streams: 1,
        unordered: false,
        sessions: 1,
        span: Duration::from_secs(2),
        bytes: None,
        drain: Duration::from_secs(600),
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(10),
    }
}

async fn run<C: Connector, L: Listener>(
    rig: &Rig,
    connector: C,
    listener: L,
    plan: Plan,
) -> (Result<(), Failure>, Outcome) {
    let cpu_clock = || (Duration::ZERO, Duration::ZERO);
    let settings = |_: &L::Session| Settings::new();
    let tell = Rc::new(|_| {});
    let serving = serve(rig.server.clone(), listener, plan.timeout, 10, cpu_clock, settings, tell);
    let _server = World::spawn(&rig.server, "server", serving);
    let test = Test::new(rig.client.clone(), connector, Vec::new(), plan, cpu_clock);
    let ended = test.run(|_| {}).await;
    (ended, test.outcome())
}

fn over_sctp(rig: &Rig, plan: Plan) -> (Result<(), Failure>, Outcome) {
    let run = async {
        // With the profile `modern`, the server sends its reports on the other path as soon as one path does not
        // answer.
        let host = async |world: &SimWorld, profile| {
            let config = Config::profile(profile).expect("a profile");
            SctpHost::new(world.clone(), config, LowerProtocol::Ip, None).await.expect("a host")
        };
        let (client, server) = (host(&rig.client, "rfc9260").await, host(&rig.server, "modern").await);
        let connector = SctpConnector::new(client, vec![sctp_server(rig, LowerProtocol::Ip)]);
        run(rig, connector, server.listen(80).expect("listening"), plan).await
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

fn over_tcp(rig: &Rig, plan: Plan) -> (Result<(), Failure>, Outcome) {
    let run = async {
        let (client, server) = tcp_hosts(rig, "modern").await;
        let connector = TcpConnector::new(client, vec![tcp_server(rig)]);
        run(rig, connector, server.listen(80, 0).expect("listening"), plan).await
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

/// Returns the last intervals, in which no new data is written and the send buffer drains. Fails if new data is written
/// in a later interval.
fn draining(outcome: &Outcome) -> &[Interval] {
    let first = outcome.intervals.iter().position(|interval| interval.draining);
    let rest = &outcome.intervals[first.unwrap_or(outcome.intervals.len())..];
    assert!(rest.iter().all(|interval| interval.draining), "{:?}", outcome.intervals);
    rest
}

/// Data that arrives after a lost packet counts as acknowledged as soon as a SACK reports it, not when the gap is
/// filled.
#[test]
fn acknowledged_bytes_are_those_of_the_paths() {
    let rig = Rig::new(&["rate=10mbit,rtt=200ms,loss=1%", "rate=10mbit,rtt=60ms"], 1);
    let plan = Plan { span: Duration::from_secs(6), interval: Duration::from_millis(100), ..plan() };
    let (ended, outcome) = over_sctp(&rig, plan);
    assert_eq!(ended, Ok(()));
    let (sent, _) = outcome.up.expect("data");
    let mut sum = 0;
    for interval in &outcome.intervals {
        let paths = &interval.figures.as_ref().expect("counters").paths;
        let on_paths: u64 = paths.iter().map(|path| path.acknowledged).sum();
        // The tolerance covers the header of each chunk (16 bytes) and frames without user data (less than 300 bytes).
        let difference = on_paths.abs_diff(interval.acknowledged);
        assert!(difference <= on_paths / 50 + 300, "{interval:?}");
        let span = (interval.to - interval.from).as_secs_f64();
        assert!(interval.acknowledged as f64 <= 1.25e6 * span + 3_000.0, "{interval:?}");
        sum += interval.acknowledged;
    }
    assert!(outcome.retransmitted.is_some_and(|count| count > 0), "{outcome:?}");
    assert_eq!(sum, sent.bytes);
}

/// A write that waits for space in the send buffer does not make the sending time longer.
#[test]
fn sending_ends_on_time_although_a_write_waits() {
    for over in [over_sctp, over_tcp] {
        let rig = Rig::new(&["rate=1mbit,rtt=40ms"], 1);
        let (ended, outcome) = over(&rig, Plan { message: 600_000, ..plan() });
        assert_eq!(ended, Ok(()));
        let (sent, received) = outcome.up.expect("data");
        assert_eq!(sent.nanos, 2_000_000_000);
        assert_eq!((sent.bytes, sent.messages), (received.bytes, received.messages));
        assert_eq!(sent.bytes, sent.messages * 600_000);
        // In two seconds, 1 Mbit/s carry 250 kB.
        assert!(sent.acknowledged().is_some_and(|bytes| (150_000..250_000).contains(&bytes)), "{sent:?}");
        assert_eq!(draining(&outcome)[0].from, Duration::from_secs(2));
    }
}

/// If a slow link still has data to carry when the time is over, the test must end, and the server must not see a
/// failure.
#[test]
fn a_test_for_a_time_ends_with_its_drain_phase() {
    for over in [over_sctp, over_tcp] {
        let rig = Rig::new(&["rate=100kbit,rtt=40ms"], 1);
        let (ended, outcome) = over(&rig, Plan { drain: Duration::from_millis(500), ..plan() });
        assert_eq!((ended, outcome.is_cut), (Ok(()), true));
        let (sent, received) = outcome.up.expect("data");
        assert!(!received.whole && (0..sent.bytes).contains(&received.bytes), "{sent:?} {received:?}");
        let (left, span) = outcome.drain.expect("a drain phase");
        assert!(left > 0 && (500..600).contains(&span.as_millis()), "{left} {span:?}");
    }
}

/// The server's report follows the data in its send buffer. A test that ends before says that the report is missing, and
/// does not print zeros.
#[test]
fn a_report_of_the_server_that_has_not_arrived_is_not_shown_as_zero() {
    for over in [over_sctp, over_tcp] {
        let rig = Rig::new(&["rate=100kbit,rtt=40ms"], 1);
        let reverse = Plan { up: false, down: true, ..plan() };
        let summary = |outcome: &Outcome| report::summary(&reverse, outcome, &ReportContext::default());
        let (ended, outcome) = over(&rig, Plan { drain: Duration::from_millis(500), ..reverse.clone() });
        assert!(ended == Ok(()) && outcome.is_cut && outcome.lacks_server_report(), "{outcome:?}");
        let text = summary(&outcome);
        assert!(text.contains("[dn]  sender: not known") && text.contains(", server not known\n"), "{text}");
        assert!(text.contains("a longer --drain waits for both"), "{text}");
        let (ended, outcome) = over(&rig, Plan { drain: Duration::from_secs(600), ..reverse.clone() });
        assert!(ended == Ok(()) && !outcome.is_cut && !outcome.lacks_server_report(), "{outcome:?}");
        let text = summary(&outcome);
        assert!(text.contains("  sender\n") && !text.contains("not known"), "{text}");
    }
}

/// One of two paths fails. Until the path is declared failed (RFC 9260), the sender sends only one packet per T3-rtx
/// expiry, at doubling intervals. The receiver's reports arrive on the other path, and must not count as progress.
#[test]
fn reports_of_the_receiving_end_are_no_progress() {
    let run = |timeout| {
        let rig = Rig::new(&["rate=10mbit,rtt=40ms", "rate=10mbit,rtt=60ms"], 1);
        rig.network.outage(rig.links[0], Instant::from_millis(4_000), None);
        let timeout = Duration::from_secs(timeout);
        over_sctp(&rig, Plan { span: Duration::from_secs(12), timeout, ..plan() })
    };
    let (ended, outcome) = run(10);
    assert_eq!(ended, Err(Failure::Broken("no progress for 10 s".to_owned())));
    let last = outcome.intervals.last().expect("intervals").to;
    assert!((Duration::from_secs(20)..Duration::from_secs(31)).contains(&last), "{last:?}");
    let (ended, outcome) = run(100);
    assert_eq!(ended, Ok(()));
    let (sent, received) = outcome.up.expect("data");
    assert_eq!((sent.nanos, sent.bytes), (12_000_000_000, received.bytes));
    let draining = draining(&outcome);
    assert!(draining[0].from == Duration::from_secs(12) && draining.len() > 50, "{:?}", outcome.intervals);
}
