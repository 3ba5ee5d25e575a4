//! What a server is set to, and what its sessions begin with.

use crate::identity::Identity;
use crate::simulation::Surroundings;
use crate::{Versions, fault};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{KeyLog, ServerConfig, ServerConnection};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Sessions that can be resumed, at most, where they are remembered; in virtual time, too.
const REMEMBERED: usize = 4_096;

/// What a server is set to.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Who it is.
    pub identity: Identity,
    /// The versions it speaks.
    pub versions: Versions,
    /// The application protocols it speaks, the one it likes best first (ALPN, RFC 7301).
    pub protocols: Vec<Vec<u8>>,
    /// Sessions can be resumed (RFC 8446 §2.2).
    pub resumes: bool,
    /// Takes what rides with the handshake of a resumed session (RFC 8446 §2.3). Whoever answers it has to bear that a
    /// stranger sends it once more (RFC 8446 §8). Sessions are remembered for that, and in this process only.
    pub early_data: bool,
    /// Where the secrets of sessions are written for decoders, if anywhere.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl ServerSettings {
    /// The defaults, of this identity.
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

/// A server, ready to take sessions in. A clone is the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) config: Arc<ServerConfig>,
    shown: Arc<Shown>,
    secret: [u8; 32],
    pub(crate) surroundings: Surroundings,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("surroundings", &self.surroundings).finish_non_exhaustive()
    }
}

/// What of a server can be handed to its other threads: everything but where its randomness comes from.
#[derive(Clone)]
pub struct Shared(pub(crate) Arc<ServerConfig>, pub(crate) Arc<Shown>, [u8; 32]);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// The server in another thread.
    #[must_use]
    pub fn server(self) -> Server {
        self.within(Surroundings::Real)
    }

    /// The server within these surroundings.
    pub(crate) fn within(self, surroundings: Surroundings) -> Server {
        Server { config: self.0, shown: self.1, secret: self.2, surroundings }
    }

    /// Shows this identity from now on; sessions under way go on with the one they have.
    ///
    /// # Errors
    /// One line: what of it does not fit together. Nothing has changed then.
    pub fn show(&self, identity: Identity) -> Result<(), String> {
        let key = certified(identity, self.0.crypto_provider())?;
        *self.1.0.write().unwrap_or_else(PoisonError::into_inner) = key;
        Ok(())
    }
}

impl Server {
    /// A server so set.
    ///
    /// # Errors
    /// One line: what of the identity does not fit together.
    pub fn new(settings: ServerSettings, surroundings: Surroundings) -> Result<Self, String> {
        let provider = surroundings.provider();
        Self::with(settings, surroundings, provider)
    }

    /// The same, by this provider.
    pub(crate) fn with(
        settings: ServerSettings,
        surroundings: Surroundings,
        provider: CryptoProvider,
    ) -> Result<Self, String> {
        let provider = Arc::new(provider);
        let secret = settings.identity.derived(b"anabranch server secret");
        let shown = Arc::new(Shown(RwLock::new(certified(settings.identity, &provider)?)));
        let versions = match surroundings {
            Surroundings::Real => settings.versions,
            Surroundings::Simulated(_) => Versions::Only13,
        };
        let mut config = ServerConfig::builder_with_details(provider, surroundings.clock())
            .with_protocol_versions(versions.list())
            .map_err(|error| fault::line(&error))?
            .with_no_client_auth()
            .with_cert_resolver(shown.clone());
        config.alpn_protocols = settings.protocols;
        if !settings.resumes {
            config.send_tls13_tickets = 0;
            config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        } else if settings.early_data || matches!(surroundings, Surroundings::Simulated(_)) {
            // Early data is for tickets of one use. And keys of tickets are drawn from the operating system: in virtual time
            // sessions are remembered instead.
            config.session_storage = ServerSessionMemoryCache::new(REMEMBERED);
        } else {
            // Nothing is kept of a session, and every thread can resume it.
            config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(|error| fault::line(&error))?;
        }
        if settings.early_data && settings.resumes {
            // RFC 9001 §4.6.1: QUIC says how much by its own flow control.
            config.max_early_data_size = u32::MAX;
        }
        if let Some(log) = settings.key_log {
            config.key_log = log;
        }
        Ok(Self { config: Arc::new(config), shown, secret, surroundings })
    }

    /// What other threads take, and what changes the identity.
    #[must_use]
    pub fn shared(&self) -> Shared {
        Shared(self.config.clone(), self.shown.clone(), self.secret)
    }

    /// What nobody else can know, and what is the same after a restart: it follows from the key that the server began with.
    #[must_use]
    pub fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// Where its randomness and its time come from.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    /// The settings, for a transport that has TLS inside (RFC 9001). Its handshakes happen within the
    /// [`Surroundings`] that these were made for.
    #[must_use]
    pub fn rustls(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Takes a session in.
    pub(crate) fn begin(&self) -> Result<ServerConnection, rustls::Error> {
        self.surroundings.within(|| ServerConnection::new(self.config.clone()))
    }
}

/// The identity that new sessions are shown.
#[derive(Debug)]
pub(crate) struct Shown(RwLock<Arc<CertifiedKey>>);

impl Shown {
    pub(crate) fn current(&self) -> Arc<CertifiedKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// The key ready to sign, when it is that of the certificate.
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
