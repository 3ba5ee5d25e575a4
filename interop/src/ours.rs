//! Our endpoint of an association in an interoperability test, with its queue of messages and its events.
//!
//! Our endpoint runs in the virtual network and on a real network. It consists of an SCTP endpoint, a queue of messages
//! to send, and a ledger that checks each message when it arrives. The drive loop of `transport` drives the endpoint.

use crate::peer::DeliveryOptions;
use crate::traffic::{Ledger, Post};
use anabranch_base::Instant;
use anabranch_sctp::{AssociationId, CloseReason, Direction, Endpoint, Event, Message, SendError};
use anabranch_transport::drive::{EngineOwner, Notify};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Waker};

/// Our endpoint of an association, and its events.
#[derive(Debug)]
pub struct Ours {
    /// The endpoint of the SCTP engine.
    pub endpoint: Endpoint,
    /// The association; `None` until it exists.
    pub id: Option<AssociationId>,
    /// Whether our endpoint has reported that the association is established.
    pub up: bool,
    /// The reason why the association ended; `None` while it lasts.
    pub closed: Option<CloseReason>,
    /// The streams that were reset, in the order of the resets.
    pub resets: Vec<(Direction, Vec<u16>)>,
    /// The number of our stream reset requests that failed.
    pub refused: usize,
    /// All other events of our endpoint, in order of time.
    pub events: Vec<Event>,
    /// The messages from the other endpoint to ours that have not arrived here yet.
    pub inbox: Ledger,
    parts: BTreeMap<u16, Vec<u8>>,
    unsent: VecDeque<Post>,
    buffer: Vec<u8>,
    fault: Option<String>,
    notify: Notify,
    waker: Option<Waker>,
}

impl Ours {
    /// Creates our endpoint of an association. `id` is the association in progress; `None` if the endpoint waits for
    /// one.
    #[must_use]
    pub fn new(endpoint: Endpoint, id: Option<AssociationId>) -> Self {
        Self {
            endpoint,
            id,
            up: false,
            closed: None,
            resets: Vec::new(),
            refused: 0,
            events: Vec::new(),
            inbox: Ledger::default(),
            parts: BTreeMap::new(),
            unsent: VecDeque::new(),
            buffer: vec![0; 1 << 16],
            fault: None,
            notify: Notify::default(),
            waker: None,
        }
    }

    /// Calls `tell` with the endpoint, the current time and the association. Returns the result of `tell`.
    pub fn tell<T>(
        &mut self,
        now: Instant,
        tell: impl FnOnce(&mut Endpoint, Instant, AssociationId) -> T,
    ) -> T {
        let id = self.id.expect("an association");
        let result = tell(&mut self.endpoint, now, id);
        self.notify.notify();
        result
    }

    /// Queues a message, which is sent as soon as the endpoint's send buffer has room.
    pub fn post(&mut self, now: Instant, post: Post) {
        self.unsent.push_back(post);
        self.pump(now);
        self.notify.notify();
    }

    /// Returns whether all queued messages were passed to the endpoint.
    #[must_use]
    pub fn all_given(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Returns the first failure that was observed, if any.
    #[must_use]
    pub fn fault(&self) -> Option<&String> {
        self.fault.as_ref()
    }

    /// Wakes the polling task at the next event.
    pub fn wait(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }

    /// Passes queued messages to the endpoint until its send buffer has no room.
    fn pump(&mut self, now: Instant) {
        let Some(id) = self.id else { return };
        while let Some(post) = self.unsent.front() {
            let DeliveryOptions { stream, unordered, reliability } = post.options;
            let message = Message { stream, unordered, reliability, ppid: 53, ..Message::default() };
            match self.endpoint.send(now, id, message, &post.payload()) {
                Ok(()) => self.unsent.pop_front(),
                Err(SendError::Full) => return,
                Err(error) => {
                    // An error of `send` is expected if the association has ended.
                    if self.closed.is_none() {
                        self.fault.get_or_insert(format!("our send: {error}"));
                    }
                    return;
                }
            };
        }
    }

    fn read(&mut self, now: Instant, id: AssociationId, stream: u16) {
        while let Ok(Some(received)) = self.endpoint.recv(now, id, stream, &mut self.buffer) {
            let parts = self.parts.entry(stream).or_default();
            if received.incomplete {
                parts.clear();
                continue;
            }
            parts.extend_from_slice(&self.buffer[..received.bytes]);
            if received.end_of_message {
                let message = std::mem::take(parts);
                if let Err(fault) = self.inbox.deliver(stream, &message) {
                    self.fault.get_or_insert(fault);
                }
            }
        }
    }
}

impl EngineOwner for Ours {
    type Engine = Endpoint;

    fn engine(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Established { .. } => self.up = true,
            Event::Accepted { id, .. } => {
                self.id = Some(id);
                self.up = true;
            }
            Event::Readable { id, stream } => self.read(now, id, stream),
            Event::Writable { .. } => {
                self.pump(now);
                self.notify.notify();
            }
            Event::StreamsReset { direction, streams, .. } => self.resets.push((direction, streams)),
            Event::ResetFailed { .. } => self.refused += 1,
            Event::Closed { reason, .. } => self.closed = Some(reason),
            other => self.events.push(other),
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn handle_failure(&mut self, error: &io::Error) {
        self.fault.get_or_insert(error.to_string());
    }

    fn notify(&mut self) -> &mut Notify {
        &mut self.notify
    }
}
