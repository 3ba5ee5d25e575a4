//! TCP bound to a world: a connection is a session with one stream, number 0.
//!
//! One [`TcpHost`] is a host's whole TCP: one engine, one socket (IP protocol
//! 6), one drive loop.
//!
//! - `engine`: implements the session engine for the TCP endpoint

mod engine;

pub use anabranch_tcp::{Config, PROFILES};

use crate::capabilities::{Capabilities, Carriers};
use crate::connector::{ConnectError, ListenError};
use crate::engine::{BoundHost, EngineConnector, EngineListener, EngineSession, EngineStream};
use crate::protocol::{Protocol, Runs, Server, Start, Starting};
use crate::settings::Settings;
use anabranch_tcp::{Endpoint, Info, Stats};
use anabranch_world::{Datagrams, Local, World};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// The IP protocol number of TCP.
pub const IP_PROTOCOL: u8 = 6;

/// TCP as implemented by our engine.
#[derive(Clone, Copy, Debug)]
pub struct Tcp;

impl Protocol for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            half_close: true,
            layered: false,
            background: true,
            carriers: Carriers { ip: Some(IP_PROTOCOL), udp: None },
            ..Capabilities::default()
        }
    }

    fn profiles(&self) -> &'static [&'static str] {
        PROFILES
    }

    fn default_profile(&self) -> &'static str {
        "modern"
    }

    fn profile(&self, name: &str) -> Option<Box<dyn Settings>> {
        Config::profile(name).map(|config| Box::new(config) as Box<dyn Settings>)
    }
}

impl<W: World> Runs<W> for Tcp {
    fn start(&self, world: W, start: Start) -> Starting {
        Box::pin(async move {
            let config = start.settings.own::<Config>()?;
            Ok(Rc::new(TcpHost::new(world, config).await?) as _)
        })
    }
}

/// A host's TCP. A clone is another handle of the same host. It lives as long as any
/// handle of it or of its sessions.
pub type TcpHost<W> = BoundHost<W, Endpoint>;
/// Accepts connections to one port.
pub type TcpListener<W> = EngineListener<W, Endpoint>;
/// Opens connections from one host to given servers.
pub type TcpConnector<W> = EngineConnector<W, Endpoint>;
/// A connection.
pub type TcpSession<W> = EngineSession<W, Endpoint>;
/// The byte stream of a connection, in both directions.
pub type TcpStream<W> = EngineStream<W, Endpoint>;

impl<W: World> BoundHost<W, Endpoint> {
    /// Starts TCP on this host, over all of its addresses.
    ///
    /// # Errors
    /// The socket cannot be opened: see [`World::bind`].
    pub async fn new(world: W, config: Config) -> io::Result<Self> {
        let socket = world.bind(Local::Ip { protocol: IP_PROTOCOL }).await?;
        let addresses: Vec<_> = socket.local().iter().map(SocketAddr::ip).collect();
        let mut engine = Endpoint::new(config, addresses.clone(), world.rng("tcp"));
        for address in addresses {
            engine.set_mtu(address, socket.mtu(address));
        }
        Ok(Self::over(world, engine, socket, Some(usize::MAX)))
    }

    /// Begins a connection to `remote`.
    ///
    /// # Errors
    /// [`ConnectError`] when no connection could be begun.
    pub fn connect(&self, remote: SocketAddr) -> Result<TcpSession<W>, ConnectError> {
        self.connect_to(&Server::from(remote))
    }

    /// Accepts connections that peers open to `port`; up to `backlog` of them may wait
    /// to be accepted, 0 for the configured number.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&self, port: u16, backlog: u32) -> Result<TcpListener<W>, ListenError> {
        self.listen_with(port, backlog)
    }

    /// Gives `look` read access to the engine: statistics, views, configuration.
    pub fn inspect<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> R {
        look(&self.inner.shared.borrow().engine)
    }
}

impl<W: World> EngineSession<W, Endpoint> {
    /// The current state of the connection; `None` once it has ended.
    #[must_use]
    pub fn info(&self) -> Option<Info> {
        self.with_engine(|engine, id| engine.info(id))
    }

    /// The statistics of the connection; `None` once it has ended.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        self.with_engine(|engine, id| engine.stats(id))
    }
}
