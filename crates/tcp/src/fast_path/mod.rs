//! The fast path handles the two types of segment that occur in a transfer without loss.
//!
//! Without losses, an open connection mostly sends and receives two types of segment: full segments with the next data,
//! and acknowledgements that only advance SND.UNA. The fast path handles them (header prediction, Van Jacobson 1990).
//! The slow path ([`input`](crate::conn), `output`, and the sending and receiving halves of the connection) handles all
//! other segments. Both paths have the same effects: `tests/fast_path.rs` compares them. A segment that does not
//! qualify changes nothing on the fast path and takes the slow path.
//!
//! [`eligibility`] decides which segments qualify, [`input`] handles arriving segments, [`output`] builds outgoing
//! segments.
//!
//! Every RFC rule is implemented in the slow path. The fast path adds none.

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
