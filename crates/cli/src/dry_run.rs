//! `--dry-run` on a real network: what would be done, a line for each thing, as it was asked for or by default.

use crate::place::Carrier;
use anabranch_base::knobs::Table;
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

/// Those of SCTP, of QUIC, or of both, as these carriers have them.
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
