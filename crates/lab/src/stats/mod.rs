//! Statistics: from runs to numbers with their uncertainty.
//!
//! Owns the arithmetic alone. [`summary`] describes one contestant's values, [`interval`] computes means and medians with
//! their intervals. [`paired`] compares two contestants seed by seed, [`decision`] derives the verdict, and [`crossing`]
//! finds where the verdict changes. [`rank`] compares two sets of runs. [`sharing`] measures how contestants share a
//! network. [`agreement`] compares two worlds, [`equivalence`] two worlds seed by seed. [`metrics`] computes each metric of
//! a run.
//!
//! A value always belongs to a run (a seed), never to an object: the objects of one run are not independent of one another.

pub mod agreement;
pub mod crossing;
pub mod decision;
pub mod equivalence;
pub mod interval;
pub mod metrics;
pub mod paired;
pub mod rank;
pub mod sharing;
pub mod summary;

pub use paired::ratio;
pub use summary::describe;
