//! When a program that runs for long gives memory back that a busy time has left behind.

use super::{OsWorld, descriptor};
use crate::World;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// The next time that free memory is given back. The memory is the process's: one of its threads does it.
#[derive(Debug)]
pub struct Tidying {
    due: Instant,
}

/// At the soonest: what the work of a moment took and will take again is not to be asked for anew each time.
const PERIOD: Duration = Duration::from_secs(1);
/// It may take one such part of the time: the allocator looks through all that it has free, which after a million
/// associations is a lot.
const SHARE: u32 = 1000;

impl Tidying {
    /// The first time is a period from now.
    pub fn new(world: &OsWorld) -> Self {
        Self { due: world.now() + PERIOD }
    }

    /// When there is something to do.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Gives free memory back if it is time.
    pub fn tidy(&mut self, world: &OsWorld) {
        let begun = world.now();
        if begun < self.due {
            return;
        }
        descriptor::give_back_memory();
        let done = world.now();
        self.due = done + PERIOD.max(done.since(begun) * SHARE);
    }
}
