//! Turns a plan into its results.
//!
//! [`one`] runs one world, and [`batch`] all worlds. [`topology`] is the network of a run, and `handover` changes it if
//! clients move. `contest` runs a contestant on it. `harvest`, `traffic` and `course` turn records into results.
//! `bound` computes the limit. [`live`] runs plans in real time.

pub mod batch;
pub(crate) mod bound;
pub(crate) mod contest;
mod course;
pub mod failover;
mod handover;
mod harvest;
mod host;
#[cfg(target_os = "linux")]
pub mod live;
pub mod one;
pub mod topology;
mod traffic;
