//! Populations: people drawn from distributions of networks and pages, each a point of a sweep, and what share of them
//! each contestant serves best.
//!
//! A plan with `population` and `people` has a point for each person. [`data`] reads what a population is, [`draw`] makes
//! a person of it, [`tally`] counts whom which contestant serves best, and [`text`] and [`page`] say it.

pub mod data;
pub mod draw;
pub mod page;
mod quantiles;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod text;

use crate::plan::concrete::{Concrete, Setting};
use crate::plan::{Draft, PlanError, file};
use data::{Data, Parameter};
use draw::Scaled;
use std::path::Path;
use std::sync::Arc;

pub use tally::Tally;

/// The most people of a plan.
pub const MOST_PEOPLE: usize = 1_000_000;
/// Of so many people causes are looked for at one.
pub const EXPLAINED: usize = 10;
/// Of so many people, the first, a plan is checked before anything is run.
pub const CHECKED: usize = 100;
/// The factor that numbers people, from 1.
pub const PERSON: &str = "person";
/// The metric that people are counted by.
const METRIC: &str = "page_ms";

/// A population as a plan names it: `world`, or a file, each with what is multiplied: `world:loss=x0`.
#[derive(Clone, PartialEq, Debug)]
struct Level {
    text: String,
    data: Arc<Data>,
    scaled: Vec<(Scaled, f64)>,
}

/// The people of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct People {
    levels: Vec<Level>,
    numbers: Vec<String>,
    seed: u64,
    runs: u64,
}

impl People {
    /// Those of a plan as written, if it has any.
    ///
    /// # Errors
    /// [`PlanError`]: what is wrong with the keys, or with the file that they name.
    pub fn of(draft: &Draft) -> Result<Option<Self>, PlanError> {
        let Some(given) = draft.value("population") else {
            return match draft.value("people") {
                Some(people) => {
                    Err(PlanError::at(&people.place, "there is no population; add population = \"world\""))
                }
                None => Ok(None),
            };
        };
        let levels = given
            .levels
            .iter()
            .map(|text| Level::parse(text).map_err(|error| PlanError::at(&given.place, error)));
        let levels = levels.collect::<Result<Vec<_>, _>>()?;
        let drawn = |name: &str| DRAWN.contains(&name) || OTHER_WORKLOADS.contains(&name);
        if let Some(other) = draft.given.iter().find(|other| drawn(other.key.name)) {
            let what = "each person's is drawn from the population; leave one of them out";
            return Err(PlanError::at(&other.place, what));
        }
        if let Some(path) = draft.paths.first() {
            return Err(PlanError::at(&path.place, "people have one path; leave the population out"));
        }
        if let Some(world) =
            draft.value("world").filter(|world| world.levels.iter().any(|world| world == "emulated"))
        {
            return Err(PlanError::at(
                &world.place,
                "people are drawn for the virtual world; leave one of them out",
            ));
        }
        let number = |name: &str, default: u64, most: u64| {
            let Some(given) = draft.value(name) else { return Ok(default) };
            let text = given.levels.first().map_or("", String::as_str);
            let found = text
                .parse()
                .ok()
                .filter(|number| (1..=most).contains(number) || (name == "seed" && *number == 0));
            found.ok_or_else(|| {
                PlanError::at(&given.place, format!("'{text}': write a number from 1 to {most}"))
            })
        };
        let people = number("people", 1000, MOST_PEOPLE as u64)?;
        let (seed, runs) = (number("seed", 1, u64::from(u32::MAX))?, number("runs", 100, 1_000_000)?);
        let numbers = (1..=people).map(|number| number.to_string()).collect();
        Ok(Some(Self { levels, numbers, seed, runs }))
    }

    /// How many they are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Their numbers, as levels of the factor [`PERSON`].
    #[must_use]
    pub fn numbers(&self) -> &[String] {
        &self.numbers
    }

    /// The populations, as the plan names them.
    pub fn populations(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().map(|level| level.text.as_str())
    }

    /// Makes `concrete` the point of person `index`, from 0.
    pub fn apply(&self, index: usize, concrete: &mut Concrete) {
        let named = concrete.setting("population").map(|setting| setting.value.clone());
        let level = self.levels.iter().find(|level| Some(&level.text) == named.as_ref());
        let Some(level) = level.or(self.levels.first()) else { return };
        let person = draw::person(&level.data, self.seed, index as u64 + 1, &level.scaled);
        let mut factor = |name: &str, value: &str| concrete.factors.insert(name.to_owned(), value.to_owned());
        factor(PERSON, &(index + 1).to_string());
        factor("country", &person.country);
        factor("region", &person.region);
        factor("access", person.access);
        for (name, value) in &person.settings {
            factor(name, value);
        }
        let place = format!("person {}", index + 1);
        concrete.settings.extend(person.settings.into_iter().map(|(name, value)| Setting {
            name: name.to_owned(),
            value,
            place: format!("{place}: {name}"),
        }));
    }

    /// The seeds of person `index`'s page loads: nobody's luck is another's.
    #[must_use]
    pub fn seeds(&self, index: usize) -> Vec<u64> {
        let first = self.seed + index as u64 * self.runs;
        (first..first + self.runs).collect()
    }

    /// Whether causes are looked for at person `index`.
    #[must_use]
    pub const fn is_explained(&self, index: usize) -> bool {
        (index + 1).is_multiple_of(EXPLAINED)
    }

    /// What the people follow from, for a digest.
    #[must_use]
    pub fn described(&self) -> String {
        format!("{:?} {} {} {}", self.levels, self.numbers.len(), self.seed, self.runs)
    }
}

/// What each of these populations, as a plan names them, is made of: its name, and where its values are from. One that
/// cannot be read any more is left out.
#[must_use]
pub fn sources<'a>(populations: impl IntoIterator<Item = &'a str>) -> Vec<(String, Vec<Parameter>)> {
    let mut all: Vec<(String, Vec<Parameter>)> = Vec::new();
    for level in populations.into_iter().filter_map(|text| Level::parse(text).ok()) {
        let file = &level.data.file;
        if !all.iter().any(|(name, _)| *name == file.name) {
            all.push((file.name.clone(), file.parameter.clone()));
        }
    }
    all
}

/// Keys that a person brings.
const DRAWN: [&str; 15] = [
    "preset",
    "rate",
    "up-rate",
    "down-rate",
    "trace",
    "up-trace",
    "down-trace",
    "rtt",
    "delay",
    "up-delay",
    "down-delay",
    "queue",
    "loss",
    "first-object",
    "objects",
];
/// Keys of other workloads and networks, which go not with a person's page.
const OTHER_WORKLOADS: [&str; 9] =
    ["page", "bulk", "messages", "up-loss", "down-loss", "up-queue", "down-queue", "arrivals", "handover"];

impl Level {
    /// `world`, `people.toml`, `world:loss=x0:queue=x4`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut scaled = Vec::new();
        for part in parts {
            let found = part.split_once("=x").and_then(|(key, factor)| {
                let (_, what) = Scaled::NAMES.iter().find(|(name, _)| *name == key)?;
                let factor = factor.parse().ok().filter(|factor| (0.0..=1000.0).contains(factor))?;
                (factor > 0.0 || *what == Scaled::Loss).then_some((*what, factor))
            });
            let names = Scaled::NAMES.map(|(name, _)| name).join(", ");
            scaled.push(found.ok_or_else(|| {
                format!("'{part}': write what is multiplied, one of {names}, and by how much, up to 1000: loss=x0.5")
            })?);
        }
        let data = if name == "world" { Data::world()? } else { read(name)? };
        Ok(Self { text: text.to_owned(), data: Arc::new(data), scaled })
    }
}

/// Reads a population from its file and the table beside it.
fn read(name: &str) -> Result<Data, String> {
    let bytes = file::read(name, MOST_BYTES)
        .map_err(|error| format!("{error}; the program contains one population: world"))?;
    let own: toml::Table =
        bytes.parse().map_err(|error: toml::de::Error| format!("{name}: {}", error.message()))?;
    let table = own
        .get("countries")
        .and_then(toml::Value::as_str)
        .ok_or_else(|| format!("{name}: has no key countries"))?;
    if Path::new(table).components().count() != 1 || table.starts_with('.') {
        return Err(format!("{name}: countries = '{table}': name a file beside it"));
    }
    let beside = Path::new(name).with_file_name(table);
    let countries = file::read(&beside.to_string_lossy(), MOST_BYTES)?;
    Data::parse(name, &bytes, &countries)
}

/// The longest file.
const MOST_BYTES: u64 = 10_000_000;
