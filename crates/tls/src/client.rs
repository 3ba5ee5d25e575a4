//! The settings of a TLS client, and the start of its sessions.

use crate::rejection::{CertificateRejection, RecordingVerifier};
use crate::simulation::Surroundings;
use crate::trust::{Trust, TrustError};
use crate::{Versions, fault};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, KeyLog};
use std::fmt;
use std::sync::Arc;

/// The maximum number of servers whose sessions a client remembers for resumption.
const REMEMBERED: usize = 256;

/// The settings of a TLS client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The certificates that the client trusts.
    pub trust: Trust,
    /// The TLS versions that the client supports.
    pub versions: Versions,
    /// The application protocols that the client offers, in order of preference (ALPN, RFC 7301); if empty, the client
    /// offers none.
    pub protocols: Vec<Vec<u8>>,
    /// Whether the client resumes sessions with servers that it has connected to before (RFC 8446 §2.2).
    pub resumes: bool,
    /// Whether the client sends its first data with the handshake of a resumed session (RFC 8446 §2.3). Only QUIC
    /// supports early data in this project.
    pub early_data: bool,
    /// Receives the secrets of all sessions, so that packet decoders can decrypt the sessions.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            trust: Trust::default(),
            versions: Versions::default(),
            protocols: Vec::new(),
            resumes: true,
            early_data: false,
            key_log: None,
        }
    }
}

/// A TLS client that is ready to begin sessions. Clones share the remembered sessions.
#[derive(Clone)]
pub struct Client {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) rejection: CertificateRejection,
    pub(crate) surroundings: Surroundings,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("surroundings", &self.surroundings).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client with these settings.
    ///
    /// # Errors
    /// [`TrustError`], if the trusted certificates cannot be used.
    pub fn new(settings: ClientSettings, surroundings: Surroundings) -> Result<Self, TrustError> {
        let provider = surroundings.provider();
        Self::with(settings, surroundings, provider)
    }

    /// Like [`new`](Self::new), but with this cryptographic provider.
    pub(crate) fn with(
        settings: ClientSettings,
        surroundings: Surroundings,
        provider: CryptoProvider,
    ) -> Result<Self, TrustError> {
        let provider = Arc::new(provider);
        let rejection = CertificateRejection::default();
        let verifier = settings.trust.verifier(&provider)?;
        let verifier = Arc::new(RecordingVerifier { verifier, rejection: rejection.clone() });
        // The cryptographic provider of a simulation has only TLS 1.3 cipher suites.
        let versions = match surroundings {
            Surroundings::Real => settings.versions,
            Surroundings::Simulated(_) => Versions::Only13,
        };
        let mut config = ClientConfig::builder_with_details(provider, surroundings.clock())
            .with_protocol_versions(versions.list())
            .map_err(|error| TrustError::Certificate(fault::line(&error)))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = settings.protocols;
        config.enable_early_data = settings.early_data;
        config.resumption = if settings.resumes {
            Resumption::in_memory_sessions(REMEMBERED)
        } else {
            Resumption::disabled()
        };
        if let Some(log) = settings.key_log {
            config.key_log = log;
        }
        Ok(Self { config: Arc::new(config), rejection, surroundings })
    }

    /// Returns the source of the client's randomness and time.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    /// Returns the rustls configuration, for a transport with built-in TLS (RFC 9001). Handshakes with this
    /// configuration must run within the [`Surroundings`] of this client.
    #[must_use]
    pub fn rustls(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// Returns a handle that gives the reason why this client refused a server's certificate. Transports with built-in
    /// TLS need the handle, because their own errors do not contain the reason.
    #[must_use]
    pub fn rejection(&self) -> CertificateRejection {
        self.rejection.clone()
    }

    /// Begins a session with a server. The server's certificate must have this name.
    pub(crate) fn begin(&self, name: ServerName<'static>) -> Result<ClientConnection, rustls::Error> {
        self.surroundings.within(|| ClientConnection::new(self.config.clone(), name))
    }
}
