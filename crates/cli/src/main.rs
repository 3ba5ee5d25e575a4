//! The executable `anabranch`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(anabranch_cli::run(std::env::args_os()))
}
