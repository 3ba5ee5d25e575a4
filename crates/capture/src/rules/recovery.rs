//! Rules that find losses, and how they were repaired.

use super::closing::SMALLEST;
use super::{Case, Evidence, MILLISECOND, is_share, packets};
use crate::data_class::{Cause, DataClass};
use crate::table::{counted, seconds};
use crate::timeline::{Data, Entry, Event, IcmpReport};
use std::collections::BTreeMap;

/// The shortest time after which a retransmission timer expires.
const MIN_TIMEOUT: u64 = 100 * MILLISECOND;

/// Returns the key of a piece of data, which is the same for all its transmissions. In QUIC, the key is the stream and
/// the first byte in the stream. In SCTP and TCP, it is 0 and the data's first TSN or byte.
fn key(case: &Case<'_>, data: &Data) -> (u64, u64) {
    match case.talk.transport {
        "quic" => (data.stream, data.offset),
        _ => (0, data.units.0.max(0).unsigned_abs()),
    }
}

fn is_new(data: &Data) -> bool {
    matches!(data.class, DataClass::New | DataClass::Reordered)
}

/// Returns whether more than half of the retransmissions were spurious.
pub(super) fn is_mostly_spurious(case: &Case<'_>) -> bool {
    let again = &case.talk.directions[case.side].retransmitted;
    again.spurious * 2 > again.all()
}

/// Finds a sender whose losses were all repaired by timeouts, and none by a fast retransmission.
pub(super) fn timeouts_only(case: &Case<'_>) -> Option<Evidence> {
    let (mut last, mut cost_ns, mut found) = (None::<u64>, 0, Vec::new());
    for (entry, data) in case.data() {
        match data.class {
            DataClass::Retransmitted { cause: Cause::Fast, spurious: false, .. } => return None,
            DataClass::Retransmitted { cause: Cause::Timeout, spurious: false, .. } => {
                let waited = last.map_or(0, |last| entry.at.saturating_sub(last));
                if waited >= MIN_TIMEOUT {
                    cost_ns += waited;
                    found.push(entry.packet);
                }
            }
            _ => {}
        }
        last = Some(entry.at);
    }
    if found.len() < 3 || is_mostly_spurious(case) {
        return None;
    }
    let (sender, receiver) = (case.sender(), case.receiver());
    let reports = case.talk.directions[1 - case.side].gap_acks;
    let reason = if reports > 0 {
        format!(
            "{receiver} reported gaps in {}, so a fast retransmission was possible.",
            counted(reports, "packet")
        )
    } else {
        format!("{receiver} reported no gap: too little data was in flight behind the lost data.")
    };
    let text = format!(
        "Only timeouts repaired the losses of {sender}: {}, in {}, after {} of silence together. {reason}",
        counted(found.len() as u64, "timeout"),
        packets(&found),
        seconds(cost_ns),
    );
    Some(Evidence { cost_ns, text, packets: found })
}

/// All transmissions of the same piece of data.
struct Attempts {
    from: u64,
    until: u64,
    packets: Vec<u64>,
    /// The size of the smallest packet among the first three that carried the data, and of the last one.
    least: u32,
    last: u32,
    /// The position after the data, as counted in its last transmission (in TSNs, bytes, or packet numbers).
    end: i64,
}

/// Finds a path-MTU black hole: large packets are lost again and again, and small ones arrive (RFC 2923 §2.1, RFC
/// 4821).
pub(super) fn path_mtu_black_hole(case: &Case<'_>) -> Option<Evidence> {
    let mut all: BTreeMap<(u64, u64), Attempts> = BTreeMap::new();
    for (entry, data) in case.data().filter(|(_, data)| data.bytes > 0) {
        let (size, end) = (data.wire_len, data.units.1);
        let first =
            Attempts { from: entry.at, until: entry.at, packets: Vec::new(), least: size, last: size, end };
        let attempts = all.entry(key(case, data)).or_insert(first);
        attempts.packets.push(entry.packet);
        if attempts.packets.len() <= 3 {
            attempts.least = attempts.least.min(size);
        }
        (attempts.until, attempts.last, attempts.end) = (entry.at, size, end);
    }
    let acked = case.acks().map(|(_, ack)| ack.cumulative).max().unwrap_or(0);
    let has_passed = |attempts: &&Attempts| attempts.packets.len() == 1 && attempts.end <= acked;
    let passed = all.values().filter(has_passed).map(|attempts| attempts.last).max().unwrap_or(0);
    let is_stuck = |attempts: &&Attempts| {
        let is_repaired = attempts.last < attempts.least;
        attempts.packets.len() >= 3
            && attempts.least > passed.max(SMALLEST)
            && (is_repaired || attempts.end > acked)
    };
    let stuck = all.values().filter(is_stuck).max_by_key(|attempts| attempts.packets.len())?;
    // If nothing from the peer arrives any more, the path has failed for packets of all sizes.
    let peer = case.talk.paths.iter().filter_map(|path| path.directions[1 - case.side].span_ns);
    let is_alive = peer.map(|[_, last]| last).max().is_some_and(|last| last > stuck.from);
    let is_repaired = stuck.last < stuck.least;
    if !is_alive || !case.is_whole && !is_repaired || is_mostly_spurious(case) {
        return None;
    }
    let until = if is_repaired { stuck.until } else { case.until() };
    let cost_ns = until.saturating_sub(stuck.from);
    let sender = case.sender();
    let small = match passed {
        0 => "only packets without data arrived".to_owned(),
        passed => format!("packets of up to {passed} bytes arrived"),
    };
    let end = match is_repaired {
        true => format!("In packet {}, smaller packets repaired it.", stuck.packets.last()?),
        false => "It never arrived.".to_owned(),
    };
    let reason = match too_big(case, stuck) {
        Some((told, mtu)) => {
            let mtu = if mtu == 0 { "less".to_owned() } else { format!("at most {mtu} bytes") };
            format!(
                "A router told {sender} by ICMP, first in packet {told}, that the next hop carries {mtu}. This is no silent \
                 black hole: {sender} ignored the message, or did not get it."
            )
        }
        None => {
            "This is a path-MTU black hole: a router drops large packets, and no message about it arrives."
                .to_owned()
        }
    };
    let text = format!(
        "Large packets of {sender} do not arrive: data in packets of {} bytes was sent {} times, in {}, and {small}. \
         {end} {reason}",
        stuck.least,
        stuck.packets.len(),
        packets(&stuck.packets),
    );
    Some(Evidence { cost_ns, text, packets: stuck.packets.clone() })
}

/// Returns the first ICMP error that says that these packets are too big, and the size that it allows (0 if it names none).
fn too_big(case: &Case<'_>, stuck: &Attempts) -> Option<(u64, u32)> {
    let since = case.by(true).filter(|entry| entry.at >= stuck.from);
    let mut errors = since.filter_map(|entry| match entry.event {
        Event::Icmp(IcmpReport::TooBig(mtu)) if mtu < stuck.least => Some((entry.packet, mtu)),
        _ => None,
    });
    errors.next()
}

/// A series of transmissions of the same FORWARD TSN. `answers` is the number of acknowledgements between the
/// transmissions whose cumulative TSN is below this TSN.
#[derive(Default)]
struct Run<'a> {
    unit: i64,
    sent: Vec<&'a Entry>,
    answers: usize,
}

impl Run<'_> {
    fn longer(self, other: Self) -> Self {
        if other.sent.len() > self.sent.len() { other } else { self }
    }
}

/// Finds FORWARD TSNs and SACKs that answer each other without progress. RFC 3758 §3.5 F4: the sender repeats a FORWARD
/// TSN for each SACK whose cumulative TSN is too low.
pub(super) fn forward_tsn_ping_pong(case: &Case<'_>) -> Option<Evidence> {
    forward_tsn_ignored(case).or_else(|| forward_tsn_in_flight(case))
}

/// Finds FORWARD TSNs that skip data that is still in flight. The receiver then has this data already, and answers with
/// a SACK at once (RFC 3758 §3.6). The sender answers the SACK with the next FORWARD TSN.
fn forward_tsn_in_flight(case: &Case<'_>) -> Option<Evidence> {
    const LEAST: usize = 20;
    let mut sent: BTreeMap<i64, u64> = BTreeMap::new();
    let (mut has_gaps, mut all, mut early) = (false, 0, Vec::new());
    for entry in case.entries {
        match &entry.event {
            Event::Data(data) if entry.side == case.side => {
                sent.insert(data.units.0, entry.at);
                if sent.len() > 1_024 {
                    sent.pop_first();
                }
            }
            Event::Ack(ack) if entry.side != case.side => has_gaps = ack.has_gaps,
            Event::ForwardTsn(unit) if entry.side == case.side => {
                all += 1;
                let age = sent.get(&(unit - 1)).map(|at| entry.at.saturating_sub(*at));
                if !has_gaps && age.is_some_and(|age| age < case.round_trip()) {
                    early.push(entry.packet);
                }
            }
            _ => {}
        }
    }
    if early.len() < LEAST || early.len() * 2 < all {
        return None;
    }
    let (sender, receiver) = (case.sender(), case.receiver());
    let text = format!(
        "{sender} sent {all} FORWARD TSNs, and {} of them skip data that was in flight for less than a round trip, first \
         in {}. {receiver} had reported no gap. It answers each of them with a SACK, and {sender} answers each SACK.",
        early.len(),
        packets(&early[..1]),
    );
    Some(Evidence { cost_ns: 0, text, packets: early })
}

/// Finds a FORWARD TSN that the receiver does not accept, so that both sides repeat themselves.
fn forward_tsn_ignored(case: &Case<'_>) -> Option<Evidence> {
    let (mut current, mut longest) = (Run::default(), Run::default());
    for entry in case.entries {
        match entry.event {
            Event::ForwardTsn(unit) if entry.side == case.side => {
                if unit != current.unit || current.sent.is_empty() {
                    let ended = std::mem::replace(&mut current, Run { unit, ..Run::default() });
                    longest = longest.longer(ended);
                }
                current.sent.push(entry);
            }
            Event::Ack(ack) if entry.side != case.side && ack.cumulative < current.unit => {
                current.answers += 1;
            }
            _ => {}
        }
    }
    let Run { sent, answers, .. } = longest.longer(current);
    let cost_ns = sent.last()?.at.saturating_sub(sent.first()?.at);
    // For one round trip, acknowledgements that are still in flight may cause repetitions, which are normal.
    let shortest = case.round_trip().saturating_mul(4).max(200 * MILLISECOND);
    if sent.len() < 5 || answers < 4 || cost_ns < shortest {
        return None;
    }
    let numbers: Vec<u64> = sent.iter().map(|entry| entry.packet).collect();
    let (sender, receiver) = (case.sender(), case.receiver());
    let text = format!(
        "{sender} sent the same FORWARD TSN {} times in {}, first in {}. {receiver} answered {answers} times with a SACK \
         whose cumulative TSN is lower. {receiver} does not accept the FORWARD TSN, and both repeat themselves.",
        numbers.len(),
        seconds(cost_ns),
        packets(&numbers[..1]),
    );
    Some(Evidence { cost_ns, text, packets: numbers })
}

/// A period in which later data waited for lost data that comes before it.
#[derive(Clone, Copy)]
struct Wait {
    from: u64,
    until: u64,
    behind: u64,
    repair: u64,
}

/// Finds head-of-line blocking: data waits for lost data before it in the same stream. In TCP, all streams wait.
pub(super) fn head_of_line(case: &Case<'_>) -> Option<Evidence> {
    // For each stream and position: the time and the packet of the first transmission.
    let mut sent: BTreeMap<u64, BTreeMap<u64, (u64, u64)>> = BTreeMap::new();
    let mut waits: BTreeMap<u64, Vec<Wait>> = BTreeMap::new();
    // A retransmission that nothing answers has repaired no loss, and later data may be lost as well.
    let answered = case.acks().map(|(entry, _)| entry.at).max().unwrap_or(0);
    for (entry, data) in case.data() {
        let of_stream = sent.entry(data.stream).or_default();
        let (_, position) = key(case, data);
        match data.class {
            DataClass::Retransmitted { spurious: false, .. } => {
                let behind = of_stream.range(position + 1..).map(|(_, sent)| *sent).min();
                if let Some((from, behind)) = behind.filter(|_| entry.at < answered) {
                    let wait = Wait { from, until: entry.at, behind, repair: entry.packet };
                    waits.entry(data.stream).or_default().push(wait);
                }
            }
            DataClass::Retransmitted { .. } => {}
            DataClass::New | DataClass::Reordered => {
                of_stream.insert(position, (entry.at, entry.packet));
            }
        }
        // Keeps only the latest positions. Earlier data has been acknowledged, so it does not wait.
        while of_stream.len() > 1_024 {
            of_stream.pop_first();
        }
    }
    let is_ordered = |stream: &u64| {
        let counters = case.talk.directions[case.side].streams.get(stream);
        counters.is_none_or(|stream| stream.unordered * 2 <= stream.messages)
    };
    let mut totals: Vec<(u64, u64, Wait)> = waits
        .into_iter()
        .filter(|(stream, _)| is_ordered(stream))
        .filter_map(|(stream, waits)| {
            let longest = *waits.iter().max_by_key(|wait| wait.until - wait.from.min(wait.until))?;
            Some((union(waits), stream, longest))
        })
        .collect();
    totals.sort_by_key(|(nanos, stream, _)| (std::cmp::Reverse(*nanos), *stream));
    let &(cost_ns, stream, longest) = totals.first()?;
    let active = case.active();
    let wait = longest.until.saturating_sub(longest.from);
    let is_long = cost_ns >= case.round_trip().max(100 * MILLISECOND)
        && (is_share(cost_ns, 15, active) || wait >= 500 * MILLISECOND);
    if !is_long || is_mostly_spurious(case) {
        return None;
    }
    let subject = match case.talk.transport {
        "tcp" => waiting_requests(case, longest),
        _ => {
            let others = match totals.len() {
                1 => String::new(),
                2 => " Another stream waited less.".to_owned(),
                more => format!(" {} other streams waited less.", more - 1),
            };
            format!(
                "Data of {} on stream {stream} waited for lost data of the same stream.{others}",
                case.sender()
            )
        }
    };
    let text = format!(
        "{subject} It waited {} of {}. The longest wait took {}: data of packet {} waited for packet {}, which repaired \
         the loss.",
        seconds(cost_ns),
        seconds(active),
        seconds(wait),
        longest.behind,
        longest.repair,
    );
    Some(Evidence { cost_ns, text, packets: vec![longest.behind, longest.repair] })
}

/// Describes the data that waited in a TCP connection. Names the HTTP/2 streams that were open meanwhile.
fn waiting_requests(case: &Case<'_>, wait: Wait) -> String {
    let open = case.talk.requests.iter().filter(|request| {
        request.stream > 0
            && request.at_ns <= wait.until
            && request.done_ns.is_none_or(|done| done >= wait.from)
    });
    let streams: Vec<String> = open.take(5).map(|request| request.stream.to_string()).collect();
    let sender = case.sender();
    match streams.len() {
        0 | 1 => format!("All later data of {sender} waited for lost data."),
        _ => format!(
            "All later data of {sender} waited for lost data; HTTP/2 streams {} were open.",
            streams.join(", ")
        ),
    }
}

/// Returns the total length of the waiting periods. Time in which several periods overlap counts once.
fn union(mut waits: Vec<Wait>) -> u64 {
    waits.sort_by_key(|wait| wait.from);
    let (mut total, mut known) = (0, 0);
    for wait in waits {
        let from = wait.from.max(known);
        total += wait.until.saturating_sub(from);
        known = known.max(wait.until);
    }
    total
}

/// The number of lost pieces in a row that are a burst.
pub(super) const BURST: usize = 10;

/// Finds a burst of losses: many pieces of data in a row were lost.
pub(super) fn loss_burst(case: &Case<'_>) -> Option<Evidence> {
    /// A lost piece of data: its stream, its position, the position after it, and its retransmission.
    type Lost<'a> = (u64, u64, u64, &'a Entry);
    let longest_piece =
        case.data().filter(|(_, data)| is_new(data)).map(|(_, data)| length(case, data)).max()?;
    let mut lost: Vec<Lost<'_>> = Vec::new();
    for (entry, data) in case.data() {
        let is_fast =
            matches!(data.class, DataClass::Retransmitted { cause: Cause::Fast, spurious: false, .. });
        if is_fast {
            let (stream, position) = key(case, data);
            lost.push((stream, position, position + length(case, data), entry));
        }
    }
    lost.sort_by_key(|(stream, position, end, entry)| (*stream, *position, *end, entry.packet));
    // A piece that was retransmitted several times counts once.
    lost.dedup_by_key(|(stream, position, ..)| (*stream, *position));
    let is_next = |before: &Lost<'_>, next: &Lost<'_>| {
        before.0 == next.0 && next.1.saturating_sub(before.2) <= longest_piece
    };
    let longest = lost.chunk_by(is_next).max_by_key(|run| run.len()).filter(|run| run.len() >= BURST)?;
    if is_mostly_spurious(case) {
        return None;
    }
    let times = || longest.iter().map(|(.., entry)| entry.at);
    let cost_ns = times().max()?.saturating_sub(times().min()?);
    let mut numbers: Vec<u64> = longest.iter().map(|(.., entry)| entry.packet).collect();
    numbers.sort_unstable();
    let text = format!(
        "The network lost {} of {} in one burst. They were sent again in packets {} to {}. A full queue drops packets in \
         bursts.",
        counted(longest.len() as u64, "piece"),
        case.sender(),
        numbers[0],
        numbers[numbers.len() - 1],
    );
    Some(Evidence { cost_ns, text, packets: numbers })
}

/// Returns the length of a piece of data, in the unit of the positions that [`key`] returns.
fn length(case: &Case<'_>, data: &Data) -> u64 {
    match case.talk.transport {
        "quic" => data.bytes.into(),
        _ => data.units.0.abs_diff(data.units.1),
    }
}
