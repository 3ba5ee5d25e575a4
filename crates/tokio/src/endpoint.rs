//! An endpoint: its options, and the handle that programs use.

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

/// The options of an endpoint. By default the endpoint sends SCTP in UDP from a port that the system chooses, and uses all
/// addresses of the host. It has the profile `modern` and accepts no associations.
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
    /// The local addresses. If the list is empty, the endpoint uses all addresses of the host except link-local ones, and
    /// follows changes of the host's addresses.
    pub addresses: Vec<IpAddr>,
    /// The protocol that carries SCTP's packets: UDP or IP.
    pub carrier: Carrier,
    /// The SCTP port on which associations are accepted; `None` if none are accepted.
    pub listen: Option<u16>,
    /// The maximum number of associations that wait until the program accepts or refuses them. If a peer connects while this
    /// many wait, its handshake is retried by its timers.
    pub backlog: usize,
    /// The maximum size of a received message in bytes; see [`RecvError::TooLong`](crate::RecvError::TooLong).
    pub max_receive: usize,
    /// The memory in bytes for the messages of all associations together: messages that are not acknowledged, and received
    /// messages that are not read. Each association may always use 1/8192 of this memory. An association whose path needs
    /// more may use more, up to its `sndbuf` and `rcvbuf`, if enough memory is left for all.
    pub memory: u64,
    /// The settings of the SCTP engine: a profile, changed by key or by a [`ConfigBuilder`](crate::ConfigBuilder).
    pub config: Config,
    /// The DTLS settings; `None` for SCTP without DTLS. An association over DTLS (RFC 8261) has only one path.
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
            // The engine's own default is the literal RFC 9260. Programs get the profile `modern` instead.
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

    /// Sends packets in UDP from this port (RFC 6951). With port 0, the system chooses the port.
    #[must_use]
    pub fn udp(mut self, port: u16) -> Self {
        self.carrier = Carrier::Udp { port };
        self
    }

    /// Sends packets directly on IP, as protocol 132. This requires the privilege to open raw sockets.
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

    /// Sets the maximum number of associations that wait until the program accepts or refuses them.
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

    /// Sets the settings of the SCTP engine.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Uses DTLS below SCTP (RFC 8261), with these settings.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn dtls(mut self, dtls: Dtls) -> Self {
        self.dtls = Some(dtls);
        self
    }
}

/// The options of a new association, except the peer's addresses.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The local SCTP port; `None` for any free port.
    pub local_port: Option<u16>,
    /// The number of streams that this side requests in both directions; `None` for the configured number.
    pub streams: Option<u16>,
    /// The settings of this association; `None` for those of the endpoint.
    pub config: Option<Config>,
    /// The name that the peer's certificate must have; `None` if it must be for the peer's address.
    #[cfg(feature = "dtls")]
    pub server_name: Option<String>,
}

impl ConnectOptions {
    /// Returns the default options.
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

    /// Sets the number of streams that this side requests in both directions.
    #[must_use]
    pub fn streams(mut self, streams: u16) -> Self {
        self.streams = Some(streams);
        self
    }

    /// Sets the settings of this association, which replace those of the endpoint.
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

/// The reason why an association could not be established.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The handshake could not be started, for example because there is no route, free port or address. The field is the
    /// reason.
    #[error("cannot connect: {0}")]
    NotBegun(String),
    /// The handshake failed, for this reason.
    #[error("cannot connect: {0}")]
    Failed(#[from] CloseReason),
    /// The endpoint has ended.
    #[error("cannot connect: the endpoint has ended")]
    Ended,
}

/// The SCTP endpoint of a host. A clone is another handle of the same endpoint. When the last handle has been dropped, the
/// endpoint accepts no more associations, and it ends after its last association.
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
    /// Starts an endpoint in a thread of its own.
    ///
    /// # Errors
    /// `InvalidInput` if the settings contradict each other. Other errors if the thread, the socket or the port is not
    /// available.
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

    /// Returns the local addresses at the start of the endpoint. Their ports are UDP ports, or 0 on IP.
    #[must_use]
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.inner.addresses
    }

    /// Returns the SCTP port on which associations are accepted, if any.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        self.inner.shared.lock().listening()
    }

    /// Connects to the SCTP port `port` at the addresses of `peer`. The first address is the primary path. The ports in
    /// `peer` are the peer's UDP port, or 0 on IP.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, no association remains.
    ///
    /// # Errors
    /// [`ConnectError`], if no association can be established. The number of retransmissions (Max.Init.Retransmits) limits
    /// the waiting time.
    pub async fn connect(&self, peer: &[SocketAddr], port: u16) -> Result<Association, ConnectError> {
        self.connect_with(peer, port, ConnectOptions::default()).await
    }

    /// Connects like [`connect`](Self::connect), with these options.
    ///
    /// Cancel-safe, like [`connect`](Self::connect).
    ///
    /// # Errors
    /// The errors of [`connect`](Self::connect).
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

    /// Returns the next association that a peer has begun. The program can examine it before accepting it. Returns `None` if
    /// the endpoint does not accept associations, or not any more.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, no association has been taken.
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

    /// Adds or replaces a shared key of associations that begin from now on (RFC 4895).
    ///
    /// # Errors
    /// [`KeyError`], if the key cannot be set.
    pub fn set_key(&self, key: u16, secret: impl AsRef<[u8]>) -> Result<(), KeyError> {
        self.inner.shared.with(|state, _| state.endpoint.set_key(None, key, secret.as_ref()))
    }

    /// Makes associations that begin from now on authenticate chunks with this key.
    ///
    /// # Errors
    /// [`KeyError`], if the key cannot be activated.
    pub fn activate_key(&self, key: u16) -> Result<(), KeyError> {
        self.inner.shared.with(|state, _| state.endpoint.activate_key(None, key))
    }

    /// Returns the number of associations that have not ended.
    #[must_use]
    pub fn associations(&self) -> usize {
        self.inner.shared.lock().live()
    }

    /// Returns the totals of all associations of the endpoint.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inner.shared.lock().endpoint.totals()
    }

    /// Accepts no more associations, refuses those that wait to be accepted, and shuts all existing ones down gracefully.
    /// The call does not wait for their ends; [`wait_idle`](Self::wait_idle) does.
    pub fn close(&self) {
        self.inner.shared.with(|state, now| state.close_all(now));
    }

    /// Waits until all associations of the endpoint have ended.
    ///
    /// Cancel-safe: dropping the future has no effect.
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
