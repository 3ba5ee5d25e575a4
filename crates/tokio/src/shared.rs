//! The state that the endpoint's thread and a program's handles share: the engine and the waiting tasks, behind one lock.
//!
//! A call of a program takes the lock, calls the engine, handles the resulting events, and wakes the thread if there are
//! packets to send. The lock is never held across an await.

use crate::state::State;
use anabranch_base::Instant;
use anabranch_world::os::OsClock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The endpoint as all of its handles see it.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: OsClock,
    signals: Arc<EndpointSignals>,
}

/// The notifications of the whole endpoint for waiting tasks.
#[derive(Debug, Default)]
pub(crate) struct EndpointSignals {
    /// An association waits to be accepted, or none will arrive any more.
    pub(crate) incoming: Notify,
    /// All associations have ended.
    pub(crate) idle: Notify,
}

impl Shared {
    pub(crate) fn new(state: State, clock: OsClock) -> Self {
        let signals = state.signals().clone();
        Self { state: Mutex::new(state), clock, signals }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `ask`, handles the resulting events, and wakes the thread if there are packets to send.
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.lock();
        let now = self.clock.now();
        let result = ask(&mut state, now);
        let waker = state.settle(now);
        // Release the lock first: the thread takes it as soon as it wakes.
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    pub(crate) fn signals(&self) -> &EndpointSignals {
        &self.signals
    }
}
