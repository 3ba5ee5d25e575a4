//! `--dry-run` on a real network: what would be done, a line for each thing, as it was asked for or by default.

use anabranch_transport::sctp::Config;
use clap::ArgMatches;
use std::fmt::Write;

/// The values of these flags, under their names; without one that has none.
pub fn flags(matches: &ArgMatches, names: &[&str]) -> String {
    let mut out = String::new();
    for name in names {
        let values = matches.get_raw(name).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        if !values.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name}: {}", values.join(", "));
        }
    }
    out
}

/// The knobs of SCTP as `--set` takes them.
pub fn knobs(config: &Config) -> String {
    let knobs = config.knobs().into_iter().map(|knob| format!("{}={}", knob.key, knob.value));
    format!("set: {}\n", knobs.collect::<Vec<_>>().join(","))
}
