//! Measures the time that our TCP needs for a segment. Two endpoints in memory are joined by a link of 100 Mbit/s with
//! a delay of 20 ms. The time includes headers, checksums and the application's copies.
//!
//!     cargo run --release --bin segments [-- PROFILE [MEGABYTES [LOSS]]]
//!
//! Prints the elapsed time in nanoseconds divided by the number of segments sent: data segments and acknowledgements.

use anabranch_base::time::Duration;
use anabranch_base::{Instant, Ratio};
use anabranch_tcp::Config;
use anabranch_tcp::testing::{Link, flow};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let profile = arguments.next().unwrap_or_else(|| "modern".to_owned());
    let megabytes: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let loss: Option<Ratio> = arguments.next().map_or(Ratio::new(1, 1000), |text| text.parse().ok());
    let (Some(config), Some(loss), Ok(rate)) = (Config::profile(&profile), loss, "100mbit".parse()) else {
        eprintln!("usage: segments [{}] [megabytes] [loss such as 0.1%]", anabranch_tcp::PROFILES.join("|"));
        return;
    };
    let link = Link { rate, delay: Duration::from_millis(10), queue: 250_000, loss };
    let start = std::time::Instant::now();
    let flow = flow(&config, link, megabytes * 1_000_000, Instant::MAX, 1);
    let elapsed = start.elapsed();
    let each = elapsed.as_nanos() as f64 / flow.packets as f64;
    println!(
        "{profile}: {} transmissions in {:.3} s: {each:.0} ns each, {:.2} M/s (virtual time {})",
        flow.packets,
        elapsed.as_secs_f64(),
        1e3 / each,
        flow.end
    );
}
