//! Measures the CPU time in nanoseconds that a simulated link needs for a packet, for several kinds of links.
//!
//!     cargo run --release --bin link_cost

use anabranch_base::{Instant, Rng};
use anabranch_link::{Chain, LinkSpec, TestPacket};

fn main() {
    println!("{:>8}  {:>8}  link", "ns", "lost %");
    for settings in [
        "rate=100mbit,rtt=20ms,loss=0.1%",
        "rate=100mbit,rtt=20ms,loss=0.1%,jitter=1ms",
        "rate=100mbit,rtt=20ms,loss=ge:1%/30%",
        "rate=100mbit,rtt=20ms,loss=nth:1000/shared",
        "rate=100mbit/30s:50mbit,rtt=20ms,loss=0.1%",
        "rate=100mbit,rtt=20ms,reorder=1%,duplicate=1%,corrupt=1%",
        "rate=100mbit,rtt=20ms,aqm=red",
        "rate=100mbit,rtt=20ms,aqm=pie",
        "rate=100mbit,rtt=20ms,aqm=codel",
        "rate=100mbit,rtt=20ms,aqm=fq-codel",
    ] {
        let link = LinkSpec::parse(settings).expect("the settings are right");
        let (_, down) = link.build::<TestPacket>(1, &Rng::new(1)).expect("and go together");
        let (nanos, lost) = cost(down);
        println!("{nanos:8.1}  {lost:8.2}  {settings}");
    }
}

/// Sends bursts of four packets over a link, at 99 % of its rate. Returns the cost of a packet.
fn cost(mut chain: Chain<TestPacket>) -> (f64, f64) {
    const PACKETS: u64 = 20_000_000;
    let start = std::time::Instant::now();
    let mut now = Instant::ZERO;
    let mut received = 0_u64;
    for number in 0..PACKETS {
        while let Some(at) = chain.next().filter(|at| *at <= now) {
            while let Some(packet) = chain.pop(at) {
                received += u64::from(packet.number < PACKETS);
            }
        }
        while chain.pop_dropped().is_some() {}
        chain.push(now, TestPacket::numbered(1500, number));
        if number % 4 == 3 {
            now = now.plus_nanos(484_848);
        }
    }
    assert!(received > 0);
    let nanos = start.elapsed().as_nanos() as f64 / PACKETS as f64;
    (nanos, chain.meter().lost().packets as f64 * 100.0 / PACKETS as f64)
}
