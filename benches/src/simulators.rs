//! Runs the transfer of the benchmark `speed` in the simulators ns-2 and ns-3.
//!
//! Each simulator runs twice with the same seed: once to count the packets that cross the link, and once without
//! tracing to measure the time. The time of a run of 1 ms, which is only start-up, is subtracted.

use crate::{children_cpu, median};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A function that returns the command that runs a simulator.
type Start = dyn Fn(u32, &str, bool) -> Command;

/// Another simulator (ns-2 or ns-3) that runs the transfer of the benchmark `speed`.
pub struct Simulator {
    command: Box<Start>,
    /// The CPU seconds of the simulator's start-up.
    startup: f64,
}

/// Returns the folder with the simulators' scripts.
#[must_use]
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("speed")
}

impl Simulator {
    /// Prepares ns-2 with `agent`: tcp or sctp.
    ///
    /// # Errors
    /// Returns one line: a statement that ns-2 is not installed, or the error message that ns-2 printed.
    pub fn ns2(agent: &str) -> Result<Self, String> {
        let (script, agent) = (scripts().join("ns2/bulk.tcl"), agent.to_owned());
        Self::new(move |seed, seconds, count| {
            let mut command = Command::new("ns");
            command.arg(&script).args([&agent, &seed.to_string(), seconds]);
            if count {
                command.arg("count");
            }
            command
        })
    }

    /// Prepares ns-3 with its TCP. The program is first compiled into `folder`.
    ///
    /// # Errors
    /// Returns one line: a statement that ns-3 or a compiler is not installed, or the error message of the command.
    pub fn ns3(folder: &Path, checksums: bool) -> Result<Self, String> {
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
            let stderr = String::from_utf8_lossy(&compiled.stderr);
            return Err(format!(
                "ns-3 does not compile: {}",
                stderr.lines().next().unwrap_or("no reason given")
            ));
        }
        Self::new(move |seed, seconds, count| {
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

    fn new(command: impl Fn(u32, &str, bool) -> Command + 'static) -> Result<Self, String> {
        let mut simulator = Self { command: Box::new(command), startup: 0.0 };
        let startups: Result<Vec<f64>, String> =
            (0..9).map(|_| simulator.start(1, "0.001", false).map(|(cpu, _)| cpu)).collect();
        simulator.startup = median(&startups?);
        Ok(simulator)
    }

    /// Simulates `seconds`. Returns the number of packets that cross the link (data and acknowledgements), and the CPU
    /// seconds that the simulation takes.
    ///
    /// # Errors
    /// Returns the error of the simulator as one line.
    pub fn run(&self, seed: u32, seconds: u32) -> Result<(u64, f64), String> {
        let seconds = seconds.to_string();
        let (_, counts) = self.start(seed, &seconds, true)?;
        // The output begins with the numbers of packets that left in the two directions. ns-2 prints numbers of bytes
        // after them.
        let transmissions: u64 =
            counts.split_whitespace().take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
        if transmissions == 0 {
            return Err(format!("no counts: '{}'", counts.trim()));
        }
        let (cpu, _) = self.start(seed, &seconds, false)?;
        Ok((transmissions, (cpu - self.startup).max(1e-6)))
    }

    fn start(&self, seed: u32, seconds: &str, count: bool) -> Result<(f64, String), String> {
        let mut command = (self.command)(seed, seconds, count);
        let before = children_cpu();
        let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
        let cpu = children_cpu() - before;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(stderr.lines().next().unwrap_or("it failed without a word").to_owned());
        }
        Ok((cpu, String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}
