//! One connection.

mod state;

pub use state::State;
