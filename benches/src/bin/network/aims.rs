//! The performance targets of the benchmark `network` and the results, with one row for each target. The table is
//! printed at the end.

use std::cell::RefCell;

/// The rows of the table so far: targets with their results.
#[derive(Default)]
pub struct Aims {
    rows: RefCell<Vec<Row>>,
}

struct Row {
    name: String,
    ours: Option<f64>,
    peer: String,
    theirs: Option<f64>,
    aim: Aim,
}

/// A performance target: a limit for the ratio of our result to the peer's result or, without a peer, for our result
/// itself.
#[derive(Clone, Copy)]
pub enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Aims {
    /// Adds a row with our result and its target, without a peer's result.
    pub fn add(&self, name: &str, ours: f64, aim: Aim) {
        self.rows.borrow_mut().push(Row {
            name: name.to_owned(),
            ours: Some(ours),
            peer: String::new(),
            theirs: None,
            aim,
        });
    }

    /// Adds a row with our result and the result of another program. `peer` is the name of that program. If the program
    /// is not installed, `peer` says how to install it. `theirs` is the program's result; `None` if it was not
    /// measured.
    pub fn compare_with_peer(&self, name: &str, ours: f64, peer: &str, theirs: Option<f64>, aim: Aim) {
        self.rows.borrow_mut().push(Row {
            name: name.to_owned(),
            ours: Some(ours),
            peer: peer.to_owned(),
            theirs,
            aim,
        });
    }

    /// Adds a target whose result could not be measured, with the reason (`why`).
    pub fn missing(&self, name: &str, why: &str, aim: Aim) {
        self.rows.borrow_mut().push(Row {
            name: name.to_owned(),
            ours: None,
            peer: why.to_owned(),
            theirs: None,
            aim,
        });
    }

    pub fn print(&self) {
        println!(
            "\n{:<42}{:>12}  {:<34}{:>12}{:>9}{:>10}",
            "what is aimed at", "ours", "peer", "peer's", "ratio", "aim"
        );
        for row in self.rows.borrow().iter() {
            let Row { name, ours, peer, theirs, aim } = row;
            let value = match (ours, theirs) {
                (Some(ours), Some(theirs)) => Some(ours / theirs),
                (Some(ours), None) if peer.is_empty() => Some(*ours),
                _ => None,
            };
            let ratio = theirs.and(value).map_or_else(String::new, |ratio| format!("{ratio:.3}"));
            let (sign, bound) = match aim {
                Aim::AtLeast(bound) => (">=", bound),
                Aim::AtMost(bound) => ("<=", bound),
            };
            let verdict = value.map_or("not measured", |value| {
                let met = match aim {
                    Aim::AtLeast(bound) => value >= *bound,
                    Aim::AtMost(bound) => value <= *bound,
                };
                if met { "met" } else { "MISSED" }
            });
            println!(
                "{name:<42}{:>12}  {peer:<34}{:>12}{ratio:>9}{:>10}  {verdict}",
                shown(*ours),
                shown(*theirs),
                format!("{sign} {}", short(*bound)),
            );
        }
    }
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(String::new, short)
}

/// Formats a value with three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
