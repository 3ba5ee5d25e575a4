//! Rules that find congestion in the network: ECN marks, and queues that grow.

use super::{Case, Evidence, MILLISECOND};
use crate::table::{counted, millis};
use crate::timeline::Event;

/// Finds packets of the sender that routers have marked (RFC 3168 §5).
pub(super) fn congestion_marks(case: &Case<'_>) -> Option<Evidence> {
    let marked = case.by(true).filter(|entry| entry.event == Event::Marked);
    let marked: Vec<u64> = marked.map(|entry| entry.packet).collect();
    let all = case.talk.directions[case.side].packets;
    let (count, first) = (marked.len() as u64, *marked.first()?);
    if count < 10 || count * 100 < all {
        return None;
    }
    let reports = case.by(false).filter(|entry| entry.event == Event::MarkReport).count() as u64;
    let (sender, receiver) = (case.sender(), case.receiver());
    let reported = match (case.talk.transport, reports) {
        ("quic", _) => String::new(),
        (_, 0) => format!(" {receiver} reported no mark, so {sender} did not slow down for them."),
        (_, reports) => format!(" {receiver} reported marks in {}.", counted(reports, "packet")),
    };
    let text = format!(
        "Routers marked {} of {} from {sender} as having met congestion (ECN), first packet {first}.{reported}",
        count,
        counted(all, "packet"),
    );
    Some(Evidence { cost_ns: 0, text, packets: marked })
}

/// Finds a queue that grows on the path: round trips take several times as long as the shortest round trip.
pub(super) fn queue_growth(case: &Case<'_>) -> Option<Evidence> {
    let mut samples: Vec<(u64, u64)> = case
        .by(true)
        .filter_map(|entry| match entry.event {
            Event::RoundTrip(nanos) => Some((nanos, entry.packet)),
            _ => None,
        })
        .collect();
    // The sender's own packets form a queue only if several of them are in flight.
    let (mut flight, mut units) = (0_u64, 0_u64);
    for (_, data) in case.data() {
        flight = flight.saturating_add(data.flight.max(0).unsigned_abs());
        units = units.saturating_add(data.units.0.abs_diff(data.units.1));
    }
    let is_busy = flight >= units.saturating_mul(4);
    if samples.len() < 20 || !is_busy {
        return None;
    }
    samples.sort_unstable();
    let (least, median, most) = (samples[0], samples[samples.len() / 2].0, samples[samples.len() - 1]);
    let cost_ns = median - least.0;
    if median < least.0.saturating_mul(3) || cost_ns < 100 * MILLISECOND {
        return None;
    }
    let text = format!(
        "A queue held the packets of {}. Round trips took {} ms at least (packet {}), {} ms in the median, and {} ms at \
         most (packet {}). Each request and each repair takes as much longer.",
        case.sender(),
        millis(least.0),
        least.1,
        millis(median),
        millis(most.0),
        most.1,
    );
    Some(Evidence { cost_ns, text, packets: vec![least.1, most.1] })
}
