//! anabranch as a module of Python: races in this process, and the whole command line for a process of its own.
//!
//! What is said of bad input is the command line's own sentence, raised as an exception. Runs go on in threads of ours while
//! the interpreter is free for others; an interrupt stops them.
//!
//! Races run in the interpreter's process, in threads of ours, and give tables by the Arrow C Data Interface. Server, link, capture and
//! study take a process over, so they are the command line in a process of its own. Sweeps, on threads or on Dask, are Python over that.
//! Tests are Python's, because a module of Python cannot be linked into a test program of Rust. `check.sh` builds the wheel and tests it
//! where nothing else of ours is.

mod people;
mod race;
mod tables;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Does what a command line says, the program's name first, and gives the exit code. For a process of its own: it takes
/// signals over, and may end the process.
#[pyfunction]
fn run(words: Vec<OsString>) -> u8 {
    anabranch_cli::run_within(words)
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::people::People;
    #[pymodule_export]
    use super::race::{PlanError, Points, Race, race};
    #[pymodule_export]
    use super::run;
    #[pymodule_export]
    use super::tables::{Table, read_csv};
}
