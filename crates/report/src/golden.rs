//! Tests the first screen of a race's output against stored texts. The races are a clear winner, two kinds of loads, a
//! tie, and a race in which nothing finished, each at 80 and at 120 columns. With `UPDATE_EXPECT=1`, the tests rewrite
//! the files.

use super::table::{Style, render};
use super::tests::{contestant, race};
use anabranch_base::rng::Rng;
use anabranch_results::stats::metrics;
use anabranch_results::{Contestant, Experiment, Outcome, Point, Workload};
use std::collections::BTreeMap;

const NAMES: [&str; 4] = [
    "http1=tcp:connections=6,tls=yes,priority=yes",
    "http2=tcp:http=2,tls=yes",
    "http3=quic",
    "sctp-dtls=sctp:dtls=yes,priority=yes",
];

/// Returns a made-up point with 100 runs of each contestant. `time` gives the page time in milliseconds, or `None` if
/// the run does not finish.
fn point(time: impl Fn(usize, &mut Rng) -> Option<u64>) -> Point {
    let workload = Workload {
        name: "news (72 objects, 1.06 MB; 7 hosts)".to_owned(),
        objects: 72,
        bytes: 1_060_460,
        deadline_ns: Some(60_000_000_000),
        ..Workload::default()
    };
    let mut point = Point {
        factors: BTreeMap::new(),
        network: "10mbit, rtt 80ms, queue 1bdp, mtu 1500".to_owned(),
        failure_ns: None,
        workload,
        chance: true,
        sharing: Vec::new(),
        contestants: Vec::new(),
        comparisons: Vec::new(),
        changes: Vec::new(),
    };
    let terms = point.terms();
    for (index, name) in NAMES.into_iter().enumerate() {
        let mut rng = Rng::new(index as u64 + 1);
        let mut one = contestant(name, 1, 1, 100, 1);
        for run in &mut one.runs {
            run.page_ns = time(index, &mut rng).map(|ms| ms * 1_000_000);
            run.connections = if index == 0 { 30 } else { 7 };
            if run.page_ns.is_none() {
                run.outcome = Outcome::Deadline;
                run.series.application = vec![100_000];
            }
        }
        one.summary = metrics::summarise(&one.runs, terms);
        for earlier in &point.contestants {
            let pair = [&one, earlier].map(|it: &Contestant| (it.name.as_str(), it.runs.as_slice()));
            point.comparisons.push(metrics::compare(pair[0], pair[1], "page_ms", terms));
        }
        point.contestants.push(one);
    }
    point
}

/// Adds the experiments that compare the first contestant of `names` with the second.
fn explain(point: &mut Point, names: [&str; 2], causes: serde_json::Value, tried: serde_json::Value) {
    let is_of = |one: &str| names.contains(&one);
    let found = point.comparisons.iter_mut().find(|it| is_of(&it.a) && is_of(&it.b)).expect("compared");
    let mut experiment = serde_json::json!({"winner": names[0], "loser": names[1], "ranks": [1, 2],
        "gap": 1.06, "ci95": [1.05, 1.07], "runs": 6, "factors": [], "adverse_causes": [], "unexplained": null,
        "conditions": [], "notes": []});
    for (key, value) in tried.as_object().expect("an object") {
        experiment[key] = value.clone();
    }
    found.experiment = Some(serde_json::from_value::<Experiment>(experiment).expect("as results have it"));
    found.causes = serde_json::from_value(causes).expect("as results have it");
}

/// Sets the results of changes at a point. Each entry is the change, the winner, the runner-up, and the ratio of their
/// medians.
fn change(point: &mut Point, changes: &[(&str, Option<&str>, &str, f64)]) {
    let one = |(change, winner, next, ratio): &(&str, Option<&str>, &str, f64)| {
        serde_json::from_value(
            serde_json::json!({"change": change, "n": 25, "medians_ms": [], "winner": winner,
            "runner_up": next, "median_ratio": ratio, "median_ci95": null, "flips": false}),
        )
        .expect("as results have it")
    };
    point.changes = changes.iter().map(one).collect();
}

fn check(name: &str, point: Point) {
    let race = race(vec![point]);
    for width in [80, 120] {
        let text = render(&race, Style { width, ..Style::default() }, &[]);
        let file = format!("golden/{name}-{width}.txt");
        expect_test::expect_file![file].assert_eq(&text);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{line}");
        }
        let verbose = render(&race, Style { width, verbose: true, pictures: true, ..Style::default() }, &[]);
        for line in verbose.lines() {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
}

#[test]
fn a_clear_winner() {
    let mut point =
        point(|index, rng| Some([1_908, 1_460, 1_363 + rng.below(20) * rng.below(6), 1_496][index]));
    let factor = serde_json::json!({"factor": "windows", "change": "rcvbuf_auto=no", "was": "yes", "contestant": "",
        "alone": {"ratio": 1.0, "ci": [1.0, 1.0]}, "marginal_effect": null, "shapley": null, "reverse": null});
    let conditions = serde_json::json!([
        {"without": "handshake", "gap": 1.0135, "ci95": [1.0135, 1.0135], "needed": true},
        {"without": "rate", "gap": 1.118, "ci95": [1.118, 1.118], "needed": false}]);
    let tried = serde_json::json!({"factors": [factor], "conditions": conditions});
    explain(&mut point, [NAMES[2], NAMES[1]], serde_json::json!([]), tried);
    let [http1, http2, http3] = [NAMES[0], NAMES[1], NAMES[2]];
    change(
        &mut point,
        &[
            ("loss=1%", Some(http1), http2, 1.25),
            ("origins=merge", Some(http3), http2, 1.1),
            ("cc=bbr", Some(http3), http2, 1.2),
            ("rtt=320ms", Some(http3), http2, 1.2),
            ("visit=repeat", None, http2, 1.01),
        ],
    );
    check("clear", point);
}

#[test]
fn two_kinds_of_loads() {
    let mut point = point(|index, rng| {
        let slow = 1_450 + rng.below(450) + rng.below(2) * (2_500 + rng.below(2_500));
        Some(if index == 0 { 2_050 + rng.below(400) + rng.below(8) / 7 * rng.below(600) } else { slow })
    });
    let cause = serde_json::json!([{"change": "connections=6", "was": "1", "factor": "connections and streams",
        "effect": 1.5, "ci": [1.33, 1.69], "enough": false, "with": [], "alternatives": []}]);
    let factor = serde_json::json!({"factor": "connections and streams", "change": "connections=6", "was": "1",
        "contestant": "", "alone": {"ratio": 1.5, "ci": [1.33, 1.69]}, "marginal_effect": null, "shapley": null,
        "reverse": null});
    let next = NAMES[1];
    let tried = serde_json::json!({"gap": 1.31, "factors": [factor]});
    explain(&mut point, [NAMES[0], next], cause, tried);
    change(&mut point, &[("loss=0", Some(NAMES[2]), next, 1.07), ("cc=bbr", Some(NAMES[2]), next, 1.5)]);
    check("two-kinds", point);
}

#[test]
fn a_tie() {
    check("tie", point(|index, rng| Some([1_900, 1_460, 1_463, 1_600][index] + rng.below(30))));
}

#[test]
fn nothing_finished() {
    check("nothing", point(|_, _| None));
}
