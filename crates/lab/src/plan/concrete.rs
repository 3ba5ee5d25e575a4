//! One combination of the factors: every key with one value.
//!
//! Owns what point has which levels; each is made when it is asked for, so that thousands take the memory of their lists.
//! The first factor varies slowest, so that points come in the order in which a table would print them.

use super::draft::{Draft, Table};
use super::error::PlanError;
use super::keys::Group;
use std::collections::{BTreeMap, BTreeSet};

/// The most points a plan may have.
pub const MAX_POINTS: usize = 10_000;

/// A key with its one value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The key.
    pub name: String,
    /// The key's value, as text.
    pub value: String,
    /// Where it stands.
    pub place: String,
}

/// One combination.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Concrete {
    /// Factor to level.
    pub factors: BTreeMap<String, String>,
    /// The keys given once.
    pub settings: Vec<Setting>,
    /// The paths' own keys.
    pub paths: Vec<Vec<Setting>>,
    /// The failures, as text, with their places.
    pub fails: Vec<(String, String)>,
}

impl Concrete {
    /// The network keys that hold for all paths.
    #[must_use]
    pub fn network(&self) -> Vec<Setting> {
        let network = |name: &str| super::keys::find(name).is_some_and(|key| key.group == Group::Network);
        self.settings.iter().filter(|setting| network(&setting.name)).cloned().collect()
    }

    /// The setting of a key.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}

/// A key with its levels: one, or those of a factor.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Levels {
    name: String,
    /// What the key is called as a factor.
    factor: String,
    levels: Vec<String>,
    place: String,
}

/// All combinations of a plan's factors, as lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Combinations {
    settings: Vec<Levels>,
    paths: Vec<Vec<Levels>>,
    fails: Vec<(String, String)>,
}

impl Combinations {
    /// Those of a plan as written.
    ///
    /// # Errors
    /// [`PlanError`] when there are too many, or a list stands where none may.
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

    /// The lists, the slowest first.
    fn lists(&self) -> impl DoubleEndedIterator<Item = &Levels> {
        self.settings.iter().chain(self.paths.iter().flatten())
    }

    /// The factors with their levels, the slowest first.
    pub fn factors(&self) -> impl Iterator<Item = (&str, &[String])> {
        let several = self.lists().filter(|list| list.levels.len() > 1);
        several.map(|list| (list.factor.as_str(), list.levels.as_slice()))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lists().fold(1, |count, list| count.saturating_mul(list.levels.len()))
    }

    /// Combination `index`, from 0; beyond the last, they begin again.
    #[must_use]
    pub fn at(&self, index: usize) -> Concrete {
        let mut point = Concrete { fails: self.fails.clone(), ..Concrete::default() };
        // Combinations of the lists that are yet to come.
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

    /// Refuses the last list, if it makes too many.
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

/// A list whose levels differ: one that stands twice would be run and weighed as two points.
fn checked(name: String, factor: String, levels: &[String], place: String) -> Result<Levels, PlanError> {
    let mut seen = BTreeSet::new();
    if let Some(level) = levels.iter().find(|level| !seen.insert(*level)) {
        return Err(PlanError::at(&place, format!("'{level}' stands twice among its values")));
    }
    Ok(Levels { name, factor, levels: levels.to_vec(), place })
}

/// A table as `key=value,key=value`; lists have no place in it.
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
