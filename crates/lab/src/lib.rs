//! From plans to runs, results and reports.
//!
//! [`plan`] describes what to race. [`run`] runs it, with one simulation per seed and one thread per simulation. [`results`]
//! defines the documented result format, and [`stats`] summarises it. [`table`] and `report` display it; [`sweep`] adds what
//! concerns many points. Nothing in this crate knows how a packet is built.
//!
//! # Causes
//!
//! Causes are found by experiment (`causes`): the loser gets settings of the winner and races again with the same seeds.
//!
//! - `settings.rs` is the one table of settings, each with its group or the reason why it is no factor. A test fails if a
//!   knob is missing there.
//! - A changed contestant is a text that anyone can race (`Contestant::with`).
//! - `requests.rs` separates effects that a client's keys confound: connections, streams, outstanding requests.
//! - If at most five settings differ, each is a factor by itself. Otherwise the group with the most settings becomes one
//!   factor, and so on.
//! - `design.rs` chooses subsets within the budget, and `estimate.rs` names the causes.
//! - `benches/src/causes/situations.rs` has situations whose cause is known by construction. The command `causes` and a test
//!   check the search against them.
//!
//! # Sweeps and populations
//!
//! Each point is a race of its own. `sweep` adds what concerns many points: shards, output formats, grid and summary
//! sentence. A plan holds lists, from which `plan::Outline` makes one point after the other. So a sweep needs the memory of
//! only one point.
//!
//! With a `population` each point is a person. `draw.rs` makes network and page from quantiles; it depends only on the seed
//! and the person's number. It uses no logarithm, so a person is the same on every machine. `tally.rs` counts people in any
//! order, by the verdict of `stats/decision.rs` for each. `text.rs` and `page.rs` present the counts.
//!
//! # Studies
//!
//! A study is a folder: plans, published cells, claims and causes as data.
//!
//! - `bench.rs` runs each plan once, point by point, and keeps `figures.rs`: every metric of every run, under a digest of
//!   the plan. So a run can be resumed, and causes share the runs of tables. Cells, orders, causes and claims follow from
//!   figures alone.
//! - `check` is the language of claims. A claim is a comparison that can fail.
//! - A cause has a kind (`cause.rs`). Only a counterfactual, which explains nothing, may change keys that a parameter of the
//!   paper fixes.
//! - `part.rs` leaves tables out or adds contestants. `measured.rs` writes every number, published or not.
//! - `readings` covers what a paper leaves open. A reading is a set of changes, run on the same bench. `calibrate.rs` sets
//!   its inputs. A reading is chosen by rows that are not part of its score.
//! - `kept.rs` reads earlier scores, and detects by a digest whether they belong to the current version of the study.
//! - `baseline.rs` computes the figures of a model from the plan alone. So cells and orders of a model come from the same
//!   code as those of runs.
//! - A number of ours in prose is a link whose text is written by the run (`quote.rs`). A finding with a `chart` is drawn
//!   with and without its change (`chart.rs`, `report/contrast.rs`).
//! - `studies/today` has no published values: its cells are our own, its claims are expectations, and its page begins with
//!   maps (`report/heat.rs`).
//!
//! # Reports
//!
//! `report` imports `results`, `stats` and `capture::{results, views}`, and nothing else of this crate. Congestion windows,
//! waits and losses over time are in neither results nor packets. `run/course.rs` collects them when a run is repeated for
//! its capture.

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
