//! Runs races of transports, as a plan describes them, and computes their results.
//!
//! [`plan`] reads plans, which describe races. [`run`] runs a plan, with one simulation per seed and one thread per
//! simulation. `anabranch_transports` lists the transports that can take part in a race. [`sweep`] handles plans with
//! many points. Nothing in this crate knows how a packet is built. `anabranch_results` holds the format of results and
//! their statistics, and `anabranch_report` displays them.
//!
//! # Causes
//!
//! Experiments find the causes ([`causes`]): the loser gets settings of the winner and races again with the same seeds.
//!
//! - `settings.rs` is the only table of settings. It has the group of each setting, or the reason why the setting
//!   cannot be a cause. A test fails if a setting of a transport engine (a knob) is missing in the table.
//! - `Contestant::with` changes settings of a contestant. The changed contestant can be written as text like any other,
//!   so a user can race it.
//! - `requests.rs` separates the effects of the numbers of connections, streams and outstanding requests. One setting
//!   of a contestant can change several of these numbers.
//! - If at most five settings differ, each is a factor by itself. If more differ, the settings of the largest group
//!   become one factor, then those of the next group. This ends when five factors are left, or each group is one
//!   factor.
//! - `design.rs` chooses subsets within the budget, and `estimate.rs` names the causes.
//! - `benches/src/causes/situations.rs` has situations whose cause is known by construction. The command `causes` and a
//!   test check the search against them.
//!
//! # Sweeps and populations
//!
//! A plan holds a list of values for each key, and a point is one combination of these values. `plan::Outline` makes
//! one point at a time, so only one point is in memory. The contestants run at each point separately. `sweep` assigns
//! the points to machines (shards), and defines the files that store their results.
//!
//! With a `population`, each point is a person, which is a simulated user. `draw.rs` draws the person's network and
//! page from quantiles. Network and page depend only on the seed and the index of the person. No logarithm is computed,
//! because its rounding differs between machines, so a person is the same on every machine. `anabranch_report::people`
//! counts the verdicts for all people, in any order.
//!
//! # The course of a run
//!
//! Neither the results nor the captured packets show how congestion windows, queueing delays and losses develop.
//! `run/course.rs` records their development when a run is repeated to capture its packets.

mod attribution;
pub mod calibrate;
pub mod causes;
mod limit;
pub mod plan;
pub mod run;
pub mod sweep;
