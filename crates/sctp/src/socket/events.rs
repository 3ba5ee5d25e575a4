//! Passes the engine's events to the sockets that they concern.
//!
//! Implements RFC 6458 §6.1 (when each notification is sent) and §8.1.8 (autoclose).

use super::{
    AddressChange, AssociationChange, Errno, EventKind, EventSet, KeyChange, Member, Notification, Socket,
    SocketId, Sockets, Style,
};
use crate::endpoint::Endpoint;
use crate::event::{CloseReason, Event};
use crate::id::AssociationId;
use anabranch_base::{Engine, Instant};

impl Sockets {
    /// Processes all pending events of the endpoint.
    pub(super) fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            self.take(now, event);
        }
        self.emit_dry();
    }

    fn take(&mut self, now: Instant, event: Event) {
        let id = event.association();
        if let Event::Accepted { port, outbound_streams, inbound_streams, .. } = event {
            self.take_accepted(now, id, port, (outbound_streams, inbound_streams));
            return;
        }
        if self.orphans.contains(&id) {
            self.take_orphan(now, id, &event);
            return;
        }
        let Some(&socket_id) = self.owners.get(&id) else {
            return;
        };
        let Some(socket) = self.sockets.get_mut(&socket_id) else {
            return;
        };
        socket.arrived = self.endpoint.messages_arrived_and_read(id).map_or(0, |(arrived, _)| arrived);
        let Some(member) = socket.associations.get_mut(&id) else {
            return;
        };
        match event {
            Event::Established { outbound_streams, inbound_streams, .. } => {
                member.established = true;
                member.outbound_streams = outbound_streams;
                member.inbound_streams = inbound_streams;
                member.used_at = now;
                socket.changed(id, AssociationChange::Up);
                if lacks_auth(&self.endpoint, id) {
                    socket.notify(no_auth(id));
                }
            }
            Event::Readable { .. } => {
                member.used_at = now;
                socket.inbox.add(id);
            }
            Event::StreamsAdded { outgoing, incoming, .. } => {
                member.outbound_streams = member.outbound_streams.saturating_add(outgoing);
                member.inbound_streams = member.inbound_streams.saturating_add(incoming);
                let (outbound_streams, inbound_streams) = (member.outbound_streams, member.inbound_streams);
                socket.notify(Notification::StreamChange {
                    association: id,
                    inbound_streams,
                    outbound_streams,
                    failed: false,
                });
            }
            Event::Restarted { .. } => socket.changed(id, AssociationChange::Restart),
            Event::PeerShutdown { .. } => {
                member.peer_shutdown = true;
                socket.notify(Notification::Shutdown { association: id });
            }
            Event::Closed { reason, .. } => {
                socket.ended(id, reason);
                if socket.style == Style::OneToMany {
                    // The socket no longer owns the association. Messages of the association that have arrived can
                    // still be read through the inbox.
                    socket.associations.remove(&id);
                }
            }
            event => {
                if let Some(notification) = notification(id, event) {
                    socket.notify(notification);
                }
            }
        }
        self.wake(socket_id);
    }

    fn take_accepted(&mut self, now: Instant, id: AssociationId, port: u16, streams: (u16, u16)) {
        let listener = self.listeners.get(&port).copied();
        let Some((socket_id, socket)) =
            listener.and_then(|socket_id| Some((socket_id, self.sockets.get_mut(&socket_id)?)))
        else {
            self.endpoint.release(now, id);
            return;
        };
        if socket.style == Style::OneToOne {
            if socket.pending.len() >= socket.backlog.unwrap_or(0) {
                self.endpoint.release(now, id);
                return;
            }
            socket.pending.push_back(id);
        }
        let member = Member {
            established: true,
            outbound_streams: streams.0,
            inbound_streams: streams.1,
            ..Member::begun(now)
        };
        socket.associations.insert(id, member);
        socket.arrived = 0;
        socket.changed(id, AssociationChange::Up);
        if lacks_auth(&self.endpoint, id) {
            socket.notify(no_auth(id));
        }
        self.owners.insert(id, socket_id);
        self.wake(socket_id);
    }

    /// Handles events of an association whose socket was closed. Discards received data, so that the shutdown can
    /// finish.
    fn take_orphan(&mut self, now: Instant, id: AssociationId, event: &Event) {
        match event {
            Event::Readable { stream, .. } => {
                let mut buffer = [0; 2048];
                while let Ok(Some(_)) = self.endpoint.recv(now, id, *stream, &mut buffer) {}
            }
            Event::Closed { .. } => {
                self.orphans.remove(&id);
                self.endpoint.release(now, id);
            }
            _ => {}
        }
    }

    pub(super) fn wake(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(&id)
            && !socket.woken
        {
            socket.woken = true;
            self.woken.push_back(id);
        }
    }

    /// RFC 6458 §6.1.9: notifies subscribed sockets when all data of an association is acknowledged.
    fn emit_dry(&mut self) {
        let mut dry = Vec::new();
        for (&id, socket) in &mut self.sockets {
            if !socket.settings.events.has(EventKind::SenderDry) {
                continue;
            }
            for (&association, member) in &mut socket.associations {
                let buffered = || self.endpoint.info(association).map_or(0, |info| info.buffered);
                if member.busy && member.established && !member.closed && buffered() == 0 {
                    member.busy = false;
                    dry.push((id, association));
                }
            }
        }
        for (id, association) in dry {
            if let Some(socket) = self.sockets.get_mut(&id) {
                socket.arrived = 0;
                socket.notify(Notification::SenderDry { association });
            }
            self.wake(id);
        }
    }

    /// RFC 6458 §8.1.8: shuts down associations that were idle for too long.
    pub(super) fn autoclose(&mut self, now: Instant) {
        let mut idle = Vec::new();
        for socket in self.sockets.values_mut() {
            let Some(span) = socket.settings.autoclose else { continue };
            for (&id, member) in &mut socket.associations {
                if member.established && !member.closed && member.used_at + span <= now {
                    // Setting the time of last use delays the next request: the shutdown is requested again only after
                    // another whole autoclose time.
                    member.used_at = now;
                    idle.push(id);
                }
            }
        }
        for id in idle {
            self.endpoint.shutdown(now, id);
        }
    }
}

/// Returns the notification for an event that only informs the application and changes nothing in the socket. `None` if
/// RFC 6458 has no such notification.
fn notification(association: AssociationId, event: Event) -> Option<Notification> {
    let peer_address = |address, change| Notification::PeerAddressChange { association, address, change };
    Some(match event {
        Event::Abandoned { stream, ppid, context, bytes, sent, .. }
        | Event::SendFailed { stream, ppid, context, bytes, sent, .. } => {
            Notification::SendFailed { association, sent, context, stream, ppid, bytes }
        }
        Event::PathUp { address, .. } => peer_address(address, AddressChange::Available),
        Event::PathPotentiallyFailed { address, .. } => {
            peer_address(address, AddressChange::PotentiallyFailed)
        }
        Event::PathDown { address, .. } => peer_address(address, AddressChange::Unreachable),
        Event::PathAdded { address, .. } => peer_address(address, AddressChange::Added),
        Event::PathRemoved { address, .. } => peer_address(address, AddressChange::Removed),
        Event::PrimaryChanged { address, .. } => peer_address(address, AddressChange::MadePrimary),
        Event::StreamsReset { direction, streams, .. } => {
            Notification::StreamReset { association, streams, direction, failed: false }
        }
        Event::ResetFailed { direction: Some(direction), streams, .. } => {
            Notification::StreamReset { association, streams, direction, failed: true }
        }
        Event::ResetFailed { direction: None, .. } => {
            Notification::AssociationReset { association, local_tsn: 0, remote_tsn: 0, failed: true }
        }
        Event::AssociationReset { local_tsn, remote_tsn, .. } => {
            Notification::AssociationReset { association, local_tsn, remote_tsn, failed: false }
        }
        Event::AddFailed { outgoing, incoming, .. } => Notification::StreamChange {
            association,
            inbound_streams: incoming,
            outbound_streams: outgoing,
            failed: true,
        },
        Event::Key { key, change, .. } => {
            let change = match change {
                crate::KeyChange::PeerUses => KeyChange::New,
                crate::KeyChange::Free => KeyChange::Free,
                crate::KeyChange::Unknown => KeyChange::Unknown,
            };
            Notification::Authentication { association, key, change }
        }
        Event::PeerError { code, cause, .. } => Notification::RemoteError { association, code, data: cause },
        Event::Adaptation { code, .. } => Notification::Adaptation { association, indication: code },
        // `Sockets::take` has already handled these events.
        Event::Accepted { .. }
        | Event::Established { .. }
        | Event::Readable { .. }
        | Event::StreamsAdded { .. }
        | Event::Restarted { .. }
        | Event::PeerShutdown { .. }
        | Event::Closed { .. }
        // RFC 6458 has no notification for room in a buffer, local addresses, restored or interrupted paths, or pending
        // requests of the peer. It also has no notification for the reason of an ABORT.
        | Event::Writable { .. }
        | Event::BufferedAmountLow { .. }
        | Event::LocalAddress { .. }
        | Event::PathRestored { .. }
        | Event::Interrupted { .. }
        | Event::ResetRequested { .. }
        | Event::AbortReason { .. } => return None,
    })
}

/// RFC 6458 §6.1.8: returns whether this side supports AUTH but the peer does not.
fn lacks_auth(endpoint: &Endpoint, id: AssociationId) -> bool {
    let configured = endpoint.config_of(id).is_some_and(|config| config.auth);
    configured && endpoint.info(id).is_some_and(|info| !info.extensions.auth)
}

fn no_auth(association: AssociationId) -> Notification {
    Notification::Authentication { association, key: 0, change: KeyChange::NoAuth }
}

impl Socket {
    /// Queues a notification if the application has subscribed to its kind.
    pub(super) fn notify(&mut self, notification: Notification) {
        if !self.settings.events.has(notification.kind()) {
            return;
        }
        let association = notification.association();
        if self.inbox.notify(notification, self.arrived) {
            return;
        }
        // RFC 6458 §6.1.10: the last notification reports that the queue is full. No more notifications are queued
        // until the application subscribes again.
        self.inbox.notify_last(Notification::Stopped { association }, self.arrived);
        self.settings.events = EventSet::default();
    }

    fn changed(&mut self, association: AssociationId, change: AssociationChange) {
        let member = self.associations.get(&association);
        let (outbound_streams, inbound_streams) =
            member.map_or((0, 0), |member| (member.outbound_streams, member.inbound_streams));
        self.notify(Notification::AssociationChange {
            association,
            change,
            outbound_streams,
            inbound_streams,
        });
    }

    /// Records the end of an association.
    fn ended(&mut self, id: AssociationId, reason: CloseReason) {
        let Some(member) = self.associations.get_mut(&id) else {
            return;
        };
        member.closed = true;
        let established = member.established;
        let change = match reason {
            _ if !established => AssociationChange::CannotStart,
            CloseReason::Shutdown => AssociationChange::ShutdownComplete,
            CloseReason::Aborted(cause) => AssociationChange::Lost(cause),
            _ => AssociationChange::Lost(None),
        };
        self.changed(id, change);
        let error = match reason {
            CloseReason::Shutdown => None,
            CloseReason::Aborted(_) | CloseReason::NotListening if !established => Some(Errno::Refused),
            CloseReason::Aborted(_) | CloseReason::NotListening | CloseReason::PeerRestarted => {
                Some(Errno::Reset)
            }
            CloseReason::Unreachable | CloseReason::BlackHole { .. } | CloseReason::StaleCookie => {
                Some(Errno::TimedOut)
            }
            CloseReason::Local | CloseReason::ShutdownTimeout => Some(Errno::Aborted),
            CloseReason::PeerViolated(_) | CloseReason::PeerIncompatible(_) => Some(Errno::Protocol),
        };
        if self.style == Style::OneToOne {
            self.error = error;
        }
    }
}
