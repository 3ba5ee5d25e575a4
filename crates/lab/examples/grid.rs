//! Goodput over round trips and losses: a bulk transfer at 100 Mbit/s for each
//! cell and contestant, printed as one table.
//!
//! `cargo run --release -p anabranch-lab --example grid [BYTES [SEEDS [TRANSPORT...]]]`
//!
//! Without arguments: 40 MB and 5 seeds for every cell of TCP and SCTP with today's rules, SCTP by the letter of
//! RFC 9260 beside them, and the ratio of the first two. `tests/grid.txt` is the same with less.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::results::Outcome;
use anabranch_lab::run::batch::{self, Options};
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

/// Round trips and losses of the grid.
pub const RTTS: [&str; 4] = ["20ms", "50ms", "100ms", "200ms"];
/// As above.
pub const LOSSES: [&str; 4] = ["0", "0.01%", "0.1%", "1%"];
/// The contestants of the recorded grid.
pub const TRANSPORTS: [&str; 3] = ["tcp:profile=modern", "sctp:profile=modern", "sctp:profile=rfc9260"];

/// Goodput in Mbit/s by contestant, the mean over seeds, for each cell in order.
pub fn run(bytes: &str, seeds: &str, transports: &[String]) -> Vec<Vec<f64>> {
    let mut cells = Vec::new();
    for rtt in RTTS {
        for loss in LOSSES {
            let mut flags =
                vec![("rate", "100mbit"), ("rtt", rtt), ("loss", loss), ("bulk", bytes), ("runs", seeds)];
            flags.extend(transports.iter().map(|transport| ("transport", transport.as_str())));
            let plan = Draft::from_flags(flags).and_then(Plan::interpret).unwrap_or_else(|e| panic!("{e}"));
            let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
            let race = batch::race(&plan, &options).unwrap_or_else(|e| panic!("{e}"));
            let goodput = |arm: &anabranch_lab::results::Arm| {
                let bits = arm.runs.iter().map(|run| {
                    assert_eq!(run.outcome, Outcome::Done, "{} {rtt} {loss}", arm.arm);
                    let bytes: u64 = run.objects.iter().map(|object| object.bytes).sum();
                    8_000.0 * bytes as f64 / run.page_ns.unwrap_or(u64::MAX) as f64
                });
                bits.sum::<f64>() / arm.runs.len() as f64
            };
            cells.push(race.points[0].arms.iter().map(goodput).collect());
        }
    }
    cells
}

/// The table.
pub fn render(bytes: &str, seeds: &str, transports: &[String]) -> String {
    let mut table = format!(
        "goodput in Mbit/s of {bytes} over 100 Mbit/s, queue 1 bdp, means over {seeds} seeds\n\n{:>6} {:>6}",
        "rtt", "loss"
    );
    for transport in transports {
        let _ = write!(table, " {transport:>22}");
    }
    table.push_str("   second/first\n");
    let names = RTTS.iter().flat_map(|rtt| LOSSES.iter().map(move |loss| (rtt, loss)));
    for ((rtt, loss), cell) in names.zip(run(bytes, seeds, transports)) {
        let _ = write!(table, "{rtt:>6} {loss:>6}");
        for goodput in &cell {
            let _ = write!(table, " {goodput:>22.2}");
        }
        let ratio = cell.get(1).map_or(1.0, |second| second / cell[0]);
        let _ = writeln!(table, " {ratio:>14.2}");
    }
    table
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let bytes = given.first().map_or("40MB", String::as_str);
    let seeds = given.get(1).map_or("5", String::as_str);
    let named: Vec<String> = given.iter().skip(2).cloned().collect();
    let ours: Vec<String> = TRANSPORTS.iter().map(|&name| name.to_owned()).collect();
    print!("{}", render(bytes, seeds, if named.is_empty() { &ours } else { &named }));
}
