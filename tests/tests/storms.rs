//! Storms: random tests of complete runs. The seed chooses a page or transfer, a transport and a bad network. The tests
//! check invariants that must always hold.
//!
//! `SEED=n` runs one storm, `SEEDS=n` the first n seeds. Each kind of fault is off in about half of the seeds. Some
//! runs then have a single fault, and some have a combination (Groce et al., "Swarm Testing", 2012).

use anabranch_base::Rng;
use anabranch_lab::run::{batch, one};
use anabranch_results::{Outcome, Run};
use anabranch_tests::{check, plan, seeds};
use anabranch_wire::pcap::{Direction, Reader};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The random choices that a seed makes for a run, as flags of the command line.
struct Storm {
    line: String,
    /// Whether the network damages packets, so that packets arrive with other bytes than were sent.
    corrupts: bool,
    /// Whether the network duplicates packets, so that more packets may arrive than were sent.
    duplicates: bool,
    /// Whether every transfer can finish: there is no outage, no burst of losses, and little loss.
    mild: bool,
}

/// The faults that a network path can have, with their values.
const FAULTS: &[(&str, &[&str])] = &[
    ("loss", &["1%", "5%", "10%", "30%", "ge:1%/30%", "ge:5%/20%", "nth:7", "list:1/2/3/5/8"]),
    ("down-loss", &["2%", "20%", "30%", "list:2/4/5/6/7"]),
    ("queue", &["2p", "3p", "10p", "200p", "20kB"]),
    ("reorder", &["1%", "10%", "30%"]),
    ("duplicate", &["1%", "10%", "30%"]),
    ("corrupt", &["1%", "10%", "30%"]),
    ("jitter", &["1ms", "1ms", "10ms"]),
    ("half-duplex", &["yes"]),
];

#[test]
fn every_impairment_is_a_fault_or_has_a_reason() {
    // These keys are not faults: every path has a rate and a delay, and the other keys change the sizes of packets, or
    // which packets the queue drops.
    let untested_knobs =
        ["rate", "delay", "rtt", "overhead", "packet-time", "aqm", "ecn", "mtu", "trace", "preset"];
    for row in anabranch_link::ROWS {
        let is_fault = FAULTS.iter().any(|(fault, _)| *fault == row.key);
        assert!(is_fault != untested_knobs.contains(&row.key), "{}", row.key);
    }
}

fn storm(seed: u64) -> Storm {
    let mut rng = Rng::new(seed).fork("storms of whole races");
    let mut one_of = |values: &[&'static str]| values[rng.below(values.len() as u64) as usize];
    let paths = one_of(&["1", "1", "2", "3"]).parse::<usize>().unwrap_or(1);
    let mut line = String::new();
    let (mut corrupts, mut duplicates, mut mild) = (false, false, true);
    for _ in 0..paths {
        let rate = one_of(&["256kbit", "1mbit", "10mbit", "100mbit", "unlimited", "1mbit/2s:5mbit"]);
        let delay = one_of(&["1ms", "20ms", "100ms", "300ms"]);
        line += &format!(" --path rate={rate},delay={delay}");
        for &(fault, values) in FAULTS {
            let (on, value) = (one_of(&["on", "off"]) == "on", one_of(values));
            let fits = match fault {
                "jitter" => delay != "1ms" || value == "1ms",
                "half-duplex" => one_of(&["yes", "no", "no", "no"]) == "yes" && !rate.contains("unlimited"),
                "queue" => rate != "unlimited",
                _ => true,
            };
            if on && fits {
                line += &format!(",{fault}={value}");
                corrupts |= fault == "corrupt";
                duplicates |= fault == "duplicate";
                let harmless =
                    ["1%", "2%", "5%", "1ms", "10ms", "10p", "200p", "20kB", "yes"].contains(&value);
                mild &= harmless || (["reorder", "duplicate"].contains(&fault) && value == "10%");
            }
        }
    }
    // An outage concerns one path, or the network if the network has a single path. Some outages are permanent.
    for _ in 0..one_of(&["0", "0", "1", "2", "3"]).parse().unwrap_or(0) {
        let path = one_of(&["1", "2", "3"]).parse::<usize>().unwrap_or(1).min(paths);
        let at = one_of(&["0ms", "50ms", "200ms", "700ms", "1500ms", "4s"]);
        let span = one_of(&["", ",for=50ms", ",for=300ms", ",for=1s", ",for=3s", ",for=10s"]);
        line += &format!(" --fail path={path},at={at}{span}");
        mild = false;
    }
    line += match one_of(&["page", "objects", "objects", "many", "bulk", "arrivals", "origins"]) {
        "page" => " --page gallery",
        "many" => " --objects 60x2kB",
        "bulk" => " --bulk 300kB",
        "arrivals" => " --objects 30x4kB --arrivals 20/s",
        "origins" => " --page osterdahl-gallery --origins keep --server-time 3ms --server serial",
        _ => " --objects 1x0B,3x700B,4x30kB,1x150kB",
    };
    let contestant = one_of(&[
        "tcp",
        "tcp:connections=6",
        "tcp:per-object=yes",
        "tcp:connections=2,objects-per-connection=3",
        "sctp",
        "sctp",
        "sctp:num_ostreams=1",
        "sctp:num_ostreams=3,when-full=rr",
        "sctp:connections=2,num_ostreams=2,when-full=spf",
        "sctp:per-object=yes",
        "sctp:encap=udp",
        "sctp:sack_path=other",
    ]);
    let profile = if contestant.starts_with("tcp") {
        one_of(&["modern", "modern", "reno-2002", "linux-2.6", "linux-2.6.11", "ns2"])
    } else {
        one_of(&["rfc9260", "rfc9260", "rfc2960", "kame-2002", "lksctp-2.6", "lksctp-2.6.11", "modern"])
    };
    let mut keys = format!("profile={profile}");
    for extra in ["rcvbuf=16KiB", "rto_min=200ms", "delack=0ms"] {
        if one_of(&["on", "off", "off"]) == "on" {
            keys += &format!(",{extra}");
        }
    }
    let joint = if contestant.contains(':') { ',' } else { ':' };
    line += &format!(" --transport {contestant}{joint}{keys}");
    if one_of(&["on", "off", "off"]) == "on" {
        line += " --timeout 60s";
    }
    line += " --deadline 400s --runs 1";
    Storm { line: format!("{line} --seed {}", seed % (1 << 32)), corrupts, duplicates, mild }
}

/// Returns the packets in one host's capture, for each direction, with their times.
fn packets(pcapng: &[u8]) -> [Vec<(u64, &[u8])>; 2] {
    let mut reader = Reader::new(pcapng).expect("a capture");
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next_packet().expect("a capture") {
        let side = match record.direction {
            Some(Direction::Outbound) => &mut sent,
            Some(Direction::Inbound) => &mut received,
            None => panic!("every packet has a direction"),
        };
        side.push((record.at_nanos, record.packet));
    }
    [sent, received]
}

/// Checks, for one direction of a path, that the numbers of sent, arrived and lost packets agree.
fn conserved(
    description: &str,
    storm: &Storm,
    run: &Run,
    up: bool,
    sent: &[(u64, &[u8])],
    received: &[(u64, &[u8])],
) {
    let counted = if up { run.packets.up } else { run.packets.down };
    let series = |pick: fn(&anabranch_results::PathSeries) -> &Vec<u64>| -> u64 {
        let paths = run.series.paths.iter().map(|path| if up { &path.up } else { &path.down });
        paths.flat_map(pick).sum()
    };
    let bytes = if up { run.wire_bytes.up } else { run.wire_bytes.down };
    assert_eq!(series(|path| &path.wire), bytes, "{description}: bytes over time and in all");
    // The run's counters stop at the end of the run, but the capture continues. So the counters cover only the first
    // captured packets.
    let until = sent.get(counted.sent as usize).map_or(u64::MAX, |(at, _)| *at);
    let captured: u64 = sent.iter().take(counted.sent as usize).map(|(_, packet)| packet.len() as u64).sum();
    assert!(sent.len() as u64 >= counted.sent, "{description}: {} packets captured, {counted:?}", sent.len());
    assert_eq!(captured, bytes, "{description}: the first {} packets are those of the run", counted.sent);
    assert!(counted.lost <= counted.sent, "{description}: {counted:?}");
    if !storm.corrupts {
        // Every packet that arrives must have been sent.
        let mut balance: BTreeMap<&[u8], i64> = BTreeMap::new();
        for (_, packet) in sent {
            *balance.entry(packet).or_default() += 1;
        }
        for (_, packet) in received {
            let left =
                balance.get_mut(packet).unwrap_or_else(|| panic!("{description}: a packet that nobody sent"));
            *left -= 1;
            assert!(storm.duplicates || *left >= 0, "{description}: a packet twice where nothing duplicates");
        }
        if !storm.duplicates {
            // Each packet sent must have arrived, been lost, or be in flight. This is checked for the time when the
            // run's counters stop, and for the end of the capture.
            let arrived = received.iter().filter(|(at, _)| *at < until).count() as u64;
            let never: u64 = balance.values().map(|n| (*n).max(0) as u64).sum();
            assert!(arrived + counted.lost <= counted.sent, "{description}: {arrived} arrived, {counted:?}");
            assert!(counted.lost <= never, "{description}: {never} never arrived, {counted:?}");
            if sent.len() as u64 == counted.sent && run.outcome == Outcome::Done {
                let total = received.len() as u64 + never;
                assert_eq!(total, counted.sent, "{description}: {counted:?}");
            }
        }
    }
}

#[test]
fn random_races_keep_their_invariants() {
    let [done, failed, deadline, lost, mild] = [const { Cell::new(0) }; 5];
    let add = |cell: &Cell<u64>, n: u64| cell.set(cell.get() + n);
    seeds("storms", 2000, |seed| {
        let storm = storm(seed);
        let description = &format!("anabranch race{}", storm.line);
        let plan = plan(&storm.line);
        let scenario = batch::scenario(&plan, 0, Some(0), plan.seeds[0]);
        // An error is a defect of this program: a deadlock, events without end at one instant, or a client that exceeds
        // its own deadline.
        let (runs, captures) =
            one::capture(&scenario).unwrap_or_else(|error| panic!("{description}: {error}"));
        let run = &runs[0];
        check(description, run);
        let workload = &plan.points[0].workload;
        let bytes = workload.of_seed(plan.seeds[0]).as_ref().unwrap_or(workload).page.body_bytes();
        assert_eq!(run.objects.iter().map(|object| object.bytes).sum::<u64>(), bytes, "{description}");
        assert!(run.connections >= 1, "{description}");
        if captures.len() == 2 {
            let [first, second] = [0, 1].map(|i| packets(&captures[i].pcapng));
            conserved(description, &storm, run, true, &first[0], &second[1]);
            conserved(description, &storm, run, false, &second[0], &first[1]);
        }
        assert!(
            !storm.mild || run.outcome == Outcome::Done,
            "{description}: {:?} in mild weather",
            run.outcome
        );
        add(&mild, u64::from(storm.mild));
        add(&lost, run.packets.up.lost + run.packets.down.lost);
        match run.outcome {
            Outcome::Done => add(&done, 1),
            Outcome::Failed => add(&failed, 1),
            Outcome::Deadline => add(&deadline, 1),
        }
    });
    println!(
        "{} done ({} had to), {} failed, {} at the deadline, {} packets lost",
        done.get(),
        mild.get(),
        failed.get(),
        deadline.get(),
        lost.get()
    );
}
