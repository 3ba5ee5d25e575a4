//! Ends a process that does not end after SIGINT or SIGTERM.
//!
//! Tasks handle SIGINT and SIGTERM. They no longer run if one of them loops or blocks in a write. So a separate thread
//! waits for the same signals, and ends the process when its time is over.

use crate::privileges::drop_capabilities;
use crate::{Failure, complain, files};
use anabranch_world::os;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// From here on the process ends at most `grace` plus one second after SIGINT or SIGTERM. If it does not end by itself,
/// its exit code is `code`.
pub fn start(grace: Duration, code: u8) -> Result<(), Failure> {
    // These threads start before the server drops its capabilities, so they drop theirs on their own.
    os::watch_end(grace, || drop_capabilities(false), move || end(code))
        .map_err(|why| Failure::Host(format!("no signals: {why}")))
}

fn end(code: u8) {
    // Another thread may be blocked writing to standard error, or may hold a lock forever. So each step runs in a
    // thread of its own, and the next step begins even if it hangs.
    within(STEP, || {
        files::clean_up();
        complain("not ended in time: what is in flight is lost");
    });
    within(STEP, move || std::process::exit(code.into()));
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// Runs `step` in a thread, and waits for it no longer than `span`.
fn within(span: Duration, step: impl FnOnce() + Send + 'static) {
    let (done, waits) = channel::<()>();
    let begun = thread::Builder::new().spawn(move || {
        step();
        drop(done);
    });
    if begun.is_ok() {
        let _ = waits.recv_timeout(span);
    }
}

/// The time limit for each step.
const STEP: Duration = Duration::from_millis(150);
