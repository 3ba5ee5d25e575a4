//! Summarizes races of people from the tables of a sweep, as text and as a page.

use anabranch_lab::plan::population;
use anabranch_report::people::tally::{Group, NamedCause};
use anabranch_report::people::{Tally, page, text};
use anabranch_results::Verdict;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A contestant and its time for one person in milliseconds; `None` if the page load did not complete.
type Time = (String, Option<f64>);
/// Two contestants, and the verdict on the first compared with the second.
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

    /// Adds a person: population, region, access, loss, number, and the time of each contestant.
    fn add(&self, population: &str, region: &str, access: &str, loss: &str, number: u64, times: Vec<Time>) {
        let times: Vec<(&str, Option<f64>)> =
            times.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        self.locked().add_person(&Group::new(population, region, access, loss), number, &times);
    }

    /// Records the verdicts on pairs of contestants, for a person that was added before. The verdict is `less` if the
    /// first contestant needs less time. The other verdicts are `more`, `level` and `undecided`.
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
                    "verdict: less, more, level or undecided, and not {verdict:?}"
                )));
            };
            tally.decide(&group, number, a, b, verdict);
        }
        Ok(())
    }

    /// Adds the result of an experiment with a person. An effect above 1 means that `change` makes the loser faster by
    /// that factor.
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
