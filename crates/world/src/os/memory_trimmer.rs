//! When a program that runs for long gives memory back that a busy time has left behind.

use super::{OsTimer, OsWorld, descriptor};
use crate::{Timer, World};
use anabranch_base::time::Duration;
use std::task::Context;

/// Gives the process's free memory back to the host, time after time; one thread of the process has it.
#[derive(Debug)]
pub struct MemoryTrimmer {
    timer: OsTimer,
}

/// At the soonest: what the work of a moment took and will take again is not to be asked for anew each time. Not a
/// round number: work that comes each second or two would be met at the same point of it for minutes.
const PERIOD: Duration = Duration::from_millis(730);
/// Trimming may take one part in so many of the time: the allocator looks through all that it has free, which after a
/// million associations is a lot.
const SHARE: u32 = 1000;

impl MemoryTrimmer {
    /// A trimmer whose first turn is a period from now.
    pub fn new(world: &OsWorld) -> Self {
        let mut timer = world.timer();
        timer.set(Some(world.now() + PERIOD));
        Self { timer }
    }

    /// Trims if it is time, and has the task woken when it is time again.
    pub fn poll(&mut self, cx: &mut Context<'_>, world: &OsWorld) {
        while self.timer.poll(cx).is_ready() {
            let begun = world.now();
            descriptor::give_back_memory();
            let done = world.now();
            self.timer.set(Some(done + PERIOD.max(done.since(begun) * SHARE)));
        }
    }
}
