//! Tests the reports of `bulk`, `get` and `load` if a path fails during a transfer, over an emulated link with two
//! paths.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, emulated_links, errors, has};
use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_capture::views::{SendReason, View};
use anabranch_capture::{Settings, decode};
use serde_json::Value;
use std::fs;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// Emulates two paths between two hosts. Runs the shell command `near` on one host and `anabranch {far}` on the other.
/// Returns the output of both commands. `first` has the settings of the first path, except its rate. The first path
/// fails after `at` milliseconds.
fn over_two_paths(scratch: &Scratch, (first, at): (&str, u64), far: &str, near: &str) -> String {
    let output = Command::new(PROGRAM)
        .current_dir(scratch.text())
        .args(["link", "--quiet", "--path", &format!("rate=10mbit,{first}")])
        .args(["--path", "rate=10mbit,rtt=20ms", "--fail", &format!("path=1,at={at}ms")])
        .args(["--far", &format!("exec {PROGRAM} {far}"), "--", "sh", "-c", near])
        .output()
        .expect("it runs");
    let text = errors(&output) + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    text
}

/// Runs the command `far` on one host and the command `near` on another. The first of the two paths between them fails
/// after 2 s. Returns the output of both commands, and the JSON that `near` wrote.
fn with_result(scratch: &Scratch, far: &str, near: &str) -> (String, Value) {
    let text = over_two_paths(scratch, ("rtt=20ms", 2000), far, &format!("{PROGRAM} {near} --json out.json"));
    let json = fs::read_to_string(scratch.0.join("out.json")).expect("a result");
    (text, serde_json::from_str(&json).expect("JSON"))
}

/// Returns the interruptions in a direction: start and duration in milliseconds.
fn interruptions(result: &Value, direction: &str) -> Vec<(u64, u64)> {
    let list = result["interruptions"].as_array().expect("a list");
    let number = |it: &Value, name: &str| it[name].as_u64().expect("a number") / 1_000_000;
    let of = list.iter().filter(|it| it["direction"] == direction);
    of.map(|it| (number(it, "from_ns"), number(it, "to_ns") - number(it, "from_ns"))).collect()
}

#[test]
fn bulk_reports_a_failover_and_counts_what_is_acknowledged() {
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("failover-bulk");
    let near = "bulk sctp://$ANABRANCH_FAR:9900 --for 3s --drain 1min";
    let (text, result) = with_result(&scratch, "bulk --listen sctp://*:9900", near);
    let changes = result["path_changes"].as_array().expect("a list");
    assert_eq!(changes[0]["state"], "potentially-failed", "{text}");
    let failed = changes[0]["address"].as_str().expect("an address");
    assert!(text.contains(&format!("path to {failed} potentially-failed")), "{text}");
    assert!(text.contains("data goes on after an interruption of"), "{text}");
    let [(from, outage)] = interruptions(&result, "sent")[..] else { panic!("{result:#}") };
    // The server's reports to the client also move to the other path. Their pause does not count as an interruption,
    // because reports carry no test data.
    assert!(
        interruptions(&result, "received").is_empty() && !text.contains(" s: data from the peer"),
        "{text}"
    );
    // The link starts a little before the test. On the test's clock, the failure therefore comes a little before 2 s.
    assert!((1_000..=2_100).contains(&from) && (200..2_000).contains(&outage), "{from} {outage}");
    let paths = result["paths"].as_array().expect("a list");
    let current: Vec<&Value> = paths.iter().filter(|path| path["current"] == true).collect();
    assert!(current.len() == 1 && current[0]["address"] != failed, "{paths:#?}");
    // The first path carries data for two seconds at 10 Mbit/s, and the second path carries the rest. No byte may be
    // counted twice.
    let acked = |path: &Value| path["acknowledged"].as_u64().expect("a number");
    let before = acked(paths.iter().find(|path| path["address"] == failed).expect("that path"));
    assert!((500_000..3_000_000).contains(&before) && acked(current[0]) > 1_000_000, "{paths:#?}");
    let intervals = result["intervals"].as_array().expect("a list");
    let sum: u64 = intervals.iter().map(|it| it["acknowledged"].as_u64().expect("a number")).sum();
    let sent = result["up"]["sent"]["bytes"].as_u64().expect("a number");
    assert!(sum <= sent && sum > sent * 9 / 10, "{sum} of {sent}");
    // The text and the JSON must agree on the number of bytes that were acknowledged when the client stopped sending.
    let by_then = result["up"]["sent"]["acknowledged"].as_f64().expect("a number");
    let shown = format!("{:.2} MB", by_then / 1e6);
    let sender = text.lines().find(|line| line.ends_with("sender")).expect("a line");
    assert!(by_then < sent as f64 && sender.contains(&shown), "{shown}: {sender}");
    // The server must have received what the client counts as acknowledged, and must report on its paths.
    let server_paths = result["server_paths"]["paths"].as_array().expect("a list");
    let received: u64 = server_paths.iter().map(|path| path["received"].as_u64().expect("a number")).sum();
    assert!(received > sent, "{server_paths:#?}");
    // The server sends only reports, which are no user data, so it must report no interruption of sent data.
    assert!(interruptions(&result["server_paths"], "sent").is_empty(), "{result:#}");
    // No interval may carry more than the path's capacity. The tolerance is for acknowledgements that were lost in the
    // failure and for delayed SACKs. Apart from headers, the bytes of the paths must add up to the bytes of the
    // interval.
    for interval in intervals {
        let number = |name: &str| interval[name].as_u64().expect("a number") as f64;
        let span = (number("to_ns") - number("from_ns")) / 1e9;
        assert!(number("acknowledged") < 1.25e6 * span + 60_000.0, "{interval:#}");
        let on_paths: u64 = interval["paths"].as_array().expect("a list").iter().map(acked).sum();
        let difference = on_paths as f64 - number("acknowledged");
        assert!((-300.0..=on_paths as f64 / 50.0 + 300.0).contains(&difference), "{interval:#}");
    }
    // The client stops writing after 3 s. Its send buffer of 4 MiB is then full, and the link needs more than 3 s to
    // carry this data. The last interval must therefore belong to the drain phase.
    assert!(intervals.last().is_some_and(|last| last["draining"] == true), "{text}");
    assert!(text.contains("draining\n") && text.contains("were left in the send buffer"), "{text}");
}

#[test]
fn get_and_load_report_interruptions_of_what_they_receive() {
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("failover-get");
    scratch.file("site/big", vec![7; 4_000_000]);
    let far = "serve site --quiet --listen sctp://*:9899";
    let url = "http+sctp://$ANABRANCH_FAR:9899/big";
    for near in [format!("get {url} -o got"), format!("load {url} -c 1 --requests 1")] {
        let (text, result) = with_result(&scratch, far, &near);
        let received = interruptions(&result, "received");
        assert!(received.iter().any(|(_, outage)| (200..2_000).contains(outage)), "{near}: {result:#}");
        assert!(text.contains("data from the peer goes on after an interruption of"), "{near}: {text}");
        // Each path must have carried a part of the object: two seconds at 10 Mbit/s on one path, and the rest on the
        // other.
        let paths = result["paths"].as_array().expect("a list");
        let bytes = |path: &Value| path["received"].as_u64().expect("a number");
        let used: Vec<u64> = paths.iter().map(bytes).filter(|bytes| *bytes > 500_000).collect();
        assert!(used.len() == 2 && used.iter().sum::<u64>() > 4_000_000, "{near}: {paths:#?}");
        let lines = text.matches("Path to ").count();
        assert!(lines >= 2 && text.contains(" received\n"), "{near}: {text}");
        // The server must have detected the failure.
        assert!(text.contains("UTC: path to") && text.contains("potentially-failed"), "{near}: {text}");
    }
}

#[test]
fn bulk_reports_no_interruption_of_its_reports_on_received_data() {
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("failover-reverse");
    let near = "bulk sctp://$ANABRANCH_FAR:9900 --reverse --for 3s --drain 1min";
    let (text, result) = with_result(&scratch, "bulk --listen sctp://*:9900", near);
    // Only the server sends test data, so the client itself must report no interruption. The client's own lines contain
    // the seconds since the start of the test. The server's lines contain the time of day.
    let is_the_clients = |line: &str| line.starts_with("anabranch: ") && line.contains(" s: data goes on");
    assert!(interruptions(&result, "sent").is_empty() && !text.lines().any(is_the_clients), "{text}");
    // The client must detect the path failure although it sends no test data. It sends only reports on received data,
    // and one of these packets remained unacknowledged.
    assert_eq!(result["path_changes"][0]["state"], "potentially-failed", "{text}");
}

/// The server sends and the client receives. The client does not know whether data is due. The server must therefore
/// print the failure that it detects, and report it to the client.
#[test]
fn bulk_reports_at_both_ends_what_the_server_finds_out_while_it_sends() {
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("failover-server");
    let near = "bulk sctp://$ANABRANCH_FAR:9900 --reverse --for 4s --drain 1min";
    let (text, result) = with_result(&scratch, "bulk --listen sctp://*:9900", near);
    let server_paths = &result["server_paths"];
    assert_eq!(server_paths["path_changes"][0]["state"], "potentially-failed", "{text}");
    let failed = server_paths["path_changes"][0]["address"].as_str().expect("an address");
    let all = interruptions(server_paths, "sent");
    let found = all.iter().find(|(from, outage)| (1_000..=2_100).contains(from) && *outage >= 200);
    assert!(found.is_some() && interruptions(server_paths, "received").is_empty(), "{server_paths:#}");
    // The server must print the path failure with the time of day. At the end of the test, the client must print the
    // failure too, with the seconds since the start of the test.
    assert!(text.contains(&format!("UTC: path to {failed} potentially-failed")), "{text}");
    assert!(text.contains("UTC: data goes on after an interruption of"), "{text}");
    assert!(text.contains(&format!("s: path to {failed} potentially-failed")), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("Server: ") && line.contains(": data goes on ")),
        "{text}"
    );
    let paths = server_paths["paths"].as_array().expect("a list");
    let acked = |path: &Value| path["acknowledged"].as_u64().expect("a number");
    let used: Vec<u64> = paths.iter().map(acked).filter(|bytes| *bytes > 500_000).collect();
    assert!(used.len() >= 2, "{paths:#?}");
    // `bytes` counts all data that the server wrote in the test. When it stopped writing, a part was not acknowledged
    // yet.
    let sent = &result["down"]["sent"];
    assert!(sent["acknowledged"].as_u64().is_some_and(|bytes| bytes < sent["bytes"].as_u64().unwrap_or(0)));
}

/// Runs `bulk` with `flags` over two paths, and captures its packets. `first` has the settings of the first path,
/// except its rate. The first path fails after `at` milliseconds. Returns the output of `bulk`, and the client's
/// direction of the association, as decoded from the capture.
fn captured(scratch: &Scratch, (first, at): (&str, u64), flags: &str) -> (String, View) {
    // dumpcap writes the header of the file when the capture has started. `bulk` exits with 1 after a test without
    // progress.
    let near = format!(
        "dumpcap -q -i any -w capture 2>dumpcap.err & \
         until [ -s capture ]; do kill -0 $! || exit 1; sleep 0.05; done; \
         {PROGRAM} bulk sctp://$ANABRANCH_FAR:9900 {flags} || [ $? = 1 ]; code=$?; kill $!; wait; exit $code"
    );
    let text = over_two_paths(scratch, (first, at), "bulk --listen sctp://*:9900 --timeout 60s", &near);
    let capture = fs::read(scratch.0.join("capture")).expect("a capture");
    let settings =
        Settings { udp_ports: vec![(9900, None)], max_view_items: usize::MAX, ..Settings::default() };
    let mut decoded = decode("capture", &capture[..], &settings).expect("decoded");
    let [client, _] = decoded.conversations.remove(0).views;
    (text, client)
}

/// Returns the interruptions of the data flow that the client's output lists. Each entry is the start and the end of an
/// interruption, in seconds since the start of the test.
fn printed_interruptions(text: &str) -> Vec<(f64, f64)> {
    // The client's lines begin with the seconds since the start of the test. The server's lines begin with the time of
    // day and are ignored.
    let lines =
        text.lines().filter_map(|line| line.strip_prefix("anabranch: ")?.split_once(" s: data goes on "));
    let of = |(end, rest): (&str, &str)| {
        let outage = rest.split_once("interruption of ")?.1.split(' ').next()?;
        let (end, outage): (f64, f64) = (end.parse().ok()?, outage.parse().ok()?);
        Some((end - outage, end))
    };
    lines.filter_map(of).collect()
}

/// Compares the printed interruptions with the waits in the capture. A wait is the time between two successive
/// acknowledgements of new data, whether cumulatively or by SACK blocks. Each printed interruption must be a wait, and
/// each wait during which a timer expired must be printed.
fn compare(text: &str, view: &View) {
    let first_sent = view.data[0].at_ns;
    let seconds = |at: u64| (at as f64 - first_sent as f64) / 1e9;
    let fewer = view.flight.windows(2).filter(|pair| pair[1].1 < pair[0].1).map(|pair| pair[1].0);
    let mut progress: Vec<u64> = view.acknowledged.iter().map(|ack| ack.0).chain(fewer).collect();
    progress.sort_unstable();
    let timeouts: Vec<u64> =
        view.data.iter().filter(|data| data.why == SendReason::Timeout).map(|data| data.at_ns).collect();
    let waits: Vec<(u64, u64)> = progress.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let printed = printed_interruptions(text);
    println!("printed {printed:.3?}");
    let near = |one: (f64, f64), (since, until): (u64, u64)| {
        (one.0 - seconds(since)).abs() <= 0.05 && (one.1 - seconds(until)).abs() <= 0.05
    };
    for one in &printed {
        assert!(waits.iter().any(|wait| near(*one, *wait)), "{one:?} is not in the capture: {text}");
    }
    for wait in waits {
        let expired = timeouts.iter().any(|at| (wait.0..wait.1).contains(at));
        // Interruptions of less than 100 ms are not printed. The other 50 ms are a margin for measurement errors.
        if expired && wait.1 - wait.0 > 150_000_000 {
            let shown = [wait.0, wait.1].map(seconds);
            assert!(printed.iter().any(|one| near(*one, wait)), "{shown:.3?} is not printed: {text}");
        }
    }
}

/// The times of three events that `bulk` prints must be those in a capture, within 50 ms. The events are the last
/// acknowledgement before the failure, the first data on the other path, and the first acknowledgement of this data.
#[test]
fn bulk_prints_the_times_of_a_failover_that_a_capture_shows() {
    if !are_slow_tests_enabled() || !emulated_links() || !has("dumpcap") {
        return;
    }
    for run in 0..10 {
        let scratch = Scratch::new("failover-capture");
        let (rtt, at) = ([20, 40, 60, 30, 80][run % 5], 3000 + 130 * run as u64);
        let (text, view) =
            captured(&scratch, (&format!("rtt={rtt}ms"), at), &format!("--for {}ms --drain 1min", at + 1000));
        // The server may suspect the path first. Its lines begin with the time of day, which is no number.
        let suspected = text
            .lines()
            .filter(|line| line.contains(" potentially-failed"))
            .find_map(|line| line.split(' ').nth(1)?.parse::<f64>().ok());
        let [(failed, restored), ..] = printed_interruptions(&text)[..] else { panic!("{text}") };
        let printed = [failed, suspected.expect("a path"), restored];
        let first_sent = view.data[0].at_ns;
        let first = view.data.iter().find(|data| data.why == SendReason::Timeout).expect("a timeout").at_ns;
        let restored = view.acknowledged.iter().position(|ack| ack.0 > first).expect("acknowledged");
        let [failed, restored] = [restored - 1, restored].map(|index| view.acknowledged[index].0);
        let captured = [failed, first, restored].map(|at| (at - first_sent) as f64 / 1e9);
        let differences: Vec<f64> = printed.iter().zip(captured).map(|(one, other)| one - other).collect();
        println!(
            "run {run}: printed {printed:.3?} s, captured {captured:.3?} s, differences {differences:.3?} s"
        );
        assert!(differences.iter().all(|one| one.abs() <= 0.05), "run {run}: {text}");
        compare(&text, &view);
    }
}

/// Checks two cases without the potentially failed state, in which T3-rtx expires several times on the failed path. The
/// interruptions that `bulk` prints must be those in the capture. The second case is the row `rto200-pmr2` of the guide
/// to failover.
#[test]
fn bulk_prints_each_interruption_that_a_capture_shows() {
    if !are_slow_tests_enabled() || !emulated_links() || !has("dumpcap") {
        return;
    }
    let guide = include_str!("../../../docs/guide/failover.md");
    let row = "profile=rfc9260,rto_min=200ms,path_max_retrans=2";
    assert!(guide.contains(&format!("--transport rto200-pmr2=sctp:paths=2,{row}")));
    for (set, least) in [("profile=rfc9260", 4), (row, 3)] {
        let scratch = Scratch::new("failover-interruptions");
        // With `profile=rfc9260`, T3-rtx takes 1, 2, 4, 8 and 16 s. After each expiry, a retransmission over the other
        // path is progress. `bulk` gives up during the wait of 16 s, because there is no progress for 12 s.
        let flags = format!("--for 4s --drain 1min --timeout 12s --set {set}");
        let (text, view) = captured(&scratch, ("rtt=40ms,queue=100p", 4000), &flags);
        assert_eq!(text.contains("no progress for 12 s"), set == "profile=rfc9260", "{text}");
        // Sending must end on time. The interval lines after the end of sending must be marked as draining.
        let ends = |line: &&str| line.starts_with("[up]    4.0") || line.starts_with("[up]    5.0");
        assert!(text.lines().filter(ends).all(|line| line.ends_with("  draining")), "{text}");
        assert!(printed_interruptions(&text).len() >= least, "{text}");
        compare(&text, &view);
    }
}
