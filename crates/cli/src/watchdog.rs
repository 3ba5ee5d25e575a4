//! The end of a program that was asked to end and does not.
//!
//! SIGINT and SIGTERM are heard by tasks. A thread whose tasks no longer run, because one of them loops or is blocked in a
//! write, hears nothing. So a thread of its own waits for the same signals, and ends the process when its time is over.

use crate::privileges::drop_capabilities;
use crate::{Failure, complain, files};
use anabranch_world::os;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// From here on the process ends at most `grace` and a second after SIGINT or SIGTERM, with this exit code if it does not
/// end by itself.
pub fn start(grace: Duration, code: u8) -> Result<(), Failure> {
    // The threads are older than the time when a server gives up its capabilities.
    os::watch_end(grace, || drop_capabilities(false), move || end(code))
        .map_err(|why| Failure::Host(format!("no signals: {why}")))
}

fn end(code: u8) {
    // Standard error may be what a thread is blocked on, and locks may be held for ever: each step has its own thread, and
    // the next one begins all the same.
    within(STEP, || {
        files::clean_up();
        complain("not ended in time: what is in flight is lost");
    });
    within(STEP, move || std::process::exit(code.into()));
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// Has `step` done, and waits for it at most so long.
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

/// How long a step of the end may take.
const STEP: Duration = Duration::from_millis(150);
