//! Tests of the whole system: races, captures, documentation and source code.

mod captures;
mod circles;
mod contestant;
mod data;
mod determinism;
mod failover;
mod glossary;
mod lab_page;
mod layer;
mod pages;
mod physics;
mod profiles;
mod prose;
mod recipes;
mod storms;
