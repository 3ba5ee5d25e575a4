//! Keeps the order in which messages became readable, across all streams.
//!
//! Stores an entry for each readable message, whole or delivered in parts. An application that reads without naming a
//! stream receives the messages in the order of these entries. Entries are kept only for such applications
//! (`Config::track_arrivals`). A lane is the queue of the ordered or of the unordered messages of a stream.
//!
//! Implements RFC 9260 §11.1.7 (Receive, where no stream is named) and RFC 6458 §3.1.4.

use super::{Order, ReadQueue, Stream};
use crate::message::Received;
use std::collections::VecDeque;

/// For each readable message, its stream, and whether the message is unordered. The message to be read next comes
/// first.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<(u16, bool)>);

impl Arrivals {
    /// Removes an entry equal to `ticket`: the last such entry if `back` is true, otherwise the first. An entry holds a
    /// stream, and whether the message is unordered.
    fn strike(&mut self, ticket: (u16, bool), back: bool) {
        let mut all = self.0.iter();
        let found = match back {
            false => all.position(|&other| other == ticket),
            true => all.rposition(|&other| other == ticket),
        };
        if let Some(place) = found {
            self.0.remove(place);
        }
    }
}

/// The message that will be read next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upcoming {
    pub(crate) stream: u16,
    /// Number of bytes of the message that have arrived and are not read.
    pub(crate) length: usize,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    /// Whether the rest of the message has arrived.
    pub(crate) complete: bool,
}

impl Stream {
    /// Returns whether the next message can be read from the lane that `unordered` selects. A lane must wait while a
    /// message of the other lane is partly read.
    fn offers(&self, unordered: bool) -> bool {
        let lane = if unordered { self.unordered.as_deref() } else { Some(&self.ordered) };
        self.partly_read.is_none_or(|reading| reading == unordered) && lane.is_some_and(ReadQueue::readable)
    }

    /// Returns whether the unfinished message of a lane is readable, but no part of it was read. Such a message can be
    /// dropped without a notice to the reader.
    pub(super) fn ends_unseen(&self, unordered: bool) -> bool {
        let lane = if unordered { self.unordered.as_deref() } else { Some(&self.ordered) };
        let Some(lane) = lane else { return false };
        let announced = self.partly_read == Some(unordered) && lane.messages.is_empty();
        lane.tail.as_ref().is_some_and(|tail| tail.in_parts) && !announced
    }
}

impl Order {
    /// Starts to keep the order of messages. Must be called before any message arrives.
    pub(crate) fn track_arrivals(&mut self) {
        self.arrivals = Some(Box::default());
    }

    /// Adds entries for `count` messages of `stream` that have become readable: unordered messages if `unordered` is
    /// true, otherwise ordered messages.
    #[inline]
    pub(super) fn arrive(&mut self, stream: u16, unordered: bool, count: u64) {
        if let Some(arrivals) = &mut self.arrivals {
            for _ in 0..count {
                arrivals.0.push_back((stream, unordered));
            }
        }
    }

    /// Removes the entry of a message that was read to its end.
    #[inline]
    pub(super) fn depart(&mut self, stream: u16, unordered: bool) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.strike((stream, unordered), false);
        }
    }

    /// Removes the entry of an unfinished message that the application can read in part. The message is dropped, and
    /// the application gets no notice.
    pub(super) fn withdraw(&mut self, stream: u16, unordered: bool) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.strike((stream, unordered), true);
        }
    }

    /// Returns the stream to read next, and whether its next message is unordered. While the rest of a partly read
    /// message has not arrived, other messages are read.
    fn next_arrival(&self) -> Option<(u16, bool)> {
        let offers = |&&(stream, unordered): &&(u16, bool)| {
            self.streams.get(stream).is_some_and(|state| state.offers(unordered))
        };
        self.arrivals.as_ref()?.0.iter().find(offers).copied()
    }

    /// Describes the message that will be read next, as far as it has arrived.
    pub(crate) fn upcoming(&self) -> Option<Upcoming> {
        let (stream, unordered) = self.next_arrival()?;
        let state = self.streams.get(stream)?;
        let lane = if unordered { state.unordered.as_deref()? } else { &state.ordered };
        let length = lane.first();
        match (lane.messages.front(), &lane.tail) {
            (Some(whole), _) => {
                Some(Upcoming { stream, length, ppid: whole.ppid, unordered, complete: !whole.incomplete })
            }
            (None, Some(tail)) => {
                Some(Upcoming { stream, length, ppid: tail.ppid, unordered, complete: false })
            }
            (None, None) => None,
        }
    }

    /// Like [`read`](Self::read), for the message that became readable first on any stream. Returns this stream as
    /// well.
    pub(crate) fn read_next(&mut self, out: &mut [u8]) -> Option<(u16, Received)> {
        let (stream, unordered) = self.next_arrival()?;
        let slot = self.streams.find(stream)?;
        let received = self.read_lane(slot, stream, unordered, out)?;
        let state = self.streams.at(slot);
        state.signalled &= state.readable();
        Some((stream, received))
    }
}
