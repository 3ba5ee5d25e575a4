//! The fast path: the two segments that a transfer without loss consists of.
//!
//! While nothing is lost, an open connection receives and sends full segments of the data that comes
//! next, and acknowledgements that only advance (header prediction, Van Jacobson 1990). For these the
//! slow path ([`input`](crate::conn), `output` and the two halves) asks of each segment after all that
//! it is not. What a segment does is the same on both ways: `tests/fast_path.rs` holds them against
//! each other. A segment that does not qualify changes nothing here and takes the slow path.
//!
//! [`eligibility`] says when, [`input`] takes segments in, [`output`] writes them.
//!
//! Home of no rule: each has its own.

mod eligibility;
mod input;
mod output;

use crate::Endpoint;

impl Endpoint {
    /// Whether connections may take the fast path. They may until told otherwise. Off, every
    /// segment takes the slow path and comes out the same: for tests and measurements.
    pub fn set_fast_path(&mut self, on: bool) {
        self.out.fast_path = on;
    }
}
