//! The results of a race for a simulated population: which contestant serves each person best. Each person is one point
//! of the sweep.
//!
//! [`tally`] counts people. [`text`] and [`page`] format the counts.

pub mod page;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod text;

pub use tally::Tally;
