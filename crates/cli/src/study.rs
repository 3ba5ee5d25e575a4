//! `anabranch study`: the papers.

use crate::{Done, Failure};
use clap::ArgMatches;

/// Does what the flags say.
pub fn run(matches: &ArgMatches) -> Result<Done, Failure> {
    let _ = matches;
    Err(Failure::Usage("no study is shipped yet".to_owned()))
}
