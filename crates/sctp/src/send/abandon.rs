//! Abandons messages.
//!
//! Owns the limits after which messages are abandoned (lifetime, number of retransmissions, priority) and counts
//! abandoned messages. The bytes of a message belong to the queue, and its chunks belong to `outstanding`. The module
//! [`forward`](super::forward) makes the peer skip abandoned chunks. The association updates the bytes in flight and
//! the timers.
//!
//! An unsent message has no sequence number yet and is simply dropped. A partly sent message takes one more TSN, which
//! is never sent and stands for the rest of the message. Without this extra TSN, a FORWARD TSN would skip nothing if
//! the peer has already acknowledged all sent parts. The peer would then wait for the rest of the message.
//!
//! RFC 3758 §3.5 A2 says that an abandoned chunk is no longer outstanding. This module applies the rule to the peer's
//! window and to retransmissions. For the congestion window, a chunk abandoned in flight still counts until it is
//! acknowledged, skipped or found missing. Otherwise a sender that abandons messages quickly could exceed its
//! congestion window, which RFC 7496 §5 forbids.
//!
//! Implements RFC 3758 §3.5 (A1 – A4, F3) and §4.1, and RFC 7496 §3.

use super::SendHalf;
use super::forward::AckPoint;
use super::outstanding::{ChunkState, Entry};
use crate::error::SendError;
use crate::message::Message;
use crate::reliability::{Abandoned, Policy, Reliability};
use anabranch_base::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of completed messages whose limits are removed in one call.
const FORGOTTEN: usize = 24;

/// The limit after which a message is abandoned.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Until(Instant),
    Retransmissions(u32),
    Priority(u32),
    Cancelled,
}

/// A message that may be abandoned, or that was abandoned.
#[derive(Clone, Copy, Debug)]
struct Limited {
    limit: Limit,
    context: u32,
    /// Number in the order of queuing: older messages have lower numbers.
    age: u64,
    /// The TSN offset of the message's first chunk; `None` until this chunk is sent.
    first: Option<u64>,
    given_up: bool,
}

impl Limited {
    fn policy(&self) -> Policy {
        match self.limit {
            Limit::Until(_) => Policy::Lifetime,
            Limit::Retransmissions(_) => Policy::Retransmissions,
            Limit::Priority(_) => Policy::Priority,
            Limit::Cancelled => Policy::Cancelled,
        }
    }
}

/// The rank of a message with a priority: the priority value, the age, and the index in the queue. To make room, the
/// message with the highest rank is abandoned first. A higher priority value means a less important message. Among
/// messages with equal priority values, older messages have a higher rank.
type Rank = (u32, std::cmp::Reverse<u64>, u32);

/// A message that was abandoned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AbandonedMessage {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    pub(crate) bytes: u32,
    pub(crate) unordered: bool,
    pub(crate) policy: Policy,
    pub(crate) sent: bool,
}

/// What the association must do after messages were abandoned.
#[derive(Debug, Default)]
pub(crate) struct AbandonEffects {
    pub(crate) failed: Vec<AbandonedMessage>,
    /// Paths on which chunks of the abandoned messages were in flight.
    pub(crate) paths: Vec<u8>,
}

/// The messages that may be abandoned, and the number of messages abandoned so far.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    messages: BTreeMap<u32, Limited>,
    expiries: BTreeSet<(Instant, u32)>,
    /// Messages that expired while in flight, ordered by the TSN offset of their first chunk.
    overdue: BTreeSet<(u64, u32)>,
    /// Messages with a priority, ordered by rank. `unsent` holds messages without a sent chunk, and `sent` holds
    /// messages with a sent chunk.
    unsent: BTreeSet<Rank>,
    sent: BTreeSet<Rank>,
    ages: u64,
    /// The Advanced.Peer.Ack.Point, up to which the peer is to skip chunks.
    pub(super) point: AckPoint,
    /// The number of abandoned messages by stream and policy.
    counts: BTreeMap<(u16, Policy), Abandoned>,
    given_up: AbandonEffects,
}

impl Limits {
    /// Creates the state of an association without messages of limited reliability. `base` is the TSN of the lowest
    /// outstanding chunk, counted from the initial TSN.
    pub(super) fn beginning_at(base: u64) -> Self {
        Self { point: AckPoint::beginning_at(base), ..Self::default() }
    }

    /// Cancels a message. `first` is the TSN offset of the message's first outstanding chunk.
    pub(super) fn cancel(&mut self, message: u32, context: u32, first: Option<u64>) {
        self.ages += 1;
        let age = self.ages;
        let new = || Limited { limit: Limit::Cancelled, context, age, first, given_up: false };
        let limited = self.messages.entry(message).or_insert_with(new);
        limited.first = limited.first.or(first);
        let before = *limited;
        limited.limit = Limit::Cancelled;
        self.strike(message, &before);
    }

    /// Returns the number of messages abandoned on `stream` by `policy`. `None` stands for all streams or all
    /// policies.
    fn count(&self, stream: Option<u16>, policy: Option<Policy>) -> Abandoned {
        let mut sum = Abandoned::default();
        for (&(on, by), &count) in &self.counts {
            if stream.is_none_or(|stream| stream == on) && policy.is_none_or(|policy| policy == by) {
                sum.add(count);
            }
        }
        sum
    }

    fn forget(&mut self, message: u32) {
        if let Some(limited) = self.messages.remove(&message) {
            self.strike(message, &limited);
        }
    }

    /// Removes a message from the sets of messages that wait to be abandoned.
    fn strike(&mut self, message: u32, limited: &Limited) {
        match limited.limit {
            Limit::Until(at) => {
                self.expiries.remove(&(at, message));
            }
            Limit::Retransmissions(_) | Limit::Cancelled => {}
            Limit::Priority(priority) => {
                let rank = (priority, std::cmp::Reverse(limited.age), message);
                let ranks = if limited.first.is_some() { &mut self.sent } else { &mut self.unsent };
                ranks.remove(&rank);
            }
        }
    }
}

impl SendHalf {
    /// Queues a message. Abandons messages of lower priority if the new message needs their room. `skips` says
    /// whether the peer can be asked to skip sent chunks.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        message: Message,
        payload: &[u8],
        skips: bool,
    ) -> Result<(), SendError> {
        if let Some(limits) = &self.limits
            && !(limits.unsent.is_empty() && limits.sent.is_empty())
            && let Some(missing) = self.queue.missing(payload.len() as u64)
        {
            self.make_room(missing, message.reliability, skips);
        }
        let limit = match message.reliability {
            Reliability::Full => return self.queue.push(message, payload),
            Reliability::Lifetime(lifetime) => Limit::Until(now + lifetime),
            Reliability::Retransmissions(most) => Limit::Retransmissions(most),
            Reliability::Priority(priority) => Limit::Priority(priority),
        };
        let index = self.queue.push_limited(message, payload)?;
        self.outstanding.begin_recording_lost();
        let base = self.outstanding.base();
        let limits = self.limits.get_or_insert_with(|| Box::new(Limits::beginning_at(base)));
        limits.ages += 1;
        let limited =
            Limited { limit, context: message.context, age: limits.ages, first: None, given_up: false };
        limits.messages.insert(index, limited);
        match limit {
            Limit::Until(at) => {
                limits.expiries.insert((at, index));
            }
            Limit::Retransmissions(_) | Limit::Cancelled => {}
            Limit::Priority(priority) => {
                limits.unsent.insert((priority, std::cmp::Reverse(limited.age), index));
            }
        }
        Ok(())
    }

    /// Called before the first chunk of `message` is sent. If the message may be abandoned, records the TSN offset of
    /// this chunk.
    #[cold]
    pub(crate) fn begin_limited(&mut self, message: u32) {
        let first = self.outstanding.end();
        let Some(limits) = &mut self.limits else {
            return;
        };
        let Some(limited) = limits.messages.get_mut(&message) else {
            return;
        };
        limited.first = Some(first);
        if let Limit::Priority(priority) = limited.limit {
            let rank = (priority, std::cmp::Reverse(limited.age), message);
            limits.unsent.remove(&rank);
            limits.sent.insert(rank);
        }
    }

    /// RFC 7496 §3.2: abandons messages of lower priority to make room for a new message, the lowest priority first.
    /// Among messages of equal priority, unsent messages go before sent messages, and older before newer messages. If
    /// even all these messages would not make enough room, none is abandoned.
    fn make_room(&mut self, missing: u64, reliability: Reliability, skips: bool) {
        let Some(limits) = &self.limits else {
            return;
        };
        let above = |rank: &&Rank| match reliability {
            Reliability::Priority(priority) => rank.0 > priority,
            _ => true,
        };
        let mut unsent = limits.unsent.iter().rev().take_while(above).peekable();
        let mut sent = limits.sent.iter().rev().take_while(above).filter(|_| skips).peekable();
        let (mut freed, mut victims) = (0, Vec::new());
        while freed < missing {
            let lower = match (unsent.peek(), sent.peek()) {
                (Some(a), Some(b)) => a.0 >= b.0,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return,
            };
            let next = if lower { unsent.next() } else { sent.next() };
            if let Some(&(_, _, message)) = next {
                freed += self.queue.held_by(message);
                victims.push(message);
            }
        }
        for message in victims {
            self.abandon(message);
        }
    }

    /// Abandons all messages whose limit is reached. `skips` says whether the peer can be asked to skip sent chunks.
    pub(crate) fn abandon_expired(&mut self, now: Instant, skips: bool) {
        let Some(limits) = &mut self.limits else {
            return;
        };
        // A SACK may complete thousands of messages at once. One call drops the limits of at most `FORGOTTEN` messages.
        // Later calls drop the rest.
        for message in std::iter::from_fn(|| self.queue.take_completed_limited()).take(FORGOTTEN) {
            limits.forget(message);
        }
        // RFC 3758 §4.1 TR3 – TR5: abandons messages whose lifetime has expired.
        while let Some(&(at, message)) = self.limits.as_ref().and_then(|limits| limits.expiries.first()) {
            if at > now {
                break;
            }
            if let Some(limits) = &mut self.limits {
                limits.expiries.remove(&(at, message));
            }
            if !self.queue.is_limited(message) {
                continue;
            }
            let (begun, all) = self.queue.progress(message);
            if !begun || skips && (!all || self.has_lost_chunk(message)) {
                self.abandon(message);
            } else if skips && let Some(limits) = &mut self.limits {
                // Every chunk of this message is sent and none is marked as lost, so all of its chunks may still
                // arrive. The message is checked again when one of its chunks is found missing.
                let first = limits.messages.get(&message).and_then(|limited| limited.first);
                limits.overdue.extend(first.map(|first| (first, message)));
            }
        }
        let mut marked = self.outstanding.take_marked_lost();
        for offset in marked.drain(..) {
            let Some(&entry) = self.outstanding.get(offset) else {
                continue;
            };
            let limits = self.limits.as_ref();
            let Some(limited) = limits.and_then(|limits| limits.messages.get(&entry.message)) else {
                continue;
            };
            let due = match limited.limit {
                Limit::Until(at) => at <= now,
                // RFC 7496 §3.1: one more transmission would exceed the allowed number.
                Limit::Retransmissions(most) => u32::from(entry.retransmissions) >= most,
                Limit::Priority(_) | Limit::Cancelled => false,
            };
            if due && skips && !limited.given_up && matches!(entry.state, ChunkState::Lost(_)) {
                self.abandon(entry.message);
            }
        }
        self.outstanding.restore_marked_lost(marked);
        self.give_up_overdue();
        for message in std::iter::from_fn(|| self.queue.take_completed_limited()).take(FORGOTTEN) {
            if let Some(limits) = &mut self.limits {
                limits.forget(message);
            }
        }
        self.advance();
    }

    /// RFC 3758 §4.1 TR5: abandons an expired message once one of its chunks is found missing, because chunks sent
    /// later have arrived. Without this rule, the message would block its stream until a timer expires, longer than the
    /// message's lifetime.
    fn give_up_overdue(&mut self) {
        let highest = self.outstanding.runs.last().map_or(self.outstanding.base(), |run| run.end);
        while let Some(&(first, message)) = self.limits.as_ref().and_then(|limits| limits.overdue.first()) {
            let known = self.queue.is_limited(message)
                && self.limits.as_ref().is_some_and(|limits| limits.messages.contains_key(&message));
            if known && first >= highest {
                break;
            }
            let missing = known
                && self.chunks_of(message).any(|(offset, entry)| {
                    offset < highest && matches!(entry.state, ChunkState::InFlight | ChunkState::Lost(_))
                });
            if missing {
                self.abandon(message);
            }
            if let Some(limits) = &mut self.limits {
                limits.overdue.remove(&(first, message));
            }
        }
    }

    /// Returns the outstanding chunks of a message with their TSN offsets, lowest first.
    fn chunks_of(&self, message: u32) -> impl Iterator<Item = (u64, &Entry)> {
        let limited = self.limits.as_ref().and_then(|limits| limits.messages.get(&message));
        let first = limited.and_then(|limited| limited.first).unwrap_or(self.outstanding.end());
        let mut bytes = self.queue.outstanding_of(message);
        (first.max(self.outstanding.base())..self.outstanding.end())
            .filter_map(|offset| Some((offset, self.outstanding.get(offset)?)))
            .filter(move |(_, entry)| entry.message == message && entry.state != ChunkState::Freed)
            .take_while(move |(_, entry)| {
                let more = bytes > 0;
                bytes -= u32::from(entry.length).min(bytes);
                more
            })
    }

    fn has_lost_chunk(&self, message: u32) -> bool {
        self.chunks_of(message).any(|(_, entry)| matches!(entry.state, ChunkState::Lost(_)))
    }

    /// RFC 3758 §3.5 A2, A3: abandons all chunks of a message at once.
    #[cold]
    pub(super) fn abandon(&mut self, message: u32) {
        if !self.queue.is_limited(message) {
            return;
        }
        let chunks: Vec<(u64, Entry)> =
            self.chunks_of(message).map(|(offset, &entry)| (offset, entry)).collect();
        let (begun, all) = self.queue.progress(message);
        let Some(limits) = &mut self.limits else {
            return;
        };
        let Some(limited) = limits.messages.get_mut(&message).filter(|limited| !limited.given_up) else {
            return;
        };
        if begun && !all && !self.outstanding.has_spare() {
            return;
        }
        limited.given_up = true;
        let limited = *limited;
        limits.strike(message, &limited);
        let stored = self.queue.message(message);
        let failed = AbandonedMessage {
            stream: stored.stream,
            ppid: stored.ppid,
            context: limited.context,
            bytes: stored.length,
            unordered: stored.unordered,
            policy: limited.policy(),
            sent: begun,
        };
        limits.given_up.failed.push(failed);
        limits.counts.entry((failed.stream, failed.policy)).or_default().count(begun);
        let mut left = chunks.len() as u32;
        for (offset, entry) in chunks {
            if entry.state == ChunkState::InFlight {
                limits.given_up.paths.push(entry.path);
                // Like a chunk that is marked for retransmission (RFC 9260 §6.2.1 C), an abandoned chunk no longer
                // counts as outstanding at the peer.
                self.peer_window += u64::from(entry.length);
            }
            // A chunk abandoned in flight still counts as in flight until it is acknowledged or found missing. `fast`
            // is true for an abandoned chunk that does not count as in flight.
            let is_settled = entry.state != ChunkState::InFlight;
            if let Some(entry) = self.outstanding.at(offset) {
                entry.fast = is_settled;
            }
            self.outstanding.set(offset, ChunkState::Abandoned);
        }
        if begun && !all {
            // An extra TSN stands for the unsent rest of the message. The peer skips this TSN as well.
            self.outstanding.push_abandoned(message);
            left += 1;
        }
        self.queue.abandon(message, left);
    }

    /// Returns the effects of abandoning messages since the last call.
    pub(crate) fn take_given_up(&mut self) -> AbandonEffects {
        self.limits.as_mut().map(|limits| std::mem::take(&mut limits.given_up)).unwrap_or_default()
    }

    /// Returns when the next message expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.limits.as_ref()?.expiries.first().map(|&(at, _)| at)
    }

    /// Returns the number of messages abandoned on `stream` by `policy`. `None` stands for all streams or all
    /// policies.
    pub(crate) fn abandoned(&self, stream: Option<u16>, policy: Option<Policy>) -> Abandoned {
        self.limits.as_ref().map(|limits| limits.count(stream, policy)).unwrap_or_default()
    }

    /// Returns whether an outstanding chunk was abandoned.
    pub(crate) fn has_abandoned(&self) -> bool {
        let outstanding = &self.outstanding;
        let is_given_up = |offset| outstanding.get(offset).is_some_and(|e| e.state == ChunkState::Abandoned);
        (outstanding.base()..outstanding.end()).any(is_given_up)
    }
}
