//! The engine under attack and at the ends of its numbers; what each chunk does is in `scenarios`.

mod address_hijack;
mod amplification;
mod buffered;
mod datagrams;
mod examples;
mod handed_back;
mod interleaving;
mod memory;
mod wraps;
