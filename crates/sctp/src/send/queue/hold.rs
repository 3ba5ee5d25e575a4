//! Streams that wait for their numbers to begin anew.
//!
//! Between the wish to reset a stream and its end, what the application gives
//! on that stream is kept back without a number; what it gave before goes out
//! first. Each request has a ticket, by which it learns when that has happened
//! and lets go of what it kept back.
//!
//! Home of RFC 6525 §5.1.2 A1 and §5.2.7 H4 (what they ask of the queue).

use super::{Queue, Stream};
use std::collections::{BTreeMap, VecDeque};

/// Names the request that a stream waits for.
pub(crate) type Ticket = u32;

/// What is kept back.
#[derive(Debug, Default)]
pub(super) struct Hold {
    streams: BTreeMap<u16, Ticket>,
    /// Every stream that is not listed waits for this.
    all: Option<Ticket>,
    /// Messages given before and not yet cut to their end.
    before: BTreeMap<Ticket, u64>,
    /// Messages kept back, in the order they were given.
    waiting: VecDeque<u32>,
}

impl Hold {
    /// What `stream` waits for.
    pub(super) fn ticket(&self, stream: u16) -> Option<Ticket> {
        self.streams.get(&stream).copied().or(self.all)
    }

    /// A message is kept back.
    pub(super) fn keep(&mut self, message: u32) {
        self.waiting.push_back(message);
    }

    /// A message that is kept back is given up; false when it is not kept back.
    pub(super) fn drop_kept(&mut self, message: u32) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|&kept| kept != message);
        self.waiting.len() < before
    }

    /// As [`drop_kept`](Self::drop_kept), for several in ascending order.
    pub(super) fn drop_all_kept(&mut self, messages: &[u32]) {
        self.waiting.retain(|kept| messages.binary_search(kept).is_err());
    }

    /// A message that was given before has been cut to its end, or is gone.
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
        // RFC 8260 §2.3.2: both counts.
        self.next_ordered = 0;
        self.next_unordered = 0;
        self.begin_new_life();
    }

    fn is_numbered(&self) -> bool {
        self.next_ordered != 0 || self.next_unordered != 0
    }
}

impl Queue {
    /// Keeps back what is given on `streams` (none: all) from now on.
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

    /// One of `streams` (none: any) waits already.
    pub(crate) fn is_held(&self, streams: &[u16]) -> bool {
        self.hold.as_deref().is_some_and(|hold| {
            streams.is_empty() || streams.iter().any(|&stream| hold.ticket(stream).is_some())
        })
    }

    /// Everything given before the hold of `ticket` has been sent once.
    pub(crate) fn is_clear(&self, ticket: Ticket) -> bool {
        let before = self.hold.as_deref().and_then(|hold| hold.before.get(&ticket));
        before.is_none_or(|&before| before == 0)
    }

    /// The request of `ticket` has ended: its streams begin `anew`, or go on as they were.
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
            // What was kept back is the first of what comes after the reset, and is counted so.
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

    /// All streams begin anew.
    pub(crate) fn reset(&mut self) {
        for stream in self.streams.iter_mut() {
            stream.reset();
        }
    }

    /// One of `streams` (none: any) has numbered a message since it last began.
    pub(crate) fn is_numbered(&self, streams: &[u16]) -> bool {
        if streams.is_empty() {
            return self.streams.iter().any(Stream::is_numbered);
        }
        streams.iter().any(|&stream| self.streams.get(stream).is_some_and(Stream::is_numbered))
    }
}
