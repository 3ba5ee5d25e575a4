//! The causes of one contestant's lead over another, as found by experiments.
//!
//! All numbers in this module are ratios of times. For example, an effect of 1.6 means that one change makes the slower
//! contestant 1.6 times faster.

use super::Comparison;
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
    /// Every factor (group of settings) that the experiments tested.
    pub factors: Vec<TestedFactor>,
    /// Settings of the winner that seem to slow the winner: the loser gets even slower with them (an effect below 1).
    /// This effect does not prove that the winner would be faster without the setting. The setting may matter less in
    /// combination with the winner's other settings.
    #[serde(alias = "held_back_by")]
    pub adverse_causes: Vec<Cause>,
    /// The `gap` that remains when the loser takes the winner's values of all settings that it can take. Null if no
    /// setting was tested.
    pub unexplained: Option<Effect>,
    /// The gap without certain conditions, such as packet loss. Each entry removes one condition from the network or
    /// the workload, for both contestants.
    pub conditions: Vec<Condition>,
    /// The experiments that were not made, each with the reason.
    pub notes: Vec<String>,
}

/// A ratio of two times, with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Effect {
    /// The ratio that describes the effect.
    pub ratio: f64,
    /// The confidence interval of the ratio.
    pub ci: [f64; 2],
}

/// A factor (group of settings) that the experiments tested, and its measured effects.
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

impl Experiment {
    /// The beginning of the note that names the conditions for which a quick search has no runs left.
    const UNTRIED: &str = "not tried without ";

    /// Returns the note about conditions that were not removed, and the command that tries them; `None` if there are
    /// none.
    #[must_use]
    pub fn untried_note(conditions: &[&str]) -> Option<String> {
        (!conditions.is_empty())
            .then(|| format!("{}{}; --causes full tries this", Self::UNTRIED, conditions.join(", ")))
    }

    /// Returns the note about conditions that were not removed.
    #[must_use]
    pub fn untried(&self) -> Option<&str> {
        self.notes.iter().map(String::as_str).find(|note| note.starts_with(Self::UNTRIED))
    }
}

impl Comparison {
    /// Returns the causes, except those whose `change` an earlier cause already contains: in `alternatives`, or as the only
    /// change in `with`.
    #[must_use]
    pub fn independent_causes(&self) -> Vec<&Cause> {
        let brings = |earlier: &Cause, change: &String| {
            earlier.with == [change.clone()] || earlier.alternatives.contains(change)
        };
        let is_told = |at: usize| !self.causes[..at].iter().any(|it| brings(it, &self.causes[at].change));
        (0..self.causes.len()).filter(|at| is_told(*at)).map(|at| &self.causes[at]).collect()
    }
}

impl Effect {
    /// Returns whether the effect is at least 3 % in either direction, and whether its interval excludes 1 (no effect).
    #[must_use]
    pub fn is_significant(&self) -> bool {
        let [low, high] = self.ci;
        (self.ratio >= 1.03 && low > 1.0) || (self.ratio <= 1.0 / 1.03 && high < 1.0)
    }
}
