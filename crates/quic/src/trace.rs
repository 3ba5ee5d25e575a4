//! The trace of an endpoint: records of all its connections, while they are wanted.

use anabranch_base::trace::TraceRecord;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the records of all connections of an endpoint go, while they are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Records>);

#[derive(Debug, Default)]
struct Records {
    /// They are wanted. Who has none to keep asks this alone.
    wanted: AtomicBool,
    kept: Mutex<Vec<TraceRecord>>,
}

impl Trace {
    /// Keeps records from now on, or no more; there are none at first.
    pub(crate) fn set(&self, wanted: bool) {
        self.0.wanted.store(wanted, Ordering::Relaxed);
        self.take();
    }

    /// What was kept since the last call.
    pub(crate) fn take(&self) -> Vec<TraceRecord> {
        std::mem::take(&mut *self.0.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether records are kept.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::Relaxed)
    }

    /// Keeps a record, which is wanted.
    pub(crate) fn keep(&self, record: TraceRecord) {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}
