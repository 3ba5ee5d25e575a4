//! Finds causes of differences between contestants by experiment: changes one setting, and runs the race again.
//!
//! [`factors`] finds the settings in which winner and loser differ, with the table of [`settings`]. Each of these
//! settings may be a cause of the winner's lead. In an experiment, the loser gets some of the winner's settings, and
//! loads the same page with the same seeds. [`design`] chooses these settings within a budget, and [`estimate`]
//! evaluates the results.
//!
//! [`conditions`] removes one property of the network or the workload for both contestants, for example loss. [`check`]
//! tests a plan's claims about causes. [`changes`] changes a point for all contestants, to find what flips its result.

mod changes;
pub mod check;
mod conditions;
mod design;
pub mod estimate;
pub mod factors;
mod requests;
pub mod settings;
#[cfg(test)]
mod tests;

use crate::calibrate;
use crate::plan::causes::Causes;
use crate::plan::{Contestant, Plan, PointPlan};
use crate::run::batch::{self, Options, RaceError};
use crate::run::one::{self, Scenario};
use anabranch_base::time::nanos;
use anabranch_results::stats::metrics;
use anabranch_results::stats::paired::Value;
use anabranch_results::{Point, Race, Run, World};

impl Causes {
    /// The maximum number of runs of a quick search for causes, as a multiple of the runs of one contestant. It does not
    /// depend on the number of contestants, so that two contestants have the same causes in every race.
    pub const BUDGET: usize = 20;

    /// Returns the maximum number of runs of a search for causes, as a multiple of the runs of one contestant.
    #[must_use]
    pub const fn max_runs(self, contestants: usize) -> usize {
        match self {
            _ if contestants < 2 => 0,
            Self::Quick => Self::BUDGET,
            Self::Full => {
                contestants * (contestants - 1) / 2 * (2 * (1 << factors::MOST_GROUPS) + conditions::MOST)
            }
            Self::Off => 0,
        }
    }
}

impl Plan {
    /// Returns the maximum number of runs of the plan, including the runs that search for causes and those that try
    /// changes.
    #[must_use]
    pub fn max_runs(&self) -> usize {
        let causes = if self.together { 0 } else { self.causes.max_runs(self.contestants.len()) };
        let experiments = causes.saturating_add(self.claims.len()).saturating_mul(self.points.len());
        let experiments = experiments.saturating_mul(self.seeds.len());
        self.run_count().saturating_add(experiments).saturating_add(changes::run_count(self))
    }

    /// Returns whether runs search for causes or try changes.
    #[must_use]
    pub fn has_experiments(&self) -> bool {
        self.max_runs() > self.run_count()
    }
}

/// Returns the duration, in nanoseconds, that the search for causes compares between contestants: the page or transfer
/// time, or the 95th percentile of the message delays. For a run that did not finish, the duration is the run's
/// deadline.
#[must_use]
pub fn time_of(run: &Run, point: &PointPlan) -> f64 {
    let found = match point.workload.messages {
        Some(_) => metrics::value(run, "object_p95_ms").map(|ms| ms * 1e6),
        None => run.page_ns.map(|ns| {
            let first_issued = run.objects.iter().filter_map(|object| object.issued_ns).min();
            ns.saturating_sub(first_issued.filter(|_| point.workload.preconnect).unwrap_or(0)) as f64
        }),
    };
    // The time must be positive, because its logarithm is computed.
    found.unwrap_or(nanos(point.workload.deadline) as f64).max(1.0)
}

/// Carries out all runs of the plan in the simulated network, and then searches for causes.
///
/// # Errors
/// [`RaceError`] when the race is stopped, when [`batch::check`] rejects the plan, or when a run violates an internal
/// invariant.
pub fn race(plan: &Plan, options: &Options<'_>) -> Result<Race, RaceError> {
    race_watched(plan, options, &mut |_| {})
}

/// Carries out a race as [`race`] does. Calls `watch` with the result when the runs of the plan are done, and again
/// after each part of the search for causes. A caller that ends the race early can thus show what is known.
///
/// # Errors
/// The errors of [`race`].
pub fn race_watched(
    plan: &Plan,
    options: &Options<'_>,
    watch: &mut dyn FnMut(&Race),
) -> Result<Race, RaceError> {
    batch::check(plan)?;
    let (calibrations, warnings) = calibrate::of(plan.points.iter(), plan, options)?;
    let mut race = batch::race_in(World::Virtual, plan, options, &|scenario, _| one::run(scenario))?;
    race.warnings.extend(warnings);
    race.calibrations = calibrations;
    watch(&race);
    find(plan, &mut race, options, watch)?;
    check::evaluate(plan, &mut race, options)?;
    Ok(race)
}

/// Finds the causes of the gaps at every point of a race and the changes that flip its result, and adds both to the
/// results.
///
/// # Errors
/// [`RaceError`] when the race is stopped, or when a run violates an internal invariant.
fn find(
    plan: &Plan,
    race: &mut Race,
    options: &Options<'_>,
    watch: &mut dyn FnMut(&Race),
) -> Result<(), RaceError> {
    let mut before = plan.run_count();
    for index in 0..race.points.len() {
        for part in [Part::Gaps, Part::Changes] {
            before = find_part(plan, index, &mut race.points[index], part, before, options)?;
            watch(race);
        }
    }
    Ok(())
}

/// A part of the experiments at one point. Neither needs the other, so two processors can share them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The causes of the gaps, which become fields of `comparisons`.
    Gaps,
    /// The changes to the point that may flip its result, which become `changes`.
    Changes,
}

/// Carries out a part of the experiments at the point `index` of a plan, and adds what it finds to `point`, which holds
/// the runs of the race. `before` is the number of runs so far, from which `options` counts progress. Returns the
/// number of runs afterwards.
///
/// # Errors
/// [`RaceError`] when the race is stopped, or when a run violates an internal invariant.
pub fn find_part(
    plan: &Plan,
    index: usize,
    point: &mut Point,
    part: Part,
    before: usize,
    options: &Options<'_>,
) -> Result<usize, RaceError> {
    if plan.causes == Causes::Off || plan.together || plan.contestants.len() < 2 {
        return Ok(before);
    }
    let mut bench = PointExperiments::new(plan, index, options);
    bench.runs_before = before;
    match part {
        Part::Gaps => design::explain(&mut bench, point)?,
        Part::Changes => changes::find(&mut bench, point)?,
    }
    Ok(bench.runs_before)
}

/// Runs one contestant with one seed at the point `index` of a plan after a change, for example `loss=1%`, and returns
/// its time. Contestant and seed are indices. The search for causes tries changes with fewer seeds than the race has, so
/// that it does not take much longer. A caller with time can run the other seeds, too.
///
/// # Errors
/// [`RaceError`] when the search tries no such change, when the changed point is too large to run with every seed, or
/// when a run violates an internal invariant.
pub fn run_changed(
    plan: &Plan,
    index: usize,
    change: &str,
    (contestant, seed): (usize, usize),
    options: &Options<'_>,
) -> Result<Option<Value>, RaceError> {
    let mut bench = PointExperiments::new(plan, index, options);
    changes::run_one(&mut bench, change, contestant, seed)
}

/// The number of seeds in a quick search for causes, if the seed decides only how page loads differ from each other.
/// Such loads differ by a few per cent, so 25 of them show an effect of 2 %.
const STEADY: usize = 25;

/// Returns the number of seeds with which the experiments at a point run.
fn experiment_seeds(plan: &Plan, point: &PointPlan) -> usize {
    let is_steady = plan.causes == Causes::Quick && !point.has_random_network();
    plan.seeds.len().min(if is_steady { STEADY } else { usize::MAX })
}

/// Carries out the experiments that search for causes at one point of the plan.
struct PointExperiments<'a> {
    plan: &'a Plan,
    /// The index of the point in the plan.
    index: usize,
    options: &'a Options<'a>,
    /// The seeds of the experiments.
    seeds: &'a [u64],
    /// The number of simulation runs before the next experiment: the runs of the plan, and the runs of earlier
    /// experiments. It is used to report progress.
    runs_before: usize,
    /// The number of runs made so far to explain the current gap (between two contestants).
    runs_for_gap: usize,
}

impl<'a> PointExperiments<'a> {
    fn new(plan: &'a Plan, index: usize, options: &'a Options<'a>) -> Self {
        let count = experiment_seeds(plan, &plan.points[index]);
        Self { plan, index, options, seeds: &plan.seeds[..count], runs_before: 0, runs_for_gap: 0 }
    }

    fn point(&self) -> &'a PointPlan {
        &self.plan.points[self.index]
    }

    /// Returns the seeds for runs at `point`. Returns only one seed if the runs do not depend on the seed.
    fn seeds(&self, point: &PointPlan) -> &'a [u64] {
        if point.is_random() { self.seeds } else { &self.seeds[..self.seeds.len().min(1)] }
    }

    /// Runs each contestant at its point, with every seed. `subjects` lists the points and contestants. Returns, for
    /// each entry of `subjects`, the natural logarithms of the times in nanoseconds, one for each seed.
    fn log_times(&mut self, subjects: &[(&PointPlan, &Contestant)]) -> Result<Vec<Vec<f64>>, RaceError> {
        let mut times = self.measure(subjects, &|run, point| time_of(run, point).ln())?;
        for (times, (point, _)) in times.iter_mut().zip(subjects) {
            // If the runs do not depend on the seed, only one run was made. Its time counts for all seeds.
            if !point.is_random() {
                *times = times.repeat(self.seeds.len());
            }
        }
        Ok(times)
    }

    /// Runs each contestant at its point, and returns the result of the closure `value` for each run. A point whose
    /// runs do not depend on the seed has one run.
    fn measure<T: Send>(
        &mut self,
        subjects: &[(&PointPlan, &Contestant)],
        value: &(dyn Fn(&Run, &PointPlan) -> T + Sync),
    ) -> Result<Vec<Vec<T>>, RaceError> {
        let cross = self.plan.cross.as_ref();
        let mut jobs: Vec<(usize, Scenario<'_>)> = Vec::new();
        for &(point, contestant) in subjects {
            let scenario = |&seed| Scenario { point, contestants: vec![contestant], cross, seed };
            jobs.extend(self.seeds(point).iter().map(|seed| (self.index, scenario(seed))));
        }
        let perform = |scenario: &Scenario<'_>, _: usize| {
            let runs = one::run(scenario)?;
            let run = runs.first().ok_or("a run without a result")?;
            let bytes: u64 = run.objects.iter().map(|object| object.bytes).sum();
            let seeded = scenario.point.of_seed(scenario.seed);
            let workload = &seeded.as_ref().unwrap_or(scenario.point).workload;
            if bytes != workload.page.body_bytes() {
                return Err("an experiment transferred something else than the race".to_owned());
            }
            Ok(value(run, scenario.point))
        };
        let before = self.runs_before;
        let progress = |done: usize| (self.options.progress)(before + done);
        let options = Options { progress: &progress, ..*self.options };
        let mut values = batch::carry_out(&jobs, &options, &perform)?.into_iter();
        self.runs_before += jobs.len();
        self.runs_for_gap += jobs.len();
        let own = |&(point, _): &(&PointPlan, &Contestant)| -> Vec<T> {
            values.by_ref().take(self.seeds(point).len()).collect()
        };
        Ok(subjects.iter().map(own).collect())
    }
}
