//! The trace of an endpoint: the records of all its connections.

use anabranch_base::trace::TraceRecord;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Collects the records of all connections of an endpoint while tracing is on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Records>);

#[derive(Debug, Default)]
struct Records {
    /// Whether tracing is on. Without tracing, this is all that is checked.
    wanted: AtomicBool,
    kept: Mutex<Vec<TraceRecord>>,
}

impl Trace {
    /// Turns tracing on or off, and discards earlier records; it is off at first.
    pub(crate) fn set(&self, wanted: bool) {
        self.0.wanted.store(wanted, Ordering::Relaxed);
        self.take();
    }

    /// Takes the records kept since the last call.
    pub(crate) fn take(&self) -> Vec<TraceRecord> {
        std::mem::take(&mut *self.0.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether records are kept.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::Relaxed)
    }

    /// Keeps a record; the caller has checked that tracing is on.
    pub(crate) fn keep(&self, record: TraceRecord) {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}
