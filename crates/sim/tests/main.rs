//! Tests of the network simulator, by topic.

mod capture;
mod determinism;
mod faults;
mod filter;
mod fragments;
mod processor;
mod programs;
mod suite;
mod support;
mod tasks;
mod timing;
mod topology;
