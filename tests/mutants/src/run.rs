//! Runs a crate's test programs on mutants, each in a process with bounded time and memory.

use crate::scratch::{REACHED, SWITCH};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The limit of a test program's elapsed time with a mutant: this factor times its elapsed time without a mutant, plus
/// this duration. The limit is generous because the machine may be busy. If a mutant loops, a limit on processor time
/// stops it earlier.
const PATIENCE: (u32, Duration) = (8, Duration::from_secs(10));
/// The lowest limit of a test program's processor time, in seconds.
const LEAST_PROCESSOR_TIME: u64 = 10;
/// The limit of a test program's address space in KiB. A mutant may otherwise allocate memory without end.
const MEMORY_KIB: u64 = 6 << 20;

/// The test programs of a crate.
#[derive(Debug)]
pub struct Tests {
    folder: PathBuf,
    programs: Vec<Program>,
    skip: Vec<String>,
}

#[derive(Debug)]
struct Program {
    path: PathBuf,
    /// The time that the test program takes without a mutant.
    baseline: Duration,
    /// The numbers of the mutants whose code the test program reaches.
    reached: BTreeSet<usize>,
}

impl Tests {
    /// Runs each test program once without a mutant. Fails if a program does not pass.
    pub fn new(folder: PathBuf, paths: Vec<PathBuf>, skip: &[String]) -> Result<Self, String> {
        let mut tests = Self { folder, programs: Vec::new(), skip: skip.to_vec() };
        for path in paths {
            let numbers = path.with_extension("reached");
            let begin = Instant::now();
            let unlimited = Duration::from_secs(1800);
            let child = tests.start(&path, unlimited, (REACHED, &numbers.to_string_lossy()))?;
            if !passes(child, unlimited) {
                return Err(format!("{} fails without a mutant", path.display()));
            }
            let took = begin.elapsed();
            eprintln!("{}: {:.1} s", path.display(), took.as_secs_f64());
            let reached = fs::read_to_string(&numbers).unwrap_or_default();
            let reached = reached.lines().filter_map(|number| number.parse().ok()).collect();
            tests.programs.push(Program { path, baseline: took, reached });
        }
        // The program with the unit tests runs first. The other test programs follow in the order of their run time,
        // the fastest first.
        if let Some((_, other_programs)) = tests.programs.split_first_mut() {
            other_programs.sort_by_key(|program| program.baseline);
        }
        Ok(tests)
    }

    /// Returns whether any test reaches the code of this mutant.
    pub fn reached(&self, number: usize) -> bool {
        self.programs.iter().any(|program| program.reached.contains(&number))
    }

    /// Runs the tests on each of `mutants`, `jobs` at a time. Returns the mutants that no test kills.
    pub fn survivors(&self, mutants: &[usize], jobs: usize) -> Vec<usize> {
        let (next, survivors) = (Mutex::new(mutants.iter()), Mutex::new(BTreeSet::new()));
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    loop {
                        let Some(&number) = next.lock().expect("no job panics").next() else { break };
                        let killed = self.programs.iter().any(|program| self.kills(program, number));
                        eprintln!("{number} {}", if killed { "is killed" } else { "survives" });
                        if !killed {
                            survivors.lock().expect("no job panics").insert(number);
                        }
                    }
                });
            }
        });
        survivors.into_inner().expect("no job panics").into_iter().collect()
    }

    fn kills(&self, program: &Program, number: usize) -> bool {
        program.reached.contains(&number)
            && !self
                .start(&program.path, program.baseline, (SWITCH, &number.to_string()))
                .is_ok_and(|child| passes(child, program.baseline * PATIENCE.0 + PATIENCE.1))
    }

    fn start(
        &self,
        program: &Path,
        took: Duration,
        (variable, value): (&str, &str),
    ) -> Result<Child, String> {
        let processor = took.as_secs() + LEAST_PROCESSOR_TIME;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {MEMORY_KIB}; ulimit -t {processor}; exec \"$0\" \"$@\"")]);
        shell.arg(program).args(["--quiet", "--test-threads=1"]);
        for name in &self.skip {
            shell.args(["--skip", name]);
        }
        shell.current_dir(&self.folder).env(variable, value);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().map_err(|error| format!("cannot run {}: {error}", program.display()))
    }
}

/// Returns whether the program succeeds within `limit`. Kills the program if it takes longer.
fn passes(mut child: Child, limit: Duration) -> bool {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begin.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}
