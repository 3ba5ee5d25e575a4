//! Resets of streams and conversations that begin to end and never end.

use super::{Case, Evidence, SECOND, packets};
use crate::table::{counted, seconds};
use crate::timeline::{Entry, Event};
use std::collections::BTreeMap;

/// RFC 6525 §4.4: the result of a request that is still in progress.
const IN_PROGRESS: u32 = 6;

/// A request to reset streams gets no final response (RFC 6525 §5.2.2).
pub(super) fn reset_unfinished(case: &Case<'_>) -> Option<Evidence> {
    // The transmissions of each request, and the responses that it is in progress.
    let mut open: BTreeMap<u32, (Vec<&Entry>, Vec<&Entry>)> = BTreeMap::new();
    for entry in case.entries {
        match entry.event {
            Event::ResetRequest(number) if entry.side == case.side => {
                open.entry(number).or_default().0.push(entry);
            }
            Event::ResetResponse(number, IN_PROGRESS) if entry.side != case.side => {
                if let Some((_, responses)) = open.get_mut(&number) {
                    responses.push(entry);
                }
            }
            Event::ResetResponse(number, _) if entry.side != case.side => {
                open.remove(&number);
            }
            _ => {}
        }
    }
    let (requests, responses) = open.into_values().min_by_key(|(requests, _)| requests[0].at)?;
    let cost_ns = case.until().saturating_sub(requests[0].at);
    if !case.is_whole || cost_ns < case.patience().max(3 * SECOND) {
        return None;
    }
    let numbers: Vec<u64> = requests.iter().map(|entry| entry.packet).collect();
    let receiver = case.receiver();
    let reason = match responses.last() {
        Some(last) => format!(
            "{receiver} answered {}, last in packet {}, that the reset is in progress: it waits for data before the reset",
            counted(responses.len() as u64, "time"),
            last.packet,
        ),
        None => format!("No response of {receiver} was captured"),
    };
    let text = format!(
        "{} asked to reset streams in {}, and the reset did not end {}, {} later. {reason}.",
        case.sender(),
        packets(&numbers),
        case.until_when(),
        seconds(cost_ns),
    );
    Some(Evidence { cost_ns, text, packets: numbers })
}

/// One side begins to close the conversation, and it does not end.
pub(super) fn close_unfinished(case: &Case<'_>) -> Option<Evidence> {
    // RFC 9293 §3.6: a half-closed connection is normal for a time.
    const HALF_CLOSED: u64 = 30 * SECOND;
    let is_close = |entry: &&Entry| entry.event == Event::Close;
    let closes: Vec<&Entry> = case.by(true).filter(is_close).collect();
    let first = *closes.first()?;
    let is_open = case.talk.end.at_ns.is_none() && case.is_whole;
    let cost_ns = case.until().saturating_sub(first.at);
    if !is_open || cost_ns < case.patience().max(3 * SECOND) {
        return None;
    }
    let is_later = |entry: &&Entry| entry.at >= first.at;
    let data_after = case
        .by(false)
        .filter(is_later)
        .filter(|entry| matches!(entry.event, Event::Data(data) if data.bytes > 0))
        .count() as u64;
    let (sender, receiver) = (case.sender(), case.receiver());
    let reason = if case.talk.transport == "sctp" {
        let answers = case.by(false).filter(|entry| entry.event == Event::CloseAnswer);
        let answers: Vec<&Entry> = answers.collect();
        match (&answers[..], data_after) {
            // A single packet without an answer may be missing in the capture.
            ([_], _) => return None,
            ([], 0) if closes.len() < 2 => return None,
            ([answer, ..], _) => {
                format!(
                    "{receiver} answered in packet {}, but {sender} did not complete the shutdown",
                    answer.packet
                )
            }
            ([], 0) => format!("{receiver} sent no SHUTDOWN ACK and no data"),
            ([], count) => format!(
                "{receiver} sent no SHUTDOWN ACK, but {} of data: it still has data to send",
                counted(count, "chunk")
            ),
        }
    } else {
        // If both sides have sent a FIN, one FIN is not acknowledged.
        let is_acked = case.acks().any(|(entry, ack)| entry.at >= first.at && ack.flight == 0);
        let has_peer_closed = case.by(false).any(|entry| entry.event == Event::Close);
        match (is_acked, has_peer_closed) {
            (false, _) if closes.len() < 2 => return None,
            (false, _) => format!("{receiver} did not acknowledge the FIN"),
            (true, true) => return None,
            (true, false) if data_after > 0 || cost_ns < HALF_CLOSED => return None,
            (true, false) => format!(
                "{receiver} acknowledged the FIN and sent nothing more: its application does not close the connection"
            ),
        }
    };
    let numbers: Vec<u64> = closes.iter().map(|entry| entry.packet).collect();
    let text = format!(
        "{sender} began to close in {}, and the conversation did not end {}, {} later. {reason}.",
        packets(&numbers),
        case.until_when(),
        seconds(cost_ns),
    );
    Some(Evidence { cost_ns, text, packets: numbers })
}
