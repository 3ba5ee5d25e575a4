//! An association as it is kept behind the lock: its streams, who holds and who waits for them, and how it ended.
//!
//! Home of no rule of a protocol.

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

/// What tasks wait for that concerns an association.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// It is established, or has ended.
    pub(crate) state: Notify,
    /// A stream has something to read, or there will be nothing more.
    pub(crate) readable: Notify,
    /// The peer has begun a stream that nobody holds, or will begin none.
    pub(crate) begun: Notify,
}

/// An association.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) signals: Arc<Signals>,
    /// The peer's first address, with its port of SCTP.
    pub(crate) peer: SocketAddr,
    /// The UDP port that its packets came from, or go to, at first.
    pub(crate) udp: u16,
    pub(crate) established: bool,
    /// The peer began it.
    pub(crate) accepted: bool,
    /// A program holds it, or may accept it.
    pub(crate) held: bool,
    /// This side has asked for its end.
    pub(crate) closing: bool,
    /// Somebody reads whatever the stream.
    pub(crate) reads_all: bool,
    /// The peer sends nothing more.
    pub(crate) peer_shutdown: bool,
    outbound: u16,
    inbound: u16,
    /// No stream of a lower number is free.
    first_free: u16,
    /// Streams that are held or were announced, by number.
    streams: Vec<StreamEntry>,
    /// Streams that the peer has begun and that nobody holds.
    begun: VecDeque<u16>,
    /// Messages that wait for room.
    pub(crate) turns: Turns,
    pub(crate) partials: Partials,
    pub(crate) events: EventQueue,
    ended: Option<CloseReason>,
}

/// A stream of an association.
#[derive(Debug)]
pub(crate) struct StreamEntry {
    number: u16,
    /// Somebody holds the half that writes, the half that reads.
    pub(crate) halves: [bool; 2],
    /// Stands in `begun`.
    announced: bool,
    reader: Option<Waker>,
    /// Writes bytes and waits for room.
    writer: Option<Waker>,
    /// Who waits for less to be buffered, and for how much.
    low: Option<Box<(usize, Waker)>>,
}

/// Which half of a stream.
pub(crate) const SEND: usize = 0;
/// The other one.
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

    /// Why nothing more can be sent, if so.
    pub(crate) fn shut(&self) -> Option<CloseReason> {
        self.ended.clone().or_else(|| self.closing.then_some(CloseReason::Finished))
    }

    /// Streams that go both ways.
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

    /// The lowest stream that nobody holds.
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

    /// Somebody takes both halves of a stream; false when they are taken.
    pub(crate) fn hold(&mut self, number: u16) -> bool {
        if self.is_held(number) {
            return false;
        }
        self.stream(number).halves = [true; 2];
        true
    }

    /// Somebody gives a half back. What is left to read there is to be thrown away (`true`), because somebody writes on, or it is
    /// there for the next who takes the stream.
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

    /// Whether what comes on a stream is thrown away: its reader is gone, and its writer is not.
    pub(crate) fn is_unread(&self, number: u16) -> bool {
        !self.reads_all && self.place(number).is_ok_and(|place| self.streams[place].halves == [true, false])
    }

    /// A stream that the peer has begun and that nobody holds is taken.
    pub(crate) fn take_begun(&mut self) -> Option<u16> {
        let number = self.begun.pop_front()?;
        self.stream(number).announced = false;
        Some(number)
    }

    /// A stream that is not held has something to read: it is announced, once.
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

    /// There is room to send: messages first, then who writes bytes.
    pub(crate) fn on_writable(&mut self) {
        if self.turns.is_empty() {
            self.streams.iter_mut().filter_map(|stream| stream.writer.take()).for_each(Waker::wake);
        } else {
            self.turns.wake_first();
        }
    }

    /// A message has had its turn.
    pub(crate) fn leave(&mut self, ticket: u32) {
        self.turns.leave(ticket);
        if self.turns.is_empty() {
            self.on_writable();
        }
    }

    /// Wakes whose streams have drained; false when nobody waits any more.
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

    /// Nothing more can be sent.
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

    /// It has ended; false when it had before. `most`: bytes of messages that wait with the events.
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
