//! Begins and ends connections of clients and servers, and handles the events of quinn's connections.
//!
//! Implements the parts of RFC 9000 §8.1.2 (Retry) and §10.2 (immediate close) that quinn does not implement.

use super::handshake_limiter::Room;
use super::proof::UnvalidatedAddress;
use super::streams::number;
use super::transport::SHARES;
use super::{ConnectionEntry, Endpoint, Event, Id, StreamEntry};
use crate::config::Retry;
use crate::keys::{WatchedClient, WatchedServer};
use crate::qlog::Qlog;
use crate::watch::Watch;
use anabranch_base::Account;
use anabranch_base::time::Instant;
use anabranch_base::trace::TraceEvent;
use anabranch_congestion::Pacer;
use bytes::Bytes;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId, Dir, Side, StreamEvent, VarInt,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

impl Endpoint {
    /// Begins a connection.
    ///
    /// # Errors
    /// A one-line text that says why the connection could not be begun.
    pub fn connect(&mut self, now: Instant, target: SocketAddr) -> Result<Id, String> {
        self.clock.set(now.as_nanos());
        let (crypto, name, rejection) = self.client.clone().ok_or("no client's settings")?;
        let first = self.identifiers.next();
        let watch = self.watch(Side::Client, first);
        // If this server has rejected early data before, the client sends no early data on this connection. Its
        // requests wait until the handshake is done.
        let early = !self.refused_early.remove(&target);
        let mut config = ClientConfig::new(Arc::new(WatchedClient {
            inner: crypto,
            watch: watch.clone(),
            rejection,
            early,
        }));
        // A client permits its server no bidirectional streams, because in this crate only clients begin bidirectional
        // streams.
        config.transport_config(Arc::new(self.transport(watch.clone(), 0)?));
        config.initial_dst_cid_provider(Arc::new(move || first));
        let at = self.at(now);
        let inner = &mut self.inner;
        watch.note(TraceEvent::Opening);
        let begun = self.surroundings.within(|| inner.connect(at, config, target, &name));
        let (handle, connection) = begun.map_err(|error| error.to_string())?;
        Ok(self.hold(now, handle, connection, watch, Some(first), None))
    }

    /// Creates the `Watch` of a connection. `first` is the first destination connection ID that the client chose.
    fn watch(&self, side: Side, first: ConnectionId) -> Arc<Watch> {
        // Both ends know this connection ID, so both use it as the key of the connection in traces. 48 bits are used,
        // because JSON numbers hold 53 bits exactly.
        let key = first.iter().take(6).fold(0, |key, byte| key << 8 | u64::from(*byte));
        let out = self.logs.as_ref().and_then(|logs| logs.begin(&Qlog::name(side, &first)));
        let log = out.map(|out| Qlog::begin(out, side, &first, self.clock.instant()));
        Watch::logged(self.clock.clone(), key, self.trace.clone(), log)
    }

    fn hold(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        connection: Connection,
        watch: Arc<Watch>,
        first: Option<ConnectionId>,
        unvalidated: Option<UnvalidatedAddress>,
    ) -> Id {
        let id = Id(self.next);
        self.next += 1;
        let entry = ConnectionEntry {
            handle,
            connection,
            watch,
            first,
            pacer: Pacer::default(),
            opened: 0,
            open: BTreeMap::new(),
            unsent: None,
            account: self.config.memory.as_ref().map(|memory| Account::new(memory, SHARES)),
            deadline: None,
            end_reported: false,
            has_response: false,
            announced: false,
            closing: false,
            unvalidated,
        };
        self.connections.insert(id, entry);
        self.handles.insert(handle, id);
        self.settle(now, id);
        id
    }

    /// Handles the first datagram of a client; `bytes` is the length of the datagram in bytes.
    pub(super) fn accept(&mut self, now: Instant, incoming: quinn_proto::Incoming, bytes: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        if self.listening.is_none() || self.server.is_none() {
            let transmit = self.surroundings.within(|| self.inner.refuse(incoming, &mut buffer));
            self.reply(&transmit, &buffer);
            self.buffer = buffer;
            return;
        }
        // RFC 9000 §8.1.2: while many handshakes are under way, a client whose address is not validated gets a Retry
        // packet, and no state is kept for it.
        let address = incoming.remote_address().ip();
        let must_validate = self.config.retry == Retry::Always || self.handshake_limiter.is_busy();
        let room = match self.handshake_limiter.room(now, address) {
            _ if self.connections.len() >= MAX_CONNECTIONS => Room::None,
            room => room,
        };
        if must_validate && !incoming.remote_address_validated() && incoming.may_retry() {
            let retried = self.surroundings.within(|| self.inner.retry(incoming, &mut buffer));
            if let Ok(transmit) = retried {
                self.reply(&transmit, &buffer);
            }
        } else if room == Room::None {
            // The datagram is dropped without an answer, as if it were lost, and the client will send it again. A
            // refusal would end the client's attempt.
            if let Some(incoming) = self.queue.push(now, incoming, bytes) {
                self.inner.ignore(incoming);
            }
        } else {
            if let Room::Evict(oldest) = room {
                self.abort(now, oldest);
                self.handshake_limiter.remove(oldest);
            }
            self.begin(now, incoming, bytes, &mut buffer);
        }
        self.buffer = buffer;
    }

    /// Begins handshakes with clients from the queue while there is room.
    pub(super) fn admit(&mut self, now: Instant) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.may_admit()
            && let Some((waits, is_there)) = self.queue.pop(now)
        {
            if is_there {
                buffer.clear();
                self.begin(now, waits.incoming, waits.bytes, &mut buffer);
            } else {
                self.inner.ignore(waits.incoming);
            }
        }
        self.buffer = buffer;
    }

    /// Returns whether a client waits in the queue and there is room for its handshake.
    pub(super) fn may_admit(&self) -> bool {
        !self.queue.is_empty() && self.handshake_limiter.is_free() && self.connections.len() < MAX_CONNECTIONS
    }

    /// Accepts the first packet of a client and begins the handshake with it.
    fn begin(&mut self, now: Instant, incoming: quinn_proto::Incoming, bytes: usize, buffer: &mut Vec<u8>) {
        let (at, address) = (self.at(now), incoming.remote_address().ip());
        if let Some((crypto, config)) = self.server.clone() {
            let watch = self.watch(Side::Server, *incoming.orig_dst_cid());
            let mut config = config;
            config.crypto = Arc::new(WatchedServer { inner: crypto, watch: watch.clone() });
            // Creating the transport settings cannot fail here: they were checked when the endpoint was created.
            if let Ok(transport) = self.transport(watch.clone(), self.config.streams) {
                config.transport_config(Arc::new(transport));
            }
            let unvalidated = UnvalidatedAddress::for_new_client(incoming.remote_address(), bytes);
            let unvalidated = (!incoming.remote_address_validated()).then_some(unvalidated);
            let inner = &mut self.inner;
            #[expect(clippy::result_large_err, reason = "quinn's own type, looked at and gone")]
            let accepted =
                self.surroundings.within(|| inner.accept(incoming, at, buffer, Some(Arc::new(config))));
            match accepted {
                Ok((handle, connection)) => {
                    let id = Id(self.next);
                    self.handshake_limiter.insert(now, id, address);
                    self.hold(now, handle, connection, watch, None, unvalidated);
                }
                Err(error) => {
                    if let Some(transmit) = error.response {
                        self.reply(&transmit, buffer);
                    }
                }
            }
        }
    }

    /// Updates the state of a connection after each use of quinn's object. Exchanges events between quinn's endpoint
    /// and quinn's connection, converts quinn's events to [`Event`]s, and updates the deadline.
    pub(super) fn settle(&mut self, now: Instant, id: Id) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let Some(entry) = self.connections.get_mut(&id) else { return };
        self.ready.insert(id);
        entry.watch.settled();
        entry.limit_send_window(self.config.sndbuf);
        let streams = self.config.streams;
        while let Some(event) = entry.connection.poll() {
            match event {
                quinn_proto::Event::Connected if entry.connection.side().is_client() => {
                    entry.watch.note(TraceEvent::Established);
                    if entry.opened > 0 && !entry.connection.accepted_0rtt() {
                        // The server has rejected the early data. All streams that carried early data are lost, so the
                        // application has to repeat its requests.
                        if self.refused_early.len() < MOST_REFUSED {
                            self.refused_early.insert(entry.connection.remote_address());
                        }
                        entry.connection.close(at, ABORTED, bytes::Bytes::new());
                        entry.end(&mut self.events, id, Some(ConnectionError::Reset));
                        continue;
                    }
                    let streams = streams.min(entry.watch.granted_streams());
                    self.events.push_back(Event::Connected { id, streams });
                }
                quinn_proto::Event::Connected => {
                    entry.announce(&mut self.events, &mut self.accepted, id, streams)
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    let reason = Some(reason).filter(|reason| !is_orderly(reason));
                    entry.end(&mut self.events, id, reason);
                }
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(stream_id) = entry.connection.streams().accept(dir) {
                        if entry.connection.side().is_server() {
                            // The server may answer early data immediately (RFC 9001 §4.1.2), so the application gets
                            // the connection now.
                            entry.announce(&mut self.events, &mut self.accepted, id, streams);
                        }
                        entry.open.insert(number(stream_id), StreamEntry::default());
                        self.events.push_back(Event::Readable { id, stream: number(stream_id) });
                    }
                }
                // Data may still arrive on a stream that the application has released. Such data must not be reported
                // as a new stream.
                quinn_proto::Event::Stream(StreamEvent::Readable { id: stream_id })
                    if entry.open.contains_key(&number(stream_id)) =>
                {
                    self.events.push_back(Event::Readable { id, stream: number(stream_id) });
                }
                quinn_proto::Event::Stream(StreamEvent::Stopped { id: stream_id, error_code }) => {
                    // RFC 9000 §3.5: the peer reads no more of this stream, so the stream is reset.
                    let _ = entry.connection.send_stream(stream_id).reset(error_code);
                    entry.watch.on_stream_reset(stream_id);
                    if let Some(open) = entry.open.get_mut(&number(stream_id)) {
                        open.stopped = Some(error_code.into_inner());
                    }
                    self.events.push_back(Event::Writable { id });
                    // Some tasks hold a unidirectional stream for one purpose: to learn that the peer cancels it. These
                    // tasks do not wait for room to write, so a `Readable` event wakes them.
                    if stream_id.dir() == Dir::Uni && entry.open.contains_key(&number(stream_id)) {
                        self.events.push_back(Event::Readable { id, stream: number(stream_id) });
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Writable { .. }) => {
                    self.events.push_back(Event::Writable { id });
                }
                quinn_proto::Event::Stream(StreamEvent::Available { .. }) => {
                    self.events.push_back(Event::Writable { id });
                    self.events.push_back(Event::Available { id });
                }
                _ => {}
            }
        }
        if !entry.connection.is_handshaking() {
            self.handshake_limiter.remove(id);
        }
        if entry.closing && !entry.end_reported && entry.watch.is_delivered() {
            entry.connection.close(at, FINISHED, Bytes::new());
            entry.end(&mut self.events, id, None);
        }
        // Endpoint events are passed to quinn's endpoint last, because the last endpoint event removes the connection.
        while let Some(event) = entry.connection.poll_endpoint_events() {
            let is_drained = event.is_drained();
            if let Some(answer) = self.inner.handle_event(entry.handle, event) {
                let connection = &mut entry.connection;
                self.surroundings.within(|| connection.handle_event(answer));
            }
            if is_drained {
                entry.end(&mut self.events, id, None);
                self.forget(id);
                return;
            }
        }
        let deadline = entry.connection.poll_timeout();
        let deadline = deadline.map(|at| self.ours(at));
        self.set_deadline(id, deadline);
    }

    /// Removes a connection whose draining period (RFC 9000 §10.2) quinn has ended.
    fn forget(&mut self, id: Id) {
        let Some(entry) = self.connections.remove(&id) else { return };
        self.handles.remove(&entry.handle);
        self.timeouts += entry.watch.timeouts();
        self.ready.remove(&id);
        self.handshake_limiter.remove(id);
        if let Some(at) = entry.deadline {
            self.due.remove(&(at, id));
        }
    }

    pub(super) fn set_deadline(&mut self, id: Id, deadline: Option<Instant>) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        if entry.deadline == deadline {
            return;
        }
        if let Some(at) = std::mem::replace(&mut entry.deadline, deadline) {
            self.due.remove(&(at, id));
        }
        self.due.extend(deadline.map(|at| (at, id)));
    }

    /// Closes the connection gracefully as soon as the peer has acknowledged all written data (RFC 9000 §10.2).
    pub fn close(&mut self, now: Instant, id: Id) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        entry.closing = true;
        self.settle(now, id);
    }

    /// Aborts the connection. Data that is not acknowledged may be lost.
    pub fn abort(&mut self, now: Instant, id: Id) {
        self.close_with(now, id, ABORTED.into_inner(), "aborted");
    }

    /// Aborts the connection, and sends a code and a reason to the peer's application.
    pub fn close_with(&mut self, now: Instant, id: Id, code: u64, reason: &str) {
        let at = self.at(now);
        let Some(entry) = self.connections.get_mut(&id) else { return };
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        entry.connection.close(at, code, Bytes::copy_from_slice(reason.as_bytes()));
        entry.end(&mut self.events, id, Some(ConnectionError::LocallyClosed));
        self.settle(now, id);
    }
}

impl ConnectionEntry {
    /// Limits the bytes that are written on the connection and not acknowledged. The lowest of three limits applies:
    /// `sndbuf`, the congestion window plus the limit for unsent bytes, and the connection's part of the shared memory.
    fn limit_send_window(&mut self, sndbuf: u64) {
        if self.unsent.is_some() || self.account.is_some() {
            let mut most = sndbuf;
            if let Some(beyond) = self.unsent {
                most = most.min(self.connection.congestion_state().window().saturating_add(beyond));
            }
            if let Some(account) = &mut self.account {
                account.set_usage(CONNECTION + self.watch.unacknowledged());
                // Even if the account allows less, the connection may always use the memory that is reserved for it
                // (the floor).
                most = most.min(account.limit().saturating_sub(CONNECTION).max(account.floor()));
            }
            self.connection.set_send_window(most);
        }
    }

    /// Reports to the application that a peer has begun this connection, but only once.
    fn announce(&mut self, events: &mut VecDeque<Event>, accepted: &mut u64, id: Id, streams: u64) {
        if !std::mem::replace(&mut self.announced, true) {
            *accepted += 1;
            events.push_back(Event::Accepted { id, streams });
        }
    }

    /// Reports to the application that the connection has ended, but only once.
    pub(super) fn end(&mut self, events: &mut VecDeque<Event>, id: Id, reason: Option<ConnectionError>) {
        if !std::mem::replace(&mut self.end_reported, true) {
            self.watch.note(TraceEvent::Closed);
            self.watch.log_end(&reason.as_ref().map_or_else(|| "done".to_owned(), ToString::to_string));
            events.push_back(Event::Closed { id, reason });
        }
    }
}

/// Returns whether the reason is a graceful close by either side.
fn is_orderly(reason: &ConnectionError) -> bool {
    match reason {
        ConnectionError::LocallyClosed => true,
        ConnectionError::ApplicationClosed(close) => {
            [VarInt::from_u32(0), FINISHED].contains(&close.error_code)
        }
        _ => false,
    }
}

/// The application error code of an abort. RFC 9000 §20.2 leaves application error codes to the application protocol.
pub(super) const ABORTED: VarInt = VarInt::from_u32(1);

/// The application error code of a graceful close: the code of HTTP/3 (RFC 9114 §8.1). Application protocols have no
/// common code for a graceful close. A close by the peer with code 0 also counts as graceful, because code 0 is not an
/// error in any application protocol.
const FINISHED: VarInt = VarInt::from_u32(0x100);

/// The bytes of memory that a connection takes without its data, as measured by `benches/src/bin/quic.rs`.
const CONNECTION: u64 = 34 * 1024;
/// The maximum number of servers that are remembered because they rejected early data.
const MOST_REFUSED: usize = 1_024;
/// The maximum number of connections of one endpoint.
const MAX_CONNECTIONS: usize = 65_536;
