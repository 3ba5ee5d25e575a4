//! Rules that find a sender that sends nothing although it may, and a receiver that acknowledges late.

use super::{Case, Evidence, MILLISECOND, SECOND, is_share, packets};
use crate::data_class::DataClass;
use crate::table::{millis, seconds};
use crate::timeline::{Entry, Event};
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of long pauses that are compared with the HTTP requests.
const MAX_LONG: usize = 1_000;

/// A period in which the sender had nothing in flight and the receive window was open.
struct Pause<'a> {
    from: &'a Entry,
    /// The data that ended the pause.
    to: Option<&'a Entry>,
    nanos: u64,
    /// The stream of a message that was begun before the pause, but was not complete during the pause.
    message: Option<u64>,
    /// Whether the peer sent data during the pause.
    is_answered: bool,
}

/// Finds all pauses of a sender.
fn pauses<'a>(case: &Case<'a>) -> Vec<Pause<'a>> {
    let least = case.usual_piece();
    let is_sctp = case.talk.transport == "sctp";
    // For each stream: the number of messages that have begun and not ended.
    let mut begun: BTreeMap<u64, i64> = BTreeMap::new();
    let (mut found, mut idle, mut is_answered, mut has_sent) = (Vec::new(), None::<&Entry>, false, false);
    let pause = |from: &'a Entry, to: Option<&'a Entry>, begun: &BTreeMap<u64, i64>, is_answered| {
        let until = to.map_or(case.until(), |entry| entry.at);
        let message = begun.iter().find(|(_, count)| **count > 0).map(|(stream, _)| *stream);
        Pause { from, to, nanos: until.saturating_sub(from.at), message, is_answered }
    };
    for entry in case.entries {
        match &entry.event {
            Event::Data(data) if entry.side == case.side => {
                has_sent = true;
                if let Some(from) = idle.take() {
                    found.push(pause(from, Some(entry), &begun, is_answered));
                }
                if is_sctp && !matches!(data.class, DataClass::Retransmitted { inferred: false, .. }) {
                    let change = i64::from(data.begins) - i64::from(data.ends);
                    *begun.entry(data.stream).or_default() += change;
                }
            }
            Event::Data(_) => is_answered = true,
            Event::Ack(ack) if entry.side != case.side && has_sent => {
                if ack.flight > 0 || ack.window.is_some_and(|window| window < least) {
                    idle = None;
                } else if idle.is_none() {
                    (idle, is_answered) = (Some(entry), false);
                }
            }
            _ => {}
        }
    }
    if let Some(from) = idle.filter(|_| case.is_whole && !case.is_closed_gracefully()) {
        found.push(pause(from, None, &begun, is_answered));
    }
    found
}

/// Finds pauses in which the sender has an unfinished message, room in the window and nothing in flight, but sends
/// nothing.
pub(super) fn room_unused(case: &Case<'_>) -> Option<Evidence> {
    let has_abandoned = case.by(true).any(|entry| matches!(entry.event, Event::ForwardTsn(_)));
    let is_complete = case.talk.directions[case.side].not_captured == 0 && !has_abandoned;
    let long = pauses(case).into_iter().filter(|pause| pause.nanos >= case.patience()).take(MAX_LONG);
    let unfinished = long.filter_map(|pause| match pause.message.filter(|_| is_complete) {
        Some(stream) => Some((pause, stream, true)),
        None => response(case, &pause).map(|stream| (pause, stream, false)),
    });
    let unfinished: Vec<(Pause<'_>, u64, bool)> = unfinished.collect();
    let cost_ns: u64 = unfinished.iter().map(|(pause, ..)| pause.nanos).sum();
    let (pause, stream, is_message) = unfinished.into_iter().max_by_key(|(pause, ..)| pause.nanos)?;
    let (sender, receiver) = (case.sender(), case.receiver());
    let end = match pause.to {
        Some(entry) => format!("until packet {}", entry.packet),
        None => case.until_when().to_owned(),
    };
    let reason = if is_message {
        format!("A message on stream {stream} was not complete, so {sender} had more to send.")
    } else {
        format!(
            "A response on stream {stream} was not complete. The packets do not show whether the application or the \
             transport of {sender} stood still."
        )
    };
    let text = format!(
        "{sender} had room and sent nothing for {}, {end}. {receiver} had acknowledged all data in packet {}, and its \
         window was open. {reason}",
        seconds(pause.nanos),
        pause.from.packet
    );
    let packets = [pause.from.packet].into_iter().chain(pause.to.map(|entry| entry.packet)).collect();
    Some(Evidence { cost_ns, text, packets })
}

/// Returns the stream of an HTTP response that was interrupted by the pause: it had begun before the pause and was
/// complete only after it.
fn response(case: &Case<'_>, pause: &Pause<'_>) -> Option<u64> {
    let until = pause.from.at + pause.nanos;
    // Ignores tunnels and WebSockets, because they may be silent (RFC 9110 §9.3.6, §15.2.2).
    let mut open = case.talk.requests.iter().filter(|request| {
        let is_tunnel = request.status == Some(101) || request.method.as_deref() == Some("CONNECT");
        !is_tunnel
            && request.answered_ns.is_some_and(|at| at <= pause.from.at)
            && request.done_ns.is_none_or(|at| at >= until)
    });
    open.next().filter(|_| case.side == 1).map(|request| request.stream)
}

/// Finds data that was neither acknowledged nor sent again before the end, although a timer must expire (RFC 9260 §6.3,
/// RFC 6298 §5, RFC 9002 §6.2).
pub(super) fn not_retransmitted(case: &Case<'_>) -> Option<Evidence> {
    let mut flight = 0;
    let mut sent: VecDeque<&Entry> = VecDeque::new();
    let mut is_acked = false;
    for entry in case.entries {
        match &entry.event {
            Event::Data(data) if entry.side == case.side => {
                flight = data.flight;
                sent.push_back(entry);
                if sent.len() > 2 {
                    sent.pop_front();
                }
            }
            Event::Ack(ack) if entry.side != case.side => {
                (flight, is_acked) = (ack.flight, true);
            }
            // The sender has abandoned the data, so nothing is in flight.
            Event::ForwardTsn(_) if entry.side == case.side => flight = 0,
            _ => {}
        }
    }
    let last = sent.back()?;
    let cost_ns = case.until().saturating_sub(last.at);
    // RFC 6298 §5.5: each expiry doubles the timer. The limit is therefore longer if the last data waited for a timer,
    // too.
    let before = sent.front().map_or(0, |before| last.at.saturating_sub(before.at));
    let limit = before.saturating_mul(4).max(10 * SECOND).max(case.round_trip().saturating_mul(10));
    // RFC 9002 §6.2.4: a probe of QUIC may carry no data. A later packet without data may therefore be a probe.
    let own = case.talk.paths.iter().filter_map(|path| path.directions[case.side].span_ns);
    let last_packet = own.map(|[_, last]| last).max().unwrap_or(0);
    let is_probing = case.talk.transport == "quic" && last_packet > last.at;
    let is_silent = case.is_whole && !case.is_closed_gracefully() && is_acked && flight > 0 && !is_probing;
    if !is_silent || cost_ns < limit {
        return None;
    }
    let (sender, receiver) = (case.sender(), case.receiver());
    let acks = case.by(true).filter(|entry| entry.at > last.at && matches!(entry.event, Event::Ack(_)));
    let reason = match acks.last() {
        Some(entry) => format!(
            "{sender} still acknowledges data, last in packet {}, so its transport runs without this timer",
            entry.packet
        ),
        None => format!("{sender} has stopped, or lost its connection"),
    };
    let text = format!(
        "{sender} did not send data again {}. {receiver} has not acknowledged all data up to packet {}, and {} passed \
         after it. A retransmission timer would have expired: {reason}.",
        case.until_when(),
        last.packet,
        seconds(cost_ns),
    );
    Some(Evidence { cost_ns, text, packets: vec![last.packet] })
}

/// Finds a sender whose application provides data slowly, or whose data is paced above the transport.
pub(super) fn application_limited(case: &Case<'_>) -> Option<Evidence> {
    const LEAST_BYTES: u64 = 50_000;
    let shortest = case.round_trip().saturating_mul(2).max(20 * MILLISECOND);
    let own = |pause: &Pause<'_>| {
        pause.to.is_some() && !pause.is_answered && pause.message.is_none() && pause.nanos >= shortest
    };
    let mut found: Vec<Pause<'_>> = pauses(case).into_iter().filter(own).collect();
    let cost_ns: u64 = found.iter().map(|pause| pause.nanos).sum();
    let active = case.active();
    let bytes = case.talk.directions[case.side].bytes;
    if found.len() < 5 || cost_ns < SECOND || !is_share(cost_ns, 50, active) || bytes < LEAST_BYTES {
        return None;
    }
    let (first, second) = (found[0].from.packet, found[0].to.map_or(0, |entry| entry.packet));
    found.sort_by_key(|pause| pause.nanos);
    let median = found[found.len() / 2].nanos;
    let is_near = |pause: &&Pause<'_>| pause.nanos.abs_diff(median) <= median / 4;
    let rhythm = match found.iter().filter(is_near).count() * 5 >= found.len() * 4 {
        true => format!("Most of them took about {} ms, so the data is paced", millis(median)),
        false => format!("The median took {} ms, and they differ", millis(median)),
    };
    let text = format!(
        "{} sent nothing for {} of {}, in {} pauses, the first between packets {first} and {second}. All data was \
         acknowledged, the window was open, and {} sent nothing that {} had to wait for. {rhythm}. The packets do not \
         show what the application waited for.",
        case.sender(),
        seconds(cost_ns),
        seconds(active),
        found.len(),
        case.receiver(),
        case.sender(),
    );
    Some(Evidence { cost_ns, text, packets: vec![first, second] })
}

/// An acknowledgement that the receiver delayed, while the sender waited for it.
#[derive(Clone, Copy)]
struct Delay {
    nanos: u64,
    sent: u64,
    acked: u64,
    at: u64,
}

/// Finds delayed acknowledgements (RFC 9260 §6.2, RFC 5681 §4.2) for each of which the sender waits.
pub(super) fn delayed_acks(case: &Case<'_>) -> Option<Evidence> {
    const RANGE: std::ops::RangeInclusive<u64> = 30 * MILLISECOND..=600 * MILLISECOND;
    let (least, longest) = (case.least_round_trip(), case.round_trip() / 2 * 3 + 10 * MILLISECOND);
    // The packets in flight, each with the position after its data (in TSNs, bytes, or packet numbers).
    let mut outstanding: VecDeque<(i64, &Entry)> = VecDeque::new();
    let (mut delays, mut count, mut candidate) = (Vec::new(), 0, None::<Delay>);
    for entry in case.entries {
        match &entry.event {
            Event::Data(data) if entry.side == case.side => {
                let waited = candidate.take().filter(|delay| entry.at.saturating_sub(delay.at) <= longest);
                delays.extend(waited);
                match outstanding.back_mut().filter(|(_, last)| last.packet == entry.packet) {
                    Some(last) => last.0 = data.units.1,
                    None if data.class == DataClass::New => outstanding.push_back((data.units.1, entry)),
                    None => outstanding.clear(),
                }
            }
            // Ignores an acknowledgement that comes with data, because the receiver's application may have needed time
            // for the data.
            Event::Data(_) if candidate.is_some_and(|delay| delay.acked == entry.packet) => {
                (candidate, count) = (None, count - 1);
            }
            Event::Ack(ack) if entry.side != case.side => {
                let (before, mut newest) = (outstanding.len(), None);
                while outstanding.front().is_some_and(|(end, _)| *end <= ack.cumulative) {
                    newest = outstanding.pop_front();
                }
                let Some((_, sent)) = newest.filter(|_| before <= 2 && outstanding.is_empty()) else {
                    continue;
                };
                count += 1;
                let nanos = entry.at.saturating_sub(sent.at).saturating_sub(least);
                let delay = Delay { nanos, sent: sent.packet, acked: entry.packet, at: entry.at };
                candidate = RANGE.contains(&nanos).then_some(delay);
            }
            _ => {}
        }
    }
    let cost_ns: u64 = delays.iter().map(|delay| delay.nanos).sum();
    // A response in two writes has a late acknowledgement for the first and a prompt one for the second.
    let is_frequent = delays.len() >= 5 && delays.len() * 3 >= count;
    if !is_frequent || cost_ns < 200 * MILLISECOND || !is_share(cost_ns, 20, case.active()) {
        return None;
    }
    let first = delays[0];
    delays.sort_by_key(|delay| delay.nanos);
    let median = delays[delays.len() / 2].nanos;
    let is_near = |delay: &&Delay| delay.nanos.abs_diff(median) <= median / 3;
    if delays.iter().filter(is_near).count() * 5 < delays.len() * 4 {
        return None;
    }
    let (sender, receiver) = (case.sender(), case.receiver());
    let text = format!(
        "{receiver} delayed {} acknowledgements by about {} ms, and {sender} sent nothing more before each of them. The \
         first is {} for packet {}. {sender} waits for the acknowledgement of small data, as Nagle's algorithm does.",
        delays.len(),
        millis(median),
        packets(&[first.acked]),
        first.sent,
    );
    Some(Evidence { cost_ns, text, packets: vec![first.sent, first.acked] })
}
