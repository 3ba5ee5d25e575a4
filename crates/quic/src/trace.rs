//! The trace of an endpoint, which holds the records of all its connections.

use anabranch_base::trace::TraceRecord;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Collects the trace records of all connections of an endpoint while tracing is on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Records>);

#[derive(Debug, Default)]
struct Records {
    /// Whether tracing is on. While it is off, only this flag is read.
    enabled: AtomicBool,
    records: Mutex<Vec<TraceRecord>>,
}

impl Trace {
    /// Turns tracing on or off, and discards earlier records. By default tracing is off.
    pub(crate) fn set(&self, enabled: bool) {
        self.0.enabled.store(enabled, Ordering::Relaxed);
        self.take();
    }

    /// Removes and returns the records kept since the last call.
    pub(crate) fn take(&self) -> Vec<TraceRecord> {
        std::mem::take(&mut *self.0.records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether tracing is on. While it is off, the caller must not call [`keep`](Self::keep).
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.enabled.load(Ordering::Relaxed)
    }

    /// Keeps a record. The caller must have checked that tracing is on.
    pub(crate) fn keep(&self, record: TraceRecord) {
        self.0.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}
