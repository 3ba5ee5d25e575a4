//! Explains why the winner wins. Experiments changed settings of the loser and measured the effect on its time.
//!
//! Writes the results of the experiments as text and draws a small figure. The parts of the response time (`parts`)
//! show where time went, but they are not causes.

use super::chart::{self, Axis, Data, Figure, Frame, Ink, LabelPosition, Mark, Width};
use super::svg::escape;
use super::{reasons, words};
use anabranch_results::{Comparison, Effect, Experiment, Point};
use std::fmt::Write;

/// Returns the comparison for which causes were searched. If there are several such comparisons, returns the comparison
/// whose contestants have the best ranks.
pub(super) fn of(point: &Point) -> Option<(&Comparison, &Experiment)> {
    let tried = point.comparisons.iter().filter_map(|one| Some((one, one.experiment.as_ref()?)));
    tried.min_by_key(|(_, experiment)| experiment.ranks)
}

/// Returns the gap between loser and winner that remains after a change with this effect, and the confidence interval
/// of this gap.
fn after(experiment: &Experiment, Effect { ratio, ci }: &Effect) -> (f64, [f64; 2]) {
    let of = |effect: f64| experiment.gap / effect.max(1e-9);
    (of(*ratio), [of(ci[1]), of(ci[0])])
}

/// Returns a contestant's name as the report shows it. `typed` is the text by which the user selected the contestant.
fn name(point: &Point, typed: &str) -> String {
    let index = point.contestants.iter().position(|contestant| contestant.name == typed);
    index.map_or_else(|| typed.to_owned(), |index| words::names(point).swap_remove(index))
}

/// Writes and draws the results of the experiments that searched for causes.
pub(super) fn render(out: &mut String, point: &Point) {
    let Some((found, experiment)) = of(point) else { return };
    let lines = reasons::all(found);
    let (winner, loser) = (name(point, &experiment.winner), name(point, &experiment.loser));
    let _ = write!(
        out,
        "<section class=\"why\"><h2>Why {} is faster than {}{}</h2><ul>",
        escape(&winner),
        escape(&loser),
        if super::answer::winner(point).is_some() { "" } else { " on average" }
    );
    for line in lines.iter().skip(1) {
        // The names of contestants keep their spelling at the beginning of a sentence.
        let begins_with_name = [&winner, &loser].iter().any(|name| line.starts_with(name.as_str()));
        let line = if begins_with_name { line.clone() } else { words::capital(line) };
        let _ = write!(out, "<li>{}.</li>", words::unbroken(&line));
    }
    out.push_str("</ul>");
    picture(out, experiment, &loser);
    out.push_str("</section>\n");
}

/// Draws the loser's time divided by the winner's time: before any change, and after each change alone.
fn picture(out: &mut String, experiment: &Experiment, loser: &str) {
    let mut rows: Vec<(String, f64, [f64; 2], bool)> =
        vec![("as it is".to_owned(), experiment.gap, experiment.ci95, true)];
    for tried in &experiment.factors {
        let (ratio, ends) = after(experiment, &tried.alone);
        rows.push((tried.change.clone(), ratio, ends, false));
    }
    if rows.len() < 2 {
        return;
    }
    let mut data = Data::new(&["loser with", "times the winner's time", "low", "high"]);
    for (what, ratio, [low, high], _) in &rows {
        data.row(&[what.as_str(), &format!("{ratio:.4}"), &format!("{low:.4}"), &format!("{high:.4}")]);
    }
    let high = rows.iter().map(|row| row.1.max(row.2[1])).fold(1.1, f64::max).min(experiment.gap * 3.0);
    let low = rows.iter().map(|row| row.1.min(row.2[0])).fold(1.0, f64::min).max(0.0);
    let figure = Figure {
        name: "experiment".to_owned(),
        heading: format!("The experiment: {} raced again with one change", escape(loser)),
        shows: rows
            .iter()
            .map(|(what, ratio, _, _)| format!("{what}: {ratio:.2} times the winner's time"))
            .collect::<Vec<_>>()
            .join("; "),
        note: format!(
            "Its time divided by the winner's: at 1, the two tie. {} more runs in all, with the same seeds. Bars are \
             intervals; without one, all runs are equal.",
            experiment.runs
        ),
        data,
        ..Figure::default()
    };
    figure.render(out, Width::Narrow, |svg, width| {
        let height = 26 * rows.len() as u32 + 36;
        let frame = Frame { width: width.pixels(), height, left: 136, bottom: 22 };
        let x = Axis::linear((low - 0.05).max(0.0), high * 1.05, 5, |v| format!("{v:.1}"));
        let y = Axis::bare(rows.len() as f64 - 0.5, -0.5);
        chart::draw(svg, frame, [&x, &y], |plot| {
            chart::line(plot, [(1.0, -0.5), (1.0, rows.len() as f64 - 0.5)], Ink::named("limit"), 1.0);
            for (i, (what, ratio, [low, high], whole)) in rows.iter().enumerate() {
                let middle = i as f64;
                let ink = Ink::named(if *whole { "ink" } else { "accent" });
                chart::line(plot, [(*low, middle), (*high, middle)], ink, 2.0);
                chart::marks(plot, [Mark::dot((*ratio, middle), 4.0, ink, format!("{what}: {ratio:.2}"))]);
                // The label of a row is left of the axis, where no line of the grid crosses it.
                let label = super::svg::shortened(what, 20) + "\u{a0}";
                chart::text(plot, (x.range_start(), middle), LabelPosition::Left, Ink::named("ink"), &label);
            }
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        serde_json::from_value(serde_json::json!({"winner": "tcp", "loser": "sctp", "ranks": [1, 2], "gap": 2.0,
            "ci95": [1.8, 2.2], "runs": 200,
            "factors": [{"factor": "windows", "change": "iw=10", "was": "2", "contestant": "sctp:iw=10",
                         "alone": {"ratio": 1.6, "ci": [1.4, 1.8]}, "marginal_effect": null, "shapley": null, "reverse": null}],
            "adverse_causes": [], "unexplained": {"ratio": 1.25, "ci": [1.1, 1.4]},
            "conditions": [{"without": "loss", "gap": 1.01, "ci95": [0.98, 1.04], "needed": true}], "notes": []}))
        .expect("as results have it")
    }

    #[test]
    fn the_gap_after_a_change_is_drawn() {
        let mut out = String::new();
        picture(&mut out, &experiment(), "SCTP");
        // Without the change, the loser takes 2 times as long as the winner. The change makes the loser 1.6 times
        // faster, so it then takes 2 / 1.6 = 1.25 times as long.
        assert!(out.contains("iw=10,1.2500,1.1111,1.4286"), "{out}");
    }
}
