//! Runs every test case with every pair of client and server, several in parallel, and prints the matrix of results.
//! Failed cases are repeated one at a time.

use super::cases::Case;
use super::{Pair, Stack, meeting};
use crate::field::{TRIES, is_chosen, with_try};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The result of one test case with one pair of client and server.
#[derive(Clone, Debug, Default)]
struct Cell {
    good: bool,
    text: String,
}

/// Known failures of other implementations: client, server, case, the number of the fault in the README, and the text
/// of the failure.
const FAULTS: [(Stack, Stack, Case, u32, &str); 0] = [];

fn fault(pair: Pair, case: Case, why: &str) -> Option<u32> {
    let known = FAULTS.iter().find(|(client, server, one, _, sign)| {
        (*client, *server, *one) == (pair.client, pair.server, case) && why.contains(sign)
    });
    known.map(|(.., number, _)| *number)
}

/// Runs the test cases that `chosen` selects with all pairs whose client and server are both in `stacks`. Passes each
/// line of the matrix to `row` and each failure to `failed`. Returns whether all results are good.
pub fn matrix(
    stacks: &[Stack],
    chosen: &str,
    mut row: impl FnMut(&str),
    failed: impl Fn(&str) + Sync,
) -> bool {
    let has = |stack: Stack| stacks.contains(&stack);
    let pairs: Vec<_> = Pair::ALL.into_iter().filter(|pair| has(pair.client) && has(pair.server)).collect();
    let cases: Vec<_> = Case::ALL.into_iter().enumerate().collect();
    let cases: Vec<_> =
        cases.into_iter().filter(|(at, case)| is_chosen(*at, &case.to_string(), chosen)).collect();
    let cells = Mutex::new(vec![vec![Cell::default(); pairs.len()]; cases.len()]);
    for attempt in 1..=TRIES {
        let lock = || cells.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_open = |row: usize, column: usize| !lock()[row][column].good;
        // The test cases that take longest start first, so that none of them runs alone at the end.
        let mut open: Vec<_> =
            (0..cases.len()).flat_map(|row| (0..pairs.len()).map(move |column| (row, column))).collect();
        open.retain(|&(row, column)| is_open(row, column));
        open.sort_by_key(|&(row, _)| {
            (cases[row].1 != Case::Multiconnect, cases[row].1 != Case::TransferLoss)
        });
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&(row, column)) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                let cell = cell(pairs[column], cases[row].1, attempt, &failed);
                lock()[row][column] = cell;
            }
        };
        let workers = if attempt == 1 { AT_ONCE } else { 1 };
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    }
    let heads: String = pairs.iter().map(|pair| format!("{:<20}", pair.to_string())).collect();
    row(format!("{:<20}{heads}", "").trim_end());
    let cells = cells.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for ((_, case), cells) in cases.iter().zip(&cells) {
        let texts: String = cells.iter().map(|cell| format!("{:<20}", cell.text)).collect();
        row(format!("{:<20}{texts}", case.to_string()).trim_end());
    }
    cells.iter().flatten().all(|cell| cell.good)
}

fn cell(pair: Pair, case: Case, attempt: usize, failed: &impl Fn(&str)) -> Cell {
    let runs =
        PathBuf::from(std::env::var_os("QUIC_CAPTURES").unwrap_or_else(|| std::env::temp_dir().into()));
    let folder = runs.join(format!("{pair}-{case}-try-{attempt}"));
    match meeting::run_case(pair, case, folder) {
        Ok(remark) => {
            let remark = with_try(&remark, attempt);
            let text = if remark.is_empty() { "ok".to_owned() } else { format!("ok, {remark}") };
            Cell { good: true, text }
        }
        Err(why) => {
            failed(&format!(
                "{case}, {} gets from {}, try {attempt} of {TRIES}: {why}",
                pair.client, pair.server
            ));
            match fault(pair, case, &why) {
                Some(number) => Cell { good: true, text: with_try(&format!("[{number}]"), attempt) },
                None => Cell { good: false, text: "FAILS".to_owned() },
            }
        }
    }
}

/// The number of test cases that run in parallel. Most of the time, a test case waits for the network.
const AT_ONCE: usize = 4;
