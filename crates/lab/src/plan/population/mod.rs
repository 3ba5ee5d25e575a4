//! Populations. A person is a simulated user with a network and a page, which are drawn from distributions. The results
//! say which share of the people each contestant serves best. Each person is a point of a sweep.
//!
//! The key `population` of a plan names a population, and the key `people` is the number of people. For each person,
//! all contestants load the person's page over the person's network. [`data`] parses a population, and [`draw`] draws a
//! person from it. `anabranch_report::people` counts and presents the results.

pub mod data;
pub mod draw;
mod quantiles;

use crate::plan::concrete::{Concrete, Setting};
use crate::plan::{Draft, PlanError, file};
use anabranch_report::people::page::Parameter;
use anabranch_report::people::tally::{EXPLAINED, PERSON};
use data::Data;
use draw::ScaledParameter;
use std::path::Path;
use std::sync::Arc;

/// The maximum number of people in a plan.
pub const MOST_PEOPLE: usize = 1_000_000;
/// The number of people of each population, counted from the first, that are checked before any run starts.
pub const CHECKED: usize = 100;

/// A population as the value of the plan key `population`: `world` or the name of a file, and then any parameters to
/// scale. For example, `world:loss=x0` multiplies the loss of every person by 0.
#[derive(Clone, PartialEq, Debug)]
struct Level {
    text: String,
    data: Arc<Data>,
    scaled: Vec<(ScaledParameter, f64)>,
}

/// The simulated people for whom a plan runs.
#[derive(Clone, PartialEq, Debug)]
pub struct People {
    levels: Vec<Level>,
    numbers: Vec<String>,
    seed: u64,
    runs: u64,
}

impl People {
    /// Returns the people of the plan `draft`, or `None` if it has no population.
    ///
    /// # Errors
    /// [`PlanError`] when the keys, or the file that they name, have a mistake.
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
        let has_page = draft.value("page").is_some();
        if let Some(level) = levels.iter().find(|level| has_page && level.scales(ScaledParameter::Bytes)) {
            let what =
                format!("'{}': all people load the page that the plan has; leave bytes out", level.text);
            return Err(PlanError::at(&given.place, what));
        }
        Ok(Some(Self { levels, numbers, seed, runs }))
    }

    /// Returns the number of people.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the numbers of the people, which are the levels of the factor [`PERSON`].
    #[must_use]
    pub fn numbers(&self) -> &[String] {
        &self.numbers
    }

    /// Returns the names of the populations, as the plan gives them.
    pub fn populations(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().map(|level| level.text.as_str())
    }

    /// Adds the network of the person with this index to `concrete`, and the page if the plan has none. Indices are
    /// counted from 0.
    pub fn apply(&self, index: usize, concrete: &mut Concrete) {
        let named = concrete.setting("population").map(|setting| setting.value.clone());
        let level = self.levels.iter().find(|level| Some(&level.text) == named.as_ref());
        let Some(level) = level.or(self.levels.first()) else { return };
        let person = draw::person(&level.data, self.seed, index as u64 + 1, &level.scaled);
        let has_page = concrete.setting("page").is_some();
        let mut factor = |name: &str, value: &str| concrete.factors.insert(name.to_owned(), value.to_owned());
        factor(PERSON, &(index + 1).to_string());
        factor("country", &person.country);
        factor("region", &person.region);
        factor("access", person.access);
        let is_used = |name: &str| !(has_page && OF_PAGE.contains(&name));
        let settings: Vec<_> = person.settings.into_iter().filter(|(name, _)| is_used(name)).collect();
        for (name, value) in &settings {
            factor(name, value);
        }
        let place = format!("person {}", index + 1);
        concrete.settings.extend(settings.into_iter().map(|(name, value)| Setting {
            name: name.to_owned(),
            value,
            place: format!("{place}: {name}"),
        }));
    }

    /// Returns the seeds for the page loads of the person with this index. No two people share a seed.
    #[must_use]
    pub fn seeds(&self, index: usize) -> Vec<u64> {
        let first = self.seed + index as u64 * self.runs;
        (first..first + self.runs).collect()
    }

    /// Returns whether the causes of differences between contestants are searched for at the point of this person.
    /// `index` is the index of the person, from 0.
    #[must_use]
    pub const fn is_explained(&self, index: usize) -> bool {
        (index + 1).is_multiple_of(EXPLAINED)
    }

    /// Returns a text with everything that determines the people. A digest of this text identifies them.
    #[must_use]
    pub fn described(&self) -> String {
        format!("{:?} {} {} {}", self.levels, self.numbers.len(), self.seed, self.runs)
    }
}

/// Returns the names of these populations, and the sources of their values. A population whose file can no longer be
/// read is left out.
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

/// The keys of a plan whose values are drawn at random for each simulated person.
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
/// The plan keys that a plan with a population must not set. They select a workload or network, which each person
/// already has.
const OTHER_WORKLOADS: [&str; 8] =
    ["bulk", "messages", "up-loss", "down-loss", "up-queue", "down-queue", "arrivals", "handover"];
/// The keys that describe the page of a person. They are not drawn if the plan has a page, which all people load.
const OF_PAGE: [&str; 2] = ["first-object", "objects"];

impl Level {
    /// Returns whether this population multiplies a parameter.
    fn scales(&self, parameter: ScaledParameter) -> bool {
        self.scaled.iter().any(|(scaled, _)| *scaled == parameter)
    }

    /// Parses a population with the multipliers of its parameters, for example `world`, `people.toml` or
    /// `world:loss=x0:queue=x4`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut scaled = Vec::new();
        for part in parts {
            let found = part.split_once("=x").and_then(|(key, factor)| {
                let (_, what) = ScaledParameter::NAMES.iter().find(|(name, _)| *name == key)?;
                let factor = factor.parse().ok().filter(|factor| (0.0..=1000.0).contains(factor))?;
                let least = match what {
                    ScaledParameter::Loss => 0.0,
                    ScaledParameter::Bursts => 1.0,
                    _ => f64::MIN_POSITIVE,
                };
                (factor >= least).then_some((*what, factor))
            });
            let names = ScaledParameter::NAMES.map(|(name, _)| name).join(", ");
            scaled.push(found.ok_or_else(|| {
                format!("'{part}': write what is multiplied, one of {names}, and by how much, up to 1000: loss=x0.5")
            })?);
        }
        let data = if name == "world" { Data::world()? } else { read(name)? };
        Ok(Self { text: text.to_owned(), data: Arc::new(data), scaled })
    }
}

/// Reads a population from its file, and from the table of countries next to that file.
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

/// The maximum size of a population file in bytes.
const MOST_BYTES: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    #[test]
    fn populations_of_one_file_have_one_list_of_sources() {
        let all = super::sources(["world", "world:loss=x0"]);
        assert_eq!(all.len(), 1);
        assert!(all[0].1.iter().any(|one| one.source.contains("Measurement Lab")), "{:?}", all[0].1);
    }
}
