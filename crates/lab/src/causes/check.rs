//! Tests a plan's claims about causes by experiment. The claims are the plan's `[[cause]]` tables.
//!
//! `of` names the contestant, and `change` the settings that are changed in it. `ratio_min` and `ratio_max` are bounds
//! for how many times faster the change makes the contestant. The factor levels in `at` restrict the claim, as in
//! `[[expect]]`.

use super::{Bench, time_of};
use crate::plan::draft::Table;
use crate::plan::error::{PlanError, unknown};
use crate::plan::{Contestant, Plan, PointPlan};
use crate::run::batch::{Options, RaceError};
use anabranch_results::stats::interval;
use anabranch_results::{Expectation, Race};
use std::collections::BTreeMap;

/// The keys of a `[[cause]]` table. The names of the plan's factors are keys, too.
pub const FIELDS: [&str; 4] = ["of", "change", "ratio_min", "ratio_max"];

/// A claim: a change to a contestant, and the effect that the change is claimed to have.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The text of the contestant that is changed.
    of: String,
    /// The contestant after the change.
    pub changed: Contestant,
    /// The change as the author of the plan typed it.
    change: String,
    min: Option<f64>,
    max: Option<f64>,
    /// The factor levels of the points to which the claim applies.
    at: BTreeMap<String, String>,
    place: String,
}

impl Claim {
    /// Interprets one `[[cause]]` table. `factors` are the keys with several levels.
    ///
    /// # Errors
    /// [`PlanError`] that names the table and the field.
    pub fn interpret(
        table: &Table,
        contestants: &[Contestant],
        factors: &[String],
    ) -> Result<Self, PlanError> {
        let mut fields: BTreeMap<&str, String> = BTreeMap::new();
        let mut at = BTreeMap::new();
        for (key, levels) in &table.entries {
            match levels.as_slice() {
                _ if key == "change" => drop(fields.insert(key, levels.join(","))),
                [value] if factors.contains(key) => drop(at.insert(key.clone(), value.clone())),
                [value] if FIELDS.contains(&key.as_str()) => drop(fields.insert(key, value.clone())),
                [_] => {
                    let accepted: Vec<&str> =
                        FIELDS.into_iter().chain(factors.iter().map(String::as_str)).collect();
                    return Err(PlanError::at(&table.place, unknown("key", key, &accepted)));
                }
                _ => {
                    let place = format!("{}: {key}", table.place);
                    return Err(PlanError::at(&place, "takes one value, not a list"));
                }
            }
        }
        let place = |key: &str| format!("{}: {key}", table.place);
        let missing = |what: &str| PlanError::at(&table.place, format!("{what}; it is missing"));
        let name = fields.get("of").ok_or_else(|| missing("'of' names the contestant"))?;
        let names: Vec<&str> = contestants.iter().map(|contestant| contestant.label.as_str()).collect();
        // The table may name a contestant by its nickname or by its full text.
        let of = contestants.iter().find(|one| one.text == *name || one.label == *name);
        let of = of.ok_or_else(|| PlanError::at(&place("of"), unknown("contestant", name, &names)))?;
        let change = fields.get("change").ok_or_else(|| missing("'change' says what is set, as iw=10"))?;
        let pairs = change.split(',').map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                Ok((key.to_owned(), Some(value.to_owned())))
            }
            _ => Err(PlanError::at(&place("change"), format!("'{pair}' where key=value was expected"))),
        });
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        let changed = of.with(&pairs).map_err(|error| PlanError::at(&place("change"), error))?;
        let number = |key: &str| match fields.get(key).map(|text| text.parse::<f64>()) {
            None => Ok(None),
            Some(Ok(number)) if number.is_finite() => Ok(Some(number)),
            Some(_) => Err(PlanError::at(&place(key), "a number was expected, such as 1.5")),
        };
        let (min, max) = (number("ratio_min")?, number("ratio_max")?);
        if min.is_none() && max.is_none() {
            return Err(PlanError::at(&table.place, "no bound is given; write ratio_min or ratio_max"));
        }
        Ok(Self {
            of: of.text.clone(),
            changed,
            change: change.clone(),
            min,
            max,
            at,
            place: table.place.clone(),
        })
    }
}

impl Claim {
    /// Returns whether the claim applies to this point.
    #[must_use]
    pub fn speaks_of(&self, point: &PointPlan) -> bool {
        self.at.iter().all(|(factor, level)| point.factors.get(factor) == Some(level))
    }

    /// Returns whether the claim is about this contestant.
    #[must_use]
    pub fn is_of(&self, contestant: &Contestant) -> bool {
        contestant.text == self.of
    }
}

/// Tests every claim of the plan by experiment, and adds the results to the expectations in the results of the race.
///
/// # Errors
/// [`RaceError`] when the race is stopped, or when a run violates an internal invariant.
pub fn evaluate(plan: &Plan, race: &mut Race, options: &Options<'_>) -> Result<(), RaceError> {
    for claim in &plan.claims {
        for (index, planned) in plan.points.iter().enumerate() {
            let contestants = race.points.get(index).map_or(&[][..], |point| &point.contestants);
            let Some(of) = contestants.iter().find(|it| it.name == claim.of && claim.speaks_of(planned))
            else {
                continue;
            };
            let mut bench = Bench { plan, index, options, before: plan.run_count(), made: 0 };
            let changed = bench.log_times(&[(planned, &claim.changed)])?;
            let gains: Vec<f64> = of
                .runs
                .iter()
                .zip(changed.iter().flatten())
                .map(|(run, changed)| time_of(run, planned).ln() - changed)
                .collect();
            let found = interval::mean(&gains).map(f64::exp);
            let within = |found: f64| {
                claim.min.is_none_or(|min| found >= min) && claim.max.is_none_or(|max| found <= max)
            };
            let met = found.is_some_and(within);
            let expected = claim.to_string();
            race.expectations.push(Expectation { point: index as u64, expected, found, met });
        }
    }
    Ok(())
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} makes it sooner, times", self.place, self.change)?;
        for (sign, bound) in [(">=", self.min), ("<=", self.max)] {
            if let Some(bound) = bound {
                write!(f, " {sign} {bound}")?;
            }
        }
        for (factor, level) in &self.at {
            write!(f, ", at {factor} {level}")?;
        }
        Ok(())
    }
}
