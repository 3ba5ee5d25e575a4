//! The state that an endpoint's thread and a program's handles share, behind one lock: the engine and the waiting
//! tasks.
//!
//! When the program calls a method, the method takes the lock, calls the engine, and handles the resulting events. If
//! the engine has packets to send, the method wakes the endpoint's thread. The lock is never held across an await.

use crate::state::{EndpointSignals, State};
use anabranch_base::Instant;
use anabranch_world::os::OsClock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state of an endpoint that all its handles and its thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: OsClock,
    signals: Arc<EndpointSignals>,
}

impl Shared {
    pub(crate) fn new(state: State, clock: OsClock) -> Self {
        let signals = state.signals().clone();
        Self { state: Mutex::new(state), clock, signals }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `ask` under the lock, handles the resulting events, and wakes the endpoint's thread if it has to run.
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.lock();
        let now = self.clock.now();
        let result = ask(&mut state, now);
        let waker = state.settle(now);
        // The lock is released before the endpoint's thread wakes, because that thread takes the lock immediately.
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
