//! Giving messages up.
//!
//! Owns what is known of messages that may be given up: until when, after how
//! many retransmissions, in favour of what; and the counts. The bytes are the
//! queue's, the chunks are `outstanding`'s, what the peer is told is
//! [`forward`](super::forward)'s; flights and timers are told to the
//! association.
//!
//! A message of which nothing was sent has no number yet and just disappears.
//! One that was sent in part takes one more TSN, never sent, for all that is
//! left of it: without that the peer might have nothing to skip.
//!
//! RFC 3758 §3.5 A2 calls a chunk that is given up no longer outstanding. For
//! the peer's window and for retransmissions that is so; in the congestion
//! window a chunk that is on its way keeps its place until it is acknowledged,
//! skipped or found missing: otherwise whoever gives up fast enough would send
//! as fast as he likes, which RFC 7496 §5 rules out.
//!
//! Home of RFC 3758 §3.5 (A1 – A4, F3), §4.1 and of RFC 7496 §3.

use super::SendHalf;
use super::forward::AckPoint;
use super::outstanding::{ChunkState, Entry};
use crate::error::SendError;
use crate::message::Message;
use crate::reliability::{Abandoned, Policy, Reliability};
use anabranch_base::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Messages that are done with and forgotten at a time.
const FORGOTTEN: usize = 24;

/// What limits a message.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Until(Instant),
    Retransmissions(u32),
    Priority(u32),
    Cancelled,
}

/// A message that may be given up, or has been.
#[derive(Clone, Copy, Debug)]
struct Limited {
    limit: Limit,
    context: u32,
    /// Older ones have lower numbers.
    age: u64,
    /// The offset of its first chunk, once sent.
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

/// Priority, youth and number: the last is the first to go.
type Rank = (u32, std::cmp::Reverse<u64>, u32);

/// A message that was given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    pub(crate) bytes: u32,
    pub(crate) unordered: bool,
    pub(crate) policy: Policy,
    pub(crate) sent: bool,
}

/// What giving up has done, for the association to act upon.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    pub(crate) failed: Vec<Failed>,
    /// Paths that chunks of them were on their way to.
    pub(crate) paths: Vec<u8>,
}

/// What is known of messages that may be given up.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    messages: BTreeMap<u32, Limited>,
    expiries: BTreeSet<(Instant, u32)>,
    /// Messages that expired on their way, by the offset of their first chunk.
    overdue: BTreeSet<(u64, u32)>,
    /// By rank: nothing sent, something sent.
    unsent: BTreeSet<Rank>,
    sent: BTreeSet<Rank>,
    ages: u64,
    /// What the peer is told of those that were sent.
    pub(super) point: AckPoint,
    /// By stream and policy.
    counts: BTreeMap<(u16, Policy), Abandoned>,
    given_up: GivenUp,
}

impl Limits {
    /// Nothing is limited yet; `base` is the offset of the lowest outstanding chunk.
    pub(super) fn beginning_at(base: u64) -> Self {
        Self { point: AckPoint::beginning_at(base), ..Self::default() }
    }

    /// A message is cancelled; `first` is its first chunk that is outstanding.
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

    /// How many were given up, on one stream or all, by one policy or all.
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

    /// It no longer waits to be given up.
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
    /// Takes in a message. Makes room for it if others have to go first;
    /// `skips` says that the peer can be told to skip what was sent.
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
            self.give_all_back();
            self.make_room(missing, message.reliability, skips);
        }
        self.free_before(1);
        let limit = match message.reliability {
            Reliability::Full => return self.queue.push(message, payload),
            Reliability::Lifetime(lifetime) => Limit::Until(now + lifetime),
            Reliability::Retransmissions(most) => Limit::Retransmissions(most),
            Reliability::Priority(priority) => Limit::Priority(priority),
        };
        let index = self.queue.push_limited(message, payload)?;
        self.outstanding.begin_noting();
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

    /// The first chunk of a message that may be given up is being sent.
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

    /// RFC 7496 §3.2: lower priorities make room for this message: the lowest
    /// first, of those what has not been sent, of those the oldest. Nothing is
    /// given up in vain.
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
            self.give_up(message);
        }
    }

    /// Gives up whatever is due. `skips` says that the peer can be told to skip
    /// what was sent.
    pub(crate) fn give_up_due(&mut self, now: Instant, skips: bool) {
        let Some(limits) = &mut self.limits else {
            return;
        };
        // A SACK may acknowledge very many at once: the rest is forgotten with the next packets.
        for message in std::iter::from_fn(|| self.queue.take_gone()).take(FORGOTTEN) {
            limits.forget(message);
        }
        // RFC 3758 §4.1 TR3 – TR5.
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
                self.give_up(message);
            } else if skips && let Some(limits) = &mut self.limits {
                // What is on its way may well arrive: it is looked at again when it is missing.
                let first = limits.messages.get(&message).and_then(|limited| limited.first);
                limits.overdue.extend(first.map(|first| (first, message)));
            }
        }
        let mut marked = self.outstanding.take_noted();
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
                // RFC 7496 §3.1: it would be sent once more than that.
                Limit::Retransmissions(most) => u32::from(entry.repeats) >= most,
                Limit::Priority(_) | Limit::Cancelled => false,
            };
            if due && skips && !limited.given_up && matches!(entry.state, ChunkState::Lost(_)) {
                self.give_up(entry.message);
            }
        }
        self.outstanding.give_noted(marked);
        self.give_up_overdue();
        for message in std::iter::from_fn(|| self.queue.take_gone()).take(FORGOTTEN) {
            if let Some(limits) = &mut self.limits {
                limits.forget(message);
            }
        }
        self.advance();
    }

    /// RFC 3758 §4.1 TR5: an expired message is given up as soon as later chunks are known to have arrived before it;
    /// to wait for a timer would hold up its stream for longer than it was to live.
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
                self.give_up(message);
            }
            if let Some(limits) = &mut self.limits {
                limits.overdue.remove(&(first, message));
            }
        }
    }

    /// Chunks of a message, lowest first.
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

    /// RFC 3758 §3.5 A2, A3: all of a message at once.
    #[cold]
    pub(super) fn give_up(&mut self, message: u32) {
        self.give_all_back();
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
        let failed = Failed {
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
                // As what is marked for retransmission (RFC 9260 §6.2.1 C).
                self.peer_window += u64::from(entry.length);
            }
            // What is on its way stays so until it is acknowledged or found missing.
            let landed = entry.state != ChunkState::InFlight;
            if let Some(entry) = self.outstanding.at(offset) {
                entry.fast = landed;
            }
            self.outstanding.set(offset, ChunkState::Abandoned);
        }
        if begun && !all {
            // It stands for what was not sent: the peer skips it with the rest.
            self.outstanding.push_abandoned(message);
            left += 1;
        }
        self.queue.abandon(message, left);
    }

    /// What was given up since the last call.
    pub(crate) fn take_given_up(&mut self) -> GivenUp {
        self.limits.as_mut().map(|limits| std::mem::take(&mut limits.given_up)).unwrap_or_default()
    }

    /// When the next message expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.limits.as_ref()?.expiries.first().map(|&(at, _)| at)
    }

    /// How many messages were given up, on one stream or all, by one policy or all.
    pub(crate) fn abandoned(&self, stream: Option<u16>, policy: Option<Policy>) -> Abandoned {
        self.limits.as_ref().map(|limits| limits.count(stream, policy)).unwrap_or_default()
    }

    /// Something outstanding was given up.
    pub(crate) fn has_abandoned(&self) -> bool {
        let outstanding = &self.outstanding;
        let is_given_up = |offset| outstanding.get(offset).is_some_and(|e| e.state == ChunkState::Abandoned);
        (outstanding.base()..outstanding.end()).any(is_given_up)
    }
}
