//! What a client is set to, and what its sessions begin with.

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

/// Sessions that a client can resume, at most.
const REMEMBERED: usize = 256;

/// What a client is set to.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Whom it believes.
    pub trust: Trust,
    /// The versions it speaks.
    pub versions: Versions,
    /// The application protocols it offers, the one it likes best first (ALPN, RFC 7301); none: it does not say.
    pub protocols: Vec<Vec<u8>>,
    /// It resumes sessions with servers that it has been at (RFC 8446 §2.2).
    pub resumes: bool,
    /// What it sends first rides with the handshake of a resumed session (RFC 8446 §2.3), where the transport can: QUIC.
    pub early_data: bool,
    /// Where the secrets of sessions are written for decoders, if anywhere.
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

/// A client, ready to begin sessions. A clone remembers the same sessions.
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
    /// A client so set.
    ///
    /// # Errors
    /// [`TrustError`]: nobody can be believed so.
    pub fn new(settings: ClientSettings, surroundings: Surroundings) -> Result<Self, TrustError> {
        let provider = surroundings.provider();
        Self::with(settings, surroundings, provider)
    }

    /// The same, by this provider.
    pub(crate) fn with(
        settings: ClientSettings,
        surroundings: Surroundings,
        provider: CryptoProvider,
    ) -> Result<Self, TrustError> {
        let provider = Arc::new(provider);
        let distrust = Distrust::default();
        let verifier = settings.trust.verifier(&provider)?;
        let verifier = Arc::new(Telling { verifier, distrust: distrust.clone() });
        // The provider of virtual time has the suites of TLS 1.3 alone.
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

    /// Where its randomness and its time come from.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    /// The settings, for a transport that has TLS inside (RFC 9001). Its handshakes happen within the
    /// [`Surroundings`] that these were made for.
    #[must_use]
    pub fn rustls(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// Where it says why it has refused a server's certificates, for such a transport.
    #[must_use]
    pub fn distrust(&self) -> Distrust {
        self.distrust.clone()
    }

    /// Begins a session with the server of this name.
    pub(crate) fn begin(&self, name: ServerName<'static>) -> Result<ClientConnection, rustls::Error> {
        self.surroundings.within(|| ClientConnection::new(self.config.clone(), name))
    }
}
