//! Turns plans into runs, runs into results, and results into reports.
//!
//! [`plan`] says what to race. [`run`] runs it, with a world for each seed and a thread for each world. [`results`] is
//! the documented format of the output. [`stats`] summarises it, and [`table`] and `report` present it. [`sweep`] adds
//! what many points need. This crate does not know how a packet is made.
//!
//! # Causes
//!
//! Causes are found by experiment (`causes`). The slower contestant gets settings of the faster one and races again
//! with the same seeds.
//!
//! - `settings.rs` is the only table of settings. Each has its group, or the reason why it is no factor. A test fails
//!   if a knob is missing there.
//! - A changed contestant is a text that anyone can race (`Contestant::with`).
//! - `requests.rs` separates what a client's keys confound: connections, streams and outstanding requests.
//! - If at most five settings differ, each is a factor. Otherwise the group with the most of them becomes one factor,
//!   and so on.
//! - `design.rs` chooses subsets within the budget, and `estimate.rs` decides which are causes.
//! - `benches/src/causes/situations.rs` has situations with a known cause. The command `causes` and a test check the
//!   search against them.
//!
//! # Sweeps and populations
//!
//! A point is a race of its own. `sweep` adds what many points need: shards, file formats, grid and sentence. A plan
//! holds lists of levels, from which `plan::Outline` makes one point after the other. So a sweep needs the memory of
//! one point.
//!
//! With a `population` each point is a person. `draw.rs` draws network and page from quantiles. It uses only the seed
//! and the person's number, and no logarithms, so a person is the same on every machine. `tally.rs` counts people in
//! any order, by the decisions of `stats/decision.rs`. `text.rs` and `page.rs` present the result.
//!
//! # Studies
//!
//! A study is a folder with plans, published cells, claims and causes as data.
//!
//! - `bench.rs` runs each plan once, point by point, and keeps `figures.rs`: every metric of every run, under a digest
//!   of the plan. So a run can be resumed, and causes reuse the runs of tables. Cells, orders, causes and claims depend
//!   only on figures.
//! - `check` is the language of claims. A claim is a comparison that can fail.
//! - A cause has a kind (`cause.rs`). Only a counterfactual may change keys that a parameter of the paper fixes, and it
//!   does not count as an explanation.
//! - `part.rs` leaves tables out or adds contestants. `measured.rs` writes every number, published or not.
//! - `readings` covers what a paper leaves open. A reading is a set of changes, run on the same bench. `calibrate.rs`
//!   sets its inputs. The reading is chosen by rows that do not score it.
//! - `kept.rs` reads earlier scores, and detects by a digest whether they belong to the current study.
//! - `baseline.rs` writes figures in the form of runs, from the plan alone. So the same code makes the cells and orders
//!   of a model.
//! - A number of ours in prose is a link whose text the run writes (`quote.rs`). A finding with a `chart` is drawn with
//!   and without its change (`chart.rs`, `report/contrast.rs`).
//! - `studies/today` has no published values: its cells are our own results, its claims are expectations, and its page
//!   begins with maps (`report/heat.rs`).
//!
//! # Reports
//!
//! `report` imports `results`, `stats` and `capture::{results, views}`, and nothing else of this crate. Neither results
//! nor packets have windows, waits and losses. `run/course.rs` gathers them when a run is repeated for its capture.

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
