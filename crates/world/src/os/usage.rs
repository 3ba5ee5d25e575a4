//! What this process has cost so far.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::time::Duration;

/// Processor time of this process, in user mode and in the kernel; zero where the host does not tell.
#[must_use]
pub fn processor_time() -> (Duration, Duration) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Default::default() };
    let span = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    (span(usage.user_time().num_microseconds()), span(usage.system_time().num_microseconds()))
}
