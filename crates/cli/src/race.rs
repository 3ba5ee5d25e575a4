//! `anabranch race`: races transports over simulated or emulated networks.

use crate::files::{self, PendingFile};
use crate::progress::{self, Progress, Work};
use crate::sweep::{self, Request};
use crate::{Completion, Failure, args, baseline, complain, list, out, say};
use anabranch_http::har;
use anabranch_lab::plan::{self, Outline, Plan, PlanError};
use anabranch_lab::run::batch::{self, Options, RaceError};
#[cfg(target_os = "linux")]
use anabranch_lab::run::live;
use anabranch_lab::run::one::HostPackets;
use anabranch_lab::sweep::{Shard, estimate};
use anabranch_lab::{calibrate, causes};
use anabranch_report::compare;
use anabranch_report::table::{self, Style};
use anabranch_results::{Host, Outcome, Point, Race, World, csv, json};
use anabranch_transports::Transports;
use clap::ArgMatches;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use terminal_size::terminal_size_of;

/// Set by the first interrupt (SIGINT).
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Reads and checks the plan, and prepares this process for an emulated race. Returns `None` if the command only prints
/// a list. Must be called while the process has a single thread, because only such a process can enter the namespaces
/// of an emulated race.
pub fn prepare(matches: &ArgMatches, transports: &Transports) -> Result<Option<Planned>, Failure> {
    if matches.contains_id("list") {
        return Ok(None);
    }
    let file = matches.get_one::<String>("plan").map(String::as_str);
    let usage = |error: PlanError| Failure::Usage(error.to_string());
    let flags = args::plan_flags(matches);
    let outline = match matches.get_one::<String>("resume") {
        Some(directory) if file.is_none() && flags.is_empty() => {
            Outline::interpret(sweep::stored_plan(Path::new(directory))?, transports)
        }
        _ => plan::read(file, flags, transports),
    };
    let mut outline = outline.map_err(usage)?;
    outline.plan().draft.renamed.iter().for_each(|line| complain(line));
    if request(matches, &outline)?.is_some() {
        for index in outline.to_check().collect::<Vec<_>>() {
            outline.at(index).and_then(batch::check).map_err(usage)?;
        }
        return Ok(Some(Planned::Sweep(outline)));
    }
    plan::bounds::check_together(&outline).map_err(usage)?;
    let plan = outline.into_plan().map_err(usage)?;
    match plan.world {
        World::Virtual => batch::check(&plan).map_err(usage)?,
        #[cfg(target_os = "linux")]
        World::Emulated => {
            live::check(&plan).map_err(usage)?;
            if !matches.get_flag("dry-run") {
                prepare_host()?;
            }
        }
        #[cfg(not(target_os = "linux"))]
        World::Emulated => {}
    }
    Ok(Some(Planned::Race(plan)))
}

/// The points to race (each is one set of conditions), and whether they form a sweep.
pub enum Planned {
    /// All points are part of one race.
    Race(Plan),
    /// The points of a sweep, which are raced one after the other.
    Sweep(Outline),
}

/// Carries out the command with the plan that [`prepare`] read.
pub fn run(
    matches: &ArgMatches,
    planned: Option<Planned>,
    transports: &Transports,
) -> Result<Completion, Failure> {
    let Some(planned) = planned else {
        let subject = matches.get_one::<String>("list").map_or("", String::as_str);
        say(&list::render(subject, transports))?;
        return Ok(Completion::Well);
    };
    let mut outputs = RaceOutputs::interpret(matches, transports)?;
    let untraced = match &planned {
        Planned::Sweep(_) => Some("the plan has several points; race one of them"),
        Planned::Race(plan) if plan.world == World::Emulated => {
            Some("emulated runs have none; race in virtual time")
        }
        Planned::Race(_) => None,
    };
    if let Some(reason) = untraced.filter(|_| outputs.trace) {
        return Err(Failure::Usage(format!("--trace-out: {reason}")));
    }
    if matches.get_flag("dry-run") {
        let plan = match &planned {
            Planned::Race(plan) => plan,
            Planned::Sweep(outline) => outline.plan(),
        };
        say(&plan.to_toml())?;
        return Ok(Completion::Well);
    }
    outputs.align_baseline(matches, &planned)?;
    let warnings = match &planned {
        Planned::Race(plan) => plan.warnings(),
        Planned::Sweep(outline) => outline.warnings(),
    };
    // Most warnings appear with the results. The warnings in `EARLY_WARNINGS` concern the HAR file that describes the
    // page to load. They are printed before the race, and not again with the results.
    outputs.printed_warnings = warnings;
    outputs.printed_warnings.retain(|line| EARLY_WARNINGS.iter().any(|phrase| line.contains(phrase)));
    outputs.printed_warnings.iter().for_each(|warning| complain(warning));
    let plan = match planned {
        Planned::Race(plan) => plan,
        Planned::Sweep(outline) => {
            let Some(request) = request(matches, &outline)? else {
                return Err(Failure::Internal("a sweep without a directory".to_owned()));
            };
            calibrate(&outline, request.threads, outputs.to_stdout().is_none())?;
            return sweep::run(outline, &request, outputs);
        }
    };
    let (plan, outputs) = (&plan, outputs.reserve()?);
    let (threads, quiet) = (args::threads(matches), matches.get_flag("quiet"));
    if let Some(directory) = outputs.out.filter(|_| !quiet) {
        let size = sweep::announcement(estimate::of_race(plan, outputs.pcap), outputs.pcap, directory);
        let _ = writeln!(std::io::stderr(), "{size}");
    }
    if plan.world == World::Emulated {
        let (race, captures) = emulate(plan, threads, quiet, outputs.out.is_some() && outputs.pcap != "off")?;
        outputs.write(plan, &race, Some(&captures))?;
        return Ok(verdict(&race));
    }
    let race = perform(plan, threads, quiet, &outputs)?;
    outputs.write(plan, &race, None)?;
    Ok(verdict(&race))
}

/// Prints how the simulated load of each page of a sweep compares with the recorded load. Prints to standard error
/// unless `prints_table` is set, because standard output may be reserved for results.
fn calibrate(outline: &Outline, threads: usize, prints_table: bool) -> Result<(), Failure> {
    let options = Options { threads, progress: &|_| {}, stop: &STOP };
    let (calibrations, warnings) =
        calibrate::of(outline.points(), outline.plan(), &options).map_err(failure)?;
    for calibration in calibrations {
        match prints_table {
            true => say(&format!("{}\n", calibration.lines().join("\n")))?,
            false => calibration.lines().iter().for_each(|line| complain(line)),
        }
    }
    warnings.iter().for_each(|warning| complain(warning));
    Ok(())
}

/// A warning that contains one of these phrases is written to standard error before the race.
const EARLY_WARNINGS: [&str; 4] = [har::FILE_ORDER, har::CUT_BODY, har::UNKNOWN_BODY, har::NO_RESPONSE];

/// Returns the directory and the options of a sweep, or `None` if the command does not run a sweep. A sweep is a race
/// in virtual time that runs several combinations of settings (points) and writes to a directory.
fn request<'a>(matches: &'a ArgMatches, outline: &Outline) -> Result<Option<Request<'a>>, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let shard: Option<Shard> = matches.get_one::<Shard>("shard").copied();
    let (flag, path) = match (text("resume"), text("out")) {
        (Some(path), _) => ("--resume", path),
        (None, Some(path)) => (if shard.is_some() { "--shard" } else { "" }, path),
        (None, None) if shard.is_some() => {
            return Err(Failure::Usage(
                "--shard: goes with --out DIR, which says where its points go".to_owned(),
            ));
        }
        (None, None) => return Ok(None),
    };
    let refused = |reason: &str| Failure::Usage(format!("{flag}: {reason}"));
    let sweep = match (outline.plan().world, outline.count()) {
        (World::Virtual, 2..) => true,
        (World::Virtual, _) if outline.people().is_some() => true,
        _ if flag.is_empty() => false,
        (World::Emulated, _) => return Err(refused("an emulated race is run as a whole")),
        (World::Virtual, _) => return Err(refused("the plan has one point, which is run as a whole")),
    };
    Ok(sweep.then(|| Request {
        path: Path::new(path),
        resume: flag == "--resume",
        shard,
        pcap: text("pcap"),
        plan_file: text("plan"),
        threads: args::threads(matches),
        quiet: matches.get_flag("quiet"),
    }))
}

/// Prepares this process for network namespaces. Must be called while the process has a single thread.
pub fn prepare_host() -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    live::prepare().map_err(|error| Failure::Host(error.to_string()))?;
    Ok(())
}

/// Checks that this host can emulate the network of `plan` and run its contestants.
#[cfg(target_os = "linux")]
pub fn is_possible(plan: &Plan) -> Result<(), Failure> {
    live::check(plan).map_err(|error| Failure::Usage(error.to_string()))?;
    live::possible(plan).map_err(Failure::Host)
}

/// Always fails, because emulation needs Linux.
#[cfg(not(target_os = "linux"))]
pub fn is_possible(_: &Plan) -> Result<(), Failure> {
    Err(Failure::Host("emulated races are there on Linux only".to_owned()))
}

/// Runs a plan in real time over an emulated network.
#[cfg(target_os = "linux")]
pub fn emulate(
    plan: &Plan,
    threads: usize,
    quiet: bool,
    keep: bool,
) -> Result<(Race, Vec<HostPackets>), Failure> {
    let mut host_packets = Vec::new();
    let race = carry_out(plan, threads, quiet, |options| {
        let (mut race, captures) = live::race(plan, options, keep)?;
        race.warnings.extend(calibrate::of(plan.points.iter(), plan, options)?.1);
        host_packets = captures;
        Ok(race)
    });
    // In an emulated race, an internal error is attributed to the host, not to a bug of this program.
    let race = race.map_err(|failure| match failure {
        Failure::Internal(line) => Failure::Host(line),
        other => other,
    })?;
    Ok((race, host_packets))
}

/// Always fails, because emulation needs Linux.
#[cfg(not(target_os = "linux"))]
pub fn emulate(_: &Plan, _: usize, _: bool, _: bool) -> Result<(Race, Vec<HostPackets>), Failure> {
    Err(Failure::Host("emulated races are there on Linux only".to_owned()))
}

/// Installs a handler with which an interrupt ends the process and removes partial output. A sweep keeps its completed
/// points.
pub fn end_on_interrupt() {
    let _ = ctrlc::set_handler(|| {
        // Do not wait for the running simulations, which may need seconds to end.
        STOP.store(true, Ordering::Relaxed);
        let progress = progress::at_interrupt();
        if !sweep::interrupted() && !interrupted() {
            complain(&format!("interrupted{progress}"));
        }
        files::abandon(130);
    });
}

/// Runs a plan on `threads` threads, and shows the progress. If the race is interrupted when only causes are missing,
/// the interrupt handler shows the answer so far, as `outputs` says.
fn perform(plan: &Plan, threads: usize, quiet: bool, outputs: &RaceOutputs<'_>) -> Result<Race, Failure> {
    let race = carry_out(plan, threads, quiet, |options| {
        causes::race_watched(plan, options, &mut |race| {
            // Of a race with many points only the first answer is kept, because each rendering takes all points.
            let mut known = known();
            if known.is_none() || race.points.len() <= MOST_RENDERED {
                *known = Some(outputs.unfinished(race));
            }
        })
    });
    *known() = None;
    race
}

/// The maximum number of points of a race whose answer is rendered anew after each step of the search for causes.
const MOST_RENDERED: usize = 4;

/// The answer of a race whose runs are complete, while causes are sought.
struct Unfinished {
    text: String,
    to_stderr: bool,
}

/// The answer of the current race, if its runs are complete.
static KNOWN: Mutex<Option<Unfinished>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Unfinished>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints the answer of the current race if only causes are missing. Returns false if runs are missing, too.
fn interrupted() -> bool {
    let known = known();
    let Some(Unfinished { text, to_stderr }) = known.as_ref() else { return false };
    let _ = match to_stderr {
        true => std::io::stderr().write_all(text.as_bytes()).is_ok(),
        false => say(text).is_ok(),
    };
    complain(
        "interrupted: all runs are done, but not the search for causes; no file was written (--causes off leaves the \
         search out)",
    );
    true
}

/// Runs a plan with `run`, shows the progress, and adds facts about this machine to the result.
fn carry_out(
    plan: &Plan,
    threads: usize,
    quiet: bool,
    run: impl FnOnce(&Options<'_>) -> Result<Race, RaceError>,
) -> Result<Race, Failure> {
    let searches = plan.world == World::Virtual && plan.has_experiments();
    let work = Work { points: 1, runs: plan.run_count(), searches };
    let progress = Progress::of(work, quiet);
    let update = |done: usize| progress.update(done);
    let options = Options { threads, progress: &update, stop: &STOP };
    let race = run(&options);
    let elapsed = progress.finish();
    let mut race = race.map_err(failure)?;
    race.host = Host {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        threads: Some(threads as u32),
        elapsed_s: Some(elapsed.as_secs_f64()),
        ..race.host
    };
    Ok(race)
}

/// Maps the reason why a race has no result to a failure with an exit code.
pub fn failure(error: RaceError) -> Failure {
    match error {
        RaceError::Interrupted => Failure::Interrupted,
        RaceError::Plan(error) => Failure::Usage(error.to_string()),
        RaceError::Run(line) => Failure::Internal(line),
    }
}

/// The destinations of the result, in addition to the table.
pub struct RaceOutputs<'a> {
    json: Option<&'a str>,
    /// The format of JSON files.
    pub json_format: json::Format,
    csv: Option<&'a str>,
    out: Option<&'a Path>,
    pcap: &'a str,
    /// Whether a trace in the format of ns-2 accompanies each capture.
    trace: bool,
    /// The earlier result to compare the new result with.
    pub baseline: Option<Race>,
    /// The warnings that were printed before the race.
    printed_warnings: Vec<String>,
    /// Whether the text about the result is complete. Otherwise, the text has only the answer and the times.
    verbose: bool,
    /// The transports, whose settings the text explains.
    pub transports: &'a Transports,
    /// The output files, which were found to be writable.
    pub reserved: Vec<(ResultFormat, PendingFile)>,
}

/// The minimum width of the text in columns. Narrower terminals wrap its lines.
const MIN_COLUMNS: usize = 60;

/// The maximum width of the text in columns, because longer lines are hard to read.
const MAX_COLUMNS: usize = 120;

/// The format of a result file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultFormat {
    /// The complete result.
    Json,
    /// A table (CSV) with one row for each object.
    Csv,
}

impl<'a> RaceOutputs<'a> {
    fn interpret(matches: &'a ArgMatches, transports: &'a Transports) -> Result<Self, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let baseline = match text("compare") {
            None => None,
            Some(file) => {
                let wrong = |error: String| Failure::Usage(format!("--compare: {file}: {error}"));
                let old = plan::file::read(file, plan::file::MAX_RESULT).map_err(wrong)?;
                Some(Race::from_json(&old).map_err(wrong)?)
            }
        };
        for (name, form) in [("json", "a file, or -"), ("csv", "a file, or -"), ("out", "a directory")] {
            if text(name) == Some("") {
                return Err(Failure::Usage(format!("--{name}: a value is missing; write {form}")));
            }
        }
        if text("json") == Some("-") && text("csv") == Some("-") {
            return Err(Failure::Usage("--json and --csv cannot both go to standard output".to_owned()));
        }
        let divided = matches.contains_id("shard");
        if let Some(flag) =
            ["json", "csv", "compare"].into_iter().find(|flag| divided && text(flag).is_some())
        {
            return Err(Failure::Usage(format!(
                "--{flag}: a shard is no whole result; merge the shards first"
            )));
        }
        if text("pcap").is_some() && text("out").is_none() && text("resume").is_none() {
            return Err(Failure::Usage("--pcap: goes with --out DIR".to_owned()));
        }
        if text("trace-out").is_some() && (text("out").is_none() || text("pcap") == Some("off")) {
            return Err(Failure::Usage("--trace-out: goes with --out DIR, and with its captures".to_owned()));
        }
        Ok(Self {
            json: text("json"),
            json_format: match (text("json-version"), text("json-detail")) {
                (Some("2"), _) => json::Format::Two,
                (_, Some("all")) => json::Format::Whole,
                _ => json::Format::Drawn,
            },
            csv: text("csv"),
            out: text("out").map(Path::new),
            pcap: text("pcap").unwrap_or("median"),
            trace: text("trace-out").is_some(),
            baseline,
            printed_warnings: Vec::new(),
            verbose: matches.get_flag("verbose"),
            transports,
            reserved: Vec::new(),
        })
    }

    /// Reduces the earlier result to the points of the new plan, and prints how the two plans differ.
    fn align_baseline(&mut self, matches: &ArgMatches, planned: &Planned) -> Result<(), Failure> {
        let Some(old) = self.baseline.take() else { return Ok(()) };
        let file = matches.get_one::<String>("compare").map_or("", String::as_str);
        let (old, differences) = match planned {
            Planned::Race(plan) => baseline::align(old, file, plan, &baseline::factors(plan))?,
            // Each point is a person of a population. People have only a number and no settings, so their points are
            // not compared.
            Planned::Sweep(outline) if outline.people().is_some() => (old, None),
            Planned::Sweep(outline) => {
                let factors = outline.factors().map(|(factor, levels)| (factor.to_owned(), levels.to_vec()));
                baseline::align(old, file, outline.plan(), &factors.collect())?
            }
        };
        differences.iter().for_each(|line| complain(line));
        self.baseline = Some(old);
        Ok(())
    }

    /// Returns outputs that write no files.
    pub fn none(transports: &'a Transports) -> Self {
        let (printed_warnings, reserved) = (Vec::new(), Vec::new());
        Self {
            json: None,
            json_format: json::Format::Drawn,
            csv: None,
            out: None,
            pcap: "off",
            trace: false,
            baseline: None,
            printed_warnings,
            verbose: false,
            transports,
            reserved,
        }
    }

    /// Returns the elements of `warnings` that were not printed before the race.
    pub fn unprinted(&self, warnings: &[String]) -> Vec<String> {
        warnings.iter().filter(|warning| !self.printed_warnings.contains(warning)).cloned().collect()
    }

    /// Renders a race whose search for causes is not complete.
    fn unfinished(&self, race: &Race) -> Unfinished {
        let style = Style { interrupted: true, ..self.style() };
        let warnings = self.unprinted(&race.warnings);
        let text = table::render_warned(race, style, &self.transports.protocols(), &warnings);
        Unfinished { text, to_stderr: self.to_stdout().is_some() }
    }

    /// The format that is written to standard output instead of the table, if any.
    pub fn to_stdout(&self) -> Option<ResultFormat> {
        match (self.json, self.csv) {
            (Some("-"), _) => Some(ResultFormat::Json),
            (_, Some("-")) => Some(ResultFormat::Csv),
            _ => None,
        }
    }

    /// The style of the text, depending on where it is printed.
    pub fn style(&self) -> Style {
        let (terminal, size) = match self.to_stdout() {
            Some(_) => (std::io::stderr().is_terminal(), terminal_size_of(std::io::stderr())),
            None => (std::io::stdout().is_terminal(), terminal_size_of(std::io::stdout())),
        };
        let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = columns.or(size.map(|(width, _)| usize::from(width.0))).unwrap_or(table::COLUMNS);
        Style {
            width: width.clamp(MIN_COLUMNS, MAX_COLUMNS),
            color,
            verbose: self.verbose,
            pictures: terminal,
            interrupted: false,
        }
    }

    /// Checks before the first run that every output file can be written.
    pub fn reserve(mut self) -> Result<Self, Failure> {
        // The directory is created first, because the other output files may be inside it.
        if let Some(directory) = self.out {
            files::reserve_race_directory(directory)?;
        }
        for (kind, target) in [(ResultFormat::Json, self.json), (ResultFormat::Csv, self.csv)] {
            if let Some(target) = target.filter(|target| *target != "-") {
                self.reserved.push((kind, PendingFile::new(Path::new(target))?));
            }
        }
        if let [(_, json), (_, csv)] = self.reserved.as_slice()
            && json.same_target(csv)
        {
            return Err(Failure::Usage("--json and --csv name the same file; write two".to_owned()));
        }
        Ok(self)
    }

    /// Writes the result. For an emulated race, `captures` has the packets that were captured during the race. For a
    /// race in the simulator, `captures` is `None`: a run whose packets are wanted is run again.
    fn write(self, plan: &Plan, race: &Race, captures: Option<&[HostPackets]>) -> Result<(), Failure> {
        let (style, to_stdout) = (self.style(), self.to_stdout());
        let warnings = self.unprinted(&race.warnings);
        let text = json::render_as(race, self.json_format);
        // All files are written before the first is published, so that none appears if writing fails.
        let mut files = Vec::new();
        for (kind, file) in self.reserved {
            files.push(match kind {
                ResultFormat::Json => file.fill(text.as_bytes())?,
                ResultFormat::Csv => file.fill(csv::render(race).as_bytes())?,
            });
        }
        if let Some(directory) = self.out {
            let new =
                out::fill(directory, plan, race, &text, (self.pcap, captures), self.trace, self.transports)?;
            let old = out::left_over(directory, &new);
            if let [first, ..] = old.as_slice() {
                complain(&format!(
                    "'{}' holds {} captures or page loads of an earlier race, too, such as {first}; results.json tells \
                     nothing of them",
                    directory.display(),
                    old.len()
                ));
            }
            files.extend(new);
        }
        files::publish(files)?;
        let mut shown = table::render_warned(race, style, &self.transports.protocols(), &warnings);
        if let Some(baseline) = &self.baseline {
            shown += &format!("\n{}", compare::render(baseline, race));
        }
        let Some(kind) = to_stdout else { return say(&shown) };
        let _ = std::io::stderr().write_all(shown.as_bytes());
        match kind {
            ResultFormat::Json => say(&text),
            ResultFormat::Csv => say(&csv::render(race)),
        }
    }
}

/// Whether every transfer finished and every expectation was met.
fn verdict(race: &Race) -> Completion {
    let finished = race.points.iter().all(all_finished);
    if finished && race.expectations.iter().all(|expectation| expectation.met) {
        Completion::Well
    } else {
        Completion::Badly
    }
}

/// Whether every transfer at a point finished.
pub fn all_finished(point: &Point) -> bool {
    let mut runs = point.contestants.iter().flat_map(|contestant| &contestant.runs);
    runs.all(|run| run.outcome == Outcome::Done)
}
