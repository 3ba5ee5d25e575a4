//! Turns plans into runs, runs into results, and results into reports.
//!
//! [`plan`] says what to race. [`run`] runs it, with a world for each seed and a thread for each world. [`results`] is
//! the documented format of the output. [`stats`] summarises it, and [`table`] and `report` present it. [`sweep`] adds
//! what many points need. This crate does not know how a packet is made.
//!
//! # Causes
//!
//! Causes are found by experiment (`causes`): the loser gets settings of the winner and races again with the same seeds.
//!
//! - `settings.rs` is the one table of settings, each with its group or the reason why it is no factor. A knob that is missing there fails a
//!   test.
//! - A changed contestant is a text that anyone can race (`Contestant::with`).
//! - `requests.rs` separates what a client's keys confound: connections, streams, outstanding requests.
//! - A setting is a factor by itself where at most five differ. Otherwise the group with most of them becomes one factor, and so on.
//! - `design.rs` chooses subsets within the budget, and `estimate.rs` names the causes.
//! - `benches/src/causes/situations.rs` has situations whose cause is known by construction. The command `causes` and a test check the search
//!   against them.
//!
//! # Sweeps and populations
//!
//! A point is a race of its own. `sweep` has what many points add: shards, formats of what is kept, grid and sentence. A plan holds lists, of
//! which `plan::Outline` makes one point after the other. So a sweep takes the memory of one point.
//!
//! With a `population` each point is a person. `draw.rs` makes network and page from quantiles, from the seed and the person's number alone
//! and without a logarithm. So a person is the same on every machine. `tally.rs` counts people in any order, by what `stats/decision.rs`
//! decided for each. `text.rs` and `page.rs` present it.
//!
//! # Studies
//!
//! A study is a folder: plans, published cells, claims and causes as data.
//!
//! - `bench.rs` runs each plan once, point by point, and keeps `figures.rs`: every metric of every run, under a digest of the plan. So a run
//!   can be resumed, and causes share the runs of tables. Cells, orders, causes and claims follow from figures alone.
//! - `check` is the language of claims. A claim is a comparison that can fail.
//! - A cause has a kind (`cause.rs`). Keys that a parameter of the paper fixes may be changed by a counterfactual only, which explains nothing.
//! - `part.rs` leaves tables out or adds contestants. `measured.rs` writes every number, published or not.
//! - `readings` covers what a paper leaves open. A reading is a set of changes, run on the same bench. `calibrate.rs` sets its
//!   inputs. It is chosen by rows that do not score it.
//! - `kept.rs` reads earlier scores, and detects by a digest whether they belong to the study as it is.
//! - `baseline.rs` writes figures as runs do, from the plan alone. So cells and orders of a model come from the same code.
//! - A number of ours in prose is a link whose text the run writes (`quote.rs`). A finding with a `chart` is drawn with and without its
//!   change (`chart.rs`, `report/contrast.rs`).
//! - `studies/today` has no published values: its cells are ours, its claims are expectations, and its page begins with maps (`report/heat.rs`).
//!
//! # Reports
//!
//! `report` imports `results`, `stats` and `capture::{results, views}`, and nothing else of this crate. Windows, waits and losses are in
//! neither results nor packets. `run/course.rs` gathers them when a run is repeated for its capture.

pub mod attribution;
pub mod capture;
pub mod causes;
pub mod compare;
pub mod csv;
pub mod features;
pub mod json;
pub mod limit;
pub mod plan;
pub mod population;
pub mod report;
pub mod results;
pub mod run;
pub mod stats;
pub mod study;
pub mod sweep;
pub mod table;
pub mod transports;
pub mod verdict;
