//! Runs SCTP in a `World`. Each association is a session, and each pair of an outgoing and an incoming SCTP stream is a
//! stream of that session.
//!
//! One [`SctpHost`] is the whole SCTP of a host: one engine, one socket (IP protocol 132, or UDP according to
//! RFC 6951), one drive loop. Outgoing stream *a* is paired with incoming stream *a*, and only pairs that exist in both
//! directions can be used.
//!
//! A stream is a sequence of bytes. The bytes are carried in user messages, whose boundaries mean nothing to the
//! reader. Written data is split into messages of one DATA chunk each, because a longer message would block other
//! streams. With I-DATA a longer message does not block other streams, so messages have up to 64 KiB. SCTP has no
//! half-close, so [`Stream::finish`] sends nothing.
//!
//! - `close_reason`: texts for the end of an association
//! - `engine`: implements [`SessionEngine`](crate::engine::SessionEngine) for the SCTP endpoint
//! - `ports`: which ports this program uses, and which ports other programs of the host use
//! - `settings`: what the configuration of SCTP tells other modules
//! - `shards`: several SCTP hosts behind one port, one per thread
//!
//! [`Stream::finish`]: crate::Stream::finish

mod close_reason;
mod engine;
mod ports;
mod settings;
mod shards;

pub use anabranch_sctp::{Config, PROFILES, PathInfo, PathState, SharedKeys};
pub use close_reason::to_close_reason;
pub use engine::{SctpEngine, follow_addresses};
pub use ports::PortClaims;
pub use shards::{Directory, Member};

use crate::capabilities::{Capabilities, Feature, LowerProtocols, Streams, Words};
use crate::connector::{ConnectError, ListenError};
use crate::engine::{BoundHost, EngineConnector, EngineListener, EngineSession, EngineStream};
use crate::network::{self, Sharing};
use crate::protocol::{
    Http, Layer, Opening, PathEvent, Protocol, RunnableProtocol, Scheme, StartOptions, Starting,
};
use crate::session::CloseReason;
use crate::settings::Settings;
use anabranch_sctp::{AssociationInfo, AssociationStats, Endpoint, Received, Shard};
use anabranch_world::{DatagramSocket, Local, World};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

pub use crate::capabilities::LowerProtocol;
pub use crate::protocol::Server as SctpServer;

/// The UDP port that is registered for SCTP in UDP (RFC 6951 §8).
pub const ENCAPSULATION_PORT: u16 = 9899;

/// The IP protocol number of SCTP, as registered with IANA.
pub const IP_PROTOCOL: u8 = 132;

/// The payload protocol identifier of HTTP over SCTP, as registered with IANA.
pub const PPID_HTTP: u32 = 63;

/// SCTP as implemented by this project's engine, for every `World`.
#[derive(Clone, Copy, Debug)]
pub struct Sctp;

const CAPABILITIES: Capabilities = Capabilities {
    streams: Streams::Reusable,
    half_close: false,
    messages: true,
    unordered: true,
    partial_reliability: Feature::Extension {
        knob: "partial_reliability",
        rule: "RFC 3758 skips the messages",
    },
    can_add_streams: Feature::Extension { knob: "reconfig", rule: "RFC 6525 adds the streams" },
    paths: true,
    survives_address_change: Feature::Extension { knob: "asconf", rule: "RFC 5061 tells the peer" },
    early_data: true,
    secure: false,
    layered: true,
    background: false,
    carriers: LowerProtocols { ip: Some(IP_PROTOCOL), udp: Some(ENCAPSULATION_PORT) },
    kernel: false,
    words: Words { session: ["association", "associations"] },
};

impl Protocol for Sctp {
    fn name(&self) -> &'static str {
        "sctp"
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn schemes(&self) -> &'static [Scheme] {
        const UDP: Scheme = Scheme {
            name: "sctp",
            url: Some("http+sctp"),
            port: ENCAPSULATION_PORT,
            in_udp: true,
            http: Some(Http::StreamPairs),
        };
        const IP: Scheme =
            Scheme { name: "sctp-ip", url: Some("http+sctp-ip"), port: 80, in_udp: false, ..UDP };
        &[UDP, IP]
    }

    fn profiles(&self) -> &'static [&'static str] {
        PROFILES
    }

    fn default_profile(&self) -> &'static str {
        "modern"
    }

    /// RFC 6458 §5.3.1 has the current names: `sinit_num_ostreams` and `sinit_max_instreams`.
    fn current_knob(&self, old: &str) -> Option<&'static str> {
        match old {
            "streams" => Some("num_ostreams"),
            "inbound" => Some("max_instreams"),
            _ => None,
        }
    }

    fn profile(&self, name: &str) -> Option<Box<dyn Settings>> {
        Config::profile(name).map(|config| Box::new(config) as Box<dyn Settings>)
    }

    fn deployed(&self) -> Option<Box<dyn Settings>> {
        let mut config = Config::profile(self.default_profile())?;
        // Real networks lose ICMP messages (RFC 8899 §1.1). Without black-hole detection, a path whose MTU is smaller
        // than that of its interface would carry the handshake and nothing else.
        config
            .set_unless_user_set("pmtud", "blackhole", "RFC 8899 §1.1: real networks lose ICMP messages")
            .ok()?;
        Some(Box::new(config))
    }

    fn share(&self, threads: u32) -> Option<Sharing> {
        let directory = Directory::new(threads)?;
        let members = (0..threads).map(|index| Some(network::Member(Arc::new(directory.member(index)?))));
        Some(Sharing { steering: directory.clone(), members: members.collect::<Option<_>>()? })
    }

    fn remark(&self) -> Option<&'static str> {
        Some("sctp is always anabranch's own stack, also in the emulated world; sctp-kernel is the kernel's")
    }
}

impl<W: World> RunnableProtocol<W> for Sctp {
    fn open(&self, world: W, opening: Opening<W>) -> Starting {
        let Opening { start, socket: Some(socket), member, .. } = opening else {
            return self.start(world, opening.start);
        };
        Box::pin(async move {
            let config = start.settings.downcast::<Config>()?;
            let host = match start.layer {
                None => {
                    let member = member.and_then(|member| member.content());
                    SctpHost::on(world, config, socket, start.paths, member)
                }
                Some(layer) => SctpHost::layered_on(world, config, socket, layer),
            };
            Ok(Rc::new(host) as _)
        })
    }

    fn start(&self, world: W, start: StartOptions) -> Starting {
        Box::pin(async move {
            let config = start.settings.downcast::<Config>()?;
            let host = match start.layer {
                None => SctpHost::new(world, config, start.carrier, start.paths).await?,
                Some(layer) => SctpHost::layered(world, config, start.carrier, layer).await?,
            };
            Ok(Rc::new(host) as _)
        })
    }
}

/// A running instance of SCTP on one host. A clone is another handle of the same instance. The instance runs until all
/// its handles and all handles of its sessions are dropped.
pub type SctpHost<W> = BoundHost<W, SctpEngine>;
/// A listener that accepts associations to one port.
pub type SctpListener<W> = EngineListener<W, SctpEngine>;
/// A connector that opens associations from one host to the servers for which it was created.
pub type SctpConnector<W> = EngineConnector<W, SctpEngine>;
/// An association, as a session.
pub type SctpSession<W> = EngineSession<W, SctpEngine>;
/// A stream pair of an association, as a two-way sequence of bytes.
pub type SctpStream<W> = EngineStream<W, SctpEngine>;

/// Returns the protocol or port to which a socket for `carrier` must be bound.
fn local(carrier: LowerProtocol) -> Local {
    match carrier {
        LowerProtocol::Ip => Local::Ip { protocol: IP_PROTOCOL },
        LowerProtocol::Udp { port } => Local::Udp { port },
    }
}

/// Creates an SCTP endpoint for `socket`, which is a socket of `world` or a layer around such a socket. The endpoint
/// uses the first `paths` addresses of the socket, or all of them if `paths` is `None`. With `member`, several
/// endpoints share one UDP port or IP protocol, and `member` identifies this endpoint. Also returns the SCTP ports that
/// the endpoint has claimed.
#[must_use]
pub fn endpoint_over(
    world: &impl World,
    config: Config,
    socket: &impl DatagramSocket,
    paths: Option<usize>,
    member: Option<&Member>,
) -> (Endpoint, PortClaims) {
    let mut addresses = socket.local();
    addresses.truncate(paths.unwrap_or(usize::MAX).max(1));
    let config = match socket.overhead() {
        0 => config,
        overhead => config.over_layer(overhead),
    };
    let mut endpoint = Endpoint::new(config, addresses.clone(), world.rng("sctp"));
    for address in addresses {
        endpoint.set_mtu(address.ip(), socket.mtu(address.ip()));
    }
    let ports = socket.ports();
    if member.is_some() || ports.is_some() {
        let shard = member.map_or_else(Shard::default, |member| member.shard);
        let directory = member.map(|member| member.directory.clone());
        endpoint.set_shard(shard, Arc::new(ports::OtherEndpoints { directory, ports: ports.clone() }));
    }
    (endpoint, PortClaims::new(ports))
}

impl<W: World> BoundHost<W, SctpEngine> {
    /// Starts SCTP on this host with the first `paths` of the host's addresses, or with all of them if `paths` is
    /// `None`.
    ///
    /// # Errors
    /// The socket cannot be opened; see [`World::bind`].
    pub async fn new(
        world: W,
        config: Config,
        carrier: LowerProtocol,
        paths: Option<usize>,
    ) -> io::Result<Self> {
        let socket = world.bind(local(carrier)).await?;
        Ok(Self::on(world, config, socket, paths, None))
    }

    /// Starts SCTP over `layer` (for example DTLS), which sends its packets over `carrier`. The layer has one session
    /// per peer. SCTP therefore uses only the host's first address (RFC 8261 §6.1), and neither endpoint changes its
    /// address.
    ///
    /// # Errors
    /// The socket cannot be opened; see [`World::bind`].
    pub async fn layered(
        world: W,
        config: Config,
        carrier: LowerProtocol,
        layer: Rc<dyn Layer>,
    ) -> io::Result<Self> {
        let socket = world.bind(local(carrier)).await?;
        Ok(Self::layered_on(world, config, socket, layer))
    }

    /// Starts SCTP over `layer`, which itself uses the socket `socket`.
    pub fn layered_on(world: W, mut config: Config, socket: W::Socket, layer: Rc<dyn Layer>) -> Self {
        config.asconf = false;
        let host = Self::on(world, config, layer.over(Box::new(socket)), Some(1), None);
        host.inner.shared.borrow_mut().engine.layer = Some(layer);
        host
    }

    /// Starts SCTP over `socket`, which is a socket of `world` or a layer around one.
    #[must_use]
    pub fn with_socket(world: W, config: Config, socket: impl DatagramSocket) -> Self {
        Self::on(world, config, socket, None, None)
    }

    /// Starts one of several SCTP hosts behind one port. `socket` is one of the sockets that share the port. No other
    /// host uses this socket.
    #[must_use]
    pub fn new_shard(world: W, config: Config, socket: W::Socket, member: Member) -> Self {
        Self::on(world, config, socket, None, Some(member))
    }

    fn on(
        world: W,
        config: Config,
        socket: impl DatagramSocket,
        paths: Option<usize>,
        member: Option<Member>,
    ) -> Self {
        let dynamic = config.auth && config.asconf;
        let (engine, claims) = endpoint_over(&world, config, &socket, paths, member.as_ref());
        let mut engine = SctpEngine::new(engine, claims);
        engine.member = member;
        // An endpoint that cannot announce address changes to its peers keeps the addresses that it started with
        // (RFC 5061).
        let most = if dynamic { paths.unwrap_or(usize::MAX).max(1) } else { 0 };
        Self::over(world, engine, socket, Some(most))
    }

    /// Starts an association with `port` at the addresses `peer`. The first address is the primary. The ports in
    /// `peer` are the peer's UDP encapsulation port, or 0 for IP protocol 132.
    ///
    /// # Errors
    /// [`ConnectError`] if the association could not be started.
    pub fn connect(&self, peer: &[SocketAddr], port: u16) -> Result<SctpSession<W>, ConnectError> {
        self.connect_to(&SctpServer { addresses: peer.to_vec(), port })
    }

    /// Accepts associations that peers open to `port`.
    ///
    /// # Errors
    /// [`ListenError`] if the port is in use.
    pub fn listen(&self, port: u16) -> Result<SctpListener<W>, ListenError> {
        self.listen_with(port, 0)
    }

    /// From now on, calls `listener` with each path event; see [`Host::on_path_event`](crate::Host::on_path_event).
    pub fn on_path_event(&self, listener: impl Fn(PathEvent) + 'static) {
        self.inner.shared.borrow_mut().engine.on_path_event = Some(engine::PathListener(Box::new(listener)));
    }

    /// Calls the function `look` with read access to the engine (statistics, views, configuration), and returns the
    /// result of `look`.
    pub fn inspect<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> R {
        look(&self.inner.shared.borrow().engine.endpoint)
    }
}

impl<W: World> EngineSession<W, SctpEngine> {
    /// Returns the current state of the association; `None` once the association has ended.
    #[must_use]
    pub fn info(&self) -> Option<AssociationInfo> {
        self.with_engine(|engine, id| engine.endpoint.info(id))
    }

    /// Returns the statistics of the association; `None` once the association has ended.
    #[must_use]
    pub fn stats(&self) -> Option<AssociationStats> {
        self.with_engine(|engine, id| engine.endpoint.stats(id))
    }
}

impl<W: World> EngineStream<W, SctpEngine> {
    /// Sets the payload protocol identifier of all messages written from now on. By default, messages have the
    /// configured identifier. If no identifier is configured, the identifier of a byte stream depends on the peer's
    /// messages: it is [`PPID_HTTP`] or an identifier of WebRTC (RFC 8831 §8).
    pub fn set_ppid(&mut self, ppid: u32) {
        self.marks.set = Some(ppid);
    }

    /// Reads data from a single user message, with any payload protocol identifier. The result says whether the message
    /// ends with this data. Returns `None` at the end of the stream.
    ///
    /// # Errors
    /// The session ended before the stream ended.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<Option<Received>, CloseReason>> {
        let now = self.handle.host.world.now();
        self.read_by(
            cx,
            || None,
            |engine, id, stream| match engine.recv_message(now, id, stream, into) {
                Some(received) => (Some((Some(received), received.bytes)), false),
                None => (None, true),
            },
        )
    }
}
