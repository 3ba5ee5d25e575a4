//! Functions that the benchmark programs share: CPU time, medians, transfers, and the tables that programs print.
//!
//! Values that are measured here describe this program on this machine. They never appear in the results of a race.

pub mod causes;
pub mod grid;
pub mod interleaving;
pub mod simulators;
pub mod stacks;
pub mod transfer;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// Returns the CPU seconds that this thread has used.
#[must_use]
pub fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Returns the CPU seconds, user and system, that finished child processes have used.
#[must_use]
pub fn children_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("Linux has this call");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum()
}

/// Returns the median: the middle value or, of an even number of values, the mean of the two middle values.
///
/// # Panics
/// If there are no values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
