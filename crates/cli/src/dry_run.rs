//! The output of `--dry-run` on a real network: one line for each setting, including the settings with default values.

use clap::ArgMatches;
use std::fmt::Write;

/// Returns one line for each flag in `names` that has a value.
pub fn flags(matches: &ArgMatches, names: &[&str]) -> String {
    let mut out = String::new();
    for name in names {
        let values = matches.get_raw(name).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        if !values.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name}: {}", values.join(", "));
        }
    }
    out
}
