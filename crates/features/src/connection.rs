//! Decides whether a transport has connections. Two rows ask about connections, and do not apply to a transport without
//! them.

use super::testbed::Testbed;
use super::{Cell, Kind, Verdict, hold};
use anabranch_sim::Fate;

pub(super) fn probe(kind: Kind) -> Result<Cell, String> {
    let testbed = Testbed::quiet()?;
    let up = hold(&testbed, &kind.carrier(&[]), async |harness| harness.connect().await)?;
    let packets = testbed.passages().iter().filter(|p| p.fate == Fate::Entered).count();
    let yes = up && packets > 0;
    let observed = match yes {
        true => format!("{packets} packets pass; then both ends know each other"),
        false => "no packet passes; the receiver does not know the sender before data arrives".to_owned(),
    };
    Ok(Cell::of(yes, observed))
}

/// Returns the cell "not applicable" for a transport without connections, because the question of the row requires a
/// connection; otherwise `None`.
pub(super) fn without_connection(kind: Kind) -> Result<Option<Cell>, String> {
    let cell = probe(kind)?;
    let observed = format!("there is no connection: {}", cell.observed);
    Ok((cell.verdict == Verdict::No).then_some(Cell { verdict: Verdict::NotApplicable, observed }))
}
