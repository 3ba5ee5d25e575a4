//! `anabranch features`: prints a table of the features of UDP, TCP and SCTP. A simulation determines each cell of the
//! table.

use crate::files::{self, PendingFile};
use crate::progress::Progress;
use crate::{Completion, Failure, say};
use clap::ArgMatches;
use std::io::Write;
use std::path::Path;

/// Runs the `features` command.
pub fn run(matches: &ArgMatches) -> Result<Completion, Failure> {
    let json = matches.get_one::<String>("json").map(String::as_str);
    if json == Some("") {
        return Err(Failure::Usage("--json: a value is missing; write a file, or -".to_owned()));
    }
    let output_file =
        json.filter(|target| *target != "-").map(|target| PendingFile::new(Path::new(target))).transpose()?;
    let progress = Progress::new(anabranch_features::ROWS, matches.get_flag("quiet"));
    let found = anabranch_features::run(|done| progress.update(done)).map_err(Failure::Internal)?;
    progress.finish();
    if let Some(output_file) = output_file {
        files::publish(vec![output_file.fill(found.to_json().as_bytes())?])?;
    }
    if json == Some("-") {
        say(&found.to_json())?;
        let _ = write!(std::io::stderr(), "{}", found.render());
    } else {
        say(&found.render())?;
    }
    Ok(if found.unexplained() == 0 { Completion::Well } else { Completion::Badly })
}
