//! Ends the process by force if it does not end after SIGINT or SIGTERM.
//!
//! Tasks handle SIGINT and SIGTERM, but a task that loops or blocks in a write keeps other tasks from running. A
//! separate thread therefore waits for the same signals, and ends the process when the grace period is over.

use crate::privileges::drop_capabilities;
use crate::{Failure, complain, files};
use anabranch_world::os;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Starts the watchdog. After SIGINT or SIGTERM, the process ends within `grace` plus one second. If the watchdog has
/// to end it, the exit code is `code`.
pub fn start(grace: Duration, code: u8) -> Result<(), Failure> {
    // The watchdog threads start before the server drops its capabilities, so each of them drops its own capabilities.
    os::watch_end(grace, || drop_capabilities(false), move || end(code))
        .map_err(|error| Failure::Host(format!("no signals: {error}")))
}

fn end(code: u8) {
    // Another thread may be blocked in a write to standard error, or may hold a lock forever. Each step therefore runs
    // in its own thread, and the next step begins even if an earlier step hangs.
    for step in last_steps(code) {
        within(STEP, step);
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// One step of ending the process. A step may hang.
type Step = Box<dyn FnOnce() + Send>;

/// Returns the steps that end the process, in their order.
fn last_steps(code: u8) -> [Step; 2] {
    let report = || {
        files::clean_up();
        complain("not ended in time: data in flight is lost");
    };
    [Box::new(report), Box::new(move || std::process::exit(code.into()))]
}

/// Runs `step` in a new thread, and waits at most `span` for it to end.
fn within(span: Duration, step: impl FnOnce() + Send + 'static) {
    let (done, waits) = channel::<()>();
    let spawned = thread::Builder::new().spawn(move || {
        step();
        drop(done);
    });
    if spawned.is_ok() {
        let _ = waits.recv_timeout(span);
    }
}

/// The time limit for each step of ending the process.
const STEP: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;

    /// The process must end within `grace` plus one second after the signal, even if every step hangs.
    #[test]
    fn every_process_ends_within_its_grace_and_a_second() {
        let steps = u32::try_from(last_steps(0).len()).expect("few");
        let latest = os::END_MARGIN + STEP * steps;
        assert!(latest <= Duration::from_secs(1), "{latest:?} after the grace period");
    }

    #[test]
    fn a_step_that_hangs_is_not_waited_for() {
        let (done, waits) = channel::<()>();
        let (finish, is_done) = channel();
        within(Duration::from_millis(1), move || {
            let _ = waits.recv_timeout(Duration::from_secs(60));
            let _ = finish.send(());
        });
        assert!(is_done.try_recv().is_err(), "it hangs");
        drop(done);
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(()), "it goes on alone");
    }
}
