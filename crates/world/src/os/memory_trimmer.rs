//! Decides when a long-running program gives freed memory back to the operating system.

use super::{OsTimer, OsWorld, descriptor};
use crate::{Timer, World};
use anabranch_base::time::Duration;
use std::task::Context;

/// From time to time, gives memory that the process has freed back to the operating system. One trimmer per process is
/// enough.
#[derive(Debug)]
pub struct MemoryTrimmer {
    timer: OsTimer,
}

/// The minimum time between two trims, so that memory in repeated use is not returned and requested again each time.
/// The period is not a round number. Otherwise trims would coincide for minutes with other work that has a period of
/// one or two seconds.
const PERIOD: Duration = Duration::from_millis(730);
/// Trimming may take at most 1/`SHARE` of the process's time. Each trim walks all free memory, which takes long after a
/// million associations.
const SHARE: u32 = 1000;

impl MemoryTrimmer {
    /// Creates a trimmer that first trims after one period.
    pub fn new(world: &OsWorld) -> Self {
        let mut timer = world.timer();
        timer.set(Some(world.now() + PERIOD));
        Self { timer }
    }

    /// Returns free memory to the host if a trim is due. Wakes the task when the next trim is due.
    pub fn poll(&mut self, cx: &mut Context<'_>, world: &OsWorld) {
        while self.timer.poll(cx).is_ready() {
            let started = world.now();
            descriptor::trim_heap();
            let done = world.now();
            self.timer.set(Some(done + PERIOD.max(done.since(started) * SHARE)));
        }
    }
}
