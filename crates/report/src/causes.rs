//! Explains why the winner wins. Experiments changed settings of the loser and measured the effect on its time. The
//! text names the setting that matters, its effect, and the settings that do not matter.
//!
//! Writes the text and a small figure. Without experiments, the text says that no experiment was made to find the
//! cause. The parts of the response time (`parts`) show where time went, but name no cause.

use super::chart::{self, Axis, Data, Figure, Frame, Ink, LabelPosition, Mark, Width};
use super::standing::Ranking;
use super::svg::escape;
use super::words::{explained, is_plural};
use anabranch_results::{Cause, Comparison, Condition, Effect, Experiment, Point};
use std::fmt::Write;

/// Returns the comparison for which causes were searched. If there are several such comparisons, returns the comparison
/// whose contestants have the best ranks.
pub(super) fn of(point: &Point) -> Option<(&Comparison, &Experiment)> {
    let tried = point.comparisons.iter().filter_map(|one| Some((one, one.experiment.as_ref()?)));
    tried.min_by_key(|(_, experiment)| experiment.ranks)
}

/// Formats a ratio, for example `×1.6`.
fn format_ratio(ratio: f64) -> String {
    if ratio >= 9.995 { format!("×{ratio:.1}") } else { format!("×{ratio:.2}") }
}

/// Describes the setting whose change is the cause: in words, then as the user types it.
fn subject(cause: &Cause) -> String {
    let explained = explained(&cause.factor, about(&cause.factor));
    let typed = match cause.change.split_once(',') {
        Some((first, rest)) => format!("{first} and {} more", rest.split(',').count()),
        None if cause.was.is_empty() => cause.change.clone(),
        None => format!("{} in place of {}", cause.change, cause.was),
    };
    match plainly(&cause.change, &cause.was) {
        Some(plain) => format!("<b>{plain}</b> ({explained}: <code>{}</code>)", escape(&typed)),
        None => format!("<b>{explained}</b> (<code>{}</code>)", escape(&typed)),
    }
}

/// Describes a change of one setting for readers who do not know the key of the setting.
fn plainly(change: &str, was: &str) -> Option<String> {
    let (key, value) = change.split_once('=').filter(|(_, value)| !value.contains(','))?;
    let subject = match (key, value) {
        ("pipeline", "yes") => return Some("requests sent without waiting for earlier answers".to_owned()),
        ("pipeline", "no") => return Some("each request sent after the answer before it".to_owned()),
        ("priority", "yes") => return Some("requests and answers in the order of their urgency".to_owned()),
        ("priority", "no") => return Some("requests and answers in the order of the page".to_owned()),
        ("tls" | "dtls", "no") => return Some("no encryption".to_owned()),
        ("tls" | "dtls", _) => return Some("encryption".to_owned()),
        ("resume", "0rtt") => {
            return Some("requests that leave with the first packet of a known client".to_owned());
        }
        ("resume", "session") => return Some("a session taken up from an earlier visit".to_owned()),
        ("connections", _) => return Some(format!("{} in place of {}", connections(value), escape(was))),
        ("streams", _) => "streams",
        ("outstanding", _) => "requests under way on a connection",
        ("iw", _) => "packets sent at once at the start",
        ("rcvbuf", _) => "receive buffer",
        ("sndbuf", _) => "send buffer",
        ("cc", _) => "congestion control",
        ("rto_min", _) => "shortest wait before data is taken for lost",
        ("delack", _) => "longest wait of an acknowledgement",
        _ => return None,
    };
    Some(format!("{subject}: {} in place of {}", escape(value), escape(was)))
}

fn connections(value: &str) -> String {
    if value == "1" { "one connection".to_owned() } else { format!("{} connections", escape(value)) }
}

/// Returns the gap between loser and winner that remains after a change with this effect, and the confidence interval
/// of this gap.
fn after(experiment: &Experiment, Effect { ratio, ci }: &Effect) -> (f64, [f64; 2]) {
    let of = |effect: f64| experiment.gap / effect.max(1e-9);
    (of(*ratio), [of(ci[1]), of(ci[0])])
}

/// Returns the gap that remains after the change of `cause` alone: a ratio and its confidence interval.
fn remaining_gap(experiment: &Experiment, cause: &Cause) -> Option<(f64, [f64; 2])> {
    let tried = experiment.factors.iter().find(|tried| tried.change == cause.change)?;
    Some(after(experiment, &tried.alone))
}

/// Describes whether the loser ties with the winner or wins after the change; `None` if it still loses.
fn turned(experiment: &Experiment, cause: &Cause, loser: &str) -> Option<String> {
    let (ratio, [_, high]) = remaining_gap(experiment, cause)?;
    if high < 1.0 && ratio <= 1.0 / 1.03 {
        return Some(format!("{} would be ahead, by {}", escape(loser), format_ratio(1.0 / ratio)));
    }
    cause.enough.then(|| "the two would be level".to_owned())
}

fn line(experiment: &Experiment, cause: &Cause, loser: &str) -> String {
    let tried = experiment.factors.iter().find(|tried| tried.change == cause.change);
    let (name, factor) = (escape(loser), format_ratio(cause.effect));
    let was = if is_plural(loser) { "were" } else { "was" };
    let how = match tried {
        Some(tried) if tried.shapley.is_some() => {
            format!(
                "over all orders in which the changes can be made, it makes {name} {factor} sooner in the mean"
            )
        }
        Some(tried) if tried.alone.ratio != cause.effect => {
            format!(
                "raced again with all of the winner's settings, {name} {was} {factor} sooner than with all but this one"
            )
        }
        _ => format!("raced again with this one change, {name} {was} {factor} sooner"),
    };
    let mut text = format!("{}: {how}. The gap is {}", subject(cause), format_ratio(experiment.gap));
    if !cause.with.is_empty() {
        let _ = write!(text, "; only together with <code>{}</code>", escape(&cause.with.join(" or ")));
    } else if !cause.alternatives.is_empty() {
        let _ = write!(text, "; <code>{}</code> would do as well", escape(&cause.alternatives.join(" or ")));
    } else if let Some(turned) = turned(experiment, cause, loser) {
        let _ = write!(text, ": with the change, {turned}");
    }
    text + "."
}

/// Describes each change of settings with which the loser would tie with the winner or win.
pub(super) fn remedies(point: &Point) -> Vec<String> {
    let Some((found, experiment)) = of(point) else {
        return Vec::new();
    };
    let (winner, loser) = (name(point, &experiment.winner), name(point, &experiment.loser));
    let remedy = |cause: &Cause| {
        let turned = turned(experiment, cause, &loser)?;
        let (winner_name, change) = (escape(&winner), subject(cause));
        Some(format!("For {} beside {winner_name}, {change}: {turned}.", escape(&loser)))
    };
    found.causes.iter().filter(|cause| cause.with.is_empty()).take(2).filter_map(remedy).collect()
}

/// Returns a contestant's name in words. `typed` is the text by which the user selected the contestant.
fn name(point: &Point, typed: &str) -> String {
    let index = point.contestants.iter().position(|contestant| contestant.name == typed);
    index.map_or_else(|| typed.to_owned(), |index| super::words::names(point).swap_remove(index))
}

/// Describes a group of settings, for its tooltip.
fn about(factor: &str) -> &'static str {
    match factor {
        "windows" => "How much a sender may have under way: at the start, and at most.",
        "congestion control and recovery" => {
            "How a sender slows down after a loss, finds out what is missing, and speeds up again."
        }
        "timers and ACKs" => {
            "How long a sender waits before it takes data for lost, and how late the receiver acknowledges."
        }
        "connections" | "connections and streams" => {
            "How many connections or associations are used at a time: each has a window of its own."
        }
        "security" => {
            "How connections are encrypted and their server is known: each handshake takes round trips, and certificates take \
             bytes."
        }
        "request order" => "In which order requests are sent, and how many wait for each other.",
        _ => "",
    }
}

/// Describes the circumstance that a condition removes.
fn circumstance(without: &str) -> &str {
    match without {
        "loss" => "packets are lost",
        "queue" => "the queue before the slowest wire is short",
        "rate" => "the network's rate is the bottleneck",
        "server time" => "the server takes its time",
        "handshake" => "a handshake is waited for",
        "failure" => "a path fails",
        "order" => "a message must wait for an earlier one",
        "security" => "TLS or DTLS is a layer of its own",
        other => other,
    }
}

/// Describes the gap under changed conditions, for at most three conditions. Empty if no condition was tested.
pub(super) fn conditions(experiment: &Experiment) -> Vec<String> {
    let condition_text = |condition: &Condition| {
        let gap = format_ratio(condition.gap);
        let whole = format_ratio(experiment.gap);
        if condition.needed {
            format!(
                "The gap is there only where {}: without that it is {gap} in place of {whole}.",
                circumstance(&condition.without)
            )
        } else {
            let removed = match condition.without.as_str() {
                "handshake" => "handshakes",
                "queue" => "a limit of the queue",
                "rate" => "a limit of the rate",
                "security" => "TLS and DTLS",
                other => other,
            };
            format!("Without {} the gap is {gap}, not {whole}.", escape(removed))
        }
    };
    let needed = experiment.conditions.iter().filter(|condition| condition.needed);
    let not_needed = experiment.conditions.iter().filter(|condition| !condition.needed);
    needed.chain(not_needed).take(3).map(condition_text).collect()
}

/// Writes the box that names the causes, for the top of the report. The box has at most three lines of text, and the
/// diagram of the experiment.
pub(super) fn render(out: &mut String, point: &Point, ranking: &Ranking) {
    let Some((found, experiment)) = of(point) else {
        if ranking.ranked.len() > 1 && ranking.ranked[0].ms.is_some() {
            out.push_str(
                "<section class=\"why\"><h2>Why</h2><p>No experiment was made to find the cause. Where the time went stands below: \
                 that describes what happened, and does not say what would change it.</p></section>\n",
            );
        }
        return;
    };
    let (winner, loser) = (name(point, &experiment.winner), name(point, &experiment.loser));
    let _ = write!(
        out,
        "<section class=\"why\"><h2>Why {} came in before {}</h2><ul>",
        escape(&winner),
        escape(&loser)
    );
    let mut lines: Vec<String> =
        found.causes.iter().take(2).map(|cause| line(experiment, cause, &loser)).collect();
    if lines.is_empty() {
        lines.push(match experiment.notes.first() {
            Some(note) if experiment.factors.is_empty() => escape(note) + ".",
            _ => "No setting that was tried makes a difference that is sure.".to_owned(),
        });
    }
    if let Some(first) = experiment.adverse_causes.first() {
        lines.push(format!(
            "With {} as the winner has it {} would be later still: {}.",
            subject(first),
            escape(&loser),
            format_ratio(first.effect)
        ));
    } else if let Some(left) =
        experiment.unexplained.as_ref().filter(|left| left.ci[0] > 1.0 && left.ratio >= 1.03)
    {
        lines.push(match found.causes.first() {
            Some(first) if first.enough => {
                format!("The rest of the winner's settings, taken over as well, would bring a gap of {} back.", format_ratio(left.ratio))
            }
            _ => format!(
                "With every setting as the winner has it, a gap of {} is there: that is not explained by settings.",
                format_ratio(left.ratio)
            ),
        });
    }
    for line in lines {
        let _ = write!(out, "<li>{line}</li>");
    }
    out.push_str("</ul>");
    picture(out, experiment, &loser);
    out.push_str("</section>\n");
}

/// Draws the experiment: the loser's time divided by the winner's, before any change and after each change alone.
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
            "How many times the winner's time it takes; 1 is level. {} more runs in all, with the same seeds. Bars are \
             intervals; without one, all runs are alike.",
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
                // The label of the row is left of the axis, where no line crosses it.
                let label = super::svg::shortened(what, 20) + "\u{a0}";
                chart::text(plot, (x.range_start(), middle), LabelPosition::Left, Ink::named("ink"), &label);
            }
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause() -> Cause {
        serde_json::from_value(
            serde_json::json!({"change": "iw=10", "was": "2", "factor": "windows", "effect": 1.6,
            "ci": [1.4, 1.8], "enough": false, "with": [], "alternatives": []}),
        )
        .expect("as results have it")
    }

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
    fn the_order_after_a_change_is_stated_only_if_certain() {
        let turned = |ratio: f64, ci: [f64; 2], enough| {
            let mut experiment = experiment();
            experiment.factors[0].alone = Effect { ratio, ci };
            super::turned(&experiment, &Cause { enough, ..cause() }, "SCTP")
        };
        assert_eq!(turned(2.5, [2.2, 2.8], false).as_deref(), Some("SCTP would be ahead, by ×1.25"));
        assert_eq!(turned(2.5, [1.8, 3.2], false), None);
        assert_eq!(turned(2.0, [1.9, 2.1], true).as_deref(), Some("the two would be level"));
        assert_eq!(turned(2.0, [1.9, 2.1], false), None);
    }

    #[test]
    fn a_cause_line_states_its_effect() {
        let line = line(&experiment(), &cause(), "SCTP");
        assert!(
            line.contains("<code>iw=10 in place of 2</code>")
                && line.contains("SCTP was ×1.60 sooner. The gap is ×2.00."),
            "{line}"
        );
        let conditions = conditions(&experiment());
        assert_eq!(
            conditions,
            ["The gap is there only where packets are lost: without that it is ×1.01 in place of ×2.00."]
        );
        // The text names the necessary condition first, and only once.
        let mut several = experiment();
        let mut other = several.conditions[0].clone();
        (other.without, other.gap, other.needed) = ("queue".to_owned(), 1.9, false);
        several.conditions.insert(0, other);
        let text = super::conditions(&several);
        assert_eq!(text.len(), 2);
        assert!(
            text[0].contains("only where packets are lost")
                && text[1].starts_with("Without a limit of the queue"),
            "{text:?}"
        );
        let mut out = String::new();
        picture(&mut out, &experiment(), "SCTP");
        // Without the change, the loser takes 2 times as long as the winner. The change makes the loser 1.6 times
        // faster, so it then takes 2 / 1.6 = 1.25 times as long.
        assert!(out.contains("iw=10,1.2500,1.1111,1.4286"), "{out}");
    }
}
