//! Statistics of the runs of a race, with their uncertainty.
//!
//! This module only computes statistics from results. It runs no simulation.
//!
//! - [`summary`] describes the values of one contestant.
//! - [`interval`] computes means and medians with their intervals.
//! - [`paired`] compares two contestants seed by seed, and [`decision`] derives the verdict. [`median_ratio`] compares
//!   their medians.
//! - [`crossing`] finds the value of a factor at which the verdict changes.
//! - [`rank`] compares two sets of runs, and [`sharing`] measures how contestants share a network.
//! - [`agreement`] compares observed runs with a model's runs as two sets. [`equivalence`] compares them seed by seed.
//! - [`metrics`] computes each metric of a run.
//!
//! A value always belongs to a run (a seed), never to an object, because the objects of one run are not independent of
//! one another.

pub mod agreement;
pub mod crossing;
pub mod decision;
pub mod equivalence;
pub mod interval;
pub mod median_ratio;
pub mod metrics;
pub mod paired;
pub mod rank;
pub mod sharing;
pub mod summary;

pub use paired::ratio;
pub use summary::describe;
