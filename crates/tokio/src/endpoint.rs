//! An endpoint: the handle that programs use.

use crate::association::Association;
use crate::driver;
use crate::incoming::Incoming;
use crate::options::Options;
use crate::shared::Shared;
use anabranch_sctp::{Associate, Config, KeyError, Totals};
use anabranch_transport::CloseReason;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

/// The options of a new association, except the peer's addresses.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The local SCTP port; `None` for any free port.
    pub local_port: Option<u16>,
    /// The number of streams that this side requests for each direction; `None` for the configured number.
    pub streams: Option<u16>,
    /// The settings of this association; `None` for the settings of the endpoint.
    pub config: Option<Config>,
    /// The name that the peer's certificate must have. With `None`, the certificate must be for the peer's address.
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

    /// Sets the number of streams that this side requests for each direction.
    #[must_use]
    pub fn streams(mut self, streams: u16) -> Self {
        self.streams = Some(streams);
        self
    }

    /// Sets the settings of this association. They replace the settings of the endpoint.
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
    /// The handshake could not be started, for example because no peer address was given, or because no local port is
    /// free. The field is the reason.
    #[error("cannot connect: {0}")]
    NotStarted(String),
    /// The handshake failed, for this reason.
    #[error("cannot connect: {0}")]
    Failed(#[from] CloseReason),
    /// The endpoint has ended.
    #[error("cannot connect: the endpoint has ended")]
    Ended,
}

/// The SCTP endpoint of a host. A clone is another handle of the same endpoint. When the last handle is dropped, the
/// endpoint stops accepting associations, and ends when its last association has ended.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    #[cfg(feature = "dtls")]
    names: Option<crate::dtls::ServerNames>,
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
        let names = options.dtls.is_some().then(crate::dtls::ServerNames::default);
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

    /// Returns the local addresses that the endpoint had when it started. The ports in them are UDP ports, or 0 if SCTP
    /// runs directly on IP.
    #[must_use]
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.inner.addresses
    }

    /// Returns the SCTP port on which associations are accepted, if any.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        self.inner.shared.lock().listening()
    }

    /// Connects to the SCTP port `port` at the addresses of `peer`. The first address is the primary path. Each address
    /// in `peer` has the peer's UDP port, or port 0 if SCTP runs directly on IP.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, no association remains.
    ///
    /// # Errors
    /// [`ConnectError`], if no association can be established. The number of retransmissions (Max.Init.Retransmits)
    /// limits the waiting time.
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
        let not_started = |why: String| ConnectError::NotStarted(why);
        let first =
            *peer.first().ok_or_else(|| not_started("no address of the peer was given".to_owned()))?;
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
            let result = match options.config {
                Some(config) => {
                    config.check().map_err(|why| not_started(why.to_string()))?;
                    let config = driver::prepared(config, &state.memory);
                    state.endpoint.associate_with(now, ask, config)
                }
                None => state.endpoint.associate(now, ask),
            };
            let id = result.map_err(|why| not_started(why.to_string()))?;
            let signals = state.began(id, peer, first.port());
            Ok(Association::new(self.inner.shared.clone(), id, signals, peer))
        })
    }

    /// Waits for the next association that a peer begins. The program can examine the association before accepting it.
    /// Returns `None` if the endpoint accepts no associations, or has stopped accepting them.
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

    /// Adds or replaces a shared key for all associations that begin after this call (RFC 4895).
    ///
    /// # Errors
    /// [`KeyError`], if the key cannot be set.
    pub fn set_key(&self, key: u16, secret: impl AsRef<[u8]>) -> Result<(), KeyError> {
        self.inner.shared.with(|state, _| state.endpoint.set_key(None, key, secret.as_ref()))
    }

    /// Sets the key that authenticates the chunks of all associations that begin after this call.
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

    /// Stops accepting associations, refuses those that wait to be accepted, and shuts all existing associations down
    /// gracefully. The call does not wait until they have ended; [`wait_idle`](Self::wait_idle) does.
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
