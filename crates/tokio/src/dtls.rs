//! DTLS below SCTP: the certificate of an endpoint, and the certificates that it trusts.
//!
//! This module has only the settings for RFC 8261. The crate `anabranch-dtls` implements the protocol.

use anabranch_dtls::{DtlsLayer, HostConfig, Settings, Version};
use anabranch_tls::{Fingerprint, Identity, Surroundings, Trust};
use anabranch_world::os::OsWorld;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The DTLS settings of an endpoint. To accept associations, an endpoint needs an `identity`. To connect, it needs a
/// `trust`. An endpoint may have both.
///
/// ```
/// use anabranch_tokio::{Dtls, Fingerprint, Identity};
///
/// let identity = Identity::self_signed(&["localhost".to_owned()])?;
/// let fingerprint = Fingerprint(identity.fingerprint());
/// let (server, client) = (Dtls::server(identity), Dtls::client_with_fingerprint(fingerprint));
/// # drop((server, client));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Dtls {
    /// The certificate and key with which the endpoint accepts associations. With `None`, the endpoint accepts none.
    pub identity: Option<Identity>,
    /// The certificates that the endpoint trusts when it connects. With `None`, the endpoint cannot connect.
    pub trust: Option<Trust>,
    /// The DTLS versions that the endpoint supports.
    pub version: Version,
}

impl Dtls {
    /// Returns the settings of a server with this certificate and key (ECDSA P-256).
    #[must_use]
    pub fn server(identity: Identity) -> Self {
        Self { identity: Some(identity), ..Self::default() }
    }

    /// Returns the settings of a client that trusts these certificates.
    #[must_use]
    pub fn client(trust: Trust) -> Self {
        Self { trust: Some(trust), ..Self::default() }
    }

    /// Returns the settings of a client that trusts only the certificate with this fingerprint.
    #[must_use]
    pub fn client_with_fingerprint(fingerprint: Fingerprint) -> Self {
        Self::client(Trust::Certificate(fingerprint))
    }

    /// Sets the DTLS versions that the endpoint supports.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn layer(self, world: &OsWorld) -> io::Result<Rc<DtlsLayer<OsWorld>>> {
        let Self { identity, trust, version } = self;
        let settings = Settings { version, identity, trust, key_log: None };
        let host_config = HostConfig::new(settings, Surroundings::Real)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(Rc::new(DtlsLayer::new(world.clone(), host_config, None)))
    }
}

/// The names that the certificates of servers must contain, each with the server's address. The program adds names to
/// this list, and the endpoint's thread moves them to the DTLS layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerNames(Arc<Mutex<Vec<(SocketAddr, String)>>>);

impl ServerNames {
    /// Requires that the certificate of the server at this address has this name. If `name` is `None`, nothing changes.
    pub(crate) fn expect(&self, server: SocketAddr, name: Option<String>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.extend(name.map(|name| (server, name)));
    }

    /// Moves all names in the list to the DTLS layer.
    pub(crate) fn tell(&self, layer: &DtlsLayer<OsWorld>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (server, name) in names.drain(..) {
            layer.expect(server, &name);
        }
    }
}
