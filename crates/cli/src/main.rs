//! The executable `anabranch`.

use anabranch_transports::Transports;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(anabranch_cli::run(std::env::args_os(), &Transports::standard()))
}
