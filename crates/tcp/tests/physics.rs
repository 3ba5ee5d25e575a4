//! Compares long transfers with ns-2.35 (`benches/physics/ns2/figures.csv`) and with the Mathis formula.

use crate::common::change;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Ratio};
use anabranch_tcp::testing::{Link, flow};
use anabranch_tcp::{Config, Stats};

const SECONDS: u64 = 400;

/// Returns the goodput in segments per second (the mean of three seeds), and the sum of the senders' counters. The link
/// has 10 Mbit/s and a round trip of 100 ms.
fn goodput(changes: &[(&str, &str)], loss: (u64, u64)) -> (f64, Stats) {
    let mut config = Config::profile("ns2").expect("a profile");
    change(&mut config, &[("mss", "1460B"), ("rcvbuf", "1460000B"), ("sndbuf", "4MB"), ("tick", "1ms")]);
    change(&mut config, changes);
    let link = Link {
        rate: "10mbit".parse().expect("a rate"),
        delay: Duration::from_millis(50),
        queue: 15_000_000,
        loss: Ratio::new(loss.0, loss.1).expect("a ratio"),
    };
    let mut stats = Stats::default();
    let mut bytes = 0;
    for seed in 0..3 {
        let flow = flow(&config, link, u64::MAX, Instant::from_millis(SECONDS * 1000), seed);
        bytes += flow.bytes;
        stats.add(&flow.sender);
    }
    (bytes as f64 / 1460.0 / (3 * SECONDS) as f64, stats)
}

/// The goodput of ns-2. Each row has the agent of ns-2, our recovery algorithm, the minimum RTO, and the segments per
/// second at 1, 2 and 3 % loss (means of ten seeds).
const NS2: [(&str, &str, &str, [f64; 3]); 6] = [
    ("Reno", "reno", "1s", [67.7, 42.9, 31.5]),
    ("Newreno", "newreno", "1s", [76.1, 50.2, 38.9]),
    ("Sack1", "sack", "1s", [74.6, 48.6, 37.2]),
    ("Reno", "reno", "200ms", [72.2, 47.9, 38.0]),
    ("Newreno", "newreno", "200ms", [76.5, 51.3, 40.8]),
    ("Sack1", "sack", "200ms", [75.0, 49.5, 38.9]),
];

/// At 1 to 3 % loss, the goodput is within 15 % of the goodput of ns-2.
///
/// There are two known differences, in both of which our sender follows the RFCs. First, after a loss ns-2 halves the
/// congestion window (`TcpAgent::slowdown`). RFC 5681 §3.1 eq. 4 halves the outstanding data instead, which is less
/// after losses. Our goodput is therefore below that of ns-2: by 3 to 6 % for NewReno, and by 1 to 3 % for SACK. With
/// the rule of ns-2, it would be 0 to 4 % below for NewReno, and 1 to 5 % above for SACK.
///
/// Second, ns-2 and our sender estimate the data in flight differently. `pipe_` of `Sack1TcpAgent` counts lost segments
/// as in flight until the recovery is over, while RFC 6675 subtracts them. Therefore ns-2 sends one segment less per
/// loss. `Sack1TcpAgent` also discards its scoreboard when a recovery ends.
#[test]
fn as_ns2() {
    let mut wrong = 0;
    for (agent, recovery, rto_min, figures) in NS2 {
        for (percent, theirs) in (1..).zip(figures) {
            let sack = if recovery == "sack" { "yes" } else { "no" };
            let changes = [("recovery", recovery), ("sack", sack), ("rto_min", rto_min)];
            let (ours, stats) = goodput(&changes, (percent, 100));
            let ratio = ours / theirs;
            println!(
                "{agent:8} {rto_min:6} {percent} %: ns-2 {theirs:.1}, here {ours:.1} ({ratio:.3}); {} timeouts, {} fast",
                stats.timeouts, stats.fast_recoveries
            );
            wrong += usize::from(!(0.85..1.15).contains(&ratio));
        }
    }
    assert_eq!(wrong, 0, "beyond 15 % of ns-2");
}

/// At 0.1 % loss, the goodput in segments per second is within 15 % of the Mathis formula, sqrt(3 / (2·b·p)) / RTT. p
/// is the loss rate. b is 2 if the window grows with each acknowledgement, and 1 if it grows with the acknowledged
/// bytes.
#[test]
fn as_mathis() {
    let mut wrong = 0;
    for (abc, b) in [("off", 2.0), ("1", 1.0)] {
        let changes = [("abc", abc), ("rto_min", "200ms"), ("limited_transmit", "yes")];
        let (ours, _) = goodput(&changes, (1, 1000));
        let mathis = (3.0_f64 / (2.0 * b * 0.001)).sqrt() / 0.1012;
        println!("abc={abc}: Mathis {mathis:.0}, here {ours:.0} ({:.3})", ours / mathis);
        wrong += usize::from(!(0.85..1.15).contains(&(ours / mathis)));
    }
    assert_eq!(wrong, 0, "beyond 15 % of the formula");
}
