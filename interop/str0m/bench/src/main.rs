//! A transfer through one data channel of str0m, or through its engine alone, over a link in virtual time: the same
//! program for whichever engine is built in, the same link, the same losses.
//!
//! `str0m-bench ENGINE LOSS RTT MB SEED`: `rtc` (ICE, DTLS and SCTP, as str0m has them) or `sctp` (SCTP alone);
//! hundredths of a percent lost each way; milliseconds; megabytes to be sent; whose luck. One line: seconds of virtual
//! time, Mbit/s of payload, and seconds of processor time from the first to the last byte.

mod engine;
mod link;
mod rtc;

use std::time::{Duration, Instant};

/// The link: 100 Mbit/s each way, with room in its queue for all that may be sent.
pub const RATE: u64 = 100_000_000;

/// What str0m may buffer; its cap is raised to this.
pub const CAP: usize = 8 << 20;

/// Bytes of a message.
pub const MESSAGE: usize = 16 << 10;

/// No transfer takes longer than this.
pub const LIMIT: Duration = Duration::from_secs(600);

/// What came of a transfer.
pub struct Outcome {
    /// Virtual time from the first byte given to the last received.
    pub took: Duration,
    pub bytes: u64,
    pub processor: Duration,
}

/// Processor time of this program, which has one thread.
pub fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = told.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}

/// Where virtual time begins: it has to be an instant of the system's, and is the only one that is asked for.
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
