//! The state that an endpoint keeps behind its lock for each association: streams and their handles, waiting tasks, and
//! the reason for the end.
//!
//! Implements no protocol rule.

use crate::event::{Event, EventQueue};
use crate::fair_queue::FairQueue;
use crate::partial::Partials;
use anabranch_sctp::{AssociationId, Endpoint};
use anabranch_transport::CloseReason;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::Notify;

/// The notifications for tasks that wait for an association.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The association has been established, or has ended.
    pub(crate) state: Notify,
    /// A stream has data to read, or no more data will arrive.
    pub(crate) readable: Notify,
    /// The peer has begun a stream that has no local handle, or the peer can begin no more streams.
    pub(crate) incoming_streams: Notify,
}

/// The part of an association's state that this crate keeps. The SCTP engine keeps the rest.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) signals: Arc<Signals>,
    /// The peer's first address, with the peer's SCTP port.
    pub(crate) peer: SocketAddr,
    /// The UDP port of the peer when the association started.
    pub(crate) udp_port: u16,
    pub(crate) established: bool,
    /// Whether the peer began the association.
    pub(crate) accepted: bool,
    /// Whether the program has a handle of the association, or may still accept it.
    pub(crate) has_handle: bool,
    /// Whether this side has started to close the association.
    pub(crate) closing: bool,
    /// Whether the program has called [`Association::recv`](crate::Association::recv), which receives the messages of
    /// all streams.
    pub(crate) reads_all: bool,
    /// Whether the peer is shutting down and all its data has arrived.
    pub(crate) peer_shutdown: bool,
    outbound: u16,
    inbound: u16,
    /// The stream number at which the search for a free stream begins. The program has handles of all streams with
    /// lower numbers.
    first_free: u16,
    /// The streams that have a handle or are listed in `incoming_streams`, sorted by number.
    streams: Vec<StreamEntry>,
    /// The streams that the peer has begun and that have no local handle, by number. They are in the order in which
    /// they began.
    incoming_streams: VecDeque<u16>,
    /// The queue of messages that wait for room in the send buffer.
    pub(crate) send_queue: FairQueue,
    pub(crate) partials: Partials,
    pub(crate) events: EventQueue,
    ended: Option<CloseReason>,
}

/// A stream of an association.
#[derive(Debug)]
pub(crate) struct StreamEntry {
    number: u16,
    /// Whether each half of the stream has a handle: first the sending half, then the receiving half.
    pub(crate) halves: [bool; 2],
    /// Whether the stream is in the list `incoming_streams`.
    announced: bool,
    reader: Option<Waker>,
    /// The waker of a task that writes bytes and waits for room in the send buffer.
    writer: Option<Waker>,
    /// A threshold in bytes, and the waker of the task that waits until the stream's buffered amount is at most this
    /// threshold.
    low_waiter: Option<Box<(usize, Waker)>>,
}

/// The index of the sending half of a stream.
pub(crate) const SEND: usize = 0;
/// The index of the receiving half of a stream.
pub(crate) const RECV: usize = 1;

impl Entry {
    pub(crate) fn new(peer: SocketAddr, udp_port: u16) -> Self {
        Self {
            signals: Arc::default(),
            peer,
            udp_port,
            established: false,
            accepted: false,
            has_handle: true,
            closing: false,
            reads_all: false,
            peer_shutdown: false,
            outbound: 0,
            inbound: 0,
            first_free: 0,
            streams: Vec::new(),
            incoming_streams: VecDeque::new(),
            send_queue: FairQueue::default(),
            partials: Partials::default(),
            events: EventQueue::default(),
            ended: None,
        }
    }

    pub(crate) fn ended(&self) -> Option<&CloseReason> {
        self.ended.as_ref()
    }

    /// Returns the reason why nothing more can be sent; `None` if sending is possible.
    pub(crate) fn shut(&self) -> Option<CloseReason> {
        self.ended.clone().or_else(|| self.closing.then_some(CloseReason::Finished))
    }

    /// Returns the number of streams that exist in both directions.
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

    /// Returns the lowest-numbered stream without a handle.
    pub(crate) fn free_stream(&mut self) -> Option<u16> {
        let pairs = self.pairs();
        let free = (self.first_free..pairs).find(|&number| !self.is_held(number));
        self.first_free = free.unwrap_or(pairs);
        free
    }

    fn index_of(&self, number: u16) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&number, |stream| stream.number)
    }

    fn is_held(&self, number: u16) -> bool {
        self.index_of(number).is_ok_and(|index| self.streams[index].halves != [false; 2])
    }

    fn stream(&mut self, number: u16) -> &mut StreamEntry {
        let index = self.index_of(number).unwrap_or_else(|index| {
            if self.streams.len() < 4 {
                // Room for only one more stream is reserved: there can be thousands of associations that never use
                // another stream.
                self.streams.reserve_exact(1);
            }
            let (halves, announced) = ([false; 2], false);
            let new = StreamEntry { number, halves, announced, reader: None, writer: None, low_waiter: None };
            self.streams.insert(index, new);
            index
        });
        &mut self.streams[index]
    }

    /// Records that both halves of a stream have a handle. Returns false, and changes nothing, if either half already
    /// has a handle.
    pub(crate) fn hold(&mut self, number: u16) -> bool {
        if self.is_held(number) {
            return false;
        }
        self.stream(number).halves = [true; 2];
        true
    }

    /// Records that one half of a stream (`SEND` or `RECV`) has no handle any more. Returns true if the stream's unread
    /// data must be discarded: the receiving half was released, and the sending half still has a handle. Otherwise the
    /// next handle of the stream gets the data.
    pub(crate) fn give_back(&mut self, number: u16, half: usize) -> bool {
        let stream = self.stream(number);
        stream.halves[half] = false;
        stream.low_waiter = if half == SEND { None } else { stream.low_waiter.take() };
        let (has_handle, announced) = (stream.halves != [false; 2], stream.announced);
        if !has_handle {
            self.first_free = self.first_free.min(number);
            if !announced && let Ok(index) = self.index_of(number) {
                self.streams.remove(index);
            }
        }
        half == RECV && has_handle && !self.reads_all
    }

    /// Returns whether received data of stream `number` is discarded. That is so if the application has dropped the
    /// receiving half of the stream, but still has a handle of the sending half.
    pub(crate) fn discards_data(&self, number: u16) -> bool {
        !self.reads_all
            && self.index_of(number).is_ok_and(|index| self.streams[index].halves == [true, false])
    }

    /// Removes and returns the first stream in `incoming_streams`.
    pub(crate) fn take_begun(&mut self) -> Option<u16> {
        let number = self.incoming_streams.pop_front()?;
        self.stream(number).announced = false;
        Some(number)
    }

    /// Announces a stream with unread data to the tasks that accept streams. Does nothing if the application already
    /// has a handle of the stream, or if the stream was announced before.
    pub(crate) fn announce(&mut self, number: u16) {
        if number >= self.pairs() || self.is_held(number) {
            return;
        }
        if !std::mem::replace(&mut self.stream(number).announced, true) {
            self.incoming_streams.push_back(number);
            self.signals.incoming_streams.notify_waiters();
        }
    }

    pub(crate) fn on_readable(&mut self, number: u16) {
        if let Ok(index) = self.index_of(number)
            && let Some(reader) = self.streams[index].reader.take()
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
        self.stream(number).low_waiter = Some(Box::new((most, cx.waker().clone())));
    }

    /// Handles new room in the send buffer. If messages wait for room, wakes the task of the first one. Otherwise wakes
    /// the tasks that write bytes.
    pub(crate) fn on_writable(&mut self) {
        if self.send_queue.is_empty() {
            self.streams.iter_mut().filter_map(|stream| stream.writer.take()).for_each(Waker::wake);
        } else {
            self.send_queue.wake_first();
        }
    }

    /// Removes a message from the queue, because the message was accepted or its task gave up.
    pub(crate) fn leave(&mut self, ticket: u32) {
        self.send_queue.leave(ticket);
        if self.send_queue.is_empty() {
            self.on_writable();
        }
    }

    /// Wakes each task whose stream now has a buffered amount of at most the task's threshold. Returns false if no task
    /// waits for a threshold any more.
    pub(crate) fn wake_drained(&mut self, endpoint: &Endpoint, id: AssociationId) -> bool {
        let mut waits = false;
        for stream in &mut self.streams {
            let number = stream.number;
            if stream
                .low_waiter
                .as_ref()
                .is_some_and(|low_waiter| endpoint.buffered_amount(id, number) <= low_waiter.0)
            {
                stream.low_waiter.take().into_iter().for_each(|low_waiter| low_waiter.1.wake());
            }
            waits |= stream.low_waiter.is_some();
        }
        waits
    }

    pub(crate) fn on_restarted(&mut self) {
        self.partials = Partials::default();
        self.wake_all();
    }

    /// Wakes all tasks that wait to send, because nothing more can be sent.
    pub(crate) fn wake_writers(&mut self) {
        self.send_queue.wake_all();
        self.streams.iter_mut().filter_map(|stream| stream.writer.take()).for_each(Waker::wake);
        for low_waiter in self.streams.iter_mut().filter_map(|stream| stream.low_waiter.take()) {
            low_waiter.1.wake();
        }
    }

    pub(crate) fn wake_all(&mut self) {
        self.wake_writers();
        self.streams.iter_mut().filter_map(|stream| stream.reader.take()).for_each(Waker::wake);
        self.signals.state.notify_waiters();
        self.signals.readable.notify_waiters();
        self.signals.incoming_streams.notify_waiters();
    }

    /// Records the end of the association. Returns false if the association had already ended. `most` limits the bytes
    /// of undelivered messages in the event queue.
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
