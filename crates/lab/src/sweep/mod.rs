//! Many points: which machine runs which ([`shard`]), what is kept of each ([`manifest`], [`record`]), how much that will
//! be ([`estimate`]), and what they say together ([`summary`]).
//!
//! A point is a race of its own, of the plan with that point alone. So points can be run one after the other, with the
//! memory of one, on several machines, or today and tomorrow; put together they are the race of the whole plan.
//! Where they are kept is the caller's to say: nothing here opens a file.

pub mod axes;
pub mod cell;
mod crossing;
pub mod estimate;
mod grid;
pub mod manifest;
pub mod record;
pub mod shard;
pub mod summary;

pub use axes::Axes;
pub use manifest::Manifest;
pub use record::Record;
pub use shard::Shard;
pub use summary::Summary;

use sha2::{Digest, Sha256};
use std::fmt;

/// SHA-256 of text as it is written, in hexadecimal.
#[derive(Default)]
struct Digesting(Sha256);

impl fmt::Write for Digesting {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl Digesting {
    fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
