//! Races of recorded pages: hosts, server times, the recorded network, calibration, and how loads differ.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan, PlanError};
use anabranch_lab::run::batch::Options;
use anabranch_results::calibration::Calibration;
use anabranch_results::{Race, Run};
use anabranch_transports::Transports;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn interpret(flags: &[(&str, &str)]) -> Result<Plan, PlanError> {
    Plan::interpret(Draft::from_flags(flags.iter().copied()).expect("flags"), &Transports::standard())
}

fn race(flags: &[(&str, &str)]) -> Race {
    let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let plan = interpret(flags).expect("a plan");
    causes::race(&plan, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn run(race: &Race) -> &Run {
    &race.points[0].contestants[0].runs[0]
}

/// Writes `entries` as a HAR file, and returns the path of the file.
fn file(name: &str, entries: &[Value]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let log = json!({"log": {"version": "1.2", "entries": entries}});
    fs::write(&path, log.to_string()).expect("a file");
    path.display().to_string()
}

/// Returns an entry of a HAR file for a request that was queued at `at_ms`. `parts` has four times in milliseconds: for
/// the connection with TLS, for TLS alone, for the wait, and for the receipt.
fn entry(url: &str, at_ms: f64, [connect, ssl, wait, receive]: [f64; 4], body: u64) -> Value {
    let kind = if url.ends_with('/') { "text/html" } else { "image/png" };
    let took: f64 = [connect, wait, receive].into_iter().filter(|part| *part > 0.0).sum();
    json!({
        "startedDateTime": format!("2024-05-01T10:00:{:09.6}Z", at_ms / 1e3),
        "time": took,
        "request": {"method": "GET", "url": url, "headersSize": 400, "bodySize": 0},
        "response": {"status": 200, "httpVersion": "h2", "headersSize": 300, "bodySize": body,
            "content": {"size": body, "mimeType": kind}},
        "timings": {"blocked": 0, "connect": connect, "ssl": ssl, "send": 0, "wait": wait, "receive": receive},
    })
}

/// The recording of a page with three hosts and a slow document.
fn slow(name: &str) -> String {
    file(
        name,
        &[
            entry("https://a.example/", 0.0, [160.0, 80.0, 380.0, 20.0], 30_000),
            entry("https://b.example/1.png", 560.0, [160.0, 80.0, 80.0, 100.0], 100_000),
            entry("https://c.example/2.png", 560.0, [160.0, 80.0, 80.0, 100.0], 100_000),
        ],
    )
}

const QUIET: [(&str, &str); 5] = [
    ("loss", "0"),
    ("runs", "2"),
    ("causes", "off"),
    ("transport", "tcp:http=2,tls=yes"),
    ("variation", "none"),
];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    QUIET.iter().filter(|(key, _)| more.iter().all(|(other, _)| other != key)).chain(more).copied().collect()
}

#[test]
fn hosts_are_kept_unless_they_are_merged() {
    let path = slow("hosts.har");
    let kept = race(&with(&[("page", &path)]));
    let merged = race(&with(&[("page", &path), ("origins", "merge")]));
    assert_eq!((run(&kept).connections, run(&merged).connections), (3, 1));
    let heading = |race: &Race| race.points[0].workload.name.clone();
    assert!(heading(&kept).contains(", 3 hosts)"), "{}", heading(&kept));
    assert!(heading(&merged).contains("; 3 hosts merged into one)"), "{}", heading(&merged));
    assert_eq!(kept.plan["origins"], "keep");
}

#[test]
fn coalesced_hosts_share_what_carries_several_requests() {
    let with_address = |mut entry: Value| {
        entry["serverIPAddress"] = "192.0.2.1".into();
        entry["connection"] = "17".into();
        entry
    };
    let path = file(
        "coalesced.har",
        &[
            with_address(entry("https://a.example/", 0.0, [160.0, 80.0, 80.0, 20.0], 30_000)),
            with_address(entry("https://b.example/1.png", 300.0, [-1.0, -1.0, 80.0, 100.0], 100_000)),
        ],
    );
    for (transport, connections) in
        [("tcp:http=2,tls=yes", 1), ("quic", 1), ("sctp:num_ostreams=10", 1), ("tcp", 2)]
    {
        let found = race(&with(&[("page", &path), ("transport", transport)]));
        assert_eq!(run(&found).connections, connections, "{transport}");
    }
}

#[test]
fn recorded_server_times_are_kept_and_can_be_replaced() {
    let path = slow("server.har");
    let time = |more: &[(&str, &str)]| {
        let flags: Vec<_> = [("page", path.as_str())].iter().chain(more).copied().collect();
        run(&race(&with(&flags))).objects[0].delivered_ns.expect("delivered") / 1_000_000
    };
    let (kept, none, other) = (time(&[]), time(&[("server-time", "0ms")]), time(&[("server-time", "50ms")]));
    // A response that starts later meets other acknowledgements on the link, which change its end by a few
    // milliseconds.
    let near = |time: u64, wanted: u64| (time - none).abs_diff(wanted) <= 5;
    // The file's server waited 300 ms after the round trip. In 25 ms of these, the first TLS record arrived.
    assert!(near(kept, 275) && near(other, 50), "{none} {kept} {other}");
}

#[test]
fn the_recorded_network_fills_in_what_the_flags_leave_out() {
    let path = slow("network.har");
    let network = |more: &[(&str, &str)]| {
        let flags: Vec<_> =
            [("page", path.as_str()), ("network", "recorded")].iter().chain(more).copied().collect();
        interpret(&with(&flags)).map(|plan| plan.points[0].network.paths[0].clone())
    };
    let recorded = network(&[]).expect("a network");
    assert_eq!(recorded.rtt().as_micros(), 80_000);
    let rate = recorded.down.rate.first().expect("a rate").bits_per_second();
    assert!((5_000_000..6_000_000).contains(&rate), "{rate}");
    let given = network(&[("rate", "5mbit")]).expect("a network");
    assert_eq!(
        (given.rtt().as_micros(), given.down.rate.first().map(|rate| rate.bits_per_second())),
        (80_000, Some(5_000_000))
    );
    let wrong = |flags: &[(&str, &str)]| interpret(&with(flags)).expect_err("refused").to_string();
    assert_eq!(
        wrong(&[("page", "news"), ("network", "recorded")]),
        "--network: recorded: the page has no recorded times; write --rtt and --rate, or race a browser's HAR"
    );
    assert_eq!(
        wrong(&[("page", &path), ("network", "mine")]),
        "--network: 'mine': write recorded, or the network's own keys such as --rate"
    );
}

/// Writes a simulated load as a HAR. The simulation of this HAR must take as long as the load, and must find the same
/// network.
#[test]
fn the_calibration_of_a_simulated_load_agrees_with_it() {
    let flags = [("page", "gallery"), ("rate", "10mbit"), ("rtt", "80ms")];
    let load = race(&with(&flags));
    let millis = |nanos: Option<u64>| nanos.expect("a time") as f64 / 1e6;
    let entries: Vec<Value> = run(&load)
        .objects
        .iter()
        .enumerate()
        .map(|(index, object)| {
            let (issued, first) = (millis(object.issued_ns), millis(object.first_byte_ns));
            let (connect, ssl) = if index == 0 { (160.0, 80.0) } else { (-1.0, -1.0) };
            let parts =
                [connect, ssl, first - issued - f64::max(connect, 0.0), millis(object.delivered_ns) - first];
            let url = format!("https://h{}", if index == 0 { "/" } else { &object.name });
            entry(&url, issued, parts, object.bytes)
        })
        .collect();
    let path = file("simulated.har", &entries);
    let [calibration] = race(&with(&[("page", &path)])).calibrations.try_into().expect("one");
    let Calibration { protocol, recorded_ns, rtt_ns, rate_bps, .. } = &calibration;
    // The times in the file are in microseconds.
    let page_ns = run(&load).page_ns.expect("done");
    assert!(protocol == "HTTP/2" && recorded_ns.abs_diff(page_ns) < 10_000, "{calibration:?} {page_ns}");
    // The HAR file does not say where in the HTML the browser found the objects, so the simulated times differ a
    // little.
    assert!(calibration.error().abs() < 0.1, "{calibration:?}");
    let rtt = rtt_ns.expect("a round trip").value;
    assert!((76_000_000..=84_000_000).contains(&rtt), "{rtt}");
    // Much of this load is slow start, so the rate of the link is at the upper end of the estimated range.
    let rate = rate_bps.expect("a rate");
    assert!(rate.low < 10_000_000 && rate.high.is_some_and(|high| high >= 10_000_000), "{rate:?}");
    // One style of units: those of the recorded network.
    assert_eq!(calibration.network, "10 Mbit/s, 80 ms RTT");
    // The recording has the race's rate and round trip, and nothing else of the race.
    let other = [("page", path.as_str()), ("queue", "8bdp"), ("loss", "2%")];
    assert_eq!(race(&with(&other)).calibrations, [calibration]);
}

/// The example that README races must agree with its simulation. Otherwise the first output of a new user begins with a
/// warning.
#[test]
fn the_example_of_a_har_agrees_with_its_simulation() {
    let path = format!("{}/../../examples/site.har", env!("CARGO_MANIFEST_DIR"));
    let found =
        race(&[("page", &path), ("rate", "10mbit"), ("rtt", "80ms"), ("runs", "1"), ("causes", "off")]);
    assert_eq!(found.warnings, [""; 0]);
    let [calibration] = found.calibrations.try_into().expect("one");
    assert!(calibration.error().abs() < 0.1, "{calibration:?}");
}

#[test]
fn a_recording_that_is_not_met_warns_of_its_largest_object() {
    let path = file(
        "slow-script.har",
        &[
            entry("https://a.example/", 0.0, [160.0, 80.0, 80.0, 20.0], 30_000),
            // The HAR does not show why the browser requested this object a second later.
            entry("https://a.example/late.png", 1300.0, [-1.0, -1.0, 80.0, 5.0], 1_000),
        ],
    );
    let found = race(&with(&[("page", &path)]));
    let warning = found.warnings.iter().find(|line| line.contains("the simulated load is"));
    assert!(
        warning.is_some_and(|line| line.contains("shorter") && line.contains("/late.png differs most: ")),
        "{:?}",
        found.warnings
    );
}

#[test]
fn a_recorded_network_without_a_calibration_is_shown_with_its_range() {
    let mut entries = [
        entry("https://a.example/", 0.0, [160.0, 80.0, 80.0, 20.0], 30_000),
        entry("https://a.example/1.png", 300.0, [-1.0, -1.0, 80.0, 100.0], 100_000),
    ];
    entries.iter_mut().for_each(|entry| entry["response"]["httpVersion"] = "".into());
    let path = file("no-version.har", &entries);
    let warnings = |more: &[(&str, &str)]| race(&with(more)).warnings;
    let found = warnings(&[("page", &path), ("network", "recorded")]);
    assert!(
        found.iter().any(|line| line
            .contains("not simulated: the HAR names no HTTP version. The HAR shows a round trip of 80.0")),
        "{found:?}"
    );
    assert!(!warnings(&[("page", &path)]).iter().any(|line| line.contains("not simulated")));
}

#[test]
fn start_jitter_delays_the_load_and_request_jitter_each_request() {
    let page = ("page", "osterdahl-gallery");
    let plain = race(&with(&[page]));
    let late = race(&with(&[page, ("start-jitter", "50ms")]));
    let of = |run: &Run| (run.page_ns, run.objects.clone());
    let runs = |race: &Race| race.points[0].contestants[0].runs.clone();
    for (other, plain) in runs(&late).iter().zip(&runs(&plain)) {
        // The network does not change over time, so a load that begins later must give the same results.
        assert!(of(other) == of(plain), "{other:?}\n{plain:?}");
        assert!(other.started_ns.is_some_and(|at| (1..50_000_000).contains(&at)), "{:?}", other.started_ns);
    }
    let jittered = race(&with(&[page, ("request-jitter", "50ms")]));
    assert_ne!(run(&jittered).objects[3].issued_ns, run(&plain).objects[3].issued_ns);
}

#[test]
fn the_processor_time_of_the_browser_can_be_set() {
    let load = |more: &[(&str, &str)]| {
        // Over a slow network, requests wait for the network anyway.
        let fast = [("rate", "1gbit"), ("rtt", "1ms"), ("loss", "0"), ("runs", "1")];
        let page = [&fast[..], &[("page", "gallery"), ("client", "chromium")]].concat();
        let found = race(&with(&[&page[..], more].concat()));
        (run(&found).page_ns.expect("done"), found.points[0].workload.name.clone())
    };
    let (usual, named, none, slow) = (
        load(&[]),
        load(&[("client-time", "2ms")]),
        load(&[("client-time", "0ms")]),
        load(&[("client-time", "40ms")]),
    );
    assert_eq!(usual, named, "the default");
    assert!(none.0 < usual.0 && usual.0 < slow.0, "{none:?} {usual:?} {slow:?}");
    assert!(slow.1.contains("client time 40ms"), "{}", slow.1);
}

#[test]
fn loads_without_loss_differ_by_their_seeds() {
    let flags = with(&[("page", "gallery"), ("variation", "browser"), ("runs", "5")]);
    let found = race(&flags);
    let contestant = &found.points[0].contestants[0];
    assert!(found.points[0].chance && contestant.distinct_runs == 5, "{}", contestant.distinct_runs);
    let heading = &found.points[0].workload.name;
    assert!(heading.contains("loads vary"), "{heading}");
    // Without variation, all runs must be identical.
    let equal = race(&with(&[("page", "gallery"), ("runs", "5")]));
    assert!(!equal.points[0].chance && equal.points[0].contestants[0].distinct_runs == 1);
}
