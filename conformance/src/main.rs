//! `anabranch-conformance FILE|DIR …`: runs scripts and says what was not as expected.
//!
//! Exit code 0 when all pass or are known deviations, 1 when one fails, 2 when
//! there is nothing to run.

use anabranch_conformance::{Deviations, Outcome, Summary, check_file, check_suite, scripts_in};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs packetdrill's SCTP scripts against the engine, in virtual time.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Scripts (*.pkt), suites (*.suite), or folders with such.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Prints every packet and call, also of scripts that pass.
    #[arg(short, long)]
    verbose: bool,
    /// A list of known deviations instead of the one that comes along.
    #[arg(long, value_name = "FILE")]
    deviations: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(summary) if summary.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<Summary, String> {
    let deviations = match &cli.deviations {
        None => Deviations::known(),
        Some(path) => {
            let said = |why: String| format!("{}: {why}", path.display());
            let text = std::fs::read_to_string(path).map_err(|error| said(error.to_string()))?;
            Deviations::read(&text).map_err(said)?
        }
    };
    let mut scripts = Vec::new();
    for path in &cli.paths {
        scripts.extend(scripts_in(path)?);
    }
    if scripts.is_empty() {
        return Err("there are no scripts (*.pkt) or suites (*.suite) here".to_owned());
    }
    let mut summary = Summary::default();
    let mut tell = |name: &str, outcome: &Outcome| {
        let said = summary.count(name, outcome, &deviations);
        if cli.verbose {
            println!("{name}");
            outcome.log().iter().for_each(|line| println!("{line}"));
        }
        if let Some(said) = said {
            println!("{said}");
        }
    };
    for path in &scripts {
        if path.extension().is_some_and(|extension| extension == "suite") {
            check_suite(path)?.iter().for_each(|(name, outcome)| tell(name, outcome));
        } else {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            tell(&name, &check_file(path));
        }
    }
    println!("{summary}");
    Ok(summary)
}
