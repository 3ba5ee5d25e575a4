//! Runs QUIC in a `World`: one UDP port, one engine, and one loop that drives the engine.

use crate::config::Config;
use crate::endpoint::{Endpoint, EndpointOptions};
use crate::shards::Shard;
use anabranch_tls::HostTls;
use anabranch_transport::engine::{BoundHost, EngineConnector, EngineListener, EngineSession, EngineStream};
use anabranch_transport::network::Logs;
use anabranch_world::{DatagramSocket, Local, World};
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The QUIC endpoint of a host. A clone is another handle of the same endpoint. The endpoint lives until its last
/// handle and its last session are dropped.
pub type QuicHost<W> = BoundHost<W, Endpoint>;
/// Accepts QUIC connections.
pub type QuicListener<W> = EngineListener<W, Endpoint>;
/// Opens QUIC connections from one host to given servers.
pub type QuicConnector<W> = EngineConnector<W, Endpoint>;
/// A QUIC connection.
pub type QuicSession<W> = EngineSession<W, Endpoint>;
/// A stream of a QUIC connection.
pub type QuicStream<W> = EngineStream<W, Endpoint>;

/// How the local address of outgoing packets is chosen, until a packet of the peer arrives at one of the local
/// addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// The first address of the `World`.
    #[default]
    First,
    /// The address that the host's routing table chooses. Use it only if the `World` has all addresses of its host.
    Routed,
}

/// Options of a QUIC endpoint in addition to its settings and certificates.
#[derive(Clone, Default)]
pub struct Options {
    /// The local address of outgoing packets.
    pub source: Source,
    /// Identifies this endpoint among the endpoints that share one port.
    pub shard: Option<Shard>,
    /// Receives the qlog of each connection; `None` if connections are not logged.
    pub logs: Option<Arc<dyn Logs>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Starts QUIC on a UDP port. With port 0, the host chooses a free port.
///
/// # Errors
/// If the port cannot be bound, or if the certificates cannot be used.
pub async fn start<W: World>(
    world: W,
    port: u16,
    config: Config,
    tls: HostTls,
    options: Options,
) -> io::Result<QuicHost<W>> {
    let socket = world.bind(Local::Udp { port }).await?;
    start_over(world, socket, config, tls, options)
}

/// Starts QUIC over a socket of the `World`. The socket may be one of several that share a port.
///
/// # Errors
/// If the certificates cannot be used.
pub fn start_over<W: World>(
    world: W,
    socket: W::Socket,
    config: Config,
    tls: HostTls,
    options: Options,
) -> io::Result<QuicHost<W>> {
    let Options { source, shard, logs } = options;
    let local = socket.local().first().copied();
    let mut local = local.ok_or_else(|| io::Error::other("this host has no address"))?;
    if source == Source::Routed {
        local.set_ip(Ipv4Addr::UNSPECIFIED.into());
    }
    let segments = socket.max_segments();
    let endpoint_options =
        EndpointOptions { config, local, rng: world.rng("quic"), tls, segments, shard, logs };
    let engine = Endpoint::new(endpoint_options).map_err(io::Error::other)?;
    Ok(QuicHost::over(world, engine, socket, None))
}
