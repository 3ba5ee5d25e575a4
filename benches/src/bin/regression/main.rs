//! Checks whether the programs of this tree use more processor time than the programs of an earlier commit. Runs of the
//! two trees alternate, and runs of the same round are compared.
//!
//!     cargo run --release --bin regression [-- --base REV] [--pairs 15] [--only speed|memory|network]
//!
//! Checks out the earlier commit (the *base*) below `target/regression` and builds both trees. `anabranch` is built
//! with the fastest profile of its tree: `release` in the base, and `dist` in this tree. The benchmark programs have
//! the same profile in both trees. Each round runs a workload three times: with the base, with the base again, and with
//! this tree. The order rotates from round to round. The measure is the user time of all processes of a run, for a
//! fixed amount of work. Each workload has at least 15 and at most 60 rounds. A workload ends when the 95 % t-interval
//! of tree/base (see below) extends at most 2 % to either side. Its result is printed then.
//!
//! Prints two geometric means of ratios of user times for each workload. The ratio base/base compares the two runs of
//! the base, and shows the noise of the machine. The ratio tree/base compares this tree with the base. A workload has
//! become slower if the lower end of tree/base's 95 % t-interval exceeds 1.02; the exit code is then 1. If the whole
//! interval of base/base is more than 2 % from 1, the machine is too noisy for a verdict. The exit code is then 2.

#[expect(dead_code, reason = "`identical` looks at the sources")]
mod build;
#[path = "../network/net.rs"]
#[expect(dead_code, reason = "the `network` benchmark uses the rest of it")]
mod net;
mod workload;

use build::Tree;
use net::Net;
use std::process::ExitCode;
use workload::Workload;

/// The default commit for the comparison.
const BASE: &str = "d4256a92";
/// The ratio of a workload is the user time of this tree divided by the user time of the base. The workload counts as
/// slower if the lower end of the ratio's 95 % t-interval exceeds this value.
const SLOWER: f64 = 1.02;
/// Rounds continue while half the width of a ratio's 95 % t-interval, divided by the ratio, exceeds this value.
const PRECISION: f64 = 0.02;
/// The maximum number of rounds, as a multiple of the requested number.
const EXTENSION: usize = 4;

/// The benchmark programs that are built in both trees and serve as workloads.
const PROGRAMS: [&str; 2] = ["speed", "memory"];

fn main() -> ExitCode {
    match measure() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("regression: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure() -> Result<ExitCode, String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        args.iter().position(|arg| arg == flag).map(|at| args.get(at + 1).cloned().unwrap_or_default())
    };
    let base = value("--base").unwrap_or_else(|| BASE.to_owned());
    let pairs: usize = match value("--pairs") {
        None => 15,
        Some(text) => text.parse().ok().filter(|n| *n >= 2).ok_or("--pairs: a number, 2 or more")?,
    };
    let workloads: Vec<Workload> =
        Workload::all().into_iter().filter(|w| value("--only").is_none_or(|only| only == w.part)).collect();
    if workloads.is_empty() {
        return Err("--only: speed, memory or network".to_owned());
    }
    let mut programs = PROGRAMS.to_vec();
    programs.retain(|program| workloads.iter().any(|workload| workload.part == *program));
    let (base, tree) = (Tree::of_commit(&base, &programs)?, Tree::of_this_checkout(&programs)?);
    let net = Net::make(false);
    eprintln!(
        "{}; {pairs} to {} rounds for each of {} workloads",
        net.told(),
        pairs * EXTENSION,
        workloads.len()
    );
    println!("{:<24}{:>7}{:>10}{:>24}{:>24}", "user time", "rounds", "base, s", "base/base", "tree/base");
    let (mut slower, mut unfit) = (0, 0);
    for workload in &workloads {
        let seconds = rounds(workload, pairs, [&base, &base, &tree], &net)?;
        let [first, again, ours] = &seconds;
        let (same, change) = (Ratio::of(again, first), Ratio::of(ours, first));
        let verdict = if same.low > SLOWER || same.high < 1.0 / SLOWER {
            unfit += 1;
            "base/base IS NOT 1"
        } else if change.low > SLOWER {
            slower += 1;
            "SLOWER"
        } else if change.half_width() > PRECISION {
            "wide"
        } else {
            ""
        };
        let middle = anabranch_benches::median(first);
        println!(
            "{:<24}{:>7}{middle:>10.3}{:>24}{:>24}  {verdict}",
            workload.name,
            first.len(),
            same.text(),
            change.text()
        );
    }
    println!("{}", if slower + unfit == 0 { "ok" } else { "FAIL" });
    Ok(match (slower, unfit) {
        (0, 0) => ExitCode::SUCCESS,
        (_, 0) => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    })
}

/// Runs a workload in rounds. Each round runs the programs of three trees: the base, the base again, and this tree. The
/// rounds end when the ratio of this tree's time to the base's time is precise enough (`PRECISION`). There are at least
/// `pairs` and at most `pairs` × `EXTENSION` rounds. Returns the user CPU seconds of each round, for each of the three
/// trees.
fn rounds(workload: &Workload, pairs: usize, trees: [&Tree; 3], net: &Net) -> Result<[Vec<f64>; 3], String> {
    let mut seconds = [const { Vec::new() }; 3];
    for round in 0..pairs * EXTENSION {
        if round >= pairs && Ratio::of(&seconds[2], &seconds[0]).half_width() <= PRECISION {
            break;
        }
        for turn in 0..3 {
            let which = (round + turn) % 3;
            let taken = workload.user_seconds(trees[which], net);
            seconds[which].push(taken.map_err(|e| format!("{}: {e}", workload.name))?);
        }
    }
    Ok(seconds)
}

/// A geometric mean of ratios of paired runs, with its 95 % t-interval.
struct Ratio {
    mean: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn of(a: &[f64], b: &[f64]) -> Self {
        let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a / b).ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = t_quantile(logs.len() - 1) * (variance / n).sqrt();
        Self { mean: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
    }

    /// Returns half the width of the confidence interval, divided by the mean ratio.
    fn half_width(&self) -> f64 {
        (self.high - self.low) / (2.0 * self.mean)
    }

    fn text(&self) -> String {
        format!("{:.3} ({:.3}-{:.3})", self.mean, self.low, self.high)
    }
}

/// Returns the 97.5 % quantile of Student's t with `freedom` degrees of freedom, by the expansion of Cornish and Fisher
/// (Abramowitz and Stegun 26.7.5). With four or more degrees, the result is within 1 % of the exact quantile. With
/// fewer degrees it is too large.
fn t_quantile(freedom: usize) -> f64 {
    let (z, v) = (1.959_964_f64, freedom as f64);
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    let expanded = z + g1 / v + g2 / v.powi(2) + g3 / v.powi(3);
    if freedom < 4 { 4.303_f64.max(12.706 / v) } else { expanded }
}
