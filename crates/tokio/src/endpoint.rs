//! An endpoint: what it is made with, and the handle that programs hold of it.

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

/// What an endpoint is made with. By default: SCTP in UDP from a port that the system chooses, on all addresses of the host,
/// profile `modern`, accepting nothing.
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
    /// The local addresses; empty: all of the host, as they come and go, but those of a single link.
    pub addresses: Vec<IpAddr>,
    /// What carries the packets.
    pub carrier: Carrier,
    /// The SCTP port to accept associations on.
    pub listen: Option<u16>,
    /// Associations that peers have begun and that may wait to be accepted or refused; whoever comes then has to try again, as
    /// the timers of its handshake have it.
    pub backlog: usize,
    /// The largest message that is received, bytes: see [`RecvError::TooLong`](crate::RecvError::TooLong).
    pub max_receive: usize,
    /// Memory for messages of all associations together, bytes: those that were sent and are not acknowledged, and those that
    /// have come and are not read. Each may hold one part in 8192 of it in any case, and more (up to its `sndbuf` and `rcvbuf`)
    /// as its network takes more and there is enough for all.
    pub memory: u64,
    /// The engine's settings: a profile, changed by key or by a [`ConfigBuilder`](crate::ConfigBuilder).
    pub config: Config,
    /// DTLS beneath SCTP (RFC 8261). An association has one path then.
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
            // The engine alone begins with the letter of RFC 9260; programs, with what hosts of today do.
            config: Config::profile("modern").unwrap_or_default(),
            #[cfg(feature = "dtls")]
            dtls: None,
        }
    }
}

impl Options {
    /// One more local address.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// These local addresses alone.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Packets go in UDP from this port (RFC 6951); 0: one that the system chooses.
    #[must_use]
    pub fn udp(mut self, port: u16) -> Self {
        self.carrier = Carrier::Udp { port };
        self
    }

    /// Packets go on IP, as protocol 132. Takes the right to open raw sockets.
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

    /// So many associations may wait to be accepted.
    #[must_use]
    pub fn backlog(mut self, associations: usize) -> Self {
        self.backlog = associations;
        self
    }

    /// Receives messages of at most so many bytes.
    #[must_use]
    pub fn max_receive(mut self, bytes: usize) -> Self {
        self.max_receive = bytes;
        self
    }

    /// All associations together hold so many bytes at most.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// With these settings.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// With DTLS beneath SCTP (RFC 8261).
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn dtls(mut self, dtls: Dtls) -> Self {
        self.dtls = Some(dtls);
        self
    }
}

/// How an association is begun, beyond where its peer is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Our SCTP port; `None`: one that is free.
    pub local_port: Option<u16>,
    /// Streams to ask for in both directions; `None`: what the configuration says.
    pub streams: Option<u16>,
    /// The settings of this association, where they are other than the endpoint's.
    pub config: Option<Config>,
    /// The name that the peer's certificate is for; `None`: its address.
    #[cfg(feature = "dtls")]
    pub server_name: Option<String>,
}

impl ConnectOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From this SCTP port.
    #[must_use]
    pub fn local_port(mut self, port: u16) -> Self {
        self.local_port = Some(port);
        self
    }

    /// Asks for so many streams in both directions.
    #[must_use]
    pub fn streams(mut self, streams: u16) -> Self {
        self.streams = Some(streams);
        self
    }

    /// With settings of its own.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// The peer's certificate is for this name.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

/// Why an association did not come about.
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

/// A host's SCTP. A clone is the same endpoint. Once the last is gone, the endpoint accepts nothing more, and ends after its
/// last association.
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
    /// The settings contradict each other (`InvalidInput`); the thread, the socket or the port cannot be had.
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

    /// The local addresses that the endpoint began with; ports: UDP's, 0 on IP.
    #[must_use]
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.inner.addresses
    }

    /// The SCTP port on which associations are accepted, if any.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        self.inner.shared.lock().listening()
    }

    /// Associates with SCTP port `port` at the addresses of `peer`, the first the primary path. Their ports are the peer's UDP
    /// port, 0 on IP.
    ///
    /// Cancel-safe: dropped before it is ready, it leaves no association.
    ///
    /// # Errors
    /// [`ConnectError`]; the wait ends by the engine's limits (Max.Init.Retransmits).
    pub async fn connect(&self, peer: &[SocketAddr], port: u16) -> Result<Association, ConnectError> {
        self.connect_with(peer, port, ConnectOptions::default()).await
    }

    /// The same with more to say.
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

    /// The next association that a peer has begun, to be looked at before it is accepted; `None` when the endpoint accepts none
    /// (any more).
    ///
    /// Cancel-safe: dropped before it is ready, it has taken none.
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
    /// [`KeyError`].
    pub fn set_key(&self, key: u16, secret: impl AsRef<[u8]>) -> Result<(), KeyError> {
        self.inner.shared.with(|state, _| state.endpoint.set_key(None, key, secret.as_ref()))
    }

    /// Associations that begin from now on sign with this key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn activate_key(&self, key: u16) -> Result<(), KeyError> {
        self.inner.shared.with(|state, _| state.endpoint.activate_key(None, key))
    }

    /// Associations that are alive.
    #[must_use]
    pub fn associations(&self) -> usize {
        self.inner.shared.lock().live()
    }

    /// What all associations of the endpoint have done.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inner.shared.lock().endpoint.totals()
    }

    /// Accepts no more and shuts all associations down in good order; those that wait to be accepted are refused. Returns at
    /// once, see [`wait_idle`](Self::wait_idle).
    pub fn close(&self) {
        self.inner.shared.with(|state, now| state.close_all(now));
    }

    /// Waits until no association is alive.
    ///
    /// Cancel-safe: dropped before it is ready, it has done nothing.
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
