//! The parts of a plan that concern causes: the effort of the search for causes, and claims about causes.
//!
//! A claim is a `[[cause]]` table. `of` names a contestant, and `change` is the change of its settings. `ratio_min` and
//! `ratio_max` are bounds for how many times faster the change makes the contestant. The factor levels in `at` restrict
//! the claim to some points, as in `[[expect]]`.

use super::draft::Table;
use super::error::{PlanError, unknown};
use super::{Contestant, PointPlan};
use std::collections::BTreeMap;

/// The effort of the search for the causes of differences between contestants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Causes {
    /// Searches for the causes of one difference only. The search compares the winner with the fastest contestant that
    /// is significantly slower. With each seed, it carries out at most [`BUDGET`](Self::BUDGET) runs.
    #[default]
    Quick,
    /// Searches for the causes of the gap between every pair of contestants. Tests all subsets of the factors, on the
    /// loser as well as on the winner.
    Full,
    /// Does not search for causes.
    Off,
}

/// The fields of a `[[cause]]` table. The names of the plan's factors are fields, too.
pub const FIELDS: [&str; 4] = ["of", "change", "ratio_min", "ratio_max"];

/// A claim in a plan about a cause: a change to a contestant, and the effect that the change is claimed to have.
#[derive(Clone, Debug)]
pub struct CauseClaim {
    /// The text of the contestant that is changed.
    pub of: String,
    /// The contestant after the change.
    pub changed: Contestant,
    /// The change, as the author of the plan wrote it.
    change: String,
    /// The minimum and the maximum of the claimed effect: how many times faster the change makes the contestant.
    pub bounds: [Option<f64>; 2],
    /// The factor levels of the points to which the claim applies.
    at: BTreeMap<String, String>,
    place: String,
}

impl CauseClaim {
    /// Interprets one `[[cause]]` table of a plan. `factors` are the plan keys that have several values.
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
                Ok((of.transport.current_knob(key).unwrap_or(key).to_owned(), Some(value.to_owned())))
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
            bounds: [min, max],
            at,
            place: table.place.clone(),
        })
    }

    /// Returns whether the claim applies to this point.
    #[must_use]
    pub fn applies_to(&self, point: &PointPlan) -> bool {
        self.at.iter().all(|(factor, level)| point.factors.get(factor) == Some(level))
    }

    /// Returns whether the claim is about this contestant.
    #[must_use]
    pub fn is_of(&self, contestant: &Contestant) -> bool {
        contestant.text == self.of
    }
}

impl std::fmt::Display for CauseClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} makes it faster by a factor", self.place, self.change)?;
        for (sign, bound) in [">=", "<="].into_iter().zip(self.bounds) {
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
