//! From a plan to its results.
//!
//! [`one`] runs a world, [`batch`] all of them; [`topology`] is the network of
//! a run, `handover` what changes in it where clients move, `contest` what a contestant does on it, `harvest`, `traffic` and `course` what
//! was observed of that, `bound` the limit in its terms. [`live`] runs plans in
//! real time.

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
