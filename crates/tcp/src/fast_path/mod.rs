//! The fast path handles the two types of segment that occur in a transfer without loss.
//!
//! An open connection without losses mostly sends and receives full segments with the next data, and acknowledgements
//! that only advance SND.UNA. The fast path handles these two types (header prediction, Van Jacobson 1990). The slow
//! path ([`input`](crate::conn), `output`, and the sending and receiving halves of the connection) handles all other
//! segments. If a segment does not qualify, the fast path changes nothing, and the slow path handles the segment. Both
//! paths have the same effects, as `tests/fast_path.rs` checks.
//!
//! [`eligibility`] decides which segments qualify, [`input`] handles arriving segments, [`output`] builds outgoing
//! segments.
//!
//! The slow path implements every rule of the RFCs. The fast path adds none.

mod eligibility;
mod input;
mod output;

use crate::Endpoint;

impl Endpoint {
    /// Sets whether connections may use the fast path; the default is yes. Without the fast path, every segment takes
    /// the slow path, with the same results. Meant for tests and measurements.
    pub fn set_fast_path(&mut self, on: bool) {
        self.out.fast_path = on;
    }
}
