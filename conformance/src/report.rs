//! Runs the packetdrill scripts in files, and reports their outcomes.

use crate::deviations::{Deviation, Deviations};
use crate::stage::{Stage, Stages};
use crate::suite::{self, Content, Preludes};
use crate::{parse, run};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// The outcome of running one packetdrill script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The engine did what the script expects.
    Pass {
        /// The log of the run: packets and calls.
        log: Vec<String>,
    },
    /// The engine did not do what the script expects.
    Fail {
        /// The file and line of the failure, as `file:line`.
        location: String,
        /// A short description of what is wrong.
        reason: String,
        /// What the script expects at this line.
        expected: String,
        /// What the engine did instead.
        observed: String,
        /// The log of the run up to the failure: packets and calls.
        log: Vec<String>,
    },
    /// The text is not a valid script, or uses a feature that is not supported.
    Error {
        /// The file and line of the mistake, as `file:line`.
        location: String,
        /// A description of the mistake in the text.
        message: String,
    },
}

impl Outcome {
    /// Returns whether the engine did what the script expects.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Pass { .. })
    }

    /// Returns the log of the run: packets and calls.
    #[must_use]
    pub fn log(&self) -> &[String] {
        match self {
            Self::Pass { log } | Self::Fail { log, .. } => log,
            Self::Error { .. } => &[],
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass { .. } => f.write_str("passed"),
            Self::Fail { location, reason, expected, observed: seen, .. } => {
                write!(f, "{location}: {reason}\n    expected  {expected}\n    seen      {seen}")
            }
            Self::Error { location, message } => write!(f, "{location}: {message}"),
        }
    }
}

/// Runs the script `text`. Messages use `name` as the name of the script.
#[must_use]
pub fn check(name: &str, text: &str) -> Outcome {
    run_text(name, text, &Stage::default(), false)
}

/// Runs the script `text`. `stage` sets the peer's addresses, and the addresses to which the engine must send data.
#[must_use]
pub fn check_on(stage: &Stage, name: &str, text: &str) -> Outcome {
    run_text(name, text, stage, false)
}

/// Runs the script `text` as a case of a suite. Unlike [`check`], also fails if the engine sends packets after those
/// that the script expects.
#[must_use]
pub fn check_to_the_end(name: &str, text: &str) -> Outcome {
    run_text(name, text, &Stage::default(), true)
}

fn run_text(name: &str, text: &str, stage: &Stage, to_the_end: bool) -> Outcome {
    let defines = BTreeSet::from(["FreeBSD".to_owned()]);
    let location = |line: usize| format!("{name}:{line}");
    let script = match parse::script(text, &defines) {
        Ok(script) => script,
        Err(fault) => return Outcome::Error { location: location(fault.line), message: fault.message },
    };
    if script.events.is_empty() {
        return Outcome::Error { location: location(1), message: "there is nothing in it".to_owned() };
    }
    if stage.peer_addresses > 1
        && let Some(line) = script.names_targets()
    {
        let what = "it names addresses of its peer: no stage can give it more".to_owned();
        return Outcome::Error { location: location(line), message: what };
    }
    let (script_log, result) = run::run(&script, stage, 1, to_the_end);
    let log = script_log.log;
    match result {
        Ok(()) => Outcome::Pass { log },
        Err(failure) if failure.kind == run::FailureKind::Misunderstood => {
            Outcome::Error { location: location(failure.line), message: failure.reason }
        }
        Err(failure) => Outcome::Fail {
            location: location(failure.line),
            reason: failure.reason,
            expected: failure.expected,
            observed: failure.observed,
            log,
        },
    }
}

/// Runs the script in a file, with the set-up (stage) that `stages` lists for the file.
#[must_use]
pub fn check_file(path: &Path, stages: &Stages) -> Outcome {
    /// The maximum size of a script, in bytes.
    const MOST: u64 = 16 << 20;
    let name = path.display().to_string();
    let size = std::fs::metadata(path).map(|data| data.len());
    match (size, std::fs::read_to_string(path)) {
        (Ok(size), _) if size > MOST => {
            Outcome::Error { location: name, message: "it is too large".to_owned() }
        }
        (_, Ok(text)) => {
            let script = path.file_stem().unwrap_or_default().to_string_lossy();
            check_on(stages.of(&script), &name, &text)
        }
        (_, Err(error)) => Outcome::Error { location: name, message: error.to_string() },
    }
}

/// Runs the scripts of a suite (`*.suite`) with the set-up that `stages` lists for each, and returns the outcomes by
/// name. The scripts may use the preludes in the `preludes.suite` of the same folder.
///
/// # Errors
/// Returns one line that names the file that cannot be read.
pub fn check_suite(path: &Path, stages: &Stages) -> Result<Vec<(String, Outcome)>, String> {
    let name = path.display().to_string();
    let line = |error: std::io::Error| format!("{name}: {error}");
    let text = std::fs::read_to_string(path).map_err(line)?;
    let mut preludes = Preludes::default();
    if let Ok(shared) = std::fs::read_to_string(path.with_file_name("preludes.suite")) {
        preludes.add(&shared);
    }
    preludes.add(&text);
    let cases = suite::cases(&text, &preludes).map_err(|reason| format!("{name}:{reason}"))?;
    let scripts = cases.into_iter().filter_map(|case| match case.content {
        Content::Script(script) => {
            let outcome = run_text(&name, &script, stages.of(&case.id), true);
            Some((case.id, outcome))
        }
        Content::InCode(_) | Content::NotTested(_) => None,
    });
    Ok(scripts.collect())
}

/// Lists the scripts (`*.pkt`) and suites (`*.suite`) at a path and below it, in order.
///
/// # Errors
/// Returns one line that names the path that cannot be read.
pub fn scripts_in(path: &Path) -> Result<Vec<PathBuf>, String> {
    let line = |error: std::io::Error| format!("{}: {error}", path.display());
    if !std::fs::metadata(path).map_err(line)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(line)? {
        let inside = entry.map_err(line)?.path();
        if inside.is_dir() && !inside.is_symlink() {
            found.extend(scripts_in(&inside)?);
        } else if inside.extension().is_some_and(|extension| extension == "pkt" || extension == "suite") {
            found.push(inside);
        }
    }
    found.sort();
    Ok(found)
}

/// The number of scripts with each outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Scripts that passed.
    pub passed: usize,
    /// The number of scripts that failed as the list of deviations states.
    pub known: usize,
    /// The number of scripts that failed and are not in the list of deviations, or failed in another way than the list
    /// states.
    pub failed: usize,
    /// The number of scripts that passed although the list of deviations says that they fail.
    pub passed_unexpectedly: usize,
}

impl Summary {
    /// Counts the outcome of one script. `script` is its path without `.pkt`. Returns a text to print if the outcome is
    /// not the expected one.
    pub fn count(&mut self, script: &str, outcome: &Outcome, deviations: &Deviations) -> Option<String> {
        if outcome.is_pass() {
            self.passed += 1;
            let deviation = deviations.of(script)?;
            self.passed_unexpectedly += 1;
            return Some(format!("{} passes, and is listed as a known deviation", deviation.name));
        }
        match deviations.explaining(script, outcome) {
            Some(deviation) => {
                self.known += 1;
                let (old, new) = (&deviation.rfc4960, &deviation.rfc9260);
                let Deviation { name, reason, .. } = deviation;
                Some(format!("{name}: known deviation: {reason} ({old}; {new})\n{outcome}"))
            }
            None => {
                self.failed += 1;
                Some(outcome.to_string())
            }
        }
    }

    /// Returns whether every script passed, or failed as the list of deviations states.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.passed + self.known + self.failed;
        write!(
            f,
            "{} of {all} scripts passed, {} are known deviations, {} failed",
            self.passed, self.known, self.failed
        )
    }
}
