//! The events of an association other than received messages: about its paths, its streams, its peer, and messages that
//! were sent.
//!
//! Home of RFC 9260 §11.2, RFC 6458 §6.1 as far as this crate goes.

use crate::association::Handle;
use anabranch_sctp::{AddressChange, Direction, Event as EngineEvent, KeyChange, Policy, ReconfigResult};
use anabranch_transport::CloseReason;
use bytes::Bytes;
use futures_core::Stream;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// An event of an association.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A path works: it was verified, or has recovered from a failure or a suspected failure.
    PathUp(IpAddr),
    /// A path may have failed (RFC 7829): data uses other paths until it answers ([`PathUp`](Self::PathUp)) or has failed
    /// ([`PathDown`](Self::PathDown)).
    PathPotentiallyFailed(IpAddr),
    /// A path does not answer any more (RFC 9260 §8.2).
    PathDown(IpAddr),
    /// Data makes progress again after an interruption, on another path or on one that had failed meanwhile.
    Interrupted {
        /// True if the peer was the sender: no data arrived. False if this side was: none of its data was acknowledged.
        received: bool,
        /// The duration, 100 ms or more.
        outage: Duration,
        /// The peer's address on the path of the last data before the interruption.
        from: IpAddr,
        /// The peer's address on the path of the first data after it.
        to: IpAddr,
    },
    /// Data uses this address as the primary destination from now on, as requested by this side or by the peer (RFC 6458
    /// §6.1.2, RFC 5061 §5.4).
    PrimaryChanged(IpAddr),
    /// The peer has added an address (RFC 5061).
    AddressAdded(IpAddr),
    /// The peer has removed an address (RFC 5061).
    AddressRemoved(IpAddr),
    /// The peer has answered a change of a local address (RFC 5061).
    LocalAddress {
        /// The local address.
        address: IpAddr,
        /// Its new state at the peer.
        change: AddressChange,
    },
    /// The peer is closing the association and accepts no more data. Messages sent before are still delivered.
    PeerShutdown,
    /// The peer has restarted (RFC 9260 §5.2.4 A): streams start again at 0, and unacknowledged messages are lost.
    /// [`SendFailed`](Self::SendFailed) has been reported for each of them.
    Restarted,
    /// A message was abandoned according to its [`SendOptions`](crate::SendOptions) (RFC 3758).
    Abandoned {
        /// The stream it was for.
        stream: u16,
        /// Its payload protocol identifier.
        ppid: u32,
        /// The context it was sent with.
        context: u32,
        /// Its length in bytes.
        length: u32,
        /// The policy by which it was abandoned.
        policy: Policy,
        /// Whether at least a part of it had been sent: it may have arrived nevertheless.
        sent: bool,
    },
    /// A message was not delivered, as far as is known, and will not be sent again (RFC 9260 §11.2.2).
    SendFailed(Box<SendFailed>),
    /// Streams were reset, as requested by either side (RFC 6525): their next message has number 0.
    StreamsReset {
        /// The direction of the streams.
        direction: Direction,
        /// The streams, in ascending order; empty means all.
        streams: Box<[u16]>,
    },
    /// The peer did not do what [`Association::reset_streams`](crate::Association::reset_streams) requested.
    ResetFailed {
        /// The direction of the streams; `None` for the whole association.
        direction: Option<Direction>,
        /// The streams, in ascending order; empty means all.
        streams: Box<[u16]>,
        /// The peer's answer.
        result: ReconfigResult,
    },
    /// The peer asks for a reset of our outgoing streams (RFC 6525 §5.2.3): it happens after the queued messages have
    /// been sent.
    ResetRequested {
        /// The streams, in ascending order; empty means all.
        streams: Box<[u16]>,
    },
    /// Streams were added, as requested by either side (RFC 6525).
    StreamsAdded {
        /// The number of additional outgoing streams.
        outgoing: u16,
        /// The number of additional incoming streams.
        incoming: u16,
    },
    /// The peer did not do what [`Association::add_streams`](crate::Association::add_streams) requested.
    AddFailed {
        /// The number of outgoing streams requested.
        outgoing: u16,
        /// The number of incoming streams requested.
        incoming: u16,
        /// The peer's answer.
        result: ReconfigResult,
    },
    /// All sequence numbers of both sides were reset (RFC 6525 §5.2.4).
    AssociationReset,
    /// A shared key has become active or inactive, or is missing (RFC 6458 §6.1.8).
    Key {
        /// The key's identifier.
        key: u16,
        /// The change.
        change: KeyChange,
    },
    /// The peer's adaptation layer indication, sent in the handshake (RFC 5061 §4.2.6).
    Adaptation(u32),
    /// One cause of an ERROR chunk that the peer has sent (RFC 9260 §3.3.10).
    PeerError {
        /// The cause code.
        code: u16,
        /// The content of the cause, without its header.
        cause: Box<[u8]>,
    },
    /// The peer's program has aborted the association with this reason. [`Closed`](Self::Closed) follows.
    AbortReason(Box<[u8]>),
    /// This number of events was lost because nobody took them; they preceded the next event.
    Missed(u64),
    /// The association has ended: the last event.
    Closed(CloseReason),
}

/// A message that was not delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SendFailed {
    /// The stream it was for.
    pub stream: u16,
    /// Its payload protocol identifier.
    pub ppid: u32,
    /// The context it was sent with.
    pub context: u32,
    /// Whether it was sent unordered.
    pub unordered: bool,
    /// Whether at least a part of it had been sent: it may have arrived nevertheless.
    pub sent: bool,
    /// Its length in bytes.
    pub length: u32,
    /// The message itself; `None` if the peer had acknowledged a part of it.
    pub message: Option<Bytes>,
}

impl Event {
    /// Converts an engine event; `None` if programs learn of it in another way.
    pub(crate) fn of(event: EngineEvent) -> Option<Self> {
        Some(match event {
            EngineEvent::PathUp { address, .. } => Self::PathUp(address),
            EngineEvent::PathPotentiallyFailed { address, .. } => Self::PathPotentiallyFailed(address),
            EngineEvent::PathDown { address, .. } => Self::PathDown(address),
            EngineEvent::Interrupted { received, outage, from, to, .. } => {
                Self::Interrupted { received, outage, from, to }
            }
            EngineEvent::PrimaryChanged { address, .. } => Self::PrimaryChanged(address),
            EngineEvent::PathAdded { address, .. } => Self::AddressAdded(address),
            EngineEvent::PathRemoved { address, .. } => Self::AddressRemoved(address),
            EngineEvent::LocalAddress { address, change, .. } => Self::LocalAddress { address, change },
            EngineEvent::PeerShutdown { .. } => Self::PeerShutdown,
            EngineEvent::Restarted { .. } => Self::Restarted,
            EngineEvent::Abandoned { stream, ppid, context, bytes, policy, sent, .. } => {
                Self::Abandoned { stream, ppid, context, length: bytes, policy, sent }
            }
            EngineEvent::SendFailed { stream, ppid, context, bytes, unordered, sent, payload, .. } => {
                let message = payload.map(Bytes::from);
                let failed = SendFailed { stream, ppid, context, unordered, sent, length: bytes, message };
                Self::SendFailed(Box::new(failed))
            }
            EngineEvent::StreamsReset { direction, streams, .. } => {
                Self::StreamsReset { direction, streams: streams.into() }
            }
            EngineEvent::ResetFailed { direction, streams, result, .. } => {
                Self::ResetFailed { direction, streams: streams.into(), result }
            }
            EngineEvent::ResetRequested { streams, .. } => Self::ResetRequested { streams: streams.into() },
            EngineEvent::StreamsAdded { outgoing, incoming, .. } => Self::StreamsAdded { outgoing, incoming },
            EngineEvent::AddFailed { outgoing, incoming, result, .. } => {
                Self::AddFailed { outgoing, incoming, result }
            }
            EngineEvent::AssociationReset { .. } => Self::AssociationReset,
            EngineEvent::Key { key, change, .. } => Self::Key { key, change },
            EngineEvent::Adaptation { code, .. } => Self::Adaptation(code),
            EngineEvent::PeerError { code, cause, .. } => Self::PeerError { code, cause: cause.into() },
            EngineEvent::AbortReason { reason, .. } => Self::AbortReason(reason.into()),
            _ => return None,
        })
    }

    /// The number of bytes that are kept with the event besides its own.
    fn weight(&self) -> usize {
        match self {
            Self::SendFailed(failed) => failed.message.as_ref().map_or(0, Bytes::len),
            _ => 0,
        }
    }
}

/// The most recent events of an association that have not been taken yet.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    waiting: VecDeque<Event>,
    /// The bytes of undelivered messages among them.
    weight: usize,
    missed: u64,
    /// Whether a program takes the events.
    listening: bool,
    /// Whether the last event has been taken.
    done: bool,
    wakers: Vec<Waker>,
}

impl EventQueue {
    /// Adds an event. `most` limits the bytes of messages that wait with the events.
    pub(crate) fn push(&mut self, event: Event, most: usize) {
        self.weight += event.weight();
        if self.waiting.capacity() == 0 {
            // Of thousands of associations, few may ever have more than one event.
            self.waiting.reserve_exact(1);
        }
        self.waiting.push_back(event);
        let count = if self.listening { MAX_EVENTS } else { MAX_UNHEARD };
        while self.waiting.len() > count || self.weight > most && self.waiting.len() > 1 {
            self.weight -= self.waiting.pop_front().map_or(0, |lost| lost.weight());
            self.missed += 1;
        }
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Notes that a program takes the events from now on.
    pub(crate) fn listen(&mut self) {
        self.listening = true;
    }

    fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Event>> {
        if self.missed > 0 {
            return Poll::Ready(Some(Event::Missed(std::mem::take(&mut self.missed))));
        }
        match self.waiting.pop_front() {
            Some(event) => {
                self.weight -= event.weight();
                self.done = matches!(event, Event::Closed(_));
                Poll::Ready(Some(event))
            }
            None if self.done => Poll::Ready(None),
            None => {
                if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    // Mostly only one task waits for events.
                    self.wakers.reserve_exact(1);
                    self.wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

/// The maximum number of waiting events.
const MAX_EVENTS: usize = 256;

/// The maximum number of waiting events before a program has asked for them.
const MAX_UNHEARD: usize = 16;

/// The events of an association from its start, in the order in which they occurred: a [`Stream`]. An association has one
/// list of events, and each event goes to the first task that takes it.
///
/// At most 256 events wait, with undelivered messages of at most the size of the send buffer. [`Event::Missed`] reports
/// how many were lost beyond that. Before [`Association::events`](crate::Association::events) is called, at most 16
/// events wait.
#[derive(Debug)]
pub struct Events {
    pub(crate) handle: Arc<Handle>,
}

impl Events {
    /// Returns the next event; `None` after [`Event::Closed`].
    ///
    /// Cancel-safe: if it is dropped before it is ready, no event has been taken.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&self, cx: &Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.handle.shared().lock();
        match state.events(self.handle.id()) {
            Some(events) => events.poll(cx),
            None => Poll::Ready(None),
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        Poll::Ready(ready!(self.poll_event(cx)))
    }
}
