//! Compares a new result of a race with an old result.

use anabranch_results::stats::metrics;
use anabranch_results::{Contestant, Point, Race};
use std::fmt::Write;

/// The metrics in which the two results are compared.
const METRICS: [&str; 4] = ["page_ms", "object_ms", "retransmitted", "wire_bytes"];

/// Compares each contestant's new values with its old values, at every point that both results have. Runs with the same
/// seed are paired. Also lists the contestants that only one result has.
#[must_use]
pub fn render(old: &Race, new: &Race) -> String {
    let rows = table(&new.points.iter().map(|new| point(old, new)).collect::<String>());
    let alone: Vec<String> = [(old, new, "old"), (new, old, "new")]
        .into_iter()
        .flat_map(|(this, other, which)| {
            let known = |name: &str| contestants(other).any(|one| one.name == name);
            contestants(this)
                .filter(move |one| !known(&one.name))
                .map(move |one| format!("{} ({which})", one.name))
        })
        .collect();
    if alone.is_empty() {
        return rows;
    }
    format!("{rows}Not compared, the other result having no contestant of that name: {}\n", alone.join(", "))
}

/// Renders the rows of one point of the new result; empty if the old result does not have the point.
#[must_use]
pub fn point(old: &Race, point: &Point) -> String {
    let mut out = String::new();
    let Some(before) = old.points.iter().find(|earlier| earlier.factors == point.factors) else { return out };
    for contestant in &point.contestants {
        let was = before.contestants.iter().find(|earlier| earlier.name == contestant.name);
        if let Some(was) = was {
            rows(&mut out, point, was, contestant);
        }
    }
    out
}

/// Adds a heading to the rows of all points. If there are no rows, returns a sentence that says so.
#[must_use]
pub fn table(rows: &str) -> String {
    if rows.is_empty() {
        return "The two results have no contestant at a point in common: nothing to compare.\n".to_owned();
    }
    format!(
        "{:<34}  {:<13}  {:>10}  {:>10}  {:>20}\n{rows}",
        "new beside old", "metric", "old mean", "new mean", "new/old"
    )
}

/// Returns the contestants of a result, which are the same at every point.
fn contestants(race: &Race) -> impl Iterator<Item = &Contestant> {
    race.points.first().into_iter().flat_map(|point| &point.contestants)
}

fn rows(out: &mut String, point: &Point, old: &Contestant, new: &Contestant) {
    let levels: Vec<String> = point.factors.iter().map(|(k, v)| format!("{k} {v}")).collect();
    let mut label = new.label().to_owned();
    if !levels.is_empty() {
        label = format!("{label} ({})", levels.join(", "));
    }
    // Returns the runs of `from` whose seeds also occur in `other`. The order of the seeds is the same in both
    // contestants.
    let common = |from: &Contestant, other: &Contestant| {
        let has = |seed: u64| other.runs.iter().any(|run| run.seed == seed);
        from.runs.iter().filter(|run| has(run.seed)).cloned().collect::<Vec<_>>()
    };
    let (before, after) = (common(old, new), common(new, old));
    for metric in METRICS {
        let figure = |contestant: &Contestant| {
            contestant.summary.metric(metric).and_then(|stat| stat.geometric_mean.or(stat.mean))
        };
        let found = metrics::compare((&new.name, &after), (&old.name, &before), metric, point.terms());
        let ratio = match (found.ratio, found.ci95) {
            (Some(ratio), Some([low, high])) => format!("{ratio:.3} ({low:.3}-{high:.3})"),
            (Some(ratio), None) => format!("{ratio:.3}"),
            (None, _) => "-".to_owned(),
        };
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        // The metric `page_ms` is shown under a name that depends on the workload: `page_ms`, `transfer_ms` or
        // `messages_ms`.
        let named = if metric == "page_ms" {
            format!("{}_ms", point.workload.workload_noun())
        } else {
            metric.to_owned()
        };
        let _ = writeln!(
            out,
            "{label:<34}  {named:<13}  {:>10}  {:>10}  {ratio:>20}",
            shown(figure(old)),
            shown(figure(new))
        );
        label.clear();
    }
}
