//! Objects that do not move.
//!
//! The clock of an object that rides starts when it is assigned and starts
//! again with every byte read on its stream: one that waits its turn behind
//! others in a pipeline is not stuck while they come in. An object that queues
//! for a stream waits as long as anything moves at all; one that queues for a
//! handshake waits from when the handshake began. A stream that is
//! reset for an object that was given up has as long for that.

use super::state::{Fetch, SharedFetch};
use crate::observe::Observer;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::Connector;
use anabranch_world::World;

/// Fails what does not move for `timeout`, for as long as the fetch lives.
pub(super) async fn watch<W: World, C: Connector, O: Observer + 'static>(
    fetch: SharedFetch<W, C, O>,
    timeout: Duration,
) {
    let world = fetch.borrow().world.clone();
    loop {
        // What is issued after this look is due later than `timeout` from now.
        let next = fetch.borrow_mut().expire(world.now(), timeout);
        world.sleep_until(next).await;
    }
}

impl<W: World, C: Connector, O: Observer + 'static> Fetch<W, C, O> {
    /// Fails every object whose clock has run out; returns when to look again.
    fn expire(&mut self, now: Instant, timeout: Duration) -> Instant {
        let mut next = now + timeout;
        let mut stuck = Vec::new();
        for object in 0..self.page.objects.len() {
            let Some(clock) = self.clock(object) else { continue };
            if clock + timeout <= now {
                stuck.push(object);
            } else {
                next = next.min(clock + timeout);
            }
        }
        for object in stuck {
            self.time_out(object, now, timeout);
        }
        match self.expire_resets(now, timeout) {
            Some(reset) => next.min(reset),
            None => next,
        }
    }
}
