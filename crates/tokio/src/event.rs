//! The events of an association, except received messages. The events are about the association's paths, streams and
//! peer, and about messages that were sent.
//!
//! Implements parts of RFC 9260 §11.2 and of RFC 6458 §6.1.

use anabranch_sctp::{AddressChange, Direction, Event as EngineEvent, KeyChange, Policy, ReconfigResult};
use anabranch_transport::CloseReason;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// An event of an association.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A path works: its address was verified, or the path has recovered from a failure or a suspected failure.
    PathUp(IpAddr),
    /// A path may have failed (RFC 7829), so data uses other paths. This state ends with [`PathUp`](Self::PathUp) when
    /// the path answers, or with [`PathDown`](Self::PathDown) when the path has failed.
    PathPotentiallyFailed(IpAddr),
    /// A path does not answer any more (RFC 9260 §8.2).
    PathDown(IpAddr),
    /// An interruption of the data has ended. The data resumed on another path, or on the same path. In the second
    /// case, the path had failed, or outstanding data had waited for longer than a retransmission timeout. The event
    /// occurs only on associations with several paths.
    Interrupted {
        /// True if the peer was sending, and its data did not arrive. False if this side was sending, and its data was
        /// not acknowledged.
        received: bool,
        /// The duration of the interruption, which is at least 100 ms.
        outage: Duration,
        /// The peer's address on the path that carried the last data before the interruption.
        from: IpAddr,
        /// The peer's address on the path that carried the first data after the interruption.
        to: IpAddr,
    },
    /// This address of the peer is the primary destination from now on. This side or the peer has requested the change
    /// (RFC 6458 §6.1.2, RFC 5061 §5.4).
    PrimaryChanged(IpAddr),
    /// The peer has added this address (RFC 5061).
    AddressAdded(IpAddr),
    /// The peer has removed this address (RFC 5061).
    AddressRemoved(IpAddr),
    /// The peer has answered a request to change a local address of the association (RFC 5061).
    LocalAddress {
        /// The local address.
        address: IpAddr,
        /// The peer's answer: whether it has added, removed or preferred the address, or has refused the request.
        change: AddressChange,
    },
    /// The peer is closing the association and accepts no more data. Messages sent before this event are still
    /// delivered.
    PeerShutdown,
    /// The peer has restarted (RFC 9260 §5.2.4 A). Sequence numbers of all streams start again at 0, and unacknowledged
    /// messages are lost. [`SendFailed`](Self::SendFailed) has been reported for each of these messages.
    Restarted,
    /// A message was abandoned according to its [`SendOptions`](crate::SendOptions) (RFC 3758).
    Abandoned {
        /// The stream of the message.
        stream: u16,
        /// The payload protocol identifier of the message.
        ppid: u32,
        /// The context with which the message was sent.
        context: u32,
        /// The length of the message in bytes.
        length: u32,
        /// The policy by which the message was abandoned.
        policy: Policy,
        /// Whether at least a part of the message was sent. The message may have arrived in that case.
        sent: bool,
    },
    /// A message will not be sent again, although no acknowledgement shows that it was delivered (RFC 9260 §11.2.2).
    SendFailed(Box<SendFailed>),
    /// Streams were reset, as requested by either side (RFC 6525). The next message on each of these streams has the
    /// sequence number 0.
    StreamsReset {
        /// The direction of the streams.
        direction: Direction,
        /// The streams that were reset, in ascending order; an empty list means all streams.
        streams: Box<[u16]>,
    },
    /// The peer did not perform the reset that [`Association::reset_streams`](crate::Association::reset_streams)
    /// requested.
    ResetFailed {
        /// The direction of the streams; `None` for the whole association.
        direction: Option<Direction>,
        /// The streams of the request, in ascending order; an empty list means all streams.
        streams: Box<[u16]>,
        /// The result in the peer's answer.
        result: ReconfigResult,
    },
    /// The peer asks for a reset of our outgoing streams (RFC 6525 §5.2.3). The reset happens after the queued messages
    /// have been sent.
    ResetRequested {
        /// The streams to be reset, in ascending order; an empty list means all streams.
        streams: Box<[u16]>,
    },
    /// Streams were added, as requested by either side (RFC 6525).
    StreamsAdded {
        /// The number of additional outgoing streams.
        outgoing: u16,
        /// The number of additional incoming streams.
        incoming: u16,
    },
    /// The peer did not add the streams that [`Association::add_streams`](crate::Association::add_streams) requested.
    AddFailed {
        /// The number of outgoing streams that were requested.
        outgoing: u16,
        /// The number of incoming streams that were requested.
        incoming: u16,
        /// The result in the peer's answer.
        result: ReconfigResult,
    },
    /// All sequence numbers of both sides were reset (RFC 6525 §5.2.4).
    AssociationReset,
    /// A shared key has become active or inactive, or is missing (RFC 6458 §6.1.8).
    Key {
        /// The key's identifier.
        key: u16,
        /// The change of the key.
        change: KeyChange,
    },
    /// The peer's adaptation layer indication, which the peer sent in the handshake (RFC 5061 §4.2.6).
    Adaptation(u32),
    /// One cause of an ERROR chunk that the peer has sent (RFC 9260 §3.3.10).
    PeerError {
        /// The cause code.
        code: u16,
        /// The content of the error cause, without its header.
        cause: Box<[u8]>,
    },
    /// The peer's program has aborted the association with this reason. The event [`Closed`](Self::Closed) follows.
    AbortReason(Box<[u8]>),
    /// The queue was full, so this number of events was lost. The lost events occurred before the next event that the
    /// program takes.
    Lagged(u64),
    /// The association has ended for this reason. This is the last event.
    Closed(CloseReason),
}

/// A message that was not delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SendFailed {
    /// The stream of the message.
    pub stream: u16,
    /// The payload protocol identifier of the message.
    pub ppid: u32,
    /// The context with which the message was sent.
    pub context: u32,
    /// Whether the message was sent unordered.
    pub unordered: bool,
    /// Whether at least a part of the message was sent. The message may have arrived in that case.
    pub sent: bool,
    /// The length of the message in bytes.
    pub length: u32,
    /// The payload of the whole message; `None` if the peer has acknowledged a part of it.
    pub message: Option<Bytes>,
}

impl Event {
    /// Converts an event of the engine. Returns `None` if this crate reports it by a future or a return value.
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

    /// Returns the number of bytes of the undelivered message that the event holds.
    fn weight(&self) -> usize {
        match self {
            Self::SendFailed(failed) => failed.message.as_ref().map_or(0, Bytes::len),
            _ => 0,
        }
    }
}

/// The queue of an association's events that the program has not taken yet. If the queue is full, the oldest events are
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    waiting: VecDeque<Event>,
    /// The bytes of undelivered messages in the queue.
    weight: usize,
    dropped: u64,
    /// Whether a program has asked for the events.
    listening: bool,
    /// Whether the last event (`Closed`) has been taken.
    done: bool,
    wakers: Vec<Waker>,
}

impl EventQueue {
    /// Adds an event to the queue. If the queue is then too long, or holds more than `most` bytes of undelivered
    /// messages, the oldest events are dropped.
    pub(crate) fn push(&mut self, event: Event, most: usize) {
        self.weight += event.weight();
        if self.waiting.capacity() == 0 {
            // Room for only one event is reserved, because in most associations no more than one event waits at a time.
            self.waiting.reserve_exact(1);
        }
        self.waiting.push_back(event);
        let count = if self.listening { MAX_EVENTS } else { MAX_UNHEARD };
        while self.waiting.len() > count || self.weight > most && self.waiting.len() > 1 {
            self.weight -= self.waiting.pop_front().map_or(0, |lost| lost.weight());
            self.dropped += 1;
        }
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Records that a program takes the events from now on.
    pub(crate) fn listen(&mut self) {
        self.listening = true;
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Event>> {
        if self.dropped > 0 {
            return Poll::Ready(Some(Event::Lagged(std::mem::take(&mut self.dropped))));
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
                    // Room for only one waker is reserved, because usually only one task waits for events.
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

/// The maximum number of waiting events as long as no program has asked for events.
const MAX_UNHEARD: usize = 16;
