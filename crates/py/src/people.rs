//! People that were raced: what the tables of a sweep say of them, as text and as a page.

use anabranch_lab::population::tally::Group;
use anabranch_lab::population::{Tally, page, text};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A contestant of a person, and its time in milliseconds; none where a page load was not done.
type Time = (String, Option<f64>);

/// For which share of people which contestant is best.
#[pyclass(frozen)]
pub struct People(Mutex<Tally>);

#[pymethods]
impl People {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Adds a person: population, region, access, loss, number, and each contestant's time.
    fn add(&self, population: &str, region: &str, access: &str, loss: &str, number: u64, times: Vec<Time>) {
        let times: Vec<(&str, Option<f64>)> =
            times.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        self.locked().add_person(&Group::new(population, region, access, loss), number, &times);
    }

    /// Adds a cause that an experiment named.
    fn add_cause(&self, population: &str, winner: &str, loser: &str, factor: &str, effect: f64) {
        self.locked().add_cause(population, winner, loser, factor, effect);
    }

    /// How many people there are.
    #[getter]
    fn count(&self) -> usize {
        self.locked().count()
    }

    /// What the command prints.
    fn text(&self) -> String {
        text::render(&self.locked())
    }

    /// The page of `--out`.
    fn html(&self, command: &str, populations: Vec<String>) -> String {
        page::html(&self.locked(), command, populations.iter().map(String::as_str))
    }

    /// Writes the page.
    fn report(&self, path: &str, command: &str, populations: Vec<String>) -> PyResult<()> {
        Ok(std::fs::write(Path::new(path), self.html(command, populations))?)
    }
}

impl People {
    fn locked(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
