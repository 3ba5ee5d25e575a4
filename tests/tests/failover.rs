//! One of two paths fails during a transfer. Tests that the association moves to the other path when RFC 9260 requires
//! it.
//!
//! The expected times are calculated by hand from the RTO and Path.Max.Retrans. They are compared with the times of the
//! engine.

use anabranch_report::table;
use anabranch_results::{Outcome, PathEvent, PathState, Run, Side, json};
use anabranch_tests::{check, plan, race, race_on, runs};
use anabranch_transports::Transports;

const SECOND: u64 = 1_000_000_000;

/// Runs a long download over two equal paths. The first path fails after one second. The profile follows RFC 9260
/// exactly, because these tests calculate the times that this RFC requires.
fn run_with_path_failure(contestant: &str, more: &str) -> Run {
    let keys = contestant.strip_prefix("sctp").expect("sctp").replace(':', ",");
    let contestant = format!("sctp:profile=rfc9260{keys}");
    let line = format!(
        "--path rate=10mbit,rtt=40ms --path rate=10mbit,rtt=40ms --queue 200p --loss 0 --fail path=1,at=1s{more} --bulk 8MB \
         --runs 1 --transport {contestant}"
    );
    let found = race(&line);
    let (contestant, run) = runs(&found).next().expect("a run");
    check(contestant, run);
    run.clone()
}

fn first(run: &Run, by: Side, path: u64, state: PathState) -> u64 {
    let is_expected = |e: &&PathEvent| e.by == by && e.path == path && e.state == state;
    run.path_events
        .iter()
        .find(is_expected)
        .unwrap_or_else(|| panic!("{by:?} {state:?}: {:?}", run.path_events))
        .at_ns
}

/// Returns the time in nanoseconds from the last SACK, which starts the timer, until the timer has expired `number`
/// times in a row.
///
/// RFC 9260 §8.2: a path fails when its error counter *exceeds* Path.Max.Retrans, that is, when the timer has expired
/// Path.Max.Retrans + 1 times in a row. §6.3.3 E2 doubles the RTO at each expiration. The first RTO is RTO.Min
/// (§6.3.1), because the path has a round trip of only 40 ms. The result is therefore RTO.Min x (1 + 2 + 4 + ...), with
/// each term at most RTO.Max.
fn expirations(rto_min: u64, rto_max: u64, number: u32) -> u64 {
    (0..number).map(|n| (rto_min << n).min(rto_max)).sum()
}

/// The range of times, in nanoseconds, in which the last SACK arrives and starts the retransmission timer for the last
/// time. The path fails at 1 s. The last SACK arrives at most one round trip (40 ms) before or after the failure.
const LAST_START: std::ops::RangeInclusive<u64> = SECOND - 40_000_000..=SECOND + 40_000_000;

/// The path must be declared failed after the calculated time. The sender retransmits all outstanding data at once,
/// because neither the initial window nor a burst limit restricts it.
#[test]
fn a_path_is_declared_failed_after_the_time_that_rto_and_path_max_retrans_give() {
    let at_once = "iw=100,max_burst=0,rcvbuf=64KiB";
    for (keys, rto_min, rto_max, retrans, seconds) in [
        (",path_max_retrans=0", SECOND, 60 * SECOND, 0, 1.0),
        (",path_max_retrans=1", SECOND, 60 * SECOND, 1, 3.0),
        (",path_max_retrans=2", SECOND, 60 * SECOND, 2, 7.0),
        // With the defaults of RFC 9260 §16, the path must be declared failed after 1 + 2 + 4 + 8 + 16 + 32 s.
        ("", SECOND, 60 * SECOND, 5, 63.0),
        (",rto_min=200ms,path_max_retrans=3", SECOND / 5, 60 * SECOND, 3, 3.0),
        // Doubling of the RTO ends at RTO.Max, so the path must be declared failed after 1 + 2 + 2 + 2 + 2 + 2 s.
        (",rto_max=2s", SECOND, 2 * SECOND, 5, 11.0),
    ] {
        let contestant = format!("sctp:{at_once}{keys}");
        let run = run_with_path_failure(&contestant, "");
        assert_eq!(run.outcome, Outcome::Done, "{contestant}");
        let expected = expirations(rto_min, rto_max, retrans + 1);
        assert_eq!(expected as f64 / 1e9, seconds, "{contestant}");
        let found = first(&run, Side::Server, 1, PathState::Failed);
        // After T3-rtx expires, the retransmissions fill the receiver's window of 64 KiB. T3-rtx starts again with new
        // data, which is sent after the SACK of the retransmissions. This SACK takes at most 94 ms: 40 ms of round
        // trip, and 54 ms to serialize 64 KiB.
        let early = LAST_START.start() + expected;
        let late = LAST_START.end() + expected + u64::from(retrans) * 94_000_000;
        assert!(
            (early..=late).contains(&found),
            "{contestant}: declared at {found}, not in {early}..={late}"
        );
        // The working path must never be declared failed.
        assert!(run.path_events.iter().all(|e| e.path == 1), "{contestant}: {:?}", run.path_events);
        println!("{contestant}: {:.3} s after the failure", found as f64 / 1e9 - 1.0);
    }
}

/// RFC 9260 §8.2: the error counter of a path is cleared when the peer acknowledges data that was last sent to the
/// path, or a HEARTBEAT. The data of the last 20 ms before the failure arrives, but its SACKs are lost. The first
/// expiration retransmits only the start of the window (§7.2.1: three packets). The SACK of these packets also
/// acknowledges the data that had arrived, so the error counter returns to 0. The RTO remains doubled. The path
/// therefore fails one expiration later than if no data had arrived: with Path.Max.Retrans = 1, after 1 + 2 + 4 s.
#[test]
fn data_that_had_arrived_before_the_failure_makes_the_count_begin_anew() {
    for (retrans, seconds) in [(1, 7.0), (2, 15.0), (5, 123.0)] {
        let run = run_with_path_failure(&format!("sctp:path_max_retrans={retrans}"), "");
        assert_eq!(run.outcome, Outcome::Done);
        // With the defaults, the last doubling of the RTO ends at RTO.Max. The path must be declared failed after 1 + 2
        // + 4 + 8 + 16 + 32 + 60 s.
        let expected = expirations(SECOND, 60 * SECOND, retrans + 2);
        assert_eq!(expected as f64 / 1e9, seconds);
        let found = first(&run, Side::Server, 1, PathState::Failed);
        assert!(LAST_START.contains(&(found - expected)), "{retrans}: declared at {found}");
        println!("path_max_retrans={retrans}: {:.3} s after the failure", found as f64 / 1e9 - 1.0);
    }
}

/// RFC 9260 §6.4.1, §6.3.3 E3: when the retransmission timer of the first path expires for the first time, the data is
/// sent again on the second path. The first path counts as failed much later. So deliveries resume one RTO plus the
/// one-way delay after the last start of the timer.
#[test]
fn delivery_goes_on_after_one_rto() {
    for (contestant, rto_min) in [("sctp", SECOND), ("sctp:rto_min=300ms", 3 * SECOND / 10)] {
        let run = run_with_path_failure(contestant, "");
        let failover = run.failover_ns.expect("a failover");
        // The failover takes at most the sum of five times. The timer is last started within 80 ms after the path
        // failure, and expires after one RTO. Propagation takes 20 ms, serialization 1.2 ms, and the queue of the other
        // path a few milliseconds.
        let expected = rto_min + 21_000_000..=rto_min + 80_000_000 + 25_000_000;
        assert!(expected.contains(&failover), "{contestant}: {failover}");
        assert!(run.path_events.iter().any(|e| e.at_ns > SECOND + failover), "{contestant}: found out later");
        let second_path = &run.series.paths[1].down;
        assert!(
            second_path.delivered.iter().sum::<u64>() > 1_000_000,
            "{contestant}: carried by the other path"
        );
    }
}

/// RFC 9260 §8.3, §6.4: HEARTBEATs to a failed path continue. The first HEARTBEAT that is answered makes the path
/// active again. As the primary path, it then carries the data again.
#[test]
fn data_returns_when_the_path_does() {
    let run = run_with_path_failure(
        "sctp:iw=100,max_burst=0,rcvbuf=64KiB,path_max_retrans=1,hb_interval=1s",
        ",for=6s",
    );
    assert_eq!(run.outcome, Outcome::Done);
    let down = first(&run, Side::Server, 1, PathState::Failed);
    assert!((4 * SECOND - 40_000_000..4 * SECOND + 140_000_000).contains(&down), "1 s + 1 + 2 s: {down}");
    let up = first(&run, Side::Server, 1, PathState::Active);
    let recovered_at = 7 * SECOND;
    // RFC 9260 §8.3: a HEARTBEAT is sent every RTO + HB.interval, with a jitter of half an RTO. The RTO has doubled to
    // 4 s by the second expiration, and doubles to 8 s when a HEARTBEAT is lost. So a HEARTBEAT is sent at most 13 s
    // after the path's return: 8 s of RTO, 4 s of jitter, and 1 s of HB.interval.
    assert!((recovered_at..recovered_at + 13 * SECOND).contains(&up), "{up}");
    let after = |path: usize, from_ns: u64| -> u64 {
        run.series.paths[path].down.delivered.iter().skip((from_ns / 100_000_000) as usize + 1).sum()
    };
    assert!(run.page_ns.expect("done") > up, "the transfer is still under way when the path returns");
    assert!(after(0, up) > 100_000, "data is back on the primary: {}", after(0, up));
}

#[test]
fn the_failover_stands_in_json_table_and_report() {
    let plan = plan(
        "--path rate=10mbit,rtt=40ms --path rate=10mbit,rtt=40ms --loss 0 --fail path=1,at=1s --bulk 4MB --runs 2 \
         --transport sctp:profile=rfc9260,path_max_retrans=1 --transport sctp:profile=rfc9260,path_max_retrans=0",
    );
    let found = race_on(2, &plan);
    let value: serde_json::Value = serde_json::from_str(&json::render(&found)).expect("JSON");
    for (index, expected_s) in [(0, 8.0), (1, 2.0)] {
        let contestant = &value["points"][0]["contestants"][index];
        assert!(contestant["summary"]["failover_ms"]["mean"].as_f64().expect("a mean") > 1_000.0);
        for run in contestant["runs"].as_array().expect("runs") {
            assert!(run["failover_ns"].as_u64().expect("a failover") > SECOND);
            let event = &run["path_events"][0];
            let actual = (event["path"].as_u64(), event["state"].as_str(), event["by"].as_str());
            assert_eq!(actual, (Some(1), Some("failed"), Some("server")));
            // The link of path 1 fails at 1 s. With path_max_retrans=1, the server reports the failure after two
            // timeouts in a row. A SACK of retransmitted data clears the error counter after the first timeout. The
            // report therefore comes at the third timeout, 1 + 2 + 4 s after the link has failed. With
            // path_max_retrans=0, the report comes at the first timeout, after 1 s.
            let at = event["at_ns"].as_u64().expect("an instant") as f64 / 1e9;
            assert!((expected_s..expected_s + 0.1).contains(&at), "{at}");
        }
    }
    let shown = table::render(
        &found,
        table::Style { verbose: true, ..table::Style::default() },
        &Transports::standard().protocols(),
    );
    assert!(shown.contains("failover ms"), "{shown}");
    for expected in ["path 1 failed at 7.0", "path 1 failed at 1.0"] {
        assert!(shown.contains(expected), "{expected}:\n{shown}");
    }
    let widest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= table::COLUMNS, "{shown}");
    let html = anabranch_report::html(
        &found,
        &anabranch_report::PageContext { command: "anabranch race", inputs: &[], terms: &[], captures: &[] },
    );
    for mark in
        ["path fails", "declared failed", "delivery goes on", "failure to next delivery", "service restored"]
    {
        assert!(html.contains(mark), "{mark}");
    }
}

/// After the primary path is cut, the first data on the secondary path does not mean that service is restored. RFC 9260
/// §6.4.1: until the primary path is declared failed, new data is still sent on the primary path. Each expiration of
/// the primary path's timer moves only one packet to the secondary path. With RFC 7829, new data moves to the secondary
/// path after the first expiration.
#[test]
fn service_is_restored_when_the_rate_is() {
    let found = race(
        "--path rate=10mbit,rtt=40ms --path rate=5mbit,rtt=90ms --loss 0 --fail path=1,at=2s --bulk 5MB --runs 2 \
         --transport sctp:profile=rfc9260 --transport sctp:profile=rfc9260,pf_max_retrans=0 --transport tcp --deadline 300s",
    );
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    for (contestant, run) in runs(&found) {
        let times = [run.declared_failed_ns, run.failover_ns, run.restored_ns].map(seconds);
        match contestant {
            // With this profile, the path is declared failed after 1 + 2 + 4 + 8 + 16 + 32 + 60 s.
            "sctp:profile=rfc9260" => {
                let [Some(declared), Some(next), Some(restored)] = times else {
                    panic!("{contestant}: {times:?}")
                };
                assert!(
                    (122.9..123.1).contains(&declared) && (1.0..1.3).contains(&next),
                    "{contestant}: {times:?}"
                );
                assert!((declared..declared + 6.0).contains(&restored), "{contestant}: {times:?}");
            }
            "sctp:profile=rfc9260,pf_max_retrans=0" => {
                let [_, Some(next), Some(restored)] = times else { panic!("{contestant}: {times:?}") };
                assert!(
                    (1.0..1.3).contains(&next) && (next..next + 8.0).contains(&restored),
                    "{contestant}: {times:?}"
                );
            }
            _ => assert_eq!(times, [None, None, None], "{contestant}"),
        }
    }
    let value: serde_json::Value = serde_json::from_str(&json::render(&found)).expect("JSON");
    let contestants = &value["points"][0]["contestants"];
    assert_eq!(value["points"][0]["failure_ns"], 2 * SECOND);
    for key in ["declared_failed_ns", "failover_ns", "restored_ns"] {
        assert!(contestants[0]["runs"][0][key].is_u64() && contestants[2]["runs"][0][key].is_null(), "{key}");
    }
    for key in ["declared_failed_ms", "failover_ms", "restored_ms"] {
        assert!(
            contestants[0]["summary"][key]["mean"].is_f64()
                && contestants[2]["summary"][key]["mean"].is_null(),
            "{key}"
        );
    }
    let shown = table::render(
        &found,
        table::Style { verbose: true, ..table::Style::default() },
        &Transports::standard().protocols(),
    );
    for expected in ["declared failed", "first new data", "service restored"] {
        assert!(shown.contains(expected), "{expected}:\n{shown}");
    }
    let sentence = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(sentence.contains("when a path fails at 2 s, service is restored after 12"), "{shown}");
    assert!(sentence.contains("and never with tcp."), "{shown}");
    assert!(sentence.contains("tcp never never never"), "{shown}");
}

/// The only path fails for two seconds. When the path comes back, it must restore the service.
#[test]
fn a_path_that_comes_back_restores_the_service() {
    let line = "--rate 10mbit --rtt 40ms --loss 0 --fail path=1,at=1s,for=2s --bulk 8MB --runs 1 --transport tcp,sctp";
    for (contestant, run) in runs(&race(line)) {
        let (next, restored) = (run.failover_ns.expect("data"), run.restored_ns.expect("restored"));
        assert!(
            (2 * SECOND..=restored).contains(&next) && restored < 12 * SECOND,
            "{contestant}: {next} {restored}"
        );
        assert!(run.page_ns.expect("done") > SECOND + restored, "{contestant}");
    }
}

/// The only path fails and does not come back. The transfer must end, and the run must not count as done.
#[test]
fn one_path_has_no_failover() {
    let line = "--rate 10mbit --rtt 40ms --loss 0 --fail path=1,at=1s --bulk 8MB --runs 1 --deadline 300s --transport tcp,sctp";
    for (contestant, run) in runs(&race(line)) {
        check(contestant, run);
        assert_ne!(run.outcome, Outcome::Done, "{contestant}");
        assert!(run.failover_ns.is_none(), "{contestant}: {:?}", run.failover_ns);
    }
}
