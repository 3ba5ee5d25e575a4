//! Combinations of the levels of a plan's factors. In each combination, every key of the plan has a single value.
//!
//! This module decides which levels each combination has. A combination is made only when the caller asks for it, so
//! thousands of combinations take no more memory than the lists of levels. The first factor varies slowest, so the
//! combinations have the same order as the rows of the printed table.

use super::draft::{Draft, Table};
use super::error::PlanError;
use super::keys::Group;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of points (combinations of factor levels) in a plan.
pub const MAX_POINTS: usize = 10_000;

/// A plan key with a single value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The plan key.
    pub name: String,
    /// The key's value, as text.
    pub value: String,
    /// The flag or the field of the plan file where the key was given, for error messages.
    pub place: String,
}

/// One combination of the levels of a plan's factors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Concrete {
    /// The level of each factor at this point.
    pub factors: BTreeMap<String, String>,
    /// The settings that apply to the whole plan.
    pub settings: Vec<Setting>,
    /// The settings of each network path, in the order of the paths.
    pub paths: Vec<Vec<Setting>>,
    /// The path failures as text (`fail`), each with the flag or field where it was given.
    pub fails: Vec<(String, String)>,
}

impl Concrete {
    /// Returns the network keys that apply to all paths.
    #[must_use]
    pub fn network(&self) -> Vec<Setting> {
        let network = |name: &str| super::keys::find(name).is_some_and(|key| key.group == Group::Network);
        self.settings.iter().filter(|setting| network(&setting.name)).cloned().collect()
    }

    /// Returns the setting of the key `name`, if it was given for the whole plan.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}

/// A plan key with all its values. A key with several values is a factor, and the values are its levels.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Levels {
    name: String,
    /// The name of the factor in results. For a key of a single network path, it is `path.N.KEY`, and otherwise the
    /// name of the key.
    factor: String,
    levels: Vec<String>,
    place: String,
}

/// All combinations of a plan's factors, held as lists of levels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Combinations {
    settings: Vec<Levels>,
    paths: Vec<Vec<Levels>>,
    fails: Vec<(String, String)>,
}

impl Combinations {
    /// Returns the combinations of all levels that a plan gives for its keys.
    ///
    /// # Errors
    /// [`PlanError`] when there are too many combinations, or when a key that must have one value has several.
    pub fn of(draft: &Draft) -> Result<Self, PlanError> {
        let mut all = Self::default();
        for given in &draft.given {
            let name = given.key.name.to_owned();
            let levels = checked(name.clone(), name, &given.levels, given.place.clone())?;
            all.settings.push(levels);
            all.check_count()?;
        }
        for (i, path) in draft.paths.iter().enumerate() {
            all.paths.push(Vec::new());
            for (key, levels) in &path.entries {
                let (factor, place) = (format!("path.{}.{key}", i + 1), format!("{}: {key}", path.place));
                all.paths[i].push(checked(key.clone(), factor, levels, place)?);
                all.check_count()?;
            }
        }
        let fails = draft.fails.iter().map(|fail| Ok((pairs(fail)?, fail.place.clone())));
        all.fails = fails.collect::<Result<_, PlanError>>()?;
        Ok(all)
    }

    /// Returns all keys with their values. In the sequence of points, the value of the first key changes least often.
    fn lists(&self) -> impl DoubleEndedIterator<Item = &Levels> {
        self.settings.iter().chain(self.paths.iter().flatten())
    }

    /// Returns the factors with their levels. In the sequence of points, the level of the first factor changes least
    /// often.
    pub fn factors(&self) -> impl Iterator<Item = (&str, &[String])> {
        let several = self.lists().filter(|list| list.levels.len() > 1);
        several.map(|list| (list.factor.as_str(), list.levels.as_slice()))
    }

    /// Returns the number of combinations of factor levels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lists().fold(1, |count, list| count.saturating_mul(list.levels.len()))
    }

    /// Returns the combination with this index, counted from 0. An index after the last combination continues with the
    /// first.
    #[must_use]
    pub fn at(&self, index: usize) -> Concrete {
        let mut point = Concrete { fails: self.fails.clone(), ..Concrete::default() };
        // The number of combinations of those settings that have not been assigned a value yet.
        let mut rest = self.count();
        let mut setting = |list: &Levels| {
            rest /= list.levels.len();
            let value = list.levels[index / rest % list.levels.len()].clone();
            if list.levels.len() > 1 {
                point.factors.insert(list.factor.clone(), value.clone());
            }
            Setting { name: list.name.clone(), value, place: list.place.clone() }
        };
        point.settings = self.settings.iter().map(&mut setting).collect();
        point.paths = self.paths.iter().map(|path| path.iter().map(&mut setting).collect()).collect();
        point
    }

    /// Returns an error if the number of combinations exceeds [`MAX_POINTS`]. The error names the key that was added
    /// last.
    fn check_count(&self) -> Result<(), PlanError> {
        match self.lists().next_back() {
            Some(last) if self.count() > MAX_POINTS => {
                let what = format!("the factors make more than {MAX_POINTS} combinations");
                Err(PlanError::at(&last.factor, what))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that no value occurs twice in a list of values. A repeated value would be run and counted twice.
fn checked(name: String, factor: String, levels: &[String], place: String) -> Result<Levels, PlanError> {
    let mut seen = BTreeSet::new();
    if let Some(level) = levels.iter().find(|level| !seen.insert(*level)) {
        return Err(PlanError::at(&place, format!("'{level}' stands twice among its values")));
    }
    Ok(Levels { name, factor, levels: levels.to_vec(), place })
}

/// Formats a table of the plan as `key=value,key=value`. Returns an error if a key has several values.
fn pairs(table: &Table) -> Result<String, PlanError> {
    let mut parts = Vec::new();
    for (key, levels) in &table.entries {
        let [value] = levels.as_slice() else {
            return Err(PlanError::at(&table.place, format!("{key} takes one value, not a list")));
        };
        parts.push(format!("{key}={value}"));
    }
    Ok(parts.join(","))
}
