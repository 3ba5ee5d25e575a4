//! Runs the tests of the command `accuracy` of `benches/`, which check its verdicts.
#![cfg(target_os = "linux")]

#[path = "../../../benches/src/bin/accuracy.rs"]
#[allow(dead_code, reason = "the command itself is not run here")]
mod accuracy;
