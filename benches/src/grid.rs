//! Goodput over round-trip times and loss rates, as one table. Each cell is the goodput of a contestant's bulk transfer
//! at 100 Mbit/s, with one round-trip time and one loss rate.
//!
//! The program `grid` prints this table. A test of the crate `lab` makes the same table with fewer cells and compares
//! it with `crates/lab/tests/grid.txt`.
//!
//! Goodputs are geometric means over seeds, because a few early losses can make one seed ten times slower than another.
//! For each seed, the second contestant's goodput is divided by the first contestant's. The mean ratio has a 95 %
//! t-interval, computed from the logarithms, unless all ratios are equal.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::stats::interval::mean;
use anabranch_results::stats::paired::{Ratio, ratio};
use anabranch_results::{Contestant, Outcome};
use anabranch_transports::Transports;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

/// The round-trip times of the grid.
pub const RTTS: [&str; 4] = ["20ms", "50ms", "100ms", "200ms"];
/// The loss rates of the grid.
pub const LOSSES: [&str; 4] = ["0", "0.01%", "0.1%", "1%"];
/// The contestants of the default table.
pub const TRANSPORTS: [&str; 3] = ["tcp:profile=modern", "sctp:profile=modern", "sctp:profile=rfc9260"];

/// One cell of the table: a round-trip time, a loss rate, and the goodputs that were measured with them.
pub struct Cell {
    /// The round-trip time.
    pub rtt: &'static str,
    /// The loss rate in each direction.
    pub loss: &'static str,
    /// The goodputs in Mbit/s, by contestant and seed.
    pub goodputs: Vec<Vec<f64>>,
}

impl Cell {
    /// Returns the ratio of the second contestant's goodput to that of the first contestant, with its interval.
    pub fn ratio(&self) -> Option<Ratio> {
        let [first, second, ..] = self.goodputs.as_slice() else { return None };
        let pairs: Vec<_> = second.iter().zip(first).map(|(&a, &b)| (Some(a), Some(b))).collect();
        Some(ratio(&pairs))
    }
}

/// Measures every cell of the table, in order.
pub fn run(bytes: &str, seeds: &str, transports: &[String]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for rtt in RTTS {
        for loss in LOSSES {
            let mut flags =
                vec![("rate", "100mbit"), ("rtt", rtt), ("loss", loss), ("bulk", bytes), ("runs", seeds)];
            flags.push(("causes", "off"));
            flags.extend(transports.iter().map(|transport| ("transport", transport.as_str())));
            let plan = Draft::from_flags(flags)
                .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
                .unwrap_or_else(|e| panic!("{e}"));
            let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
            let race = causes::race(&plan, &options).unwrap_or_else(|e| panic!("{e}"));
            let goodputs = |contestant: &Contestant| {
                let goodput = |run: &anabranch_results::Run| {
                    assert_eq!(run.outcome, Outcome::Done, "{} {rtt} {loss}", contestant.name);
                    let bytes: u64 = run.objects.iter().map(|object| object.bytes).sum();
                    8_000.0 * bytes as f64 / run.page_ns.unwrap_or(u64::MAX) as f64
                };
                contestant.runs.iter().map(goodput).collect()
            };
            cells.push(Cell {
                rtt,
                loss,
                goodputs: race.points[0].contestants.iter().map(goodputs).collect(),
            });
        }
    }
    cells
}

/// Formats the measured cells as a text table.
pub fn render(bytes: &str, seeds: &str, transports: &[String], cells: &[Cell]) -> String {
    let mut table = format!(
        "goodput in Mbit/s of {bytes} over 100 Mbit/s, queue 1 bdp; geometric means over {seeds} seeds\n\n{:>6} {:>6}",
        "rtt", "loss"
    );
    for transport in transports {
        let _ = write!(table, " {transport:>22}");
    }
    table.push_str("   second/first\n");
    for cell in cells {
        let _ = write!(table, "{:>6} {:>6}", cell.rtt, cell.loss);
        for goodputs in &cell.goodputs {
            let logarithms: Vec<f64> = goodputs.iter().map(|goodput| goodput.ln()).collect();
            let _ = write!(table, " {:>22.2}", mean(&logarithms).unwrap_or(f64::NAN).exp());
        }
        if let Some(Ratio { ratio: Some(ratio), ci95, .. }) = cell.ratio() {
            let _ = write!(table, " {ratio:>8.2}");
            if let Some([low, high]) = ci95 {
                let _ = write!(table, " ({low:.2}-{high:.2})");
            }
        }
        table.push('\n');
    }
    table
}
