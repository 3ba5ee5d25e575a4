//! `anabranch study`: reproduces the results of papers. This module writes the directory that `--out` names: it saves
//! each measurement when it is complete, and the pages at the end.

mod bundle;
mod emulated;

pub use emulated::prepare;

use crate::files::EntryKind;
use crate::fit::say_fitted;
use crate::progress::Progress;
use crate::race::STOP;
use crate::{Completion, Failure, args, files, race, say};
use anabranch_lab::run::batch::Options;
use anabranch_papers::figures::hex;
use anabranch_papers::{
    Change, CopyStatus, Findings, NullStore, Seeds, Size, Step, Store, Study, StudyError, StudyRuns, summary,
    text, unchanged,
};
use anabranch_report::graph::Graph;
use anabranch_transports::Transports;
use clap::ArgMatches;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The version and the revision of the source code, which pages and bundles quote.
const SOURCE: &str = env!("ANABRANCH_SOURCE");

/// Carries out the `study` subcommand that the command line names.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    match matches.subcommand() {
        Some(("show", show)) => {
            let name = show.get_one::<String>("name").map_or("", String::as_str);
            say_fitted(&text::description(&open(name)?))?;
        }
        Some(("plan", plan)) => say(&plan_of(plan, transports)?)?,
        Some(("run", run)) if emulated::is_wanted(run) => return emulated::run(run, transports),
        Some(("run", run)) => return run_studies(run, transports, None, &say_fitted),
        Some(("bundle", bundle)) => return bundle::run(bundle, transports),
        _ => {
            let (listing, all) =
                text::listing(anabranch_papers::names().map(|name| (name, anabranch_papers::open(name))));
            say_fitted(&listing)?;
            return Ok(if all { Completion::Well } else { Completion::Badly });
        }
    }
    Ok(Completion::Well)
}

fn open(name: &str) -> Result<Study, Failure> {
    anabranch_papers::open(name).map_err(Failure::Usage)
}

/// Opens the study that `name` names, or the study in the folder `name`. If there is no such study, `name` has the form
/// `STUDY/TABLE`: opens the study before the last slash, and also returns the table's name.
fn open_with_table(name: &str) -> Result<(Study, Option<&str>), Failure> {
    anabranch_papers::open(name).map(|study| (study, None)).or_else(|error| {
        let parts = name.rsplit_once('/').filter(|(name, _)| !matches!(*name, "" | "." | ".."));
        let Some((name, table)) = parts else { return Err(Failure::Usage(error)) };
        let is_folder = Path::new(name).join(table).is_dir();
        let study = anabranch_papers::open(name).map_err(|other| if is_folder { error } else { other });
        Ok((study.map_err(Failure::Usage)?, Some(table)))
    })
}

/// Returns the studies to run, limited to the requested tables and with the added contestants. Also returns a line
/// about each added contestant.
fn requested_studies(matches: &ArgMatches) -> Result<(Vec<Study>, Vec<String>), Failure> {
    let named = matches.get_many::<String>("name").into_iter().flatten().map(String::as_str);
    let names: Vec<&str> =
        if matches.get_flag("all") { anabranch_papers::names().collect() } else { named.collect() };
    if names.is_empty() {
        return Err(Failure::Usage("study run: name a study (see `study list`), or --all".to_owned()));
    }
    let tables: Vec<&str> =
        matches.get_many::<String>("table").into_iter().flatten().map(String::as_str).collect();
    if names.len() > 1 && !tables.is_empty() {
        return Err(Failure::Usage("--table: needs exactly one study".to_owned()));
    }
    let also: Vec<String> = matches.get_many::<String>("also").into_iter().flatten().cloned().collect();
    let (mut studies, mut left) = (Vec::new(), Vec::new());
    for name in &names {
        let (mut study, table) = open_with_table(name)?;
        let own: Vec<&str> = table.into_iter().chain(tables.iter().copied()).collect();
        if !own.is_empty() {
            study = whole_or_part(study, &own, matches)?;
        }
        let levels = levels(matches)?;
        if !levels.is_empty() {
            study = study.only_at(&levels).map_err(|line| Failure::Usage(format!("--only: {line}")))?;
        }
        if skips_causes(matches) {
            study = study.without_causes();
        }
        left.extend(study.also(&also).map_err(|line| Failure::Usage(format!("--also: {line}")))?);
        studies.push(study);
    }
    let not = if left.is_empty() || also.is_empty() {
        String::new()
    } else {
        format!(" (not in {}, whose contestants share the network)", left.join(", "))
    };
    Ok((studies, also.into_iter().map(|contestant| contestant + &not).collect()))
}

/// Limits a study to `tables`. Fails if a requested analysis needs a table that is left out.
fn whole_or_part(study: Study, tables: &[&str], matches: &ArgMatches) -> Result<Study, Failure> {
    let first = study.tables.first().map(|table| table.name.clone()).unwrap_or_default();
    let scored = study.readings.is_some();
    let part = study.only(tables).map_err(Failure::Usage)?;
    let needs = |flag: &str, what: &str| Err(Failure::Usage(format!("--{flag}: {what}; leave --table out")));
    if matches.get_flag("readings") && scored && part.readings.is_none() {
        return needs("readings", "the study scores its readings by other tables, too");
    }
    if matches.get_flag("sensitivity") && part.table(&first).is_none() {
        return needs("sensitivity", &format!("looks at the study's first table, {first}"));
    }
    Ok(part)
}

/// Returns the levels to which `--only` limits the tables.
fn levels(matches: &ArgMatches) -> Result<BTreeMap<String, String>, Failure> {
    let mut levels = BTreeMap::new();
    for text in matches.get_many::<String>("only").into_iter().flatten() {
        let wrong = |line: &str| Failure::Usage(format!("--only: '{text}': {line}"));
        let pair = text.split_once('=').filter(|(key, level)| !key.is_empty() && !level.is_empty());
        let Some((key, level)) = pair else {
            return Err(wrong("KEY=LEVEL was expected, as objects=50x10KiB"));
        };
        if levels.insert(key.to_owned(), level.to_owned()).is_some() {
            return Err(wrong("this key was given before; one run has one level of it"));
        }
    }
    Ok(levels)
}

fn skips_causes(matches: &ArgMatches) -> bool {
    matches.get_one::<String>("causes").is_some_and(|word| word == "off")
}

/// Returns the plan of a study's table. `STUDY/TABLE` selects the table; the default is the first table.
fn plan_of(matches: &ArgMatches, transports: &Transports) -> Result<String, Failure> {
    let name = matches.get_one::<String>("name").map_or("", String::as_str);
    let (study, table) = open_with_table(name)?;
    let name = &study.definition.name;
    let found = match table {
        None => study.tables.first(),
        Some(table) => study.table(table),
    };
    let tables: Vec<&str> = study.tables.iter().map(|table| table.name.as_str()).collect();
    let table = found.ok_or_else(|| {
        Failure::Usage(format!(
            "study {name}: no table '{}'; there are {}",
            table.unwrap_or(""),
            tables.join(", ")
        ))
    })?;
    let runs = if matches.get_flag("quick") { table.definition.quick_runs } else { table.definition.runs };
    let (changes, seeds) = (changes(matches)?, Seeds { runs, first: 1, changes: &[], transports });
    let of_contestants = changes.iter().find_map(|change| study.setting_of_contestants(change, transports));
    if let Some(line) = of_contestants.or_else(|| study.first_unsupported_change(&changes)) {
        return Err(Failure::Usage(format!("--set: {line}")));
    }
    let draft = table.draft(runs, 1, &Seeds { changes: &changes, ..seeds }.changes_of(table, &[]));
    let draft = draft.map_err(Failure::Usage)?;
    // Interprets the plan, so that an invalid value is reported now and not when the plan is run.
    table
        .table_points(&draft, &BTreeMap::new(), None, transports)
        .map_err(|line| Failure::Usage(if changes.is_empty() { line } else { format!("--set: {line}") }))?;
    Ok(toml::to_string(&draft.to_toml()).unwrap_or_default())
}

fn changes(matches: &ArgMatches) -> Result<Vec<Change>, Failure> {
    let texts = matches.get_many::<String>("set").into_iter().flatten();
    texts.map(|text| Change::parse(text).map_err(|error| Failure::Usage(format!("--set: {error}")))).collect()
}

/// The studies that `study run` names, with the settings that apply to all of them.
struct Request<'a> {
    matches: &'a ArgMatches,
    transports: &'a Transports,
    /// The studies, limited to the requested tables and with the added contestants.
    studies: Vec<Study>,
    /// For each contestant that the user added: a line about it.
    also: Vec<String>,
    changes: Vec<Change>,
    size: Size,
    /// The first seed.
    first_seed: u64,
}

impl<'a> Request<'a> {
    fn read(matches: &'a ArgMatches, transports: &'a Transports) -> Result<Self, Failure> {
        // Looks up every name, tries every change, and checks that every output can be written, before the first race.
        let (studies, also) = requested_studies(matches)?;
        let changes = changes(matches)?;
        if skips_causes(matches) && matches.get_flag("sensitivity") {
            return Err(Failure::Usage(
                "--causes off: --sensitivity scores the causes, too; leave one out".to_owned(),
            ));
        }
        for key in levels(matches)?.keys() {
            if let Some(change) = changes.iter().find(|change| change.factor().as_ref() == Some(key)) {
                return Err(Failure::Usage(format!(
                    "--only: {key}: --set {change} gives it one value already"
                )));
            }
        }
        let size = match matches.get_one::<u64>("runs") {
            Some(runs) => Size::Runs(*runs),
            None if matches.get_flag("quick") => Size::Quick,
            None => Size::Full,
        };
        let first_seed = matches.get_one::<u64>("seed").copied().unwrap_or(1);
        Ok(Self { matches, transports, studies, also, changes, size, first_seed })
    }

    fn seeds(&self) -> Seeds<'_> {
        Seeds { runs: 0, first: self.first_seed, changes: &self.changes, transports: self.transports }
    }

    /// Whether the studies run as their authors wrote them.
    fn is_plain(&self) -> bool {
        self.changes.is_empty() && self.also.is_empty()
    }

    /// Returns the runs of each study. Fails if a study does not support a change from `--set` or `--also`.
    fn counts(&self) -> Result<Vec<Vec<Step>>, Failure> {
        let set = |line: String| Failure::Usage(format!("--set: {line}"));
        let count = |study: &Study| {
            let of_contestants =
                self.changes.iter().find_map(|change| study.setting_of_contestants(change, self.transports));
            let unsupported = of_contestants.or_else(|| study.first_unsupported_change(&self.changes));
            if let Some(line) = unsupported.or_else(|| study.first_fixed_label(&self.changes)) {
                return Err(set(line));
            }
            self.runs_of(study, &NullStore).map_err(|error| match error {
                StudyError::Change(line) if !self.changes.is_empty() => set(line),
                StudyError::Change(line) if !self.also.is_empty() => {
                    Failure::Usage(format!("--also: {line}"))
                }
                error => failure(error),
            })
        };
        self.studies.iter().map(count).collect()
    }

    /// Returns the runs of a study that are missing in `store`, in the order in which they are made. With `--readings`,
    /// the runs of the paper's alternative readings count, too. The runs for their calibration do not count, because
    /// their number is not known in advance. Fails if a change to a plan of the study does not fit that plan.
    fn runs_of(&self, study: &Study, store: &dyn Store) -> Result<Vec<Step>, StudyError> {
        let (seeds, mut bench) = (self.seeds(), StudyRuns::counting(store));
        study.run(self.size, &seeds, &mut bench)?;
        let mut of_readings = None;
        if let Some(readings) = study.readings.as_ref().filter(|_| self.matches.get_flag("readings")) {
            let wrong = |line| StudyError::Change(format!("{}/{line}", study.definition.name));
            let runs = study.reading_count(readings, self.size, &seeds).map_err(wrong)?;
            of_readings = Some((bench.steps().len(), runs));
        }
        if self.matches.get_flag("sensitivity") {
            study.sensitivity(&seeds, &mut bench)?;
        }
        self.run_without(study, &mut bench)?;
        let mut steps = bench.steps().to_vec();
        if let Some((at, runs)) = of_readings {
            // A run of a reading is taken to cost what the runs before it cost on average.
            let [before, cost] = steps[..at]
                .iter()
                .fold([0.0, 0.0], |[runs, cost], step| [runs + step.runs as f64, cost + step.cost]);
            let of_a_run = if before > 0.0 { cost / before } else { 1.0 };
            steps.insert(at, Step { runs, cost: of_a_run * runs as f64 });
        }
        Ok(steps)
    }

    /// Opens the directory of `--out`, if it is given.
    fn directory(&self) -> Result<Option<Directory>, Failure> {
        let resume = self.matches.get_flag("resume");
        match self.matches.get_one::<String>("out") {
            Some(path) => {
                let identity = identity(&self.studies, self.size, &self.seeds());
                Directory::begin(Path::new(path), &identity, resume).map(Some)
            }
            None if resume => Err(Failure::Usage("--resume: needs --out DIR".to_owned())),
            None => Ok(None),
        }
    }

    /// Runs a study without the changes of `--set`; `None` if there are none.
    fn run_without(&self, study: &Study, bench: &mut StudyRuns<'_>) -> Result<Option<Findings>, StudyError> {
        let plain = Seeds { changes: &[], ..self.seeds() };
        (!self.changes.is_empty()).then(|| study.run(self.size, &plain, bench)).transpose()
    }

    /// Runs a study, including the additional analyses that the flags request.
    fn run_study(&self, study: &Study, bench: &mut StudyRuns<'_>) -> Result<Findings, StudyError> {
        let seeds = self.seeds();
        let mut findings = study.run(self.size, &seeds, bench)?;
        if let Some(readings) = study.readings.as_ref().filter(|_| self.matches.get_flag("readings")) {
            findings.scores = Some(study.score(readings, self.size, &seeds, bench)?);
        }
        if self.matches.get_flag("sensitivity") {
            findings.sensitivity = Some(study.sensitivity(&seeds, bench)?);
        }
        Ok(findings)
    }

    /// Describes the changes that the flags make to a study.
    fn changed(&self, study: &Study) -> String {
        text::changed(study, &self.changes, &self.also, self.first_seed)
    }

    /// Passes the findings of a study to `say`. `without` are the findings without the changes of `--set`; a comparison
    /// with them comes first. Returns true if all claims of the study are met. Without `--set`, `--also` and `--seed`,
    /// the findings are also compared with the stored findings; if the two differ, returns false.
    fn tell(
        &self,
        study: &Study,
        findings: &Findings,
        without: Option<&Findings>,
        say: Say<'_>,
    ) -> Result<bool, Failure> {
        say(&self.changed(study))?;
        for found in &findings.tables {
            let table = study.table(&found.name);
            let line = table.and_then(|table| table.too_few_runs(&found.figures, self.size.of(table)));
            if let Some(line) = line {
                say(&format!("warning: {}/{line}\n", study.definition.name))?;
            }
        }
        // A shipped study keeps the settings of the paper's test bed on purpose, so it prints no warnings about
        // outdated settings.
        if study.copy != CopyStatus::Same || !self.is_plain() {
            for warning in study.warnings(self.size, &self.seeds()).map_err(Failure::Usage)? {
                say(&format!("warning: {}/{warning}\n", study.definition.name))?;
            }
        }
        let whole = self.studies.len() == 1;
        if let Some(without) = without.filter(|_| whole) {
            say(&unchanged::text(study, without, findings, &self.changes))?;
        }
        say(&if whole { text::comparison(study, findings) } else { summary::summary(study, findings) })?;
        if let Some(scores) = &findings.scores {
            say(&text::readings(study, scores))?;
        }
        if let Some(sensitivity) = &findings.sensitivity {
            say(&text::sensitivity(study, sensitivity))?;
        }
        if !(self.is_plain() && self.first_seed == 1) {
            return Ok(findings.is_met());
        }
        let (report, is_same) = text::compare_with_stored(study, findings);
        say(&report)?;
        Ok(findings.is_met() && is_same)
    }

    /// Returns the command that reproduces the page of a study.
    fn command(&self, study: &Study) -> String {
        let matches = self.matches;
        let mut command = format!("anabranch study run {}", study.opened);
        if study.part.is_some() {
            command.extend(study.tables.iter().map(|table| format!(" --table {}", table.name)));
        }
        for flag in ["quick", "readings", "sensitivity"] {
            if matches.get_flag(flag) {
                command += &format!(" --{flag}");
            }
        }
        if skips_causes(matches) {
            command += " --causes off";
        }
        for flag in ["runs", "seed"] {
            let value = matches.get_one::<u64>(flag);
            if let Some(value) = value.filter(|value| flag == "runs" || **value != 1) {
                command += &format!(" --{flag} {value}");
            }
        }
        for flag in ["only", "set", "also"] {
            for value in matches.get_many::<String>(flag).into_iter().flatten() {
                command += &format!(" --{flag} '{value}'");
            }
        }
        command + " --out DIR"
    }
}

/// A function that prints text, or stores it.
type Say<'a> = &'a dyn Fn(&str) -> Result<(), Failure>;

/// Runs studies and passes their output to `say`. The output may contain commands that name the folder of a study. If
/// this folder is below `root`, its name in the commands is relative to `root`.
fn run_studies(
    matches: &ArgMatches,
    transports: &Transports,
    root: Option<&Path>,
    say: Say<'_>,
) -> Result<Completion, Failure> {
    // Before the first race, look up every name, try every change, and check that every output can be written.
    let mut request = Request::read(matches, transports)?;
    for study in &mut request.studies {
        let relative = root.and_then(|root| Path::new(&study.opened).strip_prefix(root).ok());
        if let Some(relative) = relative.map(|path| path.to_string_lossy().into_owned()) {
            study.opened = relative;
        }
    }
    let mut steps = request.counts()?;
    let total = runs_in(&steps.concat());
    let directory = request.directory()?;
    let store: &dyn Store = directory.as_ref().map_or(&NullStore, |directory| directory);
    if matches.get_flag("resume") {
        let left = request.studies.iter().map(|study| request.runs_of(study, store));
        steps = left.collect::<Result<_, _>>().map_err(failure)?;
    }
    let counts: Vec<usize> = steps.iter().map(|steps| runs_in(steps)).collect();
    let costs = steps.concat().iter().map(|step| (step.runs, step.cost)).collect();
    let stored = total.saturating_sub(counts.iter().sum());
    let (threads, progress) =
        (args::threads(matches), Progress::of_steps(stored, costs, matches.get_flag("quiet")));
    let (mut before, mut met, mut all) = (0, true, Vec::new());
    for (study, count) in request.studies.iter().zip(counts) {
        let options = Options { threads, progress: &|done| progress.update(before + done), stop: &STOP };
        let mut bench = StudyRuns::new(&options, store);
        let findings = request.run_study(study, &mut bench);
        let without = findings.is_ok().then(|| request.run_without(study, &mut bench));
        before += count;
        progress.finish();
        let findings = findings.map_err(failure)?;
        let without = without.transpose().map_err(failure)?.flatten();
        met &= request.tell(study, &findings, without.as_ref(), say)?;
        if let Some(directory) = &directory {
            let options = Options { threads, progress: &|_| {}, stop: &STOP };
            let graphs = study.graphs(&request.seeds(), &options).map_err(failure)?;
            directory.publish(&request, study, (&findings, without.as_ref()), graphs)?;
        }
        all.push((study, findings));
    }
    if let Some(directory) = &directory {
        let mut changed: Vec<String> = request.studies.iter().map(|study| request.changed(study)).collect();
        changed.dedup();
        let outcomes =
            changed.concat() + &text::outcomes(all.iter().map(|(study, findings)| (*study, findings)));
        files::write_own(&directory.path.join("outcomes.md"), outcomes.as_bytes())?;
    }
    // The claims of a study apply to its own settings. If the user changed settings, an unmet claim is no failure.
    Ok(if met || !request.changes.is_empty() { Completion::Well } else { Completion::Badly })
}

fn runs_in(steps: &[Step]) -> usize {
    steps.iter().map(|step| step.runs).sum()
}

fn failure(error: StudyError) -> Failure {
    match error {
        StudyError::Race(error) => race::failure(error),
        StudyError::Store(line) => Failure::Host(line),
        StudyError::Change(line) => Failure::Usage(line),
    }
}

/// Returns a digest of everything that determines the files of a `study run`. `--resume` requires the same digest.
fn identity(studies: &[Study], size: Size, seeds: &Seeds<'_>) -> String {
    let mut text = format!("{} {size:?} {} {:?}\n", env!("CARGO_PKG_VERSION"), seeds.first, seeds.changes);
    for study in studies {
        text += &format!("{study:?}\n");
    }
    hex(text.as_bytes())
}

/// The name of the file that records which command a directory belongs to.
const IDENTITY: &str = "study-run";

/// The directory that `--out` names.
struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens a new or empty directory or, with `resume`, a directory that the same command began.
    fn begin(path: &Path, identity: &str, resume: bool) -> Result<Self, Failure> {
        files::reserve_directory(path)?;
        let own = Self { path: path.to_owned() };
        let shown = path.display();
        files::has_own(&path.join(IDENTITY), EntryKind::File)?;
        match fs::read_to_string(path.join(IDENTITY)) {
            Ok(_) if !resume => {
                return Err(Failure::Usage(format!(
                    "--out: '{shown}' holds a run already; add --resume, or name another"
                )));
            }
            Ok(found) if found.trim_end() != identity => {
                return Err(Failure::Usage(format!(
                    "--resume: '{shown}' holds a run of other studies, settings or of another version"
                )));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut entries =
                    fs::read_dir(path).map_err(|e| Failure::Host(format!("cannot read '{shown}': {e}")))?;
                if entries.next().is_some() {
                    return Err(Failure::Usage(format!(
                        "--out: '{shown}' is not empty; name another directory"
                    )));
                }
                files::write(&path.join(IDENTITY), format!("{identity}\n").as_bytes())?;
            }
            Err(error) => return Err(Failure::Host(format!("cannot read '{shown}': {error}"))),
        }
        files::reserve_own_directory(&path.join("figures"))?;
        Ok(own)
    }

    /// Writes the page and the other result files of a study.
    fn publish(
        &self,
        request: &Request<'_>,
        study: &Study,
        (findings, without): (&Findings, Option<&Findings>),
        graphs: Vec<Graph>,
    ) -> Result<(), Failure> {
        let (changed, command) = (request.changed(study), request.command(study));
        let folder = self.path.join(&study.definition.name);
        files::reserve_own_directory(&folder)?;
        let changes_line = if changed.is_empty() { String::new() } else { format!("{changed}\n") };
        let mut written = vec![
            ("cells.csv", text::cells_csv(findings)),
            ("claims.csv", text::claims_csv(findings)),
            ("causes.csv", text::causes_csv(findings)),
            ("page.md", changes_line + &anabranch_papers::quote::filled(study, findings)),
            (
                "study.html",
                anabranch_papers::page::html(
                    study,
                    findings,
                    without,
                    graphs,
                    &request.seeds(),
                    [&changed, &command, SOURCE],
                ),
            ),
        ];
        written.extend(
            findings
                .scores
                .as_ref()
                .map(|scores| ("readings.csv", anabranch_papers::stored_scores::readings_csv(scores))),
        );
        let sensitivity = findings.sensitivity.as_ref();
        written.extend(
            sensitivity
                .map(|found| ("sensitivity.csv", anabranch_papers::stored_scores::sensitivity_csv(found))),
        );
        for (name, content) in written {
            files::write_own(&folder.join(name), content.as_bytes())?;
        }
        let tables = folder.join("tables");
        files::reserve_own_directory(&tables)?;
        for found in &findings.tables {
            let Some(table) = study.table(&found.name) else { continue };
            let content = anabranch_papers::measured::csv(table, found);
            files::write_own(&tables.join(format!("{}.csv", found.name)), content.as_bytes())?;
        }
        Ok(())
    }
}

impl Store for Directory {
    fn load(&self, name: &str) -> Result<Option<String>, String> {
        let path = self.path.join("figures").join(name);
        files::has_own(&path, EntryKind::File).map_err(Failure::line)?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read '{}': {error}", path.display())),
        }
    }

    fn save(&self, name: &str, text: &str) -> Result<(), String> {
        files::write_own(&self.path.join("figures").join(name), text.as_bytes()).map_err(Failure::line)
    }
}
