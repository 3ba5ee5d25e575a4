//! Connections: how either end begins and ends them, and how their events are handled.
//!
//! Home of RFC 9000 §8.1.2 (Retry) and §10.2 (the end) as far as they are not quinn's.

use super::entrance::Room;
use super::proof::Unproven;
use super::streams::number;
use super::transport::SHARES;
use super::{Endpoint, Event, Held, Id, Open};
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
    /// One line that says why the connection could not be begun.
    pub fn connect(&mut self, now: Instant, target: SocketAddr) -> Result<Id, String> {
        self.clock.set(now.as_nanos());
        let (crypto, name, distrust) = self.client.clone().ok_or("no client's settings")?;
        let first = self.identifiers.next();
        let watch = self.watch(Side::Client, first);
        // If the server rejected early data, the repeated requests wait for the handshake.
        let early = !self.refused_early.remove(&target);
        let mut config = ClientConfig::new(Arc::new(WatchedClient {
            inner: crypto,
            watch: watch.clone(),
            distrust,
            early,
        }));
        // A server begins no two-way streams: their numbers are the client's.
        config.transport_config(Arc::new(self.transport(watch.clone(), 0)?));
        config.initial_dst_cid_provider(Arc::new(move || first));
        let at = self.at(now);
        let inner = &mut self.inner;
        watch.note(TraceEvent::Opening);
        let begun = self.surroundings.within(|| inner.connect(at, config, target, &name));
        let (handle, connection) = begun.map_err(|error| error.to_string())?;
        Ok(self.hold(now, handle, connection, watch, Some(first), None))
    }

    /// Creates the watch over a connection whose client has chosen `first` as its first destination.
    fn watch(&self, side: Side, first: ConnectionId) -> Arc<Watch> {
        // Both ends know the connection ID. JSON numbers have room for 53 bits.
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
        unproven: Option<Unproven>,
    ) -> Id {
        let id = Id(self.next);
        self.next += 1;
        let held = Held {
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
            told: false,
            answered: false,
            announced: false,
            closing: false,
            unproven,
        };
        self.connections.insert(id, held);
        self.handles.insert(handle, id);
        self.settle(now, id);
        id
    }

    /// Handles the first datagram of a client, which had `came` bytes.
    pub(super) fn accept(&mut self, now: Instant, incoming: quinn_proto::Incoming, came: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        if self.listening.is_none() || self.server.is_none() {
            let transmit = self.inner.refuse(incoming, &mut buffer);
            self.reply(&transmit, &buffer);
            self.buffer = buffer;
            return;
        }
        // RFC 9000 §8.1.2: while many handshakes are under way, a client whose address is not validated gets a Retry
        // packet, and no state is kept for it.
        let address = incoming.remote_address().ip();
        let many = self.config.retry == Retry::Always || self.entrance.is_busy();
        let room = match self.entrance.room(now, address) {
            _ if self.connections.len() >= MAX_CONNECTIONS => Room::None,
            room => room,
        };
        if many && !incoming.remote_address_validated() && incoming.may_retry() {
            let retried = self.surroundings.within(|| self.inner.retry(incoming, &mut buffer));
            if let Ok(transmit) = retried {
                self.reply(&transmit, &buffer);
            }
        } else if room == Room::None {
            // Drop it like a lost datagram: the client sends it again, whereas a refusal would end its attempt.
            if let Some(incoming) = self.queue.push(now, incoming, came) {
                self.inner.ignore(incoming);
            }
        } else {
            if let Room::InsteadOf(oldest) = room {
                self.abort(now, oldest);
                self.entrance.remove(oldest);
            }
            self.begin(now, incoming, came, &mut buffer);
        }
        self.buffer = buffer;
    }

    /// Begins handshakes with waiting clients while there is room.
    pub(super) fn admit(&mut self, now: Instant) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.may_admit()
            && let Some((waits, is_there)) = self.queue.pop(now)
        {
            if is_there {
                buffer.clear();
                self.begin(now, waits.incoming, waits.came, &mut buffer);
            } else {
                self.inner.ignore(waits.incoming);
            }
        }
        self.buffer = buffer;
    }

    /// Whether a client waits and there is room for its handshake.
    pub(super) fn may_admit(&self) -> bool {
        !self.queue.is_empty() && self.entrance.is_free() && self.connections.len() < MAX_CONNECTIONS
    }

    /// Begins a handshake with a client.
    fn begin(&mut self, now: Instant, incoming: quinn_proto::Incoming, came: usize, buffer: &mut Vec<u8>) {
        let (at, address) = (self.at(now), incoming.remote_address().ip());
        if let Some((crypto, config)) = self.server.clone() {
            let watch = self.watch(Side::Server, *incoming.orig_dst_cid());
            let mut config = config;
            config.crypto = Arc::new(WatchedServer { inner: crypto, watch: watch.clone() });
            // The settings were checked when the endpoint was created.
            if let Ok(transport) = self.transport(watch.clone(), self.config.streams) {
                config.transport_config(Arc::new(transport));
            }
            let unproven = Unproven::begins(incoming.remote_address(), came);
            let unproven = (!incoming.remote_address_validated()).then_some(unproven);
            let inner = &mut self.inner;
            #[expect(clippy::result_large_err, reason = "quinn's own type, looked at and gone")]
            let accepted =
                self.surroundings.within(|| inner.accept(incoming, at, buffer, Some(Arc::new(config))));
            match accepted {
                Ok((handle, connection)) => {
                    let id = Id(self.next);
                    self.entrance.insert(now, id, address);
                    self.hold(now, handle, connection, watch, None, unproven);
                }
                Err(error) => {
                    if let Some(transmit) = error.response {
                        self.reply(&transmit, buffer);
                    }
                }
            }
        }
    }

    /// Brings a connection up to date after it was touched: exchanges events between quinn's endpoint and connection,
    /// converts its events to ours and updates its deadline.
    pub(super) fn settle(&mut self, now: Instant, id: Id) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let Some(held) = self.connections.get_mut(&id) else { return };
        self.ready.insert(id);
        held.watch.settled();
        if held.unsent.is_some() || held.account.is_some() {
            let mut most = self.config.sndbuf;
            if let Some(beyond) = held.unsent {
                most = most.min(held.connection.congestion_state().window().saturating_add(beyond));
            }
            if let Some(account) = &mut held.account {
                account.holds(CONNECTION + held.watch.unacknowledged());
                // In addition, the connection may always use its part of the floor.
                most = most.min(account.limit().saturating_sub(CONNECTION).max(account.floor()));
            }
            held.connection.set_send_window(most);
        }
        let streams = self.config.streams;
        while let Some(event) = held.connection.poll() {
            match event {
                quinn_proto::Event::Connected if held.connection.side().is_client() => {
                    held.watch.note(TraceEvent::Established);
                    if held.opened > 0 && !held.connection.accepted_0rtt() {
                        // Early data and its streams are lost: the application has to repeat its requests.
                        if self.refused_early.len() < MOST_REFUSED {
                            self.refused_early.insert(held.connection.remote_address());
                        }
                        held.connection.close(at, ABORTED, bytes::Bytes::new());
                        held.end(&mut self.events, id, Some(ConnectionError::Reset));
                        continue;
                    }
                    let streams = streams.min(held.watch.granted_streams());
                    self.events.push_back(Event::Connected { id, streams });
                }
                quinn_proto::Event::Connected => {
                    held.announce(&mut self.events, &mut self.accepted, id, streams)
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    let reason = Some(reason).filter(|reason| !is_orderly(reason));
                    held.end(&mut self.events, id, reason);
                }
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(name) = held.connection.streams().accept(dir) {
                        if held.connection.side().is_server() {
                            // Answer early data at once (RFC 9001 §4.1.2).
                            held.announce(&mut self.events, &mut self.accepted, id, streams);
                        }
                        held.open.insert(number(name), Open::default());
                        self.events.push_back(Event::Readable { id, stream: number(name) });
                    }
                }
                // Data that arrives on a stream which nobody holds any more does not begin a new one.
                quinn_proto::Event::Stream(StreamEvent::Readable { id: name })
                    if held.open.contains_key(&number(name)) =>
                {
                    self.events.push_back(Event::Readable { id, stream: number(name) });
                }
                quinn_proto::Event::Stream(StreamEvent::Stopped { id: name, error_code }) => {
                    // RFC 9000 §3.5: the peer reads no more of it.
                    let _ = held.connection.send_stream(name).reset(error_code);
                    held.watch.gave_up(name);
                    if let Some(open) = held.open.get_mut(&number(name)) {
                        open.stopped = Some(error_code.into_inner());
                    }
                    self.events.push_back(Event::Writable { id });
                    // A task that only waits for the cancellation of the stream does not wait for room to write.
                    if name.dir() == Dir::Uni && held.open.contains_key(&number(name)) {
                        self.events.push_back(Event::Readable { id, stream: number(name) });
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
        if !held.connection.is_handshaking() {
            self.entrance.remove(id);
        }
        if held.closing && !held.told && held.watch.is_delivered() {
            held.connection.close(at, FINISHED, Bytes::new());
            held.end(&mut self.events, id, None);
        }
        // After our own events: the last of these events removes the connection.
        while let Some(event) = held.connection.poll_endpoint_events() {
            let gone = event.is_drained();
            if let Some(answer) = self.inner.handle_event(held.handle, event) {
                let connection = &mut held.connection;
                self.surroundings.within(|| connection.handle_event(answer));
            }
            if gone {
                self.handles.remove(&held.handle);
                held.end(&mut self.events, id, None);
                self.timeouts += held.watch.timeouts();
                self.ready.remove(&id);
                self.entrance.remove(id);
                if let Some(at) = held.deadline {
                    self.due.remove(&(at, id));
                }
                self.connections.remove(&id);
                return;
            }
        }
        let deadline = held.connection.poll_timeout();
        let deadline = deadline.map(|at| self.ours(at));
        self.set_deadline(id, deadline);
    }

    pub(super) fn set_deadline(&mut self, id: Id, deadline: Option<Instant>) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        if held.deadline == deadline {
            return;
        }
        if let Some(at) = std::mem::replace(&mut held.deadline, deadline) {
            self.due.remove(&(at, id));
        }
        self.due.extend(deadline.map(|at| (at, id)));
    }

    /// Closes the connection gracefully as soon as all written data has arrived (RFC 9000 §10.2).
    pub fn close(&mut self, now: Instant, id: Id) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        held.closing = true;
        self.settle(now, id);
    }

    /// Aborts the connection: unacknowledged data may not have arrived.
    pub fn abort(&mut self, now: Instant, id: Id) {
        self.close_with(now, id, ABORTED.into_inner(), "aborted");
    }

    /// Aborts the connection, with a code and a reason for the peer's application.
    pub fn close_with(&mut self, now: Instant, id: Id, code: u64, reason: &str) {
        let at = self.at(now);
        let Some(held) = self.connections.get_mut(&id) else { return };
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        held.connection.close(at, code, Bytes::copy_from_slice(reason.as_bytes()));
        held.end(&mut self.events, id, Some(ConnectionError::LocallyClosed));
        self.settle(now, id);
    }
}

impl Held {
    /// Reports once that a peer has begun the connection.
    fn announce(&mut self, events: &mut VecDeque<Event>, accepted: &mut u64, id: Id, streams: u64) {
        if !std::mem::replace(&mut self.announced, true) {
            *accepted += 1;
            events.push_back(Event::Accepted { id, streams });
        }
    }

    /// Reports once that the connection has ended.
    pub(super) fn end(&mut self, events: &mut VecDeque<Event>, id: Id, reason: Option<ConnectionError>) {
        if !std::mem::replace(&mut self.told, true) {
            self.watch.note(TraceEvent::Closed);
            self.watch.log_end(&reason.as_ref().map_or_else(|| "done".to_owned(), ToString::to_string));
            events.push_back(Event::Closed { id, reason });
        }
    }
}

/// Whether either side has closed the connection gracefully.
fn is_orderly(reason: &ConnectionError) -> bool {
    match reason {
        ConnectionError::LocallyClosed => true,
        ConnectionError::ApplicationClosed(close) => {
            [VarInt::from_u32(0), FINISHED].contains(&close.error_code)
        }
        _ => false,
    }
}

/// The application error code of an abort (RFC 9000 §20.2 leaves it to us).
pub(super) const ABORTED: VarInt = VarInt::from_u32(1);

/// The application error code of a graceful close: HTTP/3's (RFC 9114 §8.1), as other applications share none. 0 is not
/// an error of any application either.
const FINISHED: VarInt = VarInt::from_u32(0x100);

/// The bytes that a connection holds besides its data, as measured by `benches/src/bin/quic.rs`: 34 kB.
const CONNECTION: u64 = 34 * 1024;
/// The maximum number of servers remembered for rejecting early data.
const MOST_REFUSED: usize = 1_024;
/// The maximum number of connections of a host.
const MAX_CONNECTIONS: usize = 65_536;
