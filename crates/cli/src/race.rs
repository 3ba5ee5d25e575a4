//! `anabranch race`.

use crate::files::{self, Reserved};
use crate::progress::Progress;
use crate::{Done, Failure, args, complain, list, out, say};
use anabranch_lab::plan::{self, Plan, PlanError};
use anabranch_lab::results::{Host, Outcome, Race, World};
use anabranch_lab::run::batch::{self, Options, RaceError};
#[cfg(target_os = "linux")]
use anabranch_lab::run::live;
use anabranch_lab::run::one::Kept;
use anabranch_lab::table::{self, Style};
use anabranch_lab::{compare, csv, json};
use clap::ArgMatches;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first interrupt.
static STOP: AtomicBool = AtomicBool::new(false);

/// Before anything else is done: reads the plan, unless there is something to list only. An emulated race may have to
/// change the process, which only one of one thread can.
pub fn prepare(matches: &ArgMatches) -> Result<Option<Plan>, Failure> {
    if matches.contains_id("list") {
        return Ok(None);
    }
    let file = matches.get_one::<String>("plan").map(String::as_str);
    let usage = |error: PlanError| Failure::Usage(error.to_string());
    let plan = plan::read(file, args::plan_flags(matches)).map_err(usage)?;
    match plan.world {
        World::Virtual => batch::check(&plan).map_err(usage)?,
        #[cfg(target_os = "linux")]
        World::Emulated => {
            live::check(&plan).map_err(usage)?;
            if !matches.get_flag("dry-run") {
                live::prepare().map_err(|error| Failure::Host(error.to_string()))?;
            }
        }
        #[cfg(not(target_os = "linux"))]
        World::Emulated => {}
    }
    Ok(Some(plan))
}

/// Does what the flags say, with the plan that [`prepare`] read.
pub fn run(matches: &ArgMatches, plan: Option<&Plan>) -> Result<Done, Failure> {
    let Some(plan) = plan else {
        let what = matches.get_one::<String>("list").map_or("", String::as_str);
        say(&list::render(what))?;
        return Ok(Done::Well);
    };
    let outputs = Outputs::interpret(matches)?;
    if matches.get_flag("dry-run") {
        say(&plan.to_toml())?;
        return Ok(Done::Well);
    }
    let outputs = outputs.reserve()?;
    let (threads, quiet) = (args::threads(matches), matches.get_flag("quiet"));
    if plan.world == World::Emulated {
        let (race, kept) = emulate(plan, threads, quiet, outputs.out.is_some() && outputs.pcap != "none")?;
        outputs.write(plan, &race, Some(&kept))?;
        return Ok(verdict(&race));
    }
    let race = perform(plan, threads, quiet)?;
    outputs.write(plan, &race, None)?;
    Ok(verdict(&race))
}

/// Runs a plan in real time.
#[cfg(target_os = "linux")]
fn emulate(plan: &Plan, threads: usize, quiet: bool, keep: bool) -> Result<(Race, Vec<Kept>), Failure> {
    let mut kept = Vec::new();
    let race = carry_out(plan, threads, quiet, |options| {
        let (race, captures) = live::race(plan, options, keep)?;
        kept = captures;
        Ok(race)
    });
    // What fails here is the host's doing, not a broken invariant.
    let race = race.map_err(|failure| match failure {
        Failure::Internal(line) => Failure::Host(line),
        other => other,
    })?;
    Ok((race, kept))
}

#[cfg(not(target_os = "linux"))]
fn emulate(_: &Plan, _: usize, _: bool, _: bool) -> Result<(Race, Vec<Kept>), Failure> {
    Err(Failure::Host("emulated races are there on Linux only".to_owned()))
}

/// From here on an interrupt ends the process with nothing partial left.
pub fn end_on_interrupt() {
    let _ = ctrlc::set_handler(|| {
        // A world may take seconds to its end: do not wait for it.
        STOP.store(true, Ordering::Relaxed);
        let _ = writeln!(std::io::stderr(), "\nanabranch: interrupted");
        files::abandon(130);
    });
}

/// Runs a plan over the machine's cores, showing progress.
pub fn perform(plan: &Plan, threads: usize, quiet: bool) -> Result<Race, Failure> {
    carry_out(plan, threads, quiet, |options| batch::race(plan, options))
}

/// Has a plan run, showing progress, and adds the facts of this machine.
fn carry_out(
    plan: &Plan,
    threads: usize,
    quiet: bool,
    run: impl FnOnce(&Options<'_>) -> Result<Race, RaceError>,
) -> Result<Race, Failure> {
    let progress = Progress::new(plan.most_runs(), quiet);
    let options = Options { threads, progress: &|done| progress.update(done), stop: &STOP };
    let race = run(&options);
    let elapsed = progress.finish();
    let mut race = race.map_err(|error| match error {
        RaceError::Interrupted => Failure::Interrupted,
        RaceError::Plan(error) => Failure::Usage(error.to_string()),
        RaceError::Run(line) => Failure::Internal(line),
    })?;
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

/// Where the result goes, besides the table.
struct Outputs<'a> {
    json: Option<&'a str>,
    csv: Option<&'a str>,
    out: Option<&'a Path>,
    pcap: &'a str,
    old: Option<Race>,
    reserved: Vec<(Kind, Reserved)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Csv,
}

impl<'a> Outputs<'a> {
    fn interpret(matches: &'a ArgMatches) -> Result<Self, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let old = match text("compare") {
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
        Ok(Self {
            json: text("json"),
            csv: text("csv"),
            out: text("out").map(Path::new),
            pcap: text("pcap").unwrap_or("median"),
            old,
            reserved: Vec::new(),
        })
    }

    /// Tries every place before anything is run.
    fn reserve(mut self) -> Result<Self, Failure> {
        // First the directory: the files may be meant to lie in it.
        if let Some(directory) = self.out {
            files::reserve_directory(directory)?;
        }
        for (kind, target) in [(Kind::Json, self.json), (Kind::Csv, self.csv)] {
            if let Some(target) = target.filter(|target| *target != "-") {
                self.reserved.push((kind, Reserved::new(Path::new(target))?));
            }
        }
        if let [(_, json), (_, csv)] = self.reserved.as_slice()
            && json.same_place(csv)
        {
            return Err(Failure::Usage("--json and --csv name the same file; write two".to_owned()));
        }
        Ok(self)
    }

    /// `kept`: the packets of a race that cannot be repeated for them.
    fn write(self, plan: &Plan, race: &Race, kept: Option<&[Kept]>) -> Result<(), Failure> {
        let text = json::render(race);
        // All of them or none.
        let mut files = Vec::new();
        for (kind, place) in self.reserved {
            files.push(match kind {
                Kind::Json => place.fill(text.as_bytes())?,
                Kind::Csv => place.fill(csv::render(race).as_bytes())?,
            });
        }
        if let Some(directory) = self.out {
            let new = out::fill(directory, plan, race, &text, (self.pcap, kept))?;
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
        let to_stdout = [self.json, self.csv].contains(&Some("-"));
        let terminal =
            if to_stdout { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let mut shown = table::render(race, Style { color, pictures: terminal });
        if let Some(old) = &self.old {
            shown += &format!("\n{}", compare::render(old, race));
        }
        if to_stdout {
            let _ = std::io::stderr().write_all(shown.as_bytes());
            if self.json == Some("-") {
                say(&text)?;
            } else {
                say(&csv::render(race))?;
            }
        } else {
            say(&shown)?;
        }
        Ok(())
    }
}

/// Whether every transfer finished and every expectation was met.
fn verdict(race: &Race) -> Done {
    let runs =
        race.points.iter().flat_map(|point| &point.contestants).flat_map(|contestant| &contestant.runs);
    let finished = runs.clone().all(|run| run.outcome == Outcome::Done);
    if finished && race.expectations.iter().all(|expectation| expectation.met) {
        Done::Well
    } else {
        Done::Badly
    }
}
