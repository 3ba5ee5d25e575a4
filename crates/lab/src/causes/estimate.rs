//! Decides which factors are causes of a gap, from the results of experiments.
//!
//! For a set S of factors, v(S) is the gap that remains when the loser has the winner's settings for S. It is the mean
//! over seeds of ln T(changed loser) - ln T(winner), where T is a time. The effect of a factor *alone* is v(nothing) -
//! v(that factor). Its effect *last* is v(all but that factor) - v(all).
//!
//! Intervals are percentiles of 2,000 resamples of the seeds. The values of v for all sets use the same resamples, so
//! variation that is common to the runs cancels out in differences.

use super::factors::Set;
use anabranch_base::Rng;
use anabranch_results::stats::summary::quantile;
use std::collections::BTreeMap;

/// The number of resamples of the seeds.
const RESAMPLES: usize = 2_000;
/// The name of the random number stream that draws the resamples. The name and the seed are fixed, so that results can
/// be reproduced.
const LABEL: &str = "causes/resamples";
/// The minimum number of seeds for a usable interval.
pub const FEWEST: usize = 10;

/// The natural logarithm of 1.03, the smallest ratio of two durations that counts as a gap. A factor is sufficient if
/// the gap that remains after changing it is smaller than this constant.
pub const MIN_GAP: f64 = 0.029_558_802_241_544_4; // ln 1.03
/// The natural logarithm of 1.02, the largest ratio of two durations that counts as no effect.
const LEAST: f64 = 0.019_802_627_296_179_7; // ln 1.02
/// An effect counts as no effect if it is at most this share of the gap between the contestants. Both are logarithms of
/// ratios.
const SHARE: f64 = 0.1;

/// An estimated mean, and one value of it for each resample of the seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct ResampledMean {
    /// The mean over all seeds.
    pub mean: f64,
    resampled: Vec<f64>,
}

impl ResampledMean {
    /// Estimates the mean of `values`, which has one value for each seed. There must be at least one seed.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let n = values.len().max(1);
        let mean = |sum: f64| sum / n as f64;
        let mut rng = Rng::new(0).fork(LABEL);
        // If all values are equal, the mean of every resample equals them. Computing it would only add rounding errors.
        let constant = values.iter().all(|value| Some(value) == values.first());
        let resampled = (0..RESAMPLES).map(|_| match constant {
            true => values.first().copied().unwrap_or(0.0),
            false => mean((0..n).map(|_| values[rng.below(n as u64) as usize]).sum()),
        });
        let resampled = resampled.collect();
        let total = if constant { values.first().copied().unwrap_or(0.0) } else { mean(values.iter().sum()) };
        Self { mean: total, resampled }
    }

    /// Returns this estimate minus `other`, computed for each resample.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        self.plus(other, -1.0)
    }

    /// Returns this estimate plus `times` times `other`, computed for each resample.
    #[must_use]
    pub fn plus(&self, other: &Self, times: f64) -> Self {
        Self {
            mean: self.mean + times * other.mean,
            resampled: self.resampled.iter().zip(&other.resampled).map(|(a, b)| a + times * b).collect(),
        }
    }

    /// Returns whether the gap between the contestants that this estimate describes is gone: the confidence interval
    /// ends below [`MIN_GAP`]. The estimate is the logarithm of a ratio of two durations. `level` is the confidence
    /// level, for example 0.95.
    #[must_use]
    pub fn is_gone(&self, level: f64) -> bool {
        self.interval(level)[1] < MIN_GAP
    }

    /// Returns the central interval that contains the share `level` of the resamples.
    #[must_use]
    pub fn interval(&self, level: f64) -> [f64; 2] {
        let tail = (1.0 - level) / 2.0;
        [tail, 1.0 - tail].map(|p| quantile(&self.resampled, p).unwrap_or(self.mean))
    }
}

/// The measured gaps between two contestants: for each tried set S of changed factors, the gap v(S) that remains.
#[derive(Clone, Debug)]
pub struct Values {
    factors: usize,
    /// Whether the effects of factors are computed as Shapley values.
    shares: bool,
    known: BTreeMap<Set, ResampledMean>,
}

/// The effect of one factor on the gap between two contestants, measured in up to three ways. A factor is a setting in
/// which the contestants differ.
#[derive(Clone, Debug)]
pub struct FactorEffect {
    /// The effect of changing only this factor: the original gap, minus the gap that remains after the change.
    pub alone: ResampledMean,
    /// The effect of changing this factor last: the gap that remains when all other factors are changed, minus the gap
    /// that remains when all factors are changed. `None` if it was not measured.
    pub last: Option<ResampledMean>,
    /// The Shapley value of the factor; `None` if not all sets of factors were measured.
    pub shapley: Option<ResampledMean>,
}

impl FactorEffect {
    /// Returns the effect that decides whether the factor is a cause. It is the Shapley value, if known, or else the
    /// larger of `alone` and `last`.
    #[must_use]
    pub fn decisive(&self) -> &ResampledMean {
        self.either(f64::gt)
    }

    /// Returns the effect to print for a factor. `favours` is true for a cause, whose change reduces the gap. It is
    /// false for an adverse factor, whose change widens the gap.
    ///
    /// - If the Shapley value is known, returns it.
    /// - Otherwise, returns `alone` if its whole interval is above `threshold` for a cause, or below `-threshold` for
    ///   an adverse factor. A user who changes only this factor sees the effect `alone`. The effect `last` is not used,
    ///   because it may exceed the whole gap if another factor is adverse.
    /// - Otherwise, returns [`decisive`](Self::decisive) for a cause, and [`adverse`](Self::adverse) for an adverse
    ///   factor.
    #[must_use]
    pub fn reported_effect(&self, favours: bool, threshold: f64, level: f64) -> &ResampledMean {
        let [low, high] = self.alone.interval(level);
        match favours {
            _ if self.shapley.is_some() => self.decisive(),
            true if low <= threshold => self.decisive(),
            false if high >= -threshold => self.adverse(),
            _ => &self.alone,
        }
    }

    /// Returns the measured effect that makes the factor look least like a cause.
    #[must_use]
    pub fn adverse(&self) -> &ResampledMean {
        self.either(f64::lt)
    }

    /// Returns one estimate of the factor's effect: the Shapley value, if known. Otherwise returns `last` if
    /// `last_counts(last, alone)` is true, or else `alone`.
    fn either(&self, last_counts: fn(&f64, &f64) -> bool) -> &ResampledMean {
        match (&self.shapley, &self.last) {
            (Some(shapley), _) => shapley,
            (None, Some(last)) if last_counts(&last.mean, &self.alone.mean) => last,
            _ => &self.alone,
        }
    }
}

/// The classification of a factor, from its measured effects.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// The factor is neither a cause of the gap nor adverse.
    Unnamed,
    /// The factor is a cause of the gap.
    Cause {
        /// Whether changing this factor alone removes the gap.
        enough: bool,
        /// The other factors that must be changed, too, before this factor has an effect.
        with: Vec<usize>,
        /// The other factors that can be changed instead of this one with the same effect.
        either: Vec<usize>,
    },
    /// The factor makes the winner slower, so the winner leads despite it.
    Adverse,
}

impl Values {
    /// Creates an empty set of measurements, for an experiment with this number of factors.
    #[must_use]
    pub fn new(factors: usize) -> Self {
        Self { factors, shares: false, known: BTreeMap::new() }
    }

    /// Returns the same measurements with another number of factors. `shares` says whether all sets of factors will be
    /// measured. If so, the effects are Shapley values.
    #[must_use]
    pub fn of_factors(self, factors: usize, shares: bool) -> Self {
        Self { factors, shares, ..self }
    }

    /// Adds v(`set`), the measured gap that remains when the factors of this set are changed. `values` has one gap for
    /// each seed.
    pub fn insert(&mut self, set: Set, values: &[f64]) {
        self.known.insert(set, ResampledMean::of(values));
    }

    /// Returns v(`set`), the gap that remains when the factors in `set` are changed; `None` if v(`set`) was not
    /// measured.
    #[must_use]
    pub fn get(&self, set: Set) -> Option<&ResampledMean> {
        self.known.get(&set)
    }

    const fn all(&self) -> Set {
        (1 << self.factors) - 1
    }

    /// Returns the confidence level of each effect. It is corrected for the number of factors: the probability that at
    /// least one interval is wrong is at most 5 %.
    #[must_use]
    pub fn level(&self) -> f64 {
        1.0 - 0.05 / self.factors.max(1) as f64
    }

    /// Returns whether the gap between the contestants is significant and at least 3 %.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        self.get(0).is_some_and(|gap| gap.interval(0.95)[0] > 0.0 && gap.mean >= MIN_GAP)
    }

    /// Returns the effects of the factor with the index `factor`. Returns `None` if no experiment changed that factor
    /// alone.
    #[must_use]
    pub fn effect(&self, factor: usize) -> Option<FactorEffect> {
        let (one, all) = (1 << factor, self.all());
        let alone = self.get(0)?.less(self.get(one)?);
        let last = self.get(all & !one).and_then(|but| Some(but.less(self.get(all)?)));
        Some(FactorEffect { alone, last, shapley: self.shapley(factor) })
    }

    /// Returns the Shapley value of a factor: the mean of its effect over all orders in which the factors can be
    /// changed.
    fn shapley(&self, factor: usize) -> Option<ResampledMean> {
        if !self.shares {
            return None;
        }
        let one = 1 << factor;
        let mut sum: Option<ResampledMean> = None;
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

    /// Returns the threshold for relevant effects: a fixed share of the gap, but at least ln 1.02. Like the gap and the
    /// effects, the threshold is the natural logarithm of a ratio of two times. An effect is relevant only if its whole
    /// confidence interval is above the threshold.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.get(0).map_or(LEAST, |gap| (SHARE * gap.mean).max(LEAST))
    }

    fn passes(&self, effect: &ResampledMean) -> bool {
        effect.interval(self.level())[0] > self.threshold()
    }

    /// Returns whether a factor may need other factors: changing it alone has no relevant effect, but changing it after
    /// all other factors has a relevant effect. A mean effect above the threshold counts as relevant even if its
    /// interval is wide.
    #[must_use]
    pub fn needs_others(&self, factor: usize) -> bool {
        self.effect(factor)
            .is_some_and(|effect| self.passes(effect.decisive()) && effect.alone.mean <= self.threshold())
    }

    /// Returns whether changing `factor` has an effect if `other`, and no further factor, is already changed.
    fn passes_with(&self, factor: usize, other: usize) -> bool {
        let (before, after) = (self.get(1 << other), self.get(1 << other | 1 << factor));
        before.zip(after).is_some_and(|(before, after)| self.passes(&before.less(after)))
    }

    fn is_enough(&self, factor: usize) -> bool {
        self.get(1 << factor).is_some_and(|v| v.mean.abs() < MIN_GAP)
    }

    fn is_needed_last(&self, factor: usize) -> bool {
        self.effect(factor).and_then(|effect| effect.last).is_none_or(|last| self.passes(&last))
    }

    /// Returns the classifications of all factors.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let adverse = |factor: usize| {
            self.effect(factor)
                .is_some_and(|effect| effect.adverse().interval(self.level())[1] < -self.threshold())
        };
        let favourable =
            |factor: usize| self.effect(factor).is_some_and(|effect| self.passes(effect.decisive()));
        // Some factors make the loser faster if they are changed alone, but slower if they are changed after all other
        // factors. Other factors do the opposite. Factors of both kinds are reported neither as causes nor as adverse.
        let named: Vec<bool> =
            (0..self.factors).map(|factor| favourable(factor) && !adverse(factor)).collect();
        let other_factors = |factor: usize| (0..self.factors).filter(move |other| *other != factor);
        let dispensable =
            |factor: usize| named[factor] && self.is_enough(factor) && !self.is_needed_last(factor);
        let finding = |factor: usize| {
            if named[factor] {
                let with = match self.needs_others(factor) {
                    true => other_factors(factor).filter(|other| self.passes_with(factor, *other)).collect(),
                    false => Vec::new(),
                };
                let either = match dispensable(factor) {
                    true => other_factors(factor).filter(|other| dispensable(*other)).collect(),
                    false => Vec::new(),
                };
                return Finding::Cause { enough: self.is_enough(factor), with, either };
            }
            match adverse(factor) && !favourable(factor) {
                true => Finding::Adverse,
                false => Finding::Unnamed,
            }
        };
        (0..self.factors).map(finding).collect()
    }
}

/// Returns the weight of a set of factors in a Shapley value: before! (n - before - 1)! / n!. `before` is the size of
/// the set. The weight is the share of the permutations of `n` factors in which exactly this set precedes a given
/// factor.
fn share(before: u32, n: u32) -> f64 {
    let factorial = |k: u32| (1..=k).map(f64::from).product::<f64>();
    factorial(before) * factorial(n - before - 1) / factorial(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns made-up gaps for twelve seeds that vary slightly around `v`. They vary in the same way for every `v`.
    fn seeds(v: f64) -> Vec<f64> {
        (0..12).map(|i| v + 0.001 * f64::from(i % 5)).collect()
    }

    fn values(factors: usize, known: &[(Set, f64)]) -> Values {
        let mut values = Values::new(factors);
        for (set, v) in known {
            values.insert(*set, &seeds(*v));
        }
        values
    }

    fn cause(enough: bool, with: &[usize], either: &[usize]) -> Finding {
        Finding::Cause { enough, with: with.to_vec(), either: either.to_vec() }
    }

    #[test]
    fn the_interval_is_that_of_the_mean() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let [low, high] = ResampledMean::of(&values).interval(0.95);
        // The standard deviation of the 100 values is 28.87, so the standard error of their mean is 2.887. The 95 %
        // interval extends 1.96 standard errors in each direction.
        assert!((low - (49.5 - 5.66)).abs() < 0.5 && (high - (49.5 + 5.66)).abs() < 0.5, "{low} to {high}");
        let same = ResampledMean::of(&[0.1; 30]);
        assert_eq!((same.mean, same.interval(0.99)), (0.1, [0.1, 0.1]));
        // All estimates use the same resamples, so the variation that two estimates have in common cancels out in their
        // difference.
        let shifted: Vec<f64> = values.iter().map(|v| v + 1.0).collect();
        let [low, high] = ResampledMean::of(&shifted).less(&ResampledMean::of(&values)).interval(0.99);
        assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_gap_is_closed_only_if_the_interval_says_so() {
        let of = |values: &[f64]| ResampledMean::of(values).is_gone(0.95);
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
    fn factors_that_act_only_together_are_both_causes() {
        let found = values(2, &[(0, 0.7), (1, 0.7), (2, 0.7), (3, 0.0)]).findings();
        assert_eq!(found, [cause(false, &[1], &[]), cause(false, &[0], &[])]);
    }

    #[test]
    fn a_cause_may_depend_on_a_harmful_factor() {
        let found = values(2, &[(0, 0.1), (1, 0.1), (2, 0.4), (3, 0.0)]).findings();
        assert_eq!(found, [cause(false, &[1], &[]), Finding::Unnamed]);
    }

    #[test]
    fn an_uncertain_effect_alone_is_not_ruled_out() {
        let mut found = values(2, &[(0, 0.3), (2, 0.3), (3, 0.0)]);
        // Alone, the factor reduces the value by 0.2 on average, but the effects of single seeds are 2 larger or
        // smaller.
        found.insert(1, &(0..12).map(|i| 0.1 + if i % 2 == 0 { 2.0 } else { -2.0 }).collect::<Vec<f64>>());
        assert_eq!(found.findings()[0], cause(false, &[], &[]));
    }

    #[test]
    fn alternative_factors_are_listed_as_alternatives() {
        let found = values(2, &[(0, 0.7), (1, 0.0), (2, 0.0), (3, 0.0)]).findings();
        assert_eq!(found, [cause(true, &[], &[1]), cause(true, &[], &[0])]);
    }

    #[test]
    fn factors_that_slow_the_winner_are_adverse() {
        let found = values(2, &[(0, 0.5), (1, -0.3), (2, 0.8), (3, 0.0)]).findings();
        assert_eq!(found, [cause(false, &[], &[]), Finding::Adverse]);
    }

    #[test]
    fn the_reported_effect_is_that_of_the_change_alone() {
        let found = values(2, &[(0, 0.3), (1, -0.1), (2, 1.4), (3, 0.0)]);
        let effects = [0, 1].map(|factor| found.effect(factor).expect("an effect"));
        assert_eq!(found.findings(), [cause(false, &[], &[]), Finding::Adverse]);
        let printed = |effect: &FactorEffect, favours| {
            effect.reported_effect(favours, found.threshold(), found.level()).mean
        };
        // Factor 1 is adverse: changing it widens the gap from 0.3 to 1.4. Changing both factors leaves a gap of 0.0,
        // so the effect of factor 0 after factor 1 is 1.4 - 0.0 = 1.4. Changing factor 0 alone leaves a gap of -0.1.
        // The reported effect is that of this change alone: 0.3 - (-0.1) = 0.4.
        assert!((printed(&effects[0], true) - 0.4).abs() < 1e-9);
        assert!((printed(&effects[1], false) + 1.1).abs() < 1e-9);
        let together = values(2, &[(0, 0.7), (1, 0.7), (2, 0.7), (3, 0.0)]);
        let effect = together.effect(0).expect("an effect");
        assert!(
            (effect.reported_effect(true, together.threshold(), together.level()).mean - 0.7).abs() < 1e-9
        );
    }

    #[test]
    fn a_factor_whose_effect_changes_sign_is_no_cause() {
        let found = values(2, &[(0, 0.5), (1, 0.0), (2, 0.4), (3, 0.1)]).findings();
        assert_eq!(found, [cause(true, &[], &[]), Finding::Unnamed]);
    }

    #[test]
    fn effects_below_the_threshold_are_no_causes() {
        assert!(!values(1, &[(0, 0.02), (1, 0.0)]).is_gap(), "below 3 %");
        assert!(values(1, &[(0, 0.04), (1, 0.0)]).is_gap());
        // Changing the second factor reduces the gap between winner and loser by less than a tenth.
        let found = values(2, &[(0, 1.0), (1, 0.1), (2, 0.92), (3, 0.02)]).findings();
        assert_eq!(found, [cause(false, &[], &[]), Finding::Unnamed]);
    }

    #[test]
    fn shares_of_three_add_up_to_the_gap() {
        // The gap is 0.9 (a logarithm of a ratio). Changing factor 0 alone reduces it by 0.3. Changing factors 1 and 2
        // together reduces it by 0.6, and changing only one of them has no effect.
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
