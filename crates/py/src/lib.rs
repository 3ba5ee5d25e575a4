//! anabranch as a module of Python: races in this process, and the whole command line for a process of its own.
//!
//! What is said of bad input is the command line's own sentence, raised as an exception. Runs go on in threads of ours while
//! the interpreter is free for others; an interrupt stops them.

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
