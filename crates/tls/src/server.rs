//! The settings of a TLS server, and the start of its sessions.

use crate::identity::Identity;
use crate::simulation::Surroundings;
use crate::{Versions, fault};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{KeyLog, ServerConfig, ServerConnection};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The maximum number of sessions that a server remembers for resumption if it does not use stateless tickets.
const REMEMBERED: usize = 4_096;

/// The settings of a TLS server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The server's certificate chain and private key.
    pub identity: Identity,
    /// The TLS versions that the server supports.
    pub versions: Versions,
    /// The application protocols that the server supports, in order of preference (ALPN, RFC 7301).
    pub protocols: Vec<Vec<u8>>,
    /// Whether clients can resume sessions (RFC 8446 §2.2).
    pub resumes: bool,
    /// Whether the server accepts data sent with the handshake of a resumed session (RFC 8446 §2.3). An attacker can
    /// replay this data, and the application must tolerate replays (RFC 8446 §8). With early data, sessions are kept in
    /// memory, so only this process can resume them.
    pub early_data: bool,
    /// Receives the secrets of all sessions, with which packet decoders can decrypt the sessions.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl ServerSettings {
    /// Returns the default settings with this identity.
    #[must_use]
    pub fn of(identity: Identity) -> Self {
        Self {
            identity,
            versions: Versions::default(),
            protocols: Vec::new(),
            resumes: true,
            early_data: false,
            key_log: None,
        }
    }
}

/// A TLS server that is ready to accept sessions. A clone is another handle of the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) config: Arc<ServerConfig>,
    current: Arc<CurrentCertificate>,
    secret: [u8; 32],
    pub(crate) surroundings: Surroundings,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("surroundings", &self.surroundings).finish_non_exhaustive()
    }
}

/// The part of a server that can be sent to other threads: everything except the source of randomness.
#[derive(Clone)]
pub struct SendableServer(pub(crate) Arc<ServerConfig>, pub(crate) Arc<CurrentCertificate>, [u8; 32]);

impl fmt::Debug for SendableServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendableServer").finish_non_exhaustive()
    }
}

impl SendableServer {
    /// Creates a handle of the server in the current thread, with the operating system's randomness and time.
    #[must_use]
    pub fn server(self) -> Server {
        self.within(Surroundings::Real)
    }

    /// Creates a handle of the server with this source of randomness and time.
    pub(crate) fn within(self, surroundings: Surroundings) -> Server {
        Server { config: self.0, current: self.1, secret: self.2, surroundings }
    }

    /// Uses this identity for new sessions. Existing sessions keep their identity.
    ///
    /// # Errors
    /// A one-line text that says why the certificates and the key do not match. In that case the server keeps its
    /// previous identity.
    pub fn set_identity(&self, identity: Identity) -> Result<(), String> {
        let key = certified(identity, self.0.crypto_provider())?;
        *self.1.0.write().unwrap_or_else(PoisonError::into_inner) = key;
        Ok(())
    }
}

impl Server {
    /// Creates a server with these settings.
    ///
    /// # Errors
    /// A one-line text that says why the certificates and the key do not match.
    pub fn new(settings: ServerSettings, surroundings: Surroundings) -> Result<Self, String> {
        let provider = surroundings.provider();
        Self::with(settings, surroundings, provider)
    }

    /// Like [`new`](Self::new), but with this cryptographic provider.
    pub(crate) fn with(
        settings: ServerSettings,
        surroundings: Surroundings,
        provider: CryptoProvider,
    ) -> Result<Self, String> {
        let provider = Arc::new(provider);
        let secret = settings.identity.derived(b"anabranch server secret");
        let current = Arc::new(CurrentCertificate(RwLock::new(certified(settings.identity, &provider)?)));
        let versions = match surroundings {
            Surroundings::Real => settings.versions,
            Surroundings::Simulated(_) => Versions::Only13,
        };
        let mut config = ServerConfig::builder_with_details(provider, surroundings.clock())
            .with_protocol_versions(versions.list())
            .map_err(|error| fault::line(&error))?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = settings.protocols;
        if !settings.resumes {
            config.send_tls13_tickets = 0;
            config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        } else if settings.early_data || matches!(surroundings, Surroundings::Simulated(_)) {
            // Early data needs tickets that can be used only once, so sessions are remembered in memory. A simulation
            // remembers sessions in memory too, because the keys of stateless tickets come from the operating system's
            // randomness.
            config.session_storage = ServerSessionMemoryCache::new(REMEMBERED);
        } else {
            // Stateless tickets are used, so that the server keeps no state of sessions, and every thread can resume a
            // session.
            config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(|error| fault::line(&error))?;
        }
        if settings.early_data && settings.resumes {
            // RFC 9001 §4.6.1: TLS sets no limit on early data, because QUIC limits it by flow control.
            config.max_early_data_size = u32::MAX;
        }
        if let Some(log) = settings.key_log {
            config.key_log = log;
        }
        Ok(Self { config: Arc::new(config), current, secret, surroundings })
    }

    /// Returns the part of the server that can be sent to other threads. Each thread creates a [`Server`] from it. The
    /// part can also replace the certificate and key of the server.
    #[must_use]
    pub fn shared(&self) -> SendableServer {
        SendableServer(self.config.clone(), self.current.clone(), self.secret)
    }

    /// Returns a secret that stays the same after a restart, because it is derived from the private key with which the
    /// server was created.
    #[must_use]
    pub fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// Returns the source of the server's randomness and time.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    /// Returns the rustls configuration, for a transport with built-in TLS (RFC 9001). Handshakes with this
    /// configuration must run within the [`Surroundings`] of this server.
    #[must_use]
    pub fn rustls(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Creates the state of a new session, which waits for a ClientHello.
    pub(crate) fn begin(&self) -> Result<ServerConnection, rustls::Error> {
        self.surroundings.within(|| ServerConnection::new(self.config.clone()))
    }
}

/// The certificate chain and key that new sessions use.
#[derive(Debug)]
pub(crate) struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl CurrentCertificate {
    pub(crate) fn current(&self) -> Arc<CertifiedKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// Loads the private key for signing, and checks that it belongs to the certificate.
fn certified(
    identity: Identity,
    provider: &rustls::crypto::CryptoProvider,
) -> Result<Arc<CertifiedKey>, String> {
    CertifiedKey::from_der(identity.chain, identity.key, provider).map(Arc::new).map_err(
        |error| match error {
            rustls::Error::InconsistentKeys(_) => "the key is not that of the certificate".to_owned(),
            other => fault::line(&other),
        },
    )
}
