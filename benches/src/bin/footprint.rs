//! Measures the memory of an idle SCTP association with a counting allocator.
//!
//!     cargo run --release --bin footprint
//!
//! The result is the number of bytes that are allocated and not freed, for one endpoint of one association: the bytes
//! of both endpoints, divided by two. There are four results: with few streams and with the maximum number of streams,
//! each after the setup and after one message.

use anabranch_benches::stacks::{BUFFER, Ours, Rtc, Settings, StackPair};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ASSOCIATIONS: usize = 1000;

fn allocated_bytes() -> f64 {
    let stats = GLOBAL.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

fn main() {
    println!("bytes an idle association holds at one end (mean of {ASSOCIATIONS}, of both ends)");
    for streams in [10, u16::MAX] {
        let settings = Settings { streams, ..Settings::default() };
        // Opens one association first, so that the endpoints' tables are allocated before the measurement.
        let mut pair = Ours::new(settings);
        pair.associate();
        let before = allocated_bytes();
        for _ in 0..ASSOCIATIONS {
            pair.associate();
        }
        let fresh = (allocated_bytes() - before) / (2 * ASSOCIATIONS) as f64;
        let mut used = Ours::new(settings);
        used.associate();
        let before = allocated_bytes();
        for _ in 0..ASSOCIATIONS {
            used.associate();
            used.send(&[7; 1000]);
            used.turn(&mut |_, _| {});
            used.turn(&mut |_, _| {});
        }
        let after = (allocated_bytes() - before) / (2 * ASSOCIATIONS) as f64;
        println!(
            "anabranch, {streams:5} streams: {fresh:6.0} fresh, {after:6.0} after a message of 1000 bytes"
        );
        assert!(pair.open == ASSOCIATIONS + 1 && used.open == ASSOCIATIONS + 1, "some did not come up");
    }
    let mut rtc = Rtc::new(BUFFER);
    rtc.associate();
    let before = allocated_bytes();
    for _ in 0..ASSOCIATIONS {
        rtc.associate();
    }
    println!(
        "rtc-sctp,  65535 streams: {:6.0} fresh",
        (allocated_bytes() - before) / (2 * ASSOCIATIONS) as f64
    );
}
