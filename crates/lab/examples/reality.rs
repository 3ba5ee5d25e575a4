//! The virtual world against real kernels: the same page, cell by cell.
//!
//! `cargo run --release -p anabranch-lab --example reality [RUNS [VIRTUAL [THREADS [KEY=VALUES..]]]]`
//!
//! A page of 20 objects of 10 kB over rates, round trips and losses: RUNS
//! emulated page loads a cell (kernel TCP with reno and cubic, our SCTP in
//! namespaces) against VIRTUAL virtual ones. A cell agrees when a rank test does
//! not part the two at 1 %, or when the medians are within 10 %; nine cells of
//! ten have to: the last line says ok or FAIL, and the status is 1 then. Without
//! arguments 5, 200, and two runs at a time a core. `KEY=VALUES` narrows the
//! grid: `rate=10mbit loss=0,1%`. Needs namespaces: root, or user namespaces.

#![cfg(target_os = "linux")]

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::results::{Arm, Race, Run};
use anabranch_lab::run::batch::{self, Options};
use anabranch_lab::run::live;
use anabranch_lab::stats::agreement::{agreement, is_enough};
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

const GRID: [(&str, &str); 4] = [
    ("rate", "1mbit,10mbit,50mbit"),
    ("rtt", "20ms,80ms,200ms"),
    ("loss", "0,0.5%,1%,2%,5%"),
    ("transport", "tcp:cc=reno tcp:cc=cubic sctp"),
];

/// What the kernel's TCP does by itself has to be said to ours: losses found by time and tail loss probes (RFC 8985;
/// Linux since 4.18), and with CUBIC a slow start that ends when the delay grows (HyStart; RFC 9406 is its successor).
const COUNTERPARTS: [(&str, &str); 2] = [
    ("tcp:cc=reno", "tcp:cc=reno,rack=yes,tlp=yes"),
    ("tcp:cc=cubic", "tcp:cc=cubic,rack=yes,tlp=yes,hystart=yes"),
];

/// The virtual contestant that does what an emulated one does.
fn counterpart(emulated: &str) -> &str {
    COUNTERPARTS.iter().find(|(known, _)| *known == emulated).map_or(emulated, |(_, ours)| ours)
}

/// The grid as a plan of so many runs.
fn plan(narrowed: &[(String, String)], runs: &str, virtually: bool) -> Plan {
    let mut flags = vec![("objects", "20x10kB"), ("runs", runs)];
    for (key, values) in GRID {
        let values =
            narrowed.iter().find(|(given, _)| given == key).map_or(values, |(_, values)| values.as_str());
        match key {
            "transport" if virtually => {
                flags.extend(values.split(' ').map(|value| (key, counterpart(value))));
            }
            "transport" => flags.extend(values.split(' ').map(|value| (key, value))),
            _ => flags.push((key, values)),
        }
    }
    Draft::from_flags(flags).and_then(Plan::interpret).unwrap_or_else(|error| panic!("{error}"))
}

fn pages(arm: &Arm) -> Vec<f64> {
    arm.runs.iter().filter_map(|run: &Run| Some(run.page_ns? as f64 / 1e6)).collect()
}

fn quantile(values: &[f64], thousandths: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) * thousandths / 1000).copied().unwrap_or(f64::NAN)
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn compare(emulated: &Race, virtually: &Race) -> (usize, usize) {
    for (emulated, ours) in COUNTERPARTS {
        println!("emulated {emulated} beside virtual {ours}");
    }
    println!(
        "{:>8} {:>6} {:>5}  {:<14} {:>28} {:>26} {:>7} {:>8}",
        "rate", "rtt", "loss", "", "virtual ms: median (5-95 %)", "emulated ms (min-max)", "ratio", "p"
    );
    let (mut agreed, mut cells) = (0, 0);
    for (real, model) in emulated.points.iter().zip(&virtually.points) {
        for (real_arm, model_arm) in real.arms.iter().zip(&model.arms) {
            let (seen, said) = (pages(real_arm), pages(model_arm));
            let (ours, theirs) = (quantile(&said, 500), quantile(&seen, 500));
            let found = agreement(&seen, &said);
            let (ratio, p) = (found.ratio, found.p);
            cells += 1;
            agreed += usize::from(found.holds);
            let factor = |key: &str| real.factors.get(key).cloned().unwrap_or_default();
            let lost = real_arm.runs.len() - seen.len();
            println!(
                "{:>8} {:>6} {:>5}  {:<14} {:>9.1} ({:>7.1}-{:>7.1}) {:>9.1} ({:>6.1}-{:>7.1}) {ratio:>7.3} {p:>8.4}  {}{}",
                factor("rate"),
                factor("rtt"),
                factor("loss"),
                real_arm.arm,
                ours,
                quantile(&said, 50),
                quantile(&said, 950),
                theirs,
                quantile(&seen, 0),
                quantile(&seen, 1000),
                if found.holds { "" } else { "DIFFERS" },
                if lost > 0 { format!(" ({lost} not done)") } else { String::new() },
            );
        }
    }
    (agreed, cells)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (pairs, numbers): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.contains('='));
    let number =
        |at: usize, default: &str| numbers.get(at).map_or(default.to_owned(), |word| (*word).clone());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = number(2, &(2 * cores).to_string()).parse().unwrap_or(1);
    // A value may hold an equals sign of its own.
    let narrowed: Vec<_> = pairs.iter().filter_map(|pair| pair.split_once('=')).collect();
    let narrowed: Vec<_> =
        narrowed.into_iter().map(|(key, values)| (key.to_owned(), values.to_owned())).collect();

    live::prepare().unwrap_or_else(|error| panic!("{error}"));
    let real = plan(&narrowed, &number(0, "5"), false);
    live::check(&real).unwrap_or_else(|error| panic!("{error}"));
    println!("{cores} cores, load {} at the beginning, {threads} emulated runs at a time", load());
    let (count, stop) = (real.run_count(), AtomicBool::new(false));
    let progress = |done: usize| {
        if done.is_multiple_of(10) {
            let _ = write!(std::io::stderr(), "\r{done} of {count} ");
        }
    };
    let options = Options { threads, progress: &progress, stop: &stop };
    let (emulated, _) = live::race(&real, &options, false).unwrap_or_else(|error| panic!("{error}"));
    println!("load {} after the emulated runs", load());
    let options = Options { threads: cores, progress: &|_| {}, stop: &stop };
    let model = plan(&narrowed, &number(1, "200"), true);
    let virtually = batch::race(&model, &options).unwrap_or_else(|error| panic!("{error}"));
    let (agreed, cells) = compare(&emulated, &virtually);
    let enough = is_enough(agreed, cells);
    println!(
        "{}  {agreed} of {cells} cells agree ({:.1} %), of which 9 of 10 have to",
        if enough { "ok  " } else { "FAIL" },
        100.0 * agreed as f64 / cells.max(1) as f64
    );
    if enough { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
