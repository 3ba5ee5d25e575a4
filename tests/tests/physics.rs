//! Tests that flows share a bottleneck fairly, and that no flow exceeds the capacity of the network.

use anabranch_results::{Outcome, Race, Run};
use anabranch_tests::{check, plan, race, race_on, runs};

/// Returns Jain's fairness index of these shares: 1 if all shares are equal, and 1/n if one of n has everything.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|x| x * x).sum());
    sum * sum / (shares.len() as f64 * squares)
}

/// Returns the number of bytes that arrived from the server between two times, which are in seconds.
fn carried(run: &Run, from_s: usize, until_s: usize) -> f64 {
    let down = run.series.paths.iter().map(|path| &path.down.delivered);
    down.map(|buckets| buckets.iter().take(until_s * 10).skip(from_s * 10).sum::<u64>()).sum::<u64>() as f64
}

/// Returns Jain's index of two contestants, as the mean over the seeds. Each contestant has an endless download over
/// the same drop-tail bottleneck of 10 Mbit/s. The index is measured over a hundred seconds, after twenty seconds of
/// settling.
fn fairness(network: &str, first: &str, second: &str) -> f64 {
    let line = format!(
        "--shared-link --rate 10mbit {network} --bulk 1GB --deadline 120s --runs 3 --transport {first} --transport {second}"
    );
    let found = race(&line);
    let [one, two] = found.points[0].contestants.as_slice() else { panic!("two contestants") };
    let mut indices = Vec::new();
    for (a, b) in one.runs.iter().zip(&two.runs) {
        assert_eq!((a.outcome, b.outcome), (Outcome::Deadline, Outcome::Deadline), "{line}");
        let shares = [carried(a, 20, 120), carried(b, 20, 120)];
        let rate = (shares[0] + shares[1]) * 8.0 / 100.0;
        assert!(rate <= 10e6 * 1.001, "{line}: {rate} bit/s through 10 Mbit/s");
        assert!(rate >= 10e6 * 0.8, "{line}: {rate} bit/s of 10 Mbit/s are used");
        indices.push(jain(&shares));
    }
    let mean = indices.iter().sum::<f64>() / indices.len() as f64;
    println!("{network}: {first} beside {second}: Jain index {mean:.3}, by seed {indices:.3?}");
    mean
}

#[test]
fn two_flows_of_a_kind_share_fairly() {
    for (network, kind) in [
        ("--rtt 40ms --jitter 1ms --queue 1bdp", "tcp:profile=modern"),
        ("--rtt 40ms --jitter 1ms --queue 1bdp", "sctp:profile=rfc9260"),
        ("--rtt 80ms --jitter 1ms --queue 60p", "tcp:profile=linux-2.6,cc=reno"),
        ("--rtt 80ms --jitter 1ms --queue 60p", "sctp:profile=modern"),
        ("--rtt 80ms --jitter 1ms --queue 60p", "tcp:profile=reno-2002,rcvbuf=256KiB,sndbuf=256KiB"),
        ("--rtt 80ms --jitter 1ms --queue 60p", "sctp:profile=lksctp-2.6,rcvbuf=256KiB,sndbuf=256KiB"),
    ] {
        // `connections=1` is the default, so the two contestants differ only in their names.
        let index = fairness(network, kind, &format!("{kind},connections=1"));
        assert!(index > 0.95, "{kind} on {network}: {index}");
    }
}

/// TCP and SCTP have equal congestion control, windows, timers and acknowledgements. Each must get a tolerable share of
/// the bottleneck.
#[test]
fn tcp_and_sctp_of_equal_settings_share_tolerably() {
    for network in ["--rtt 40ms --jitter 1ms --queue 1bdp", "--rtt 80ms --jitter 1ms --queue 60p"] {
        let index = fairness(
            network,
            "tcp:cc=reno,iw=3,rto_min=1s,delack=200ms,rcvbuf=1MiB",
            "sctp:cc=rfc9260,iw=3,rto_min=1s,delack=200ms,rcvbuf=1MiB,max_burst=0",
        );
        assert!(index > 0.8, "{network}: {index}");
    }
}

#[test]
fn the_limit_is_never_beaten() {
    let contestants = "--transport tcp --transport tcp:connections=6 --transport tcp:per-object=yes,iw=64 \
                       --transport sctp:iw=100,max_burst=0 --transport sctp:connections=3 --transport sctp:encap=udp";
    let mut closest = f64::INFINITY;
    for workload in [
        "--page osterdahl-news",
        "--objects 1x0B,5x3kB,1x80kB",
        "--bulk 200kB",
        "--objects 9x9kB --arrivals 40/s",
    ] {
        for network in [
            "--rate 256kbit,10mbit,1gbit,unlimited --rtt 0ms,3ms,80ms",
            "--rate 1mbit/300ms:20mbit --rtt 40ms --loss 0,5%",
            "--up-rate 64kbit --down-rate 8mbit --delay 20ms --jitter 0ms,20ms --reorder 10%",
            "--path rate=2mbit,rtt=20ms --path rate=8mbit,rtt=90ms --fail path=1,at=60ms,for=700ms",
            "--rate 5mbit --rtt 30ms --half-duplex --duplicate 10%",
            "--rate 11mbit --rtt 2ms --half-duplex --overhead 34B --packet-time 138us",
            "--rate 1mbit/300ms:20mbit --rtt 10ms --overhead 200B --packet-time 2ms",
        ] {
            let plan = plan(&format!("{workload} {network} --runs 2 {contestants}"));
            let found = race_on(2, &plan);
            for (contestant, run) in runs(&found) {
                // `check` also checks that no page time is below the run's lower limit.
                check(&format!("{contestant}: {workload} {network}, seed {}", run.seed), run);
                if let (Some(page), Some(limit)) = (run.page_ns, run.limit_ns.filter(|limit| *limit > 0)) {
                    closest = closest.min(page as f64 / limit as f64);
                }
            }
        }
    }
    println!("closest to the limit: {closest:.4} times");
    assert!((1.0..1.5).contains(&closest), "a bound that nobody comes near says little: {closest}");
}

#[test]
fn a_race_of_two_shares_the_capacity_and_no_more() {
    let together: Race =
        race("--shared-link --rate 4mbit --rtt 30ms --loss 0 --bulk 1MB --runs 2 --transport tcp,sctp");
    for (contestant, run) in runs(&together) {
        check(contestant, run);
        let every_100_ms = run.series.paths.iter().flat_map(|path| &path.down.delivered);
        // At 4 Mbit/s, 50,000 bytes arrive in 100 ms. A packet whose transmission began in the previous 100 ms adds at
        // most 1,500 bytes.
        assert!(every_100_ms.clone().all(|bytes| *bytes <= 51_500), "{contestant}");
    }
    let last = runs(&together).filter_map(|(_, run)| run.page_ns).max().expect("done");
    // Two transfers of 1 MB each and their packet headers need four seconds at 4 Mbit/s.
    assert!(last >= 4_000_000_000, "{last}");
}
