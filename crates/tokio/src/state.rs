//! The state of an endpoint behind its lock: the engine, the associations, and the tasks that wait for an association.
//! The program's tasks change the state through the methods of `State`. The endpoint's thread passes packets, time and
//! the engine's events to these methods.
//!
//! Implements a part of RFC 9260 §11.2 (notifications): how each notification changes `State`.

use crate::entry::{Entry, Signals};
use crate::event::{Event, EventQueue};
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

/// The state of an endpoint behind its lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) endpoint: Endpoint,
    /// The memory budget that all associations share.
    pub(crate) memory: Budget,
    pub(crate) ports: PortClaims,
    notify: Notify,
    entries: BTreeMap<AssociationId, Box<Entry>>,
    /// The maximum number of peer-initiated associations that wait to be accepted by the program.
    pub(crate) backlog: usize,
    /// The SCTP port on which the endpoint accepts associations; `None` if it accepts none.
    listening: Option<u16>,
    /// Whether the program has a handle of the endpoint.
    has_handle: bool,
    /// The number of associations that have not ended.
    open_associations: usize,
    /// The reason why the endpoint has failed permanently; `None` if it has not failed.
    failure: Option<CloseReason>,
    /// Whether there is a DTLS layer below the engine. If so, the layer may know the reason why a peer was lost.
    pub(crate) layered: bool,
    /// The associations whose peers were lost, each with the peer's address. They wait until the DTLS layer has been
    /// asked for the reason.
    lost_peers: Vec<(AssociationId, SocketAddr)>,
    /// The associations with tasks that wait until a stream's buffered amount has fallen to a threshold.
    draining: Vec<AssociationId>,
    /// The buffer into which data is read from the engine.
    pub(crate) buffer: Box<[u8]>,
    /// The maximum size in bytes of a received message.
    pub(crate) max_receive: usize,
    signals: Arc<EndpointSignals>,
}

/// The notifications for tasks that wait for an event of the endpoint, and not of a single association.
#[derive(Debug, Default)]
pub(crate) struct EndpointSignals {
    /// Notified when an association waits to be accepted, or when no more associations will be accepted.
    pub(crate) incoming: tokio::sync::Notify,
    /// Notified when all associations have ended.
    pub(crate) idle: tokio::sync::Notify,
}

/// The maximum number of bytes that one call reads from the engine.
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
            has_handle: true,
            open_associations: 0,
            failure: None,
            layered: false,
            lost_peers: Vec::new(),
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

    /// Returns the engine, the read buffer, and the state of an association.
    pub(crate) fn parts(&mut self, id: AssociationId) -> Option<(&mut Endpoint, &mut [u8], &mut Entry)> {
        let entry = self.entries.get_mut(&id)?;
        Some((&mut self.endpoint, &mut self.buffer, entry))
    }

    pub(crate) fn events(&mut self, id: AssociationId) -> Option<&mut EventQueue> {
        self.entry(id).map(|entry| &mut entry.events)
    }

    /// Returns the reason to report for an association whose state has been removed: the failure of the endpoint, if it
    /// has failed. Otherwise the reason is that the endpoint has ended.
    pub(crate) fn removed_reason(&self) -> CloseReason {
        self.failure.clone().unwrap_or_else(|| CloseReason::Network("the endpoint has ended".to_owned()))
    }

    /// Handles the engine's events that a call has caused. Returns the waker of the endpoint's thread if the thread has
    /// to run.
    pub(crate) fn settle(&mut self, now: Instant) -> Option<Waker> {
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(now, event);
        }
        self.notify_incoming();
        let done = !self.has_handle && self.open_associations == 0;
        if done || self.endpoint.has_output() { self.notify.waker() } else { None }
    }

    /// Accepts associations on this SCTP port from now on.
    pub(crate) fn listen(&mut self, port: u16) -> io::Result<()> {
        self.ports.listen(&mut self.endpoint, port).map_err(io::Error::other)?;
        self.endpoint.require_admission(port, self.backlog);
        self.listening = Some(port);
        Ok(())
    }

    /// Stops accepting associations, and refuses those that wait to be accepted.
    pub(crate) fn close_listener(&mut self, now: Instant) {
        while let Some(request) = self.endpoint.poll_request() {
            self.endpoint.refuse(now, request.id, &[]);
        }
        if let Some(port) = self.listening.take() {
            self.ports.close_listener(&mut self.endpoint, port);
        }
        self.signals.incoming.notify_waiters();
    }

    /// If a peer has begun an association, notifies the tasks that accept associations.
    pub(crate) fn notify_incoming(&mut self) {
        if self.endpoint.has_requests() {
            self.signals.incoming.notify_waiters();
        }
    }

    pub(crate) fn listening(&self) -> Option<u16> {
        self.listening
    }

    /// Removes and returns the association that has waited longest to be accepted.
    pub(crate) fn take_incoming(&mut self) -> Option<Request> {
        self.endpoint.poll_request()
    }

    /// Accepts an association and adds its state. Returns `None` if the association is no longer available.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        request: RequestId,
    ) -> Option<(AssociationId, Arc<Signals>)> {
        let id = self.endpoint.admit(now, request)?;
        // The engine reports the new association by an event. Handling the event adds the state.
        self.settle(now);
        self.entry(id).map(|entry| (id, entry.signals.clone()))
    }

    /// Records that the program has no handle of the endpoint any more. The endpoint ends after its last association.
    pub(crate) fn release_endpoint(&mut self, now: Instant) {
        self.has_handle = false;
        self.close_listener(now);
    }

    /// Returns the number of associations that have not ended.
    pub(crate) fn live(&self) -> usize {
        self.open_associations
    }

    /// Returns whether the endpoint has nothing left to do, so that its thread may end.
    pub(crate) fn is_done(&self) -> bool {
        !self.has_handle && self.open_associations == 0 && !self.endpoint.has_output()
    }

    /// Stops accepting associations, and shuts all existing associations down gracefully.
    pub(crate) fn close_all(&mut self, now: Instant) {
        self.close_listener(now);
        let live = self.entries.iter().filter(|(_, entry)| entry.ended().is_none());
        for id in live.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(now, id);
        }
    }

    /// Adds the state of an association that this side began. `udp` is the peer's UDP port.
    pub(crate) fn began(&mut self, id: AssociationId, peer: SocketAddr, udp: u16) -> Arc<Signals> {
        self.ports.connected(&self.endpoint, id);
        self.insert(id, Entry::new(peer, udp))
    }

    fn insert(&mut self, id: AssociationId, entry: Entry) -> Arc<Signals> {
        let signals = entry.signals.clone();
        self.entries.insert(id, Box::new(entry));
        self.open_associations += 1;
        signals
    }

    /// Shuts an association down gracefully: messages that were already accepted are still delivered.
    pub(crate) fn close(&mut self, now: Instant, id: AssociationId) {
        let Some(entry) = self.entry(id) else { return };
        entry.closing = true;
        entry.wake_writers();
        self.endpoint.shutdown(now, id);
    }

    /// Aborts an association. `reason` is for the peer's program.
    pub(crate) fn abort(&mut self, now: Instant, id: AssociationId, reason: &[u8]) {
        if let Some(entry) = self.entry(id) {
            entry.closing = true;
        }
        self.endpoint.abort_with_reason(now, id, reason);
        self.settle(now);
    }

    /// Releases an association after the program has dropped its last handle. If the association has not ended, closes
    /// it gracefully.
    pub(crate) fn release_association(&mut self, now: Instant, id: AssociationId) {
        let Some(entry) = self.entry(id) else { return };
        entry.has_handle = false;
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

    /// Discards the unread data of an association that the program no longer reads, so that the peer can continue to
    /// send.
    fn discard_unread(&mut self, now: Instant, id: AssociationId) {
        // Wakes the loop that drives the engine: the engine must tell the peer that the receive buffer has room again.
        self.notify.notify();
        while let Ok(Some(_)) = self.endpoint.recv_next(now, id, &mut self.buffer) {}
    }

    /// Discards the unread data of one stream.
    fn discard(&mut self, now: Instant, id: AssociationId, stream: u16) {
        self.notify.notify();
        while let Ok(Some(_)) = self.endpoint.recv(now, id, stream, &mut self.buffer) {}
    }

    /// Takes both halves of the stream with this number. Without a number, takes the lowest stream that has no handle.
    pub(crate) fn open_stream(&mut self, id: AssociationId, number: Option<u16>) -> Result<u16, OpenError> {
        let end = self.removed_reason();
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

    /// Takes the next stream that the peer has begun and for which the program has no handle.
    pub(crate) fn accept_stream(&mut self, id: AssociationId) -> Result<Option<u16>, CloseReason> {
        let end = self.removed_reason();
        let Some((endpoint, _, entry)) = self.parts(id) else { return Err(end) };
        while let Some(number) = entry.take_begun() {
            // Another call may already have read the data of the stream. Such a stream is skipped.
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
                Some(entry) if entry.discards_data(stream) => self.discard(now, id, stream),
                Some(entry) if entry.has_handle => entry.on_readable(stream),
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
                let mut entry = Entry::new(SocketAddr::new(peer, peer_port), 0);
                entry.accepted = true;
                entry.on_established(outbound_streams, inbound_streams);
                self.ports.accepted(id, port);
                self.insert(id, entry);
            }
            EngineEvent::Closed { id, reason } => self.on_closed(now, id, reason),
            other => self.tell(other),
        }
    }

    /// Updates the state after an event of the engine, and adds the event to the program's queue.
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
        let peer = SocketAddr::new(entry.peer.ip(), entry.udp_port);
        if self.layered && reason == EngineReason::Unreachable {
            self.lost_peers.push((id, peer));
            return;
        }
        let reason = to_close_reason(reason, established, accepted);
        self.ended(now, id, reason);
    }

    /// Removes and returns the associations that ended because their peers were unreachable, each with its peer's
    /// address. The caller then reports the DTLS layer's reason with [`end_lost`](Self::end_lost).
    pub(crate) fn take_lost_peers(&mut self) -> Vec<(AssociationId, SocketAddr)> {
        std::mem::take(&mut self.lost_peers)
    }

    /// Ends an association whose peer was lost. `fault` is the DTLS layer's reason for the loss, if it has one.
    pub(crate) fn end_lost(&mut self, now: Instant, id: AssociationId, fault: Option<CloseReason>) {
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
        if !entry.has_handle {
            self.forget(now, id);
        }
        self.open_associations -= 1;
        if self.open_associations == 0 {
            self.signals.idle.notify_waiters();
        }
    }

    /// Ends all associations, because the endpoint has failed permanently.
    pub(crate) fn fail(&mut self, now: Instant, reason: &CloseReason) {
        self.failure.get_or_insert_with(|| reason.clone());
        for id in self.entries.keys().copied().collect::<Vec<_>>() {
            self.ended(now, id, reason.clone());
        }
        self.listening = None;
        self.signals.incoming.notify_waiters();
        self.signals.idle.notify_waiters();
    }

    /// Returns the reason why the endpoint has failed; `None` if it has not failed.
    pub(crate) fn failure(&self) -> Option<&CloseReason> {
        self.failure.as_ref()
    }

    /// Updates the host's addresses and routes after a change. If `present` is `None`, the addresses stay as they are.
    pub(crate) fn follow(&mut self, now: Instant, port: u16, present: Option<&[IpAddr]>) {
        if let Some(present) = present {
            follow_addresses(&mut self.endpoint, now, port, present);
        }
        // Destinations that had no route may now have a route.
        self.endpoint.handle_routes(now);
    }

    /// Remembers that a task waits until the buffered amount of one of this association's streams has fallen to a
    /// threshold.
    pub(crate) fn watch(&mut self, id: AssociationId) {
        if !self.draining.contains(&id) {
            self.draining.push(id);
        }
    }

    /// Wakes each task whose stream now has a buffered amount of at most the task's threshold.
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
        // The engine is not called again after a failure, so the value of `now` does not matter.
        self.fail(Instant::ZERO, &CloseReason::Network(error.to_string()));
    }
}

/// Returns the association of an event that goes to the program's queue; `None` for any other event.
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
