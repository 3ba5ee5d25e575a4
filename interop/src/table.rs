//! Runs every test case with every foreign SCTP stack over many seeds, and prints a table of the results.

use crate::cases::Case;
use crate::peer::Seen;
use crate::peers::Stack;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The result of one test case with one foreign stack.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The test case was not run, because the stack lacks this feature.
    Lacks(&'static str),
    /// The test case was run with several seeds.
    Tried {
        /// The number of seeds with which the test case passed.
        passed: u64,
        /// The number of seeds with which the test case was run.
        seeds: u64,
        /// The first seed with which the test case failed, and the reason.
        failure: Option<(u64, String)>,
        /// The number of seeds with which a known fault of the stack showed, and the number of the fault.
        excused: Option<(u64, u8)>,
        /// The number of abandoned messages, summed over all seeds.
        given_up: u64,
        /// The number of packets that had no checksum, summed over all seeds.
        unsummed: u64,
    },
}

impl Cell {
    /// True if every seed has passed or has shown a known fault of the peer. Also true if the peer lacks a feature that
    /// the case needs.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self {
            Self::Lacks(_) => true,
            Self::Tried { passed, seeds, excused, .. } => {
                passed + excused.map_or(0, |(excused, _)| excused) == *seeds
            }
        }
    }

    /// Returns the text of the result in the table.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Lacks(what) => what.to_string(),
            Self::Tried { passed, seeds, excused, given_up, unsummed, .. } => {
                let mut text = format!("{passed}/{seeds}");
                if let Some((_, fault)) = excused {
                    let _ = write!(text, " [{fault}]");
                }
                if *given_up > 0 {
                    let _ = write!(text, " ({given_up} given up)");
                }
                if *unsummed > 0 {
                    let _ = write!(text, " ({unsummed} packets)");
                }
                text
            }
        }
    }
}

/// Runs the test case `case` between our engine and `stack` with `seeds` seeds, counted from 1, on all processors.
#[must_use]
pub fn cell(stack: Stack, case: Case, seeds: u64) -> Cell {
    if let Some(what) = stack.lacks(case) {
        return Cell::Lacks(what);
    }
    let next = AtomicU64::new(1);
    let fault = stack.fault(case);
    let total = Mutex::new(Total::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        break;
                    }
                    let outcome = catch_unwind(AssertUnwindSafe(|| case.run(stack, seed)));
                    let outcome = outcome.unwrap_or_else(|_| Err("somebody panicked".to_owned()));
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(shown) => {
                            total.passed += 1;
                            total.given_up += shown.given_up;
                            total.us.add(&shown.from_us);
                            total.them.add(&shown.from_them);
                        }
                        Err(why) if fault.is_some_and(|(_, sign)| why.contains(sign)) => total.excused += 1,
                        Err(why) if total.failure.as_ref().is_none_or(|(first, _)| seed < *first) => {
                            total.failure = Some((seed, why));
                        }
                        Err(_) => {}
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Total { mut passed, mut failure, excused, given_up, us, them } = total;
    let (ours, theirs) = case.must_show();
    for (seen, kinds, who) in [(&us, ours, "us"), (&them, theirs, "them")] {
        for &kind in kinds {
            if seen.count(kind) == 0 && failure.is_none() && fault.is_none() {
                failure = Some((0, format!("no chunk of type {kind:#04x} from {who} in all runs")));
                passed = 0;
            }
        }
    }
    let excused = fault.filter(|_| excused > 0).map(|(number, _)| (excused, number));
    Cell::Tried { passed, seeds, failure, excused, given_up, unsummed: us.unsummed + them.unsummed }
}

/// The results of one test case and one stack, summed over all seeds.
#[derive(Default)]
struct Total {
    passed: u64,
    failure: Option<(u64, String)>,
    excused: u64,
    given_up: u64,
    us: Seen,
    them: Seen,
}

/// Runs each test case with each foreign stack, except those that `chosen` excludes. Passes each row of the table to
/// `row` and each failure to `failed`. Returns true if no case failed.
pub fn table(
    seeds: u64,
    chosen: impl Fn(Stack, Case) -> bool,
    mut row: impl FnMut(&str),
    mut failed: impl FnMut(&str),
) -> bool {
    let heads: String = Stack::ALL.iter().map(|stack| format!("{:<28}", stack.name())).collect();
    row(format!("{:<34}{heads}", "").trim_end());
    let mut holds = true;
    for case in Case::ALL {
        if !Stack::ALL.iter().any(|&stack| chosen(stack, case)) {
            continue;
        }
        let mut line = format!("{:<34}", case.to_string());
        for stack in Stack::ALL {
            if !chosen(stack, case) {
                let _ = write!(line, "{:<28}", "");
                continue;
            }
            let cell = cell(stack, case, seeds);
            let _ = write!(line, "{:<28}", cell.text());
            if let Cell::Tried { failure: Some((seed, why)), .. } = &cell {
                holds = false;
                failed(&format!("{} with {}, seed {seed}: {why}", case, stack.name()));
            }
        }
        row(line.trim_end());
    }
    holds
}
