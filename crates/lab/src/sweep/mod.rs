//! Sweeps over the points of a plan. A point is one combination of factor levels. [`shard`] assigns points to machines.
//! [`manifest`] and [`record`] define the stored files, and [`estimate`] predicts their size.
//!
//! The points of a plan are independent races, and each runs with a plan of its own that has only this point. Points
//! can therefore run one after the other in the memory that one point needs, on several machines, or on different days.
//! The results of all points together are the result of the whole plan. The caller stores the files. This module opens
//! no file.

pub mod estimate;
pub mod manifest;
pub mod record;
pub mod shard;

pub use manifest::Manifest;
pub use record::PointRecord;
pub use shard::Shard;

use sha2::{Digest, Sha256};
use std::fmt;

/// Computes the SHA-256 of the text that is written to it, and returns the digest in hexadecimal.
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
