//! Binds TCP to a `World`: a connection is a session with one stream, number 0.
//!
//! One [`TcpHost`] is the whole TCP of a host: one engine, one socket (IP protocol 6), one drive loop.
//!
//! - `engine`: implements [`SessionEngine`](crate::engine::SessionEngine) for the TCP endpoint

mod engine;

pub use anabranch_tcp::{Config, PROFILES};

use crate::capabilities::{Capabilities, LowerProtocols};
use crate::connector::{ConnectError, ListenError};
use crate::engine::{BoundHost, EngineConnector, EngineListener, EngineSession, EngineStream};
use crate::protocol::{Protocol, RunnableProtocol, Server, StartOptions, Starting};
use crate::settings::Settings;
use anabranch_tcp::{Endpoint, Info, Stats};
use anabranch_world::{DatagramSocket, Local, World};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// The IP protocol number of TCP.
pub const IP_PROTOCOL: u8 = 6;

/// TCP as implemented by this project's engine.
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
            carriers: LowerProtocols { ip: Some(IP_PROTOCOL), udp: None },
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

impl<W: World> RunnableProtocol<W> for Tcp {
    fn start(&self, world: W, start: StartOptions) -> Starting {
        Box::pin(async move {
            let config = start.settings.downcast::<Config>()?;
            Ok(Rc::new(TcpHost::new(world, config).await?) as _)
        })
    }
}

/// TCP that runs on a host. A clone is another handle of the same instance. The instance runs until the last handle of
/// it and of its sessions is dropped.
pub type TcpHost<W> = BoundHost<W, Endpoint>;
/// A listener that accepts connections to one port.
pub type TcpListener<W> = EngineListener<W, Endpoint>;
/// A connector that opens connections from one host to the servers for which it was created.
pub type TcpConnector<W> = EngineConnector<W, Endpoint>;
/// A TCP connection, as a session.
pub type TcpSession<W> = EngineSession<W, Endpoint>;
/// The byte stream of a connection, in both directions.
pub type TcpStream<W> = EngineStream<W, Endpoint>;

impl<W: World> BoundHost<W, Endpoint> {
    /// Starts TCP on this host, with all of the host's addresses.
    ///
    /// # Errors
    /// The socket cannot be opened; see [`World::bind`].
    pub async fn new(world: W, config: Config) -> io::Result<Self> {
        let socket = world.bind(Local::Ip { protocol: IP_PROTOCOL }).await?;
        let addresses: Vec<_> = socket.local().iter().map(SocketAddr::ip).collect();
        let mut engine = Endpoint::new(config, addresses.clone(), world.rng("tcp"));
        for address in addresses {
            engine.set_mtu(address, socket.mtu(address));
        }
        Ok(Self::over(world, engine, socket, Some(usize::MAX)))
    }

    /// Starts a connection to `remote`.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection could not be started.
    pub fn connect(&self, remote: SocketAddr) -> Result<TcpSession<W>, ConnectError> {
        self.connect_to(&Server::from(remote))
    }

    /// Accepts connections that peers open to `port`. Up to `backlog` connections may wait to be accepted; 0 stands for
    /// the configured number.
    ///
    /// # Errors
    /// [`ListenError`] if the port is in use.
    pub fn listen(&self, port: u16, backlog: u32) -> Result<TcpListener<W>, ListenError> {
        self.listen_with(port, backlog)
    }

    /// Calls the function `look` with read access to the engine (statistics, views, configuration), and returns the
    /// result of `look`.
    pub fn inspect<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> R {
        look(&self.inner.shared.borrow().engine)
    }
}

impl<W: World> EngineSession<W, Endpoint> {
    /// Returns the current state of the connection; `None` once the connection has ended.
    #[must_use]
    pub fn info(&self) -> Option<Info> {
        self.with_engine(|engine, id| engine.info(id))
    }

    /// Returns the statistics of the connection; `None` once the connection has ended.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        self.with_engine(|engine, id| engine.stats(id))
    }
}
