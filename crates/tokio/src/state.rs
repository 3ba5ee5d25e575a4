//! The engine of an endpoint, its associations, and the tasks that wait for them: everything behind the lock. Calls of a
//! program come from one side; packets, time and the engine's events come from the other.
//!
//! Home of RFC 9260 §11.2 (notifications) as far as they change the state kept here.

use crate::entry::{Entry, Signals};
use crate::event::{Event, EventQueue};
use crate::shared::EndpointSignals;
use anabranch_base::{Budget, Engine, Instant};
use anabranch_sctp::{
    AssociationId, CloseReason as EngineReason, Endpoint, Event as EngineEvent, Request, RequestId,
};
use anabranch_transport::drive::{EngineOwner, Notify};
use anabranch_transport::sctp::{PortClaims, follow_addresses, to_close_reason};
use anabranch_transport::{CloseReason, OpenError};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

/// The state behind the lock of an endpoint.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) endpoint: Endpoint,
    /// The memory budget that all associations share.
    pub(crate) memory: Budget,
    pub(crate) ports: PortClaims,
    notify: Notify,
    entries: BTreeMap<AssociationId, Box<Entry>>,
    /// The maximum number of associations begun by peers that wait to be accepted.
    pub(crate) backlog: usize,
    /// The port it listens on.
    listening: Option<u16>,
    /// Whether a program holds the endpoint.
    held: bool,
    /// The number of associations that have not ended.
    live: usize,
    /// Why the endpoint has failed permanently.
    failure: Option<CloseReason>,
    /// Whether a layer below (DTLS) knows why a peer was lost.
    pub(crate) layered: bool,
    /// Associations whose peers were lost and whose reason has not been asked for yet.
    unexplained: Vec<(AssociationId, SocketAddr)>,
    /// Associations with tasks that wait for a lower buffered amount.
    draining: Vec<AssociationId>,
    /// The buffer for reads from the engine.
    pub(crate) buffer: Box<[u8]>,
    /// The maximum size of a received message in bytes.
    pub(crate) max_receive: usize,
    signals: Arc<EndpointSignals>,
}

/// The maximum number of bytes read from the engine at once.
const BUFFER: usize = 64 * 1024;

impl State {
    pub(crate) fn new(endpoint: Endpoint, ports: PortClaims, memory: Budget) -> Self {
        Self {
            endpoint,
            memory,
            ports,
            notify: Notify::default(),
            entries: BTreeMap::new(),
            backlog: 0,
            listening: None,
            held: true,
            live: 0,
            failure: None,
            layered: false,
            unexplained: Vec::new(),
            draining: Vec::new(),
            buffer: vec![0; BUFFER].into(),
            max_receive: usize::MAX,
            signals: Arc::default(),
        }
    }

    pub(crate) fn signals(&self) -> &Arc<EndpointSignals> {
        &self.signals
    }

    pub(crate) fn entry(&mut self, id: AssociationId) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(|entry| &mut **entry)
    }

    /// Returns the engine, the read buffer, and an association.
    pub(crate) fn parts(&mut self, id: AssociationId) -> Option<(&mut Endpoint, &mut [u8], &mut Entry)> {
        let entry = self.entries.get_mut(&id)?;
        Some((&mut self.endpoint, &mut self.buffer, entry))
    }

    pub(crate) fn events(&mut self, id: AssociationId) -> Option<&mut EventQueue> {
        self.entry(id).map(|entry| &mut entry.events)
    }

    /// Why an association that is not kept here (any more), or the whole endpoint, has ended.
    pub(crate) fn end(&self) -> CloseReason {
        self.failure.clone().unwrap_or_else(|| CloseReason::Network("the endpoint has ended".to_owned()))
    }

    /// Handles the events that a call has caused; returns the waker of the thread if it has to run.
    pub(crate) fn settle(&mut self, now: Instant) -> Option<Waker> {
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(now, event);
        }
        self.hear_requests();
        let done = !self.held && self.live == 0;
        if done || self.endpoint.has_output() { self.notify.waker() } else { None }
    }

    /// Accepts associations to this port.
    pub(crate) fn listen(&mut self, port: u16) -> io::Result<()> {
        self.ports.listen(&mut self.endpoint, port).map_err(io::Error::other)?;
        self.endpoint.ask_before(port, self.backlog);
        self.listening = Some(port);
        Ok(())
    }

    /// Accepts no more associations; those that wait to be accepted are refused.
    pub(crate) fn close_listener(&mut self, now: Instant) {
        while let Some(request) = self.endpoint.poll_request() {
            self.endpoint.refuse(now, request.id, &[]);
        }
        if let Some(port) = self.listening.take() {
            self.ports.close_listener(&mut self.endpoint, port);
        }
        self.signals.incoming.notify_waiters();
    }

    /// Notifies tasks that accept if a peer has begun an association.
    pub(crate) fn hear_requests(&mut self) {
        if self.endpoint.has_requests() {
            self.signals.incoming.notify_waiters();
        }
    }

    pub(crate) fn listening(&self) -> Option<u16> {
        self.listening
    }

    /// Takes the association that has waited longest to be accepted.
    pub(crate) fn take_incoming(&mut self) -> Option<Request> {
        self.endpoint.poll_request()
    }

    /// Accepts an association and adds it. Returns `None` if it is no longer available.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        request: RequestId,
    ) -> Option<(AssociationId, Arc<Signals>)> {
        let id = self.endpoint.admit(now, request)?;
        // The engine reports the new association as an event.
        self.settle(now);
        self.entry(id).map(|entry| (id, entry.signals.clone()))
    }

    /// Called when nobody holds the endpoint any more: it ends after its last association.
    pub(crate) fn release_endpoint(&mut self, now: Instant) {
        self.held = false;
        self.close_listener(now);
    }

    /// The number of associations that have not ended.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Whether nothing is left to do, now and later.
    pub(crate) fn is_done(&self) -> bool {
        !self.held && self.live == 0 && !self.endpoint.has_output()
    }

    /// Shuts all associations down gracefully.
    pub(crate) fn close_all(&mut self, now: Instant) {
        self.close_listener(now);
        let live = self.entries.iter().filter(|(_, entry)| entry.ended().is_none());
        for id in live.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(now, id);
        }
    }

    /// Adds an association that this side began, with a peer whose packets come from this UDP port.
    pub(crate) fn began(&mut self, id: AssociationId, peer: SocketAddr, udp: u16) -> Arc<Signals> {
        self.ports.connected(&self.endpoint, id);
        self.insert(id, Entry::begun(peer, udp))
    }

    fn insert(&mut self, id: AssociationId, entry: Entry) -> Arc<Signals> {
        let signals = entry.signals.clone();
        self.entries.insert(id, Box::new(entry));
        self.live += 1;
        signals
    }

    /// Shuts an association down gracefully: accepted messages are delivered first.
    pub(crate) fn close(&mut self, now: Instant, id: AssociationId) {
        let Some(entry) = self.entry(id) else { return };
        entry.closing = true;
        entry.wake_writers();
        self.endpoint.shutdown(now, id);
    }

    /// Aborts an association with the program's reason.
    pub(crate) fn abort(&mut self, now: Instant, id: AssociationId, reason: &[u8]) {
        if let Some(entry) = self.entry(id) {
            entry.closing = true;
        }
        self.endpoint.abort_because(now, id, reason);
        self.settle(now);
    }

    /// Closes an association gracefully that nobody holds any more.
    pub(crate) fn let_go(&mut self, now: Instant, id: AssociationId) {
        let Some(entry) = self.entry(id) else { return };
        entry.held = false;
        let (ended, established, closing) = (entry.ended().is_some(), entry.established, entry.closing);
        match (ended, established, closing) {
            (true, ..) => self.forget(now, id),
            (false, false, _) => self.endpoint.abort(now, id),
            (false, true, closing) => {
                if !closing {
                    self.endpoint.shutdown(now, id);
                }
                self.discard_unread(now, id);
            }
        }
    }

    fn forget(&mut self, now: Instant, id: AssociationId) {
        self.notify.notify();
        self.entries.remove(&id);
        self.endpoint.release(now, id);
        self.ports.release(id);
    }

    /// Discards the unread data of an association that nobody reads any more, so that the peer can continue to send.
    fn discard_unread(&mut self, now: Instant, id: AssociationId) {
        // Wake the thread, so that the peer learns of the new room.
        self.notify.notify();
        while let Ok(Some(_)) = self.endpoint.recv_next(now, id, &mut self.buffer) {}
    }

    /// Discards the unread data of one stream.
    fn discard(&mut self, now: Instant, id: AssociationId, stream: u16) {
        self.notify.notify();
        while let Ok(Some(_)) = self.endpoint.recv(now, id, stream, &mut self.buffer) {}
    }

    /// Takes both halves of a stream: the one with this number, or the lowest one without a holder.
    pub(crate) fn open_stream(&mut self, id: AssociationId, number: Option<u16>) -> Result<u16, OpenError> {
        let end = self.end();
        let Some(entry) = self.entry(id) else { return Err(OpenError::Closed(end)) };
        if let Some(reason) = entry.shut() {
            return Err(OpenError::Closed(reason));
        }
        let streams = entry.pairs();
        let number = match number {
            Some(number) => number,
            None => entry.free_stream().ok_or(OpenError::AlreadyOpen(streams.saturating_sub(1).into()))?,
        };
        if number >= streams {
            return Err(OpenError::NoSuchStream { number: number.into(), streams: streams.into() });
        }
        if entry.hold(number) { Ok(number) } else { Err(OpenError::AlreadyOpen(number.into())) }
    }

    /// Takes the next stream that the peer has begun and that has no holder.
    pub(crate) fn accept_stream(&mut self, id: AssociationId) -> Result<Option<u16>, CloseReason> {
        let end = self.end();
        let Some((endpoint, _, entry)) = self.parts(id) else { return Err(end) };
        while let Some(number) = entry.take_begun() {
            // Its data may have been read by another call meanwhile.
            if endpoint.readable_bytes(id, number) > 0 && entry.hold(number) {
                return Ok(Some(number));
            }
        }
        match entry.ended() {
            Some(reason) => Err(reason.clone()),
            None => Ok(None),
        }
    }

    /// Releases one half of a stream.
    pub(crate) fn give_back(&mut self, now: Instant, id: AssociationId, number: u16, half: usize) {
        let Some((endpoint, _, entry)) = self.parts(id) else { return };
        if entry.give_back(number, half) {
            entry.partials.forget(number);
            self.discard(now, id, number);
        } else if endpoint.readable_bytes(id, number) > 0 {
            entry.announce(number);
        }
    }

    /// Handles an event of the engine.
    fn on_event(&mut self, now: Instant, event: EngineEvent) {
        match event {
            EngineEvent::Readable { id, stream } => match self.entry(id) {
                Some(entry) if entry.is_unread(stream) => self.discard(now, id, stream),
                Some(entry) if entry.held => entry.on_readable(stream),
                _ => self.discard_unread(now, id),
            },
            EngineEvent::Writable { id } => {
                if let Some(entry) = self.entry(id) {
                    entry.on_writable();
                }
            }
            EngineEvent::Established { id, outbound_streams, inbound_streams } => {
                if let Some(entry) = self.entry(id) {
                    entry.on_established(outbound_streams, inbound_streams);
                }
            }
            EngineEvent::Accepted { id, port, peer_port, peer, outbound_streams, inbound_streams } => {
                let mut entry = Entry::begun(SocketAddr::new(peer, peer_port), 0);
                entry.accepted = true;
                entry.on_established(outbound_streams, inbound_streams);
                self.ports.accepted(id, port);
                self.insert(id, entry);
            }
            EngineEvent::Closed { id, reason } => self.on_closed(now, id, reason),
            other => self.tell(other),
        }
    }

    /// Adds an event to the program's list, and updates the state.
    fn tell(&mut self, event: EngineEvent) {
        let Some(id) = id_of(&event) else { return };
        let most = self.endpoint.config().sndbuf as usize;
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match &event {
            EngineEvent::PeerShutdown { .. } => {
                entry.peer_shutdown = true;
                entry.wake_all();
            }
            EngineEvent::Restarted { .. } | EngineEvent::StreamsAdded { .. } => {
                if matches!(event, EngineEvent::Restarted { .. }) {
                    entry.on_restarted();
                }
                if let Some(info) = self.endpoint.info(id) {
                    entry.set_streams(info.outbound_streams, info.inbound_streams);
                }
            }
            _ => {}
        }
        if let Some(event) = Event::of(event) {
            entry.events.push(event, most);
        }
    }

    fn on_closed(&mut self, now: Instant, id: AssociationId, reason: EngineReason) {
        let Some(entry) = self.entry(id) else {
            self.notify.notify();
            self.endpoint.release(now, id);
            return;
        };
        let (established, accepted) = (entry.established, entry.accepted);
        let peer = SocketAddr::new(entry.peer.ip(), entry.udp);
        if self.layered && reason == EngineReason::Unreachable {
            self.unexplained.push((id, peer));
            return;
        }
        let reason = to_close_reason(reason, established, accepted);
        self.ended(now, id, reason);
    }

    /// Takes the associations whose peers were lost, for [`explain`](Self::explain).
    pub(crate) fn take_unexplained(&mut self) -> Vec<(AssociationId, SocketAddr)> {
        std::mem::take(&mut self.unexplained)
    }

    /// Ends an association with the layer's reason for the loss of its peer, if there is one.
    pub(crate) fn explain(&mut self, now: Instant, id: AssociationId, fault: Option<CloseReason>) {
        if let Some(entry) = self.entry(id) {
            let usual = to_close_reason(EngineReason::Unreachable, entry.established, entry.accepted);
            self.ended(now, id, fault.unwrap_or(usual));
        }
    }

    /// Records the end of an association.
    fn ended(&mut self, now: Instant, id: AssociationId, reason: CloseReason) {
        let most = self.endpoint.config().sndbuf as usize;
        let Some(entry) = self.entry(id) else { return };
        if !entry.end(reason, most) {
            return;
        }
        if !entry.held {
            self.forget(now, id);
        }
        self.live -= 1;
        if self.live == 0 {
            self.signals.idle.notify_waiters();
        }
    }

    /// Ends all associations after a permanent failure.
    pub(crate) fn fail(&mut self, now: Instant, reason: &CloseReason) {
        self.failure.get_or_insert_with(|| reason.clone());
        for id in self.entries.keys().copied().collect::<Vec<_>>() {
            self.ended(now, id, reason.clone());
        }
        self.listening = None;
        self.signals.incoming.notify_waiters();
        self.signals.idle.notify_waiters();
    }

    /// Why the endpoint has failed, if it has.
    pub(crate) fn failure(&self) -> Option<&CloseReason> {
        self.failure.as_ref()
    }

    /// Updates the host's addresses (`None`: unchanged); its routes may have changed, too.
    pub(crate) fn follow(&mut self, now: Instant, port: u16, present: Option<&[IpAddr]>) {
        if let Some(present) = present {
            follow_addresses(&mut self.endpoint, now, port, present);
        }
        // Destinations without a route may have one now.
        self.endpoint.handle_routes(now);
    }

    /// Watches the buffered amounts of an association's streams for a waiting task.
    pub(crate) fn watch(&mut self, id: AssociationId) {
        if !self.draining.contains(&id) {
            self.draining.push(id);
        }
    }

    /// Wakes the tasks whose streams have drained to their thresholds.
    pub(crate) fn wake_drained(&mut self) {
        let Self { draining, entries, endpoint, .. } = self;
        draining.retain(|id| entries.get_mut(id).is_some_and(|entry| entry.wake_drained(endpoint, *id)));
    }
}

impl EngineOwner for State {
    type Engine = Endpoint;

    fn engine(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    fn notify(&mut self) -> &mut Notify {
        &mut self.notify
    }

    fn handle_event(&mut self, now: Instant, event: EngineEvent) {
        self.on_event(now, event);
    }

    fn handle_failure(&mut self, error: &io::Error) {
        // The engine is not called any more, so the time does not matter.
        self.fail(Instant::ZERO, &CloseReason::Network(error.to_string()));
    }
}

/// Returns the association of an event that goes to a program's list.
fn id_of(event: &EngineEvent) -> Option<AssociationId> {
    Some(match *event {
        EngineEvent::Abandoned { id, .. }
        | EngineEvent::SendFailed { id, .. }
        | EngineEvent::PathUp { id, .. }
        | EngineEvent::PathPotentiallyFailed { id, .. }
        | EngineEvent::PathDown { id, .. }
        | EngineEvent::Interrupted { id, .. }
        | EngineEvent::Restarted { id }
        | EngineEvent::PeerShutdown { id }
        | EngineEvent::StreamsReset { id, .. }
        | EngineEvent::ResetRequested { id, .. }
        | EngineEvent::StreamsAdded { id, .. }
        | EngineEvent::AssociationReset { id, .. }
        | EngineEvent::ResetFailed { id, .. }
        | EngineEvent::AddFailed { id, .. }
        | EngineEvent::PathAdded { id, .. }
        | EngineEvent::PathRemoved { id, .. }
        | EngineEvent::PrimaryChanged { id, .. }
        | EngineEvent::LocalAddress { id, .. }
        | EngineEvent::Key { id, .. }
        | EngineEvent::Adaptation { id, .. }
        | EngineEvent::PeerError { id, .. }
        | EngineEvent::AbortReason { id, .. } => id,
        _ => return None,
    })
}
