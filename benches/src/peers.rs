//! The other simulators: ns-2 and ns-3 doing the same transfer.
//!
//! Each is run twice with the same seed: once counting the packets that cross
//! the link, once without any tracing and timed. The time of a run of 1 ms is
//! taken off: it is start-up.

use crate::{children_cpu, median};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A peer's speed.
#[derive(Clone, Debug)]
pub struct Speed {
    /// Packets that crossed the link, data and acknowledgements.
    pub transmissions: u64,
    /// Link transmissions in a CPU second, one for each run.
    pub rates: Vec<f64>,
}

impl Speed {
    /// The median of the runs.
    #[must_use]
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

/// The folder with the peers' scripts.
#[must_use]
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("speed")
}

/// Runs ns-2's `agent` (tcp or sctp) for `seconds` of its time, `runs` times.
///
/// # Errors
/// One line: ns-2 is not installed, or what it said.
pub fn ns2(agent: &str, seconds: u32, runs: u32) -> Result<Speed, String> {
    let script = scripts().join("ns2/bulk.tcl");
    measure(seconds, runs, |seed, seconds, count| {
        let mut command = Command::new("ns");
        command.arg(&script).args([agent, &seed.to_string(), seconds]);
        if count {
            command.arg("count");
        }
        command
    })
}

/// Runs ns-3's TCP for `seconds` of its time, `runs` times. The program is
/// compiled into `folder` first.
///
/// # Errors
/// One line: ns-3 or a compiler is not installed, or what it said.
pub fn ns3(folder: &Path, seconds: u32, runs: u32, checksums: bool) -> Result<Speed, String> {
    let binary = folder.join("ns3-bulk");
    let libraries = [
        "applications",
        "internet",
        "bridge",
        "traffic-control",
        "network",
        "stats",
        "point-to-point",
        "core",
    ];
    let compiled = Command::new("g++")
        .args(["-O2", "-o"])
        .arg(&binary)
        .arg(scripts().join("ns3/bulk.cc"))
        .args(libraries.map(|name| format!("-lns3-{name}")))
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("g++: {error}"))?;
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr);
        return Err(format!("ns-3 does not compile: {}", said.lines().next().unwrap_or("no reason given")));
    }
    measure(seconds, runs, |seed, seconds, count| {
        let mut command = Command::new(&binary);
        command.args([&seed.to_string(), seconds]);
        if count {
            command.arg("count");
        } else if checksums {
            command.arg("checksum");
        }
        command
    })
}

fn measure(seconds: u32, runs: u32, command: impl Fn(u32, &str, bool) -> Command) -> Result<Speed, String> {
    let run = |seed, seconds: &str, count| -> Result<(f64, String), String> {
        let mut command = command(seed, seconds, count);
        let before = children_cpu();
        let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
        let cpu = children_cpu() - before;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.lines().next().unwrap_or("it failed without a word").to_owned());
        }
        Ok((cpu, String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let startups: Result<Vec<f64>, String> =
        (0..runs).map(|_| run(1, "0.001", false).map(|(cpu, _)| cpu)).collect();
    let startup = median(&startups?);
    let length = seconds.to_string();
    let mut speed = Speed { transmissions: 0, rates: Vec::new() };
    for seed in 1..=runs {
        let (_, counts) = run(seed, &length, true)?;
        // Departures there and back; ns-2 prints bytes behind them.
        let transmissions: u64 =
            counts.split_whitespace().take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
        if transmissions == 0 {
            return Err(format!("no counts: '{}'", counts.trim()));
        }
        let (cpu, _) = run(seed, &length, false)?;
        speed.transmissions += transmissions;
        speed.rates.push(transmissions as f64 / (cpu - startup).max(1e-6));
    }
    Ok(speed)
}
