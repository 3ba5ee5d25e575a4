//! Where the plans of studies are run, each once: what was run before is taken from where it was kept.
//!
//! A plan's figures are kept under a digest of the plan and of this version, so that a run that was ended goes on where
//! it was, and nothing of another plan is taken for it. Where they are kept is the caller's to say.

use super::figures::{Figures, Point, hex};
use super::table::Place;
use crate::run::batch::{self, Options, RaceError};
use std::collections::HashMap;
use std::rc::Rc;

/// Where figures are kept.
pub trait Store {
    /// The file of this name, if there is one.
    ///
    /// # Errors
    /// One line: it is there and cannot be read.
    fn load(&self, name: &str) -> Result<Option<String>, String>;

    /// Keeps a file.
    ///
    /// # Errors
    /// One line: why it cannot.
    fn save(&self, name: &str, text: &str) -> Result<(), String>;
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug)]
pub struct Forgetful;

impl Store for Forgetful {
    fn load(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn save(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Why a study gave no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A plan of it could not be run.
    #[error("{0}")]
    Race(#[from] RaceError),
    /// What was kept cannot be used, or nothing can be kept.
    #[error("{0}")]
    Store(String),
    /// A change does not fit its plan.
    #[error("{0}")]
    Change(String),
}

/// Runs plans, each once.
pub struct Bench<'a> {
    options: &'a Options<'a>,
    store: &'a dyn Store,
    known: HashMap<String, Rc<Point>>,
    /// Runs so far, for who shows progress.
    done: usize,
}

impl<'a> Bench<'a> {
    /// A bench that keeps figures in `store`.
    #[must_use]
    pub fn new(options: &'a Options<'a>, store: &'a dyn Store) -> Self {
        Self { options, store, known: HashMap::new(), done: 0 }
    }

    /// What the runs of these plans give; `heads` as in [`Metric::of`](super::Metric::of).
    ///
    /// # Errors
    /// [`StudyError`]: interrupted, a broken invariant of ours, or the store's.
    pub fn figures(&mut self, places: &[Place], heads: u64) -> Result<Figures, StudyError> {
        let points = places.iter().map(|place| self.point(place, heads));
        Ok(Figures { points: points.collect::<Result<_, _>>()? })
    }

    fn point(&mut self, place: &Place, heads: u64) -> Result<Rc<Point>, StudyError> {
        let Place { factors, plan } = place;
        let text = format!("{} {heads} {factors:?}\n{}", env!("CARGO_PKG_VERSION"), plan.to_toml());
        let name = format!("{}.figures", &hex(text.as_bytes())[..24]);
        if let Some(point) = self.known.get(&name) {
            return Ok(point.clone());
        }
        let kept = self.store.load(&name).map_err(StudyError::Store)?;
        let text = match kept {
            Some(text) => text,
            None => {
                let before = self.done;
                let progress = |done: usize| (self.options.progress)(before + done);
                let race = batch::race(plan, &Options { progress: &progress, ..*self.options })?;
                let text = Point::of(factors.clone(), &race, heads).to_text();
                self.store.save(&name, &text).map_err(StudyError::Store)?;
                text
            }
        };
        self.done += plan.run_count();
        // Read again in either case, so that a run that was ended and goes on gives the same.
        let point = Point::from_text(&text).map_err(|error| StudyError::Store(format!("{name} {error}")))?;
        let point = Rc::new(point);
        self.known.insert(name, point.clone());
        Ok(point)
    }
}
