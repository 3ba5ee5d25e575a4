//! Sets up QUIC on this host, for a client that connects to an HTTP/3 server and for an HTTP/3 server that listens.

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

/// A server that a client reaches over HTTP/3.
pub struct Http3Target {
    /// The addresses of the server, with the UDP port.
    pub addresses: Vec<SocketAddr>,
    /// The host name that the server's certificate must be valid for.
    pub name: String,
    /// The TLS settings of the client, including the certificates that it trusts.
    pub client: Client,
    /// The QUIC configuration of the client.
    pub config: Config,
    /// The directory for qlog files; `None` disables logging.
    pub logs: LogsTo,
}

impl Http3Target {
    /// Sets up QUIC on this host. Returns the QUIC host and a connector that treats each address of the server as a
    /// server.
    pub async fn host(self, world: &OsWorld) -> Result<(Rc<dyn Host>, AnyConnector), Failure> {
        let (host, connector) = self.typed_host(world).await?;
        Ok((Rc::new(host), AnyConnector::new(connector)))
    }

    /// Does the same as [`host`](Self::host), but returns concrete QUIC types instead of type-erased ones.
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
    /// The TLS settings of the server, including its certificate.
    pub server: Server,
    /// The QUIC configuration of the server.
    pub config: Config,
    /// The directory for qlog files; `None` disables logging.
    pub logs: LogsTo,
}

/// Sets up QUIC for one of several server threads. The thread has its own `socket`, one of a group that shares a port.
pub fn share(
    world: &OsWorld,
    socket: OsSocket,
    Http3Server { server, config, logs }: Http3Server,
    shard: Shard,
) -> Result<QuicHost<OsWorld>, String> {
    let ends = Ends { surroundings: Surroundings::Real, client: None, server: Some(server) };
    start_over(world.clone(), socket, config, ends, options(Some(shard), logs)).map_err(|why| why.to_string())
}

/// Sets up QUIC on this host to listen at `place`.
pub async fn listen(
    world: &OsWorld,
    place: &Listen,
    Http3Server { server, config, logs }: Http3Server,
) -> Result<QuicHost<OsWorld>, String> {
    let ends = Ends { surroundings: Surroundings::Real, client: None, server: Some(server) };
    let started = start(world.clone(), place.port, config, ends, options(None, logs)).await;
    started.map_err(|why| reason(place.carrier, Some(place.port), &why))
}
