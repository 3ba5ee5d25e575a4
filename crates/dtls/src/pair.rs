//! Two ends of an experiment that know each other.

use crate::{Ends, EndsError, Settings, Version};
use anabranch_tls::{CertificateDer, Identity, KeyLog, Secrets, Surroundings, Trust};
use std::sync::Arc;

/// Two ends that know each other.
#[derive(Clone, Debug)]
pub struct Pair {
    version: Version,
    identity: Identity,
    root: CertificateDer<'static>,
    secrets: Arc<Secrets>,
}

impl Pair {
    /// What its server is called.
    pub const NAME: &'static str = "server.test";

    /// A pair whose server shows a certificate of `bytes`.
    ///
    /// # Errors
    /// One line.
    pub fn new(version: Version, bytes: usize) -> Result<Self, String> {
        let made = Identity::simulated_alone(Self::NAME, bytes).map_err(|error| error.to_string())?;
        Ok(Self { version, identity: made.0, root: made.1, secrets: Arc::default() })
    }

    /// What it speaks, for people.
    #[must_use]
    pub const fn spoken(version: Version) -> &'static str {
        match version {
            Version::Only12 => "DTLS 1.2, AES-256-GCM, X25519, ECDSA P-256, cookie",
            _ => "DTLS 1.3, AES-128-GCM, X25519, ECDSA P-256, cookie",
        }
    }

    /// The secrets of all connections that the client has begun so far, a line each, as decoders read them (the format of
    /// NSS's key log).
    #[must_use]
    pub fn secrets(&self) -> String {
        self.secrets.text()
    }

    /// One end: a server, or a client.
    ///
    /// # Errors
    /// [`EndsError`].
    pub fn end(&self, server: bool, surroundings: Surroundings) -> Result<Ends, EndsError> {
        let settings = Settings {
            version: self.version,
            identity: server.then(|| self.identity.clone()),
            trust: (!server).then(|| Trust::Authorities(vec![self.root.clone()])),
            key_log: (!server).then(|| self.secrets.clone() as Arc<dyn KeyLog>),
        };
        Ends::new(settings, surroundings)
    }
}
