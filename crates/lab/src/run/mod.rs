//! From a plan to its results: [`one`] runs a world, [`batch`] all of them.

pub mod batch;
pub mod one;
