//! An endpoint: its thread, and the handle that programs hold of it.

use crate::association::Association;
use crate::driver;
use anabranch_sctp::Config;
use anabranch_transport::CloseReason;
use anabranch_transport::sctp::Carrier;
use anabranch_world::os;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot};

/// What an endpoint is made with. By default: SCTP in UDP from a port that the
/// system chooses, on all addresses of the host, profile `modern`, accepting nothing.
#[derive(Clone, Debug)]
pub struct Options {
    /// The local addresses; empty: all of the host, as they come and go, but
    /// those of a single link.
    pub addresses: Vec<IpAddr>,
    /// What carries the packets.
    pub carrier: Carrier,
    /// The SCTP port to accept associations on.
    pub listen: Option<u16>,
    /// The engine's settings: a profile, changed by key.
    pub config: Config,
}

impl Default for Options {
    fn default() -> Self {
        let carrier = Carrier::Udp { port: 0 };
        // The engine alone begins with the letter of RFC 9260; programs, with what hosts of today do.
        let config = Config::profile("modern").unwrap_or_default();
        Self { addresses: Vec::new(), carrier, listen: None, config }
    }
}

/// Why an association did not come about.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The handshake could not be begun: no route, no port, no address.
    #[error("cannot connect: {0}")]
    NotBegun(String),
    /// The handshake failed.
    #[error("cannot connect: {0}")]
    Failed(#[from] CloseReason),
    /// The endpoint's thread has ended.
    #[error("cannot connect: the endpoint has ended")]
    Ended,
}

/// A host's SCTP. A clone is the same endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    commands: mpsc::Sender<Command>,
    accepted: Mutex<mpsc::Receiver<Association>>,
    addresses: Vec<SocketAddr>,
}

/// What the endpoint's thread is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Connect { peer: Vec<SocketAddr>, port: u16, reply: oneshot::Sender<Result<Association, ConnectError>> },
    Close,
    WaitIdle(oneshot::Sender<()>),
}

/// Commands that may wait.
const COMMANDS: usize = 64;

/// Accepted associations that may wait for [`Endpoint::accept`].
const ACCEPTED: usize = 256;

impl Endpoint {
    /// Starts an endpoint with a thread of its own.
    ///
    /// # Errors
    /// The thread, the socket or the port cannot be had.
    pub async fn new(options: Options) -> io::Result<Self> {
        let (commands, asked) = mpsc::channel(COMMANDS);
        let (give, accepted) = mpsc::channel(ACCEPTED);
        let (begun, beginning) = oneshot::channel();
        let world = os::Options { addresses: options.addresses.clone(), seed: None, sleep_at_once: true };
        std::thread::Builder::new().name("anabranch".to_owned()).spawn(move || {
            // Without a world `begun` is dropped with the program, and the one who waits is told.
            os::run(world, async |world| driver::endpoint(world, options, asked, give, begun).await)
        })?;
        let ended = |_| io::Error::other("the endpoint's thread could not begin");
        let addresses = beginning.await.map_err(ended)??;
        Ok(Self { inner: Arc::new(Inner { commands, accepted: Mutex::new(accepted), addresses }) })
    }

    /// The local addresses that the endpoint began with; ports: UDP's, 0 on IP.
    #[must_use]
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.inner.addresses
    }

    /// Associates with SCTP port `port` at the addresses of `peer`, the first the
    /// primary path. Their ports are the peer's UDP port, 0 on IP.
    ///
    /// Cancel-safe: dropped before it is ready, it leaves no association.
    ///
    /// # Errors
    /// [`ConnectError`]; the wait ends by the engine's limits (Max.Init.Retransmits).
    pub async fn connect(&self, peer: &[SocketAddr], port: u16) -> Result<Association, ConnectError> {
        let (reply, answer) = oneshot::channel();
        let ask = Command::Connect { peer: peer.to_vec(), port, reply };
        self.inner.commands.send(ask).await.map_err(|_| ConnectError::Ended)?;
        answer.await.map_err(|_| ConnectError::Ended)?
    }

    /// The next association that a peer has begun; `None` when the endpoint
    /// accepts none (any more). Cancel-safe: dropped before it is ready, it has taken none.
    pub async fn accept(&self) -> Option<Association> {
        self.inner.accepted.lock().await.recv().await
    }

    /// Accepts no more and shuts all associations down in good order; returns at
    /// once, see [`wait_idle`](Self::wait_idle).
    pub async fn close(&self) {
        let _ = self.inner.commands.send(Command::Close).await;
    }

    /// Waits until no association is alive. Cancel-safe.
    pub async fn wait_idle(&self) {
        let (reply, answer) = oneshot::channel();
        if self.inner.commands.send(Command::WaitIdle(reply)).await.is_ok() {
            let _ = answer.await;
        }
    }
}
