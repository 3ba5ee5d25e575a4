//! Runs a plan and computes its results.
//!
//! [`one`] carries out one simulated run, and [`batch`] all of them. [`topology`] builds the network of a run, and
//! `handover` changes the network if clients move. `contest` runs a contestant in the network. `collect`, `traffic` and
//! `course` turn records into results. `paint` finds when a user sees the page. [`ns_trace`] and [`sequence`] write the
//! packets of a run as text, and [`files`] names the files of a run. `bound` computes the lower bound. [`live`] carries
//! out runs in an emulated network, in real time.

pub mod batch;
pub mod bound;
mod collect;
pub(crate) mod contest;
mod course;
pub mod failover;
pub mod files;
mod handover;
mod host;
#[cfg(target_os = "linux")]
pub mod live;
pub mod ns_trace;
pub mod one;
mod paint;
pub mod sequence;
pub mod topology;
mod traffic;
