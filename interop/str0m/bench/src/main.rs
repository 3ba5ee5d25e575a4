//! Measures a transfer through one data channel of str0m, or through its SCTP engine alone, over a link in virtual
//! time. `interop/str0m.sh` builds this program with each of the two engines.
//!
//! `str0m-bench ENGINE LOSS RTT MB SEED`
//!
//! - ENGINE: `rtc` for all of str0m (ICE, DTLS and SCTP), `sctp` for its SCTP engine alone
//! - LOSS: hundredths of a percent of the packets that are lost in each direction
//! - RTT: milliseconds
//! - MB: megabytes to send
//! - SEED: the seed of the losses
//!
//! The output is one line: seconds of virtual time, Mbit/s of payload, and seconds of CPU time, each from the first
//! byte to the last.

mod engine;
mod link;
mod rtc;

use std::time::{Duration, Instant};

/// The rate of the link in each direction, bit/s.
pub const RATE: u64 = 100_000_000;

/// The limit of str0m's send buffer in bytes, set higher than its default.
pub const CAP: usize = 8 << 20;

/// The size of a message in bytes.
pub const MESSAGE: usize = 16 << 10;

/// The virtual time after which a transfer is abandoned.
pub const LIMIT: Duration = Duration::from_secs(600);

/// The result of a transfer.
pub struct Outcome {
    /// Virtual time from the first byte written to the last byte received.
    pub took: Duration,
    pub bytes: u64,
    pub processor: Duration,
}

/// Returns the CPU time that this program has used. It has one thread.
pub fn processor_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = schedstat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}

/// Returns the start of virtual time. An [`Instant`] can only come from the system clock, and only this function reads
/// the clock.
#[expect(clippy::disallowed_methods, reason = "str0m takes no other")]
pub fn begin() -> Instant {
    Instant::now()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (Some(engine), &[loss, rtt, megabytes, seed]) = (arguments.first(), &numbers[..]) else {
        eprintln!("str0m-bench ENGINE LOSS RTT MB SEED: rtc or sctp, 1/100 %, ms, MB, a number");
        std::process::exit(2);
    };
    let link = || link::Link::new(loss, Duration::from_millis(rtt) / 2, seed);
    let bytes = megabytes * 1_000_000;
    let outcome = match engine.as_str() {
        "rtc" => rtc::transfer(link(), link(), bytes),
        _ => engine::transfer(link(), link(), bytes),
    };
    let seconds = outcome.took.as_secs_f64();
    let rate = outcome.bytes as f64 * 8e-6 / seconds;
    println!("{seconds:.3} {rate:.3} {:.3}", outcome.processor.as_secs_f64());
}
