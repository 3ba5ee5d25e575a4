//! How a client connects to its server over HTTP/3, and how a server listens: sets up QUIC on this host.

use crate::Failure;
use crate::place::Listen;
use crate::qlog::LogsTo;
use crate::serve::reason;
use anabranch_quic::{Config, Options, QuicConnector, QuicHost, Shard, Source, start, start_over};
use anabranch_tls::{Client, Ends, Server, Surroundings};
use anabranch_transport::{AnyConnector, Host};
use anabranch_world::os::{OsSocket, OsWorld};
use std::net::SocketAddr;
use std::rc::Rc;

/// A server that is reached over HTTP/3.
pub struct Http3Target {
    /// Its addresses, with the UDP port.
    pub addresses: Vec<SocketAddr>,
    /// The name that its certificate must be valid for.
    pub name: String,
    /// The TLS client settings, including the certificates it trusts.
    pub client: Client,
    /// The QUIC configuration of this end.
    pub config: Config,
    /// Where connections are logged (qlog).
    pub logs: LogsTo,
}

impl Http3Target {
    /// Returns this host's QUIC, and a connector to each of the addresses.
    pub async fn host(self, world: &OsWorld) -> Result<(Rc<dyn Host>, AnyConnector), Failure> {
        let (host, connector) = self.typed_host(world).await?;
        Ok((Rc::new(host), AnyConnector::new(connector)))
    }

    /// Does the same, with the concrete types of QUIC instead of erased ones.
    pub async fn typed_host(
        self,
        world: &OsWorld,
    ) -> Result<(QuicHost<OsWorld>, QuicConnector<OsWorld>), Failure> {
        let name = self.name.trim_matches(['[', ']']).to_owned();
        let ends = Ends { surroundings: Surroundings::Real, client: Some((self.client, name)), server: None };
        let here = world.at(Vec::new()).map_err(|why| Failure::Host(why.to_string()))?;
        let host = start(here, 0, self.config, ends, options(None, self.logs)).await;
        let host = host.map_err(|why| Failure::Host(format!("cannot use QUIC: {why}")))?;
        let connector = QuicConnector::new(host.clone(), self.addresses);
        Ok((host, connector))
    }
}

fn options(shard: Option<Shard>, logs: LogsTo) -> Options {
    Options { source: Source::Routed, shard, logs }
}

/// The settings of an HTTP/3 server.
#[derive(Clone)]
pub struct Http3Server {
    /// The TLS server, with its certificate.
    pub server: Server,
    /// The QUIC configuration.
    pub config: Config,
    /// Where connections are logged (qlog).
    pub logs: LogsTo,
}

/// Starts QUIC for one of several threads, on its own socket among those that share a port.
pub fn share(
    world: &OsWorld,
    socket: OsSocket,
    Http3Server { server, config, logs }: Http3Server,
    shard: Shard,
) -> Result<QuicHost<OsWorld>, String> {
    let ends = Ends { surroundings: Surroundings::Real, client: None, server: Some(server) };
    start_over(world.clone(), socket, config, ends, options(Some(shard), logs)).map_err(|why| why.to_string())
}

/// Starts QUIC on this host, to listen at `place`.
pub async fn listen(
    world: &OsWorld,
    place: &Listen,
    Http3Server { server, config, logs }: Http3Server,
) -> Result<QuicHost<OsWorld>, String> {
    let ends = Ends { surroundings: Surroundings::Real, client: None, server: Some(server) };
    let started = start(world.clone(), place.port, config, ends, options(None, logs)).await;
    started.map_err(|why| reason(place.carrier, Some(place.port), &why))
}
