//! What the endpoint's thread and the handles of a program share: the engine and what waits for it, behind one lock.
//!
//! A call of a program takes the lock, asks the engine, hears what comes of that, and wakes the thread if there is something
//! to send. Nobody holds the lock across an await.

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

/// What tasks wait for that concerns the whole endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointSignals {
    /// An association waits to be accepted, or none will.
    pub(crate) incoming: Notify,
    /// No association is alive.
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

    /// Asks for something, hears what comes of it, and has the thread send what there is to send.
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.lock();
        let now = self.clock.now();
        let result = ask(&mut state, now);
        let waker = state.settle(now);
        // The thread takes the lock as soon as it is awake.
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
