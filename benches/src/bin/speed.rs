//! Measures the speed at which a bulk transfer is simulated, and compares it with ns-2 and ns-3 in the same run.
//!
//!     cargo run --release --bin speed [-- --seconds 60 --runs 9 --ours]
//!
//! The link has 100 Mbit/s and a round trip of 20 ms, and loses 0.1 % of the data packets. Each simulator uses one
//! thread and no tracing. The measure is the number of link transmissions (data and acknowledgements) per CPU second.
//! Each figure is the median over the seeds 1 to `runs`. All simulators take turns, seed by seed, so that other load on
//! the machine affects all of them. Our speed is divided by the speed of ns-2 or ns-3 seed by seed, and the median of
//! these ratios is printed. Our simulator moves real packets, whose payload sender and receiver share. It computes the
//! checksum of a transport only if something reads it, for example a capture. ns-2 and ns-3 move packets without
//! content. The table has two lines for ns-3: without and with checksums.

use anabranch_base::time::Duration;
use anabranch_benches::median;
use anabranch_benches::simulators::Simulator;
use anabranch_benches::transfer::{self, Flow};
use anabranch_link::LinkSpec;

/// The flows that each simulator runs. Their buffers are large enough not to limit the window.
const FLOWS: [(&str, &str); 2] = [
    ("tcp", "tcp:cc=reno,rcvbuf=512KiB,sndbuf=512KiB,rto_min=1s"),
    ("sctp", "sctp:rcvbuf=512KiB,sndbuf=512KiB"),
];
const LINK: &str = "rate=100mbit,rtt=20ms,queue=1000p,up-loss=0.1%";

/// A function that runs a simulator with a seed. It returns the number of transmissions and the CPU seconds.
type Run = Box<dyn Fn(u32) -> Result<(u64, f64), String>>;

/// ns-3 takes about a hundred times as long as our simulator, so ns-3 runs at most this number of seeds.
const SEEDS_OF_NS3: u32 = 5;

struct Row {
    name: String,
    run: Run,
    seeds: u32,
    transmissions: u64,
    /// The measured transmissions per CPU second, one value for each seed.
    rates: Vec<f64>,
}

impl Row {
    fn new(name: String, seeds: u32, run: Run) -> Self {
        Self { name, run, seeds, transmissions: 0, rates: Vec::new() }
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str, default: u32| {
        let at = args.iter().position(|arg| arg == flag);
        at.map_or(Ok(default), |at| {
            args.get(at + 1).and_then(|n| n.parse().ok()).ok_or(format!("{flag}: a number"))
        })
    };
    let (seconds, runs) = (number("--seconds", 60)?, number("--runs", 31)?.max(1));
    let only = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1));
    let only_ours = args.iter().any(|arg| arg == "--ours");
    let mut rows = Vec::new();
    for (name, settings) in FLOWS.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        rows.push(Row::new(format!("anabranch {name}"), runs, ours(settings, seconds)?));
        if !only_ours {
            rows.extend(simulator_row(&format!("ns-2 {name}"), Simulator::ns2(name), seconds, runs));
        }
    }
    if !only_ours && only.is_none() {
        let folder = std::env::temp_dir();
        for (name, checksums) in [("ns-3 tcp", false), ("ns-3 tcp, checksums", true)] {
            rows.extend(simulator_row(
                name,
                Simulator::ns3(&folder, checksums),
                seconds,
                runs.min(SEEDS_OF_NS3),
            ));
        }
    }
    for seed in 1..=runs {
        for row in rows.iter_mut().filter(|row| seed <= row.seeds) {
            let (transmissions, cpu) = (row.run)(seed).map_err(|error| format!("{}: {error}", row.name))?;
            row.transmissions += transmissions;
            row.rates.push(transmissions as f64 / cpu);
        }
    }
    println!("{:24} {:>14} {:>14} {:>9}", "", "transmissions", "per CPU-second", "ns each");
    for row in &rows {
        let rate = median(&row.rates);
        println!("{:24} {:14} {:14.0} {:9.1}", row.name, row.transmissions, rate, 1e9 / rate);
    }
    let rates = |name: &str| rows.iter().find(|row| row.name == name).map(|row| &row.rates);
    for (ours, theirs, least) in [
        ("anabranch tcp", "ns-2 tcp", 1.0),
        ("anabranch sctp", "ns-2 sctp", 2.0),
        ("anabranch tcp", "ns-3 tcp", 20.0),
        ("anabranch sctp", "ns-3 tcp", 20.0),
    ] {
        if let (Some(a), Some(b)) = (rates(ours), rates(theirs)) {
            let ratio = median(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>());
            let verdict = if ratio >= least { "met" } else { "MISSED" };
            println!("{ours} / {theirs}: {ratio:.2} (aim {least}: {verdict})");
        }
    }
    Ok(())
}

fn ours(settings: &str, seconds: u32) -> Result<Run, String> {
    let link = LinkSpec::parse(LINK).map_err(|error| error.to_string())?;
    let flow = Flow::parse(settings)?;
    let span = Duration::from_secs(u64::from(seconds));
    Ok(Box::new(move |seed| {
        let outcome = transfer::run(&link, std::slice::from_ref(&flow), span, u64::from(seed))?;
        Ok((outcome.transmissions, outcome.cpu))
    }))
}

fn simulator_row(name: &str, simulator: Result<Simulator, String>, seconds: u32, seeds: u32) -> Option<Row> {
    match simulator {
        Ok(simulator) => {
            Some(Row::new(name.to_owned(), seeds, Box::new(move |seed| simulator.run(seed, seconds))))
        }
        Err(error) => {
            eprintln!("{name} is left out: {error}");
            None
        }
    }
}
