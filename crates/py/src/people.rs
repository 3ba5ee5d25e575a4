//! Summarizes races in which each point of a sweep stands for one person of a population. Reads the tables of the
//! sweep, and formats the summary as text and as a page.

use anabranch_lab::plan::population;
use anabranch_report::people::tally::{Group, NamedCause};
use anabranch_report::people::{Tally, page, text};
use anabranch_results::Verdict;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of a contestant, and the time in milliseconds in which it loads the page for one person. The time is `None`
/// if the page load did not complete.
type Time = (String, Option<f64>);
/// Two contestants, and the verdict of the comparison of the first with the second.
type PairVerdict = (String, String, String);

/// Counts the people for whom each contestant is fastest.
#[pyclass(frozen)]
pub struct People(Mutex<Tally>);

#[pymethods]
impl People {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Adds a person. `population`, `region`, `access` and `loss` identify the group to which the person belongs.
    /// `number` identifies the person within the group. `times` holds the page load time of each contestant
    /// in milliseconds.
    fn add(&self, population: &str, region: &str, access: &str, loss: &str, number: u64, times: Vec<Time>) {
        let times: Vec<(&str, Option<f64>)> =
            times.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        self.locked().add_person(&Group::new(population, region, access, loss), number, &times);
    }

    /// Records verdicts on pairs of contestants for one person. The person must have been added before. The verdict is
    /// `less` if the first contestant of the pair needs less time. The other verdicts are `more`, `tie` and
    /// `undecided`.
    fn decide(
        &self,
        population: &str,
        region: &str,
        access: &str,
        loss: &str,
        number: u64,
        verdicts: Vec<PairVerdict>,
    ) -> PyResult<()> {
        let (group, mut tally) = (Group::new(population, region, access, loss), self.locked());
        for (a, b, verdict) in &verdicts {
            let all = [Verdict::Less, Verdict::More, Verdict::Level, Verdict::Undecided];
            let Some(verdict) = all.into_iter().find(|one| one.name() == verdict) else {
                return Err(PyValueError::new_err(format!(
                    "verdict: less, more, tie or undecided, and not {verdict:?}"
                )));
            };
            tally.decide(&group, number, a, b, verdict);
        }
        Ok(())
    }

    /// Adds a cause of the difference between two contestants, found by an experiment on the network of one person.
    /// `effect` is the factor by which the loser becomes faster when `change` is made to its settings.
    #[expect(clippy::too_many_arguments, reason = "a row of the table of causes")]
    fn add_cause(
        &self,
        population: &str,
        number: u64,
        winner: &str,
        loser: &str,
        factor: &str,
        change: &str,
        effect: f64,
        holds_back: bool,
    ) {
        let found = NamedCause { winner, loser, factor, change, effect, holds_back };
        self.locked().add_cause(population, number, &found);
    }

    /// The number of people.
    #[getter]
    fn count(&self) -> usize {
        self.locked().count()
    }

    /// The text that `anabranch` prints about a population.
    fn text(&self) -> String {
        text::render(&self.locked())
    }

    /// The page that `anabranch` writes with `--out` about a population, as HTML.
    fn html(&self, command: &str, populations: Vec<String>) -> String {
        let sources = population::sources(populations.iter().map(String::as_str));
        page::html(&self.locked(), command, &sources)
    }

    /// Writes the page to a file.
    fn report(&self, path: &str, command: &str, populations: Vec<String>) -> PyResult<()> {
        Ok(std::fs::write(Path::new(path), self.html(command, populations))?)
    }
}

impl People {
    fn locked(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
