//! The DTLS client and server of an experiment, with matching certificates.

use crate::{HostConfig, HostConfigError, Settings, Version};
use anabranch_tls::{CertificateDer, Identity, KeyLog, Secrets, Surroundings, Trust};
use std::sync::Arc;

/// A DTLS client and a DTLS server with matching certificates.
#[derive(Clone, Debug)]
pub struct Pair {
    version: Version,
    identity: Identity,
    root: CertificateDer<'static>,
    secrets: Arc<Secrets>,
}

impl Pair {
    /// The server's name in its certificate.
    pub const NAME: &'static str = "server.test";

    /// Creates a pair. The server's certificate is padded to `bytes` bytes. A certificate of more bytes is not padded.
    ///
    /// # Errors
    /// A one-line text that says why the certificate could not be created.
    pub fn new(version: Version, bytes: usize) -> Result<Self, String> {
        let made = Identity::simulated_single(Self::NAME, bytes).map_err(|error| error.to_string())?;
        Ok(Self { version, identity: made.0, root: made.1, secrets: Arc::default() })
    }

    /// Returns the protocol version and algorithms of a connection, as text.
    #[must_use]
    pub const fn spoken(version: Version) -> &'static str {
        match version {
            Version::Only12 => "DTLS 1.2, AES-256-GCM, X25519, ECDSA P-256, cookie",
            _ => "DTLS 1.3, AES-128-GCM, X25519, ECDSA P-256, cookie",
        }
    }

    /// Returns the secrets of all connections that the client has begun so far, one per line. The format is the NSS key
    /// log, which packet decoders read.
    #[must_use]
    pub fn secrets(&self) -> String {
        self.secrets.text()
    }

    /// Creates the server if `server` is true, otherwise the client.
    ///
    /// # Errors
    /// [`HostConfigError`], if the settings cannot be used.
    pub fn host_config(
        &self,
        server: bool,
        surroundings: Surroundings,
    ) -> Result<HostConfig, HostConfigError> {
        let settings = Settings {
            version: self.version,
            identity: server.then(|| self.identity.clone()),
            trust: (!server).then(|| Trust::Authorities(vec![self.root.clone()])),
            key_log: (!server).then(|| self.secrets.clone() as Arc<dyn KeyLog>),
        };
        HostConfig::new(settings, surroundings)
    }
}
