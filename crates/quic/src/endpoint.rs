//! The endpoint: every connection of a host over one UDP port, as an engine.
//!
//! Owns quinn's endpoint and connections, and the order in which they are asked. quinn's clock is an operating system's;
//! here an instant of ours is a span after the endpoint's birth, so that no result depends on when that was.
//!
//! - `connections`: how they begin and end, and what becomes of their events
//! - `entrance`: whose handshake is under way, and who may begin one
//! - `packets`: packets in and out, and deadlines: the endpoint as an engine
//! - `proof`: what goes to an address of which nobody has shown that it is there
//! - `queue`: who waits for its handshake to begin
//! - `streams`: what applications read and write
//! - `transport`: what quinn is set to for a connection

mod connections;
mod entrance;
mod packets;
mod proof;
mod queue;
mod streams;
mod transport;

#[cfg(feature = "testing")]
pub(crate) use packets::long_destination;

use crate::config::Config;
use crate::identifiers::{Clock, Identifiers, reset_key, token_key};
use crate::qlog::{Kept, Logs};
use crate::shards::Shard;
use crate::trace::Trace;
use crate::watch::Watch;
use anabranch_base::time::{Duration, Instant};
use anabranch_base::{Account, Ecn, Rng};
use anabranch_congestion::Pacer;
use anabranch_tls::{Distrust, Ends, Surroundings};
use anabranch_transport::protocol::ConnectionLog;
use entrance::Entrance;
use proof::Unproven;
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

/// A connection's name: never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Id(pub u64);

/// How a connection stands, by quinn's count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// Packets that were taken for lost (RFC 9002 §6.1).
    pub lost: u64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time (RFC 9002 §5.3).
    pub srtt: Duration,
}

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
    /// The peer has begun or moved, and has not shown that it is where it seems to be.
    unproven: Option<Unproven>,
}

/// Packets of quinn's own making: refusals, retries, resets.
struct Reply {
    /// Where the packet came to that it answers.
    source: Option<IpAddr>,
    target: SocketAddr,
    ecn: Ecn,
    bytes: Vec<u8>,
}

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
    /// Where those go that are kept in memory.
    kept: Option<Arc<Kept>>,
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
    /// Handshakes that a server has under way.
    entrance: Entrance,
    /// Clients that wait for room there.
    queue: Queue,
    /// Servers that did not take what was sent early; until the next connection with each.
    refused_early: BTreeSet<SocketAddr>,
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
            kept: None,
            config,
            local,
            segments: segments.max(1),
            listening: None,
            timeouts: 0,
            accepted: 0,
            connections: BTreeMap::new(),
            handles: BTreeMap::new(),
            ready: BTreeSet::new(),
            entrance: Entrance::default(),
            queue: Queue::default(),
            refused_early: BTreeSet::new(),
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

    /// Handshakes that peers have begun here and that are not done.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.entrance.under_way()
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

    /// So many connections wait to be taken: where they are many, nobody begins another.
    pub fn set_accept_queue(&mut self, waiting: usize) {
        self.entrance.waiting = waiting;
    }

    /// How often a retransmission timer (RFC 9002 §6.2) ran out.
    #[must_use]
    pub fn timeouts(&self) -> u64 {
        self.timeouts + self.connections.values().map(|held| held.watch.timeouts()).sum::<u64>()
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

    /// Logs connections that begin from now on in memory.
    pub fn keep_logs(&mut self) {
        let kept = Arc::new(Kept::default());
        self.logs = Some(kept.clone());
        self.kept = Some(kept);
    }

    /// Takes these logs.
    #[must_use]
    pub fn take_logs(&self) -> Vec<ConnectionLog> {
        self.kept.as_ref().map(|kept| kept.take()).unwrap_or_default()
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

    /// How a connection stands; `None` once it has ended.
    #[must_use]
    pub fn figures(&self, id: Id) -> Option<Figures> {
        let path = self.connections.get(&id)?.connection.stats().path;
        Some(Figures { lost: path.lost_packets, cwnd: path.cwnd, srtt: path.rtt })
    }

    /// The connection's key in traces: of the client's first destination connection id, so both ends know it.
    #[must_use]
    pub fn trace_key(&self, id: Id) -> u64 {
        self.connections.get(&id).map_or(id.0, |held| held.watch.key())
    }

    fn at(&self, now: Instant) -> std::time::Instant {
        self.epoch + Duration::from_nanos(now.as_nanos())
    }

    fn ours(&self, at: std::time::Instant) -> Instant {
        Instant::from_nanos(anabranch_base::time::nanos(at.saturating_duration_since(self.epoch)))
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
}

/// How long a Retry packet's token is good (RFC 9000 §8.1.4): longer than a client asks again and again that is not answered.
const RETRIED: Duration = Duration::from_secs(60);
