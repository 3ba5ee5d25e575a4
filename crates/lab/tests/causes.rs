//! Tests the search for causes with races whose true causes are known. Also tests how causes are reported.
//!
//! These tests use few seeds. `cargo run --release --bin causes` in `benches/` uses more seeds.

#[path = "../../../benches/src/causes.rs"]
#[allow(dead_code, reason = "the command shows more of a row")]
mod table;

use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan, PointPlan};
use anabranch_lab::run::batch::Options;
use anabranch_report::reasons;
use anabranch_report::table::{Style, render};
use anabranch_results::{Comparison, Race, json};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn race(plan: &Plan, threads: usize) -> Race {
    let options = Options { threads, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(plan, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn plan(toml: &str) -> Plan {
    Draft::from_toml("plan.toml", toml)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn explained(race: &Race) -> Vec<&Comparison> {
    race.points[0].comparisons.iter().filter(|comparison| comparison.experiment.is_some()).collect()
}

#[test]
fn no_named_cause_is_wrong() {
    if !are_slow_tests_enabled() {
        return;
    }
    let row = |situation| table::run(situation, "30", "quick", 2);
    let rows: Vec<table::Row> = table::ALL.iter().map(row).collect();
    let table = table::table(&rows);
    println!("{table}");
    assert!(rows.iter().all(|row| row.right), "\n{table}");
}

/// A plan with three contestants. The contestant that the plan names first is neither the winner nor the runner-up.
const THREE: &str = r#"
    objects = "12x50kB"
    loss = "2%"
    runs = 12
    transport = ["tcp:profile=reno-2002", "tcp:profile=modern,connections=6,pipeline=yes", "sctp:profile=modern"]
"#;

#[test]
fn experiments_are_the_same_for_any_number_of_threads_and_keep_to_their_budget() {
    let plan = plan(THREE);
    let one = race(&plan, 1);
    assert_eq!(json::render(&one), json::render(&race(&plan, 2)));
    let [found] = explained(&one)[..] else { panic!("winner and runner-up") };
    let experiment = found.experiment.as_ref().expect("it is there");
    assert_eq!(
        (found.a.as_str(), found.b.as_str()),
        ("sctp:profile=modern", "tcp:profile=modern,connections=6,pipeline=yes")
    );
    assert!(experiment.runs > 0 && experiment.runs <= 20 * 12, "{} runs", experiment.runs);
    assert!(experiment.runs as usize <= plan.max_runs() - plan.run_count());
    // The experiment names a contestant for each tested factor: the loser with that factor changed. A race with this
    // contestant must reproduce the effect of the factor.
    for tried in &experiment.factors {
        let text = format!(
            "objects = '12x50kB'\nloss = '2%'\nruns = 12\ncauses = 'off'\ntransport = ['{}']",
            tried.contestant
        );
        let again = race(&self::plan(&text), 1);
        let mean_log_page_time = |race: &Race, name: &str| {
            let contestant = race.points[0].contestants.iter().find(|it| it.name == name).expect("it raced");
            contestant.runs.iter().map(|run| (run.page_ns.expect("done") as f64).ln()).sum::<f64>() / 12.0
        };
        let alone = (mean_log_page_time(&one, &experiment.loser)
            - mean_log_page_time(&again, &tried.contestant))
        .exp();
        assert!((alone / tried.alone.ratio - 1.0).abs() < 1e-9, "{}: {alone}", tried.contestant);
    }
}

#[test]
fn a_full_search_tests_every_pair_in_both_directions() {
    let mut plan = plan(THREE);
    plan.causes = anabranch_lab::plan::causes::Causes::Full;
    let race = race(&plan, 2);
    let found = explained(&race);
    assert_eq!(found.len(), 3, "three pairs");
    for comparison in found {
        let experiment = comparison.experiment.as_ref().expect("it is there");
        let shares: f64 = experiment.factors.iter().map(|it| it.shapley.expect("a share").ratio.ln()).sum();
        let left = experiment.unexplained.as_ref().expect("all were set").ratio.ln();
        // The maximum number of runs. The experiment applies at most every subset of the factors to each of the two
        // contestants. It also runs both contestants under each condition. All this is done with 12 seeds.
        let most = 12 * (2 * (1 << experiment.factors.len()) + 2 * experiment.conditions.len() as u64);
        assert!(experiment.runs <= most, "{} runs of at most {most}", experiment.runs);
        assert!((shares + left - experiment.gap.ln()).abs() < 1e-9, "shares and the rest are the gap");
    }
}

/// If a gap comes only from handshakes, it must disappear when all connections are established before the page time
/// starts.
#[test]
fn a_gap_of_handshakes_alone_is_only_where_they_are_waited_for() {
    let without = |objects: &str, loser: &str| {
        let race = race(
            &plan(&format!(
                "objects = '{objects}'\nloss = '0'\nruns = 12\ntransport = ['{loser}', '{}']",
                loser.split(':').next().unwrap_or_default()
            )),
            1,
        );
        let [found] = explained(&race)[..] else { panic!("one pair") };
        let experiment = found.experiment.as_ref().expect("it is there");
        let condition = experiment.conditions.iter().find(|it| it.without == "handshake");
        let condition = condition.expect("it is tried").clone();
        (experiment.gap, condition, reasons::all(found).join("\n"))
    };
    let (gap, condition, causes) = without("1x1kB", "sctp:cookie_data=no");
    assert!(gap > 1.3 && condition.needed && (condition.gap - 1.0).abs() < 1e-9, "{gap} {condition:?}");
    assert!(causes.contains("if both had all connections open beforehand, "), "{causes}");
    let (gap, condition, _) = without("1x20kB", "tcp:iw=2");
    assert!(
        !condition.needed && condition.gap > gap,
        "without the handshake the rest is more of it: {condition:?}"
    );
}

#[test]
fn of_several_causes_that_of_most_effect_comes_first() {
    let race = race(
        &plan(
            "objects = '12x20kB'\nloss = '1%'\nruns = 12\n\
             transport = ['tcp:iw=2,pipeline=no', 'tcp:connections=6,iw=10,pipeline=yes']",
        ),
        1,
    );
    let [found] = explained(&race)[..] else { panic!("one pair") };
    let changes: Vec<&str> = found.causes.iter().map(|cause| cause.change.as_str()).collect();
    assert_eq!(changes, ["connections=6", "pipeline=yes", "iw=10"]);
    assert!(found.causes.is_sorted_by(|a, b| a.effect >= b.effect), "{:?}", found.causes);
}

/// Fifty packets at once overflow a queue of ten packets, but not a longer queue. The difference between the
/// contestants' times must therefore depend on the condition `queue`.
#[test]
fn a_gap_of_a_short_queue_is_only_where_it_is_short() {
    let race = race(
        &plan(
            "objects = '1x100kB'\nloss = '0'\nqueue = '10p'\nruns = 3\ntransport = ['tcp:iw=50', 'tcp:iw=10']",
        ),
        1,
    );
    let [found] = explained(&race)[..] else { panic!("one pair") };
    let experiment = found.experiment.as_ref().expect("it is there");
    assert_eq!(experiment.winner, "tcp:iw=10");
    let tried: Vec<&str> = experiment.conditions.iter().map(|it| it.without.as_str()).collect();
    assert_eq!(tried, ["handshake", "queue", "rate"]);
    assert_eq!(experiment.conditions.iter().map(|it| it.needed).collect::<Vec<_>>(), [false, true, true]);
    let why = reasons::all(found).join("\n");
    assert!(why.contains("with an unlimited queue, "), "{why}");
    // Without randomness, one run represents all seeds. The experiment removes three conditions, one at a time, and
    // runs both contestants without each of them: six runs.
    assert_eq!(experiment.runs, 6);
}

#[test]
fn no_causes_are_searched_if_disabled_or_impossible() {
    let off = plan(&format!("{THREE}\ncauses = 'off'"));
    assert!(explained(&race(&off, 1)).is_empty());
    let together = plan(&format!("{THREE}\nshared-link = true"));
    assert!(explained(&race(&together, 1)).is_empty());
    for (lines, needle) in [
        ("shared-link = true\ncauses = 'full'", "causes"),
        ("world = 'emulated'\ncauses = 'full'", "takes real time"),
        ("causes = 'some'", "write quick, full or off"),
    ] {
        let error = Draft::from_toml("plan.toml", &format!("{THREE}\n{lines}"))
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()));
        let error = error.map(|_| ()).expect_err(lines).to_string();
        assert!(error.contains(needle), "{error}");
    }
    let few = plan(&THREE.replace("runs = 12", "runs = 3"));
    let shown = render(&race(&few, 1), Style::default(), &Transports::standard().protocols());
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("causes are looked for from 10 runs on"), "{shown}");
}

#[test]
fn a_plan_can_say_what_a_change_does() {
    let claim = |bounds: &str| {
        let text = format!(
            "{THREE}\ncauses = 'off'\n[[cause]]\nof = 'sctp:profile=modern'\nchange = ['connections=6', 'num_ostreams=20']\n{bounds}"
        );
        race(&plan(&text), 1).expectations
    };
    let met = claim("ratio_min = 1.2");
    assert_eq!(met.len(), 1);
    assert!(met[0].met && met[0].found.is_some_and(|found| found > 1.2), "{met:?}");
    assert!(!claim("ratio_max = 1.1")[0].met && claim("ratio_max = 5")[0].met);
    // The plan has two points. The claim about a cause is restricted to one of them.
    let two = THREE.replace("'2%'", "['1%', '2%']").replace("\"2%\"", "['1%', '2%']");
    let table = "of = 'sctp:profile=modern'\nchange = 'connections=6'\nratio_min = 0.1\nloss = '2%'";
    let expectations = race(&plan(&format!("{two}\ncauses = 'off'\n[[cause]]\n{table}")), 1).expectations;
    assert_eq!(expectations.iter().map(|it| it.point).collect::<Vec<_>>(), [1]);
    for (table, needle) in [
        ("of = 'udp'\nchange = 'iw=2'\nratio_min = 1", "udp"),
        ("of = 'sctp:profile=modern'\nchange = 'iw=many'\nratio_min = 1", "iw"),
        ("of = 'sctp:profile=modern'\nchange = 'iw=2'", "no bound"),
        ("of = 'sctp:profile=modern'\nratio_min = 1", "'change'"),
    ] {
        let error = Draft::from_toml("plan.toml", &format!("{THREE}\n[[cause]]\n{table}"))
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()));
        let error = error.map(|_| ()).expect_err(table).to_string();
        assert!(error.starts_with("plan.toml: [[cause]] 1") && error.contains(needle), "{error}");
    }
}

/// The causes of the race without encryption and without a browser must have their effects with a thousand seeds that
/// the search for causes did not use. In a browser, requests on six pipelined connections are slower.
#[test]
fn causes_hold_on_a_thousand_fresh_seeds() {
    if !are_slow_tests_enabled() {
        return;
    }
    let page = plan(
        "cleartext = true\nclient = 'plain'\norigins = 'merge'\nruns = 1000\nseed = 1001\ncauses = 'off'\n\
         [[cause]]\nof = 'six-sctp'\nchange = 'connections=1'\nloss = '0'\nratio_min = 1.2\n\
         [[cause]]\nof = 'six'\nchange = 'pipeline=yes'\nloss = '1%'\nratio_min = 1.15",
    );
    let page = claimed(page);
    let found = race(&page, 2).expectations;
    assert!(!found.is_empty() && found.iter().all(|expectation| expectation.met), "{found:?}");
}

/// Returns the plan with only the points and contestants about which the plan makes a claim.
fn claimed(mut plan: Plan) -> Plan {
    assert!(!plan.claims.is_empty(), "it claims nothing");
    let claims = plan.claims.clone();
    let is_claimed = |point: &PointPlan| claims.iter().any(|claim| claim.applies_to(point));
    plan.points.retain(|point| is_claimed(point));
    plan.contestants.retain(|contestant| claims.iter().any(|claim| claim.is_of(contestant)));
    plan
}
