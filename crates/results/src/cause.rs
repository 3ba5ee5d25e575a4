//! The causes of one contestant's lead over another, as found by experiments.
//!
//! All figures are ratios of times. For example, an effect of 1.6 means that one change makes the slower contestant 1.6
//! times faster. This module also writes the lines about causes below the table of results.

use super::{Comparison, label};
use serde::{Deserialize, Serialize};

/// A cause of the gap, found by a change: the loser takes the winner's values of one or more settings. The change makes
/// the loser faster, so these settings explain a part of the winner's lead. A cause in [`Experiment::adverse_causes`]
/// does the opposite: with the winner's values, the loser becomes slower. The winner leads despite these values.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cause {
    /// The change to the loser, in the syntax of the command line, for example `iw=10` or `recovery=sack,sack=yes`.
    pub change: String,
    /// The values that the settings had before the change, in the same syntax.
    pub was: String,
    /// The group of the settings: `windows`, `congestion control and recovery`, `timers and ACKs`,
    /// `connections and streams`, `security`, or `request order`.
    pub factor: String,
    /// How many times faster the change makes the loser.
    pub effect: f64,
    /// The confidence interval of `effect`. The intervals of all factors hold at the same time with 95 % confidence.
    pub ci: [f64; 2],
    /// Whether this change alone brings the two contestants within 3 % of one another.
    pub enough: bool,
    /// Changes that must be made together with this change. Without them, this change has no effect.
    pub with: Vec<String>,
    /// Alternatives to this change. Each alternative has the same effect on its own.
    #[serde(alias = "either")]
    pub alternatives: Vec<String>,
}

/// The experiments that searched for causes, and their results.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Experiment {
    /// The faster contestant, in the syntax of the command line.
    pub winner: String,
    /// The slower contestant, in the syntax of the command line.
    pub loser: String,
    /// The ranks of winner and loser among all contestants, from 1.
    pub ranks: [u64; 2],
    /// The loser's time divided by the winner's time. The time is the page time, the transfer time, or the 95th
    /// percentile of message delays. A run that did not finish counts with its deadline.
    pub gap: f64,
    /// The 95 % interval of the gap, from resamples of the seeds.
    pub ci95: [f64; 2],
    /// Number of runs made for the experiments.
    pub runs: u64,
    /// Every factor that was tested.
    pub factors: Vec<TestedFactor>,
    /// Settings of the winner that seem to slow the winner: the loser gets even slower with them (an effect below 1).
    /// This effect does not prove that the winner would be faster without the setting. The setting may matter less in
    /// combination with the winner's other settings.
    #[serde(alias = "held_back_by")]
    pub adverse_causes: Vec<Cause>,
    /// The `gap` that remains when the loser takes the winner's values of all settings that it can take. Null if no
    /// setting was tested.
    pub unexplained: Option<Effect>,
    /// The gap under changed conditions. Each condition removes something from the network or the workload, for both
    /// contestants.
    pub conditions: Vec<Condition>,
    /// The experiments that were not made, each with the reason.
    pub notes: Vec<String>,
}

/// A ratio with its interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Effect {
    /// The ratio.
    pub ratio: f64,
    /// The interval of the ratio.
    pub ci: [f64; 2],
}

/// A factor that was tested.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TestedFactor {
    /// The group of the settings, as in [`Cause::factor`].
    pub factor: String,
    /// The change to the loser, in the syntax of the command line.
    pub change: String,
    /// The values that the settings had before the change, in the same syntax.
    pub was: String,
    /// The name of the contestant that results if only this change is made to the loser, in the syntax of the command
    /// line.
    pub contestant: String,
    /// The factor by which this change makes the loser faster if no other change is made.
    pub alone: Effect,
    /// The factor by which this change makes the loser faster if all other changes have already been made; null if not
    /// tested.
    #[serde(alias = "last")]
    pub marginal_effect: Option<Effect>,
    /// The mean effect of the change over all orders in which the changes can be made one after another (Shapley
    /// value); null if not all orders were tested.
    pub shapley: Option<Effect>,
    /// The winner's time with its own settings, divided by its time with the loser's values of the settings in
    /// `change`. Below 1 if the winner gets slower with the loser's values. This is the mean over all orders in which
    /// the settings can be changed one after another; null if not tested.
    pub reverse: Option<Effect>,
}

/// A condition, such as packet loss, and the gap between the two contestants when both run without this condition.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// The removed condition: `loss`, `handshake`, `queue`, `rate`, `server time`, `failure`, `security` or `order`.
    /// `security` is TLS or DTLS, if it is a layer separate from the transport. `order` means that messages wait for
    /// earlier messages.
    pub without: String,
    /// The loser's time divided by the winner's time, both without the condition.
    pub gap: f64,
    /// The 95 % confidence interval of `gap`.
    pub ci95: [f64; 2],
    /// Whether the condition is necessary for the gap. It is necessary if the gap disappears without it.
    pub needed: bool,
}

impl Condition {
    /// Returns a phrase for the circumstances to which the gap is limited.
    fn circumstance(&self) -> &str {
        match self.without.as_str() {
            "loss" => "where packets are lost",
            "queue" => "where the queue is short",
            "rate" => "where capacity is the limit",
            "server time" => "where the server takes its time",
            "handshake" => "where a handshake is waited for",
            "failure" => "where a path fails",
            "order" => "where a message waits for an earlier one",
            "security" => "where security is a layer of its own",
            other => other,
        }
    }
}

impl Comparison {
    /// Explains why the winner is faster: a heading and one line per finding. Names at most `most` causes. Returns
    /// `None` if there are no experiments.
    #[must_use]
    pub fn why(&self, most: usize) -> Option<Vec<String>> {
        let experiment = self.experiment.as_ref()?;
        let (winner, loser) = (label::shown(&experiment.winner), label::shown(&experiment.loser));
        let gap = format_ratio(experiment.gap);
        let causes = self.independent_causes();
        let mut lines: Vec<String> = causes.iter().take(most).map(|cause| because(cause, &gap)).collect();
        if let more @ 1.. = causes.len().saturating_sub(most) {
            lines.push(format!("and of {more} more"));
        }
        if let Some(first) = experiment.adverse_causes.first() {
            lines.push(format!(
                "with {} {loser} would be later still: {}",
                subject(first),
                format_ratio(first.effect)
            ));
        }
        if let Some(left) = experiment.unexplained.as_ref().filter(|left| left.is_significant()) {
            lines.push(format!("not explained by settings: {}", format_ratio(left.ratio)));
        }
        // The gap without TLS and DTLS has a line of its own, because readers who would never disable security want to
        // know its cost.
        let clear = experiment.conditions.iter().find(|it| it.without == "security" && !it.needed);
        let clear = clear.filter(|it| (it.gap / experiment.gap).ln().abs() >= MIN_REPORTED_GAP);
        lines.extend(clear.map(|it| format!("without TLS and DTLS it would be {}", format_ratio(it.gap))));
        let needed = experiment.conditions.iter().find(|condition| condition.needed);
        lines.extend(needed.map(|condition| format!("only {}", condition.circumstance())));
        if experiment.factors.is_empty() {
            lines.extend(experiment.notes.iter().cloned());
        }
        if causes.is_empty() && !experiment.factors.is_empty() {
            lines.insert(0, "no setting for sure".to_owned());
        }
        let case = if self.exact { ", one case" } else { "" };
        lines.insert(0, format!("why {winner} before {loser}, {gap}{case}:"));
        Some(lines)
    }

    /// Returns the causes, except those whose `change` an earlier cause already contains: in `alternatives`, or as the only
    /// change in `with`.
    fn independent_causes(&self) -> Vec<&Cause> {
        let brings = |earlier: &Cause, change: &String| {
            earlier.with == [change.clone()] || earlier.alternatives.contains(change)
        };
        let is_told = |at: usize| !self.causes[..at].iter().any(|it| brings(it, &self.causes[at].change));
        (0..self.causes.len()).filter(|at| is_told(*at)).map(|at| &self.causes[at]).collect()
    }
}

impl Effect {
    /// Returns whether the effect is at least 3 % in either direction and its interval excludes 1.
    fn is_significant(&self) -> bool {
        let [low, high] = self.ci;
        (self.ratio >= 1.03 && low > 1.0) || (self.ratio <= 1.0 / 1.03 && high < 1.0)
    }
}

/// The smallest change of a gap that gets its own line in the text: 3 %, as a natural logarithm.
const MIN_REPORTED_GAP: f64 = 0.029_558_802_241_544_4;

fn because(cause: &Cause, gap: &str) -> String {
    let mut text = "because of ".to_owned();
    if !cause.alternatives.is_empty() {
        text += "either of ";
    }
    text += &subject(cause);
    for other in &cause.alternatives {
        text += &format!(" or {other}");
    }
    text += &format!(": {} of {gap}", format_ratio(cause.effect));
    if !cause.with.is_empty() {
        text += &format!(", only together with {}", cause.with.join(" or "));
    } else if cause.enough {
        text += ", enough by itself";
    }
    text
}

/// Names the group of settings and the change, for example `windows (iw=10, not 2)`. If there are several changes,
/// names the first change and the number of the other changes.
fn subject(cause: &Cause) -> String {
    match cause.change.split_once(',') {
        None => format!("{} ({}, not {})", cause.factor, cause.change, cause.was),
        Some((first, others)) => format!("{} ({first} and {} more)", cause.factor, others.split(',').count()),
    }
}

/// Formats a ratio, for example `x1.64` or `x11.7`.
fn format_ratio(ratio: f64) -> String {
    if ratio >= 9.995 { format!("x{ratio:.1}") } else { format!("x{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(change: &str, effect: f64) -> Cause {
        Cause {
            change: change.to_owned(),
            was: "2".to_owned(),
            factor: "windows".to_owned(),
            effect,
            ci: [effect - 0.1, effect + 0.1],
            enough: false,
            with: Vec::new(),
            alternatives: Vec::new(),
        }
    }

    /// Returns the text lines that explain a comparison whose experiment found `causes`. `change` may modify that
    /// experiment first. The text names at most three causes.
    fn lines(causes: Vec<Cause>, change: impl FnOnce(&mut Experiment)) -> Vec<String> {
        let run = crate::stats::metrics::PointTerms { deadline_ns: None, is_random: true };
        let mut comparison =
            crate::stats::metrics::compare(("tcp", &[]), ("six=tcp:iw=10", &[]), "page_ms", run);
        let tried = |cause: &Cause| TestedFactor {
            factor: cause.factor.clone(),
            change: cause.change.clone(),
            was: cause.was.clone(),
            contestant: String::new(),
            alone: Effect { ratio: cause.effect, ci: cause.ci },
            marginal_effect: None,
            shapley: None,
            reverse: None,
        };
        let mut experiment = Experiment {
            winner: "six=tcp:iw=10".to_owned(),
            loser: "tcp".to_owned(),
            ranks: [1, 2],
            gap: 2.0,
            ci95: [1.9, 2.1],
            runs: 100,
            factors: causes.iter().map(tried).collect(),
            adverse_causes: Vec::new(),
            unexplained: Some(Effect { ratio: 1.01, ci: [0.99, 1.03] }),
            conditions: Vec::new(),
            notes: Vec::new(),
        };
        change(&mut experiment);
        (comparison.causes, comparison.experiment) = (causes, Some(experiment));
        comparison.why(3).expect("there is something to explain")
    }

    #[test]
    fn a_cause_is_a_line() {
        let enough = Cause { enough: true, ..cause("iw=10", 1.6) };
        let found = lines(vec![enough], |experiment| {
            experiment.adverse_causes = vec![cause("rcvbuf=1MiB,sndbuf=1MiB", 0.8)];
            experiment.unexplained = Some(Effect { ratio: 1.25, ci: [1.2, 1.3] });
            let without = |what: &str, needed| Condition {
                without: what.to_owned(),
                gap: 1.0,
                ci95: [1.0, 1.0],
                needed,
            };
            experiment.conditions = vec![without("failure", false), without("loss", true)];
        });
        assert_eq!(
            found,
            [
                "why six before tcp, x2.00:",
                "because of windows (iw=10, not 2): x1.60 of x2.00, enough by itself",
                "with windows (rcvbuf=1MiB and 1 more) tcp would be later still: x0.80",
                "not explained by settings: x1.25",
                "only where packets are lost",
            ]
        );
    }

    #[test]
    fn dependent_and_alternative_causes_share_a_line() {
        let with = |change: &str, other: &str| Cause { with: vec![other.to_owned()], ..cause(change, 1.9) };
        let found = lines(vec![with("rcvbuf=8", "sndbuf=8"), with("sndbuf=8", "rcvbuf=8")], |_| {});
        assert_eq!(
            found[1..],
            ["because of windows (rcvbuf=8, not 2): x1.90 of x2.00, only together with sndbuf=8"]
        );
        let either =
            |change: &str, other: &str| Cause { alternatives: vec![other.to_owned()], ..cause(change, 1.9) };
        let found = lines(vec![either("a=1", "b=1"), either("b=1", "a=1")], |_| {});
        assert_eq!(found[1..], ["because of either of windows (a=1, not 2) or b=1: x1.90 of x2.00"]);
    }

    #[test]
    fn further_causes_are_counted_and_notes_are_shown() {
        let many = (1..6).map(|i| cause(&format!("iw={i}"), 1.5)).collect();
        assert_eq!(lines(many, |_| {}).last().expect("a line"), "and of 2 more");
        let none = lines(Vec::new(), |experiment| {
            experiment.notes = vec!["causes are looked for from 10 runs on".to_owned()];
        });
        assert_eq!(none[1..], ["causes are looked for from 10 runs on"]);
    }
}
