//! The order in which messages became readable, across all streams.
//!
//! Keeps a ticket for each readable message, whole or delivered in parts. A reader that names no stream gets them
//! first in, first out. Kept only if the application reads this way (`Config::track_arrivals`).
//!
//! Home of RFC 9260 §11.1.7 (Receive, where no stream is named) and of RFC 6458 §3.1.4.

use super::{Order, ReadQueue, Stream};
use crate::message::Received;
use std::collections::VecDeque;

/// Stream and lane (true for unordered) of each readable message, the next to be read first.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<(u16, bool)>);

impl Arrivals {
    /// Removes the ticket of the first message of this lane, or of the last one (`back`).
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
    /// Number of its bytes that have arrived.
    pub(crate) length: usize,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    /// Whether the rest of it has arrived.
    pub(crate) complete: bool,
}

impl Stream {
    /// Whether a lane has something to read and no message of the other lane is being read.
    fn offers(&self, unordered: bool) -> bool {
        let lane = if unordered { self.unordered.as_deref() } else { Some(&self.ordered) };
        self.reading.is_none_or(|reading| reading == unordered) && lane.is_some_and(ReadQueue::readable)
    }

    /// Whether the unfinished message of a lane is readable, but the reader would not be told of its end if it were
    /// dropped.
    pub(super) fn ends_unseen(&self, unordered: bool) -> bool {
        let lane = if unordered { self.unordered.as_deref() } else { Some(&self.ordered) };
        let Some(lane) = lane else { return false };
        let told = self.reading == Some(unordered) && lane.messages.is_empty();
        lane.tail.as_ref().is_some_and(|tail| tail.exposed) && !told
    }
}

impl Order {
    /// Starts to track the order. Nothing has arrived yet.
    pub(crate) fn track_arrivals(&mut self) {
        self.arrivals = Some(Box::default());
    }

    /// Adds messages of a lane that have become readable.
    #[inline]
    pub(super) fn arrive(&mut self, stream: u16, unordered: bool, count: u64) {
        if let Some(arrivals) = &mut self.arrivals {
            for _ in 0..count {
                arrivals.0.push_back((stream, unordered));
            }
        }
    }

    /// A message of a lane was read to its end.
    #[inline]
    pub(super) fn depart(&mut self, stream: u16, unordered: bool) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.strike((stream, unordered), false);
        }
    }

    /// The readable, unfinished message at the end of a lane is dropped without notice to the reader.
    pub(super) fn withdraw(&mut self, stream: u16, unordered: bool) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.strike((stream, unordered), true);
        }
    }

    /// Returns the lane to read next. A message delivered in parts does not block others while all of its parts are
    /// read.
    fn next_arrival(&self) -> Option<(u16, bool)> {
        let offers = |&&(stream, unordered): &&(u16, bool)| {
            self.streams.get(stream).is_some_and(|state| state.offers(unordered))
        };
        self.arrivals.as_ref()?.0.iter().find(offers).copied()
    }

    /// Returns the message that will be read next, or the part of it that has arrived.
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

    /// As [`read`](Self::read), for what became readable first on any stream. Returns that stream as well.
    pub(crate) fn read_next(&mut self, out: &mut [u8]) -> Option<(u16, Received)> {
        let (stream, unordered) = self.next_arrival()?;
        let slot = self.streams.find(stream)?;
        let received = self.read_lane(slot, stream, unordered, out)?;
        let state = self.streams.at(slot);
        state.signalled &= state.readable();
        Some((stream, received))
    }
}
