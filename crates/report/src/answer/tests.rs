//! Tests of the answer with made-up results: what it says if medians and averages disagree, if the race was
//! interrupted, and if a path failed while messages were sent.

use super::{Line, all_lines, lines, winner};
use crate::reasons::all;
use crate::tests::point;
use anabranch_results::cell::PointResult;
use anabranch_results::stats::describe;
use anabranch_results::{Changed, Comparison, Experiment, Point, Verdict};

/// Returns a point at which `sctp` has the smallest median.
fn race() -> Point {
    point(12, 30, 1)
}

/// Returns the comparison of the two best contestants.
fn best_two(point: &mut Point) -> &mut Comparison {
    point.comparisons.last_mut().expect("three comparisons")
}

fn line<'a>(lines: &'a [Line], label: &str) -> &'a Line {
    lines.iter().find(|line| line.label == label).unwrap_or_else(|| panic!("no '{label}' in {lines:?}"))
}

#[test]
fn medians_that_would_decide_do_not_overrule_averages() {
    let mut point = race();
    assert_eq!(winner(&point).as_deref(), Some("sctp"));
    best_two(&mut point).verdict = Verdict::Undecided;
    assert_eq!(winner(&point), None);
    let text = line(&lines(&point), "No clear winner").text();
    assert!(text.contains("The medians differ (") && text.contains("the means do not"), "{text}");
    // The medians do not decide, either.
    best_two(&mut point).median_ci95 = Some([0.9, 1.1]);
    let text = line(&lines(&point), "No clear winner").text();
    assert!(text.contains("too close to call") && !text.contains("medians differ"), "{text}");
}

#[test]
fn medians_less_than_three_percent_apart_have_no_winner() {
    let mut point = race();
    let found = best_two(&mut point);
    (found.median_ratio, found.median_ci95) = (Some(0.98), Some([0.97, 0.99]));
    let text = line(&lines(&point), "No clear winner").text().replace('\u{a0}', " ");
    assert!(text.contains(" times faster, but the medians are less than 3 % apart."), "{text}");
    assert_eq!((winner(&point), PointResult::of(&point).winner()), (None, None), "nor has the grid");
}

/// The rule is about runs in the emulated network. A run of the simulation has no lateness.
#[test]
fn a_busy_machine_measures_no_winner() {
    let mut point = race();
    let late = |point: &mut Point, count: usize| {
        for (at, run) in point.contestants[1].runs.iter_mut().enumerate() {
            run.late_ns = Some(if at < count { 2_100_000 } else { 2_000_000 });
        }
    };
    late(&mut point, 7);
    assert_eq!(winner(&point).as_deref(), Some("sctp"));
    late(&mut point, 8);
    assert_eq!((winner(&point), Changed::none(&point).winner), (None, None));
    let text = line(&lines(&point), "Not measured").text().replace('\u{a0}', " ");
    assert!(
        text.starts_with(
            "this machine was busy, and packets were more than 2 ms late in 8 of 30 loads of tcp"
        )
    );
    assert_eq!(PointResult::of(&point).winner(), None);
}

/// A point that is a change of another point has the winner that its own answer names.
#[test]
fn a_neighbor_has_the_winner_of_its_own_answer() {
    let mut point = race();
    let found = best_two(&mut point);
    (found.median_ratio, found.median_ci95) = (Some(0.96), Some([0.95, 0.97]));
    assert_eq!(
        (winner(&point).as_deref(), Changed::none(&point).winner.as_deref()),
        (Some("sctp"), Some("sctp"))
    );
    best_two(&mut point).verdict = Verdict::Undecided;
    assert_eq!((winner(&point), Changed::none(&point).winner), (None, None));
}

#[test]
fn an_interrupted_search_for_causes_is_not_an_answer() {
    let mut point = race();
    let text = |lines: &[Line], label| line(lines, label).text();
    let cut = all_lines(&point, true);
    assert!(cut[0].label == "Use sctp" && cut[0].text().contains("faster"), "{cut:?}");
    for label in ["Why", "What changes it"] {
        assert_eq!(text(&cut, label), "not known, because the race was interrupted.");
        assert!(!text(&lines(&point), label).contains("interrupted"));
    }
    let changed = Changed { change: "loss=0".to_owned(), ..Changed::none(&point) };
    point.changes.push(changed);
    let cut = all_lines(&point, true);
    assert!(text(&cut, "What changes it").contains("no packet loss"), "the changes so far: {cut:?}");
    assert!(text(&cut, "Why").contains("interrupted"));
}

/// The 95th percentile of delays says little about a failure that concerns a few per cent of the messages.
#[test]
fn a_path_failure_is_judged_by_the_time_to_restoration() {
    let mut point = race();
    (point.workload.messages, point.failure_ns) = (true, Some(1_000_000));
    for found in &mut point.comparisons {
        found.metric = "object_p95_ms".to_owned();
    }
    for (contestant, ms) in point.contestants.iter_mut().zip([500.0, 460.0, 1000.0]) {
        contestant.summary.object_p95_ms = contestant.summary.page_ms;
        contestant.summary.restored_ms = describe(&vec![ms; contestant.runs.len()], 0);
    }
    let shown = lines(&point);
    assert!(shown[0].label.starts_with("Use tcp") && shown[0].label != "Use tcp", "{shown:?}");
    let text = shown[0].text().replace('\u{a0}', " ");
    assert!(text.starts_with("it restores service 460 ms after the path fails at"), "{text}");
    assert!(text.ends_with("The others do so later: tcp after 500 ms and sctp after 1.00 s."), "{text}");
    assert_eq!(winner(&point).map(|name| format!("Use {name}")), Some(shown[0].label.clone()));
    // The delays are another matter, in which another contestant is ahead.
    assert!(line(&shown, "Delays of messages").text().starts_with("shortest with sctp: "), "{shown:?}");
    assert!(!shown.iter().any(|line| line.label == "Failover"), "said once");
    // A contestant that restores service in fewer runs comes later, however fast it is then.
    point.contestants[1].summary.restored_ms = describe(&[460.0; 3], 27);
    let shown = lines(&point);
    assert!(shown[0].label == "Use tcp" && shown[0].text().contains("in 3 of 30 runs"), "{shown:?}");
    point.contestants[2].summary.restored_ms = describe(&vec![505.0; 30], 0);
    assert_eq!(lines(&point)[0].label, "No clear winner");
}

/// The list of experiments must not contradict the reason that the answer names, nor the answer itself.
#[test]
fn reasons_agree_with_the_answer() {
    let mut point = race();
    let experiment = |needed: bool| -> Experiment {
        serde_json::from_value(
            serde_json::json!({"winner": "sctp", "loser": "tcp:connections=6", "ranks": [1, 2],
            "gap": 1.27, "ci95": [1.2, 1.3], "runs": 200,
            "factors": [{"factor": "windows", "change": "iw=10", "was": "2", "contestant": "tcp:iw=10",
                         "alone": {"ratio": 1.0, "ci": [0.9, 1.1]}, "marginal_effect": null, "shapley": null,
                         "reverse": null}],
            "adverse_causes": [], "unexplained": {"ratio": 1.18, "ci": [1.1, 1.4]},
            "conditions": [{"without": "loss", "gap": if needed { 1.01 } else { 1.26 }, "ci95": [0.98, 1.26],
                            "needed": needed}], "notes": []}),
        )
        .expect("as results have it")
    };
    let found = best_two(&mut point);
    found.experiment = Some(experiment(true));
    let tried = all(found);
    assert!(
        tried.contains(&"no tested setting explains the gap, but a condition of the race does".to_owned()),
        "{tried:?}"
    );
    assert!(
        tried.iter().any(|line| line.starts_with("with the tested setting, sctp would still be 1.18 times")),
        "{tried:?}"
    );
    let why = line(&lines(&point), "Why").text();
    assert!(why.starts_with("lost packets cost") && why.contains("Without loss, "), "{why}");
    let found = best_two(&mut point);
    found.experiment = Some(experiment(false));
    assert!(all(found).contains(&"no tested setting explains the gap".to_owned()));
    // The medians of the two are too close, so the lead is one of averages.
    found.median_ci95 = Some([0.9, 1.1]);
    let shown = lines(&point);
    assert!(shown[0].label == "No clear winner", "{shown:?}");
    assert!(shown.iter().any(|line| line.label.ends_with(" on average")), "{shown:?}");
}

/// A change that acts only together with others has its effect after them, and the others may make the loser slower.
/// What the loser does with all of them is known only if they are all that was tested.
#[test]
fn a_change_that_needs_others_is_told_by_the_run_of_all() {
    let told = |unexplained: f64, others: &[&str]| {
        let mut point = race();
        let change = |change: &str, alone: f64| {
            serde_json::json!({"factor": "request order", "change": change, "was": "no", "contestant": "tcp",
                "alone": {"ratio": alone, "ci": [alone, alone]}, "marginal_effect": null, "shapley": null, "reverse": null})
        };
        let factors = [change("pipeline=yes", 1.0), change("connections=1", 0.56)];
        let factors: Vec<_> =
            factors.into_iter().chain(others.iter().map(|name| change(name, 1.0))).collect();
        let found = best_two(&mut point);
        found.causes = serde_json::from_value(serde_json::json!([{"change": "pipeline=yes", "was": "pipeline=no",
            "factor": "request order", "effect": 1.83, "ci": [1.8, 1.9], "enough": false, "with": ["connections=1"],
            "alternatives": []}]))
        .expect("causes");
        found.experiment = serde_json::from_value(serde_json::json!({"winner": "sctp", "loser": "tcp:connections=6",
            "ranks": [1, 2], "gap": 1.12, "ci95": [1.1, 1.14], "runs": 80, "factors": factors, "adverse_causes": [],
            "unexplained": {"ratio": unexplained, "ci": [unexplained, unexplained]}, "conditions": [], "notes": []}))
        .expect("as results have it");
        line(&lines(&point), "Why").text()
    };
    let all = told(1.05, &[]);
    assert!(all.contains("connections=1") && all.contains("sctp would still be 1.05 times faster"), "{all}");
    assert_eq!(told(1.11, &[]), "nothing tried explains it.");
    assert_eq!(told(1.05, &["iw=10"]), "nothing tried explains it.");
}
