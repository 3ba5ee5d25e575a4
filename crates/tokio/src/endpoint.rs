//! An endpoint: its options, and the handle that programs hold.

use crate::association::Association;
use crate::driver;
#[cfg(feature = "dtls")]
use crate::dtls::Dtls;
use crate::incoming::Incoming;
use crate::shared::Shared;
use anabranch_sctp::{Associate, Config, KeyError, Totals};
use anabranch_transport::CloseReason;
use anabranch_transport::sctp::Carrier;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

/// The options of an endpoint. Default: SCTP in UDP from a port that the system chooses, on all addresses of the host,
/// with profile `modern`, accepting no associations.
///
/// ```
/// use anabranch_tokio::{ConfigBuilder, Options};
///
/// let config = ConfigBuilder::new().streams(1000).receive_buffer(8 << 20).build()?;
/// let options = Options::default().listen(7).address("127.0.0.1".parse()?).config(config);
/// # drop(options);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The local addresses. If empty: all addresses of the host, updated when they change, except link-local ones.
    pub addresses: Vec<IpAddr>,
    /// The carrier of the packets: UDP or IP.
    pub carrier: Carrier,
    /// The SCTP port to accept associations on.
    pub listen: Option<u16>,
    /// The maximum number of associations that wait to be accepted or refused. A peer that connects when it is reached
    /// has to try again, by the timers of its handshake.
    pub backlog: usize,
    /// The maximum size in bytes of a received message, see [`RecvError::TooLong`](crate::RecvError::TooLong).
    pub max_receive: usize,
    /// The memory in bytes for the messages of all associations together: those that are sent and not acknowledged, and
    /// those that are received and not read. Each association may always use 1/8192 of it. It may use more, up to its
    /// `sndbuf` and `rcvbuf`, if its network needs more and enough memory is left for all.
    pub memory: u64,
    /// The engine's settings: a profile, changed by key or by a [`ConfigBuilder`](crate::ConfigBuilder).
    pub config: Config,
    /// DTLS below SCTP (RFC 8261). An association then has only one path.
    #[cfg(feature = "dtls")]
    pub dtls: Option<Dtls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            carrier: Carrier::Udp { port: 0 },
            listen: None,
            backlog: 256,
            max_receive: 16 << 20,
            memory: 1 << 30,
            // The engine's own default is RFC 9260 to the letter; programs get the values that are usual today.
            config: Config::profile("modern").unwrap_or_default(),
            #[cfg(feature = "dtls")]
            dtls: None,
        }
    }
}

impl Options {
    /// Adds a local address.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Sets the local addresses, replacing earlier ones.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Sends packets in UDP from this port (RFC 6951); with 0 the system chooses one.
    #[must_use]
    pub fn udp(mut self, port: u16) -> Self {
        self.carrier = Carrier::Udp { port };
        self
    }

    /// Sends packets directly on IP, as protocol 132. Requires the privilege to open raw sockets.
    #[must_use]
    pub fn ip(mut self) -> Self {
        self.carrier = Carrier::Ip;
        self
    }

    /// Accepts associations on this SCTP port.
    #[must_use]
    pub fn listen(mut self, port: u16) -> Self {
        self.listen = Some(port);
        self
    }

    /// Sets the maximum number of associations that wait to be accepted.
    #[must_use]
    pub fn backlog(mut self, associations: usize) -> Self {
        self.backlog = associations;
        self
    }

    /// Sets the maximum size of a received message in bytes.
    #[must_use]
    pub fn max_receive(mut self, bytes: usize) -> Self {
        self.max_receive = bytes;
        self
    }

    /// Sets the memory in bytes for the messages of all associations together.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the engine's settings.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Uses DTLS below SCTP (RFC 8261).
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn dtls(mut self, dtls: Dtls) -> Self {
        self.dtls = Some(dtls);
        self
    }
}

/// Options of a new association besides the peer's addresses.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The local SCTP port; `None`: any free port.
    pub local_port: Option<u16>,
    /// The number of streams to request in both directions; `None`: the configured number.
    pub streams: Option<u16>,
    /// The settings of this association; `None`: those of the endpoint.
    pub config: Option<Config>,
    /// The name that the peer's certificate must have; `None`: its address.
    #[cfg(feature = "dtls")]
    pub server_name: Option<String>,
}

impl ConnectOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the local SCTP port.
    #[must_use]
    pub fn local_port(mut self, port: u16) -> Self {
        self.local_port = Some(port);
        self
    }

    /// Sets the number of streams to request in both directions.
    #[must_use]
    pub fn streams(mut self, streams: u16) -> Self {
        self.streams = Some(streams);
        self
    }

    /// Sets the settings of this association.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the name that the peer's certificate must have.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

/// Why an association could not be established.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The handshake could not be begun: no route, no port, no address.
    #[error("cannot connect: {0}")]
    NotBegun(String),
    /// The handshake failed.
    #[error("cannot connect: {0}")]
    Failed(#[from] CloseReason),
    /// The endpoint has ended.
    #[error("cannot connect: the endpoint has ended")]
    Ended,
}

/// A host's SCTP. A clone is another handle of the same endpoint. When the last handle has been dropped, the endpoint
/// accepts no more associations, and ends after its last one.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    #[cfg(feature = "dtls")]
    names: Option<crate::dtls::Names>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.with(|state, now| state.release_endpoint(now));
    }
}

impl Endpoint {
    /// Starts an endpoint with a thread of its own.
    ///
    /// # Errors
    /// The settings contradict each other (`InvalidInput`), or the thread, the socket or the port is not available.
    pub async fn new(options: Options) -> io::Result<Self> {
        options.config.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        #[cfg(feature = "dtls")]
        let names = options.dtls.is_some().then(crate::dtls::Names::default);
        let started = driver::start(
            options,
            #[cfg(feature = "dtls")]
            names.clone(),
        )
        .await?;
        let inner = Inner {
            shared: started.shared,
            addresses: started.addresses,
            #[cfg(feature = "dtls")]
            names,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The local addresses at the start of the endpoint; their ports are UDP ports, or 0 on IP.
    #[must_use]
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.inner.addresses
    }

    /// The SCTP port on which associations are accepted, if any.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        self.inner.shared.lock().listening()
    }

    /// Connects to SCTP port `port` at the addresses of `peer`, the first of which is the primary path. Their ports are
    /// the peer's UDP port, or 0 on IP.
    ///
    /// Cancel-safe: if it is dropped before it is ready, no association remains.
    ///
    /// # Errors
    /// [`ConnectError`]; the engine's limits end the wait (Max.Init.Retransmits).
    pub async fn connect(&self, peer: &[SocketAddr], port: u16) -> Result<Association, ConnectError> {
        self.connect_with(peer, port, ConnectOptions::default()).await
    }

    /// Connects like [`connect`](Self::connect), with options.
    ///
    /// Cancel-safe, as [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(
        &self,
        peer: &[SocketAddr],
        port: u16,
        options: ConnectOptions,
    ) -> Result<Association, ConnectError> {
        let association = self.begin(peer, port, options)?;
        association.established().await?;
        Ok(association)
    }

    fn begin(
        &self,
        peer: &[SocketAddr],
        port: u16,
        options: ConnectOptions,
    ) -> Result<Association, ConnectError> {
        let not_begun = |why: String| ConnectError::NotBegun(why);
        let first = *peer.first().ok_or_else(|| not_begun("no address of the peer was given".to_owned()))?;
        #[cfg(feature = "dtls")]
        if let Some(names) = &self.inner.names {
            names.expect(first, options.server_name);
        }
        let ask = Associate {
            peer: peer.to_vec(),
            peer_port: port,
            local_port: options.local_port,
            streams: options.streams,
        };
        let peer = SocketAddr::new(first.ip(), port);
        self.inner.shared.with(|state, now| {
            if state.failure().is_some() {
                return Err(ConnectError::Ended);
            }
            let begun = match options.config {
                Some(config) => {
                    config.check().map_err(|why| not_begun(why.to_string()))?;
                    let config = driver::prepared(config, &state.memory);
                    state.endpoint.associate_with(now, ask, config)
                }
                None => state.endpoint.associate(now, ask),
            };
            let id = begun.map_err(|why| not_begun(why.to_string()))?;
            let signals = state.began(id, peer, first.port());
            Ok(Association::new(self.inner.shared.clone(), id, signals, peer))
        })
    }

    /// Returns the next association that a peer has begun, which can be examined before it is accepted. Returns `None` if
    /// the endpoint does not accept associations (any more).
    ///
    /// Cancel-safe: if it is dropped before it is ready, no association has been taken.
    pub async fn accept(&self) -> Option<Incoming> {
        let shared = &self.inner.shared;
        loop {
            let mut notified = pin!(shared.signals().incoming.notified());
            notified.as_mut().enable();
            let next = shared.with(|state, _| match state.take_incoming() {
                Some(incoming) => Some(Some(incoming)),
                None => state.listening().is_none().then_some(None),
            });
            match next {
                Some(None) => return None,
                Some(Some(request)) => return Some(Incoming::new(shared.clone(), request)),
                None => notified.await,
            }
        }
    }

    /// Adds or replaces a shared key for associations that begin from now on (RFC 4895).
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn set_key(&self, key: u16, secret: impl AsRef<[u8]>) -> Result<(), KeyError> {
        self.inner.shared.with(|state, _| state.endpoint.set_key(None, key, secret.as_ref()))
    }

    /// Makes associations that begin from now on sign with this key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn activate_key(&self, key: u16) -> Result<(), KeyError> {
        self.inner.shared.with(|state, _| state.endpoint.activate_key(None, key))
    }

    /// The number of associations that have not ended.
    #[must_use]
    pub fn associations(&self) -> usize {
        self.inner.shared.lock().live()
    }

    /// The totals of all associations of the endpoint.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inner.shared.lock().endpoint.totals()
    }

    /// Accepts no more associations and shuts all existing ones down gracefully; those that wait to be accepted are
    /// refused. Returns at once, see [`wait_idle`](Self::wait_idle).
    pub fn close(&self) {
        self.inner.shared.with(|state, now| state.close_all(now));
    }

    /// Waits until all associations have ended.
    ///
    /// Cancel-safe: dropping it early has no effect.
    pub async fn wait_idle(&self) {
        let shared = &self.inner.shared;
        loop {
            let mut notified = pin!(shared.signals().idle.notified());
            notified.as_mut().enable();
            if shared.lock().live() == 0 {
                return;
            }
            notified.await;
        }
    }
}
