//! `anabranch study run --world emulated`: runs the protocols of this host's kernel on emulated test beds of studies.
//! The results are compared with the published values and with the simulation.
//!
//! Everything that this host cannot run is reported before the first run. Then the emulated runs of each study take
//! place in real time. By default there is one run at a time, because concurrent runs would compete for the CPU.

use super::{Directory, failure, identity, open};
use crate::fit::say_fitted;
use crate::race::{self, STOP};
use crate::{Completion, Failure, args, files};
use anabranch_lab::plan::Plan;
use anabranch_lab::run::batch::Options;
use anabranch_papers::emulated::{self, EmulatedTable};
use anabranch_papers::{Emulated, NullStore, Seeds, Size, Store, Study, StudyRuns, names};
use anabranch_transports::Transports;
use clap::ArgMatches;
use std::path::Path;

/// Whether the flags of `study run` select the emulated network.
pub fn is_wanted(run: &ArgMatches) -> bool {
    run.get_one::<String>("world").is_some_and(|world| world == "emulated")
}

/// Prepares the process before anything else runs. An emulated race may have to enter new namespaces, which is possible
/// only with a single thread.
///
/// # Errors
/// The request is wrong, or this host does not permit emulation.
pub fn prepare(matches: &ArgMatches, transports: &Transports) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("run", run)) if is_wanted(run) => {
            let studies = studies(run)?;
            plans(run, &studies, transports)?;
            if studies.iter().all(|study| study.emulated.is_empty()) {
                return Ok(());
            }
            race::prepare_host()
        }
        _ => Ok(()),
    }
}

fn studies(run: &ArgMatches) -> Result<Vec<Study>, Failure> {
    let named = run.get_many::<String>("name").into_iter().flatten().map(String::as_str);
    let names: Vec<&str> = if run.get_flag("all") { names().collect() } else { named.collect() };
    if names.is_empty() {
        return Err(Failure::Usage("study run: name a study (see `study list`), or --all".to_owned()));
    }
    names.iter().map(|name| open(name)).collect()
}

/// Returns the plans of the emulated test beds of all studies, in the order of the studies.
fn plans<'a>(
    run: &ArgMatches,
    studies: &'a [Study],
    transports: &Transports,
) -> Result<Vec<(&'a Study, &'a Emulated, Plan)>, Failure> {
    for flag in ["table", "also", "only"] {
        if run.contains_id(flag) {
            return Err(Failure::Usage(format!("--{flag}: is for the virtual world")));
        }
    }
    for flag in ["sensitivity", "resume"] {
        if run.get_flag(flag) {
            return Err(Failure::Usage(format!("--{flag}: is for the virtual world")));
        }
    }
    if super::skips_causes(run) {
        return Err(Failure::Usage("--causes: is for the virtual world, which alone runs causes".to_owned()));
    }
    if run.contains_id("set") {
        return Err(Failure::Usage(
            "--set: is for the virtual world; `race` runs any plan in the emulated one".to_owned(),
        ));
    }
    let (runs, seed) = (run.get_one::<u64>("runs").copied(), first_seed(run));
    let tables =
        studies.iter().flat_map(|study| study.emulated.iter().map(move |emulated| (study, emulated)));
    let plans =
        tables.map(|(study, emulated)| Ok((study, emulated, emulated.plan(study, runs, seed, transports)?)));
    plans.collect::<Result<_, String>>().map_err(Failure::Usage)
}

fn first_seed(run: &ArgMatches) -> u64 {
    run.get_one::<u64>("seed").copied().unwrap_or(1)
}

/// Runs the emulated test beds of the studies.
///
/// # Errors
/// Fails before the first run if the arguments are wrong, or if this host cannot emulate the networks. Fails later if a
/// run fails or its result cannot be written.
pub fn run(run: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let studies = studies(run)?;
    let plans = plans(run, &studies, transports)?;
    for (_, _, plan) in &plans {
        race::is_possible(plan)?;
    }
    let size = if run.get_flag("quick") { Size::Quick } else { Size::Full };
    let seeds = Seeds { runs: 0, first: first_seed(run), changes: &[], transports };
    let directory = run.get_one::<String>("out").map(Path::new).map(|path| {
        let identity = format!("emulated {}", identity(&studies, size, &seeds));
        Directory::begin(path, &identity, false)
    });
    let directory = directory.transpose()?;
    let quiet = run.get_flag("quiet");
    let at_a_time = run.get_one::<u16>("threads").map_or(1, |threads| usize::from(*threads));
    for study in &studies {
        let own = plans.iter().filter(|(of, _, _)| std::ptr::eq(*of, study));
        let mut tables: Vec<EmulatedTable> = Vec::new();
        for (_, emulated, plan) in own {
            let (race, _) = race::emulate(plan, at_a_time, quiet, false)?;
            let options = Options { threads: args::threads(run), progress: &|_| {}, stop: &STOP };
            let store: &dyn Store = directory.as_ref().map_or(&NullStore, |directory| directory);
            let table = study.table(&emulated.of);
            let seeds = Seeds { runs: table.map_or(1, |table| size.of(table)), ..seeds };
            tables.push(
                emulated
                    .emulated_table(study, &race, &seeds, &mut StudyRuns::new(&options, store))
                    .map_err(failure)?,
            );
        }
        if tables.is_empty() {
            say_fitted(&format!("{}\n", emulated::none(study)))?;
            continue;
        }
        say_fitted(&emulated::text(study, &tables))?;
        if let Some(directory) = &directory {
            let folder = directory.path.join(&study.definition.name);
            files::reserve_own_directory(&folder)?;
            files::write_own(&folder.join("emulated.csv"), emulated::csv(&tables).as_bytes())?;
        }
    }
    Ok(Completion::Well)
}
