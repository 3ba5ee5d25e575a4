//! The endpoint: every connection of a host over one UDP port, as an engine.
//!
//! Owns quinn's endpoint and connections, and the order in which they are asked. quinn's clock is an operating system's;
//! here an instant of ours is a span after the endpoint's birth, so that no result depends on when that was.

use crate::config::{Cc, Config, Scheduler};
use crate::identifiers::{Clock, Identifiers, reset_key, token_key};
use crate::keys::{WatchedClient, WatchedServer};
use crate::watch::{Trace, Watch};
use crate::window::Windows;
use anabranch_base::time::{Duration, Instant};
use anabranch_base::trace::{TraceEvent, TraceRecord};
use anabranch_base::{Ecn, Engine, Packet, Rng, SendBatch};
use anabranch_congestion::{Kind, Pacer, cubic, reno};
use anabranch_tls::{CryptoProvider, Ends, Surroundings};
use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId,
    DatagramEvent, Dir, EcnCodepoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ReadError,
    ServerConfig, Side, StreamEvent, StreamId, Transmit, TransportConfig, VarInt, WriteError,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

/// A connection's name: never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Id(pub u64);

/// What an endpoint begins with.
pub struct Start {
    /// The settings.
    pub config: Config,
    /// Its own address: what packets leave from.
    pub local: SocketAddr,
    /// Connection ids, keys and all that quinn draws.
    pub rng: Rng,
    /// Who it is, and whom it believes.
    pub ends: Ends,
    /// Most packets that leave in one call (GSO).
    pub segments: usize,
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
    /// The connection is over; `None`: in good order.
    Closed {
        /// Which.
        id: Id,
        /// Why, if not in good order.
        reason: Option<ConnectionError>,
    },
}

struct Held {
    handle: ConnectionHandle,
    connection: Connection,
    watch: Arc<Watch>,
    /// Of a controller that has a pace of its own.
    pacer: Pacer,
    /// The client's side: streams opened so far.
    opened: u64,
    /// Streams whose end has been read, and that somebody holds.
    ended: BTreeSet<u64>,
    deadline: Option<Instant>,
    /// It may have something to send.
    ready: bool,
    told: bool,
    /// A server's side: the application knows of it.
    announced: bool,
    /// It ends as soon as all that was written has arrived.
    closing: bool,
}

/// Packets of quinn's own making: refusals, retries, resets.
struct Reply {
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
    client: Option<(Arc<QuicClientConfig>, String)>,
    server: Option<(Arc<QuicServerConfig>, ServerConfig)>,
    identifiers: Identifiers,
    trace: Trace,
    config: Config,
    local: SocketAddr,
    segments: usize,
    /// The port that sessions are taken in for, whatever that of UDP is.
    listening: Option<u16>,
    /// Retransmission timers that ran out on connections that are gone.
    timeouts: u64,
    connections: BTreeMap<Id, Held>,
    handles: BTreeMap<ConnectionHandle, Id>,
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
        let Start { config, local, mut rng, ends, segments } = start;
        let Ends { surroundings, client, server } = ends;
        #[expect(
            clippy::disallowed_methods,
            reason = "quinn's clock is std's; only spans after this are ever used"
        )]
        let epoch = std::time::Instant::now();
        let clock = Arc::new(Clock::default());
        let identifiers = Identifiers::new(rng.fork("connection ids"));
        let mut seed = [0; 32];
        rng.fill(&mut seed);
        let mut endpoint = EndpointConfig::new(reset_key(&mut rng));
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
                Some((Arc::new(crypto), name))
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
            config,
            local,
            segments: segments.max(1),
            listening: None,
            timeouts: 0,
            connections: BTreeMap::new(),
            handles: BTreeMap::new(),
            next: 0,
            turn: Id(0),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            buffer: Vec::new(),
        };
        // What cannot be set is said here, and not with the first connection.
        endpoint.transport(endpoint.watch(ConnectionId::new(&[])))?;
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
        let (crypto, name) = self.client.clone().ok_or("no client's settings")?;
        let first = self.identifiers.next();
        let watch = self.watch(first);
        let mut config = ClientConfig::new(Arc::new(WatchedClient { inner: crypto, watch: watch.clone() }));
        config.transport_config(Arc::new(self.transport(watch.clone())?));
        config.initial_dst_cid_provider(Arc::new(move || first));
        let at = self.at(now);
        let inner = &mut self.inner;
        watch.note(TraceEvent::Opening);
        let begun = self.surroundings.within(|| inner.connect(at, config, target, &name));
        let (handle, connection) = begun.map_err(|error| error.to_string())?;
        Ok(self.hold(now, handle, connection, watch))
    }

    /// The watch over a connection that a client begins with this destination.
    fn watch(&self, first: ConnectionId) -> Arc<Watch> {
        // Both ends know it. JSON has room for 53 bits.
        let key = first.iter().take(6).fold(0, |key, byte| key << 8 | u64::from(*byte));
        Watch::new(self.clock.clone(), key, self.trace.clone())
    }

    /// What is written before the handshake is done rides with it.
    #[must_use]
    pub fn early_data(&self, id: Id) -> bool {
        self.connections.get(&id).is_some_and(|held| {
            held.connection.side().is_client()
                && held.connection.is_handshaking()
                && held.connection.has_0rtt()
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
        if held.ended.contains(&stream) {
            return (0, true);
        }
        let name = StreamId::new(Side::Client, Dir::Bi, stream);
        let mut recv = held.connection.recv_stream(name);
        let Ok(mut chunks) = recv.read(true) else { return (0, true) };
        let (mut read, mut dry) = (0, false);
        while read < into.len() {
            match chunks.next(into.len() - read) {
                Ok(Some(chunk)) => {
                    into[read..read + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    read += chunk.bytes.len();
                }
                Ok(None) | Err(ReadError::Reset(_)) => {
                    held.ended.insert(stream);
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
        self.connections.get(&id).is_none_or(|held| held.ended.contains(&stream))
    }

    /// Writes to a stream as much as there is room for; `None`: the connection takes nothing any more.
    pub fn send(&mut self, now: Instant, id: Id, stream: u64, from: &[u8]) -> Option<usize> {
        let held = self.connections.get_mut(&id).filter(|held| !held.closing)?;
        while held.connection.side().is_client() && held.opened <= stream {
            if held.connection.streams().open(Dir::Bi).is_none() {
                return if held.connection.is_closed() { None } else { Some(0) };
            }
            held.opened += 1;
        }
        let name = StreamId::new(Side::Client, Dir::Bi, stream);
        let written = match held.connection.send_stream(name).write(from) {
            Ok(written) => {
                held.watch.wrote(name, written);
                Some(written)
            }
            Err(WriteError::Blocked) => Some(0),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => None,
        };
        self.settle(now, id);
        written
    }

    /// Nothing more will be written to the stream.
    pub fn finish(&mut self, now: Instant, id: Id, stream: u64) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        let name = StreamId::new(Side::Client, Dir::Bi, stream);
        if held.connection.send_stream(name).finish().is_ok() {
            held.watch.finished(name);
        }
        self.settle(now, id);
    }

    /// Nobody holds the stream any more: what was written goes on its way and ends there, what comes is not wanted.
    pub fn let_go(&mut self, now: Instant, id: Id, stream: u64) {
        let Some(held) = self.connections.get_mut(&id) else { return };
        let name = StreamId::new(Side::Client, Dir::Bi, stream);
        if held.connection.send_stream(name).finish().is_ok() {
            held.watch.finished(name);
        }
        if !held.ended.remove(&stream) {
            let _ = held.connection.recv_stream(name).stop(VarInt::from_u32(0));
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
        let at = self.at(now);
        let Some(held) = self.connections.get_mut(&id) else { return };
        held.connection.close(at, ABORTED, bytes::Bytes::from_static(b"aborted"));
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
    ) -> Id {
        let id = Id(self.next);
        self.next += 1;
        let held = Held {
            handle,
            connection,
            watch,
            pacer: Pacer::default(),
            opened: 0,
            ended: BTreeSet::new(),
            deadline: None,
            ready: true,
            told: false,
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
        held.ready = true;
        held.watch.settled();
        let mut gone = false;
        while let Some(event) = held.connection.poll_endpoint_events() {
            gone |= event.is_drained();
            if let Some(answer) = self.inner.handle_event(held.handle, event) {
                let connection = &mut held.connection;
                self.surroundings.within(|| connection.handle_event(answer));
            }
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
                quinn_proto::Event::Connected => held.announce(&mut self.events, id, streams),
                quinn_proto::Event::ConnectionLost { reason } => {
                    let reason = Some(reason).filter(|reason| !is_orderly(reason));
                    held.end(&mut self.events, id, reason);
                }
                quinn_proto::Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(name) = held.connection.streams().accept(Dir::Bi) {
                        // Early data is answered at once (RFC 9001 §4.1.2).
                        held.announce(&mut self.events, id, streams);
                        self.events.push_back(Event::Readable { id, stream: name.index() });
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Readable { id: name }) => {
                    self.events.push_back(Event::Readable { id, stream: name.index() });
                }
                quinn_proto::Event::Stream(StreamEvent::Stopped { id: name, error_code }) => {
                    // RFC 9000 §3.5: nobody reads it.
                    let _ = held.connection.send_stream(name).reset(error_code);
                    held.watch.gave_up(name);
                    self.events.push_back(Event::Writable { id });
                }
                quinn_proto::Event::Stream(StreamEvent::Writable { .. } | StreamEvent::Available { .. }) => {
                    self.events.push_back(Event::Writable { id })
                }
                _ => {}
            }
        }
        // Why comes before that it is gone.
        if gone {
            self.handles.remove(&held.handle);
            held.end(&mut self.events, id, None);
            self.timeouts += held.watch.timeouts();
            self.connections.remove(&id);
            return;
        }
        if held.closing && !held.told && held.watch.is_delivered() {
            held.connection.close(at, VarInt::from_u32(0), bytes::Bytes::new());
            held.end(&mut self.events, id, None);
        }
        let deadline = held.connection.poll_timeout();
        let deadline = deadline.map(|at| self.ours(at));
        if let Some(held) = self.connections.get_mut(&id) {
            held.deadline = deadline;
        }
    }

    fn reply(&mut self, transmit: &Transmit, bytes: &[u8]) {
        if self.replies.len() < MOST_REPLIES {
            self.replies.push_back(Reply {
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
        if let Some((crypto, config)) = self.server.clone().filter(|_| self.listening.is_some()) {
            let watch = self.watch(*incoming.orig_dst_cid());
            let mut config = config;
            config.crypto = Arc::new(WatchedServer { inner: crypto, watch: watch.clone() });
            // It was tried when the endpoint began.
            if let Ok(transport) = self.transport(watch.clone()) {
                config.transport_config(Arc::new(transport));
            }
            let inner = &mut self.inner;
            #[expect(clippy::result_large_err, reason = "quinn's own type, looked at and gone")]
            let accepted =
                self.surroundings.within(|| inner.accept(incoming, at, &mut buffer, Some(Arc::new(config))));
            match accepted {
                Ok((handle, connection)) => {
                    self.hold(now, handle, connection, watch);
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
    /// A peer has begun it, which is told once.
    fn announce(&mut self, events: &mut VecDeque<Event>, id: Id, streams: u64) {
        if !std::mem::replace(&mut self.announced, true) {
            events.push_back(Event::Accepted { id, streams });
        }
    }

    /// The connection is over, which is told once.
    fn end(&mut self, events: &mut VecDeque<Event>, id: Id, reason: Option<ConnectionError>) {
        if !std::mem::replace(&mut self.told, true) {
            self.watch.note(TraceEvent::Closed);
            events.push_back(Event::Closed { id, reason });
        }
    }
}

/// The application's error code of an end that is none in good order (RFC 9000 §20.2 leaves it to us).
const ABORTED: VarInt = VarInt::from_u32(1);

/// The other side, or this one, has said goodbye.
fn is_orderly(reason: &ConnectionError) -> bool {
    match reason {
        ConnectionError::LocallyClosed => true,
        ConnectionError::ApplicationClosed(close) => close.error_code == VarInt::from_u32(0),
        _ => false,
    }
}

/// Sees that certificates and keys come with a source of randomness: that of virtual time has none outside of it.
fn draws(surroundings: &Surroundings, provider: &CryptoProvider) -> Result<(), String> {
    let drawn = surroundings.within(|| provider.secure_random.fill(&mut [0]));
    drawn.map_err(|_| "these settings of TLS are of virtual time, and of no use outside of it".to_owned())
}

impl Endpoint {
    /// quinn's settings of one connection.
    fn transport(&self, watch: Arc<Watch>) -> Result<TransportConfig, String> {
        let config = &self.config;
        let number = |value: u64| VarInt::from_u64(value).map_err(|error| error.to_string());
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(number(config.streams)?)
            .max_concurrent_uni_streams(number(0)?)
            .stream_receive_window(number(config.stream_window)?)
            .receive_window(number(config.window)?)
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

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let ecn = EcnCodepoint::from_bits(packet.ecn as u8);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let inner = &mut self.inner;
        let data = BytesMut::from(packet.payload);
        let handled = self
            .surroundings
            .within(|| inner.handle(at, packet.source, Some(packet.target.ip()), ecn, data, &mut buffer));
        match handled {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(&id) = self.handles.get(&handle)
                    && let Some(held) = self.connections.get_mut(&id)
                {
                    let connection = &mut held.connection;
                    self.surroundings.within(|| connection.handle_event(event));
                    self.settle(now, id);
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

    fn handle_timeout(&mut self, now: Instant) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let due: Vec<Id> = self
            .connections
            .iter()
            .filter(|(_, held)| held.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(id, _)| *id)
            .collect();
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
            (out.source, out.target, out.ecn) = (self.local, reply.target, reply.ecn);
            out.push(&reply.bytes);
            return true;
        }
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        let segments = self.segments.min(out.max_segments());
        // Round robin, from whose turn it is.
        let from = self.turn;
        let order: Vec<Id> = self
            .connections
            .range(from..)
            .chain(self.connections.range(..from))
            .filter(|(_, held)| held.ready)
            .map(|(id, _)| *id)
            .collect();
        let mut sent = false;
        for id in order {
            let Some(held) = self.connections.get_mut(&id) else { continue };
            let rate = held.watch.rate();
            // quinn has a pacer, but none that can be told a rate: it is not asked before the next packet is due, with which
            // acknowledgements go, too.
            if rate.is_some() && held.pacer.ready_at() > now {
                let due = held.pacer.ready_at();
                held.ready = false;
                held.deadline = Some(held.deadline.map_or(due, |deadline| deadline.min(due)));
                continue;
            }
            buffer.clear();
            let connection = &mut held.connection;
            let transmit = self.surroundings.within(|| connection.poll_transmit(at, segments, &mut buffer));
            let deadline = held.connection.poll_timeout();
            held.ready = transmit.is_some();
            if let (Some(rate), Some(transmit)) = (rate, &transmit) {
                let mtu = u64::from(held.connection.current_mtu());
                held.pacer.on_sent_at_rate(now, transmit.size as u64, rate, mtu);
            }
            let deadline = deadline.map(|at| self.ours(at));
            if let Some(held) = self.connections.get_mut(&id) {
                held.deadline = deadline;
            }
            let Some(transmit) = transmit else {
                if let Some(held) = self.connections.get(&id) {
                    held.watch.stands_still(u64::from(held.connection.current_mtu()));
                }
                continue;
            };
            let source = transmit.src_ip.map_or(self.local, |ip| SocketAddr::new(ip, self.local.port()));
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
        self.connections.values().filter_map(|held| held.deadline).min()
    }

    fn has_output(&self) -> bool {
        !self.replies.is_empty()
            || !self.events.is_empty()
            || self.connections.values().any(|held| held.ready)
    }

    fn set_tracing(&mut self, on: bool) {
        *self.trace.lock().unwrap_or_else(PoisonError::into_inner) = on.then(Vec::new);
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
