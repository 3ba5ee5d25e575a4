//! Causes by experiment: one thing is changed, and the race is run again.
//!
//! What makes the winner sooner than the loser is looked for among the settings in which they differ ([`factors`], by the
//! table of [`settings`]). The loser gets some of the winner's settings and loads the same page with the same seeds;
//! [`design`] says which, within a budget, and [`estimate`] what that says. [`conditions`] are not settings: they are
//! taken away for both. [`check`] holds what a plan says of a cause to what an experiment finds.

pub mod check;
mod conditions;
mod design;
pub mod estimate;
pub mod factors;
mod requests;
pub mod settings;
#[cfg(test)]
mod tests;

use crate::plan::{Contestant, Plan, PointPlan};
use crate::results::{Race, Run};
use crate::run::batch::{self, Options, RaceError};
use crate::run::one::{self, Scenario};
use crate::stats::metrics;
use anabranch_base::time::nanos;

/// How much is done to find causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Causes {
    /// Of the winner against the next that is not level with it, with at most five times the runs of the race.
    #[default]
    Quick,
    /// Of every pair, over all subsets of the factors, and the other way round.
    Full,
    /// Nothing.
    Off,
}

impl Causes {
    /// Runs that are made in quick search, at most, for each run of the race.
    pub const BUDGET: usize = 5;

    /// Runs that are made for a race of so many contestants, at most, as multiples of one contestant's.
    #[must_use]
    pub const fn most(self, contestants: usize) -> usize {
        match self {
            _ if contestants < 2 => 0,
            Self::Quick => Self::BUDGET * contestants,
            Self::Full => {
                contestants * (contestants - 1) / 2 * (2 * (1 << factors::MOST_GROUPS) + conditions::MOST)
            }
            Self::Off => 0,
        }
    }
}

/// What the workload is about, in nanoseconds: page or transfer time, or the 95th percentile of messages' delays. A run
/// that did not finish took until its deadline.
#[must_use]
pub fn time_of(run: &Run, point: &PointPlan) -> f64 {
    let found = match point.workload.messages {
        Some(_) => metrics::value(run, "object_p95_ms").map(|ms| ms * 1e6),
        None => run.page_ns.map(|ns| {
            let begun = run.objects.iter().filter_map(|object| object.issued_ns).min();
            ns.saturating_sub(begun.filter(|_| point.workload.preconnect).unwrap_or(0)) as f64
        }),
    };
    // A network that takes no time has no logarithm.
    found.unwrap_or(nanos(point.workload.deadline) as f64).max(1.0)
}

/// Finds the causes at every point of a race, and writes them into its comparisons.
///
/// # Errors
/// [`RaceError`] when interrupted, or when a run broke an invariant of ours.
pub fn find(plan: &Plan, race: &mut Race, options: &Options<'_>) -> Result<(), RaceError> {
    if plan.causes == Causes::Off || plan.together || plan.contestants.len() < 2 {
        return Ok(());
    }
    let mut before = plan.run_count();
    for (index, point) in race.points.iter_mut().enumerate() {
        let mut bench = Bench { plan, index, options, before, made: 0 };
        design::explain(&mut bench, point)?;
        before = bench.before;
    }
    Ok(())
}

/// Where experiments at one point are run.
struct Bench<'a> {
    plan: &'a Plan,
    /// Which point.
    index: usize,
    options: &'a Options<'a>,
    /// Runs of the race, and of all experiments so far.
    before: usize,
    /// Runs of experiments on the gap in question.
    made: usize,
}

impl<'a> Bench<'a> {
    fn point(&self) -> &'a PointPlan {
        &self.plan.points[self.index]
    }

    /// The seeds with which a contestant is run at a point: one, where nothing is drawn from them.
    fn seeds(&self, point: &PointPlan) -> &'a [u64] {
        let seeds = &self.plan.seeds;
        if point.has_chance() { seeds } else { &seeds[..seeds.len().min(1)] }
    }

    /// Logarithms of the times of these contestants, by seed, each at its point.
    fn log_times(&mut self, subjects: &[(&PointPlan, &Contestant)]) -> Result<Vec<Vec<f64>>, RaceError> {
        let cross = self.plan.cross.as_ref();
        let mut jobs: Vec<(usize, Scenario<'_>)> = Vec::new();
        for &(point, contestant) in subjects {
            let scenario = |&seed| Scenario { point, contestants: vec![contestant], cross, seed };
            jobs.extend(self.seeds(point).iter().map(|seed| (self.index, scenario(seed))));
        }
        let time = |scenario: &Scenario<'_>, _: usize| {
            let runs = one::run(scenario)?;
            let run = runs.first().ok_or("a run without a result")?;
            let bytes: u64 = run.objects.iter().map(|object| object.bytes).sum();
            if bytes != scenario.point.workload.page.body_bytes() {
                return Err("an experiment transferred something else than the race".to_owned());
            }
            Ok(time_of(run, scenario.point).ln())
        };
        let before = self.before;
        let progress = |done: usize| (self.options.progress)(before + done);
        let options = Options { progress: &progress, ..*self.options };
        let times = batch::carry_out(&jobs, &options, &time)?;
        self.before += jobs.len();
        self.made += jobs.len();
        let mut times = times.into_iter();
        let of = |&(point, _): &(&PointPlan, &Contestant)| {
            let own: Vec<f64> = times.by_ref().take(self.seeds(point).len()).collect();
            // One run is all of them.
            if point.has_chance() { own } else { own.repeat(self.plan.seeds.len()) }
        };
        Ok(subjects.iter().map(of).collect())
    }
}
