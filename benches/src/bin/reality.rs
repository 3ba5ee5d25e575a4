//! Compares transfers in the virtual world with the same transfers through real kernels, for each combination of
//! network and workload.
//!
//!     cargo run --release --bin reality [-- RUNS [VIRTUAL [THREADS [KEY=VALUES..]]]]
//!
//! There are five tables. In the tables `page` and `bulk`, our TCP with profile `modern` is compared with the kernel's
//! TCP, seed by seed. The workload of `page` is the default page. The workload of `bulk` is a bulk transfer with
//! several loss rates and queue lengths.
//!
//! In these two tables, a cell (one line) is equivalent if three conditions hold. The 90 % interval of kernel time
//! divided by simulated time lies between 0.95 and 1.05. The mean numbers of lost packets of kernel and simulation
//! differ by at most 15 % or 5 packets, whichever is more. The same limit applies to the mean numbers of retransmitted
//! packets. All cells must be equivalent.
//!
//! A run is disturbed if packets left the links more than 2 ms late because this machine was busy. The threshold is 2
//! ms because Linux's HyStart measures trains of acknowledgements, and a gap of 2 ms ends a train. A cell in which
//! kernel and simulation are not equivalent is also shown without its disturbed runs.
//!
//! In the tables `grid` and `uplink`, page loads of 20 objects of 10 kB are compared, with several rates, round-trip
//! times and loss rates. The links of `uplink` are slower in the up direction. Each cell has RUNS emulated loads
//! (kernel TCP with reno and cubic, our SCTP in namespaces) and VIRTUAL simulated loads. A cell agrees if a rank test
//! at 1 % does not separate the emulated from the simulated loads. It also agrees if the two medians differ by at most
//! 10 %. Nine of ten cells of each table must agree.
//!
//! A second requirement applies to cells whose emulated runs are all within 10 % of each other. In nine of ten such
//! cells of each table, the emulated and the simulated median must differ by at most 10 %. A cell that agrees only by
//! the rank test does not meet this requirement.
//!
//! The table `together` has no verdict. The kernel's TCP and our SCTP race at the same time over one shared link, in
//! emulated and in simulated runs. The table shows each contestant's share of the bytes received while both contestants
//! are still transferring, and Jain's index.
//!
//! The last lines say ok or FAIL, and the exit status is 1 for FAIL. In `grid` and `uplink`, each cell has RUNS
//! emulated runs (default 5) and VIRTUAL simulated runs (default 200). In `bulk` and `together`, each cell has 2 × RUNS
//! emulated runs (at least 4) and the same number of simulated runs. In `page`, each cell has ten times as many runs of
//! each kind as in `bulk`.
//!
//! THREADS is the number of simultaneous emulated runs, by default twice the number of cores. `KEY=VALUES` selects
//! cells, for example `rate=10mbit loss=0,1%`. `table=NAME` selects one table, for example `table=bulk`. The program
//! needs root or user namespaces, because it creates network namespaces.

#![cfg(target_os = "linux")]

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_lab::run::live;
use anabranch_results::stats::agreement::{agreement, is_enough};
use anabranch_results::stats::equivalence::{equivalence, near};
use anabranch_results::{Contestant, Point, Race, Run};
use anabranch_transports::Transports;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

const GRID: [(&str, &str); 5] = [
    ("objects", "20x10kB"),
    ("rate", "1mbit,10mbit,50mbit"),
    ("rtt", "20ms,80ms,200ms"),
    ("loss", "0,0.5%,1%,2%,5%"),
    ("transport", "tcp:cc=reno tcp:cc=cubic sctp:profile=rfc9260"),
];

/// The plan of page loads over asymmetric links, as in DSL and mobile networks. The uplink has a tenth or a fiftieth of
/// the downlink's rate.
const UPLINK: [(&str, &str); 6] = [
    ("objects", "20x10kB"),
    ("down-rate", "10mbit,50mbit"),
    ("up-rate", "1mbit"),
    ("rtt", "20ms,80ms"),
    ("loss", "0,1%"),
    ("transport", "tcp:cc=reno tcp:cc=cubic sctp:profile=rfc9260"),
];

/// The plan of the bulk transfers, as keys and values. Commas separate the levels of a factor.
const BULK: [(&str, &str); 6] = [
    ("bulk", "5MB"),
    ("rate", "10mbit"),
    ("rtt", "80ms"),
    ("loss", "0,0.5%,1%,2%,5%"),
    ("queue", "1bdp,4bdp"),
    ("transport", "tcp:cc=reno tcp:cc=cubic"),
];
/// The plan of the default page on the default network. The emulated network has one server, and its client is no browser.
const PAGE: [(&str, &str); 6] = [
    ("page", "news"),
    ("client", "plain"),
    ("origins", "merge"),
    ("variation", "none"),
    ("loss", "1%"),
    ("transport", "tcp:cc=reno tcp:cc=cubic"),
];

/// The plan of the table `together`: two contestants that share a link.
const TOGETHER: [(&str, &str); 6] = [
    ("bulk", "5MB"),
    ("rate", "10mbit"),
    ("rtt", "20ms,80ms"),
    ("loss", "0,1%"),
    ("shared-link", "yes"),
    ("transport", "tcp:cc=cubic sctp"),
];

/// Returns the plan of a grid with `runs` runs per cell. The values in `narrowed` replace the values of the same keys
/// in `grid`.
fn plan(grid: &[(&'static str, &str)], narrowed: &[(String, String)], runs: &str) -> Plan {
    let mut flags = vec![("runs", runs)];
    for &(key, values) in grid {
        let values =
            narrowed.iter().find(|(given, _)| given == key).map_or(values, |(_, values)| values.as_str());
        match key {
            "transport" => flags.extend(values.split(' ').map(|value| (key, value))),
            _ => flags.push((key, values)),
        }
    }
    Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns means over the runs: the number of lost packets, and the number of packets that carried a retransmission.
fn packets(runs: &[&Run]) -> (f64, f64) {
    let mean = |of: &dyn Fn(&Run) -> u64| {
        runs.iter().map(|run| of(run) as f64).sum::<f64>() / runs.len().max(1) as f64
    };
    (
        mean(&|run| run.packets.up.lost + run.packets.down.lost),
        mean(&|run| run.packets.up.retransmitted + run.packets.down.retransmitted),
    )
}

/// One cell (line) of a table: the runs through the kernel (`emulated`), and the simulated runs with the same seeds
/// (`simulated`).
struct Cell<'a> {
    emulated: Vec<&'a Run>,
    simulated: Vec<&'a Run>,
}

impl Cell<'_> {
    /// Returns this cell's line of the table, and a description of the differences between its emulated and its
    /// simulated runs. The description is empty if the runs are equivalent.
    fn compare(&self) -> (String, String) {
        let pairs: Vec<(f64, f64)> = self
            .emulated
            .iter()
            .zip(&self.simulated)
            .filter_map(|(emulated, simulated)| Some((emulated.page_ns? as f64, simulated.page_ns? as f64)))
            .collect();
        let time = equivalence(&pairs);
        let ((lost, again), (our_lost, our_again)) = (packets(&self.emulated), packets(&self.simulated));
        let verdicts =
            [("time", time.holds), ("lost", near(lost, our_lost)), ("retransmitted", near(again, our_again))];
        let wrong: Vec<_> = verdicts.iter().filter(|(_, holds)| !holds).map(|(what, _)| *what).collect();
        let kernel_ms = quantile(&pairs.iter().map(|(emulated, _)| emulated / 1e6).collect::<Vec<_>>(), 500);
        let line = format!(
            "{:>4} {kernel_ms:>9.0} {:>17.3}     {:.3} - {:.3} {lost:>8.1} {our_lost:>6.1} {again:>8.1} {our_again:>6.1}  {}",
            self.emulated.len(),
            time.ratio,
            time.ci90[0],
            time.ci90[1],
            if wrong.is_empty() { "equivalent".to_owned() } else { wrong.join(", ") },
        );
        (line, wrong.join(", "))
    }
}

/// Returns whether packets left the emulated links so late that this run cannot be compared with the simulated run of
/// the same seed.
fn is_disturbed(run: &Run) -> bool {
    run.is_disturbed()
}

/// Compares the kernel's TCP with our TCP seed by seed, and prints one line per cell. If the results of a cell are not
/// equivalent, a second line shows them without the disturbed runs. Returns the number of all cells. For each cell that
/// is not equivalent, adds a description to `missed`.
fn compare_tcp(what: &str, emulated: &Race, virtually: &Race, missed: &mut Vec<String>) -> usize {
    println!(
        "{:<28} {:<13} {:>4} {:>9} {:>17} {:>19} {:>15} {:>15}",
        what, "", "runs", "kernel ms", "kernel / virtual", "90 % interval", "lost", "retransmitted"
    );
    let mut cells = 0;
    for (real, model) in emulated.points.iter().zip(&virtually.points) {
        let name: Vec<_> = real.factors.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let name = name.join(" ");
        for (emulated_contestant, simulated_contestant) in real.contestants.iter().zip(&model.contestants) {
            let pairs = || emulated_contestant.runs.iter().zip(&simulated_contestant.runs);
            let (all, ours) = pairs().unzip();
            let (line, wrong) = Cell { emulated: all, simulated: ours }.compare();
            println!("{name:<28} {:<13} {line}", emulated_contestant.name);
            cells += 1;
            if wrong.is_empty() {
                continue;
            }
            let (calm, ours): (Vec<_>, Vec<_>) = pairs().filter(|(run, _)| !is_disturbed(run)).unzip();
            let disturbed = emulated_contestant.runs.len() - calm.len();
            if disturbed > 0 {
                let (line, _) = Cell { emulated: calm, simulated: ours }.compare();
                println!("{:<28} {:<13} {line}", "  without disturbed runs", "");
            }
            missed.push(format!(
                "{what} {name} {}: {wrong} ({disturbed} runs disturbed)",
                emulated_contestant.name
            ));
        }
    }
    cells
}

fn pages(contestant: &Contestant) -> Vec<f64> {
    contestant.runs.iter().filter_map(|run: &Run| Some(run.page_ns? as f64 / 1e6)).collect()
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

fn compare(emulated: &Race, virtually: &Race) -> [(usize, usize); 2] {
    println!(
        "{:>8} {:>6} {:>5}  {:<14} {:>28} {:>26} {:>7} {:>8}",
        "rate", "rtt", "loss", "", "virtual ms: median (5-95 %)", "emulated ms (min-max)", "ratio", "p"
    );
    let (mut agreed, mut cells, mut near, mut steady) = (0, 0, 0, 0);
    for (real, model) in emulated.points.iter().zip(&virtually.points) {
        for (raced, modelled) in real.contestants.iter().zip(&model.contestants) {
            let (emulated_ms, simulated_ms) = (pages(raced), pages(modelled));
            let (ours, theirs) = (quantile(&simulated_ms, 500), quantile(&emulated_ms, 500));
            let found = agreement(&emulated_ms, &simulated_ms);
            let (ratio, p) = (found.ratio, found.p);
            cells += 1;
            agreed += usize::from(found.holds);
            if quantile(&emulated_ms, 1000) <= 1.1 * quantile(&emulated_ms, 0) {
                steady += 1;
                near += usize::from((ratio - 1.0).abs() <= 0.1);
            }
            let factor = |key: &str| real.factors.get(key).cloned().unwrap_or_default();
            let lost = raced.runs.len() - emulated_ms.len();
            println!(
                "{:>8} {:>6} {:>5}  {:<14} {:>9.1} ({:>7.1}-{:>7.1}) {:>9.1} ({:>6.1}-{:>7.1}) {ratio:>7.3} {p:>8.4}  {}{}",
                factor("rate"),
                factor("rtt"),
                factor("loss"),
                raced.name,
                ours,
                quantile(&simulated_ms, 50),
                quantile(&simulated_ms, 950),
                theirs,
                quantile(&emulated_ms, 0),
                quantile(&emulated_ms, 1000),
                if found.holds { "" } else { "DIFFERS" },
                if lost > 0 { format!(" ({lost} not done)") } else { String::new() },
            );
        }
    }
    [(agreed, cells), (near, steady)]
}

/// Prints how contestants shared the links. A line has the mean of a contestant's share over the runs, and its 10 % and
/// 90 % quantiles. The last line has the mean and the quantiles of Jain's index.
fn compare_shares(emulated: &Race, virtually: &Race) {
    println!("{:<20} {:<13} {:>22} {:>22}", "together", "", "virtual", "emulated");
    let shown = |values: Vec<f64>, unit: f64| {
        let mean = unit * values.iter().sum::<f64>() / values.len().max(1) as f64;
        let at = |thousandths| unit * quantile(&values, thousandths);
        let digits = if unit > 1.0 { 0 } else { 2 };
        format!("{mean:.digits$} ({:.digits$}-{:.digits$})", at(100), at(900))
    };
    for (real, model) in emulated.points.iter().zip(&virtually.points) {
        let name: Vec<_> = real.factors.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for (index, contestant) in real.contestants.iter().enumerate() {
            let shares = |point: &Point| {
                shown(point.sharing.iter().map(|run| run.shares[index]).collect(), 100.0) + " %"
            };
            let (name, what) = (name.join(" "), &contestant.name);
            println!("{name:<20} {what:<13} {:>22} {:>22}", shares(model), shares(real));
        }
        let jain = |point: &Point| shown(point.sharing.iter().map(|run| run.jain).collect(), 1.0);
        println!("{:<20} {:<13} {:>22} {:>22}", "", "Jain's index", jain(model), jain(real));
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (pairs, numbers): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.contains('='));
    let number =
        |at: usize, default: &str| numbers.get(at).map_or(default.to_owned(), |word| (*word).clone());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = number(2, &(2 * cores).to_string()).parse().unwrap_or(1);
    // Splits at the first equals sign, because the value after it may contain another one.
    let narrowed: Vec<_> = pairs.iter().filter_map(|pair| pair.split_once('=')).collect();
    let narrowed: Vec<_> =
        narrowed.into_iter().map(|(key, values)| (key.to_owned(), values.to_owned())).collect();

    let table = narrowed.iter().find(|(key, _)| key == "table").map(|(_, value)| value.clone());
    let shown = |name: &str| table.as_deref().is_none_or(|table| table == name);

    live::prepare().unwrap_or_else(|error| panic!("{error}"));
    println!("{cores} cores, load {} at the beginning, {threads} emulated runs at a time", load());
    let stop = AtomicBool::new(false);
    let emulate = |plan: &Plan| {
        let count = plan.run_count();
        let progress = |done: usize| {
            if done.is_multiple_of(10) {
                let _ = write!(std::io::stderr(), "\r{done} of {count} ");
            }
        };
        live::check(plan).unwrap_or_else(|error| panic!("{error}"));
        let options = Options { threads, progress: &progress, stop: &stop };
        live::race(plan, &options, false).unwrap_or_else(|error| panic!("{error}")).0
    };
    let model = |plan: &Plan| {
        let options = Options { threads: cores, progress: &|_| {}, stop: &stop };
        causes::race(plan, &options).unwrap_or_else(|error| panic!("{error}"))
    };
    let runs = number(0, "5");
    let seeds = (2 * runs.parse::<u64>().unwrap_or(5)).max(4);
    let (mut missed, mut pairs) = (Vec::new(), 0);
    // The time of a page load depends on which packets are lost, so the table `page` needs more seeds.
    for (name, grid, seeds) in [("bulk", &BULK[..], seeds), ("page", &PAGE[..], 10 * seeds)] {
        if shown(name) {
            let plan = plan(grid, &narrowed, &seeds.to_string());
            pairs += compare_tcp(name, &emulate(&plan), &model(&plan), &mut missed);
        }
    }
    let mut verdicts = Vec::new();
    if pairs > 0 {
        missed.iter().for_each(|cell| println!("missed: {cell}"));
        let equivalent = pairs - missed.len();
        verdicts.push((missed.is_empty(), format!("{equivalent} of {pairs} cells of TCP are equivalent")));
    }
    for (name, grid) in [("grid", &GRID[..]), ("uplink", &UPLINK[..])] {
        if !shown(name) {
            continue;
        }
        let emulated = emulate(&plan(grid, &narrowed, &runs));
        println!("load {} after the emulated runs", load());
        let [(agreed, cells), (near, steady)] =
            compare(&emulated, &model(&plan(grid, &narrowed, &number(1, "200"))));
        let share = 100.0 * agreed as f64 / cells.max(1) as f64;
        let line =
            format!("{name}: {agreed} of {cells} cells agree ({share:.1} %), of which 9 of 10 have to");
        verdicts.push((is_enough(agreed, cells), line));
        if steady > 0 {
            let line = format!(
                "{name}: {near} of {steady} cells whose emulated runs are within 10 % have medians within 10 %"
            );
            verdicts.push((is_enough(near, steady), line));
        }
    }
    if shown("together") {
        let plan = plan(&TOGETHER, &narrowed, &seeds.to_string());
        compare_shares(&emulate(&plan), &model(&plan));
    }
    for (holds, line) in &verdicts {
        println!("{}  {line}", if *holds { "ok  " } else { "FAIL" });
    }
    if verdicts.iter().all(|(holds, _)| *holds) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
