//! Tests the claims about causes that the author of a plan wrote into it.

use super::{PointExperiments, time_of};
use crate::plan::Plan;
use crate::run::batch::{Options, RaceError};
use anabranch_results::stats::interval;
use anabranch_results::{Expectation, Race};

/// Tests every claim about a cause in the plan by experiment, and adds each result to the expectations of `race`.
///
/// # Errors
/// [`RaceError`] when the race is stopped, or when a run violates an internal invariant.
pub fn evaluate(plan: &Plan, race: &mut Race, options: &Options<'_>) -> Result<(), RaceError> {
    for claim in &plan.claims {
        for (index, planned) in plan.points.iter().enumerate() {
            let contestants = race.points.get(index).map_or(&[][..], |point| &point.contestants);
            let Some(of) = contestants.iter().find(|it| it.name == claim.of && claim.applies_to(planned))
            else {
                continue;
            };
            let mut bench =
                PointExperiments { seeds: &plan.seeds, ..PointExperiments::new(plan, index, options) };
            bench.runs_before = plan.run_count();
            let changed = bench.log_times(&[(planned, &claim.changed)])?;
            let gains: Vec<f64> = of
                .runs
                .iter()
                .zip(changed.iter().flatten())
                .map(|(run, changed)| time_of(run, planned).ln() - changed)
                .collect();
            let found = interval::mean(&gains).map(f64::exp);
            let [min, max] = claim.bounds;
            let within =
                |found: f64| min.is_none_or(|min| found >= min) && max.is_none_or(|max| found <= max);
            let met = found.is_some_and(within);
            let expected = claim.to_string();
            race.expectations.push(Expectation { point: index as u64, expected, found, met });
        }
    }
    Ok(())
}
