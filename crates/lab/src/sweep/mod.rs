//! Sweeps over many points. [`shard`] assigns points to machines. [`manifest`] and [`record`] define what is stored, and
//! [`estimate`] predicts its size. [`summary`] summarises all points.
//!
//! A point is a race of its own: the plan with that point alone. So points can run one after the other in the memory of one,
//! on several machines, or on different days. Combined, they are the race of the whole plan. The caller stores the files:
//! nothing here opens one.

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

/// The SHA-256 of text as it is written, output in hexadecimal.
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
