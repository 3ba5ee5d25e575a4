//! `sctp:profile=ns2` beside ns-2.35: the same bulk transfer, packet for packet.
//!
//! What ns-2 does stands here as figures, which `benches/physics/ns2/sctp.tcl` prints again. Where ns-2 is installed (Debian:
//! `apt-get install ns2`) it is run as well, and has to print them.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::results::Outcome;
use anabranch_lab::run::batch::{self, Options};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// User bytes of a chunk in a packet of 1500.
const CHUNK: u64 = 1452;

/// 10 Mbit/s, 80 ms, no loss: packets, and the microseconds from the first leaving to the last arriving in ns-2.35.
const LOSS_FREE: [(u64, u64); 7] = [
    (1, 41_200),
    (3, 43_600),
    (10, 206_077),
    (100, 621_869),
    (707, 1_735_568),
    (1400, 3_041_382),
    (2000, 4_176_320),
];

/// Loss, packets, and the mean milliseconds over seeds 1 to 40; their standard errors are 1.4 to 3.3 %.
const LOSSY: [(&str, u64, u64); 4] =
    [("1%", 690, 4_659), ("1%", 3444, 21_585), ("2%", 690, 6_732), ("2%", 3444, 32_911)];

/// Microseconds from the first packet's leaving the server to the last one's arriving, one a seed.
fn ours(packets: u64, loss: &str, runs: &str) -> Vec<u64> {
    let bulk = format!("{}B", packets * CHUNK);
    let flags = [
        ("bulk", bulk.as_str()),
        ("message-size", "1452B"),
        ("rate", "10mbit"),
        ("rtt", "80ms"),
        ("queue", "10000p"),
        ("down-loss", loss),
        ("runs", runs),
        ("transport", "sctp:profile=ns2"),
    ];
    let plan = Draft::from_flags(flags).and_then(Plan::interpret).expect("a plan");
    let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let race = batch::race(&plan, &options).unwrap_or_else(|error| panic!("{error}"));
    let span = |run: &anabranch_lab::results::Run| {
        assert_eq!(run.outcome, Outcome::Done);
        let object = &run.objects[0];
        (object.delivered_ns.expect("delivered") - object.instants.expect("known").written_ns) / 1000
    };
    race.points[0].contestants[0].runs.iter().map(span).collect()
}

/// The same of ns-2; `None` where it is not installed.
fn theirs(packets: &[u64], loss: &str, seed: u64) -> Option<Vec<u64>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/physics/ns2/sctp.tcl");
    let output = Command::new("ns").arg(script).args([loss, &seed.to_string(), "120"]).output().ok()?;
    let (mut first, mut found, mut have, mut whole) = (None, Vec::new(), BTreeSet::new(), 0);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let columns: Vec<&str> = line.split_whitespace().collect();
        if columns.len() < 15 || !columns[6].ends_with('D') {
            continue;
        }
        let at = (columns[1].parse::<f64>().expect("a time") * 1e6).round() as u64;
        let first = *first.get_or_insert(at);
        if columns[0] == "r" {
            have.insert(columns[11].parse::<u64>().expect("a TSN"));
            while have.remove(&(whole + 1)) {
                whole += 1;
                if packets.contains(&whole) {
                    found.push(at - first);
                }
            }
        }
    }
    assert_eq!(found.len(), packets.len(), "loss {loss}, seed {seed}: {found:?}");
    Some(found)
}

#[test]
fn without_loss_every_packet_arrives_when_ns2_has_it_arrive() {
    if let Some(theirs) = theirs(&LOSS_FREE.map(|(packets, _)| packets), "0", 1) {
        assert_eq!(theirs, LOSS_FREE.map(|(_, micros)| micros), "ns-2 itself");
    } else {
        println!("ns-2 is not installed: its figures are those of 2.35");
    }
    let found: Vec<(u64, u64)> = LOSS_FREE.map(|(packets, _)| (packets, ours(packets, "0", "1")[0])).to_vec();
    println!("{found:?}");
    for ((packets, ours), (_, theirs)) in found.into_iter().zip(LOSS_FREE) {
        // Before our first packet of data the link carries the SACK of the request, 48 bytes: 38.4 us, and nothing else differs.
        assert!(
            (theirs + 37..=theirs + 40).contains(&ours),
            "{packets} packets: {ours} us, ns-2 {theirs} us"
        );
    }
}

#[test]
fn with_loss_it_takes_as_long_as_with_ns2_on_average() {
    for (loss, packets, theirs) in LOSSY {
        let all = ours(packets, loss, "60");
        let mean = all.iter().sum::<u64>() / all.len() as u64 / 1000;
        println!(
            "loss {loss}, {packets} packets: {mean} ms, ns-2 {theirs} ms, ratio {:.3}",
            mean as f64 / theirs as f64
        );
        assert!(
            (theirs * 85..=theirs * 115).contains(&(mean * 100)),
            "{packets} at {loss}: {mean} ms, ns-2 {theirs} ms"
        );
    }
}
