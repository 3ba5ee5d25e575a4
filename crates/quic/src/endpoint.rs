//! The QUIC endpoint: an engine with all connections of a host over one UDP port.
//!
//! This endpoint owns quinn's endpoint and quinn's connections, and decides in which order the connections may send.
//! quinn requires instants of the operating system's clock (`std::time::Instant`). This endpoint therefore reads that
//! clock once, at its creation. Each instant for quinn is that first instant plus the time on our own clock, so results
//! do not depend on the operating system's clock.
//!
//! - `connections`: begins and ends connections, and handles their events
//! - `handshake_limiter`: limits the handshakes that a server has under way
//! - `packets`: sends and receives packets, and handles deadlines
//! - `proof`: limits the bytes sent to addresses that are not validated yet
//! - `queue`: clients that wait for their handshake to begin
//! - `streams`: reads and writes streams
//! - `transport`: creates quinn's settings for a connection

mod connections;
mod handshake_limiter;
mod packets;
mod proof;
mod queue;
mod streams;
mod transport;

#[cfg(feature = "testing")]
pub(crate) use packets::long_destination;

use crate::config::Config;
use crate::identifiers::{Clock, Identifiers, reset_key, token_key};
use crate::qlog::MemoryLogs;
use crate::shards::Shard;
use crate::trace::Trace;
use crate::watch::Watch;
use anabranch_base::time::{Duration, Instant};
use anabranch_base::{Account, Ecn, Rng};
use anabranch_congestion::Pacer;
use anabranch_tls::{CertificateRejection, HostTls, Surroundings};
use anabranch_transport::network::Logs;
use anabranch_transport::protocol::ConnectionLog;
use handshake_limiter::HandshakeLimiter;
use proof::UnvalidatedAddress;
use queue::Queue;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, ConnectionId, EndpointConfig, ServerConfig,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use transport::draws;

/// The identifier of a connection, which is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Id(pub u64);

/// Statistics of a connection, as quinn counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// The number of packets declared lost (RFC 9002 §6.1).
    pub lost: u64,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// The smoothed round-trip time (RFC 9002 §5.3).
    pub srtt: Duration,
}

/// The parameters with which an endpoint is created.
pub struct EndpointOptions {
    /// The settings.
    pub config: Config,
    /// The local address of outgoing packets. Once a packet of the peer arrives at another address of this host, that
    /// address is used instead. If the IP address of `local` is unspecified, the host's routes choose the address, and
    /// only the port of `local` is used.
    pub local: SocketAddr,
    /// The source of connection IDs, keys and all random numbers that quinn uses.
    pub rng: Rng,
    /// The certificate of this endpoint, and the certificates that it trusts.
    pub tls: HostTls,
    /// The maximum number of packets sent in one call (GSO).
    pub segments: usize,
    /// Identifies this endpoint among the endpoints that share one port.
    pub shard: Option<Shard>,
    /// Receives the qlog of each connection; `None` if connections are not logged.
    pub logs: Option<Arc<dyn Logs>>,
}

/// An event for the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The handshake of a connection that this endpoint began is done.
    Connected {
        /// The connection.
        id: Id,
        /// The number of bidirectional streams that this side may have open at the same time.
        streams: u64,
    },
    /// A peer has begun a connection.
    Accepted {
        /// The connection.
        id: Id,
        /// The number of bidirectional streams that the peer may have open at the same time.
        streams: u64,
    },
    /// The application can read data or the end of a stream.
    Readable {
        /// The connection.
        id: Id,
        /// The stream.
        stream: u64,
    },
    /// There may be room to write on streams of this connection.
    Writable {
        /// The connection.
        id: Id,
    },
    /// The peer's limit on open streams may have risen.
    Available {
        /// The connection.
        id: Id,
    },
    /// The connection has ended.
    Closed {
        /// The connection.
        id: Id,
        /// Why the connection ended; `None` if it ended gracefully.
        reason: Option<ConnectionError>,
    },
}

/// The state of a stream that the endpoint keeps in addition to quinn's state.
#[derive(Default)]
struct StreamEntry {
    /// Whether the application has read the end of the stream.
    ended: bool,
    /// The code with which the peer has cancelled the direction that we read. Set when the application reads and finds
    /// the cancellation.
    reset: Option<u64>,
    /// The code with which the peer has cancelled the direction that we write.
    stopped: Option<u64>,
}

struct ConnectionEntry {
    handle: ConnectionHandle,
    connection: Connection,
    watch: Arc<Watch>,
    /// If we are the client: the first destination connection ID, which we chose.
    first: Option<ConnectionId>,
    /// Paces packets for congestion controllers that set their own rate.
    pacer: Pacer,
    /// The number of bidirectional streams that we have opened as the client.
    opened: u64,
    /// The streams that the application holds, and the streams that it may still accept.
    open: BTreeMap<u64, StreamEntry>,
    /// The number of bytes that the application can write in addition to one congestion window. `None` if the
    /// congestion window does not limit written bytes.
    unsent: Option<u64>,
    /// The connection's account in the shared memory budget.
    account: Option<Account>,
    /// The connection's deadline as it is listed in `Endpoint::due`; `None` if it is not listed there.
    deadline: Option<Instant>,
    end_reported: bool,
    /// Whether a packet from the peer has arrived.
    has_response: bool,
    /// Whether we, as the server, have reported the connection to the application.
    announced: bool,
    /// Whether the connection closes as soon as all written data is acknowledged.
    closing: bool,
    /// Limits the bytes that may be sent to the peer's address while the address is not validated. This is the case
    /// after a client's first packet, and after the peer's address has changed.
    unvalidated: Option<UnvalidatedAddress>,
}

/// A packet of quinn's endpoint that belongs to no connection: a refusal, a Retry, or a stateless reset.
struct Reply {
    /// The local address that received the packet to which this packet replies.
    source: Option<IpAddr>,
    target: SocketAddr,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// All connections of a host.
pub struct Endpoint {
    inner: quinn_proto::Endpoint,
    epoch: std::time::Instant,
    clock: Arc<Clock>,
    surroundings: Surroundings,
    client: Option<(Arc<QuicClientConfig>, String, CertificateRejection)>,
    server: Option<(Arc<QuicServerConfig>, ServerConfig)>,
    identifiers: Identifiers,
    trace: Trace,
    logs: Option<Arc<dyn Logs>>,
    /// The logs that [`start_logging`](Self::start_logging) keeps in memory; `None` before that call.
    memory_logs: Option<Arc<MemoryLogs>>,
    config: Config,
    local: SocketAddr,
    segments: usize,
    /// The port for which connections are accepted; `None` if connections are refused. It may differ from the UDP port.
    listening: Option<u16>,
    /// The number of retransmission timeouts (PTO) of connections that have ended.
    timeouts: u64,
    accepted: u64,
    connections: BTreeMap<Id, ConnectionEntry>,
    handles: BTreeMap<ConnectionHandle, Id>,
    /// Connections that may have something to send.
    ready: BTreeSet<Id>,
    /// Limits the handshakes that this server has under way.
    handshake_limiter: HandshakeLimiter,
    /// The clients that wait for their handshake to begin.
    queue: Queue,
    /// The servers that rejected our early data. A server is removed when the next connection to it begins.
    refused_early: BTreeSet<SocketAddr>,
    /// The deadlines of the connections, the earliest first.
    due: BTreeSet<(Instant, Id)>,
    /// The connections that received packets of the current batch.
    received_now: Vec<Id>,
    next: u64,
    /// The connection whose turn it is to send.
    next_to_send: Id,
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
    /// Creates an endpoint without connections.
    ///
    /// # Errors
    /// A one-line text that says why the certificates or settings cannot be used for QUIC.
    pub fn new(options: EndpointOptions) -> Result<Self, String> {
        let EndpointOptions { config, local, mut rng, tls, segments, shard, logs } = options;
        let HostTls { surroundings, client, server } = tls;
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
                config.retry_token_lifetime(RETRIED);
                config
                    .incoming_buffer_size(queue::KEPT_OF_ONE)
                    .incoming_buffer_size_total(queue::KEPT_OF_ALL);
                Some((crypto, config))
            }
        };
        let client = match client {
            None => None,
            Some((client, name)) => {
                let config = client.rustls();
                draws(&surroundings, config.crypto_provider())?;
                let crypto = QuicClientConfig::try_from(config).map_err(|error| error.to_string())?;
                Some((Arc::new(crypto), name, client.rejection()))
            }
        };
        let server_config = server.as_ref().map(|(_, config)| Arc::new(config.clone()));
        let endpoint = Self {
            inner: quinn_proto::Endpoint::new(Arc::new(endpoint), server_config, true, None),
            epoch,
            clock,
            surroundings,
            client,
            server,
            identifiers,
            trace: Trace::default(),
            logs,
            memory_logs: None,
            config,
            local,
            segments: segments.max(1),
            listening: None,
            timeouts: 0,
            accepted: 0,
            connections: BTreeMap::new(),
            handles: BTreeMap::new(),
            ready: BTreeSet::new(),
            handshake_limiter: HandshakeLimiter::default(),
            queue: Queue::default(),
            refused_early: BTreeSet::new(),
            due: BTreeSet::new(),
            received_now: Vec::new(),
            next: 0,
            next_to_send: Id(0),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            buffer: Vec::new(),
        };
        // The settings are checked here, so that invalid settings are reported now and not with the first connection.
        let watch = Watch::new(endpoint.clock.clone(), 0, endpoint.trace.clone());
        endpoint.transport(watch, endpoint.config.streams)?;
        Ok(endpoint)
    }

    /// Returns the settings in use.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether the endpoint has a certificate. Without a certificate, it cannot accept connections.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.server.is_some()
    }

    /// Returns the number of connections that peers have begun and that were reported to the application.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the number of handshakes that peers have begun and that are still under way.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.handshake_limiter.under_way()
    }

    /// Returns the UDP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.local.port()
    }

    /// Returns the port for which connections are accepted; `None` if connections are refused.
    #[must_use]
    pub fn listening(&self) -> Option<u16> {
        self.listening
    }

    /// Accepts connections for this port from now on. With `None`, connections are refused.
    pub fn set_listening(&mut self, port: Option<u16>) {
        self.listening = port;
    }

    /// Records how many connections currently wait to be accepted by the application. While too many connections wait,
    /// no further handshake begins.
    pub fn set_accept_queue(&mut self, waiting: usize) {
        self.handshake_limiter.waiting = waiting;
    }

    /// Returns the number of retransmission timeouts (PTO, RFC 9002 §6.2) of all connections so far.
    #[must_use]
    pub fn timeouts(&self) -> u64 {
        self.timeouts + self.connections.values().map(|entry| entry.watch.timeouts()).sum::<u64>()
    }

    /// Returns whether data that the application writes or reads now is early data. Data is early while the handshake
    /// is not complete. A client sends early data with the handshake. Early data that a server reads may have been
    /// replayed by an attacker (RFC 8470).
    #[must_use]
    pub fn early_data(&self, id: Id) -> bool {
        self.connections.get(&id).is_some_and(|entry| {
            let connection = &entry.connection;
            connection.is_handshaking() && (connection.side().is_server() || connection.has_0rtt())
        })
    }

    /// Keeps in memory the qlog of each connection that begins after this call.
    pub fn start_logging(&mut self) {
        let memory_logs = Arc::new(MemoryLogs::default());
        self.logs = Some(memory_logs.clone());
        self.memory_logs = Some(memory_logs);
    }

    /// Removes and returns the logs that are kept in memory.
    #[must_use]
    pub fn take_logs(&self) -> Vec<ConnectionLog> {
        self.memory_logs.as_ref().map(|memory_logs| memory_logs.take()).unwrap_or_default()
    }

    /// Returns the peer's current address; `None` if the connection has been removed.
    #[must_use]
    pub fn peer(&self, id: Id) -> Option<SocketAddr> {
        self.connections.get(&id).map(|entry| entry.connection.remote_address())
    }

    /// Returns the number of stream bytes that were written and are not acknowledged yet.
    #[must_use]
    pub fn unacknowledged(&self, id: Id) -> u64 {
        self.connections.get(&id).map_or(0, |entry| entry.watch.unacknowledged())
    }

    /// Returns the statistics of a connection; `None` if the connection has been removed.
    #[must_use]
    pub fn stats(&self, id: Id) -> Option<ConnectionStats> {
        let path = self.connections.get(&id)?.connection.stats().path;
        Some(ConnectionStats { lost: path.lost_packets, cwnd: path.cwnd, srtt: path.rtt })
    }

    /// Returns the connection's key in traces: six bytes of the client's first destination connection ID, which both
    /// ends know.
    #[must_use]
    pub fn trace_key(&self, id: Id) -> u64 {
        self.connections.get(&id).map_or(id.0, |entry| entry.watch.key())
    }

    fn at(&self, now: Instant) -> std::time::Instant {
        self.epoch + Duration::from_nanos(now.as_nanos())
    }

    fn ours(&self, at: std::time::Instant) -> Instant {
        Instant::from_nanos(anabranch_base::time::nanos(at.saturating_duration_since(self.epoch)))
    }

    /// Returns the local address for packets to `target` for which quinn chooses no local address.
    fn source(&self, target: SocketAddr) -> SocketAddr {
        if !self.local.ip().is_unspecified() {
            return self.local;
        }
        let any: IpAddr =
            if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        SocketAddr::new(any, self.local.port())
    }
}

/// The time for which the token of a Retry packet is valid (RFC 9000 §8.1.4). It is longer than the time for which a
/// client repeats an unanswered packet.
const RETRIED: Duration = Duration::from_secs(60);
