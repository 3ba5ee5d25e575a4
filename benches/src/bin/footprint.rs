//! The memory of an idle association, measured with a counting allocator.
//!
//!     cargo run --release --bin footprint
//!
//! The figure is the number of bytes that are allocated and not freed, for one end of one association: the bytes of
//! both ends, divided by two. There are four figures. Few streams or the maximum were negotiated, and the association
//! was just set up or has carried one message.

use anabranch_benches::stacks::{BUFFER, Duo, Ours, Rtc, Settings};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ASSOCIATIONS: usize = 1000;

fn held() -> f64 {
    let stats = GLOBAL.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

fn main() {
    println!("bytes an idle association holds at one end (mean of {ASSOCIATIONS}, of both ends)");
    for streams in [10, u16::MAX] {
        let settings = Settings { streams, ..Settings::default() };
        // Opens one association first, so that the endpoints' tables are allocated before the measurement.
        let mut duo = Ours::new(settings);
        duo.associate();
        let before = held();
        for _ in 0..ASSOCIATIONS {
            duo.associate();
        }
        let fresh = (held() - before) / (2 * ASSOCIATIONS) as f64;
        let mut used = Ours::new(settings);
        used.associate();
        let before = held();
        for _ in 0..ASSOCIATIONS {
            used.associate();
            used.send(&[7; 1000]);
            used.turn(&mut |_, _| {});
            used.turn(&mut |_, _| {});
        }
        let after = (held() - before) / (2 * ASSOCIATIONS) as f64;
        println!(
            "anabranch, {streams:5} streams: {fresh:6.0} fresh, {after:6.0} after a message of 1000 bytes"
        );
        assert!(duo.open == ASSOCIATIONS + 1 && used.open == ASSOCIATIONS + 1, "some did not come up");
    }
    let mut rtc = Rtc::new(BUFFER);
    rtc.associate();
    let before = held();
    for _ in 0..ASSOCIATIONS {
        rtc.associate();
    }
    println!("rtc-sctp,  65535 streams: {:6.0} fresh", (held() - before) / (2 * ASSOCIATIONS) as f64);
}
