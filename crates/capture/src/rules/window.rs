//! Rules that find the limits that the receiver sets: the receive window of SCTP and TCP.

use super::{Case, Evidence, MILLISECOND, is_share, packets};
use crate::data_class::DataClass;
use crate::table::{counted, seconds};
use crate::timeline::{Entry, Event};
use std::collections::BTreeMap;

/// Finds a receive window that has closed and never opens again. The sender then only probes the window (RFC 9260 §6.1
/// A, RFC 9293 §3.8.6.1).
pub(super) fn closed(case: &Case<'_>) -> Option<Evidence> {
    let least = case.usual_piece();
    let mut closed = None;
    for (entry, ack) in case.acks() {
        match ack.window {
            Some(window) if window < least => closed = closed.or(Some((entry, window))),
            Some(_) => closed = None,
            None => {}
        }
    }
    let (entry, window) = closed?;
    let cumulative = case.acks().map(|(_, ack)| ack.cumulative).max()?;
    let cost_ns = case.until().saturating_sub(entry.at);
    if !case.is_whole || cost_ns < case.patience() || case.is_closed_gracefully() {
        return None;
    }
    let (sender, receiver) = (case.sender(), case.receiver());
    let probes: Vec<u64> =
        case.data().map(|(data, _)| data.packet).filter(|packet| *packet > entry.packet).collect();
    let probed = match probes.is_empty() {
        true => String::new(),
        false => format!(" {sender} probed it in {}.", packets(&probes)),
    };
    let reason = match unfinished(case, cumulative) {
        Some(stream) => format!(
            "The message on stream {stream} is not complete, so {receiver} cannot deliver it, and has no room for the rest."
        ),
        None => format!("The host of {receiver} acknowledges data, but its application does not read it."),
    };
    let text = format!(
        "The receive window of {receiver} closed in packet {} ({} left) and did not open again {}, {} later.\
         {probed} {reason}",
        entry.packet,
        counted(window, "byte"),
        case.until_when(),
        seconds(cost_ns),
    );
    Some(Evidence { cost_ns, text, packets: [vec![entry.packet], probes].concat() })
}

/// Returns the stream of a message of which the receiver has the beginning, but not the end.
fn unfinished(case: &Case<'_>, cumulative: i64) -> Option<u64> {
    let mut begun: BTreeMap<u64, i64> = BTreeMap::new();
    for (_, data) in case.data().filter(|(_, data)| data.units.0 < cumulative) {
        if !matches!(data.class, DataClass::Retransmitted { inferred: false, .. }) {
            *begun.entry(data.stream).or_default() += i64::from(data.begins) - i64::from(data.ends);
        }
    }
    let is_complete = case.talk.directions[case.side].not_captured == 0;
    let is_sctp = case.talk.transport == "sctp";
    begun.into_iter().find(|(_, count)| *count > 0 && is_complete && is_sctp).map(|(stream, _)| stream)
}

/// Finds a receive window that limits the sender: all data that the window allows is in flight.
pub(super) fn limited(case: &Case<'_>) -> Option<Evidence> {
    let (least, unit, active) = (case.usual_piece(), case.bytes_per_unit(), case.active());
    let (mut window, mut since, mut cost_ns, mut largest) = (None, None::<&Entry>, 0, 0);
    // The longest period with a full window: its duration, and the packets at its beginning and its end.
    let mut longest: Option<(u64, u64, u64)> = None;
    for entry in case.entries {
        let flight = match &entry.event {
            Event::Ack(ack) if entry.side != case.side => {
                window = ack.window.or(window);
                ack.flight
            }
            Event::Data(data) if entry.side == case.side => data.flight,
            _ => continue,
        };
        let Some(open) = window else { continue };
        let in_flight = flight.max(0).unsigned_abs().saturating_mul(unit);
        let is_full = in_flight.saturating_add(least) > open && (in_flight > 0 || open < least);
        match (is_full, since) {
            (true, None) => {
                since = Some(entry);
                largest = largest.max(open);
            }
            (false, Some(from)) => {
                let nanos = entry.at.saturating_sub(from.at);
                cost_ns += nanos;
                longest = longest.max(Some((nanos, from.packet, entry.packet)));
                since = None;
            }
            _ => {}
        }
    }
    let shortest = case.round_trip().saturating_mul(2).max(200 * MILLISECOND);
    let (longest, from, until) = longest.filter(|_| least > 0)?;
    let is_stall = longest >= case.round_trip().saturating_mul(4).max(500 * MILLISECOND);
    if cost_ns < shortest || !is_stall && !is_share(cost_ns, 30, active) {
        return None;
    }
    let (sender, receiver) = (case.sender(), case.receiver());
    let text = format!(
        "The receive window of {receiver} limited {sender} for {} of {}. All that it allowed was in flight, longest from \
         packet {from} to {until} ({}); it was at most {}. A larger receive buffer, or an application that reads faster, \
         helps.",
        seconds(cost_ns),
        seconds(active),
        seconds(longest),
        counted(largest, "byte"),
    );
    Some(Evidence { cost_ns, text, packets: vec![from, until] })
}
