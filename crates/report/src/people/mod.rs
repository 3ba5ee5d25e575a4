//! Results of a simulated population: which contestant serves each person best. The sweep has one point for each
//! person.
//!
//! [`tally`] counts people. [`text`] and [`page`] format the counts.

pub mod page;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod text;

pub use tally::Tally;
