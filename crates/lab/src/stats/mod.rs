//! From runs to numbers with their uncertainty.
//!
//! Owns the arithmetic alone: [`summary`] describes one contestant's values,
//! [`interval`] means and medians with their intervals, [`paired`] compares two contestants
//! seed by seed, [`decision`] what that decides, [`crossing`] where it changes, [`rank`] two sets of runs, [`sharing`] says how
//! contestants share a network, [`agreement`] compares two worlds, [`equivalence`] two worlds seed by
//! seed. [`metrics`] says which number of a
//! run each metric is. A value is a run's (a seed's), never an object's: objects of one run share
//! their luck and are not independent.

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
