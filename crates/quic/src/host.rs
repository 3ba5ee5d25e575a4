//! QUIC bound to a world: one UDP port, one engine, one drive loop.

use crate::config::Config;
use crate::endpoint::{Endpoint, Start};
use anabranch_tls::Ends;
use anabranch_transport::engine::{BoundHost, EngineConnector, EngineListener, EngineSession, EngineStream};
use anabranch_world::{Datagrams, Local, World};
use std::io;

/// A host's QUIC. A clone is the same host. It lives as long as any handle of it or of its sessions.
pub type QuicHost<W> = BoundHost<W, Endpoint>;
/// Takes in connections.
pub type QuicListener<W> = EngineListener<W, Endpoint>;
/// Opens connections from one host to given servers.
pub type QuicConnector<W> = EngineConnector<W, Endpoint>;
/// A connection.
pub type QuicSession<W> = EngineSession<W, Endpoint>;
/// A stream of a connection, both ways.
pub type QuicStream<W> = EngineStream<W, Endpoint>;

/// Starts QUIC on a UDP port, 0 for any.
///
/// # Errors
/// The port cannot be had, or the certificates cannot be used.
pub async fn start<W: World>(world: W, port: u16, config: Config, ends: Ends) -> io::Result<QuicHost<W>> {
    let socket = world.bind(Local::Udp { port }).await?;
    let local = socket.local().first().copied();
    let local = local.ok_or_else(|| io::Error::other("this host has no address"))?;
    let start = Start { config, local, rng: world.rng("quic"), ends, segments: 1 };
    let engine = Endpoint::new(start).map_err(io::Error::other)?;
    Ok(QuicHost::over(world, engine, socket, None))
}
