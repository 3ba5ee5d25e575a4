//! A race in this process: the plan that Python keyword arguments describe, its runs and its results.

use crate::tables::{self, Table};
use crate::transports;
use anabranch_lab::causes;
use anabranch_lab::plan::{self, Outline, Plan};
use anabranch_lab::run::batch::{self, Options, RaceError};
use anabranch_report::PageContext;
use anabranch_report::table::{self, Style};
use anabranch_results::{Host, Race as Results, json, verdict};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pyo3::create_exception!(
    anabranch,
    PlanError,
    PyValueError,
    "A plan that cannot be run, in the words of the command line."
);

/// Flags of the command line without their dashes, and their values.
type Flags = Vec<(String, String)>;

/// The interval at which interrupts are checked and progress is reported.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

fn outline(flags: &Flags, file: Option<&str>) -> PyResult<Outline> {
    let flags = flags.iter().map(|(flag, value)| (flag.as_str(), value.as_str()));
    plan::read(file, flags, &transports()).map_err(|error| PlanError::new_err(error.to_string()))
}

/// The points of a plan: each point is one simulated person, or one combination of factor levels. The plan is read
/// once, and each call of `race` runs one point.
#[pyclass(frozen)]
pub struct Points {
    outline: Mutex<Outline>,
    command: String,
}

#[pymethods]
impl Points {
    #[new]
    #[pyo3(signature = (flags, file=None))]
    fn new(flags: Flags, file: Option<&str>) -> PyResult<Self> {
        Ok(Self { outline: Mutex::new(outline(&flags, file)?), command: command(&flags, file) })
    }

    /// The number of points. A plan with neither people nor factors has one point.
    #[getter]
    fn count(&self) -> usize {
        self.locked().count()
    }

    /// The names of the populations, if each point stands for one person; otherwise empty.
    #[getter]
    fn populations(&self) -> Vec<String> {
        let outline = self.locked();
        outline.people().map_or(Vec::new(), |people| people.populations().map(str::to_owned).collect())
    }

    /// Races point `number`, counted from 0.
    #[pyo3(signature = (number, threads=1))]
    fn race(&self, py: Python<'_>, number: usize, threads: usize) -> PyResult<Race> {
        let plan = {
            let mut outline = self.locked();
            if number >= outline.count() {
                let line = format!("point {number}: the plan has {} points, from 0", outline.count());
                return Err(PlanError::new_err(line));
            }
            outline.at(number).map_err(refused)?.clone()
        };
        batch::check(&plan).map_err(refused)?;
        let results = run_interruptibly(py, &plan, threads.max(1), None)?;
        Ok(Race::new(results, self.command.clone()))
    }
}

impl Points {
    fn locked(&self) -> MutexGuard<'_, Outline> {
        self.outline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn refused(error: plan::PlanError) -> PyErr {
    PlanError::new_err(error.to_string())
}

/// The results of a race.
#[pyclass(frozen)]
pub struct Race {
    results: Results,
    command: String,
    terms: Vec<Vec<String>>,
}

/// Runs the race that the flags describe.
#[pyfunction]
#[pyo3(signature = (flags, file=None, threads=None, progress=None))]
pub fn race(
    py: Python<'_>,
    flags: Flags,
    file: Option<&str>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Race> {
    let outline = outline(&flags, file)?;
    plan::bounds::check_together(&outline).map_err(refused)?;
    let plan = outline.into_plan().map_err(refused)?;
    batch::check(&plan).map_err(refused)?;
    let threads = threads.unwrap_or_else(cores).max(1);
    let started = now();
    let results = run_interruptibly(py, &plan, threads, progress.as_ref())?;
    let elapsed = started.elapsed();
    let mut race = Race::new(results, command(&flags, file));
    // As on the command line, the number of threads and the duration are recorded only for the results of a whole race.
    // They are not recorded for the results of a single point of the plan.
    (race.results.host.threads, race.results.host.elapsed_s) =
        (Some(threads as u32), Some(elapsed.as_secs_f64()));
    Ok(race)
}

impl Race {
    fn new(mut results: Results, command: String) -> Self {
        results.host = Host {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            ..results.host
        };
        let transports = transports();
        let terms = results
            .points
            .iter()
            .map(|point| table::terms(point, &transports.protocols(), &anabranch_report::names(point)));
        Self { terms: terms.collect(), command, results }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a race took is a fact of this machine, and of no result"
)]
fn now() -> Instant {
    Instant::now()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Formats these flags as a command line.
fn command(flags: &Flags, file: Option<&str>) -> String {
    let quoted = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%@+".contains(c);
        let is_plain = !text.is_empty() && text.chars().all(plain);
        if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
    };
    let mut arguments = vec!["anabranch race".to_owned()];
    arguments.extend(file.map(quoted));
    arguments.extend(flags.iter().map(|(flag, value)| format!("--{flag} {}", quoted(value))));
    arguments.join(" ")
}

/// Runs a plan in separate threads. Meanwhile the calling thread checks for interrupts and reports progress.
fn run_interruptibly(
    py: Python<'_>,
    plan: &Plan,
    threads: usize,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Results> {
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let all = plan.run_count();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        // `detach` requires a closure that another thread could run, but a receiver cannot be shared between threads. A
        // mutex around the receiver can be shared.
        let receiver = Mutex::new(receiver);
        let (stop, done) = (&stop, &done);
        scope.spawn(move || {
            let progress = |runs: usize| done.store(runs, Ordering::Relaxed);
            let options = Options { threads, progress: &progress, stop };
            // After an interrupt no thread receives the result, so the error of `send` is ignored.
            let _ = sender.send(causes::race(plan, &options));
        });
        let mut reported = 0;
        let mut result = loop {
            match py.detach(|| wait(&receiver)) {
                Ok(found) => break Ok(found),
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(PyRuntimeError::new_err("a run broke an invariant: please report this"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = done.load(Ordering::Relaxed);
            let tell = || match progress {
                Some(progress) if now != reported => progress.call1(py, (now, all)).map(drop),
                _ => Ok(()),
            };
            if let Err(error) = py.check_signals().and_then(|()| tell()) {
                stop.store(true, Ordering::Relaxed);
                break Err(error);
            }
            reported = now;
        };
        if result.is_err() {
            // The race ends when its threads next check `stop`.
            py.detach(|| while matches!(wait(&receiver), Err(RecvTimeoutError::Timeout)) {});
        } else if let (Some(progress), true) = (progress, reported != all) {
            result = progress.call1(py, (all, all)).and(result);
        }
        result?.map_err(|error| match error {
            RaceError::Interrupted => PyKeyboardInterrupt::new_err(()),
            RaceError::Plan(error) => PlanError::new_err(error.to_string()),
            RaceError::Run(line) => PyRuntimeError::new_err(format!("internal error: {line}")),
        })
    })
}

#[pymethods]
impl Race {
    /// The results as JSON, the same as the output of `anabranch race --json`.
    fn to_json(&self) -> String {
        json::render(&self.results)
    }

    /// The report that `--out` writes, as HTML without captures.
    fn html(&self) -> String {
        let context = PageContext { command: &self.command, terms: &self.terms, ..PageContext::default() };
        anabranch_report::html(&self.results, &context)
    }

    /// The table that `anabranch race` prints.
    fn text(&self) -> String {
        table::render(&self.results, Style::default(), &transports().protocols())
    }

    /// One sentence for each combination of factor levels: the fastest contestant, and its lead over the others.
    fn verdicts(&self) -> Vec<String> {
        self.results.points.iter().map(verdict::sentence).collect()
    }

    /// The command that reproduces these results.
    fn command(&self) -> &str {
        &self.command
    }

    /// Whether all expectations were met; `None` if there are none.
    fn expectations_met(&self) -> Option<bool> {
        let expectations = &self.results.expectations;
        (!expectations.is_empty()).then(|| expectations.iter().all(|one| one.met))
    }

    /// Warnings about the results, which the reader must know before trusting the numbers.
    fn warnings(&self) -> Vec<String> {
        self.results.warnings.clone()
    }

    /// A row for each point, contestant and metric.
    fn summary(&self) -> PyResult<Table> {
        tables::summary(&self.results)
    }

    /// A row for each point, contestant and seed.
    fn runs(&self) -> PyResult<Table> {
        tables::runs(&self.results)
    }

    /// A row for each point, contestant, seed and object.
    fn objects(&self) -> PyResult<Table> {
        tables::objects(&self.results)
    }

    /// A row for each comparison of two contestants in one metric.
    fn comparisons(&self) -> PyResult<Table> {
        tables::comparisons(&self.results)
    }

    /// A row for each cause of a gap between two contestants.
    fn causes(&self) -> PyResult<Table> {
        tables::causes(&self.results)
    }

    /// A row for each change to a point, and each contestant.
    fn changes(&self) -> PyResult<Table> {
        tables::changes(&self.results)
    }

    /// Writes the report.
    fn report(&self, path: &str) -> PyResult<()> {
        Ok(std::fs::write(Path::new(path), self.html())?)
    }
}

/// Returns the result if it arrives within the interval [`POLL_INTERVAL`].
fn wait<T: Send>(receiver: &Mutex<mpsc::Receiver<T>>) -> Result<T, RecvTimeoutError> {
    receiver.lock().map_err(|_| RecvTimeoutError::Disconnected)?.recv_timeout(POLL_INTERVAL)
}
