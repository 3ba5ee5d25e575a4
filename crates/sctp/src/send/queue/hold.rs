//! Holds back the new messages of a stream while the stream waits for a reset of its sequence numbers.
//!
//! From the request to reset a stream until the reset ends, new messages on that stream are held back without a
//! sequence number. Messages queued before the request are sent first. Each request has a [`ReservationId`]. With this
//! ID, the caller asks whether the earlier messages are sent, and later releases the messages held back.
//!
//! Implements RFC 6525 §5.1.2 A1 and §5.2.7 H4, as far as they concern the queue.

use super::{Queue, Stream};
use std::collections::{BTreeMap, VecDeque};

/// Identifies the reset request that a stream waits for.
pub(crate) type ReservationId = u32;

/// The streams and messages that are held back.
#[derive(Debug, Default)]
pub(super) struct HeldStreams {
    streams: BTreeMap<u16, ReservationId>,
    /// The reset request that every stream without an entry in `streams` waits for.
    all: Option<ReservationId>,
    /// For each reset request, the number of messages queued before it and not yet fully cut into chunks.
    before: BTreeMap<ReservationId, u64>,
    /// The messages held back, in the order of queuing.
    waiting: VecDeque<u32>,
}

impl HeldStreams {
    /// Returns the reset request that `stream` waits for, if there is one.
    pub(super) fn ticket(&self, stream: u16) -> Option<ReservationId> {
        self.streams.get(&stream).copied().or(self.all)
    }

    /// Adds a message to the messages held back.
    pub(super) fn keep(&mut self, message: u32) {
        self.waiting.push_back(message);
    }

    /// Removes an abandoned message from the messages held back. Returns false if the message was not held back.
    pub(super) fn drop_kept(&mut self, message: u32) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|&kept| kept != message);
        self.waiting.len() < before
    }

    /// Like [`drop_kept`](Self::drop_kept), for several messages in ascending order.
    pub(super) fn drop_all_kept(&mut self, messages: &[u32]) {
        self.waiting.retain(|kept| messages.binary_search(kept).is_err());
    }

    /// Records that one of the messages queued before the reset request is done: it was dropped, or all of it was cut
    /// into chunks.
    pub(super) fn done(&mut self, stream: u16) {
        if let Some(ticket) = self.ticket(stream)
            && let Some(before) = self.before.get_mut(&ticket)
        {
            *before = before.saturating_sub(1);
        }
    }
}

impl Stream {
    /// RFC 6525 §5.1.2: message numbers start again at 0.
    fn reset(&mut self) {
        // RFC 8260 §2.3.2: the numbers of ordered messages and the numbers of unordered messages both start again at 0.
        self.next_ordered = 0;
        self.next_unordered = 0;
        self.begin_new_life();
    }

    fn is_numbered(&self) -> bool {
        self.next_ordered != 0 || self.next_unordered != 0
    }
}

impl Queue {
    /// From now on, holds back each message that is newly queued on one of `streams`, until the reset request `ticket`
    /// has ended. An empty list stands for all streams.
    pub(crate) fn hold(&mut self, ticket: ReservationId, streams: &[u16]) {
        let hold = self.hold.get_or_insert_default();
        if streams.is_empty() {
            hold.all = Some(ticket);
        }
        for &stream in streams {
            hold.streams.insert(stream, ticket);
        }
        let waiting = |message: &&super::QueuedMessage| message.cut < message.length;
        let before = self.messages.iter().filter(waiting).filter(|m| hold.ticket(m.stream) == Some(ticket));
        let before = before.count() as u64;
        hold.before.insert(ticket, before);
    }

    /// Returns whether messages on one of `streams` are held back. An empty list stands for any stream.
    pub(crate) fn is_held(&self, streams: &[u16]) -> bool {
        self.hold.as_deref().is_some_and(|hold| {
            streams.is_empty() || streams.iter().any(|&stream| hold.ticket(stream).is_some())
        })
    }

    /// Returns whether every message that was queued before the reset request with this ticket has been fully cut into
    /// chunks or dropped.
    pub(crate) fn is_clear(&self, ticket: ReservationId) -> bool {
        let before = self.hold.as_deref().and_then(|hold| hold.before.get(&ticket));
        before.is_none_or(|&before| before == 0)
    }

    /// Releases the messages held back for `ticket`, whose reset request has ended. If `anew`, the sequence numbers of
    /// the request's streams start again at 0; otherwise they continue.
    pub(crate) fn resume(&mut self, ticket: ReservationId, anew: bool) {
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
            // The reset has moved the byte count of the stream to the next multiple of 2^32. The held messages are sent
            // after the reset, so the count continues with their bytes.
            for &message in &hold.waiting {
                let stored = &mut self.messages[message as usize];
                if hold.ticket(stored.stream) == Some(ticket) {
                    stored.stream_offset =
                        self.streams.at(stored.slot as usize).count_given(stored.length as usize);
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

    /// Resets the sequence numbers of all streams.
    pub(crate) fn reset(&mut self) {
        for stream in self.streams.iter_mut() {
            stream.reset();
        }
    }

    /// Returns whether a message on one of `streams` got a sequence number after the last reset of that stream. An
    /// empty list stands for all streams.
    pub(crate) fn is_numbered(&self, streams: &[u16]) -> bool {
        if streams.is_empty() {
            return self.streams.iter().any(Stream::is_numbered);
        }
        streams.iter().any(|&stream| self.streams.get(stream).is_some_and(Stream::is_numbered))
    }
}
