//! `anabranch study`: the papers.

use crate::{Done, Failure, args, files, race, say};
use anabranch_lab::study::{self, Study, comparison_table, description, listing};
use anabranch_lab::{json, table};
use clap::ArgMatches;
use std::path::Path;

/// Does what the flags say.
pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
    match matches.subcommand() {
        Some(("show", show)) => {
            let name = show.get_one::<String>("name").map_or("", String::as_str);
            say(&description(&open(name)?))?;
        }
        Some(("run", run)) => return run_studies(run),
        _ => say(&listing())?,
    }
    Ok(Done::Well)
}

fn open(name: &str) -> Result<Study, Failure> {
    study::open(name).map_err(Failure::Usage)
}

fn run_studies(matches: &ArgMatches) -> Result<Done, Failure> {
    let named = matches.get_many::<String>("name").into_iter().flatten().map(String::as_str);
    let names: Vec<&str> = if matches.get_flag("all") { study::names().collect() } else { named.collect() };
    if names.is_empty() {
        return Err(Failure::Usage("study run: name a study (see `study list`), or --all".to_owned()));
    }
    // Every name is looked up, and every place tried, before the first race.
    let studies = names.iter().map(|name| open(name)).collect::<Result<Vec<_>, _>>()?;
    let out = matches.get_one::<String>("out").map(Path::new);
    if let Some(directory) = out {
        files::reserve_directory(directory)?;
    }
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(1);
    let mut met = true;
    for (position, study) in studies.iter().enumerate() {
        let usual = if matches.get_flag("quick") { study.definition.quick_runs } else { 30 };
        let runs = matches.get_one::<u64>("runs").copied().unwrap_or(usual);
        let plan = study.plan(runs, seed).map_err(Failure::Internal)?;
        let found = race::perform(&plan, args::threads(matches), matches.get_flag("quiet"))?;
        let cells = study.compare(&found).map_err(Failure::Internal)?;
        if position > 0 {
            say("\n")?;
        }
        say(&comparison_table(study, &cells))?;
        say(&table::expectations(&found.expectations))?;
        met &= found.expectations.iter().all(|expectation| expectation.met);
        if let Some(directory) = out {
            let directory = directory.join(&study.definition.name);
            files::reserve_directory(&directory)?;
            files::write(&directory.join("results.json"), json::render(&found).as_bytes())?;
        }
    }
    Ok(if met { Done::Well } else { Done::Badly })
}
