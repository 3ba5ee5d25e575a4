//! The limits of QUIC and HTTP/2 that the receiver sets: flow control, and in QUIC the number of streams.

use super::{Case, Evidence, MILLISECOND, is_share};
use crate::table::{counted, seconds};
use crate::timeline::{Entry, Event};
use std::collections::BTreeMap;

/// The time for which a limit of flow control was reached.
#[derive(Default)]
struct Reached<'a> {
    limit: u64,
    /// The number of bytes that the sender has used.
    used: u64,
    since: Option<u64>,
    nanos: u64,
    /// The first packet that reached a limit, the limit, and the packet that raised it.
    first: Option<(u64, u64)>,
    raised: Option<u64>,
    /// A raised limit that the sender has not used yet: the limit before it, and the packet.
    unused: Option<(u64, &'a Entry)>,
}

impl<'a> Reached<'a> {
    /// Notes that the sender has used this many bytes. `soon` is the time in which it would answer a new limit.
    fn use_up(&mut self, used: u64, entry: &'a Entry, soon: u64, has_more: bool) {
        self.used = used.max(self.used);
        // Near the receiver, the sender's answer to a new limit arrives a round trip later.
        if let Some((_, by)) = self.unused.filter(|(before, _)| used > *before) {
            let nanos = entry.at.saturating_sub(by.at);
            self.nanos += if nanos <= soon { nanos } else { 0 };
            self.unused = None;
        }
        if self.limit > 0 && used >= self.limit && has_more {
            self.reach(entry, self.limit);
        }
    }

    fn reach(&mut self, entry: &'a Entry, limit: u64) {
        self.limit = limit.max(self.limit);
        self.since.get_or_insert(entry.at);
        self.first.get_or_insert((entry.packet, limit));
    }

    fn raise(&mut self, limit: u64, entry: &'a Entry) {
        let before = self.limit;
        self.limit = limit.max(before);
        if limit > before
            && let Some(since) = self.since.take()
        {
            self.nanos += entry.at.saturating_sub(since);
            self.raised = self.raised.or(Some(entry.packet));
            self.unused = Some((before.max(self.used), entry));
        }
    }
}

/// The flow control of QUIC (RFC 9000 §4.1) or HTTP/2 (RFC 9113 §5.2) limits the sender, on a stream or in the
/// connection.
pub(super) fn flow_control(case: &Case<'_>) -> Option<Evidence> {
    let soon = case.round_trip().saturating_mul(3) / 2 + 10 * MILLISECOND;
    let mut all: BTreeMap<Option<u64>, Reached<'_>> = BTreeMap::new();
    let (mut highs, mut sum): (BTreeMap<u64, u64>, u64) = (BTreeMap::new(), 0);
    for entry in case.entries {
        match entry.event {
            Event::Blocked(key, limit) if entry.side == case.side => {
                all.entry(key).or_default().reach(entry, limit);
            }
            Event::Data(data) if entry.side == case.side && case.talk.transport == "quic" => {
                let high = highs.entry(data.stream).or_default();
                let end = data.offset.saturating_add(data.bytes.into());
                sum = sum.saturating_add(end.saturating_sub(*high));
                *high = end.max(*high);
                for (key, used) in [(Some(data.stream), *high), (None, sum)] {
                    if let Some(reached) = all.get_mut(&key) {
                        reached.use_up(used, entry, soon, !data.ends);
                    }
                }
            }
            Event::Used(key, used) if entry.side == case.side => {
                if let Some(reached) = all.get_mut(&key) {
                    reached.use_up(used, entry, soon, true);
                }
            }
            Event::Limit(key, limit) if entry.side != case.side => {
                all.entry(key).or_default().raise(limit, entry);
            }
            _ => {}
        }
    }
    if case.is_whole && !case.is_closed_gracefully() {
        for reached in all.values_mut() {
            reached.nanos += reached.since.map_or(0, |since| case.until().saturating_sub(since));
        }
    }
    let (key, reached) = all.into_iter().max_by_key(|(_, reached)| reached.nanos)?;
    let (packet, limit) = reached.first?;
    let active = case.active();
    let shortest = case.round_trip().saturating_mul(2).max(200 * MILLISECOND);
    if reached.nanos < shortest || !is_share(reached.nanos, 30, active) {
        return None;
    }
    let (sender, receiver) = (case.sender(), case.receiver());
    let scope = key.map_or("the connection".to_owned(), |stream| format!("stream {stream}"));
    let raised = match reached.raised {
        Some(raised) => format!("{receiver} raised the limit first in packet {raised}"),
        None => format!("{receiver} did not raise the limit {}", case.until_when()),
    };
    let text = format!(
        "The flow control of {scope} limited {sender} for {}. It had used all {} that {receiver} allowed, first in \
         packet {packet}; {raised}.",
        seconds(reached.nanos),
        counted(limit, "byte"),
    );
    Some(Evidence {
        cost_ns: reached.nanos,
        text,
        packets: [packet].into_iter().chain(reached.raised).collect(),
    })
}

/// A number of streams that the peer allows, and the waits for a higher number.
#[derive(Default)]
struct Allowed<'a> {
    limit: u64,
    opened: u64,
    /// The packet that used up the limit.
    used: Option<&'a Entry>,
    is_blocked: bool,
    /// A higher limit, before which the sender had used all streams: the time of the wait, and of the packet.
    raised: Option<(u64, &'a Entry)>,
    waits: Vec<(u64, u64, u64)>,
}

impl<'a> Allowed<'a> {
    fn open(&mut self, number: u64, entry: &'a Entry, soon: u64) {
        if number < self.opened {
            return;
        }
        // A sender that waits for streams opens one as soon as it may.
        if let Some((nanos, by)) = self.raised.take().filter(|(_, by)| entry.at.saturating_sub(by.at) <= soon)
        {
            self.waits.push((nanos, by.packet, self.limit));
        }
        self.opened = number + 1;
        if self.opened >= self.limit {
            self.used = self.used.or(Some(entry));
        }
    }

    fn raise(&mut self, limit: u64, entry: &'a Entry) {
        if limit <= self.limit {
            return;
        }
        if let Some(used) = self.used.take() {
            let nanos = entry.at.saturating_sub(used.at);
            match std::mem::take(&mut self.is_blocked) {
                true => self.waits.push((nanos, entry.packet, limit)),
                false => self.raised = Some((nanos, entry)),
            }
        }
        self.limit = limit;
    }
}

/// The number of streams that the peer allows limits the sender (RFC 9000 §4.6).
pub(super) fn streams_limited(case: &Case<'_>) -> Option<Evidence> {
    let soon = 10 * MILLISECOND;
    let mut kinds: [Allowed<'_>; 2] = Default::default();
    let is_own = |stream: u64| case.talk.transport == "quic" && (stream & 1) as usize == case.side;
    for entry in case.entries {
        match entry.event {
            Event::StreamsLimit { unidirectional, limit } if entry.side != case.side => {
                kinds[usize::from(unidirectional)].raise(limit, entry);
            }
            Event::StreamsBlocked { unidirectional, limit } if entry.side == case.side => {
                let kind = &mut kinds[usize::from(unidirectional)];
                kind.is_blocked |= limit >= kind.limit;
                kind.used = kind.used.or(Some(entry));
            }
            // RFC 9000 §2.1: the last bits say who opened the stream, and whether it is unidirectional.
            Event::Data(data) if entry.side == case.side && is_own(data.stream) => {
                kinds[usize::from(data.stream & 2 != 0)].open(data.stream >> 2, entry, soon);
            }
            _ => {}
        }
    }
    let [requests, others] = kinds.map(|mut kind| {
        // The limit was never raised, and the sender said that it waits.
        if let Some(used) =
            kind.used.filter(|_| kind.is_blocked && case.is_whole && !case.is_closed_gracefully())
        {
            kind.waits.push((case.until().saturating_sub(used.at), used.packet, kind.limit));
        }
        (kind.waits.iter().map(|wait| wait.0).sum::<u64>(), kind)
    });
    let ((cost_ns, kind), name) = match requests.0 >= others.0 {
        true => (requests, "bidirectional"),
        false => (others, "unidirectional"),
    };
    let shortest = case.round_trip().max(100 * MILLISECOND);
    if cost_ns < shortest || !is_share(cost_ns, 20, case.active()) {
        return None;
    }
    let (longest, packet, _) = *kind.waits.iter().max_by_key(|wait| wait.0)?;
    let (sender, receiver) = (case.sender(), case.receiver());
    let text = format!(
        "{receiver} allowed too few {name} streams for {} of {}. {sender} had used all of them and waited {}, longest \
         {} until packet {packet}. {sender} opened {} streams in all. {receiver} has to allow more streams at a time, or \
         {sender} has to open a second connection.",
        seconds(cost_ns),
        seconds(case.active()),
        counted(kind.waits.len() as u64, "time"),
        seconds(longest),
        kind.opened,
    );
    Some(Evidence { cost_ns, text, packets: kind.waits.iter().map(|wait| wait.1).collect() })
}
