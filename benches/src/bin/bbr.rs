//! Compares our BBR in the virtual world with the kernel's BBR in an emulated world. Both make bulk transfers on links
//! with several rates, round-trip times, loss rates and queue lengths.
//!
//!     cargo run --release --bin bbr [-- RUNS [THREADS [KEY=VALUES..]]]
//!
//! Our BBR is version 3 (draft-ietf-ccwg-bbr), and the kernel's `bbr` is version 1 (Cardwell and others, ACM Queue
//! 2016). On paths without losses and with a long queue, both versions have similar goodput and similar
//! retransmissions. On paths with losses or a short queue, for which version 3 was made, they differ. Our `reno` is
//! shown for scale.
//!
//! Each row has three medians over the runs: the goodput, the mean time of data packets in the queue, and the
//! percentage of sent packets that carried a retransmission.
//!
//! The time in the queue follows from Little's law. The area between the cumulative curves of sent and of arrived
//! packets, divided by the number of packets, is the mean time in the network. From this time, the propagation delay
//! and the transmission time of one packet are subtracted. Lost packets are removed from the curve of sent packets, as
//! if the losses were spread evenly over the run. The curves are sampled every 100 ms.
//!
//! The results are shown without a verdict. Without arguments there are five runs per cell, and two runs at a time per
//! core. `KEY=VALUES` narrows the grid. Needs namespaces (root, or user namespaces) and the kernel module `tcp_bbr`.

#![cfg(target_os = "linux")]

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_lab::run::live;
use anabranch_results::{Contestant, Point, Run};
use anabranch_transports::Transports;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

const GRID: [(&str, &str); 6] = [
    ("bulk", "10MB"),
    ("rate", "10mbit,50mbit"),
    ("rtt", "20ms,80ms"),
    ("loss", "0,1%,5%"),
    ("queue", "0.5bdp,1bdp,4bdp"),
    ("transport", "tcp:cc=bbr tcp:cc=reno"),
];

/// The size of a full packet on the link, in bytes.
const PACKET: f64 = 1500.0;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the level of a factor as a number in its base unit: bits per second, or seconds.
fn number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match &text[end..] {
        "mbit" => 1e6,
        "kbit" => 1e3,
        "ms" => 1e-3,
        _ => 1.0,
    };
    text[..end].parse::<f64>().unwrap_or(f64::NAN) * unit
}

/// Returns the mean time in milliseconds that the server's data waits in the queue.
fn waited(run: &Run, rtt: f64, rate: f64) -> f64 {
    let (mut area, mut handed, mut arrived) = (0.0, 0.0, 0.0);
    let bucket = run.series.bucket_ns as f64 / 1e9;
    let sum = |values: &[u64]| values.iter().sum::<u64>() as f64;
    for path in &run.series.paths {
        let (wire, delivered) = (&path.down.wire, &path.down.delivered);
        let kept = sum(delivered) / sum(wire).max(1.0);
        for at in 0..wire.len().max(delivered.len()) {
            handed += wire.get(at).copied().unwrap_or(0) as f64 * kept;
            arrived += delivered.get(at).copied().unwrap_or(0) as f64;
            area += (handed - arrived) * bucket;
        }
    }
    1e3 * (area / arrived.max(1.0) - rtt / 2.0 - PACKET * 8.0 / rate)
}

/// Returns three results of a contestant: goodput in Mbit/s, time in the queue in ms, and retransmissions in percent of
/// the packets sent.
fn measured(contestant: &Contestant, point: &Point, bytes: f64, given: impl Fn(&str) -> f64) -> [f64; 3] {
    // A key with a single value is not a factor, so its value comes from `given`.
    let factor = |key: &str| point.factors.get(key).map_or_else(|| given(key), |value| number(value));
    let of = |what: &dyn Fn(&Run) -> Option<f64>| median(contestant.runs.iter().filter_map(what).collect());
    [
        of(&|run| Some(bytes * 8.0 / (run.page_ns? as f64 / 1e3))),
        of(&|run| run.page_ns.map(|_| waited(run, factor("rtt"), factor("rate")))),
        of(&|run| Some(100.0 * run.packets.down.retransmitted as f64 / run.packets.down.sent.max(1) as f64)),
    ]
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (pairs, numbers): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.contains('='));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runs = numbers.first().map_or("5", |word| word.as_str());
    let threads = numbers.get(1).and_then(|word| word.parse().ok()).unwrap_or(2 * cores);
    let mut flags = vec![("runs", runs)];
    for (key, values) in GRID {
        let given = pairs.iter().filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key);
        let values = given.map_or(values, |(_, values)| values);
        match key {
            "transport" => flags.extend(values.split(' ').map(|value| (key, value))),
            _ => flags.push((key, values)),
        }
    }
    let bulk = flags.iter().find(|(key, _)| *key == "bulk").map_or("", |(_, value)| *value);
    let values: Vec<_> = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let given = |key: &str| {
        let value = values.iter().find(|(name, _)| name == key).map(|(_, value)| number(value));
        value.unwrap_or(f64::NAN)
    };
    let bytes = match bulk.strip_suffix("MB") {
        Some(count) => number(count) * 1e6,
        None => panic!("bulk={bulk}: megabytes are wanted, as 10MB"),
    };
    let plan = Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|error| panic!("{error}"));
    live::prepare().unwrap_or_else(|error| panic!("{error}"));
    live::check(&plan).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = |threads| Options { threads, progress: &|_| {}, stop: &stop };
    let emulated = live::race(&plan, &options(threads), false).unwrap_or_else(|error| panic!("{error}")).0;
    let virtually = causes::race(&plan, &options(cores)).unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{:<44} {:<13} {:>24} {:>20} {:>20}",
        "", "", "goodput, Mbit/s", "wait in queue, ms", "sent again, %"
    );
    let heads = ["kernel", "ours", "ratio", "kernel", "ours", "kernel", "ours"];
    println!(
        "{:<44} {:<13} {:>8} {:>8} {:>6} {:>10} {:>9} {:>10} {:>9}",
        "", "", heads[0], heads[1], heads[2], heads[3], heads[4], heads[5], heads[6]
    );
    for (real, model) in emulated.points.iter().zip(&virtually.points) {
        let name: Vec<_> = real.factors.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for (emulated_contestant, simulated_contestant) in real.contestants.iter().zip(&model.contestants) {
            let (kernel, ours) = (
                measured(emulated_contestant, real, bytes, given),
                measured(simulated_contestant, model, bytes, given),
            );
            println!(
                "{:<44} {:<13} {:>8.2} {:>8.2} {:>6.2} {:>10.1} {:>9.1} {:>10.2} {:>9.2}",
                name.join(" "),
                emulated_contestant.name,
                kernel[0],
                ours[0],
                ours[0] / kernel[0],
                kernel[1],
                ours[1],
                kernel[2],
                ours[2],
            );
        }
    }
    ExitCode::SUCCESS
}
