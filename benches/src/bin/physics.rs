//! Compares the transports with the literature: long flows against the formula of Mathis et al., against ns-2, and
//! against each other.
//!
//!     cargo run --release --bin physics [-- mathis|ns2|jain] [--seeds 10] [--rerun-ns2]
//!
//! Prints every result with its reference value. The exit status is 1 if a result is out of range. ns-2's results are
//! read from `physics/ns2/figures.csv` (`--rerun-ns2` runs its script again instead: see `physics/README.md`).

use anabranch_base::time::Duration;
use anabranch_benches::transfer::{self, Flow, Outcome};
use anabranch_link::LinkSpec;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seeds = match args.iter().position(|arg| arg == "--seeds") {
        Some(at) => args.get(at + 1).and_then(|n| n.parse().ok()).ok_or("--seeds: a number")?,
        None => 10,
    };
    let rerun = args.iter().any(|arg| arg == "--rerun-ns2");
    let parts: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| ["mathis", "ns2", "jain"].contains(arg)).collect();
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    let mut missed = 0;
    if wanted("mathis") {
        missed += mathis(seeds)?;
    }
    if wanted("ns2") {
        missed += against_ns2(seeds, rerun)?;
    }
    if wanted("jain") {
        missed += fairness(seeds)?;
    }
    if missed > 0 {
        println!("\n{missed} figures lie outside");
        std::process::exit(1);
    }
    Ok(())
}

fn transfer(link: &str, flows: &[&str], seconds: u64, seed: u64) -> Result<Outcome, String> {
    let link = LinkSpec::parse(link).map_err(|error| error.to_string())?;
    let flows: Result<Vec<Flow>, String> = flows.iter().map(|text| Flow::parse(text)).collect();
    transfer::run(&link, &flows?, Duration::from_secs(seconds), seed)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the word that the table prints: `ok` if `ratio` is between `least` and `most`, else `OUTSIDE`. Also returns
/// the number of ratios outside this range (0 or 1).
fn judge(ratio: f64, least: f64, most: f64) -> (&'static str, u32) {
    if (least..=most).contains(&ratio) { ("ok", 0) } else { ("OUTSIDE", 1) }
}

/// Compares with Mathis, Semke, Mahdavi, Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm",
/// 1997: rate = MSS/RTT · C/√p with C = √(3/2b). Here b is 1 if the window grows per acknowledged byte. It is 2 if the
/// window grows per acknowledgement, and two segments share an acknowledgement. For random losses the paper's Table 1
/// has C = 1.31 and 0.93 instead of 1.22 and 0.87.
fn mathis(seeds: u64) -> Result<u32, String> {
    const PAYLOAD: f64 = 1460.0;
    println!("Mathis: 1 Gbit/s, 100 ms, 2000 s; goodput in segments a second over the formula's\n");
    println!("{:34} {:>9} {:>12} {:>10} {:>10} {:>7}", "flow", "p", "losses", "measured", "formula", "ratio");
    let big = "rcvbuf=8MiB,sndbuf=2MiB";
    let flows = [
        (format!("tcp:cc=reno,abc=2,timestamps=no,{big}"), 1.0, PAYLOAD),
        (format!("tcp:cc=reno,abc=off,timestamps=no,{big}"), 2.0, PAYLOAD),
        (format!("sctp:max_burst=0,{big}"), 1.0, 1452.0),
    ];
    let mut missed = 0;
    for (flow, b, payload) in flows.iter() {
        for (percent, every) in [("0.01%", 10_000), ("0.03%", 3_333), ("0.1%", 1_000)] {
            let p = 1.0 / f64::from(every);
            for (losses, model, c) in [
                ("every nth", format!("nth:{every}"), f64::sqrt(3.0 / (2.0 * b))),
                ("at random", percent.to_owned(), if *b == 1.0 { 1.31 } else { 0.93 }),
            ] {
                let link = format!("rate=1gbit,rtt=100ms,queue=unlimited,up-loss={model}");
                let mut rates = Vec::new();
                for seed in 1..=seeds.min(if losses == "every nth" { 1 } else { 5 }) {
                    let outcome = transfer(&link, &[flow], 2000, seed)?;
                    rates.push(outcome.flows[0].bytes as f64 / payload / 2000.0);
                }
                let measured = mean(rates.into_iter());
                let formula = c / p.sqrt() / 0.1;
                let (mark, out) = judge(measured / formula, 0.85, 1.15);
                missed += out;
                let name = flow.trim_end_matches(&format!(",{big}"));
                println!(
                    "{name:34} {percent:>9} {losses:>12} {measured:10.0} {formula:10.0} {:7.3} {mark}",
                    measured / formula
                );
            }
        }
    }
    Ok(missed)
}

/// The results of ns-2: acknowledged segments and timeouts of each seed, by (minimum RTO, agent, loss).
type Reference = BTreeMap<(String, String, String), Vec<(f64, f64)>>;

fn against_ns2(seeds: u64, rerun: bool) -> Result<u32, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("physics/ns2");
    let reference = if rerun { run_ns2(&folder, seeds)? } else { read_ns2(&folder)? };
    println!("\nns-2: 10 Mbit/s, 100 ms, window 1000 segments, delayed acknowledgements 100 ms, 1000 s");
    println!("segments acknowledged, mean over seeds; timeouts in brackets\n");
    println!("{:8} {:>7} {:>5} {:>18} {:>18} {:>7}", "agent", "rto_min", "p", "anabranch", "ns-2", "ratio");
    let mut missed = 0;
    for ((rto_min, agent, loss), theirs) in &reference {
        let recovery = match agent.as_str() {
            "Reno" => "recovery=reno,sack=no",
            "Newreno" => "recovery=newreno,sack=no",
            _ => "recovery=sack,sack=yes",
        };
        let flow =
            format!("tcp:profile=ns2,mss=1460B,tick=1ms,rto_min={rto_min}s,rcvbuf=1460000B,{recovery}");
        let percent = loss.parse::<f64>().map_err(|_| format!("figures.csv: loss '{loss}'"))? * 100.0;
        let link = format!("rate=10mbit,rtt=100ms,queue=10000p,up-loss={percent}%");
        let mut ours = Vec::new();
        for seed in 1..=seeds {
            let outcome = transfer(&link, &[&flow], 1000, seed)?;
            let figures = &outcome.flows[0];
            ours.push((figures.bytes as f64 / 1460.0, figures.timeouts as f64));
        }
        let both =
            |values: &[(f64, f64)]| (mean(values.iter().map(|v| v.0)), mean(values.iter().map(|v| v.1)));
        let ((a, a_timeouts), (b, b_timeouts)) = (both(&ours), both(theirs));
        let (mark, out) = judge(a / b, 0.85, 1.15);
        missed += out;
        println!(
            "{agent:8} {rto_min:>6}s {percent:4}% {a:10.0} ({a_timeouts:5.1}) {b:10.0} ({b_timeouts:5.1}) {:7.3} {mark}",
            a / b
        );
    }
    Ok(missed)
}

fn read_ns2(folder: &Path) -> Result<Reference, String> {
    let file = folder.join("figures.csv");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut reference = Reference::new();
    for line in text.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [rto_min, agent, loss, .., acked, _sent, timeouts, _cuts] = cells[..] else {
            return Err(format!("figures.csv: '{line}'"));
        };
        let number = |text: &str| text.parse::<f64>().map_err(|_| format!("figures.csv: '{line}'"));
        let key = (rto_min.to_owned(), agent.to_owned(), loss.to_owned());
        reference.entry(key).or_default().push((number(acked)?, number(timeouts)?));
    }
    Ok(reference)
}

fn run_ns2(folder: &Path, seeds: u64) -> Result<Reference, String> {
    let mut reference = Reference::new();
    for rto_min in ["0.2", "1.0"] {
        for agent in ["Reno", "Newreno", "Sack1"] {
            for loss in ["0.01", "0.02", "0.03"] {
                for seed in 1..=seeds {
                    let output = Command::new("ns")
                        .arg(folder.join("flows.tcl"))
                        .args([agent, loss, &seed.to_string()])
                        .env("MINRTO", rto_min)
                        .output()
                        .map_err(|error| format!("ns: {error}"))?;
                    let line = String::from_utf8_lossy(&output.stdout);
                    let cells: Vec<&str> = line.trim().split(',').collect();
                    let number = |at: usize| {
                        cells.get(at).and_then(|cell| cell.parse().ok()).ok_or(format!("ns said '{line}'"))
                    };
                    let key = (rto_min.to_owned(), agent.to_owned(), loss.to_owned());
                    reference.entry(key).or_default().push((number(7)?, number(9)?));
                }
            }
        }
    }
    Ok(reference)
}

/// Measures the fairness of two flows that share a drop-tail bottleneck, as Jain's index (Σx)² / (n Σx²).
fn fairness(seeds: u64) -> Result<u32, String> {
    println!("\nTwo flows: 10 Mbit/s, 80 ms, drop-tail of one bandwidth-delay product, 300 s\n");
    println!("{:40} {:>8} {:>8} {:>8} {:>8}", "flows", "Jain", "least", "share", "used");
    let tcp = "tcp:cc=reno,rto_min=1s,iw=3";
    let sctp = "sctp:max_burst=0";
    let mut missed = 0;
    for (name, flows, held) in [
        ("tcp, tcp", [tcp, tcp], true),
        ("sctp, sctp", [sctp, sctp], true),
        ("tcp cubic, tcp cubic", ["tcp", "tcp"], true),
        ("tcp, sctp", [tcp, sctp], false),
    ] {
        let mut indices = Vec::new();
        let (mut shares, mut used) = (Vec::new(), Vec::new());
        for seed in 1..=seeds {
            let outcome = transfer("rate=10mbit,rtt=80ms,queue=1bdp", &flows, 300, seed)?;
            let x: Vec<f64> = outcome.flows.iter().map(|flow| flow.bytes as f64).collect();
            let sum: f64 = x.iter().sum();
            indices.push(sum * sum / (x.len() as f64 * x.iter().map(|x| x * x).sum::<f64>()));
            shares.push(x[0] / sum);
            used.push(sum * 8.0 / 300.0 / 10e6);
        }
        let least = indices.iter().copied().fold(f64::INFINITY, f64::min);
        let jain = mean(indices.into_iter());
        let (mark, out) = if held { judge(jain, 0.95, 1.0) } else { ("", 0) };
        missed += out;
        let (share, used) = (mean(shares.into_iter()), mean(used.into_iter()));
        println!("{name:40} {jain:8.4} {least:8.4} {share:8.3} {used:8.3} {mark}");
    }
    Ok(missed)
}
