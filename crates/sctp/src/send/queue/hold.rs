//! Streams that wait for a reset of their sequence numbers.
//!
//! From the request to reset a stream until its end, new messages on that stream are held back without a number.
//! Messages queued before are sent first. Each request has a ticket, which it uses to check that these are sent and
//! to release the messages held back.
//!
//! Home of RFC 6525 §5.1.2 A1 and §5.2.7 H4 (what they ask of the queue).

use super::{Queue, Stream};
use std::collections::{BTreeMap, VecDeque};

/// Identifies the request that a stream waits for.
pub(crate) type Ticket = u32;

/// The streams and messages that are held back.
#[derive(Debug, Default)]
pub(super) struct Hold {
    streams: BTreeMap<u16, Ticket>,
    /// The request that all streams not listed wait for.
    all: Option<Ticket>,
    /// Number of messages queued before the request and not yet fully cut into chunks.
    before: BTreeMap<Ticket, u64>,
    /// Messages held back, in the order they were queued.
    waiting: VecDeque<u32>,
}

impl Hold {
    /// Returns the request that `stream` waits for.
    pub(super) fn ticket(&self, stream: u16) -> Option<Ticket> {
        self.streams.get(&stream).copied().or(self.all)
    }

    /// Holds a message back.
    pub(super) fn keep(&mut self, message: u32) {
        self.waiting.push_back(message);
    }

    /// Removes an abandoned message; returns false if it is not held back.
    pub(super) fn drop_kept(&mut self, message: u32) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|&kept| kept != message);
        self.waiting.len() < before
    }

    /// As [`drop_kept`](Self::drop_kept), for several messages in ascending order.
    pub(super) fn drop_all_kept(&mut self, messages: &[u32]) {
        self.waiting.retain(|kept| messages.binary_search(kept).is_err());
    }

    /// A message queued before the request has been fully cut into chunks, or is gone.
    pub(super) fn done(&mut self, stream: u16) {
        if let Some(ticket) = self.ticket(stream)
            && let Some(before) = self.before.get_mut(&ticket)
        {
            *before = before.saturating_sub(1);
        }
    }
}

impl Stream {
    /// RFC 6525 §5.1.2: the next message is number 0 again.
    fn reset(&mut self) {
        // RFC 8260 §2.3.2: resets both counts.
        self.next_ordered = 0;
        self.next_unordered = 0;
        self.begin_new_life();
    }

    fn is_numbered(&self) -> bool {
        self.next_ordered != 0 || self.next_unordered != 0
    }
}

impl Queue {
    /// Holds back messages on `streams` (empty for all) from now on.
    pub(crate) fn hold(&mut self, ticket: Ticket, streams: &[u16]) {
        let hold = self.hold.get_or_insert_default();
        if streams.is_empty() {
            hold.all = Some(ticket);
        }
        for &stream in streams {
            hold.streams.insert(stream, ticket);
        }
        let waiting = |message: &&super::Stored| message.cut < message.length;
        let before = self.messages.iter().filter(waiting).filter(|m| hold.ticket(m.stream) == Some(ticket));
        let before = before.count() as u64;
        hold.before.insert(ticket, before);
    }

    /// Whether one of `streams` (empty for any) is already held.
    pub(crate) fn is_held(&self, streams: &[u16]) -> bool {
        self.hold.as_deref().is_some_and(|hold| {
            streams.is_empty() || streams.iter().any(|&stream| hold.ticket(stream).is_some())
        })
    }

    /// Whether all messages queued before the hold of `ticket` have been sent once.
    pub(crate) fn is_clear(&self, ticket: Ticket) -> bool {
        let before = self.hold.as_deref().and_then(|hold| hold.before.get(&ticket));
        before.is_none_or(|&before| before == 0)
    }

    /// The request of `ticket` has ended: its streams are reset if `anew`, else they continue.
    pub(crate) fn resume(&mut self, ticket: Ticket, anew: bool) {
        let Some(mut hold) = self.hold.take() else {
            return;
        };
        if anew {
            if hold.all == Some(ticket) {
                self.reset();
            }
            for (&stream, _) in hold.streams.iter().filter(|(_, t)| **t == ticket) {
                if let Some(slot) = self.streams.find(stream) {
                    self.streams.at(slot).reset();
                }
            }
            // Messages held back come after the reset and are counted from there.
            for &message in &hold.waiting {
                let stored = &mut self.messages[message as usize];
                if hold.ticket(stored.stream) == Some(ticket) {
                    stored.begins = self.streams.at(stored.slot as usize).count_given(stored.length as usize);
                }
            }
        }
        hold.before.remove(&ticket);
        hold.streams.retain(|_, t| *t != ticket);
        hold.all = hold.all.filter(|all| *all != ticket);
        for message in std::mem::take(&mut hold.waiting) {
            let stream = self.messages[message as usize].stream;
            if hold.ticket(stream).is_some() {
                hold.keep(message);
            } else {
                self.scheduler.push(stream, message);
            }
        }
        if hold.all.is_some() || !hold.streams.is_empty() {
            self.hold = Some(hold);
        }
    }

    /// Resets all streams.
    pub(crate) fn reset(&mut self) {
        for stream in self.streams.iter_mut() {
            stream.reset();
        }
    }

    /// Whether one of `streams` (empty for any) has numbered a message since its last reset.
    pub(crate) fn is_numbered(&self, streams: &[u16]) -> bool {
        if streams.is_empty() {
            return self.streams.iter().any(Stream::is_numbered);
        }
        streams.iter().any(|&stream| self.streams.get(stream).is_some_and(Stream::is_numbered))
    }
}
