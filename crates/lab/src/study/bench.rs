//! Where the plans of studies are run, each once: what was run before is taken from where it was kept.
//!
//! A plan's figures are kept under a digest of the plan and of this version, so that a run that was ended goes on where
//! it was, and nothing of another plan is taken for it. Where they are kept is the caller's to say. A bench that counts
//! runs nothing: asked for the same figures as another, it says how many runs the other has to make.

use super::figures::{Figures, Point, hex};
use super::table::Place;
use crate::plan::{Plan, PointPlan};
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

/// Runs plans, each once; or counts the runs.
pub struct Bench<'a> {
    /// How plans are run; `None` where they are counted.
    options: Option<&'a Options<'a>>,
    store: &'a dyn Store,
    known: HashMap<String, Rc<Point>>,
    /// Runs made, or counted.
    done: usize,
}

impl<'a> Bench<'a> {
    /// A bench that keeps figures in `store`.
    #[must_use]
    pub fn new(options: &'a Options<'a>, store: &'a dyn Store) -> Self {
        Self { options: Some(options), store, known: HashMap::new(), done: 0 }
    }

    /// A bench that runs nothing, gives figures without numbers, and counts the runs that `store` does not hold.
    #[must_use]
    pub fn counting(store: &'a dyn Store) -> Self {
        Self { options: None, store, known: HashMap::new(), done: 0 }
    }

    /// Runs made, or counted.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.done
    }

    /// What the runs of these plans give; `heads` as in [`Metric::of`](super::Metric::of).
    ///
    /// # Errors
    /// [`StudyError`]: interrupted, a broken invariant of ours, or the store's.
    pub fn figures(&mut self, places: &[Place], heads: u64) -> Result<Figures, StudyError> {
        let names: Vec<String> = places.iter().map(|place| name(place, heads)).collect();
        let mut missing: Vec<(&String, &Place)> = Vec::new();
        for (name, place) in names.iter().zip(places) {
            if self.known.contains_key(name) || missing.iter().any(|(other, _)| *other == name) {
                continue;
            }
            match self.store.load(name).map_err(StudyError::Store)? {
                Some(text) if self.options.is_some() => self.keep(name, &text)?,
                None if self.options.is_some() => missing.push((name, place)),
                kept => {
                    self.done += if kept.is_some() { 0 } else { place.plan.run_count() };
                    let point = Point { factors: place.factors.clone(), ..Point::default() };
                    self.known.insert(name.clone(), Rc::new(point));
                }
            }
        }
        if let Some(options) = self.options {
            for group in groups(&missing, options.threads) {
                self.race(group, heads, options)?;
            }
        }
        let points = names.iter().filter_map(|name| self.known.get(name).cloned()).collect();
        Ok(Figures { points, cases: cases(places) })
    }

    fn race(
        &mut self,
        group: &[(&String, &Place)],
        heads: u64,
        options: &Options<'_>,
    ) -> Result<(), StudyError> {
        let before = self.done;
        let progress = |done: usize| (options.progress)(before + done);
        let plans: Vec<&Plan> = group.iter().map(|(_, place)| &place.plan).collect();
        let races = batch::races(&plans, &Options { progress: &progress, ..*options })?;
        self.done += plans.iter().map(|plan| plan.run_count()).sum::<usize>();
        for ((name, place), race) in group.iter().zip(&races) {
            let text = Point::of(place.factors.clone(), race, heads).to_text();
            self.store.save(name, &text).map_err(StudyError::Store)?;
            self.keep(name, &text)?;
        }
        Ok(())
    }

    /// A run that was just made is read again, too, so that one that was ended and goes on gives the same.
    fn keep(&mut self, name: &str, text: &str) -> Result<(), StudyError> {
        let point = Point::from_text(text).map_err(|error| StudyError::Store(format!("{name} {error}")))?;
        self.known.insert(name.to_owned(), Rc::new(point));
        Ok(())
    }
}

/// How many cases there are at each of these places at which anything is drawn from the seed.
pub(super) fn cases(places: &[Place]) -> Option<u64> {
    let has_chance =
        |place: &&Place| place.plan.cross.is_some() || place.plan.points.iter().any(PointPlan::has_chance);
    let mut all = places.iter().filter(has_chance).map(|place| match place.plan.points.as_slice() {
        [point] if place.plan.cross.is_none() => point.cases(),
        _ => None,
    });
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// What a place's figures are kept under.
fn name(Place { factors, plan }: &Place, heads: u64) -> String {
    let text = format!("{} {heads} {factors:?}\n{}", env!("CARGO_PKG_VERSION"), plan.to_toml());
    format!("{}.figures", &hex(text.as_bytes())[..24])
}

/// Places that are run together, so that no thread waits where each place has few runs; not so many that much is lost when
/// they are ended.
fn groups<'a, 'b>(
    places: &'a [(&'b String, &'b Place)],
    threads: usize,
) -> Vec<&'a [(&'b String, &'b Place)]> {
    let enough = 16 * threads;
    let (mut groups, mut first, mut runs) = (Vec::new(), 0, 0);
    for (at, (_, place)) in places.iter().enumerate() {
        runs += place.plan.run_count();
        if runs >= enough || at + 1 == places.len() {
            groups.push(&places[first..=at]);
            (first, runs) = (at + 1, 0);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Seeds, Size, Study};
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[derive(Default)]
    struct Kept(RefCell<HashMap<String, String>>);

    impl Store for Kept {
        fn load(&self, name: &str) -> Result<Option<String>, String> {
            Ok(self.0.borrow().get(name).cloned())
        }

        fn save(&self, name: &str, text: &str) -> Result<(), String> {
            self.0.borrow_mut().insert(name.to_owned(), text.to_owned());
            Ok(())
        }
    }

    const FILES: [(&str, &str); 5] = [
        ("study.toml", "name = 'own'\ntitle = ''\nsource = ''\nquestion = ''\ntables = ['pages', 'one']\n"),
        (
            "pages.toml",
            "title = ''\nsource = ''\nunit = 's'\nmetric = 'page'\nruns = 3\nquick_runs = 3\n\
             [plan]\nrtt = '40ms'\nloss = ['0', '5%']\nobjects = '5x20kB'\ntransport = ['one=tcp', 'many=sctp']\n",
        ),
        (
            "one.toml",
            "title = ''\nsource = ''\nunit = 's'\nmetric = 'page'\nruns = 1\nquick_runs = 1\n\
             [plan]\nrtt = '10ms'\nloss = '0'\nobjects = '1x20kB'\ntransport = ['one=tcp']\n",
        ),
        // The first and the third are of the same runs; what any is held against are runs of the table.
        (
            "causes.toml",
            "[[cause]]\nid = 'a'\ntable = 'pages'\nchange = ['rtt=80ms']\nof = 'one'\nat = { loss = '5%' }\neffect = [1, 9]\n\
             says = ''\n[[cause]]\nid = 'b'\ntable = 'pages'\nchange = ['one:iw=2']\nof = 'one/many'\nexplains = true\neffect = [1, 9]\n\
             says = ''\n[[cause]]\nid = 'c'\ntable = 'pages'\nchange = ['rtt=80ms']\nof = 'one'\nat = { loss = '5%' }\neffect = [1, 9]\n\
             says = ''\n",
        ),
        ("claims.csv", "id,place,kind,claim,check\n"),
    ];

    #[test]
    fn as_many_runs_are_counted_as_are_made() {
        let file = |name: &str| {
            let found = FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned());
            Ok(found.or_else(|| (name == "page.md").then(String::new)))
        };
        let study = Study::parse(file).expect("a study");
        let (seeds, store) = (Seeds { runs: 0, first: 1, changes: &[] }, Kept::default());
        let count = || {
            let mut bench = Bench::counting(&store);
            study.run(Size::Full, &seeds, &mut bench).expect("counted");
            bench.runs()
        };
        // Without loss nothing is drawn: 2 runs, 6 with loss, 1 of the other table; 3 of a changed round trip; 8 of a changed window.
        assert_eq!(count(), 2 + 6 + 1 + 3 + 8);
        let (made, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let progress = |done: usize| {
            made.fetch_max(done, Ordering::Relaxed);
        };
        let options = Options { threads: 2, progress: &progress, stop: &stop };
        let mut bench = Bench::new(&options, &store);
        study.run(Size::Full, &seeds, &mut bench).expect("run");
        assert_eq!((bench.runs(), made.load(Ordering::Relaxed)), (20, 20));
        // What is kept is not run again; of what is lost, that alone.
        assert_eq!(count(), 0);
        let lost = store.0.borrow().keys().min().cloned().expect("a file");
        store.0.borrow_mut().remove(&lost);
        assert!(count() > 0);
    }
}
