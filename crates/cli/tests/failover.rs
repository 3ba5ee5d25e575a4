//! A path fails under a real transfer: what `bulk`, `get` and `load` report of it, over an emulated link of two paths.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, emulated_links, errors};
use serde_json::Value;
use std::fs;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// Runs `near` against `far` over two paths, of which the first fails after 2 s: what is printed, and the JSON that it writes to
/// `out.json`.
fn over_two_paths(place: &Scratch, far: &str, near: &str) -> (String, Value) {
    let output = Command::new(PROGRAM)
        .current_dir(place.text())
        .args(["link", "--quiet", "--path", "rate=10mbit,rtt=20ms", "--path", "rate=10mbit,rtt=20ms"])
        .args(["--fail", "path=1,at=2s", "--far", &format!("exec {PROGRAM} {far}")])
        .args(["--", "sh", "-c", &format!("{PROGRAM} {near} --json out.json")])
        .output()
        .expect("it runs");
    let told = errors(&output);
    assert!(output.status.success(), "{told}");
    let json = fs::read_to_string(format!("{}/out.json", place.text())).expect("a result");
    let text = format!("{told}{}", String::from_utf8_lossy(&output.stdout));
    (text, serde_json::from_str(&json).expect("JSON"))
}

/// The interruptions in a direction, milliseconds: from when, and for how long.
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
    let place = Scratch::new("failover-bulk");
    let near = "bulk sctp://$ANABRANCH_FAR:9900 --for 3s";
    let (text, result) = over_two_paths(&place, "bulk --listen sctp://*:9900", near);
    let changes = result["path_changes"].as_array().expect("a list");
    assert_eq!(changes[0]["state"], "potentially-failed", "{text}");
    let failed = changes[0]["address"].as_str().expect("an address");
    assert!(text.contains(&format!("path to {failed} potentially-failed")), "{text}");
    assert!(text.contains("data goes on after an interruption of"), "{text}");
    let [(from, outage)] = interruptions(&result, "sent")[..] else { panic!("{result:#}") };
    // The link begins a little before the test.
    assert!((1_000..=2_100).contains(&from) && (200..2_000).contains(&outage), "{from} {outage}");
    let paths = result["paths"].as_array().expect("a list");
    let current: Vec<&Value> = paths.iter().filter(|path| path["current"] == true).collect();
    assert!(current.len() == 1 && current[0]["address"] != failed, "{paths:#?}");
    // Two seconds of 10 Mbit/s on one path, the rest on the other; none of it twice.
    let acked = |path: &Value| path["acknowledged"].as_u64().expect("a number");
    let before = acked(paths.iter().find(|path| path["address"] == failed).expect("that path"));
    assert!((500_000..3_000_000).contains(&before) && acked(current[0]) > 1_000_000, "{paths:#?}");
    let intervals = result["intervals"].as_array().expect("a list");
    let sum: u64 = intervals.iter().map(|it| it["acknowledged"].as_u64().expect("a number")).sum();
    let sent = result["up"]["sent"]["bytes"].as_u64().expect("a number");
    assert!(sum <= sent && sum > sent * 9 / 10, "{sum} of {sent}");
    // No second carries more than the path does.
    for interval in intervals {
        let number = |name: &str| interval[name].as_u64().expect("a number") as f64;
        let span = (number("to_ns") - number("from_ns")) / 1e9;
        assert!(number("acknowledged") < 1.4e6 * span + 200_000.0, "{interval:#}");
    }
    // 4 MB in the send buffer take longer than 3 s.
    assert!(intervals.last().is_some_and(|last| last["draining"] == true), "{text}");
    assert!(text.contains("draining\n") && text.contains("were left in the send buffer"), "{text}");
}

#[test]
fn get_and_load_report_interruptions_of_what_they_receive() {
    if !emulated_links() {
        return;
    }
    let place = Scratch::new("failover-get");
    place.file("site/big", vec![7; 4_000_000]);
    let far = "serve site --quiet --listen sctp://*:9899";
    let url = "http+sctp://$ANABRANCH_FAR:9899/big";
    for near in [format!("get {url} -o got"), format!("load {url} -c 1 --requests 1")] {
        let (text, result) = over_two_paths(&place, far, &near);
        let received = interruptions(&result, "received");
        assert!(received.iter().any(|(_, outage)| (200..2_000).contains(outage)), "{near}: {result:#}");
        assert!(text.contains("data from the peer goes on after an interruption of"), "{near}: {text}");
        // The server has found the failure.
        assert!(text.contains("UTC: path to") && text.contains("potentially-failed"), "{near}: {text}");
    }
}
