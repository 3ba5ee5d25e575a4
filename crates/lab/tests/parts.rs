//! Tests each part of a response time with a run in which almost nothing else takes time.
//!
//! In most tests, the network has no delay and an unlimited rate, so the whole response time consists of the tested
//! part.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::{Object, Outcome, PARTS, Run};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn run(line: &str) -> Run {
    let words: Vec<&str> = line.split_whitespace().collect();
    let flags = words.chunks(2).map(|pair| (pair[0].trim_start_matches("--"), pair[1]));
    let plan = Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|e| panic!("{line}: {e}"));
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let race = causes::race(&plan, &options).unwrap_or_else(|e| panic!("{line}: {e}"));
    let run = race.points[0].contestants[0].runs[0].clone();
    assert_eq!(run.outcome, Outcome::Done, "{line}");
    run
}

/// Returns the parts of an object's response time that are not zero: names and nanoseconds.
fn parts(object: &Object) -> Vec<(&'static str, u64)> {
    let why = object.why.expect("delivered");
    let parts = PARTS.into_iter().zip(why.parts().map(|part| part.expect("known")));
    parts.filter(|(_, ns)| *ns > 0).collect()
}

const MS: u64 = 1_000_000;
const TIMELESS: &str = "--rate unlimited --delay 0 --loss 0 --runs 1 --queue unlimited";

#[test]
fn server() {
    for contestant in ["tcp", "sctp", "sctp:connections=3"] {
        let run = run(&format!("{TIMELESS} --objects 4x1kB --server-time 100ms --transport {contestant}"));
        assert_eq!(parts(&run.objects[0]), [("server", 100 * MS)], "{contestant}");
    }
}

/// Without pipelining, the second request waits for the connection. The result must count this wait as `queue`.
#[test]
fn queue() {
    let line = format!("{TIMELESS} --objects 2x1kB --server-time 100ms --transport tcp:pipeline=no");
    assert_eq!(parts(&run(&line).objects[1]), [("queue", 100 * MS), ("server", 100 * MS)]);
    let line = format!("{TIMELESS} --objects 2x1kB --server-time 100ms --transport sctp:num_ostreams=1");
    assert_eq!(parts(&run(&line).objects[1]), [("queue", 100 * MS), ("server", 100 * MS)]);
}

/// With pipelining, the second request waits at the server until the first request has been served. The result must
/// count this wait as `ahead`.
#[test]
fn ahead() {
    for contestant in ["tcp:pipeline=yes", "sctp:num_ostreams=1,when-full=rr"] {
        let run = run(&format!("{TIMELESS} --objects 2x1kB --server-time 100ms --transport {contestant}"));
        assert_eq!(parts(&run.objects[1]), [("ahead", 100 * MS), ("server", 100 * MS)], "{contestant}");
    }
}

/// Bytes may wait for space in the send buffer or for the congestion window. The result must count this wait as time
/// of the transport (`send`), and not as time of the server.
#[test]
fn send() {
    for (work, contestant) in [
        ("--objects 10x100kB", "sctp:sndbuf=20000B,profile=modern"),
        ("--objects 10x100kB", "sctp:sndbuf=20000B"),
        ("--objects 10x100kB", "sctp:sndbuf=20000B,connections=2"),
        ("--objects 10x100kB", "sctp:num_ostreams=3,when-full=rr,sndbuf=20000B"),
        ("--objects 10x100kB", "tcp:sndbuf=20000B"),
        ("--objects 10x100kB", "tcp:connections=4,sndbuf=20000B"),
        ("--bulk 1MB", "sctp:sndbuf=20000B"),
        ("--bulk 1MB", "tcp:sndbuf=20000B"),
        ("--messages 100/s --size 20000B --for 1s", "sctp:sndbuf=60000B"),
        ("--messages 100/s --size 20000B --for 1s", "tcp:sndbuf=60000B"),
    ] {
        let run = run(&format!(
            "--rate 10mbit --delay 0 --loss 0 --queue unlimited --runs 1 {work} --transport {contestant}"
        ));
        let mut sent = 0;
        for object in &run.objects {
            let (why, instants) = (object.why.expect("delivered"), object.instants.expect("known"));
            assert_eq!(why.server_ns, Some(0), "{work} {contestant} {}: {why:?}", object.name);
            assert_eq!(instants.serving_ns, instants.written_ns, "{work} {contestant} {}", object.name);
            sent += why.send_ns.expect("known");
            if work.starts_with("--messages") {
                assert_eq!(why.queue_ns, Some(0), "{contestant} {}: {why:?}", object.name);
            }
        }
        assert!(sent > 100 * MS, "{work} {contestant}: {sent}");
    }
}

#[test]
fn handshakes_and_transit_are_connect_and_wire() {
    // The response time consists of a handshake of one round trip and the delay in both directions.
    let tcp = run("--rate unlimited --delay 20ms --loss 0 --runs 1 --objects 1x1kB --transport tcp");
    assert_eq!(parts(&tcp.objects[0]), [("connect", 40 * MS), ("wire", 40 * MS)]);
    let sctp = run(
        "--rate unlimited --delay 20ms --loss 0 --runs 1 --objects 1x1kB --transport sctp:cookie_data=no",
    );
    assert_eq!(parts(&sctp.objects[0]), [("connect", 80 * MS), ("wire", 40 * MS)]);
    // Later objects are requested on the established association. Their response time therefore consists only of the
    // propagation delay in both directions.
    let later = run(
        "--rate unlimited --delay 20ms --loss 0 --runs 1 --objects 9x1kB --arrivals 2/s --transport sctp",
    );
    for object in &later.objects[1..] {
        assert_eq!(parts(object), [("wire", 40 * MS)], "{}", object.name);
    }
}

/// A lost message that no other message follows is retransmitted by a timer: its delay is reported as `timeout`. If
/// other messages follow soon, their SACKs report the loss (`recovery`). On a single stream, the other messages wait
/// for the lost message (`blocked`).
#[test]
fn losses_are_timeout_recovery_and_blocked() {
    let base = "--rate unlimited --delay 20ms --runs 1 --size 100B --queue unlimited";
    let alone = run(&format!(
        "{base} --messages 1/s --for 6s --down-loss list:8 --transport sctp:profile=rfc9260,rto_min=300ms,tlp=no"
    ));
    let late: Vec<_> = alone.objects.iter().filter(|o| parts(o) != [("wire", 20 * MS)]).collect();
    let [one] = late[..] else { panic!("{:?}", alone.objects.iter().map(parts).collect::<Vec<_>>()) };
    let [("timeout", span), ("wire", 20_000_000)] = parts(one)[..] else { panic!("{:?}", parts(one)) };
    assert!((300 * MS..600 * MS).contains(&span), "{span}");
    // At 200 messages per second, other messages follow the lost one soon. Their SACKs report the loss, and messages on
    // the stream of the lost message wait for it.
    for (streams, withheld) in [("100", false), ("1", true)] {
        let line = format!(
            "{base} --messages 200/s --for 1s --down-loss list:60 --transport sctp:profile=rfc9260,num_ostreams={streams}"
        );
        let run = run(&line);
        let of = |part: &str| {
            run.objects.iter().filter(|o| parts(o).iter().any(|(name, _)| *name == part)).count()
        };
        assert_eq!((of("recovery"), of("timeout")), (1, 0), "{line}");
        assert_eq!(of("blocked") > 0, withheld, "{line}");
        for object in &run.objects {
            let names: Vec<&str> = parts(object).iter().map(|(name, _)| *name).collect();
            assert!(
                [&["wire"][..], &["recovery", "wire"], &["wire", "blocked"]].contains(&&names[..]),
                "{names:?}"
            );
        }
    }
}

/// The whole first window is lost, and a timer retransmits it. Later bytes wait for this timer. The time that they wait
/// counts as `stalled`.
#[test]
fn stalled() {
    let run = run(
        "--rate unlimited --delay 20ms --runs 1 --objects 2x8kB --down-loss list:3/4/5/6 --queue unlimited \
                   --transport tcp:iw=2,cc=reno,tlp=no,rack=no,profile=modern",
    );
    let all: Vec<_> = run.objects.iter().map(parts).collect();
    let stalled = |object: &Object| object.why.and_then(|breakdown| breakdown.stalled_ns).unwrap_or(0);
    assert!(run.objects.iter().any(|object| stalled(object) >= 100 * MS), "{all:?}");
}
