//! An association as it is kept behind the lock: its streams, their holders and waiting tasks, and how it ended.
//!
//! Home of no protocol rule.

use crate::event::{Event, EventQueue};
use crate::partial::Partials;
use crate::turns::Turns;
use anabranch_sctp::{AssociationId, Endpoint};
use anabranch_transport::CloseReason;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::Notify;

/// The notifications of an association for waiting tasks.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The association is established, or has ended.
    pub(crate) state: Notify,
    /// A stream has data to read, or there will be no more data.
    pub(crate) readable: Notify,
    /// The peer has begun a stream without a holder, or will begin none any more.
    pub(crate) begun: Notify,
}

/// An association.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) signals: Arc<Signals>,
    /// The peer's first address, with its SCTP port.
    pub(crate) peer: SocketAddr,
    /// The UDP port from which its packets came, or to which they go, at first.
    pub(crate) udp: u16,
    pub(crate) established: bool,
    /// Whether the peer began it.
    pub(crate) accepted: bool,
    /// Whether a program holds it, or may still accept it.
    pub(crate) held: bool,
    /// Whether this side has started to close it.
    pub(crate) closing: bool,
    /// Whether a task receives messages of any stream.
    pub(crate) reads_all: bool,
    /// Whether the peer has sent everything.
    pub(crate) peer_shutdown: bool,
    outbound: u16,
    inbound: u16,
    /// All streams below this number are held.
    first_free: u16,
    /// Streams that are held or announced, sorted by number.
    streams: Vec<StreamEntry>,
    /// Streams that the peer has begun and that have no holder.
    begun: VecDeque<u16>,
    /// Messages that wait for room in the send buffer.
    pub(crate) turns: Turns,
    pub(crate) partials: Partials,
    pub(crate) events: EventQueue,
    ended: Option<CloseReason>,
}

/// A stream of an association.
#[derive(Debug)]
pub(crate) struct StreamEntry {
    number: u16,
    /// Whether the sending half and the receiving half are held.
    pub(crate) halves: [bool; 2],
    /// Whether the stream is in `begun`.
    announced: bool,
    reader: Option<Waker>,
    /// The waker of a task that writes bytes and waits for room.
    writer: Option<Waker>,
    /// The task that waits for a lower buffered amount, and its threshold.
    low: Option<Box<(usize, Waker)>>,
}

/// The index of the sending half of a stream.
pub(crate) const SEND: usize = 0;
/// The index of the receiving half of a stream.
pub(crate) const RECV: usize = 1;

impl Entry {
    pub(crate) fn begun(peer: SocketAddr, udp: u16) -> Self {
        Self {
            signals: Arc::default(),
            peer,
            udp,
            established: false,
            accepted: false,
            held: true,
            closing: false,
            reads_all: false,
            peer_shutdown: false,
            outbound: 0,
            inbound: 0,
            first_free: 0,
            streams: Vec::new(),
            begun: VecDeque::new(),
            turns: Turns::default(),
            partials: Partials::default(),
            events: EventQueue::default(),
            ended: None,
        }
    }

    pub(crate) fn ended(&self) -> Option<&CloseReason> {
        self.ended.as_ref()
    }

    /// Why nothing more can be sent, if that is so.
    pub(crate) fn shut(&self) -> Option<CloseReason> {
        self.ended.clone().or_else(|| self.closing.then_some(CloseReason::Finished))
    }

    /// The number of stream pairs that exist in both directions.
    pub(crate) fn pairs(&self) -> u16 {
        self.outbound.min(self.inbound)
    }

    pub(crate) fn set_streams(&mut self, outbound: u16, inbound: u16) {
        (self.outbound, self.inbound) = (outbound, inbound);
    }

    pub(crate) fn on_established(&mut self, outbound: u16, inbound: u16) {
        self.established = true;
        self.set_streams(outbound, inbound);
        self.signals.state.notify_waiters();
    }

    /// Returns the lowest stream without a holder.
    pub(crate) fn free_stream(&mut self) -> Option<u16> {
        let pairs = self.pairs();
        let free = (self.first_free..pairs).find(|&number| !self.is_held(number));
        self.first_free = free.unwrap_or(pairs);
        free
    }

    fn place(&self, number: u16) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&number, |stream| stream.number)
    }

    fn is_held(&self, number: u16) -> bool {
        self.place(number).is_ok_and(|place| self.streams[place].halves != [false; 2])
    }

    fn stream(&mut self, number: u16) -> &mut StreamEntry {
        let place = self.place(number).unwrap_or_else(|place| {
            if self.streams.len() < 4 {
                // Thousands of associations may never use more.
                self.streams.reserve_exact(1);
            }
            let (halves, announced) = ([false; 2], false);
            let new = StreamEntry { number, halves, announced, reader: None, writer: None, low: None };
            self.streams.insert(place, new);
            place
        });
        &mut self.streams[place]
    }

    /// Takes both halves of a stream; returns false if either is held.
    pub(crate) fn hold(&mut self, number: u16) -> bool {
        if self.is_held(number) {
            return false;
        }
        self.stream(number).halves = [true; 2];
        true
    }

    /// Releases one half of a stream. Returns true if unread data must be discarded, because the sending half is still
    /// held. Otherwise the data remains for the next holder.
    pub(crate) fn give_back(&mut self, number: u16, half: usize) -> bool {
        let stream = self.stream(number);
        stream.halves[half] = false;
        stream.low = if half == SEND { None } else { stream.low.take() };
        let (held, announced) = (stream.halves != [false; 2], stream.announced);
        if !held {
            self.first_free = self.first_free.min(number);
            if !announced && let Ok(place) = self.place(number) {
                self.streams.remove(place);
            }
        }
        half == RECV && held && !self.reads_all
    }

    /// Whether data on a stream is discarded: its receiving half has been dropped, and its sending half is held.
    pub(crate) fn is_unread(&self, number: u16) -> bool {
        !self.reads_all && self.place(number).is_ok_and(|place| self.streams[place].halves == [true, false])
    }

    /// Removes and returns the first stream that the peer has begun and that has no holder.
    pub(crate) fn take_begun(&mut self) -> Option<u16> {
        let number = self.begun.pop_front()?;
        self.stream(number).announced = false;
        Some(number)
    }

    /// Announces a stream without a holder once, when it has data to read.
    pub(crate) fn announce(&mut self, number: u16) {
        if number >= self.pairs() || self.is_held(number) {
            return;
        }
        if !std::mem::replace(&mut self.stream(number).announced, true) {
            self.begun.push_back(number);
            self.signals.begun.notify_waiters();
        }
    }

    pub(crate) fn on_readable(&mut self, number: u16) {
        if let Ok(place) = self.place(number)
            && let Some(reader) = self.streams[place].reader.take()
        {
            reader.wake();
        }
        self.signals.readable.notify_waiters();
        self.announce(number);
    }

    pub(crate) fn wait_to_read(&mut self, number: u16, cx: &Context<'_>) {
        self.stream(number).reader = Some(cx.waker().clone());
    }

    pub(crate) fn wait_to_write(&mut self, number: u16, cx: &Context<'_>) {
        self.stream(number).writer = Some(cx.waker().clone());
    }

    pub(crate) fn wait_for_low(&mut self, number: u16, most: usize, cx: &Context<'_>) {
        self.stream(number).low = Some(Box::new((most, cx.waker().clone())));
    }

    /// Handles new room in the send buffer: first for messages, then for tasks that write bytes.
    pub(crate) fn on_writable(&mut self) {
        if self.turns.is_empty() {
            self.streams.iter_mut().filter_map(|stream| stream.writer.take()).for_each(Waker::wake);
        } else {
            self.turns.wake_first();
        }
    }

    /// Removes a message from the queue after its turn.
    pub(crate) fn leave(&mut self, ticket: u32) {
        self.turns.leave(ticket);
        if self.turns.is_empty() {
            self.on_writable();
        }
    }

    /// Wakes tasks whose streams have drained; returns false if no task waits any more.
    pub(crate) fn wake_drained(&mut self, endpoint: &Endpoint, id: AssociationId) -> bool {
        let mut waits = false;
        for stream in &mut self.streams {
            let number = stream.number;
            if stream.low.as_ref().is_some_and(|low| endpoint.buffered_amount(id, number) <= low.0) {
                stream.low.take().into_iter().for_each(|low| low.1.wake());
            }
            waits |= stream.low.is_some();
        }
        waits
    }

    pub(crate) fn on_restarted(&mut self) {
        self.partials = Partials::default();
        self.wake_all();
    }

    /// Wakes all tasks that send, because nothing more can be sent.
    pub(crate) fn wake_writers(&mut self) {
        self.turns.wake_all();
        self.streams.iter_mut().filter_map(|stream| stream.writer.take()).for_each(Waker::wake);
        for low in self.streams.iter_mut().filter_map(|stream| stream.low.take()) {
            low.1.wake();
        }
    }

    pub(crate) fn wake_all(&mut self) {
        self.wake_writers();
        self.streams.iter_mut().filter_map(|stream| stream.reader.take()).for_each(Waker::wake);
        self.signals.state.notify_waiters();
        self.signals.readable.notify_waiters();
        self.signals.begun.notify_waiters();
    }

    /// Records the end of the association; returns false if it had already ended. `most` limits the bytes of messages
    /// that wait with the events.
    pub(crate) fn end(&mut self, reason: CloseReason, most: usize) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.ended = Some(reason.clone());
        self.events.push(Event::Closed(reason), most);
        self.wake_all();
        true
    }
}
