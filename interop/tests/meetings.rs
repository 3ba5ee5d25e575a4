//! Runs every case with every peer, each with `SEEDS` seeds (default 20).

use anabranch_interop::cases::Case;
use anabranch_interop::peers::Stack;
use anabranch_interop::table::{Cell, cell};

fn meet(stack: Stack) {
    let seeds = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut failures = Vec::new();
    for case in Case::ALL {
        let cell = cell(stack, case, seeds);
        println!("{case}: {}", cell.text());
        if !cell.holds() {
            let why = match &cell {
                Cell::Tried { failure: Some((seed, why)), .. } => format!("seed {seed}: {why}"),
                _ => "no reason given".to_owned(),
            };
            failures.push(format!("{case}: {}; {why}", cell.text()));
        }
    }
    assert!(failures.is_empty(), "{} with:\n{}", stack.name(), failures.join("\n"));
}

#[test]
fn dcsctp() {
    meet(Stack::DcSctp);
}

#[test]
fn rtc_sctp() {
    meet(Stack::Rtc);
}

#[test]
fn sctp_proto() {
    meet(Stack::SctpProto);
}

/// A known fault of a peer that no longer shows has been fixed, and must be removed from [`Stack::fault`].
#[test]
fn known_faults_still_show() {
    for stack in Stack::ALL {
        for case in Case::ALL {
            if stack.fault(case).is_some_and(|_| stack.always_shows(case)) {
                let cell = cell(stack, case, 20);
                assert!(matches!(cell, Cell::Tried { excused: Some(_), .. }), "{case} with {}", stack.name());
            }
        }
    }
}
