//! What this process has cost so far, and how many files it may open.

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use std::time::Duration;

/// Processor time of this process, in user mode and in the kernel; zero where the host does not tell.
#[must_use]
pub fn processor_time() -> (Duration, Duration) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Default::default() };
    let span = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    (span(usage.user_time().num_microseconds()), span(usage.system_time().num_microseconds()))
}

/// Lets this process have as many files open as the host allows it at all; how
/// many that are, where it tells. Each TCP connection is one. Programs that are
/// started from here inherit it.
pub fn raise_open_files() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err() {
        return Some(soft);
    }
    Some(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
        let most = raise_open_files().expect("Linux tells");
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((most, most)));
        assert_eq!(raise_open_files(), Some(most));
    }
}
