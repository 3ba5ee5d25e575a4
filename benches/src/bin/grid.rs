//! Prints a table of goodputs over several round-trip times and loss rates.
//!
//!     cargo run --release --bin grid [-- BYTES [SEEDS [TRANSPORT...]]]
//!
//! Without arguments, each run transfers 40 MB, and each cell of the table is the result of 30 seeds. The contestants
//! are TCP and SCTP, both with profile `modern`, and SCTP with profile `rfc9260`. The table also has the ratio of the
//! second contestant's goodput to that of the first.

use anabranch_benches::grid::{TRANSPORTS, render, run};

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let bytes = given.first().map_or("40MB", String::as_str);
    let seeds = given.get(1).map_or("30", String::as_str);
    let named: Vec<String> = given.iter().skip(2).cloned().collect();
    let ours: Vec<String> = TRANSPORTS.iter().map(|&name| name.to_owned()).collect();
    let transports = if named.is_empty() { &ours } else { &named };
    print!("{}", render(bytes, seeds, transports, &run(bytes, seeds, transports)));
}
