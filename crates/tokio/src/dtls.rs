//! DTLS below an endpoint: its certificate, and the certificates it trusts.
//!
//! Home of RFC 8261 as far as this crate goes; `anabranch-dtls` does the work.

use anabranch_dtls::{DtlsLayer, Ends, Settings, Version};
use anabranch_tls::{Fingerprint, Identity, Surroundings, Trust};
use anabranch_world::os::OsWorld;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The DTLS settings of an endpoint. A server needs an identity, a client needs trust; an endpoint may have both.
///
/// ```
/// use anabranch_tokio::{Dtls, Fingerprint, Identity};
///
/// let identity = Identity::self_signed(&["localhost".to_owned()])?;
/// let fingerprint = Fingerprint(identity.fingerprint());
/// let (server, client) = (Dtls::server(identity), Dtls::client_of(fingerprint));
/// # drop((server, client));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Dtls {
    /// The certificate and key for accepting associations; `None`: it accepts none.
    pub identity: Option<Identity>,
    /// The certificates that are trusted when connecting; `None`: it connects to no peer.
    pub trust: Option<Trust>,
    /// The protocol versions.
    pub version: Version,
}

impl Dtls {
    /// A server with this certificate and key (ECDSA P-256).
    #[must_use]
    pub fn server(identity: Identity) -> Self {
        Self { identity: Some(identity), ..Self::default() }
    }

    /// A client that trusts these certificates.
    #[must_use]
    pub fn client(trust: Trust) -> Self {
        Self { trust: Some(trust), ..Self::default() }
    }

    /// A client for the server whose certificate has this fingerprint.
    #[must_use]
    pub fn client_of(fingerprint: Fingerprint) -> Self {
        Self::client(Trust::Certificate(fingerprint))
    }

    /// Sets the protocol versions.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn layer(self, world: &OsWorld) -> io::Result<Rc<DtlsLayer<OsWorld>>> {
        let Self { identity, trust, version } = self;
        let settings = Settings { version, identity, trust, key_log: None };
        let ends = Ends::new(settings, Surroundings::Real)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(Rc::new(DtlsLayer::new(world.clone(), ends, None)))
    }
}

/// Expected certificate names of servers, on their way to the endpoint's thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Arc<Mutex<Vec<(SocketAddr, String)>>>);

impl Names {
    /// Expects a certificate with this name from the server at this address, if a name is given.
    pub(crate) fn expect(&self, server: SocketAddr, name: Option<String>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.extend(name.map(|name| (server, name)));
    }

    /// Passes the names on to the layer.
    pub(crate) fn tell(&self, layer: &DtlsLayer<OsWorld>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (server, name) in names.drain(..) {
            layer.expect(server, &name);
        }
    }
}
