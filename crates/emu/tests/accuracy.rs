//! Runs the tests in the source of the command `accuracy` (`benches/`). They check the verdicts of that command.
#![cfg(target_os = "linux")]

#[path = "../../../benches/src/bin/accuracy.rs"]
#[allow(dead_code, reason = "the command itself is not run here")]
mod accuracy;
