//! The papers: published numbers beside ours.
//!
//! A study is a folder of `studies/`: `study.toml` (where the numbers come
//! from, what is assumed, the race plan that redoes them, how a result becomes
//! a cell) and `published.csv` (the printed cells). Running one races its plan
//! in the virtual network and sets every printed cell beside the measured one,
//! with a verdict. No number of ours is ever fitted to a printed one except
//! where `study.toml` says so under `calibrated`.

mod cell;
mod definition;
mod published;
mod table;

pub use cell::{Cell, Verdict};
pub use definition::{Definition, Metric};
pub use published::Published;
pub use table::{comparison_table, description, listing};

use crate::causes::Causes;
use crate::plan::{Draft, Plan};
use crate::results::Race;

/// The studies that the program contains, by name.
const SHIPPED: &[(&str, &str, &str)] = &[
    (
        "osterdahl-2005",
        include_str!("../../../../studies/osterdahl-2005/study.toml"),
        include_str!("../../../../studies/osterdahl-2005/published.csv"),
    ),
    (
        "rajamani-2002",
        include_str!("../../../../studies/rajamani-2002/study.toml"),
        include_str!("../../../../studies/rajamani-2002/published.csv"),
    ),
];

/// A study, ready to run.
#[derive(Debug)]
pub struct Study {
    /// What it is and how it is redone.
    pub definition: Definition,
    /// The printed cells.
    pub published: Published,
}

/// The names of the studies that the program contains.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _, _)| *name)
}

/// The study of this name.
///
/// # Errors
/// One line that names the studies there are.
pub fn open(name: &str) -> Result<Study, String> {
    let Some((name, definition, published)) = SHIPPED.iter().find(|(known, _, _)| *known == name) else {
        let known: Vec<_> = names().collect();
        return Err(format!("no study '{name}'; there are {}", known.join(", ")));
    };
    Ok(Study {
        definition: Definition::parse(definition).map_err(|e| format!("studies/{name}/study.toml: {e}"))?,
        published: Published::parse(published).map_err(|e| format!("studies/{name}/published.csv: {e}"))?,
    })
}

impl Study {
    /// The race that redoes the table, with `runs` seeds from `seed` on.
    ///
    /// # Errors
    /// One line: the study's plan is wrong, an error of ours.
    pub fn plan(&self, runs: u64, seed: u64) -> Result<Plan, String> {
        let file = format!("studies/{}/study.toml [plan]", self.definition.name);
        let draft = Draft::from_toml(&file, &self.definition.race_plan(runs, seed));
        let plan = draft.and_then(Plan::interpret).map_err(|error| error.to_string())?;
        // Cells are times, whatever their causes; those that a study names are in `[[cause]]`.
        Ok(Plan { causes: Causes::Off, ..plan })
    }

    /// Every printed cell beside what the race found.
    ///
    /// # Errors
    /// One line when a printed cell has no counterpart in the race: the plan
    /// and the table do not belong together.
    pub fn compare(&self, race: &Race) -> Result<Vec<Cell>, String> {
        self.published.rows.iter().map(|row| cell::measure(&self.definition, row, race)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_study_opens() {
        for name in names() {
            let study = open(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(study.definition.name, name);
            study.plan(2, 1).unwrap_or_else(|e| panic!("{e}"));
            assert!(!study.published.rows.is_empty());
            for row in &study.published.rows {
                let contestant = &row.labels["arm"];
                assert!(
                    study.definition.contestants.contains_key(contestant),
                    "{name}: printed contestant '{contestant}' is not raced"
                );
            }
        }
        let error = open("rajamani").expect_err("no such study");
        assert!(error.contains("rajamani-2002"), "{error}");
    }
}
