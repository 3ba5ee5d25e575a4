//! Our end of an association, with what waits to be sent and what has come of it.
//!
//! The same in the virtual network and on a real one: an endpoint that the
//! drive loop of `transport` drives, a queue in front of it, and a ledger
//! behind it that checks each message as it comes.

use crate::peer::How;
use crate::traffic::{Ledger, Post};
use anabranch_base::Instant;
use anabranch_sctp::{AssociationId, CloseReason, Direction, Endpoint, Event, Message, SendError};
use anabranch_transport::drive::{EngineOwner, Notify};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Waker};

/// Our end, and what has come of it.
#[derive(Debug)]
pub struct Ours {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The association, once there is one.
    pub id: Option<AssociationId>,
    /// It is up.
    pub up: bool,
    /// How it ended.
    pub closed: Option<CloseReason>,
    /// The streams that were reset, in order of time.
    pub resets: Vec<(Direction, Vec<u16>)>,
    /// Requests of ours that failed.
    pub refused: usize,
    /// Whatever else was told, in order of time.
    pub heard: Vec<Event>,
    /// What the other side sends us.
    pub inbox: Ledger,
    parts: BTreeMap<u16, Vec<u8>>,
    unsent: VecDeque<Post>,
    buffer: Vec<u8>,
    fault: Option<String>,
    notify: Notify,
    waker: Option<Waker>,
}

impl Ours {
    /// An end with an association under way, or one that waits for it.
    #[must_use]
    pub fn new(endpoint: Endpoint, id: Option<AssociationId>) -> Self {
        Self {
            endpoint,
            id,
            up: false,
            closed: None,
            resets: Vec::new(),
            refused: 0,
            heard: Vec::new(),
            inbox: Ledger::default(),
            parts: BTreeMap::new(),
            unsent: VecDeque::new(),
            buffer: vec![0; 1 << 16],
            fault: None,
            notify: Notify::default(),
            waker: None,
        }
    }

    /// Tells the endpoint something.
    pub fn tell<T>(
        &mut self,
        now: Instant,
        tell: impl FnOnce(&mut Endpoint, Instant, AssociationId) -> T,
    ) -> T {
        let id = self.id.expect("an association");
        let told = tell(&mut self.endpoint, now, id);
        self.notify.notify();
        told
    }

    /// Sends a message, as soon as there is room.
    pub fn post(&mut self, now: Instant, post: Post) {
        self.unsent.push_back(post);
        self.pump(now);
        self.notify.notify();
    }

    /// Nothing waits for room any more.
    #[must_use]
    pub fn all_given(&self) -> bool {
        self.unsent.is_empty()
    }

    /// What went wrong, if anything did.
    #[must_use]
    pub fn fault(&self) -> Option<&String> {
        self.fault.as_ref()
    }

    /// The polling task is woken when something happens.
    pub fn wait(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }

    /// Hands over what waits, as far as there is room.
    fn pump(&mut self, now: Instant) {
        let Some(id) = self.id else { return };
        while let Some(post) = self.unsent.front() {
            let How { stream, unordered, reliability } = post.how;
            let message = Message { stream, unordered, reliability, ppid: 53, ..Message::default() };
            match self.endpoint.send(now, id, message, &post.payload()) {
                Ok(()) => self.unsent.pop_front(),
                Err(SendError::Full) => return,
                Err(error) => {
                    // Of an association that has ended this is no news.
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
            other => self.heard.push(other),
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
