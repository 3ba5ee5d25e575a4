//! Checks how well the crate `lab` finds causes. In situations whose true cause is known, the causes that the search
//! finds are compared with the true cause.
//!
//! The program `causes` prints the comparison as a table. A test of the crate `lab` makes the same comparison with
//! fewer seeds than the program.

#[path = "causes/situations.rs"]
mod situations;

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::{Cause, Experiment, Race};
use anabranch_transports::Transports;
use situations::{Situation, Truth};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

pub use situations::ALL;

/// A race whose true cause is known (situation), and the causes that the search named.
pub struct Row {
    /// The race whose true cause is known.
    pub situation: &'static Situation,
    /// The slower contestant's time divided by the faster contestant's time.
    pub gap: f64,
    /// The causes that the search named, in words.
    pub named: String,
    /// Whether the causes that the search named are the true ones.
    pub right: bool,
    /// The experiments that searched for causes; `None` if the contestants were equally fast.
    pub experiment: Option<Experiment>,
}

/// Races the contestants of a situation with `runs` seeds, and searches for the causes of the difference between them.
/// `causes` is the depth of the search: `quick` or `full`.
pub fn run(situation: &'static Situation, runs: &str, causes: &str, threads: usize) -> Row {
    let flags = situation.flags.iter().copied().chain([
        ("transport", situation.fast),
        ("transport", situation.slow),
        ("runs", runs),
        ("seed", "1"),
        ("causes", causes),
    ]);
    let plan = Draft::from_flags(flags).and_then(|draft| Plan::interpret(draft, &Transports::standard()));
    let plan = plan.unwrap_or_else(|error| panic!("{}: {error}", situation.name));
    let options = Options { threads, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let race = causes::race(&plan, &options).unwrap_or_else(|error| panic!("{}: {error}", situation.name));
    judge(situation, &race)
}

fn judge(situation: &'static Situation, race: &Race) -> Row {
    let point = &race.points[0];
    let metric = if point.workload.messages { "object_p95_ms" } else { "page_ms" };
    let of_metric = || point.comparisons.iter().filter(|comparison| comparison.metric == metric);
    let gap = of_metric().find_map(|comparison| comparison.ratio).unwrap_or(f64::NAN);
    let Some(comparison) = of_metric().find(|comparison| comparison.experiment.is_some()) else {
        let right = situation.truth == Truth::Nothing;
        return Row { situation, gap, named: "nothing".to_owned(), right, experiment: None };
    };
    let experiment = comparison.experiment.clone().expect("it is there");
    let against = keys(&experiment.adverse_causes);
    let expected: BTreeSet<&str> = situation.against.iter().copied().collect();
    let right = experiment.winner == situation.fast
        && is_true(situation.truth, &comparison.causes)
        && against.iter().all(|key| expected.contains(key.as_str()))
        // If results differ from seed to seed, the search may miss a setting that slows the faster contestant only
        // slightly. The row counts as right even if such a setting is missing.
        && (against.len() == expected.len() || !comparison.exact);
    let named = words(&comparison.causes, &experiment.adverse_causes);
    Row { situation, gap, named, right, experiment: Some(experiment) }
}

/// Returns whether the causes that the search named are the true ones.
fn is_true(truth: Truth, causes: &[Cause]) -> bool {
    let named = keys(causes);
    let are = |keys: &[&str]| named == keys.iter().map(|key| (*key).to_owned()).collect();
    match truth {
        Truth::Nothing => causes.is_empty(),
        Truth::One(key) => are(&[key]) && causes.iter().all(|cause| cause.with.is_empty()),
        Truth::Within(keys) => !named.is_empty() && named.iter().all(|key| keys.contains(&key.as_str())),
        Truth::Each(keys) => are(keys) && causes.iter().all(|cause| cause.alternatives.is_empty()),
        Truth::Together(keys) => are(keys) && causes.iter().all(|cause| !cause.with.is_empty()),
        Truth::Either(keys) => are(keys) && causes.iter().all(|cause| !cause.alternatives.is_empty()),
    }
}

/// Returns the names of the settings that the causes change. The settings that limit outstanding requests count as one
/// setting, and the settings for the number of objects per connection count as another.
fn keys(causes: &[Cause]) -> BTreeSet<String> {
    let pairs = causes.iter().flat_map(|cause| cause.change.split(','));
    let key = |pair: &str| match pair.split_once('=').map_or(pair, |(key, _)| key) {
        "pipeline" | "when-full" => "outstanding".to_owned(),
        "per-object" => "objects-per-connection".to_owned(),
        key => key.to_owned(),
    };
    pairs.map(key).collect()
}

fn words(causes: &[Cause], against: &[Cause]) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in causes {
        let mut text = format!("{} x{:.2}", cause.change, cause.effect);
        if !cause.with.is_empty() {
            let _ = write!(text, " only with {}", cause.with.join(" or "));
        } else if !cause.alternatives.is_empty() {
            let _ = write!(text, " or {}", cause.alternatives.join(" or "));
        } else if cause.enough {
            text += " enough";
        }
        words.push(text);
    }
    words.extend(against.iter().map(|cause| format!("against: {} x{:.2}", cause.change, cause.effect)));
    if words.is_empty() { "nothing".to_owned() } else { words.join("; ") }
}

/// Returns the results of all situations as a text table.
pub fn table(rows: &[Row]) -> String {
    let mut out =
        format!("{:<50}  {:>6}  {:>6}  {:<5}  {}\n", "situation", "known", "gap", "", "named; true");
    for row in rows {
        let situation = row.situation;
        let verdict = if row.right { "right" } else { "WRONG" };
        let _ = writeln!(
            out,
            "{:<50}  {:>6.2}  {:>6.2}  {verdict:<5}  {}; {}",
            situation.name,
            situation.gap,
            row.gap,
            row.named,
            truth(situation)
        );
    }
    let wrong = rows.iter().filter(|row| !row.right).count();
    let _ = writeln!(out, "{wrong} of {} wrong", rows.len());
    out
}

fn truth(situation: &Situation) -> String {
    let truth = match situation.truth {
        Truth::Nothing => "nothing".to_owned(),
        Truth::One(key) => key.to_owned(),
        Truth::Within(keys) => keys.join(" or "),
        Truth::Each(keys) => keys.join(" and "),
        Truth::Together(keys) => format!("{} together", keys.join(" and ")),
        Truth::Either(keys) => format!("either of {}", keys.join(" and ")),
    };
    match situation.against {
        [] => truth,
        against => format!("{truth}, against {}", against.join(" and ")),
    }
}
