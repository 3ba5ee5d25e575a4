//! The laboratory: runs plans of races, and turns their runs into results.
//!
//! [`plan`] describes what to race. [`run`] runs a plan, with one simulation per seed and one thread per simulation.
//! `anabranch_transports` lists what can race. [`sweep`] handles plans with many points. Nothing in this crate knows
//! how a packet is built. `anabranch_results` holds the format of results and their statistics, and `anabranch_report`
//! displays them.
//!
//! # Causes
//!
//! Experiments find the causes ([`causes`]): the loser gets settings of the winner and races again with the same seeds.
//!
//! - `settings.rs` is the only table of settings, each with its group or the reason why it is no factor. A test fails
//!   if a knob is missing in the table.
//! - A changed contestant is a text that anyone can race (`Contestant::with`).
//! - `requests.rs` separates effects that a client's keys confound: connections, streams, outstanding requests.
//! - If at most five settings differ, each is a factor by itself. If more differ, the group with the most settings
//!   becomes one factor, then the next group, until five factors or only groups are left.
//! - `design.rs` chooses subsets within the budget, and `estimate.rs` names the causes.
//! - `benches/src/causes/situations.rs` has situations whose cause is known by construction. The command `causes` and a
//!   test check the search against them.
//!
//! # Sweeps and populations
//!
//! Each point is raced on its own. `sweep` adds shards and the stored files. A plan holds lists, from which
//! `plan::Outline` makes one point after the other. A sweep therefore needs the memory of only one point.
//!
//! With a `population`, each point is a person. `draw.rs` draws the person's network and page from quantiles. Network
//! and page depend only on the seed and the person's number. `draw.rs` uses no logarithm, so a person is the same on
//! every machine. `anabranch_report::people` counts the verdicts for all people, in any order.
//!
//! # The course of a run
//!
//! Congestion windows, waits and losses over time are in neither the results nor the packets. `run/course.rs` collects
//! them when a run is repeated for its capture.

mod attribution;
pub mod calibrate;
pub mod causes;
mod limit;
pub mod plan;
pub mod run;
pub mod sweep;
