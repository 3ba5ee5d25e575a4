//! The security of clients and servers on real networks: TLS above a transport, DTLS below it, or encryption by the
//! transport itself.
//!
//! A program loads certificates and trust anchors. From these, this module creates the TLS, DTLS or QUIC configuration
//! that a scheme needs.

use crate::scheme::{Encryption, UrlScheme};
use anabranch_dtls::{HostConfigError, Settings as DtlsSettings};
use anabranch_tls::{Client, ClientSettings, HostTls, Server, ServerSettings, Surroundings, Versions};
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

pub use anabranch_tls::{Fingerprint, Identity, KeyLog, SendableServer, Trust, read_secret_file};

/// The application protocols that may be negotiated (ALPN, RFC 7301), the preferred protocol first.
#[derive(Clone, Debug, Default)]
pub struct Protocols {
    /// The protocols to negotiate if TLS runs above the transport, on the only stream of a session.
    pub above: Vec<Vec<u8>>,
    /// The protocols to negotiate if the transport has built-in encryption, such as QUIC.
    pub within: Vec<Vec<u8>>,
    /// Whether the application accepts or sends requests as early data over a transport with built-in encryption.
    pub early_data: bool,
}

/// A function that returns whether a certificate is valid for a host name.
pub type NamesHost = Box<dyn Fn(&str) -> bool>;

/// The security of a server. Clones can be sent to other threads.
#[derive(Clone)]
pub struct ServerSecurity {
    identity: Identity,
    key_log: Arc<dyn KeyLog>,
    above: Option<SendableServer>,
    within: Option<SendableServer>,
    /// Whether a transport above DTLS omits its own checksum if the peer agrees (RFC 9653).
    pub zero_checksum: bool,
}

impl fmt::Debug for ServerSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSecurity").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl ServerSecurity {
    /// Creates the security of a server that listens for `schemes` and presents the certificate of `identity`.
    ///
    /// # Errors
    /// A one-line text that says why the certificate cannot be used.
    pub fn new<'a>(
        identity: Identity,
        schemes: impl Iterator<Item = &'a UrlScheme> + Clone,
        protocols: Protocols,
        key_log: Arc<dyn KeyLog>,
    ) -> Result<Self, String> {
        let uses = |encryption| schemes.clone().any(|scheme| scheme.encryption() == encryption);
        let mut made =
            Self { identity: identity.clone(), key_log, above: None, within: None, zero_checksum: true };
        if uses(Encryption::Below) {
            made.dtls().map_err(|why| why.to_string())?;
        }
        let settings = ServerSettings {
            protocols: protocols.above,
            key_log: Some(made.key_log.clone()),
            ..ServerSettings::of(identity)
        };
        if uses(Encryption::Within) {
            // An HTTP server accepts only GET and HEAD as early data (RFC 8470), and accepts each session ticket only
            // once.
            let settings = ServerSettings {
                versions: Versions::Only13,
                early_data: protocols.early_data,
                protocols: protocols.within,
                ..settings.clone()
            };
            made.within = Some(Server::new(settings, Surroundings::Real)?.shared());
        }
        if uses(Encryption::Above) {
            made.above = Some(Server::new(settings, Surroundings::Real)?.shared());
        }
        Ok(made)
    }

    /// Sets whether a transport above DTLS omits its own checksum if the peer agrees (RFC 9653).
    #[must_use]
    pub fn with_zero_checksum(self, zero_checksum: bool) -> Self {
        Self { zero_checksum, ..self }
    }

    /// Returns the shared configurations of the TLS servers, through which a server's identity can be changed while it
    /// runs.
    pub fn shared(&self) -> impl Iterator<Item = &SendableServer> {
        self.above.iter().chain(&self.within)
    }

    /// Returns a function that says whether the certificate of listeners for `scheme` is valid for a host name; `None`
    /// if there is no certificate.
    #[must_use]
    pub fn names(&self, scheme: &UrlScheme) -> Option<NamesHost> {
        let of = |shared: &SendableServer| {
            let names = shared.names();
            Box::new(move |host: &str| names.include(host)) as NamesHost
        };
        match scheme.encryption() {
            Encryption::None => None,
            Encryption::Above => self.above.as_ref().map(of),
            Encryption::Within => self.within.as_ref().map(of),
            Encryption::Below => {
                let identity = self.identity.clone();
                Some(Box::new(move |host| identity.names(host)))
            }
        }
    }

    /// Returns the TLS server for transports whose sessions have a single stream, such as TCP.
    pub(crate) fn tls(&self) -> Option<Server> {
        self.above.clone().map(SendableServer::server)
    }

    /// Returns the TLS configuration for a transport that encrypts its packets itself, as QUIC does.
    pub(crate) fn within(&self) -> Option<HostTls> {
        let server = self.within.clone().map(SendableServer::server)?;
        Some(HostTls { surroundings: Surroundings::Real, client: None, server: Some(server) })
    }

    /// Returns the DTLS configuration of the server.
    pub(crate) fn dtls(&self) -> Result<anabranch_dtls::HostConfig, HostConfigError> {
        let settings = DtlsSettings {
            identity: Some(self.identity.clone()),
            key_log: Some(self.key_log.clone()),
            ..DtlsSettings::default()
        };
        anabranch_dtls::HostConfig::new(settings, Surroundings::Real)
    }
}

/// The security of a client: the certificates that it trusts. Clones share the sessions that can be resumed.
#[derive(Clone)]
pub struct ClientSecurity {
    /// The TLS client for sessions with one stream.
    above: Client,
    trust: Trust,
    key_log: Arc<dyn KeyLog>,
    protocols: Protocols,
    /// The TLS client for transports with built-in encryption, such as QUIC. It is created on first use. It is then
    /// kept, because it stores TLS sessions for resumption.
    within: Rc<OnceCell<Client>>,
    /// Whether a transport above DTLS omits its own checksum if the peer agrees (RFC 9653).
    pub zero_checksum: bool,
}

impl fmt::Debug for ClientSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSecurity").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl ClientSecurity {
    /// Creates the security of a client that trusts `trust`.
    ///
    /// # Errors
    /// A one-line text that says why the trusted certificates cannot be used.
    pub fn new(trust: Trust, protocols: Protocols, key_log: Arc<dyn KeyLog>) -> Result<Self, String> {
        let settings = ClientSettings {
            trust: trust.clone(),
            protocols: protocols.above.clone(),
            key_log: Some(key_log.clone()),
            ..ClientSettings::default()
        };
        let above = Client::new(settings, Surroundings::Real).map_err(|why| why.to_string())?;
        Ok(Self { above, trust, key_log, protocols, within: Rc::default(), zero_checksum: true })
    }

    /// Sets whether a transport above DTLS omits its own checksum if the peer agrees (RFC 9653).
    #[must_use]
    pub fn with_zero_checksum(self, zero_checksum: bool) -> Self {
        Self { zero_checksum, ..self }
    }

    /// Returns the TLS client for sessions with one stream.
    pub(crate) fn tls(&self) -> Client {
        self.above.clone()
    }

    /// Returns the TLS configuration for a transport that encrypts its packets itself. `name` is the name that the
    /// server's certificate must have.
    pub(crate) fn within(&self, name: &str) -> Result<HostTls, String> {
        let client = match self.within.get() {
            Some(client) => client.clone(),
            None => {
                let settings = ClientSettings {
                    trust: self.trust.clone(),
                    versions: Versions::Only13,
                    early_data: self.protocols.early_data,
                    protocols: self.protocols.within.clone(),
                    key_log: Some(self.key_log.clone()),
                    ..ClientSettings::default()
                };
                let client = Client::new(settings, Surroundings::Real).map_err(|why| why.to_string())?;
                self.within.get_or_init(|| client).clone()
            }
        };
        let name = name.trim_matches(['[', ']']).to_owned();
        Ok(HostTls { surroundings: Surroundings::Real, client: Some((client, name)), server: None })
    }

    /// Returns the DTLS configuration of the client.
    pub(crate) fn dtls(&self) -> Result<anabranch_dtls::HostConfig, HostConfigError> {
        let settings = DtlsSettings {
            trust: Some(self.trust.clone()),
            key_log: Some(self.key_log.clone()),
            ..DtlsSettings::default()
        };
        anabranch_dtls::HostConfig::new(settings, Surroundings::Real)
    }
}
