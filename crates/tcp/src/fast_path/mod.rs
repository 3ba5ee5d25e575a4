//! The fast path: the two types of segment that a transfer without loss consists of.
//!
//! Without losses, an open connection sends and receives full segments of the next data, and acknowledgements that only
//! advance (header prediction, Van Jacobson 1990). For each segment, the slow path ([`input`](crate::conn), `output`
//! and the two halves) checks every other case. Both paths have the same effects: `tests/fast_path.rs` compares them. A
//! segment that does not qualify changes nothing here and takes the slow path.
//!
//! [`eligibility`] decides which segments qualify, [`input`] handles arriving ones, [`output`] builds outgoing ones.
//!
//! Home of no rule: each has its own.

mod eligibility;
mod input;
mod output;

use crate::Endpoint;

impl Endpoint {
    /// Sets whether connections may take the fast path; the default is yes. If not, every segment takes the slow path,
    /// with the same results. For tests and measurements.
    pub fn set_fast_path(&mut self, on: bool) {
        self.out.fast_path = on;
    }
}
