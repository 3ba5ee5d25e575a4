//! Decides which experiments search for the causes of a gap between two contestants, in which order they run, and which
//! results are reported.
//!
//! A factor is a setting in which two contestants differ. An experiment gives the loser some settings of the winner.
//!
//! The quick search compares the winner with the fastest contestant that is significantly slower. It changes all
//! factors together, then each factor alone, and then all factors except one. After that it changes pairs of factors
//! that have no effect alone. Finally it removes conditions of the network and the workload. The search ends when its
//! budget of experiments is used up. The choice of experiments depends only on results, never on a clock.
//!
//! The full search changes all subsets of factors for every pair of contestants. It also works in the opposite
//! direction, in which the winner gets settings of the loser.

use super::conditions;
use super::estimate::{FEWEST, Finding, ResampledMean, Values};
use super::factors::{Differences, Factor, Set};
use super::{Causes, PointExperiments, time_of};
use crate::plan::{Contestant, PointPlan};
use crate::run::batch::RaceError;
use anabranch_results::{Cause, Comparison, Condition, Effect, Experiment, Point, TestedFactor, Verdict};

/// Finds the causes of the gaps between contestants at one point of a race. Adds the causes to the point's comparisons.
pub fn explain(bench: &mut PointExperiments<'_>, point: &mut Point) -> Result<(), RaceError> {
    let planned = bench.point();
    let logs: Vec<Vec<f64>> = point
        .contestants
        .iter()
        .map(|contestant| {
            let runs = contestant.runs.iter().take(bench.seeds.len());
            runs.map(|run| time_of(run, planned).ln()).collect()
        })
        .collect();
    let full = bench.plan.causes == Causes::Full;
    let metric = point.decisive();
    // The answer of a race compares medians, so a quick search explains the gap between the two best medians.
    let rank: Vec<f64> = (logs.iter().zip(&point.contestants))
        .map(|(logs, contestant)| {
            let median = contestant.summary.metric(metric).and_then(|stat| stat.median);
            if full { ResampledMean::of(logs).mean } else { median.unwrap_or(f64::INFINITY) }
        })
        .collect();
    let mut ranking: Vec<usize> = (0..logs.len()).collect();
    // The sort is stable, so contestants with equal times keep their order.
    ranking.sort_by(|&a, &b| rank[a].total_cmp(&rank[b]));
    let budget =
        if full { usize::MAX } else { bench.plan.causes.max_runs(ranking.len()) * bench.plan.seeds.len() };
    for (i, &winner) in ranking.iter().enumerate() {
        for (j, &loser) in ranking.iter().enumerate().skip(i + 1) {
            let ranks = [i, j].map(|rank| rank as u64 + 1);
            let Some(comparison) = decided(point, winner, loser) else { continue };
            if !full && ResampledMean::of(&logs[winner]).mean > ResampledMean::of(&logs[loser]).mean {
                continue;
            }
            bench.runs_for_gap = 0;
            let mut search = Search { bench, budget, pair: [winner, loser], ranks };
            let found = search.compare([&logs[winner], &logs[loser]])?;
            let Some((causes, experiment)) = found else { continue };
            comparison.causes = causes;
            comparison.experiment = Some(experiment);
            if !full {
                return Ok(());
            }
        }
        if !full {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the comparison of the contestants with the indices `winner` and `loser`. Returns `None` if neither of the
/// two is significantly faster.
fn decided(point: &mut Point, winner: usize, loser: usize) -> Option<&mut Comparison> {
    let metric = point.decisive();
    // In each comparison, contestant `a` comes after contestant `b` in the plan.
    let [a, b] = [winner.max(loser), winner.min(loser)].map(|i| point.contestants[i].name.clone());
    let of = |it: &&mut Comparison| it.metric == metric && it.a == a && it.b == b;
    let found = point.comparisons.iter_mut().find(of)?;
    matches!(found.verdict, Verdict::Less | Verdict::More).then_some(found)
}

/// The search for the causes of one gap between two contestants.
struct Search<'s, 'b> {
    bench: &'s mut PointExperiments<'b>,
    /// The maximum number of runs of this search.
    budget: usize,
    /// The indices of the winner and the loser.
    pair: [usize; 2],
    /// The ranks of the winner and the loser among all contestants, counted from 1.
    ranks: [u64; 2],
}

impl Search<'_, '_> {
    /// Returns whether the search's budget suffices for running `contestants` contestants under the conditions of
    /// `point`, with all seeds.
    fn affords(&self, point: &PointPlan, contestants: usize) -> bool {
        self.bench.runs_for_gap + contestants * self.bench.seeds(point).len() <= self.budget
    }

    /// Runs the experiments, and returns the causes of the gap between winner and loser. Returns `None` if the gap is
    /// too small.
    fn compare(&mut self, logs: [&[f64]; 2]) -> Result<Option<(Vec<Cause>, Experiment)>, RaceError> {
        let plan = self.bench.plan;
        let [winner, loser] = self.pair.map(|i| &plan.contestants[i]);
        let gap: Vec<f64> = logs[1].iter().zip(logs[0]).map(|(l, w)| l - w).collect();
        let mut values = Values::new(0);
        values.insert(0, &gap);
        let seen = ResampledMean::of(&gap);
        let few = gap.len() < FEWEST && self.bench.point().is_random();
        if !few && !values.is_gap() {
            return Ok(None);
        }
        let mut experiment = Experiment {
            winner: winner.text.clone(),
            loser: loser.text.clone(),
            ranks: self.ranks,
            gap: seen.mean.exp(),
            ci95: seen.interval(0.95).map(f64::exp),
            runs: 0,
            factors: Vec::new(),
            adverse_causes: Vec::new(),
            unexplained: None,
            conditions: Vec::new(),
            notes: Vec::new(),
        };
        if few {
            experiment.notes.push(format!("causes are looked for from {FEWEST} runs on"));
            return Ok(Some((Vec::new(), experiment)));
        }
        let differences = Differences::new(loser, winner, self.bench.point())?;
        experiment.notes.clone_from(&differences.left_out);
        let values = self.measure(&differences, winner, logs[0], values)?;
        let reverse = match plan.causes {
            Causes::Full => Some(self.reversed(logs)?),
            _ => None,
        };
        let causes = describe(&differences, &values, reverse.as_ref(), &mut experiment);
        let untried;
        (experiment.conditions, untried) = self.conditions()?;
        experiment.notes.extend(Experiment::untried_note(&untried));
        experiment.runs = self.bench.runs_for_gap as u64;
        Ok(Some((causes, experiment)))
    }

    /// Measures v(S) for each set S of factors that this kind of search needs. v(S) is the gap between the two
    /// contestants that remains after the factors in S are changed.
    fn measure(
        &mut self,
        differences: &Differences<'_>,
        model: &Contestant,
        times: &[f64],
        seen: Values,
    ) -> Result<Values, RaceError> {
        let n = differences.factors.len();
        let all = differences.all();
        let full = self.bench.plan.causes == Causes::Full;
        let mut values = seen.of_factors(n, full);
        let open_loop = self.bench.point().workload.arrivals.is_some();
        // All factors together may contradict each other if a factor was left out; `run` then skips the set.
        if n > 0 && differences.with(all).is_ok_and(|changed| changed.races_as(model, open_loop)) {
            // With all factors changed, the loser would have the same settings as the winner, which has already run.
            // The gap is then 0, without another run. In the opposite direction, the winner would have the loser's
            // settings.
            values.insert(all, &vec![0.0; times.len()]);
        }
        let run = |search: &mut Self, values: &mut Values, sets: Vec<Set>| {
            search.run(differences, times, values, sets)
        };
        if full {
            run(self, &mut values, (1..=all).collect())?;
            return Ok(values);
        }
        run(self, &mut values, [all].into_iter().chain((0..n).map(|i| 1 << i)).collect())?;
        // In turn, leaves each factor unchanged and changes all others. The difference from the run with all factors
        // changed is the effect of this factor as the last change. Factors are measured in ascending order of their
        // effect as the only change, because the budget may not suffice for all. A factor with a small effect is the
        // likeliest to need other factors.
        let alone = |values: &Values, i: usize| values.effect(i).map_or(0.0, |effect| effect.alone.mean);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| alone(&values, a).total_cmp(&alone(&values, b)));
        run(self, &mut values, order.into_iter().map(|i| all & !(1 << i)).collect())?;
        // Pairs each factor that may have an effect only together with others (`needy`) with each of the other factors.
        // For each needy factor, the pairs with other needy factors come first.
        let needy: Vec<usize> = (0..n).filter(|&i| values.needs_others(i)).collect();
        let mut pairs: Vec<Set> = Vec::new();
        for &i in &needy {
            let (first, then): (Vec<usize>, Vec<usize>) =
                (0..n).filter(|&j| j != i).partition(|j| needy.contains(j));
            pairs.extend(first.into_iter().chain(then).map(|j| 1 << i | 1 << j));
        }
        run(self, &mut values, pairs)?;
        Ok(values)
    }

    /// For each set in `sets`, runs the loser with the factors of this set changed, until the budget is used up.
    fn run(
        &mut self,
        differences: &Differences<'_>,
        times: &[f64],
        values: &mut Values,
        sets: Vec<Set>,
    ) -> Result<(), RaceError> {
        let point = self.bench.point();
        let mut chosen: Vec<(Set, Contestant)> = Vec::new();
        for set in sets {
            let known = values.get(set).is_some() || chosen.iter().any(|(other, _)| *other == set);
            if known || !self.affords(point, chosen.len() + 1) {
                continue;
            }
            // Skips a set of factors if their settings contradict each other.
            if let Ok(contestant) = differences.with(set) {
                chosen.push((set, contestant));
            }
        }
        let subjects: Vec<_> = chosen.iter().map(|(_, contestant)| (point, contestant)).collect();
        let found = self.bench.log_times(&subjects)?;
        for ((set, _), logs) in chosen.iter().zip(found) {
            let v: Vec<f64> = logs.iter().zip(times).map(|(changed, winner)| changed - winner).collect();
            values.insert(*set, &v);
        }
        Ok(())
    }

    /// Measures the effects of giving the loser's settings to the winner. The other measurements give the winner's
    /// settings to the loser.
    fn reversed(&mut self, logs: [&[f64]; 2]) -> Result<(Vec<Factor>, Values), RaceError> {
        let [winner, loser] = self.pair.map(|i| &self.bench.plan.contestants[i]);
        let differences = Differences::new(winner, loser, self.bench.point())?;
        let gap: Vec<f64> = logs[0].iter().zip(logs[1]).map(|(w, l)| w - l).collect();
        let mut values = Values::new(0);
        values.insert(0, &gap);
        let values = self.measure(&differences, loser, logs[1], values)?;
        Ok((differences.factors, values))
    }

    /// Removes each condition in turn, while all others are kept, and measures the gap between the two contestants.
    /// Stops when the budget is used up, and returns the names of the conditions that are left.
    fn conditions(&mut self) -> Result<(Vec<Condition>, Vec<&'static str>), RaceError> {
        let contestants = self.pair.map(|i| &self.bench.plan.contestants[i]);
        let mut found = Vec::new();
        let tried = conditions::of(self.bench.point(), contestants);
        // The confidence level is corrected for the number of conditions. The probability that at least one interval is
        // wrong is at most 5 %.
        let level = 1.0 - 0.05 / tried.len().max(1) as f64;
        for (at, without) in tried.iter().enumerate() {
            if !self.affords(&without.point, 2) {
                return Ok((found, tried[at..].iter().map(|one| one.name).collect()));
            }
            let [winner, loser] = &without.contestants;
            let logs = self.bench.log_times(&[(&without.point, winner), (&without.point, loser)])?;
            let left: Vec<f64> = logs[1].iter().zip(&logs[0]).map(|(l, w)| l - w).collect();
            let left = ResampledMean::of(&left);
            found.push(Condition {
                without: without.name.to_owned(),
                gap: left.mean.exp(),
                ci95: left.interval(0.95).map(f64::exp),
                needed: left.is_gone(level),
            });
        }
        Ok((found, Vec::new()))
    }
}

/// Converts an estimate of a logarithm to a ratio with its confidence interval.
fn effect(estimate: &ResampledMean, level: f64) -> Effect {
    Effect { ratio: estimate.mean.exp(), ci: estimate.interval(level).map(f64::exp) }
}

/// Converts the measured effects to the list of causes for the results. The cause with the largest effect comes first.
/// All tested factors, the adverse causes and the unexplained remainder are added to `experiment`.
fn describe(
    differences: &Differences<'_>,
    values: &Values,
    reverse: Option<&(Vec<Factor>, Values)>,
    experiment: &mut Experiment,
) -> Vec<Cause> {
    let (factors, level) = (&differences.factors, values.level());
    let mut causes: Vec<Cause> = Vec::new();
    for (i, (factor, finding)) in factors.iter().zip(values.findings()).enumerate() {
        let Some(found) = values.effect(i) else { continue };
        let contestant = differences.with(1 << i).map_or(String::new(), |changed| changed.text);
        let reverse = reverse.and_then(|(reverse_factors, values)| {
            let at = reverse_factors.iter().position(|other| other.is_opposite(factor))?;
            let share = values.effect(at)?.shapley?;
            Some(effect(&share, values.level()))
        });
        experiment.factors.push(TestedFactor {
            factor: factor.group.name().to_owned(),
            change: factor.typed(),
            was: factor.was(),
            contestant,
            alone: effect(&found.alone, level),
            marginal_effect: found.last.as_ref().map(|last| effect(last, level)),
            shapley: found.shapley.as_ref().map(|share| effect(share, level)),
            reverse,
        });
        let settings_of = |those: &[usize]| those.iter().map(|&j| factors[j].typed()).collect();
        let cause = |favours| {
            let Effect { ratio, ci } =
                effect(found.reported_effect(favours, values.threshold(), level), level);
            Cause {
                change: factor.typed(),
                was: factor.was(),
                factor: factor.group.name().to_owned(),
                effect: ratio,
                ci,
                enough: false,
                with: Vec::new(),
                alternatives: Vec::new(),
            }
        };
        match finding {
            Finding::Cause { enough, with, either } => {
                let (with, alternatives) = (settings_of(&with), settings_of(&either));
                causes.push(Cause { enough, with, alternatives, ..cause(true) });
            }
            Finding::Adverse => experiment.adverse_causes.push(cause(false)),
            Finding::Unnamed => {}
        }
    }
    experiment.unexplained = values.get(differences.all()).map(|left| effect(left, 0.95));
    // The sort is stable, so causes with equal effects keep their order.
    causes.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    experiment.adverse_causes.sort_by(|a, b| a.effect.total_cmp(&b.effect));
    causes
}
