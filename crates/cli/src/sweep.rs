//! Runs a sweep with `--out`: a race at several points, for example at several loss rates. Each point is saved when it
//! is complete. A sweep can therefore be interrupted and resumed, or divided among machines and merged.
//!
//! This module runs points, and [`directory`] stores them. [`result`] writes results.json, report.html and the table
//! from a directory alone. The outputs are therefore the same, whenever and on whichever machines the points ran.

pub mod directory;
pub mod result;

use crate::files::{self, EntryKind, PendingFile};
use crate::out::PointFiles;
use crate::outputs::{quoted, reproducing_command};
use crate::progress::{Progress, Work};
use crate::race::{self, RaceOutputs, STOP};
use crate::{Completion, Failure, complain, inputs, out, say};
use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Outline, Plan, PlanError};
use anabranch_lab::run::batch::Options;
use anabranch_lab::sweep::estimate::SizeEstimate;
use anabranch_lab::sweep::manifest::Program;
use anabranch_lab::sweep::{Manifest, PointRecord, Shard, estimate};
use anabranch_report::people;
use anabranch_report::table::{Style, Table};
use anabranch_results::{Expectation, Race, Series};
use anabranch_transports::Transports;
use directory::Directory;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The flags that concern the directory of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The path of the sweep's directory.
    pub path: &'a Path,
    /// Whether to resume a sweep that the directory already holds.
    pub resume: bool,
    /// The shard (a part of the sweep's points) to run; by default the shard that the directory holds.
    pub shard: Option<Shard>,
    /// The captures to keep, as in `--pcap`. `None` means `median` for a new sweep. For a sweep that is resumed, it
    /// means the choice with which the sweep was started.
    pub pcap: Option<&'a str>,
    /// The path of the plan file, if there is one.
    pub plan_file: Option<&'a str>,
    /// The number of simulations that run at the same time.
    pub threads: usize,
    /// Whether to show no progress.
    pub quiet: bool,
}

/// Reads the plan of the sweep in a directory.
pub fn stored_plan(path: &Path) -> Result<Draft, Failure> {
    directory::manifest(path)?.draft().map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// Describes this build of the program.
fn program() -> Program {
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
    }
}

/// Opens the directory of the sweep, either a new one or one with completed points.
fn open(outline: &Outline, request: &Request<'_>) -> Result<Directory, Failure> {
    let path = request.path;
    let has_manifest = files::has_own(&path.join("sweep.json"), EntryKind::File)?;
    let pcap = request.pcap.unwrap_or("median");
    let mut expected = Manifest::new(outline, request.plan_file, program(), reproducing_command(), pcap);
    expected.shard = request.shard.map(|shard| shard.to_string());
    expected.files = inputs::of(&expected.plan);
    if !(request.resume && has_manifest) {
        if request.resume && !directory::is_free(path) {
            let problem = "it is not empty, and has no sweep.json";
            return Err(Failure::Usage(format!("'{}' holds no sweep: {problem}", path.display())));
        }
        return Directory::begin(path, expected);
    }
    let directory = Directory::open(path, true)?;
    if request.pcap.is_none() {
        expected.pcap.clone_from(&directory.manifest.pcap);
    }
    let refused =
        |reason: String| Failure::Usage(format!("--resume: the sweep in '{}' {reason}", path.display()));
    if let Some(difference) = expected.difference(&directory.manifest) {
        return Err(refused(difference));
    }
    match (directory.part(), request.shard) {
        (Some(own), Some(requested)) if own != requested => {
            Err(refused(format!("is shard {own}, and not {requested}")))
        }
        (None, Some(requested)) => Err(refused(format!("is whole, and not shard {requested}"))),
        _ => {
            directory.check_strays()?;
            Ok(directory)
        }
    }
}

/// Runs the points of a sweep that have no stored result yet, and shows the results of all points.
pub fn run(
    mut outline: Outline,
    request: &Request<'_>,
    outputs: RaceOutputs<'_>,
) -> Result<Completion, Failure> {
    let directory = open(&outline, request)?;
    let outputs = outputs.reserve()?;
    let mut tally = Tally::new(&directory, outputs.style());
    let mut missing = Vec::new();
    for number in directory.numbers() {
        match directory.read(number)? {
            Some(record) => tally.add(&record, outputs.transports),
            None => missing.push(number),
        }
    }
    if !request.quiet {
        announce(&outline, &directory, missing.len());
    }
    let warnings = outputs.unprinted(&directory.manifest.warnings);
    *ongoing() = Some(Ongoing::new(&directory, tally, warnings.clone(), outputs.to_stdout().is_some()));
    let wrong = |error: PlanError| Failure::Usage(error.to_string());
    let people = outline.people().is_some();
    let runs = outline.at(0).map_err(wrong)?.run_count();
    let searches = outline.at(0).map_err(wrong)?.has_experiments();
    let progress = Progress::of(Work { points: missing.len(), runs, searches }, request.quiet);
    for (before, &number) in missing.iter().enumerate() {
        let single = outline.at(number - 1).map_err(wrong)?;
        let update = |done: usize| progress.update_point(before, done);
        let options = Options { threads: request.threads, progress: &update, stop: &STOP };
        let race = causes::race(single, &options).map_err(race::failure)?;
        let record = match people {
            true => keep_person(&directory, race, number)?,
            false => keep(&directory, single, race, number)?,
        };
        if let Some(ongoing) = ongoing().as_mut() {
            ongoing.tally.add(&record, outputs.transports);
        }
    }
    progress.finish();
    let tally = ongoing().take().map(|ongoing| ongoing.tally);
    match (directory.part(), tally) {
        (Some(shard), Some(tally)) => {
            say(&tally.text(&warnings))?;
            complain(&format!(
                "shard {shard} is done, {} of {} points; `anabranch merge` puts the shards together",
                tally.points,
                directory.count()
            ));
            Ok(tally.done())
        }
        // `tally` is the summary of the points so far. It is not needed, because `result::write` reads all points
        // again.
        (_, tally) => {
            drop(tally);
            result::write(&directory, outputs)
        }
    }
}

/// Writes the result files of a completed point to the sweep's directory.
fn keep(directory: &Directory, single: &Plan, race: Race, number: usize) -> Result<PointRecord, Failure> {
    let prefix = directory.prefix(number);
    let pcap = directory.manifest.pcap.as_str();
    let of = PointFiles {
        plan: single,
        race: &race,
        point: 0,
        prefix: &prefix,
        draw: number <= out::DRAWN_POINTS,
        trace: false,
    };
    let (mut files, drawn) = out::of_point(&directory.points(), &of, (pcap, None))?;
    for captured in &drawn {
        let path = directory.course(number, &race.points[0], captured.contestant);
        let course = serde_json::to_vec(&captured.course).unwrap_or_default();
        files.push(PendingFile::new(&path)?.fill(&course)?);
    }
    let Some(point) = race.points.into_iter().next() else {
        return Err(Failure::Internal(format!("point {number} gave no result")));
    };
    let at = |expectation: Expectation| Expectation { point: number as u64 - 1, ..expectation };
    directory.save_point(number, point, race.expectations.into_iter().map(at).collect(), files)
}

/// Saves the result of one person's page loads, without the individual objects.
fn keep_person(directory: &Directory, race: Race, number: usize) -> Result<PointRecord, Failure> {
    let Some(mut point) = race.points.into_iter().next() else {
        return Err(Failure::Internal(format!("person {number} gave no result")));
    };
    for run in point.contestants.iter_mut().flat_map(|contestant| &mut contestant.runs) {
        (run.objects, run.series) = (Vec::new(), Series::default());
    }
    let at = |expectation: Expectation| Expectation { point: number as u64 - 1, ..expectation };
    directory.save_point(number, point, race.expectations.into_iter().map(at).collect(), Vec::new())
}

/// The summary of the completed points, with a flag that says whether all transfers finished. Takes only a few bytes
/// per point.
struct Tally {
    table: Table,
    /// The summary of the simulated people; `None` if the plan does not simulate people.
    people: Option<people::Tally>,
    expectations: Vec<Expectation>,
    finished: bool,
    points: usize,
}

impl Tally {
    fn new(directory: &Directory, style: Style) -> Self {
        let table = Table::new(directory.manifest.factors.clone(), directory.count(), style);
        let people = directory.manifest.populations().next().map(|_| people::Tally::default());
        Self { table, people, expectations: Vec::new(), finished: true, points: 0 }
    }

    fn add(&mut self, record: &PointRecord, transports: &Transports) {
        match &mut self.people {
            Some(people) => people.add(&record.point),
            None => self.table.add(record.number as usize - 1, &record.point, &transports.protocols()),
        }
        self.expectations.extend_from_slice(&record.expectations);
        self.finished &= race::all_finished(&record.point);
        self.points += 1;
    }

    /// Returns the table of all points that have been added so far, with these warnings.
    fn text(&self, warnings: &[String]) -> String {
        if let Some(people) = &self.people {
            return people::text::render(people);
        }
        self.table.text(warnings, &self.expectations)
    }

    fn done(&self) -> Completion {
        let met = self.expectations.iter().all(|expectation| expectation.met);
        // A simulated person may have a network that is too bad to load a page. The summary counts these people, but
        // the race does not fail.
        if (self.finished || self.people.is_some()) && met { Completion::Well } else { Completion::Badly }
    }
}

/// Prints the number of points and an estimate of the size of the output, before the first run.
fn announce(outline: &Outline, directory: &Directory, missing: usize) {
    let (part, pcap) = (directory.part(), directory.manifest.pcap.as_str());
    let size = estimate::of(outline, part, pcap, out::DRAWN_POINTS);
    let all = directory.numbers().count();
    let of = part.map_or(String::new(), |part| format!(" of shard {part}"));
    let done = match all - missing {
        0 => String::new(),
        done => format!(", {done} of them done"),
    };
    let size = announcement(size, pcap, &directory.path);
    let _ = std::io::stderr().write_all(format!("{all} points{of}{done}; in all {size}\n").as_bytes());
}

/// Returns how many files and bytes a race will write to `directory`, and which captures it leaves out.
pub fn announcement(size: SizeEstimate, pcap: &str, directory: &Path) -> String {
    let captures = match (size.captures, pcap) {
        (0, _) => String::new(),
        (bytes, "all") => format!(" ({} of captures)", readable(bytes)),
        (bytes, _) => format!(" ({} of captures, of median runs only; --pcap off: none)", readable(bytes)),
    };
    format!("about {} files, {}{captures}, in '{}'", size.files, readable(size.bytes), directory.display())
}

/// Formats a number of bytes, for example as `340 MB`.
fn readable(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", (bytes + 500_000) / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// The data that the interrupt handler prints about the running sweep.
struct Ongoing {
    tally: Tally,
    warnings: Vec<String>,
    path: String,
    all: usize,
    to_stderr: bool,
}

/// The running sweep, if any.
static ONGOING: Mutex<Option<Ongoing>> = Mutex::new(None);

fn ongoing() -> MutexGuard<'static, Option<Ongoing>> {
    ONGOING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ongoing {
    fn new(directory: &Directory, tally: Tally, warnings: Vec<String>, to_stderr: bool) -> Self {
        let path = quoted(directory.path.to_string_lossy().into_owned());
        Self { tally, warnings, path, all: directory.numbers().count(), to_stderr }
    }
}

/// Prints the results so far of the running sweep, and how to resume the sweep. Returns false if no sweep is running.
pub fn interrupted() -> bool {
    let ongoing = ongoing();
    let Some(Ongoing { tally, warnings, path, all, to_stderr }) = ongoing.as_ref() else { return false };
    if tally.points > 0 {
        let shown = tally.table.text(warnings, &tally.expectations);
        let _ = if *to_stderr {
            std::io::stderr().write_all(shown.as_bytes()).is_ok()
        } else {
            say(&shown).is_ok()
        };
    }
    complain(&format!(
        "interrupted: {} of {all} points are done and kept; go on with: anabranch race --resume {path}",
        tally.points
    ));
    true
}
