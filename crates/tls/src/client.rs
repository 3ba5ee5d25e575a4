//! The settings of a client, and the start of its sessions.

use crate::distrust::{Distrust, Telling};
use crate::simulation::Surroundings;
use crate::trust::{Trust, TrustError};
use crate::{Versions, fault};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, KeyLog};
use std::fmt;
use std::sync::Arc;

/// The maximum number of sessions that a client remembers for resumption.
const REMEMBERED: usize = 256;

/// The settings of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The certificates it trusts.
    pub trust: Trust,
    /// The versions it speaks.
    pub versions: Versions,
    /// The application protocols it offers, in order of preference (ALPN, RFC 7301); if empty, it offers none.
    pub protocols: Vec<Vec<u8>>,
    /// Whether it resumes sessions with servers it has connected to before (RFC 8446 §2.2).
    pub resumes: bool,
    /// Whether its first data is sent with the handshake of a resumed session (RFC 8446 §2.3), if the transport can:
    /// QUIC.
    pub early_data: bool,
    /// Receives the secrets of sessions for packet decoders.
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

/// A client that is ready to begin sessions. A clone shares the remembered sessions.
#[derive(Clone)]
pub struct Client {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) distrust: Distrust,
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
    /// [`TrustError`]: the trusted certificates cannot be used.
    pub fn new(settings: ClientSettings, surroundings: Surroundings) -> Result<Self, TrustError> {
        let provider = surroundings.provider();
        Self::with(settings, surroundings, provider)
    }

    /// As [`new`](Self::new), with this cryptographic provider.
    pub(crate) fn with(
        settings: ClientSettings,
        surroundings: Surroundings,
        provider: CryptoProvider,
    ) -> Result<Self, TrustError> {
        let provider = Arc::new(provider);
        let distrust = Distrust::default();
        let verifier = settings.trust.verifier(&provider)?;
        let verifier = Arc::new(Telling { verifier, distrust: distrust.clone() });
        // The provider of virtual time has only TLS 1.3 suites.
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
        Ok(Self { config: Arc::new(config), distrust, surroundings })
    }

    /// The source of its randomness and time.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    /// The rustls configuration, for a transport with built-in TLS (RFC 9001). Its handshakes must run within the
    /// [`Surroundings`] of this client.
    #[must_use]
    pub fn rustls(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// Holds the reason why the client refused a server's certificates, for a transport with built-in TLS.
    #[must_use]
    pub fn distrust(&self) -> Distrust {
        self.distrust.clone()
    }

    /// Begins a session with the server of this name.
    pub(crate) fn begin(&self, name: ServerName<'static>) -> Result<ClientConnection, rustls::Error> {
        self.surroundings.within(|| ClientConnection::new(self.config.clone(), name))
    }
}
