//! The laboratory: runs plans of races, and turns their runs into results and reports.
//!
//! [`plan`] describes what to race. [`run`] runs a plan, with one simulation per seed and one thread per simulation.
//! [`results`] defines the documented result format, and [`stats`] summarises results. [`table`] and `report` display them.
//! [`sweep`] handles plans with many points. Nothing in this crate knows how a packet is built.
//!
//! # Causes
//!
//! Experiments find the causes (`causes`): the loser gets settings of the winner and races again with the same seeds.
//!
//! - `settings.rs` is the only table of settings, each with its group or the reason why it is no factor. A test fails if a
//!   knob is missing there.
//! - A changed contestant is a text that anyone can race (`Contestant::with`).
//! - `requests.rs` separates effects that a client's keys confound: connections, streams, outstanding requests.
//! - If at most five settings differ, each is a factor by itself. If more differ, the group with the most settings becomes
//!   one factor, then the next group, until five factors or only groups are left.
//! - `design.rs` chooses subsets within the budget, and `estimate.rs` names the causes.
//! - `benches/src/causes/situations.rs` has situations whose cause is known by construction. The command `causes` and a test
//!   check the search against them.
//!
//! # Sweeps and populations
//!
//! Each point is raced on its own. `sweep` adds shards, output formats, the grid and the summary sentence. A plan holds
//! lists, from which `plan::Outline` makes one point after the other. So a sweep needs the memory of only one point.
//!
//! With a `population`, each point is a person. `draw.rs` draws the person's network and page from quantiles; they depend
//! only on the seed and the person's number. `draw.rs` uses no logarithm, so a person is the same on every machine.
//! `tally.rs` counts people in any order, by the verdict of `stats/decision.rs` for each. `text.rs` and `page.rs` present
//! the counts.
//!
//! # Studies
//!
//! A study is a folder that describes a published paper as data: plans, published cells, claims and causes.
//!
//! - `bench.rs` runs each plan once, point by point. It keeps every metric of every run (`figures.rs`), under a digest of
//!   the plan. So a run can be resumed, and causes share the runs of tables. Cells, orders, causes and claims follow from
//!   these figures alone.
//! - `check` is the language of claims. A claim is a comparison that can fail.
//! - A cause has a kind (`cause.rs`). Only the kind counterfactual may change keys that a parameter of the paper fixes, and
//!   it explains nothing.
//! - `part.rs` leaves tables out or adds contestants. `measured.rs` writes every number, published or not.
//! - `readings` covers what a paper leaves open. A reading is a set of changes, run on the same bench. `calibrate.rs` sets
//!   the inputs of a reading. A reading is chosen by rows that are not part of its score.
//! - `kept.rs` reads earlier scores. A digest shows whether they belong to the current version of the study.
//! - `baseline.rs` computes the figures of a model from the plan alone. So cells and orders of a model come from the same
//!   code as those of runs.
//! - A number of our own in prose is a link whose text the run writes (`quote.rs`). A finding with a `chart` is drawn with
//!   and without its change (`chart.rs`, `report/contrast.rs`).
//! - `studies/today` has no published values. Its cells are our own, its claims are expectations, and its page begins with
//!   maps (`report/heat.rs`).
//!
//! # Reports
//!
//! `report` imports `results`, `stats` and `capture::{results, views}`, and nothing else of this crate. Neither results nor
//! packets contain congestion windows, waits and losses over time. `run/course.rs` collects them when a run is repeated for
//! its capture.

pub mod attribution;
pub mod causes;
pub mod limit;
pub mod plan;
pub mod population;
pub mod run;
pub mod study;
pub mod sweep;
pub mod transports;
