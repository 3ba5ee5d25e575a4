//! What happens to an association beside the messages that come: its paths, its streams, its peer, and what became of
//! messages that were sent.
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

/// Something that has happened to an association.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A path works: it was verified, or has come back after a failure or the fear of one.
    PathUp(IpAddr),
    /// A path may have failed (RFC 7829): data goes elsewhere until it answers ([`PathUp`](Self::PathUp)) or is given up
    /// ([`PathDown`](Self::PathDown)).
    PathPotentiallyFailed(IpAddr),
    /// A path does not answer any more (RFC 9260 §8.2).
    PathDown(IpAddr),
    /// Data goes on that had not got on for a while, on another path or on one that had failed meanwhile.
    Interrupted {
        /// It was the data that the peer sends: nothing arrived. Else nothing was acknowledged of what was sent.
        received: bool,
        /// For how long, 100 ms or more.
        outage: Duration,
        /// The peer's address on the path of the last data before.
        from: IpAddr,
        /// On that of the data now.
        to: IpAddr,
    },
    /// Data goes to this address first from now on, by the wish of this side or of the peer (RFC 6458 §6.1.2, RFC 5061 §5.4).
    PrimaryChanged(IpAddr),
    /// The peer has one more address (RFC 5061).
    AddressAdded(IpAddr),
    /// The peer has given up an address (RFC 5061).
    AddressRemoved(IpAddr),
    /// The peer has answered to a change of an address of ours (RFC 5061).
    LocalAddress {
        /// Our address.
        address: IpAddr,
        /// What it is to the peer now.
        change: AddressChange,
    },
    /// The peer closes the association: it takes nothing more. What was sent before is still delivered.
    PeerShutdown,
    /// The peer has restarted (RFC 9260 §5.2.4 A): streams begin anew, and what it had not acknowledged is lost, of which
    /// [`SendFailed`](Self::SendFailed) has told.
    Restarted,
    /// A message was given up, as its [`SendOptions`](crate::SendOptions) have it (RFC 3758).
    Abandoned {
        /// The stream it was for.
        stream: u16,
        /// Its payload protocol identifier.
        ppid: u32,
        /// The context it was sent with.
        context: u32,
        /// Its length, bytes.
        length: u32,
        /// Why it was given up.
        policy: Policy,
        /// At least a part of it had been sent: it may have arrived all the same.
        sent: bool,
    },
    /// A message was not delivered, as far as is known, and will not be (RFC 9260 §11.2.2).
    SendFailed(Box<SendFailed>),
    /// Streams began anew, by the wish of either side (RFC 6525): their next message has number 0.
    StreamsReset {
        /// Whose streams.
        direction: Direction,
        /// Which, ascending; none means all.
        streams: Box<[u16]>,
    },
    /// The peer did not do what [`Association::reset_streams`](crate::Association::reset_streams) asked for.
    ResetFailed {
        /// Whose streams; `None` for the whole association.
        direction: Option<Direction>,
        /// Which, ascending; none means all.
        streams: Box<[u16]>,
        /// Why.
        result: ReconfigResult,
    },
    /// The peer wants streams that we send on to begin anew (RFC 6525 §5.2.3): they do once what was given to them is sent.
    ResetRequested {
        /// Which, ascending; none means all.
        streams: Box<[u16]>,
    },
    /// The association has more streams, by the wish of either side (RFC 6525).
    StreamsAdded {
        /// So many more to send on.
        outgoing: u16,
        /// So many more for the peer.
        incoming: u16,
    },
    /// The peer did not do what [`Association::add_streams`](crate::Association::add_streams) asked for.
    AddFailed {
        /// Streams to send on that were asked for.
        outgoing: u16,
        /// Streams of the peer that were asked for.
        incoming: u16,
        /// Why.
        result: ReconfigResult,
    },
    /// All numbers of both sides began anew (RFC 6525 §5.2.4).
    AssociationReset,
    /// A shared key has come into use, gone out of use, or is missing (RFC 6458 §6.1.8).
    Key {
        /// Its identifier.
        key: u16,
        /// What has become of it.
        change: KeyChange,
    },
    /// What runs above the peer's SCTP, as it said in the handshake (RFC 5061 §4.2.6).
    Adaptation(u32),
    /// The peer has sent an ERROR (RFC 9260 §3.3.10): one of its causes.
    PeerError {
        /// The cause code.
        code: u16,
        /// What the cause says, without its header.
        cause: Box<[u8]>,
    },
    /// The peer's program has ended the association at once and says why. [`Closed`](Self::Closed) follows.
    AbortReason(Box<[u8]>),
    /// So many events were lost, because nobody took them: those before the next one.
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
    /// It was to be delivered without regard to order.
    pub unordered: bool,
    /// At least a part of it had been sent: it may have arrived all the same.
    pub sent: bool,
    /// Its length, bytes.
    pub length: u32,
    /// The message itself; `None` where the peer had acknowledged a part of it.
    pub message: Option<Bytes>,
}

impl Event {
    /// What a program is told of an event of the engine; `None` of what it learns in another way.
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

    /// Bytes that are kept with it, beside its own.
    fn weight(&self) -> usize {
        match self {
            Self::SendFailed(failed) => failed.message.as_ref().map_or(0, Bytes::len),
            _ => 0,
        }
    }
}

/// Events of an association that nobody has taken yet: the latest of them.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    waiting: VecDeque<Event>,
    /// Bytes of messages that are handed back among them.
    weight: usize,
    missed: u64,
    /// Somebody takes them.
    listening: bool,
    /// The last one was taken.
    done: bool,
    wakers: Vec<Waker>,
}

impl EventQueue {
    /// One more. `most`: bytes of messages that may wait with them.
    pub(crate) fn push(&mut self, event: Event, most: usize) {
        self.weight += event.weight();
        if self.waiting.capacity() == 0 {
            // Of thousands of associations few may ever have more.
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

    /// Somebody takes them from now on.
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
                    // Mostly one task listens.
                    self.wakers.reserve_exact(1);
                    self.wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

/// Events that wait for who takes them.
const MAX_EVENTS: usize = 256;

/// Events that wait before anybody has asked for them.
const MAX_UNHEARD: usize = 16;

/// The events of an association, in the order in which they came about, from its beginning: a [`Stream`]. An association has
/// one list of them, and whoever takes one has it.
///
/// 256 events wait to be taken, and messages that were not delivered of as many bytes as the send buffer has; of those that
/// are lost beyond, [`Event::Missed`] tells. Before [`Association::events`](crate::Association::events) is called, 16 wait.
#[derive(Debug)]
pub struct Events {
    pub(crate) handle: Arc<Handle>,
}

impl Events {
    /// The next event; `None` after [`Event::Closed`].
    ///
    /// Cancel-safe: dropped before it is ready, it has taken none.
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
