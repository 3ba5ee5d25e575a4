//! Rules that find stream resets and closes that do not complete, and peers that stop answering.

use super::{Case, Evidence, SECOND, packets};
use crate::data_class::{Cause, DataClass};
use crate::table::{counted, seconds};
use crate::timeline::{Entry, Event};
use std::collections::BTreeMap;

/// RFC 6525 §4.4: the result of a request that is still in progress.
const IN_PROGRESS: u32 = 6;
/// RFC 791 §3.1: the size in bytes of packets that every path carries.
pub(super) const SMALLEST: u32 = 576;

/// Finds a request to reset streams that gets no final response (RFC 6525 §5.2.2).
pub(super) fn reset_unfinished(case: &Case<'_>) -> Option<Evidence> {
    // For each request: its transmissions, and the responses that say that the reset is in progress.
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

/// A period in which the peer sent nothing, although data was sent to it.
struct Silence<'a> {
    /// The time of the last packet of the peer.
    heard: u64,
    /// The time since which data has been waiting for an answer. `None` while all data is acknowledged.
    from: Option<u64>,
    until: u64,
    /// The packets with retransmitted data, sent during the silence, and the size of the smallest one.
    again: Vec<u64>,
    least: u32,
    /// The first packet of the peer after the silence.
    ended_by: Option<&'a Entry>,
}

impl Silence<'_> {
    fn nanos(&self) -> u64 {
        self.until.saturating_sub(self.from.unwrap_or(self.until))
    }
}

/// Finds long periods in which the peer sends nothing, although data is sent to it again and again.
pub(super) fn peer_silent(case: &Case<'_>) -> Option<Evidence> {
    let silences = silences(case);
    let cost_ns = silences.iter().map(Silence::nanos).sum();
    let longest = silences.into_iter().max_by_key(Silence::nanos)?;
    let nanos = longest.nanos();
    let Silence { from, again, least, ended_by, .. } = longest;
    let from = from?;
    let (sender, receiver) = (case.sender(), case.receiver());
    // For TCP, the kernel answers even if the process stands still. Other transports run in the process itself.
    let what = if case.talk.transport == "tcp" { "host" } else { "process or host" };
    let end = match ended_by {
        Some(entry) => format!("{} later it went on, in packet {}", seconds(nanos), entry.packet),
        None => format!("it sent nothing {}, {} later", case.until_when(), seconds(nanos)),
    };
    let reason = match case.icmp(from) {
        Some((reason, _)) => reason,
        None => format!(
            "The {what} of {receiver} stood still, or the path failed; the packets do not show which.{}",
            if ended_by.is_none() && least > SMALLEST {
                format!(
                    " All these packets have at least {least} bytes: a router that drops large packets explains it, too."
                )
            } else {
                String::new()
            }
        ),
    };
    let text = format!(
        "{receiver} stopped answering at {}, and {end}. Meanwhile {sender} sent data again in {}. {reason}",
        seconds(from),
        packets(&again),
    );
    Some(Evidence { cost_ns, text, packets: again })
}

/// Finds the silences of the peer.
fn silences<'a>(case: &Case<'a>) -> Vec<Silence<'a>> {
    /// The minimum number of retransmissions in a silence. If there are fewer, all of them may have been lost, and the
    /// peer had no reason to answer.
    const LEAST: usize = 3;
    let begin = |heard, is_in_flight: bool| {
        let from = is_in_flight.then_some(heard);
        Silence { heard, from, until: heard, again: Vec::new(), least: u32::MAX, ended_by: None }
    };
    let (mut found, mut current, mut flight) = (Vec::new(), None::<Silence<'a>>, 0);
    let is_long = |silence: &Silence<'_>| silence.again.len() >= LEAST && silence.nanos() >= case.patience();
    for entry in case.entries {
        match &entry.event {
            // Skips this event, because it belongs to the side whose data was measured, and is no packet of the peer.
            Event::RoundTrip(_) => {}
            event if entry.side != case.side => {
                if let Event::Ack(ack) = event {
                    flight = ack.flight;
                }
                if let Some(silence) = current.replace(begin(entry.at, flight > 0)) {
                    let ended = Silence { until: entry.at, ended_by: Some(entry), ..silence };
                    found.extend(Some(ended).filter(is_long));
                }
            }
            Event::Data(data) => {
                flight = data.flight;
                let Some(silence) = &mut current else { continue };
                silence.from.get_or_insert(entry.at);
                let is_again = !matches!(data.class, DataClass::Retransmitted { cause: Cause::Fast, .. })
                    && matches!(data.class, DataClass::Retransmitted { .. });
                if is_again && silence.again.last() != Some(&entry.packet) {
                    silence.again.push(entry.packet);
                    silence.least = silence.least.min(data.wire_len);
                }
            }
            _ => {}
        }
    }
    let paths = case.talk.paths.iter().filter_map(|path| path.directions[1 - case.side].span_ns);
    let heard = paths.map(|[_, last]| last).max().unwrap_or(0);
    let last = current.filter(|silence| case.is_whole && heard <= silence.heard);
    found.extend(last.map(|silence| Silence { until: case.until(), ..silence }).filter(is_long));
    found
}

/// Finds a conversation that one side begins to close, but that does not end.
pub(super) fn close_unfinished(case: &Case<'_>) -> Option<Evidence> {
    // RFC 9293 §3.6: the time for which a half-closed connection is considered normal.
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
            // The capture may lack a single answer, so an unanswered packet alone is no evidence.
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
        // If both sides have sent a FIN and the connection is still open, one FIN is not acknowledged.
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
