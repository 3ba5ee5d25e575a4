//! Decides whether a transport has connections. Two rows of the feature table ask about connections, and do not apply
//! to a transport without connections.

use super::testbed::Testbed;
use super::{FeatureCell, FeatureVerdict, TransportKind, with_harness};
use anabranch_sim::TapEvent;

pub(super) fn probe(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let up = with_harness(&testbed, &kind.carrier(&[]), async |harness| harness.connect().await)?;
    let packets = testbed.take_link_events().iter().filter(|p| p.event == TapEvent::Entered).count();
    let yes = up && packets > 0;
    let observed = match yes {
        true => format!("{packets} packets pass; then both ends know each other"),
        false => "no packet passes; the receiver does not know the sender before data arrives".to_owned(),
    };
    Ok(FeatureCell::of(yes, observed))
}

/// Returns the cell "not applicable" if the transport has no connections. Otherwise returns `None`.
pub(super) fn without_connection(kind: TransportKind) -> Result<Option<FeatureCell>, String> {
    let cell = probe(kind)?;
    let observed = format!("there is no connection: {}", cell.observed);
    Ok((cell.verdict == FeatureVerdict::No)
        .then_some(FeatureCell { verdict: FeatureVerdict::NotApplicable, observed }))
}
