//! The processor time that this process has used, and the number of files that it may open.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

/// Returns the processor time that this process has spent in user mode and in the kernel; zero if the host does not
/// report it.
#[must_use]
pub fn processor_time() -> (Duration, Duration) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Default::default() };
    let span = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    (span(usage.user_time().num_microseconds()), span(usage.system_time().num_microseconds()))
}

/// Raises this process's limit on open files to the maximum that the host allows. Returns the limit now in effect. Each
/// TCP connection takes one file. Child processes inherit the limit.
pub fn raise_open_files_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // A limit of `None` means that the number of files is not limited.
    let (soft, hard) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let raised = Rlimit { current: maximum, maximum };
    if soft < hard && setrlimit(Resource::Nofile, raised).is_err() {
        return Some(soft);
    }
    Some(hard)
}

/// Returns the current limit on the number of open files of this process.
pub(super) fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
        let most = raise_open_files_limit().expect("Linux tells");
        let raised = getrlimit(Resource::Nofile);
        assert_eq!((raised.current, open_files_limit()), (raised.maximum, most));
        assert_eq!(raise_open_files_limit(), Some(most));
    }
}
