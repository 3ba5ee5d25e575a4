//! How fast a bulk transfer is simulated, beside ns-2 and ns-3 in the same run.
//!
//!     cargo run --release --bin speed [-- --seconds 60 --runs 9 --ours]
//!
//! 100 Mbit/s, 20 ms round trip, 0.1 % of the data packets lost, one thread, no
//! tracing. Counted are link transmissions, data and acknowledgements, in a CPU
//! second; each figure is the median over the seeds 1 to `runs`. We move real
//! packets, with the checksums of IP and of the transport made and checked;
//! ns-2 and ns-3 move packets without content (ns-3 can make checksums: the
//! second line).

use anabranch_base::time::Duration;
use anabranch_benches::transfer::{self, Flow};
use anabranch_benches::{median, peers};
use anabranch_link::LinkSpec;

/// Buffers that never limit the window, and no larger: they are memory that
/// every byte passes through.
const FLOWS: [(&str, &str); 2] = [
    ("tcp", "tcp:cc=reno,rcvbuf=512KiB,sndbuf=512KiB,rto_min=1s"),
    ("sctp", "sctp:rcvbuf=512KiB,sndbuf=512KiB"),
];
const LINK: &str = "rate=100mbit,rtt=20ms,queue=1000p,up-loss=0.1%";

struct Row {
    name: String,
    transmissions: u64,
    rate: f64,
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str, default: u32| {
        let at = args.iter().position(|arg| arg == flag);
        at.map_or(Ok(default), |at| {
            args.get(at + 1).and_then(|n| n.parse().ok()).ok_or(format!("{flag}: a number"))
        })
    };
    let (seconds, runs) = (number("--seconds", 60)?, number("--runs", 9)?.max(1));
    let only = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1));
    let mut rows = Vec::new();
    for (name, settings) in FLOWS.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        rows.push(ours(name, settings, seconds, runs)?);
    }
    if only.is_none() && !args.iter().any(|arg| arg == "--ours") {
        for agent in ["tcp", "sctp"] {
            rows.extend(peer(&format!("ns-2 {agent}"), peers::ns2(agent, seconds, runs)));
        }
        let folder = std::env::temp_dir();
        for (name, checksums) in [("ns-3 tcp", false), ("ns-3 tcp, checksums", true)] {
            rows.extend(peer(name, peers::ns3(&folder, seconds, runs.min(5), checksums)));
        }
    }
    println!("{:24} {:>14} {:>14} {:>9}", "", "transmissions", "per CPU-second", "ns each");
    for row in &rows {
        println!("{:24} {:14} {:14.0} {:9.1}", row.name, row.transmissions, row.rate, 1e9 / row.rate);
    }
    let rate = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.rate);
    for (ours, theirs, least) in [
        ("anabranch tcp", "ns-2 tcp", 1.0),
        ("anabranch sctp", "ns-2 sctp", 2.0),
        ("anabranch tcp", "ns-3 tcp", 20.0),
        ("anabranch sctp", "ns-3 tcp", 20.0),
    ] {
        if let (Some(a), Some(b)) = (rate(ours), rate(theirs)) {
            let verdict = if a / b >= least { "met" } else { "MISSED" };
            println!("{ours} / {theirs}: {:.2} (aim {least}: {verdict})", a / b);
        }
    }
    Ok(())
}

fn ours(name: &str, settings: &str, seconds: u32, runs: u32) -> Result<Row, String> {
    let link = LinkSpec::parse(LINK).map_err(|error| error.to_string())?;
    let flow = Flow::parse(settings)?;
    let span = Duration::from_secs(u64::from(seconds));
    let (mut transmissions, mut rates) = (0, Vec::new());
    for seed in 1..=runs {
        let outcome = transfer::run(&link, std::slice::from_ref(&flow), span, u64::from(seed))?;
        transmissions += outcome.transmissions;
        rates.push(outcome.transmissions as f64 / outcome.cpu);
    }
    Ok(Row { name: format!("anabranch {name}"), transmissions, rate: median(&rates) })
}

fn peer(name: &str, speed: Result<peers::Speed, String>) -> Option<Row> {
    match speed {
        Ok(speed) => {
            Some(Row { name: name.to_owned(), transmissions: speed.transmissions, rate: speed.rate() })
        }
        Err(error) => {
            eprintln!("{name} is left out: {error}");
            None
        }
    }
}
