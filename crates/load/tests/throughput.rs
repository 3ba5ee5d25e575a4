//! Throughput tests in virtual networks: what they count.

use crate::rig::sim::{Rig, sctp_hosts, sctp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_load::throughput::{Failure, Outcome, Plan, Settings, Test, serve};
use anabranch_transport::sctp::{LowerProtocol, SctpConnector};
use anabranch_transport::{Connector, Listener};
use anabranch_world::World;
use std::rc::Rc;

/// A test in which the client sends.
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
    let processor = || (Duration::ZERO, Duration::ZERO);
    let settings = |_: &L::Session| Settings::new();
    let tell = Rc::new(|_| {});
    let serving = serve(rig.server.clone(), listener, plan.timeout, 10, processor, settings, tell);
    let _server = World::spawn(&rig.server, "server", serving);
    let test = Test::new(rig.client.clone(), connector, Vec::new(), plan, processor);
    let ended = test.run(|_| {}).await;
    (ended, test.outcome())
}

fn over_sctp(rig: &Rig, plan: Plan) -> (Result<(), Failure>, Outcome) {
    let run = async {
        let (client, server) = sctp_hosts(rig, "rfc9260", 10, LowerProtocol::Ip).await;
        let connector = SctpConnector::new(client, vec![sctp_server(rig, LowerProtocol::Ip)]);
        run(rig, connector, server.listen(80).expect("listening"), plan).await
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

/// Data behind a lost packet counts in the interval in which the peer reports it, not when the gap is filled.
#[test]
fn acknowledged_bytes_are_those_of_the_paths() {
    let rig = Rig::new(&["rate=10mbit,rtt=200ms,loss=1%", "rate=10mbit,rtt=60ms"], 1);
    let plan = Plan { span: Duration::from_secs(6), interval: Duration::from_millis(100), ..plan() };
    let (ended, outcome) = over_sctp(&rig, plan);
    assert_eq!(ended, Ok(()));
    let (sent, _) = outcome.up.expect("data");
    let mut sum = 0;
    for interval in &outcome.intervals {
        let paths = &interval.probe.as_ref().expect("counters").paths;
        let on_paths: u64 = paths.iter().map(|path| path.acknowledged).sum();
        // A chunk has a header of 16 bytes. Frames without user data are below 300 bytes.
        let difference = on_paths.abs_diff(interval.acknowledged);
        assert!(difference <= on_paths / 50 + 300, "{interval:?}");
        let span = (interval.to - interval.from).as_secs_f64();
        assert!(interval.acknowledged as f64 <= 1.25e6 * span + 3_000.0, "{interval:?}");
        sum += interval.acknowledged;
    }
    assert!(outcome.retransmitted.is_some_and(|count| count > 0), "{outcome:?}");
    assert_eq!(sum, sent.bytes);
}
