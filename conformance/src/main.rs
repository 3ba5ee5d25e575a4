//! `anabranch-conformance FILE|DIR …`: runs packetdrill scripts and prints how their results differ from the expected
//! ones.
//!
//! The exit code is 0 if all scripts pass or are known deviations, 1 if a script fails, and 2 if there is nothing to
//! run. `anabranch-conformance --rules` prints the table of the RFCs' rules instead.

use anabranch_conformance::{
    Deviations, Outcome, Rules, Stage, Stages, Summary, check_file, check_suite, rules, scripts_in,
};
use clap::Parser;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs packetdrill's SCTP scripts against the engine, in virtual time.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Scripts (*.pkt), suites (*.suite), or folders that contain them.
    #[arg(required_unless_present = "rules")]
    paths: Vec<PathBuf>,
    /// Prints every packet and call, also of scripts that pass.
    #[arg(short, long)]
    verbose: bool,
    /// A list of known deviations instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    deviations: Option<PathBuf>,
    /// A list of stages instead of the built-in list. Each stage has the keys script, peer_addresses (the number of the
    /// peer's addresses), towards (the expected destinations of data) and reason.
    #[arg(long, value_name = "FILE")]
    stages: Option<PathBuf>,
    /// The number of addresses that the peer has in a script without a stage.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    peer_addresses: u8,
    /// Prints each rule of the RFCs with the files that obey it and the tests that check it.
    #[arg(long, conflicts_with = "paths")]
    rules: bool,
    /// Prints only the rules that no test checks, each with the reason.
    #[arg(long, requires = "rules")]
    missing: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.rules {
        return print_rules(cli.missing);
    }
    match run(&cli) {
        Ok(summary) if summary.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn print_rules(missing: bool) -> ExitCode {
    match Rules::known() {
        Ok(all) => {
            // Errors are ignored, because the reader of a pipe may close it early.
            let _ = std::io::stdout().write_all(rules::table(&all, missing).as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

/// Reads a TOML table of deviations or stages from a file. The error has the form `file:line: description`.
fn read<T>(path: &Path, table: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    /// The maximum size of a table file, in bytes.
    const MOST: u64 = 1 << 20;
    let line = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    let size = std::fs::File::open(path).map_err(line)?.take(MOST + 1).read_to_string(&mut text);
    if size.map_err(line)? as u64 > MOST {
        return Err(format!("{}: a table has up to {MOST} bytes", path.display()));
    }
    table(&text).map_err(|why| format!("{}:{why}", path.display()))
}

fn run(cli: &Cli) -> Result<Summary, String> {
    let deviations = match &cli.deviations {
        None => Deviations::known(),
        Some(path) => read(path, Deviations::read)?,
    };
    let mut stages = match &cli.stages {
        None => Stages::known(),
        Some(path) => read(path, Stages::read)?,
    };
    stages.other = Stage { peer_addresses: cli.peer_addresses, ..Stage::default() };
    let mut scripts = Vec::new();
    for path in &cli.paths {
        scripts.extend(scripts_in(path)?);
    }
    if scripts.is_empty() {
        return Err("there are no scripts (*.pkt) or suites (*.suite) here".to_owned());
    }
    let mut summary = Summary::default();
    let mut tell = |script: &Path, name: &str, outcome: &Outcome| {
        let line = summary.count(&script.to_string_lossy(), outcome, &deviations);
        if let Some(stage) = stages.listed(name) {
            println!("{name}: its peer is given {} addresses: {}", stage.peer_addresses, stage.reason);
        }
        if cli.verbose {
            println!("{name}");
            outcome.log().iter().for_each(|line| println!("{line}"));
        }
        if let Some(line) = line {
            println!("{line}");
        }
    };
    for path in &scripts {
        // Deviations are listed by folder and file name. A path that is only a file name must therefore be made
        // absolute.
        let full_path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if path.extension().is_some_and(|extension| extension == "suite") {
            for (name, outcome) in check_suite(path, &stages)? {
                tell(&full_path.join(&name), &name, &outcome);
            }
        } else {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            tell(&full_path.with_extension(""), &name, &check_file(path, &stages));
        }
    }
    println!("{summary}");
    Ok(summary)
}
