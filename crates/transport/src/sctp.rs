//! SCTP bound to a world: associations as sessions, paired streams as streams.
//!
//! One [`SctpHost`] is a host's whole SCTP: one engine, one socket (IP protocol
//! 132, or UDP as RFC 6951 says), one drive loop. A stream is a sequence of
//! bytes over user messages: what is written is cut into messages of one DATA
//! chunk each, so that a long write never keeps other streams from the network
//! (with I-DATA, where it would not, into messages of up to 64 KiB), and
//! boundaries mean nothing to the reader. Stream *a* out is paired with
//! stream *a* in; the usable pairs are those that exist both ways. There is no
//! half-close: [`Stream::finish`] sends nothing.
//!
//! - `host`: the engine and what waits for it
//! - `ports`: our ports among those of the host's other programs
//! - `session`: the handles an application holds
//! - `shards`: several hosts behind one port, a thread each
//!
//! [`Stream::finish`]: crate::Stream::finish

mod host;
mod ports;
mod session;
mod shards;

pub use session::{SctpSession, SctpStream};
pub use shards::{Directory, Member};

use crate::connector::{ConnectError, Connector, ListenError, Listener};
use crate::drive::drive;
use crate::session::CloseReason;
use anabranch_base::Engine;
use anabranch_base::trace::TraceRecord;
use anabranch_sctp::{Associate, Config, Endpoint, Shard};
use anabranch_world::{Datagrams, Local, Work, World};
use host::{Association, Shared};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The UDP port registered for SCTP in UDP (RFC 6951 §8).
pub const ENCAPSULATION_PORT: u16 = 9899;

/// SCTP among the protocols of IP, as registered with IANA.
pub const IP_PROTOCOL: u8 = 132;

/// Payload protocol identifier of HTTP over SCTP, as registered with IANA.
pub const PPID_HTTP: u32 = 63;

/// What carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// IP protocol 132.
    Ip,
    /// UDP from this port (RFC 6951).
    Udp {
        /// The local UDP port; 0 lets the world choose.
        port: u16,
    },
}

/// A host's SCTP. A clone is the same host. It lives as long as any handle of
/// it or of its sessions.
#[derive(Debug)]
pub struct SctpHost<W: World> {
    inner: Rc<Inner<W>>,
}

struct Inner<W: World> {
    world: W,
    shared: Rc<RefCell<Shared>>,
    /// Runs the drive loop as long as this lives.
    _driver: W::Task<()>,
    /// Tells the engine of addresses and routes that come and go.
    _follower: W::Task<()>,
}

impl<W: World> std::fmt::Debug for Inner<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SctpHost").finish_non_exhaustive()
    }
}

impl<W: World> Clone for SctpHost<W> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<W: World> SctpHost<W> {
    /// Starts SCTP on this host, over all of its addresses or the first `paths` of them.
    ///
    /// # Errors
    /// The carrier cannot be had: see [`World::bind`].
    pub async fn new(world: W, config: Config, carrier: Carrier, paths: Option<usize>) -> io::Result<Self> {
        let local = match carrier {
            Carrier::Ip => Local::Ip { protocol: IP_PROTOCOL },
            Carrier::Udp { port } => Local::Udp { port },
        };
        let socket = world.bind(local).await?;
        Ok(Self::over(world, config, socket, paths, None))
    }

    /// Starts one of several SCTP hosts behind one port, over its own of the sockets that share it.
    #[must_use]
    pub fn beside(world: W, config: Config, socket: W::Socket, member: Member) -> Self {
        Self::over(world, config, socket, None, Some(member))
    }

    fn over(
        world: W,
        config: Config,
        socket: W::Socket,
        paths: Option<usize>,
        member: Option<Member>,
    ) -> Self {
        let mut addresses = socket.local();
        addresses.truncate(paths.unwrap_or(usize::MAX).max(1));
        // Answers come back on the streams of their requests: it takes both directions.
        let (streams, early_data) = (config.streams.min(config.inbound_streams()), config.cookie_data);
        let dynamic = config.auth && config.asconf;
        let mut engine = Endpoint::new(config, addresses.clone(), world.rng("sctp"));
        for address in addresses {
            engine.set_mtu(address.ip(), socket.mtu(address.ip()));
        }
        let ports = socket.ports();
        if member.is_some() || ports.is_some() {
            let shard = member.as_ref().map_or_else(Shard::default, |member| member.shard);
            let directory = member.as_ref().map(|member| member.directory.clone());
            engine.set_shard(shard, Arc::new(ports::Others { directory, ports: ports.clone() }));
        }
        let mut shared = Shared::new(engine, streams, early_data);
        shared.ports = ports;
        shared.member = member;
        let shared = Rc::new(RefCell::new(shared));
        let task = drive(world.clone(), socket, shared.clone());
        let driver = world.spawn("sctp", task);
        // Who cannot tell peers keeps the addresses that it began with.
        let most = if dynamic { paths.unwrap_or(usize::MAX).max(1) } else { 0 };
        let follower = world.spawn("sctp addresses", follow(world.clone(), shared.clone(), most));
        Self { inner: Rc::new(Inner { world, shared, _driver: driver, _follower: follower }) }
    }

    /// Begins an association with `port` at the addresses of `peer`, the first
    /// the primary. Their ports are the peer's UDP encapsulation port, 0 for
    /// IP protocol 132.
    ///
    /// # Errors
    /// [`ConnectError`] when nothing could be begun.
    pub fn connect(&self, peer: &[SocketAddr], port: u16) -> Result<SctpSession<W>, ConnectError> {
        let ask = Associate { peer: peer.to_vec(), peer_port: port, local_port: None, streams: None };
        let mut shared = self.inner.shared.borrow_mut();
        if let Some(reason) = &shared.failure {
            return Err(ConnectError::Refused(reason.to_string()));
        }
        let id = shared.engine.associate(self.inner.world.now(), ask).map_err(|error| match error {
            anabranch_sctp::AssociateError::NoRoute => ConnectError::NoRoute(format!("{peer:?}")),
            anabranch_sctp::AssociateError::NoPort => ConnectError::NoPort,
            error => ConnectError::Refused(error.to_string()),
        })?;
        let key = shared.engine.trace_key(id).unwrap_or_default();
        let mut association = Association::new(key, shared.streams);
        if let Some(ports) = &shared.ports {
            association.claim = shared.engine.info(id).and_then(|info| ports.connect(info.local_port));
        }
        shared.associations.insert(id, association);
        shared.tell_neighbours();
        shared.bell.ring();
        drop(shared);
        Ok(SctpSession::new(self.inner.clone(), id, key))
    }

    /// Takes in associations that peers begin with `port`.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&self, port: u16) -> Result<SctpListener<W>, ListenError> {
        let mut shared = self.inner.shared.borrow_mut();
        shared.engine.listen(port).map_err(|error| match error {
            anabranch_sctp::ListenError::InUse => ListenError::PortInUse(port),
            error => ListenError::Refused(error.to_string()),
        })?;
        let claim = shared.ports.as_ref().map(|ports| ports.listen(port)).transpose();
        let claim = claim.map_err(|why| {
            shared.engine.close_listener(port);
            match why.kind() {
                io::ErrorKind::AddrInUse => ListenError::PortInUse(port),
                _ => ListenError::Refused(why.to_string()),
            }
        })?;
        shared.listeners.insert(port, host::Backlog::holding(claim));
        drop(shared);
        Ok(SctpListener { inner: self.inner.clone(), port })
    }

    /// Looks at the engine: statistics, views, configuration.
    pub fn inspect<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> R {
        look(&self.inner.shared.borrow().engine)
    }

    /// Starts or stops keeping a trace.
    pub fn set_tracing(&self, on: bool) {
        self.inner.shared.borrow_mut().engine.set_tracing(on);
    }

    /// Takes the trace kept since the last call.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceRecord> {
        self.inner.shared.borrow_mut().engine.take_trace()
    }

    /// Closes all associations in good order and waits until they are gone.
    pub async fn close(&self) {
        let now = self.inner.world.now();
        {
            let mut shared = self.inner.shared.borrow_mut();
            let live: Vec<_> = shared.live().collect();
            for id in live {
                shared.engine.shutdown(now, id);
            }
            shared.bell.ring();
        }
        self.idle().await;
    }

    /// Waits until no association is alive.
    pub async fn idle(&self) {
        poll_fn(|cx| self.inner.shared.borrow_mut().poll_idle(cx)).await;
    }
}

/// Keeps the engine's addresses those of the host, the first `most` of them (RFC 5061); 0: as they are.
async fn follow<W: World>(world: W, shared: Rc<RefCell<Shared>>, most: usize) {
    loop {
        poll_fn(|cx| world.poll_address_change(cx)).await;
        if most > 0 {
            let mut present = world.addresses();
            present.truncate(most);
            shared.borrow_mut().follow(world.now(), &present);
        }
        shared.borrow_mut().rerouted(world.now());
    }
}

/// Takes in associations to one port.
#[derive(Debug)]
pub struct SctpListener<W: World> {
    inner: Rc<Inner<W>>,
    port: u16,
}

impl<W: World> Listener for SctpListener<W> {
    type Session = SctpSession<W>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<SctpSession<W>, CloseReason>> {
        let accepted = self.inner.shared.borrow_mut().poll_accept(self.port, cx);
        accepted.map_ok(|(id, key)| {
            self.inner.world.charge(Work::Connection);
            SctpSession::new(self.inner.clone(), id, key)
        })
    }

    fn port(&self) -> u16 {
        self.port
    }
}

impl<W: World> Drop for SctpListener<W> {
    fn drop(&mut self) {
        self.inner.shared.borrow_mut().close_listener(self.inner.world.now(), self.port);
    }
}

/// A server as SCTP reaches it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SctpServer {
    /// Its addresses, the first the primary; ports: its UDP encapsulation port, or 0.
    pub addresses: Vec<SocketAddr>,
    /// Its SCTP port.
    pub port: u16,
}

/// Opens associations from one host to given servers.
#[derive(Debug)]
pub struct SctpConnector<W: World> {
    host: SctpHost<W>,
    servers: Rc<[SctpServer]>,
}

impl<W: World> Clone for SctpConnector<W> {
    fn clone(&self) -> Self {
        Self { host: self.host.clone(), servers: self.servers.clone() }
    }
}

impl<W: World> SctpConnector<W> {
    /// From `host` to `servers`, numbered in this order.
    #[must_use]
    pub fn new(host: SctpHost<W>, servers: Vec<SctpServer>) -> Self {
        Self { host, servers: servers.into() }
    }
}

impl<W: World> Connector for SctpConnector<W> {
    type Session = SctpSession<W>;

    fn connect(&self, server: usize) -> Result<SctpSession<W>, ConnectError> {
        let server = self.servers.get(server).ok_or(ConnectError::NoSuchServer(server))?;
        self.host.connect(&server.addresses, server.port)
    }

    fn streams(&self) -> u16 {
        self.host.inner.shared.borrow().streams
    }
}
