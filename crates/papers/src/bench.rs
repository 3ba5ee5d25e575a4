//! Runs each plan of a study only once. Results of earlier runs are loaded from a store.
//!
//! The measured values (figures) of a plan are stored under a digest of the plan and of the program version. An
//! interrupted run can therefore continue, and the figures of another plan are never used by mistake. The caller
//! decides where the figures are stored. [`StudyRuns::counting`] runs nothing, and only counts the runs whose figures
//! are not stored.
//!
//! A contestant that does not share the network with other contestants is run only once for each set of conditions. If
//! a plan is changed for some contestants only, the stored results of the other contestants are used again.

use super::figures::{Figures, Numbers, Point, hex};
use super::table::TablePoint;
use anabranch_lab::plan::{Contestant, Plan, PointPlan};
use anabranch_lab::run::batch::{self, Options, RaceError};
use anabranch_results::label::shown;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Keeps measured values (figures) as text under a name, for example in the files of a folder.
pub trait Store {
    /// Loads the file of this name; `None` if there is no such file.
    ///
    /// # Errors
    /// A one-line message if the file exists and cannot be read.
    fn load(&self, name: &str) -> Result<Option<String>, String>;

    /// Stores `text` as the file of this name.
    ///
    /// # Errors
    /// A one-line message if the file cannot be stored.
    fn save(&self, name: &str, text: &str) -> Result<(), String>;
}

/// A store that keeps nothing, so that every plan is run again.
#[derive(Clone, Copy, Debug)]
pub struct NullStore;

impl Store for NullStore {
    fn load(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn save(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The reason why a study could not be run.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// One of the study's plans could not be run.
    #[error("{0}")]
    Race(#[from] RaceError),
    /// Stored figures cannot be used, or figures cannot be stored.
    #[error("{0}")]
    Store(String),
    /// A plan cannot be changed as `--set` or a cause requests, for example because it has no contestant of the given
    /// name.
    #[error("{0}")]
    Change(String),
}

impl From<String> for StudyError {
    fn from(message: String) -> Self {
        Self::Change(message)
    }
}

/// Runs of one plan that are needed, with an estimate of their cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// The number of runs.
    pub runs: usize,
    /// The expected processor time of all these runs together, in an arbitrary unit. The unit is about that of a
    /// packet.
    pub cost: f64,
}

impl Step {
    /// Returns the step that makes the runs of this plan.
    fn of(plan: &Plan) -> Self {
        let of_point = |point: &PointPlan| {
            let page = &point.workload.page;
            let packets = 20.0 + 8.0 * page.objects.len() as f64 + page.body_bytes() as f64 / 1200.0;
            packets * (plan.seeds.len() * plan.contestants.len()) as f64
        };
        Self { runs: plan.run_count(), cost: plan.points.iter().map(of_point).sum() }
    }
}

/// Runs the plans of a study, each only once. It can also only count the runs that are needed.
pub struct StudyRuns<'a> {
    /// The options for running plans; `None` if runs are only counted.
    options: Option<&'a Options<'a>>,
    store: &'a dyn Store,
    points_by_name: HashMap<String, Rc<Point>>,
    /// The results of contestants that did not share a network with others, by a digest of all conditions of the runs.
    /// If runs are only counted and not executed, the lists of results are empty.
    by_conditions: HashMap<String, Vec<Numbers>>,
    /// The number of runs that were made or counted.
    done: usize,
    /// If runs are only counted: the runs of each plan, in the order in which they will be made.
    steps: Vec<Step>,
}

/// A [`TablePoint`] whose measured values are not stored, so that it must be run.
struct Missing<'a> {
    /// The name under which the figures will be stored.
    name: &'a String,
    table_point: &'a TablePoint,
    /// The plan of this table point, with only the contestants that must be run.
    remaining: Plan,
}

impl<'a> StudyRuns<'a> {
    /// Returns a [`StudyRuns`] that runs plans with `options`, and that stores the measured values in `store`.
    #[must_use]
    pub fn new(options: &'a Options<'a>, store: &'a dyn Store) -> Self {
        Self { options: Some(options), ..Self::counting(store) }
    }

    /// Returns a [`StudyRuns`] that executes nothing. It only counts the runs whose figures are not in `store`, and
    /// returns empty figures.
    #[must_use]
    pub fn counting(store: &'a dyn Store) -> Self {
        Self {
            options: None,
            store,
            points_by_name: HashMap::new(),
            by_conditions: HashMap::new(),
            done: 0,
            steps: Vec::new(),
        }
    }

    /// Returns the counted runs, in the order in which they will be made.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the number of runs that were made or counted.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.done
    }

    /// Returns the measured values of `table_points`. Points whose values are not stored are run first. `heads` is as
    /// in [`Metric::of`](super::Metric::of).
    ///
    /// # Errors
    /// [`StudyError`] if the run was interrupted, if an invariant of this program is broken, or if the store fails.
    pub fn figures(&mut self, table_points: &[TablePoint], heads: u64) -> Result<Figures, StudyError> {
        let names: Vec<String> = table_points.iter().map(|table_point| name(table_point, heads)).collect();
        let mut missing: Vec<Missing<'_>> = Vec::new();
        // The digests of the contestants that will run at the points in `missing`. Another contestant with one of these
        // digests need not run.
        let mut planned: HashSet<String> = HashSet::new();
        for (name, table_point) in names.iter().zip(table_points) {
            if self.points_by_name.contains_key(name) || missing.iter().any(|other| other.name == name) {
                continue;
            }
            let stored = self.store.load(name).map_err(StudyError::Store)?;
            if let (Some(text), true) = (&stored, self.options.is_some()) {
                self.insert_point(name, text)?;
            }
            if stored.is_some() {
                self.share_contestants(name, table_point, heads);
            } else {
                let mut plan = table_point.plan.clone();
                let is_new = |one: &Contestant| {
                    let key = conditions_digest(table_point, one, heads);
                    !self.by_conditions.contains_key(&key) && planned.insert(key)
                };
                if !table_point.plan.together {
                    plan.contestants.retain(is_new);
                }
                missing.push(Missing { name, table_point, remaining: plan });
            }
            if self.options.is_none() {
                let point = Point { factors: table_point.factors.clone(), ..Point::default() };
                self.points_by_name.insert(name.clone(), Rc::new(point));
                self.share_contestants(name, table_point, heads);
            }
        }
        if let Some(options) = self.options {
            for group in groups(&missing, options.threads) {
                self.race(group, heads, options)?;
            }
        } else {
            self.steps.extend(missing.iter().map(|one| Step::of(&one.remaining)));
            self.done = self.steps.iter().map(|step| step.runs).sum();
        }
        let points = names.iter().filter_map(|name| self.points_by_name.get(name).cloned()).collect();
        Ok(Figures { points, cases: distinct_runs(table_points) })
    }

    fn race(&mut self, group: &[Missing<'_>], heads: u64, options: &Options<'_>) -> Result<(), StudyError> {
        let before = self.done;
        let progress = |done: usize| (options.progress)(before + done);
        let plans: Vec<&Plan> = group.iter().map(|one| &one.remaining).collect();
        let races = batch::races(&plans, &Options { progress: &progress, ..*options })?;
        self.done += plans.iter().map(|plan| plan.run_count()).sum::<usize>();
        for (Missing { name, table_point, .. }, race) in group.iter().zip(&races) {
            let mut point = Point::of(table_point.factors.clone(), race, heads);
            if !table_point.plan.together {
                // Some contestants ran earlier under the same conditions, and were not run again. Their values are
                // added to the point.
                for one in &table_point.plan.contestants {
                    if let Some(numbers) = self.by_conditions.get(&conditions_digest(table_point, one, heads))
                    {
                        point
                            .contestants
                            .entry(shown(&one.text).to_owned())
                            .or_insert_with(|| numbers.clone());
                    }
                }
            }
            let text = point.to_text();
            self.store.save(name, &text).map_err(StudyError::Store)?;
            self.insert_point(name, &text)?;
            self.share_contestants(name, table_point, heads);
        }
        Ok(())
    }

    /// Keeps the results of each contestant of a table point under the contestant's [`conditions_digest`]. A contestant
    /// of another point can then use these results if its digest is the same.
    fn share_contestants(&mut self, name: &str, table_point: &TablePoint, heads: u64) {
        if table_point.plan.together {
            return;
        }
        let point = self.points_by_name.get(name).cloned();
        for one in &table_point.plan.contestants {
            let numbers = point.as_ref().and_then(|point| point.contestants.get(shown(&one.text)));
            if self.options.is_none() || numbers.is_some() {
                let numbers = numbers.cloned().unwrap_or_default();
                self.by_conditions.entry(conditions_digest(table_point, one, heads)).or_insert(numbers);
            }
        }
    }

    /// Adds the measured values of a table point, parsed from their stored text. New values are also written as text
    /// and parsed, so that a continued run gives the same numbers as an uninterrupted one.
    fn insert_point(&mut self, name: &str, text: &str) -> Result<(), StudyError> {
        let point = Point::from_text(text).map_err(|error| StudyError::Store(format!("{name} {error}")))?;
        self.points_by_name.insert(name.to_owned(), Rc::new(point));
        Ok(())
    }
}

/// Returns the number of distinct runs that different seeds can give; `None` if this number differs between points.
/// Points without randomness are ignored.
pub(super) fn distinct_runs(table_points: &[TablePoint]) -> Option<u64> {
    let is_random = |table_point: &&TablePoint| {
        table_point.plan.cross.is_some() || table_point.plan.points.iter().any(PointPlan::is_random)
    };
    let mut all =
        table_points.iter().filter(is_random).map(|table_point| match table_point.plan.points.as_slice() {
            [point] if table_point.plan.cross.is_none() => point.cases(),
            _ => None,
        });
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// Returns the name under which the measured values of a table point are stored.
fn name(TablePoint { factors, plan }: &TablePoint, heads: u64) -> String {
    let text = format!("{} {heads} {factors:?}\n{}", env!("CARGO_PKG_VERSION"), plan.to_toml());
    format!("{}.figures", &hex(text.as_bytes())[..24])
}

/// Returns a digest of all inputs on which the results of one contestant depend. The contestant must not share its
/// network with other contestants.
fn conditions_digest(TablePoint { factors, plan }: &TablePoint, one: &Contestant, heads: u64) -> String {
    let Plan { points, cross, seeds, .. } = plan;
    hex(format!("{heads} {factors:?} {points:?} {cross:?} {seeds:?} {one:?}").as_bytes())
}

/// Divides the table points that must be run into groups. The points of a group run at the same time, so that no thread
/// idles if each point has few runs. Groups are small, so that an interruption loses few results.
fn groups<'a, 'b>(missing: &'a [Missing<'b>], threads: usize) -> Vec<&'a [Missing<'b>]> {
    let enough = 16 * threads;
    let (mut groups, mut first, mut runs) = (Vec::new(), 0, 0);
    for (at, one) in missing.iter().enumerate() {
        runs += one.remaining.run_count();
        if runs >= enough || at + 1 == missing.len() {
            groups.push(&missing[first..=at]);
            (first, runs) = (at + 1, 0);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Seeds, Size, Study};
    use anabranch_transports::Transports;
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[derive(Default)]
    struct MemoryStore(RefCell<HashMap<String, String>>);

    impl Store for MemoryStore {
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
        // In this study, the causes `a` and `c` need the same runs: with `rtt=80ms`, and without this change. The runs
        // without the change are also runs of the table `pages`.
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
        let (seeds, store) = (
            Seeds { runs: 0, first: 1, changes: &[], transports: &Transports::standard() },
            MemoryStore::default(),
        );
        let count = || {
            let mut bench = StudyRuns::counting(&store);
            study.run(Size::Full, &seeds, &mut bench).expect("counted");
            bench.runs()
        };
        // The table `pages` needs 2 runs without loss, because nothing is random, and 6 runs with loss. The table `one`
        // needs 1 run. The causes `a` and `c` share 3 runs: one contestant with loss and the changed round-trip time.
        // The cause `b` needs 4 runs of the contestant with the changed initial window: 1 without loss and 3 with loss.
        assert_eq!(count(), 2 + 6 + 1 + 3 + 4);
        let (runs_made, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let progress = |done: usize| {
            runs_made.fetch_max(done, Ordering::Relaxed);
        };
        let options = Options { threads: 2, progress: &progress, stop: &stop };
        let mut bench = StudyRuns::new(&options, &store);
        study.run(Size::Full, &seeds, &mut bench).expect("run");
        assert_eq!((bench.runs(), runs_made.load(Ordering::Relaxed)), (16, 16));
        // The pages have five objects of 20 kB, and the table `one` has one: a run of it costs a fifth or so.
        let mut counted = StudyRuns::counting(&NullStore);
        study.run(Size::Full, &seeds, &mut counted).expect("counted");
        let of_a_run: Vec<f64> = counted.steps().iter().map(|step| step.cost / step.runs as f64).collect();
        assert_eq!(counted.steps().iter().map(|step| step.runs).sum::<usize>(), 16);
        assert!(of_a_run[0] > 3.0 * of_a_run[2] && of_a_run[0] < 6.0 * of_a_run[2], "{of_a_run:?}");
        // Runs whose figures are stored are not repeated. If some figures are lost, only the lost runs are repeated.
        assert_eq!(count(), 0);
        let lost = store.0.borrow().keys().min().cloned().expect("a file");
        store.0.borrow_mut().remove(&lost);
        assert!(count() > 0);
    }

    /// Checks that a `StudyRuns` that reuses results gives the same figures as a fresh `StudyRuns`. A change of one
    /// contestant runs only that contestant. A change of the network runs all contestants. If contestants share the
    /// network, no earlier result is reused.
    #[test]
    fn reused_results_equal_fresh_ones() {
        let table = |keys: &str| {
            let head = "title = ''\nsource = ''\nunit = 's'\nmetric = 'page'\nruns = 3\nquick_runs = 3\n[plan]\n\
                        rtt = '40ms'\nobjects = '5x20kB'\n";
            crate::Table::parse("pages", &format!("{head}{keys}"), None).expect("a table")
        };
        let (stop, progress) = (AtomicBool::new(false), |_: usize| {});
        let options = Options { threads: 1, progress: &progress, stop: &stop };
        let mut shared = StudyRuns::new(&options, &NullStore);
        let mut counting = StudyRuns::counting(&NullStore);
        for (plan, seeds, runs) in [
            ("loss = ['0', '5%']\ntransport = ['one=tcp', 'many=sctp']", 3, 2 + 6),
            ("loss = ['0', '5%']\ntransport = ['many=sctp', 'one=tcp:iw=2']", 3, 1 + 3),
            ("loss = '5%'\ntransport = ['one=tcp', 'many=sctp']", 3, 6),
            ("loss = ['5%', '6%']\ntransport = ['one=tcp', 'many=sctp']", 3, 6),
            (
                "loss = ['5%', '0']\ntransport = ['one=tcp', 'many=sctp', 'more=sctp:num_ostreams=2']",
                3,
                3 + 1,
            ),
            ("loss = ['0', '5%']\ntransport = ['one=tcp', 'many=sctp']", 2, 4),
            (
                "loss = '5%'\ncross = 'tcp:flows=1'\nrate = '5mbit'\ntransport = ['one=tcp', 'many=sctp']",
                3,
                6,
            ),
            ("loss = ['0', '5%']\nshared-link = true\ntransport = ['one=tcp', 'many=sctp']", 3, 1 + 3),
            (
                "loss = ['0', '5%']\nshared-link = true\ntransport = ['one=tcp', 'many=sctp:num_ostreams=2']",
                3,
                1 + 3,
            ),
        ] {
            let table = table(plan);
            let draft = table.draft(seeds, 1, &[]).expect("a draft");
            let table_points = table
                .table_points(&draft, &std::collections::BTreeMap::new(), None, &Transports::standard())
                .expect("places");
            let before = (shared.runs(), counting.runs());
            let found = shared.figures(&table_points, 0).expect("run");
            counting.figures(&table_points, 0).expect("counted");
            assert_eq!((shared.runs() - before.0, counting.runs() - before.1), (runs, runs), "{plan}");
            assert_eq!(
                found,
                StudyRuns::new(&options, &NullStore).figures(&table_points, 0).expect("run"),
                "{plan}"
            );
        }
    }
}
