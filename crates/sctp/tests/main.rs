//! Tests of the engine under attack, and at the limits of its sequence numbers. Tests of single chunks are in
//! `scenarios`.

mod address_hijack;
mod amplification;
mod buffered;
mod datagrams;
mod examples;
mod handed_back;
mod interleaving;
mod memory;
mod wraps;
