//! anabranch as a Python module. It runs races in the Python process, and any command of the command line in a separate
//! process.
//!
//! Bad input raises an exception with the message that the command-line program would print. Runs use threads that this
//! module starts. Meanwhile the interpreter can run other Python threads, and an interrupt (Ctrl-C) stops the runs.
//!
//! Races run in the interpreter's process and return tables through the Arrow C Data Interface. Servers, links,
//! captures and studies take over a process, so they run the command line in a separate process. Sweeps, on threads or
//! on Dask, are written in Python on top of single races. The tests are in Python, because a Python extension module
//! cannot be linked into a Rust test program. `check.sh` builds the wheel and tests it in an environment without the
//! rest of this repository.

mod people;
mod race;
mod tables;

use anabranch_transports::Transports;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Carries out a command line, which begins with the program's name, and returns the exit code. The caller should be a
/// separate process, because the command line takes over signals and may end the process.
#[pyfunction]
fn run(arguments: Vec<OsString>) -> u8 {
    anabranch_cli::run_embedded(arguments, &transports())
}

/// Returns the transports of the package.
fn transports() -> Transports {
    Transports::standard()
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
