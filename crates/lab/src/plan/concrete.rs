//! One combination of the factors: every key with one value.
//!
//! Owns the expansion of lists into points. The first factor varies slowest,
//! so that points come in the order in which a table would print them.

use super::draft::{Draft, Table};
use super::error::PlanError;
use super::keys::Group;
use std::collections::BTreeMap;

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

/// All combinations of the plan's factors.
///
/// # Errors
/// [`PlanError`] when there are too many, or a list stands where none may.
pub fn expand(draft: &Draft) -> Result<Vec<Concrete>, PlanError> {
    let mut points = vec![Concrete::default()];
    for given in &draft.given {
        let name = given.key.name;
        differ(&given.place, &given.levels)?;
        points = vary(points, name, &given.levels, |point, value| {
            point.settings.push(Setting { name: name.to_owned(), value, place: given.place.clone() });
        })?;
    }
    for (i, path) in draft.paths.iter().enumerate() {
        points.iter_mut().for_each(|point| point.paths.push(Vec::new()));
        for (key, levels) in &path.entries {
            let place = format!("{}: {key}", path.place);
            differ(&place, levels)?;
            points = vary(points, &format!("path.{}.{key}", i + 1), levels, |point, value| {
                point.paths[i].push(Setting { name: key.clone(), value, place: place.clone() });
            })?;
        }
    }
    let fails: Vec<(String, String)> = draft
        .fails
        .iter()
        .map(|fail| Ok((pairs(fail)?, fail.place.clone())))
        .collect::<Result<_, PlanError>>()?;
    points.iter_mut().for_each(|point| point.fails.clone_from(&fails));
    Ok(points)
}

/// A level that stands twice would be run and weighed as two points.
fn differ(place: &str, levels: &[String]) -> Result<(), PlanError> {
    for (i, level) in levels.iter().enumerate() {
        if levels[..i].contains(level) {
            return Err(PlanError::at(place, format!("'{level}' stands twice among its values")));
        }
    }
    Ok(())
}

fn vary(
    points: Vec<Concrete>,
    factor: &str,
    levels: &[String],
    set: impl Fn(&mut Concrete, String),
) -> Result<Vec<Concrete>, PlanError> {
    if points.len().saturating_mul(levels.len()) > MAX_POINTS {
        return Err(PlanError::at(factor, format!("the factors make more than {MAX_POINTS} combinations")));
    }
    let mut out = Vec::with_capacity(points.len() * levels.len());
    for point in points {
        for level in levels {
            let mut point = point.clone();
            if levels.len() > 1 {
                point.factors.insert(factor.to_owned(), level.clone());
            }
            set(&mut point, level.clone());
            out.push(point);
        }
    }
    Ok(out)
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
