//! Decides which factors are causes, from the results of experiments.
//!
//! v(S) is the mean over seeds of ln T(the loser with the settings S as the winner has them) - ln T(the winner). The
//! effect of a factor *alone* is v(nothing) - v(that factor). Its effect *last* is v(all but that factor) - v(all).
//! Intervals are percentiles of 2,000 resamples of the seeds. The same resamples are used for every v, so that
//! variation common to the runs cancels out in differences.

use super::factors::Set;
use crate::stats::summary::quantile;
use anabranch_base::Rng;
use std::collections::BTreeMap;

/// The number of resamples of the seeds.
const RESAMPLES: usize = 2_000;
/// The label of the random numbers for resamples. It is fixed, so that results are reproducible.
const LABEL: &str = "causes/resamples";
/// The fewest seeds that give a usable interval.
pub const FEWEST: usize = 10;

/// ln of the gap that counts as none: 3 %. A factor that leaves less is sufficient.
pub const LEVEL: f64 = 0.029_558_802_241_544_4; // ln 1.03
/// ln of the largest effect that counts as none: 2 %.
const LEAST: f64 = 0.019_802_627_296_179_7; // ln 1.02
/// The largest effect that counts as none, as a share of the gap.
const SHARE: f64 = 0.1;

/// A quantity with its resamples.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// The mean over the seeds.
    pub mean: f64,
    resampled: Vec<f64>,
}

impl Estimate {
    /// Returns the mean of one value per seed. There must be at least one seed.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let n = values.len().max(1);
        let mean = |sum: f64| sum / n as f64;
        let mut rng = Rng::new(0).fork(LABEL);
        // If all values are equal, so is every mean of them, except for rounding.
        let constant = values.iter().all(|value| Some(value) == values.first());
        let resampled = (0..RESAMPLES).map(|_| match constant {
            true => values.first().copied().unwrap_or(0.0),
            false => mean((0..n).map(|_| values[rng.below(n as u64) as usize]).sum()),
        });
        let resampled = resampled.collect();
        let total = if constant { values.first().copied().unwrap_or(0.0) } else { mean(values.iter().sum()) };
        Self { mean: total, resampled }
    }

    /// Returns the difference of two estimates, resample by resample.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        self.plus(other, -1.0)
    }

    /// Returns this estimate plus `times` the other, resample by resample.
    #[must_use]
    pub fn plus(&self, other: &Self, times: f64) -> Self {
        Self {
            mean: self.mean + times * other.mean,
            resampled: self.resampled.iter().zip(&other.resampled).map(|(a, b)| a + times * b).collect(),
        }
    }

    /// Returns whether the gap is gone: the interval ends below [`LEVEL`].
    #[must_use]
    pub fn is_gone(&self, level: f64) -> bool {
        self.interval(level)[1] < LEVEL
    }

    /// Returns the interval that holds this share of the resamples.
    #[must_use]
    pub fn interval(&self, level: f64) -> [f64; 2] {
        let tail = (1.0 - level) / 2.0;
        [tail, 1.0 - tail].map(|p| quantile(&self.resampled, p).unwrap_or(self.mean))
    }
}

/// All known values of v.
#[derive(Clone, Debug)]
pub struct Values {
    factors: usize,
    /// Whether effects are Shapley values.
    shares: bool,
    known: BTreeMap<Set, Estimate>,
}

/// The effects of a factor.
#[derive(Clone, Debug)]
pub struct Effect {
    /// v(nothing) - v(that factor).
    pub alone: Estimate,
    /// v(all but that factor) - v(all), if known.
    pub last: Option<Estimate>,
    /// Its Shapley value, if all subsets are known.
    pub shapley: Option<Estimate>,
}

impl Effect {
    /// Returns the decisive effect: the Shapley value, or else the larger of alone and last.
    #[must_use]
    pub fn decisive(&self) -> &Estimate {
        match (&self.shapley, &self.last) {
            (Some(shapley), _) => shapley,
            (None, Some(last)) if last.mean > self.alone.mean => last,
            _ => &self.alone,
        }
    }

    /// Returns the effect to print, for a factor that is favourable or not. This is the effect alone, if it certainly
    /// exceeds `threshold`, because a user who makes the change sees that effect. Otherwise it is the decisive effect.
    /// An effect last can exceed the whole gap if another of the changes does harm.
    #[must_use]
    pub fn printed(&self, favours: bool, threshold: f64, level: f64) -> &Estimate {
        let [low, high] = self.alone.interval(level);
        match favours {
            _ if self.shapley.is_some() => self.decisive(),
            true if low <= threshold => self.decisive(),
            false if high >= -threshold => self.adverse(),
            _ => &self.alone,
        }
    }

    /// Returns the effect that speaks most against the factor.
    #[must_use]
    pub fn adverse(&self) -> &Estimate {
        match (&self.shapley, &self.last) {
            (Some(shapley), _) => shapley,
            (None, Some(last)) if last.mean < self.alone.mean => last,
            _ => &self.alone,
        }
    }
}

/// The classification of a factor.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// The factor is neither a cause nor harmful.
    Unnamed,
    /// The factor is a cause.
    Cause {
        /// Whether this factor alone removes the gap.
        enough: bool,
        /// Factors without which it has no effect.
        with: Vec<usize>,
        /// Factors that could replace it.
        either: Vec<usize>,
    },
    /// The factor makes the winner slower.
    Against,
}

impl Values {
    /// Makes an empty set of values for this number of factors.
    #[must_use]
    pub fn new(factors: usize) -> Self {
        Self { factors, shares: false, known: BTreeMap::new() }
    }

    /// Keeps the gap and sets the number of factors that may explain it. `shares`: all subsets will be known, and
    /// effects are Shapley values.
    #[must_use]
    pub fn of_factors(self, factors: usize, shares: bool) -> Self {
        Self { factors, shares, ..self }
    }

    /// Adds v of a set, from one value per seed.
    pub fn found(&mut self, set: Set, values: &[f64]) {
        self.known.insert(set, Estimate::of(values));
    }

    /// Returns v of a set.
    #[must_use]
    pub fn get(&self, set: Set) -> Option<&Estimate> {
        self.known.get(&set)
    }

    const fn all(&self) -> Set {
        (1 << self.factors) - 1
    }

    /// Returns the confidence level of effects, adjusted so that together they are wrong in one of twenty cases.
    #[must_use]
    pub fn level(&self) -> f64 {
        1.0 - 0.05 / self.factors.max(1) as f64
    }

    /// Returns whether there is a relevant gap.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        self.get(0).is_some_and(|gap| gap.interval(0.95)[0] > 0.0 && gap.mean >= LEVEL)
    }

    /// Returns the effects of a factor, if it was changed alone.
    #[must_use]
    pub fn effect(&self, factor: usize) -> Option<Effect> {
        let (one, all) = (1 << factor, self.all());
        let alone = self.get(0)?.less(self.get(one)?);
        let last = self.get(all & !one).and_then(|but| Some(but.less(self.get(all)?)));
        Some(Effect { alone, last, shapley: self.shapley(factor) })
    }

    /// Returns the Shapley value: the mean effect of a factor over all orders of changes.
    fn shapley(&self, factor: usize) -> Option<Estimate> {
        if !self.shares {
            return None;
        }
        let one = 1 << factor;
        let mut sum: Option<Estimate> = None;
        for set in (0..=self.all()).filter(|set| set & one == 0) {
            let step = self.get(set)?.less(self.get(set | one)?);
            let weight = share(set.count_ones(), self.factors as u32);
            sum = Some(match sum {
                None => step.plus(&step, weight - 1.0),
                Some(sum) => sum.plus(&step, weight),
            });
        }
        sum
    }

    /// Returns the value that an effect's interval must exceed.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.get(0).map_or(LEAST, |gap| (SHARE * gap.mean).max(LEAST))
    }

    fn passes(&self, effect: &Estimate) -> bool {
        effect.interval(self.level())[0] > self.threshold()
    }

    /// Returns whether a factor may need others: it has no relevant effect alone, but has one last. An uncertain effect
    /// still counts as an effect.
    #[must_use]
    pub fn needs_others(&self, factor: usize) -> bool {
        self.effect(factor)
            .is_some_and(|effect| self.passes(effect.decisive()) && effect.alone.mean <= self.threshold())
    }

    /// Returns whether a factor has an effect after the other one is changed.
    fn passes_with(&self, factor: usize, other: usize) -> bool {
        let (before, after) = (self.get(1 << other), self.get(1 << other | 1 << factor));
        before.zip(after).is_some_and(|(before, after)| self.passes(&before.less(after)))
    }

    fn is_enough(&self, factor: usize) -> bool {
        self.get(1 << factor).is_some_and(|v| v.mean.abs() < LEVEL)
    }

    fn is_needed_last(&self, factor: usize) -> bool {
        self.effect(factor).and_then(|effect| effect.last).is_none_or(|last| self.passes(&last))
    }

    /// Returns the classification of each factor.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let adverse = |factor: usize| {
            self.effect(factor)
                .is_some_and(|effect| effect.adverse().interval(self.level())[1] < -self.threshold())
        };
        let favourable =
            |factor: usize| self.effect(factor).is_some_and(|effect| self.passes(effect.decisive()));
        // A factor that helps alone and harms last, or the reverse, is neither a cause nor harmful.
        let named: Vec<bool> =
            (0..self.factors).map(|factor| favourable(factor) && !adverse(factor)).collect();
        let others = |factor: usize| (0..self.factors).filter(move |other| *other != factor);
        let dispensable =
            |factor: usize| named[factor] && self.is_enough(factor) && !self.is_needed_last(factor);
        let finding = |factor: usize| {
            if named[factor] {
                let with = match self.needs_others(factor) {
                    true => others(factor).filter(|other| self.passes_with(factor, *other)).collect(),
                    false => Vec::new(),
                };
                let either = match dispensable(factor) {
                    true => others(factor).filter(|other| dispensable(*other)).collect(),
                    false => Vec::new(),
                };
                return Finding::Cause { enough: self.is_enough(factor), with, either };
            }
            match adverse(factor) && !favourable(factor) {
                true => Finding::Against,
                false => Finding::Unnamed,
            }
        };
        (0..self.factors).map(finding).collect()
    }
}

/// Returns the share of all orders of `n` factors in which exactly these `before` factors come before a given one:
/// before! (n - before - 1)! / n!.
fn share(before: u32, n: u32) -> f64 {
    let factorial = |k: u32| (1..=k).map(f64::from).product::<f64>();
    factorial(before) * factorial(n - before - 1) / factorial(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve seeds whose values vary slightly around `v`, in the same way for every `v`.
    fn seeds(v: f64) -> Vec<f64> {
        (0..12).map(|i| v + 0.001 * f64::from(i % 5)).collect()
    }

    fn values(factors: usize, known: &[(Set, f64)]) -> Values {
        let mut values = Values::new(factors);
        for (set, v) in known {
            values.found(*set, &seeds(*v));
        }
        values
    }

    fn cause(enough: bool, with: &[usize], either: &[usize]) -> Finding {
        Finding::Cause { enough, with: with.to_vec(), either: either.to_vec() }
    }

    #[test]
    fn the_interval_is_that_of_the_mean() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let [low, high] = Estimate::of(&values).interval(0.95);
        // The standard error of the mean is 28.87 / 10; the interval is 1.96 of them in each direction.
        assert!((low - (49.5 - 5.66)).abs() < 0.5 && (high - (49.5 + 5.66)).abs() < 0.5, "{low} to {high}");
        let same = Estimate::of(&[0.1; 30]);
        assert_eq!((same.mean, same.interval(0.99)), (0.1, [0.1, 0.1]));
        // All estimates use the same resamples, so common variation cancels out.
        let shifted: Vec<f64> = values.iter().map(|v| v + 1.0).collect();
        let [low, high] = Estimate::of(&shifted).less(&Estimate::of(&values)).interval(0.99);
        assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_left_is_gone_only_for_sure() {
        let of = |values: &[f64]| Estimate::of(values).is_gone(0.95);
        assert!(of(&[0.0; 12]) && of(&[-0.5; 12]));
        assert!(!of(&[0.5; 12]));
        assert!(!of(&[1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0]), "not known");
    }

    #[test]
    fn one_of_two_is_the_cause_and_enough() {
        let found = values(2, &[(0, 0.7), (1, 0.0), (2, 0.7), (3, 0.0)]).findings();
        assert_eq!(found, [cause(true, &[], &[]), Finding::Unnamed]);
    }

    #[test]
    fn two_that_act_only_together() {
        let found = values(2, &[(0, 0.7), (1, 0.7), (2, 0.7), (3, 0.0)]).findings();
        assert_eq!(found, [cause(false, &[1], &[]), cause(false, &[0], &[])]);
    }

    #[test]
    fn one_that_acts_only_with_another_that_harms() {
        let found = values(2, &[(0, 0.1), (1, 0.1), (2, 0.4), (3, 0.0)]).findings();
        assert_eq!(found, [cause(false, &[1], &[]), Finding::Unnamed]);
    }

    #[test]
    fn what_is_not_sure_alone_is_not_called_nothing() {
        let mut found = values(2, &[(0, 0.3), (2, 0.3), (3, 0.0)]);
        // Its mean effect alone is 0.2, but each seed deviates by about 2.
        found.found(1, &(0..12).map(|i| 0.1 + if i % 2 == 0 { 2.0 } else { -2.0 }).collect::<Vec<f64>>());
        assert_eq!(found.findings()[0], cause(false, &[], &[]));
    }

    #[test]
    fn either_of_two() {
        let found = values(2, &[(0, 0.7), (1, 0.0), (2, 0.0), (3, 0.0)]).findings();
        assert_eq!(found, [cause(true, &[], &[1]), cause(true, &[], &[0])]);
    }

    #[test]
    fn what_makes_the_winner_slower_is_against_it() {
        let found = values(2, &[(0, 0.5), (1, -0.3), (2, 0.8), (3, 0.0)]).findings();
        assert_eq!(found, [cause(false, &[], &[]), Finding::Against]);
    }

    #[test]
    fn what_is_printed_is_what_the_change_alone_does() {
        let found = values(2, &[(0, 0.3), (1, -0.1), (2, 1.4), (3, 0.0)]);
        let effects = [0, 1].map(|factor| found.effect(factor).expect("an effect"));
        assert_eq!(found.findings(), [cause(false, &[], &[]), Finding::Against]);
        let printed =
            |effect: &Effect, favours| effect.printed(favours, found.threshold(), found.level()).mean;
        // As the last change its effect would be 1.4, since the other change has already done harm of 1.1.
        assert!((printed(&effects[0], true) - 0.4).abs() < 1e-9);
        assert!((printed(&effects[1], false) + 1.1).abs() < 1e-9);
        let together = values(2, &[(0, 0.7), (1, 0.7), (2, 0.7), (3, 0.0)]);
        let effect = together.effect(0).expect("an effect");
        assert!((effect.printed(true, together.threshold(), together.level()).mean - 0.7).abs() < 1e-9);
    }

    #[test]
    fn what_helps_or_harms_as_the_others_are_is_neither() {
        let found = values(2, &[(0, 0.5), (1, 0.0), (2, 0.4), (3, 0.1)]).findings();
        assert_eq!(found, [cause(true, &[], &[]), Finding::Unnamed]);
    }

    #[test]
    fn little_is_nothing() {
        assert!(!values(1, &[(0, 0.02), (1, 0.0)]).is_gap(), "below 3 %");
        assert!(values(1, &[(0, 0.04), (1, 0.0)]).is_gap());
        // A tenth of the gap.
        let found = values(2, &[(0, 1.0), (1, 0.1), (2, 0.92), (3, 0.02)]).findings();
        assert_eq!(found, [cause(false, &[], &[]), Finding::Unnamed]);
    }

    #[test]
    fn shares_of_three_add_up_to_the_gap() {
        // By hand: a acts alone (0.3), b and c only together (0.6).
        let v = |set: Set| 0.9 - if set & 1 != 0 { 0.3 } else { 0.0 } - if set & 6 == 6 { 0.6 } else { 0.0 };
        let all: Vec<(Set, f64)> = (0..8).map(|set| (set, v(set))).collect();
        let found = values(3, &all).of_factors(3, true);
        let shares: Vec<f64> =
            (0..3).filter_map(|factor| found.effect(factor)?.shapley.map(|share| share.mean)).collect();
        for (share, expected) in shares.iter().zip([0.3, 0.3, 0.3]) {
            assert!((share - expected).abs() < 1e-9, "{shares:?}");
        }
        assert_eq!(found.findings()[1], cause(false, &[2], &[]));
    }
}
