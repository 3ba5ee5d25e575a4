//! Limits on concurrent sessions, exchanges and lookups, shared by all threads. Also decides which session is ended if
//! no slot is free.
//!
//! - `clients`: what counts as one client, and how many slots each client has
//! - `slots`: the slots of a server's sessions, and which session is ended if no slot is free for a new one
//! - `wait_order`: the records of sessions, and the order in which they began to wait for a request
//! - `admission`: new sessions, and their wait for a slot
//! - `share`: how much of a limit one client or one session may hold
//! - `memory`: the memory of a session's exchanges, which counts towards a budget

mod admission;
mod clients;
mod memory;
mod share;
mod slots;
mod wait_order;

pub use admission::Admission;
pub use clients::Client;
pub use memory::{ExchangePermit, HeldBytes, SessionMemory};
pub use share::{ProgressMonitor, Share, SharePermit};
pub use slots::{Slot, SlotHandle};

use clients::ClientSlots;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A limit on the number of concurrent sessions, exchanges or lookups. Clones share their slots, even across threads.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    shared: Arc<LimitState>,
}

/// The state that all clones of a limit share.
#[derive(Debug)]
struct LimitState {
    max: usize,
    available: AtomicUsize,
    /// The number of exchanges that should be ended to free slots. Each exchange that was refused because slots were
    /// scarce adds 1, up to [`MAX_REQUESTS`]. Each exchange that is ended to free a slot subtracts 1.
    requested: AtomicUsize,
    /// The number of servers that use the limit. Each server can end only its own sessions, so a new session that gets
    /// no slot waits until another server frees one. If there is no other server, this session is refused at once.
    servers: AtomicUsize,
    /// The number of session slots that each client has.
    clients: ClientSlots,
    /// Held while a server ends a session to fulfil a request for a slot. Otherwise two servers could each end a
    /// session for the same request.
    preempting: Mutex<()>,
}

impl ConcurrencyLimit {
    /// Returns a limit of `max` sessions: it has a slot for each.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let (available, none) = (AtomicUsize::new(max), || AtomicUsize::new(0));
        let (requested, servers) = (none(), none());
        let (clients, preempting) = (ClientSlots::default(), Mutex::default());
        Self { shared: Arc::new(LimitState { max, available, requested, servers, clients, preempting }) }
    }

    /// Returns a permit if a slot is free.
    pub fn try_acquire(&self) -> Option<Permit> {
        self.take_slot().then(|| Permit(self.clone()))
    }

    fn take_slot(&self) -> bool {
        take_one(&self.shared.available)
    }

    fn release_slot(&self) {
        self.shared.available.fetch_add(1, Ordering::Relaxed);
    }

    fn available(&self) -> usize {
        self.shared.available.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.available() == 0
    }

    /// Returns whether almost no slot is available.
    fn is_scarce(&self) -> bool {
        self.available() <= self.shared.max / SCARCE
    }

    /// Registers that a new exchange found no slot. At most [`MAX_REQUESTS`] exchanges are registered, because further
    /// exchanges would not get a slot soon.
    fn request_slot(&self) {
        if self.shared.requested.load(Ordering::Relaxed) < MAX_REQUESTS {
            self.shared.requested.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes one of the registered requests for a slot. Returns false if there is none.
    fn take_request(&self) -> bool {
        take_one(&self.shared.requested)
    }

    fn clear_requests(&self) {
        if self.shared.requested.load(Ordering::Relaxed) > 0 {
            self.shared.requested.store(0, Ordering::Relaxed);
        }
    }
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

/// A slot of a limit. Dropping the permit releases the slot.
pub struct Permit(ConcurrencyLimit);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.release_slot();
    }
}

/// Slots are scarce if at most 1/`SCARCE` of all slots are available.
const SCARCE: usize = 16;
/// The maximum number of refused exchanges that are registered at the same time.
const MAX_REQUESTS: usize = 16;

#[cfg(test)]
mod testing;
#[cfg(test)]
pub(crate) use testing::FakeSession;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_its_permit_is_dropped() {
        let limit = ConcurrencyLimit::new(2);
        let clone = limit.clone();
        let (one, two) = (limit.try_acquire(), clone.try_acquire());
        assert!(one.is_some() && two.is_some() && limit.try_acquire().is_none() && limit.is_full());
        drop(one);
        assert!(!limit.is_full() && limit.available() == 1);
        assert!(
            clone.try_acquire().is_some()
                && limit.try_acquire().is_some()
                && ConcurrencyLimit::new(0).try_acquire().is_none()
        );
    }
}
