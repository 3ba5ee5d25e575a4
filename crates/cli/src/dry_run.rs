//! The output of `--dry-run` on a real network: one line for each setting, whether it was given or is the default.

use crate::place::Carrier;
use anabranch_base::knobs::Table;
use anabranch_transport::sctp::Config;
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

/// Lists the SCTP knobs in the form that `--set` accepts.
pub fn knobs(config: &Config) -> String {
    let knobs = config.knobs().into_iter().map(|knob| format!("{}={}", knob.key, knob.value));
    format!("set: {}\n", knobs.collect::<Vec<_>>().join(","))
}

/// Lists the knobs of SCTP, of QUIC, or of both, depending on `carriers`.
pub fn both_knobs(
    carriers: impl IntoIterator<Item = Carrier>,
    sctp: &Config,
    quic: &anabranch_quic::Config,
) -> String {
    let carriers: Vec<Carrier> = carriers.into_iter().collect();
    let mut out = String::new();
    if !carriers.iter().any(|carrier| carrier.is_http3())
        || carriers.iter().any(|carrier| !carrier.is_http3() && !carrier.is_kernels())
    {
        out += &knobs(sctp);
    }
    if carriers.iter().any(|carrier| carrier.is_http3()) {
        let knobs = quic.list().into_iter().map(|knob| format!("{}={}", knob.key, knob.value));
        out += &format!("set (QUIC): {}\n", knobs.collect::<Vec<_>>().join(","));
    }
    out
}
