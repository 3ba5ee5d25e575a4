//! The endpoint: every connection of a host over one UDP port, as an engine.
//!
//! Owns quinn's endpoint and connections, and the order in which they are asked. quinn's clock is an operating system's;
//! here an instant of ours is a span after the endpoint's birth, so that no result depends on when that was.

use crate::config::{Cc, Config, Retry, Scheduler};
use crate::identifiers::{Clock, Identifiers, reset_key, token_key};
use crate::keys::{WatchedClient, WatchedServer};
use crate::qlog::{Logs, Qlog};
use crate::shards::Shard;
use crate::watch::{Trace, Watch};
use crate::window::Windows;
use anabranch_base::time::{Duration, Instant};
use anabranch_base::trace::{TraceEvent, TraceRecord};
use anabranch_base::{Account, Ecn, Engine, Icmp, IcmpKind, Packet, RecvBatch, Rng, SendBatch};
use anabranch_congestion::{Kind, Pacer, cubic, reno};
use anabranch_tls::{CryptoProvider, Distrust, Ends, Surroundings};
use anabranch_transport::engine::Refusal;
use anabranch_transport::{CloseReason, ONE_WAY};
use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionClose, ConnectionError, ConnectionHandle,
    ConnectionId, DatagramEvent, Dir, EcnCodepoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig,
    ReadError, ServerConfig, Side, StreamEvent, StreamId, Transmit, TransportConfig, TransportErrorCode,
    VarInt, WriteError,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError};

/// A connection's name: never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Id(pub u64);

/// What an endpoint begins with.
pub struct Start {
    /// The settings.
    pub config: Config,
    /// What packets leave from where the peer's have not come to another address of this host. An unspecified address: what
    /// the host's routes say, and only the port counts.
    pub local: SocketAddr,
    /// Connection ids, keys and all that quinn draws.
    pub rng: Rng,
    /// Who it is, and whom it believes.
    pub ends: Ends,
    /// Most packets that leave in one call (GSO).
    pub segments: usize,
    /// Which of several endpoints behind one port it is.
    pub shard: Option<Shard>,
    /// Where connections are logged, if anywhere.
    pub logs: Option<Arc<dyn Logs>>,
}

/// What the application learns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A connection that was begun here stands.
    Connected {
        /// Which.
        id: Id,
        /// Streams that both ends can use.
        streams: u64,
    },
    /// A peer has begun one.
    Accepted {
        /// Which.
        id: Id,
        /// Streams that both ends can use.
        streams: u64,
    },
    /// Bytes of a stream, or its end.
    Readable {
        /// Which.
        id: Id,
        /// On which stream.
        stream: u64,
    },
    /// There may be room to write.
    Writable {
        /// Which.
        id: Id,
    },
    /// The peer lets there be more streams.
    Available {
        /// Which.
        id: Id,
    },
    /// The connection is over; `None`: in good order.
    Closed {
        /// Which.
        id: Id,
        /// Why, if not in good order.
        reason: Option<ConnectionError>,
    },
}

/// The number of a stream: those both ways by the client's order, those of one way apart, the client's even, the server's odd.
fn number(name: StreamId) -> u64 {
    match name.dir() {
        Dir::Bi => name.index(),
        Dir::Uni => ONE_WAY | name.index() << 1 | u64::from(name.initiator() == Side::Server),
    }
}

/// What is known of a stream beyond what quinn remembers of it.
#[derive(Default)]
struct Open {
    /// Its end has been read.
    ended: bool,
    /// The peer has cancelled what we read, and that has been read; its code.
    reset: Option<u64>,
    /// The peer has cancelled what we write; its code.
    stopped: Option<u64>,
}

struct Held {
    handle: ConnectionHandle,
    connection: Connection,
    watch: Arc<Watch>,
    /// A client's first destination.
    first: Option<ConnectionId>,
    /// Of a controller that has a pace of its own.
    pacer: Pacer,
    /// The client's side: streams opened so far.
    opened: u64,
    /// Streams that have begun and that somebody holds, or may come to hold.
    open: BTreeMap<u64, Open>,
    /// Bytes that may wait to leave beyond the congestion window, if that is limited.
    unsent: Option<u64>,
    /// What it holds of the memory that all share.
    account: Option<Account>,
    /// As it stands among those that are due.
    deadline: Option<Instant>,
    told: bool,
    /// A packet of the peer has come.
    answered: bool,
    /// A server's side: the application knows of it.
    announced: bool,
    /// It ends as soon as all that was written has arrived.
    closing: bool,
}

/// Packets of quinn's own making: refusals, retries, resets.
struct Reply {
    /// Where the packet came to that it answers.
    source: Option<IpAddr>,
    target: SocketAddr,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// Most replies that wait; more are dropped, as a full queue would.
const MOST_REPLIES: usize = 256;

/// Every connection of a host.
pub struct Endpoint {
    inner: quinn_proto::Endpoint,
    epoch: std::time::Instant,
    clock: Arc<Clock>,
    surroundings: Surroundings,
    client: Option<(Arc<QuicClientConfig>, String, Distrust)>,
    server: Option<(Arc<QuicServerConfig>, ServerConfig)>,
    identifiers: Identifiers,
    trace: Trace,
    logs: Option<Arc<dyn Logs>>,
    config: Config,
    local: SocketAddr,
    segments: usize,
    /// The port that sessions are taken in for, whatever that of UDP is.
    listening: Option<u16>,
    /// Retransmission timers that ran out on connections that are gone.
    timeouts: u64,
    accepted: u64,
    connections: BTreeMap<Id, Held>,
    handles: BTreeMap<ConnectionHandle, Id>,
    /// Connections that may have something to send.
    ready: BTreeSet<Id>,
    /// Handshakes that a server has under way, the oldest first.
    half_open: BTreeSet<Id>,
    /// Connections by their deadlines.
    due: BTreeSet<(Instant, Id)>,
    /// Connections that packets of one batch have come to.
    touched: Vec<Id>,
    next: u64,
    /// Whose turn it is to send.
    turn: Id,
    replies: VecDeque<Reply>,
    events: VecDeque<Event>,
    buffer: Vec<u8>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint, nothing begun.
    ///
    /// # Errors
    /// A line: what of the certificates or settings cannot be used for QUIC.
    pub fn new(start: Start) -> Result<Self, String> {
        let Start { config, local, mut rng, ends, segments, shard, logs } = start;
        let Ends { surroundings, client, server } = ends;
        #[expect(
            clippy::disallowed_methods,
            reason = "quinn's clock is std's; only spans after this are ever used"
        )]
        let epoch = std::time::Instant::now();
        let clock = Arc::new(Clock::default());
        let identifiers = Identifiers::new(rng.fork("connection ids"), shard);
        let mut seed = [0; 32];
        rng.fill(&mut seed);
        let secret = server.as_ref().filter(|_| matches!(surroundings, Surroundings::Real));
        let mut endpoint = EndpointConfig::new(reset_key(&mut rng, secret.map(|server| server.secret())));
        let generator = identifiers.clone();
        endpoint.cid_generator(move || Box::new(generator.clone())).rng_seed(Some(seed));
        endpoint.grease_quic_bit(matches!(surroundings, Surroundings::Real));
        endpoint.max_udp_payload_size(65_527).map_err(|error| error.to_string())?;
        let server = match server {
            None => None,
            Some(server) => {
                let config = server.rustls();
                draws(&surroundings, config.crypto_provider())?;
                let crypto = QuicServerConfig::try_from(config).map_err(|error| error.to_string())?;
                let crypto = Arc::new(crypto);
                let mut config = ServerConfig::new(crypto.clone(), token_key(&mut rng));
                config.time_source(clock.clone());
                Some((crypto, config))
            }
        };
        let client = match client {
            None => None,
            Some((client, name)) => {
                let config = client.rustls();
                draws(&surroundings, config.crypto_provider())?;
                let crypto = QuicClientConfig::try_from(config).map_err(|error| error.to_string())?;
                Some((Arc::new(crypto), name, client.distrust()))
            }
        };
        let taken = server.as_ref().map(|(_, config)| Arc::new(config.clone()));
        let endpoint = Self {
            inner: quinn_proto::Endpoint::new(Arc::new(endpoint), taken, true, None),
            epoch,
            clock,
            surroundings,
            client,
            server,
            identifiers,
            trace: Trace::default(),
            logs,
            config,
            local,
            segments: segments.max(1),
            listening: None,
            timeouts: 0,
            accepted: 0,
            connections: BTreeMap::new(),
            handles: BTreeMap::new(),
            ready: BTreeSet::new(),
            half_open: BTreeSet::new(),
            due: BTreeSet::new(),
            touched: Vec::new(),
            next: 0,
            turn: Id(0),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            buffer: Vec::new(),
        };
        // What cannot be set is said here, and not with the first connection.
        let watch = Watch::new(endpoint.clock.clone(), 0, endpoint.trace.clone());
        endpoint.transport(watch, endpoint.config.streams)?;
        Ok(endpoint)
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// It has a certificate.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.server.is_some()
    }

    /// How many connections peers have begun here and the application was told of.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The UDP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.local.port()
    }

    /// The port that connections are taken in for; `None`: they are refused.
    #[must_use]
    pub fn listening(&self) -> Option<u16> {
        self.listening
    }

    /// Takes in connections for a port from now on, or no more.
    pub fn set_listening(&mut self, port: Option<u16>) {
        self.listening = port;
    }

    /// How often a retransmission timer (RFC 9002 §6.2) ran out.
    #[must_use]
    pub fn timeouts(&self) -> u64 {
        self.timeouts + self.connections.values().map(|held| held.watch.timeouts()).sum::<u64>()
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// A line.
    pub fn connect(&mut self, now: Instant, target: SocketAddr) -> Result<Id, String> {
        self.clock.set(now.as_nanos());
        let (crypto, name, distrust) = self.client.clone().ok_or("no client's settings")?;
        let first = self.identifiers.next();
        let watch = self.watch(Side::Client, first);
        let mut config =
            ClientConfig::new(Arc::new(WatchedClient { inner: crypto, watch: watch.clone(), distrust }));
        // A server begins no stream both ways: their numbers are the client's.
        config.transport_config(Arc::new(self.transport(watch.clone(), 0)?));
        config.initial_dst_cid_provider(Arc::new(move || first));
        let at = self.at(now);
        let inner = &mut self.inner;
        watch.note(TraceEvent::Opening);
        let begun = self.surroundings.within(|| inner.connect(at, config, target, &name));
        let (handle, connection) = begun.map_err(|error| error.to_string())?;
        Ok(self.hold(now, handle, connection, watch, Some(first)))
    }

    /// The watch over a connection that a client begins with this destination.
    fn watch(&self, side: Side, first: ConnectionId) -> Arc<Watch> {
        // Both ends know it. JSON has room for 53 bits.
        let key = first.iter().take(6).fold(0, |key, byte| key << 8 | u64::from(*byte));
        let out = self.logs.as_ref().and_then(|logs| logs.begin(&Qlog::name(side, &first)));
        let log = out.map(|out| Qlog::begin(out, side, &first, self.clock.instant()));
        Watch::logged(self.clock.clone(), key, self.trace.clone(), log)
    }

    /// The handshake is not done: what a client writes now rides with it, and what a server reads now may be a copy that a
    /// stranger sends (RFC 8470).
    #[must_use]
    pub fn early_data(&self, id: Id) -> bool {
        self.connections.get(&id).is_some_and(|held| {
            let connection = &held.connection;
            connection.is_handshaking() && (connection.side().is_server() || connection.has_0rtt())
        })
    }

    /// Where the peer is.
    #[must_use]
    pub fn peer(&self, id: Id) -> Option<SocketAddr> {
        self.connections.get(&id).map(|held| held.connection.remote_address())
    }

    /// Bytes of streams that were written and are not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self, id: Id) -> u64 {
        self.connections.get(&id).map_or(0, |held| held.watch.unacknowledged())
    }

    /// The connection's key in traces: of the client's first destination connection id, so both ends know it.
    #[must_use]
    pub fn trace_key(&self, id: Id) -> u64 {
        self.connections.get(&id).map_or(id.0, |held| held.watch.key())
    }

    /// Reads from a stream: how much, and whether nothing more is there.
    pub fn recv(&mut self, now: Instant, id: Id, stream: u64, into: &mut [u8]) -> (usize, bool) {
        let Some(held) = self.connections.get_mut(&id) else { return (0, true) };
        let Some(name) = held.name(stream, true) else { return (0, true) };
        let Some(open) = held.open.get_mut(&stream) else { return (0, true) };
        if open.ended || open.reset.is_some() {
            return (0, true);
        }
        let mut recv = held.connection.recv_stream(name);
        let Ok(mut chunks) = recv.read(true) else { return (0, true) };
        let (mut read, mut dry) = (0, false);
        while read < into.len() {
            match chunks.next(into.len() - read) {
                Ok(Some(chunk)) => {
                    into[read..read + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    read += chunk.bytes.len();
                }
                Ok(None) => {
                    open.ended = true;
                    dry = true;
                    break;
                }
                Err(ReadError::Reset(code)) => {
                    open.reset = Some(code.into_inner());
                    dry = true;
                    break;
                }
                Err(ReadError::Blocked) => {
                    dry = true;
                    break;
                }
            }
        }
        // Flow control may have credit to give.
        if chunks.finalize().should_transmit() {
            self.settle(now, id);
        }
        (read, dry)
    }

    /// The peer has sent its last byte on the stream, and it is read.
    #[must_use]
    pub fn is_finished(&self, id: Id, stream: u64) -> bool {
        let Some(held) = self.connections.get(&id) else { return true };
        held.name(stream, true).is_none() || held.open.get(&stream).is_some_and(|open| open.ended)
    }

    /// The code with which the peer has cancelled what we read of a stream, or what we write.
    #[must_use]
    pub fn cancel_code(&self, id: Id, stream: u64, reading: bool) -> Option<u64> {
        let open = self.connections.get(&id)?.open.get(&stream)?;
        if reading { open.reset } else { open.stopped }
    }

    /// Begins the next stream, both ways or to the peer alone; `None`: the peer does not let there be one now.
    ///
    /// # Errors
    /// The connection has ended, or it is the server that would begin one both ways, which nobody here has a use for.
    pub fn begin_stream(&mut self, id: Id, one_way: bool) -> Result<Option<u64>, Refusal> {
        let held = self.connections.get_mut(&id).ok_or(Refusal::Closed)?;
        let connection = &mut held.connection;
        if connection.is_closed() || (connection.side().is_server() && !one_way) {
            return Err(Refusal::Closed);
        }
        let Some(begun) = connection.streams().open(if one_way { Dir::Uni } else { Dir::Bi }) else {
            return Ok(None);
        };
        held.opened += u64::from(!one_way);
        held.open.insert(number(begun), Open::default());
        Ok(Some(number(begun)))
    }

    /// Nobody holds the stream any more: what was written goes on its way and ends there, what comes is not wanted. What goes
    /// to the peer alone ends when its writer says so, else with the connection.
    pub fn let_go(&mut self, now: Instant, id: Id, stream: u64) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        if let Some(name) = held.name(stream, false).filter(|name| name.dir() == Dir::Bi)
            && held.connection.send_stream(name).finish().is_ok()
        {
            held.watch.finished(name);
        }
        let ended = held.open.remove(&stream).is_some_and(|open| open.ended);
        if let Some(name) = held.name(stream, true).filter(|_| !ended) {
            let _ = held.connection.recv_stream(name).stop(VarInt::from_u32(0));
        }
        self.settle(now, id);
    }

    /// What streams of a lower rank have goes first; those of one rank take turns.
    pub fn set_rank(&mut self, id: Id, stream: u64, rank: u32) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        let Some(name) = held.name(stream, false) else { return };
        // A stream that is over has nothing to send.
        let _ = held.connection.send_stream(name).set_priority(-i32::try_from(rank).unwrap_or(i32::MAX));
    }

    /// Cancels what we read of a stream, or what we write (RFC 9000 §19.4, §19.5).
    pub fn cancel(&mut self, now: Instant, id: Id, stream: u64, reading: bool, code: u64) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        let Some(name) = held.name(stream, reading) else { return };
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        // What is over cannot be cancelled, and need not be.
        let _ = if reading {
            held.connection.recv_stream(name).stop(code)
        } else {
            held.watch.gave_up(name);
            held.connection.send_stream(name).reset(code)
        };
        self.settle(now, id);
    }

    /// Writes to a stream as much as there is room for.
    ///
    /// # Errors
    /// The connection takes nothing any more, or the peer has cancelled the stream.
    pub fn send(&mut self, now: Instant, id: Id, stream: u64, from: &[u8]) -> Result<usize, Refusal> {
        let held = self.connections.get_mut(&id).filter(|held| !held.closing).ok_or(Refusal::Closed)?;
        while stream & ONE_WAY == 0 && held.connection.side().is_client() && held.opened <= stream {
            if held.connection.streams().open(Dir::Bi).is_none() {
                return if held.connection.is_closed() { Err(Refusal::Closed) } else { Ok(0) };
            }
            held.open.insert(held.opened, Open::default());
            held.opened += 1;
        }
        if held.open.get(&stream).is_some_and(|open| open.stopped.is_some()) {
            return Err(Refusal::Failed(CloseReason::Cancelled));
        }
        let name = held.name(stream, false).ok_or(Refusal::Closed)?;
        let written = match held.connection.send_stream(name).write(from) {
            Ok(written) => {
                held.watch.wrote(name, written);
                Ok(written)
            }
            Err(WriteError::Blocked) => Ok(0),
            Err(WriteError::Stopped(_)) => Err(Refusal::Failed(CloseReason::Cancelled)),
            Err(WriteError::ClosedStream) => Err(Refusal::Closed),
        };
        self.settle(now, id);
        written
    }

    /// Nothing more will be written to the stream.
    pub fn finish(&mut self, now: Instant, id: Id, stream: u64) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        let Some(name) = held.name(stream, false) else { return };
        if held.connection.send_stream(name).finish().is_ok() {
            held.watch.finished(name);
        }
        self.settle(now, id);
    }

    /// Takes no more than the congestion window lets go, and `bytes` beyond it; at most the send buffer.
    pub fn limit_unsent(&mut self, now: Instant, id: Id, bytes: u64) {
        if let Some(held) = self.connections.get_mut(&id) {
            held.unsent = Some(bytes);
        }
        self.settle(now, id);
    }

    /// Ends the connection in good order, as soon as all that was written has arrived (RFC 9000 §10.2).
    pub fn close(&mut self, now: Instant, id: Id) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        held.closing = true;
        self.settle(now, id);
    }

    /// Ends it at once: what is not acknowledged may not have arrived.
    pub fn abort(&mut self, now: Instant, id: Id) {
        self.close_with(now, id, ABORTED.into_inner(), "aborted");
    }

    /// Ends it at once, and tells the peer's application why.
    pub fn close_with(&mut self, now: Instant, id: Id, code: u64, reason: &str) {
        let at = self.at(now);
        let Some(held) = self.connections.get_mut(&id) else { return };
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        held.connection.close(at, code, Bytes::copy_from_slice(reason.as_bytes()));
        held.end(&mut self.events, id, Some(ConnectionError::LocallyClosed));
        self.settle(now, id);
    }

    fn at(&self, now: Instant) -> std::time::Instant {
        self.epoch + Duration::from_nanos(now.as_nanos())
    }

    fn ours(&self, at: std::time::Instant) -> Instant {
        Instant::from_nanos(anabranch_base::time::nanos(at.saturating_duration_since(self.epoch)))
    }

    fn hold(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        connection: Connection,
        watch: Arc<Watch>,
        first: Option<ConnectionId>,
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
        };
        self.connections.insert(id, held);
        self.handles.insert(handle, id);
        self.settle(now, id);
        id
    }

    /// A connection was touched: endpoint and connection tell each other, its events become ours, its deadline is noted.
    fn settle(&mut self, now: Instant, id: Id) {
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
                account.holds(held.watch.unacknowledged());
                most = most.min(account.limit());
            }
            held.connection.set_send_window(most);
        }
        let streams = self.config.streams;
        while let Some(event) = held.connection.poll() {
            match event {
                quinn_proto::Event::Connected if held.connection.side().is_client() => {
                    held.watch.note(TraceEvent::Established);
                    if held.opened > 0 && !held.connection.accepted_0rtt() {
                        // What was sent early is gone, and the streams with it: whoever asked asks again.
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
                            // Early data is answered at once (RFC 9001 §4.1.2).
                            held.announce(&mut self.events, &mut self.accepted, id, streams);
                        }
                        held.open.insert(number(name), Open::default());
                        self.events.push_back(Event::Readable { id, stream: number(name) });
                    }
                }
                // What comes on a stream that nobody holds any more begins no other.
                quinn_proto::Event::Stream(StreamEvent::Readable { id: name })
                    if held.open.contains_key(&number(name)) =>
                {
                    self.events.push_back(Event::Readable { id, stream: number(name) });
                }
                quinn_proto::Event::Stream(StreamEvent::Stopped { id: name, error_code }) => {
                    // RFC 9000 §3.5: nobody reads it.
                    let _ = held.connection.send_stream(name).reset(error_code);
                    held.watch.gave_up(name);
                    if let Some(open) = held.open.get_mut(&number(name)) {
                        open.stopped = Some(error_code.into_inner());
                    }
                    self.events.push_back(Event::Writable { id });
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
            self.half_open.remove(&id);
        }
        if held.closing && !held.told && held.watch.is_delivered() {
            held.connection.close(at, FINISHED, Bytes::new());
            held.end(&mut self.events, id, None);
        }
        // After what the application learns: with the last of them the connection is forgotten.
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
                self.half_open.remove(&id);
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

    fn set_deadline(&mut self, id: Id, deadline: Option<Instant>) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        if held.deadline == deadline {
            return;
        }
        if let Some(at) = std::mem::replace(&mut held.deadline, deadline) {
            self.due.remove(&(at, id));
        }
        self.due.extend(deadline.map(|at| (at, id)));
    }

    /// What packets to this address leave from, where nothing else is known.
    fn source(&self, target: SocketAddr) -> SocketAddr {
        if !self.local.ip().is_unspecified() {
            return self.local;
        }
        let any: IpAddr =
            if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        SocketAddr::new(any, self.local.port())
    }

    fn reply(&mut self, transmit: &Transmit, bytes: &[u8]) {
        if self.replies.len() < MOST_REPLIES {
            self.replies.push_back(Reply {
                source: transmit.src_ip,
                target: transmit.destination,
                ecn: to_ecn(transmit.ecn),
                bytes: bytes[..transmit.size].to_vec(),
            });
        }
    }

    fn accept(&mut self, now: Instant, incoming: quinn_proto::Incoming) {
        let at = self.at(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        // RFC 9000 §8.1.2: while many begin, who has not shown that it is at its address is told to, and nothing is
        // remembered of it.
        let many = self.config.retry == Retry::Always || self.half_open.len() >= RETRY_FROM;
        let listens = self.listening.is_some() && self.connections.len() < MAX_CONNECTIONS;
        if listens && many && !incoming.remote_address_validated() && incoming.may_retry() {
            let retried = self.surroundings.within(|| self.inner.retry(incoming, &mut buffer));
            if let Ok(transmit) = retried {
                self.reply(&transmit, &buffer);
            }
        } else if let Some((crypto, config)) = self.server.clone().filter(|_| listens) {
            if self.half_open.len() >= MAX_HALF_OPEN
                && let Some(oldest) = self.half_open.pop_first()
            {
                self.abort(now, oldest);
            }
            let watch = self.watch(Side::Server, *incoming.orig_dst_cid());
            let mut config = config;
            config.crypto = Arc::new(WatchedServer { inner: crypto, watch: watch.clone() });
            // It was tried when the endpoint began.
            if let Ok(transport) = self.transport(watch.clone(), self.config.streams) {
                config.transport_config(Arc::new(transport));
            }
            let inner = &mut self.inner;
            #[expect(clippy::result_large_err, reason = "quinn's own type, looked at and gone")]
            let accepted =
                self.surroundings.within(|| inner.accept(incoming, at, &mut buffer, Some(Arc::new(config))));
            match accepted {
                Ok((handle, connection)) => {
                    let id = Id(self.next);
                    self.half_open.insert(id);
                    self.hold(now, handle, connection, watch, None);
                }
                Err(error) => {
                    if let Some(transmit) = error.response {
                        self.reply(&transmit, &buffer);
                    }
                }
            }
        } else {
            let transmit = self.inner.refuse(incoming, &mut buffer);
            self.reply(&transmit, &buffer);
        }
        self.buffer = buffer;
    }
}

impl Held {
    /// quinn's name of a stream; `None`: that end has no say in it, as a stream that goes one way has none for the other.
    fn name(&self, stream: u64, reading: bool) -> Option<StreamId> {
        if stream & ONE_WAY == 0 {
            return Some(StreamId::new(Side::Client, Dir::Bi, stream));
        }
        let initiator = if stream & 1 == 0 { Side::Client } else { Side::Server };
        let ours = initiator == self.connection.side();
        (ours != reading).then(|| StreamId::new(initiator, Dir::Uni, (stream & !ONE_WAY) >> 1))
    }

    /// A peer has begun it, which is told once.
    fn announce(&mut self, events: &mut VecDeque<Event>, accepted: &mut u64, id: Id, streams: u64) {
        if !std::mem::replace(&mut self.announced, true) {
            *accepted += 1;
            events.push_back(Event::Accepted { id, streams });
        }
    }

    /// The connection is over, which is told once.
    fn end(&mut self, events: &mut VecDeque<Event>, id: Id, reason: Option<ConnectionError>) {
        if !std::mem::replace(&mut self.told, true) {
            self.watch.note(TraceEvent::Closed);
            self.watch.log_end(&reason.as_ref().map_or_else(|| "done".to_owned(), ToString::to_string));
            events.push_back(Event::Closed { id, reason });
        }
    }
}

/// The application's error code of an end that is none in good order (RFC 9000 §20.2 leaves it to us).
const ABORTED: VarInt = VarInt::from_u32(1);

/// The application's error code of an end in good order: HTTP/3's (RFC 9114 §8.1), as others have no common code. 0 is
/// nobody's error, either.
const FINISHED: VarInt = VarInt::from_u32(0x100);

/// Handshakes under way from which on clients have to show their addresses first; and at most, when the oldest gives way. A
/// handshake has an estimated 30 kB.
const RETRY_FROM: usize = 256;
const MAX_HALF_OPEN: usize = 1_024;
/// Connections of a host.
const MAX_CONNECTIONS: usize = 65_536;
/// Of a connection's floor in the memory that all share: what it may have unread, and what is not acknowledged.
const SHARES: u64 = 2;
/// What may always be unread: heads of requests.
const MIN_WINDOW: u64 = 32 * 1024;

/// Streams of one way that a peer may have open: RFC 9114 §6.2 has three, and some of types that are to be ignored.
const ONE_WAY_STREAMS: u64 = 16;

/// The other side, or this one, has said goodbye.
fn is_orderly(reason: &ConnectionError) -> bool {
    match reason {
        ConnectionError::LocallyClosed => true,
        ConnectionError::ApplicationClosed(close) => {
            [VarInt::from_u32(0), FINISHED].contains(&close.error_code)
        }
        _ => false,
    }
}

/// Sees that certificates and keys come with a source of randomness: that of virtual time has none outside of it.
fn draws(surroundings: &Surroundings, provider: &CryptoProvider) -> Result<(), String> {
    let drawn = surroundings.within(|| provider.secure_random.fill(&mut [0]));
    drawn.map_err(|_| "these settings of TLS are of virtual time, and of no use outside of it".to_owned())
}

impl Endpoint {
    /// quinn's settings of one connection, whose peer may have so many streams both ways open.
    fn transport(&self, watch: Arc<Watch>, streams: u64) -> Result<TransportConfig, String> {
        let config = &self.config;
        // What may be unread of a connection is set aside for it, so it needs no account.
        let room =
            config.memory.as_ref().map_or(u64::MAX, |memory| (memory.floor() / SHARES).max(MIN_WINDOW));
        let number = |value: u64| VarInt::from_u64(value).map_err(|error| error.to_string());
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(number(streams)?)
            .max_concurrent_uni_streams(number(ONE_WAY_STREAMS)?)
            .stream_receive_window(number(config.stream_window.min(room))?)
            .receive_window(number(config.window.min(room))?)
            .send_window(config.sndbuf)
            .max_idle_timeout(Some(IdleTimeout::try_from(config.idle).map_err(|error| error.to_string())?))
            .initial_rtt(config.initial_rtt)
            .initial_mtu(config.packet as u16)
            .mtu_discovery_config(config.pmtud.then(MtuDiscoveryConfig::default))
            .packet_threshold(config.dupthresh as u32)
            .send_fairness(config.scheduler == Scheduler::RoundRobin)
            .ack_frequency_config(config.ack_frequency.then(AckFrequencyConfig::default))
            .enable_segmentation_offload(self.segments > 1);
        // RFC 9002 §7.3.1: slow start counts all that was acknowledged.
        let counting = reno::Counting::Bytes { limit: 1 << 20 };
        let kind = match config.cc {
            Cc::Cubic => Some(Kind::Cubic(cubic::Config { counting, ..cubic::Config::default() })),
            Cc::Reno => Some(Kind::Reno(reno::Config { counting, ..reno::Config::default() })),
            Cc::Bbr => Some(Kind::Bbr),
            Cc::QuinnCubic => None,
        };
        let (packets, epoch) = (config.iw as u32, self.epoch);
        transport.congestion_controller_factory(Arc::new(Windows { kind, packets, epoch, watch }));
        Ok(transport)
    }
}

fn to_ecn(ecn: Option<EcnCodepoint>) -> Ecn {
    match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

impl Endpoint {
    /// A datagram has come; whose it is is settled when all that came with it is in.
    fn take_in(
        &mut self,
        now: Instant,
        source: SocketAddr,
        target: SocketAddr,
        ecn: Ecn,
        datagram: BytesMut,
    ) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let inner = &mut self.inner;
        let handled = self
            .surroundings
            .within(|| inner.handle(at, source, Some(target.ip()), ecn, datagram, &mut buffer));
        match handled {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(&id) = self.handles.get(&handle)
                    && let Some(held) = self.connections.get_mut(&id)
                {
                    let connection = &mut held.connection;
                    if connection.side().is_client() && !std::mem::replace(&mut held.answered, true) {
                        held.watch.note(TraceEvent::Answered);
                    }
                    self.surroundings.within(|| connection.handle_event(event));
                    if self.touched.last() != Some(&id) {
                        self.touched.push(id);
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.buffer = buffer;
                return self.accept(now, incoming);
            }
            Some(DatagramEvent::Response(transmit)) => self.reply(&transmit, &buffer),
            None => {}
        }
        self.buffer = buffer;
    }

    fn settle_touched(&mut self, now: Instant) {
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            self.settle(now, id);
        }
        self.touched = touched;
    }
}

/// The destination of a packet with a long header (RFC 9000 §17.2), of which only the beginning may be there.
pub(crate) fn long_destination(packet: &[u8]) -> Option<&[u8]> {
    let (head, rest) = packet.split_at_checked(6)?;
    if head[0] & 0x80 == 0 {
        return None;
    }
    rest.get(..usize::from(head[5])).filter(|destination| !destination.is_empty())
}

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        self.take_in(now, packet.source, packet.target, packet.ecn, BytesMut::from(packet.payload));
        self.settle_touched(now);
    }

    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        let stride = batch.stride();
        if stride == 0 {
            return;
        }
        // One buffer for all of them, as they came.
        let mut rest = BytesMut::from(batch.bytes());
        while !rest.is_empty() {
            let datagram = rest.split_to(stride.min(rest.len()));
            self.take_in(now, batch.source, batch.target, batch.ecn, datagram);
        }
        self.settle_touched(now);
    }

    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        // RFC 9000 §14.2.1: a quote of our first packet, whose destination nobody knows who was not on the way. What the
        // network says later, of a connection that stands, is not believed.
        if !matches!(icmp.kind, IcmpKind::Unreachable(_) | IcmpKind::UnknownNextHeader) {
            return;
        }
        let Some(quoted) = long_destination(quoted) else { return };
        let meant = |held: &Held| {
            held.first.is_some_and(|first| &first[..] == quoted)
                && held.connection.is_handshaking()
                && held.connection.remote_address().ip() == icmp.target
        };
        let Some((&id, _)) = self.connections.iter().find(|(_, held)| meant(held)) else { return };
        let at = self.at(now);
        let Some(held) = self.connections.get_mut(&id) else { return };
        let nobody = ConnectionClose {
            error_code: TransportErrorCode::CONNECTION_REFUSED,
            frame_type: None,
            reason: Bytes::new(),
        };
        held.end(&mut self.events, id, Some(ConnectionError::ConnectionClosed(nobody)));
        held.connection.close(at, ABORTED, Bytes::new());
        self.settle(now, id);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let mut due: Vec<Id> =
            self.due.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect();
        due.sort_unstable();
        for id in due {
            if let Some(held) = self.connections.get_mut(&id) {
                let connection = &mut held.connection;
                self.surroundings.within(|| connection.handle_timeout(at));
            }
            self.settle(now, id);
        }
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        if let Some(reply) = self.replies.pop_front() {
            let source = self.source(reply.target);
            let source = reply.source.map_or(source, |ip| SocketAddr::new(ip, source.port()));
            (out.source, out.target, out.ecn) = (source, reply.target, reply.ecn);
            out.push(&reply.bytes);
            return true;
        }
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        let segments = self.segments.min(out.max_segments());
        let mut sent = false;
        // Round robin, from whose turn it is.
        while let Some(id) = self.ready.range(self.turn..).next().or_else(|| self.ready.first()).copied() {
            let Some(held) = self.connections.get_mut(&id) else {
                self.ready.remove(&id);
                continue;
            };
            let rate = held.watch.rate();
            // quinn has a pacer, but none that can be told a rate: it is not asked before the next packet is due, with which
            // acknowledgements go, too.
            if rate.is_some() && held.pacer.ready_at() > now {
                let due = held.pacer.ready_at();
                let deadline = held.deadline.map_or(due, |deadline| deadline.min(due));
                self.ready.remove(&id);
                self.set_deadline(id, Some(deadline));
                continue;
            }
            buffer.clear();
            let connection = &mut held.connection;
            let transmit = self.surroundings.within(|| connection.poll_transmit(at, segments, &mut buffer));
            let deadline = held.connection.poll_timeout();
            if let (Some(rate), Some(transmit)) = (rate, &transmit) {
                let mtu = u64::from(held.connection.current_mtu());
                held.pacer.on_sent_at_rate(now, transmit.size as u64, rate, mtu);
            }
            if transmit.is_none() {
                held.watch.stands_still(u64::from(held.connection.current_mtu()));
            }
            let deadline = deadline.map(|at| self.ours(at));
            self.set_deadline(id, deadline);
            let Some(transmit) = transmit else {
                self.ready.remove(&id);
                continue;
            };
            let source = self.source(transmit.destination);
            let source = transmit.src_ip.map_or(source, |ip| SocketAddr::new(ip, source.port()));
            (out.source, out.target, out.ecn) = (source, transmit.destination, to_ecn(transmit.ecn));
            out.put_segments(&buffer[..transmit.size], transmit.segment_size.unwrap_or(transmit.size));
            self.turn = Id(id.0 + 1);
            sent = true;
            break;
        }
        self.buffer = buffer;
        sent
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn has_output(&self) -> bool {
        !self.replies.is_empty() || !self.events.is_empty() || !self.ready.is_empty()
    }

    fn set_tracing(&mut self, on: bool) {
        *self.trace.lock().unwrap_or_else(PoisonError::into_inner) = on.then(Vec::new);
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
