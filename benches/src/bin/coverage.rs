//! Measures the coverage of the confidence intervals that a race prints: how often they contain the true value.
//!
//!     cargo run --release --bin coverage [-- SETS [SEEDS [LOSS [TRANSPORT...]]]]
//!
//! Without arguments, the program takes 1,000 disjoint sets of 100 seeds. The first three contestants of the
//! unencrypted default race load the news page over the default network with 1 % loss. The true value is the value over
//! all seeds together.
//!
//! The program examines two intervals of each contestant: the interval of its ratio to the first contestant,
//! and the interval of its median. A 95 % interval should contain the true value in 95 % of the sets. With 1,000 sets,
//! chance alone gives 93.6 to 96.4 %.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::scenario;
use anabranch_lab::run::one;
use anabranch_results::label;
use anabranch_results::stats::interval::geometric_mean;
use anabranch_results::stats::{describe, ratio};
use anabranch_transports::Transports;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        given.get(at).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("'{text}' is no number")))
    };
    let (sets, seeds) = (number(0, 1000), number(1, 100));
    let mut flags: Vec<(&str, &str)> =
        vec![("loss", given.get(2).map_or("1%", String::as_str)), ("runs", "1")];
    // The client is not a browser, and loads of the page differ only in which packets are lost.
    flags.extend([("client", "plain"), ("origins", "merge"), ("variation", "none")]);
    let named: Vec<&str> = given.iter().skip(3).map(String::as_str).collect();
    let bare = &anabranch_lab::plan::CLEARTEXT_RACE[..3];
    flags.extend((if named.is_empty() { bare } else { &named }).iter().map(|text| ("transport", *text)));
    let plan = Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = plan.contestants.iter().map(|contestant| label::shown(&contestant.text)).collect();
    println!(
        "{} over {}; {sets} disjoint sets of {seeds} seeds\n",
        plan.points[0].workload.describe(),
        plan.points[0].network.describe()
    );
    let times = times(&plan, sets * seeds);

    println!("{:<22} {:>10} {:>10} {:>12}", "ratio to the first", "truth", "covered", "90 % of sets");
    for (name, own) in names.iter().zip(&times).skip(1) {
        let pairs: Vec<_> = own.iter().zip(&times[0]).map(|(a, b)| (Some(*a), Some(*b))).collect();
        let truth = ratio(&pairs).ratio.expect("pairs");
        let found: Vec<_> = pairs.chunks_exact(seeds).map(ratio).collect();
        let held =
            found.iter().filter(|one| one.ci95.is_some_and(|[low, high]| low <= truth && truth <= high));
        let covered = share(held.count(), sets);
        let ratios: Vec<f64> = found.iter().filter_map(|one| one.ratio).collect();
        println!("{name:<22} {truth:>10.3} {covered:>10} {:>12}", middle(&ratios, 3));
    }
    println!(
        "\n{:<22} {:>10} {:>10} {:>12}   geometric mean, ms",
        "median, ms", "truth", "covered", "90 % of sets"
    );
    for (name, own) in names.iter().zip(&times) {
        let truth = describe(own, 0).median.expect("runs");
        let found: Vec<_> = own.chunks_exact(seeds).map(|set| describe(set, 0)).collect();
        let held =
            found.iter().filter(|one| one.ci95.is_some_and(|[low, high]| low <= truth && truth <= high));
        let covered = share(held.count(), sets);
        let medians: Vec<f64> = found.iter().filter_map(|one| one.median).collect();
        let means: Vec<f64> = found.iter().filter_map(|one| one.geometric_mean).collect();
        println!(
            "{name:<22} {truth:>10.0} {covered:>10} {:>12}   {:.0}, {}",
            middle(&medians, 0),
            geometric_mean(own).unwrap_or_default(),
            middle(&means, 0)
        );
    }
}

/// Runs the seeds 1 to `seeds`, distributed over all cores. Returns the page times in milliseconds: one list per
/// contestant, in the order of the seeds.
fn times(plan: &Plan, seeds: usize) -> Vec<Vec<f64>> {
    let next = AtomicUsize::new(0);
    let contestants = plan.contestants.len();
    let found = Mutex::new(vec![vec![0.0; seeds]; contestants]);
    let work = || {
        loop {
            let from = next.fetch_add(BLOCK, Ordering::Relaxed);
            if from >= seeds {
                return;
            }
            for contestant in 0..contestants {
                for index in from..(from + BLOCK).min(seeds) {
                    let run = one::run(&scenario(plan, 0, Some(contestant), index as u64 + 1));
                    let page = run.ok().and_then(|runs| runs.first().and_then(|run| run.page_ns));
                    let ms = page.unwrap_or_else(|| panic!("seed {} did not finish", index + 1)) as f64 / 1e6;
                    found.lock().unwrap_or_else(|broken| broken.into_inner())[contestant][index] = ms;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        work();
    });
    found.into_inner().unwrap_or_else(|broken| broken.into_inner())
}

/// The number of seeds that a thread runs before it takes more.
const BLOCK: usize = 16;

fn share(held: usize, of: usize) -> String {
    format!("{:.1} %", 100.0 * held as f64 / of as f64)
}

/// Formats the range that contains the middle 90 % of the values.
fn middle(values: &[f64], digits: usize) -> String {
    let at = |p: f64| anabranch_results::stats::summary::quantile(values, p).unwrap_or_default();
    format!("{:.digits$}-{:.digits$}", at(0.05), at(0.95))
}
