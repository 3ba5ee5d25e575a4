//! A snapshot of goodput over round-trip times and loss rates. If the behaviour of a transport changes, this table
//! changes, and the new table must be reviewed.
//!
//! This test runs a few seeds only. They are too few to judge the cells of the grid in which few packets are lost.
//! `cargo run --release --bin grid` in `benches/` runs more seeds.

#[path = "../../../benches/src/grid.rs"]
mod table;

use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

#[test]
fn goodput_is_what_was_recorded() {
    if !are_slow_tests_enabled() {
        return;
    }
    let transports: Vec<String> = table::TRANSPORTS.iter().map(|&name| name.to_owned()).collect();
    let cells = table::run("20MB", "12", &transports);
    expect_test::expect_file!["grid.txt"].assert_eq(&table::render("20MB", "12", &transports, &cells));
    for cell in cells {
        let ratio = cell.ratio().and_then(|ratio| ratio.ratio).expect("two contestants");
        assert!(ratio >= 0.95, "sctp reaches {ratio:.3} of tcp at {} and {} loss", cell.rtt, cell.loss);
    }
}

/// Slow start overflows the queue and loses a thousand packets at once, namely every other packet of a window. A SACK
/// cannot report that many gaps (RFC 9260 §6.7). No packet is reordered, so every retransmission must be necessary.
#[test]
fn a_thousand_losses_are_repaired_once() {
    let flags = [
        ("rate", "100mbit"),
        ("rtt", "100ms"),
        ("bulk", "10MB"),
        ("runs", "1"),
        ("causes", "off"),
        ("transport", "tcp:profile=modern,hystart=no"),
        ("transport", "sctp:profile=modern,hystart=no"),
    ];
    let plan = Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .expect("a plan");
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let race = causes::race(&plan, &options).expect("runs");
    for contestant in &race.points[0].contestants {
        let run = &contestant.runs[0];
        assert!(run.packets.down.lost > 1_000, "{}: {} lost", contestant.name, run.packets.down.lost);
        assert_eq!(run.events.spurious, Some(0), "{}", contestant.name);
    }
}
