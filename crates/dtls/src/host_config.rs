//! The settings of a host as a DTLS client and as a DTLS server: certificates, trust and versions.

use crate::hello::ServerParameters;
use crate::{provider, simulation};
use anabranch_base::time::Duration;
use anabranch_tls::{CertificateJudge, Identity, IdentityError, KeyLog, Surroundings, Trust, TrustError};
use dimpl::crypto::CryptoProvider;
use dimpl::{Config, Dtls, DtlsCertificate};
use ring::rand::{SecureRandom, SystemRandom};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The DTLS versions that an endpoint supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Version {
    /// DTLS 1.3, and DTLS 1.2 with peers that do not support 1.3.
    #[default]
    From12,
    /// DTLS 1.2 only (RFC 6347).
    Only12,
    /// DTLS 1.3 only (RFC 9147).
    Only13,
}

impl Version {
    /// Returns the maximum number of bytes that a record adds to a packet.
    #[must_use]
    pub const fn overhead(self) -> u32 {
        match self {
            // RFC 9147 §4: the headers that this crate sends have five bytes. RFC 8446 §5.2: the content type has one
            // byte. The tag of AES-GCM has 16 bytes.
            Self::Only13 => 5 + 1 + 16,
            // RFC 6347 §4.1: the header has 13 bytes. RFC 5288 §3: the explicit nonce has 8 bytes. The tag has 16
            // bytes.
            Self::Only12 | Self::From12 => 13 + 8 + 16,
        }
    }
}

/// The DTLS settings of a host.
#[derive(Debug, Default)]
pub struct Settings {
    /// The DTLS versions that the host supports.
    pub version: Version,
    /// The certificate and key that the host presents as a server. With `None`, the host accepts no clients.
    pub identity: Option<Identity>,
    /// The certificates that the host trusts as a client. With `None`, the host connects to no servers.
    pub trust: Option<Trust>,
    /// Receives the secrets of all connections, so that packet decoders can decrypt them.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

/// The reason why a host cannot use DTLS with its settings.
#[derive(Debug, thiserror::Error)]
pub enum HostConfigError {
    /// The host's own certificate or key cannot be used.
    #[error("DTLS needs a certificate and a key of ECDSA P-256 here, and {0}")]
    Identity(String),
    /// The trusted certificates cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// dimpl reported an error.
    #[error("DTLS: {0}")]
    Library(String),
}

/// The checked settings of a host as a DTLS client and as a DTLS server, from which DTLS connections are created.
pub struct HostConfig {
    pub(crate) version: Version,
    pub(crate) surroundings: Surroundings,
    identity: Option<DtlsCertificate>,
    /// A certificate of the client, because the library dimpl requires one. It is never sent.
    client: DtlsCertificate,
    certificate_judge: Option<CertificateJudge>,
    pub(crate) key_log: Option<Arc<dyn KeyLog>>,
    /// The number of records after which a DTLS 1.3 key is changed.
    pub(crate) update_after: u64,
    /// The server's parameters that determine its answer to a first hello.
    pub(crate) parameters: ServerParameters,
    /// The configurations of dimpl by datagram size. Used only on a real network.
    configs: RefCell<BTreeMap<usize, Arc<Config>>>,
}

impl fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConfig").field("version", &self.version).finish_non_exhaustive()
    }
}

impl HostConfig {
    /// Prepares the settings for both roles of a host. `surroundings` is the source of randomness and time.
    ///
    /// # Errors
    /// [`HostConfigError`], with a one-line message.
    pub fn new(settings: Settings, surroundings: Surroundings) -> Result<Self, HostConfigError> {
        let provider = provider::real();
        let identity = settings.identity.as_ref().map(|identity| usable(identity, &provider)).transpose()?;
        let client = match &identity {
            Some(own) => own.clone(),
            None => {
                let wrong = |why: IdentityError| HostConfigError::Library(why.to_string());
                match surroundings {
                    Surroundings::Real => usable(&Identity::self_signed(&[]).map_err(wrong)?, &provider)?,
                    Surroundings::Simulated(_) => {
                        // The client certificate is the same in every simulation, so it is created once per process.
                        static CLIENT: OnceLock<DtlsCertificate> = OnceLock::new();
                        match CLIENT.get() {
                            Some(client) => client.clone(),
                            None => {
                                let made = Identity::simulated_single("client.test", 0).map_err(wrong)?.0;
                                let made = usable(&made, &provider)?;
                                CLIENT.get_or_init(|| made).clone()
                            }
                        }
                    }
                }
            }
        };
        let judge =
            settings.trust.map(|trust| CertificateJudge::new(&trust, surroundings.clone())).transpose()?;
        let versions = match settings.version {
            Version::Only12 => [true, false],
            Version::Only13 => [false, true],
            Version::From12 => [true, true],
        };
        let mut host = Self {
            version: settings.version,
            surroundings,
            identity,
            client,
            certificate_judge: judge,
            key_log: settings.key_log,
            update_after: u64::MAX,
            parameters: ServerParameters { versions, suites: Vec::new(), groups: Vec::new() },
            configs: RefCell::default(),
        };
        let config = host.config(1_200)?;
        host.parameters.suites = config.dtls13_cipher_suites().map(|suite| suite.suite()).collect();
        host.parameters.groups = config.kx_groups().map(|group| group.name()).collect();
        Ok(host)
    }

    /// Changes DTLS 1.3 keys after this number of records. A number above the limit of the cipher has no effect (RFC
    /// 9147 §4.5.3).
    #[must_use]
    pub fn update_keys_after(mut self, records: u64) -> Self {
        self.update_after = records.max(1);
        self
    }

    /// Draws 32 secret random bytes.
    pub(crate) fn secret(&self) -> Result<[u8; 32], HostConfigError> {
        let mut bytes = [0; 32];
        let drawn = match &self.surroundings {
            Surroundings::Real => SystemRandom::new().fill(&mut bytes).is_ok(),
            simulated @ Surroundings::Simulated(_) => {
                simulated.within(|| anabranch_tls::draw_seeded(&mut bytes))
            }
        };
        drawn.then_some(bytes).ok_or_else(|| HostConfigError::Library("there is no randomness".to_owned()))
    }

    /// Returns whether the host accepts DTLS clients.
    pub(crate) fn can_accept(&self) -> bool {
        self.identity.is_some()
    }

    /// Returns whether the host connects to DTLS servers.
    pub(crate) fn can_connect(&self) -> bool {
        self.certificate_judge.is_some()
    }

    /// Verifies the certificate of a server that must have the name `name`.
    pub(crate) fn judge(&self, certificate: &[u8], name: &str) -> Result<(), String> {
        match &self.certificate_judge {
            Some(judge) => judge.verify(certificate, name),
            None => Err("this host has no configuration for clients".to_owned()),
        }
    }

    /// Creates a dimpl connection, as a client or a server, whose handshake datagrams have at most `mtu` bytes. A
    /// server sends larger datagrams if its certificate would otherwise need too many.
    pub(crate) fn begin(
        &self,
        client: bool,
        mtu: usize,
        now: std::time::Instant,
    ) -> Result<Dtls, HostConfigError> {
        let own = if client { &self.client } else { self.identity.as_ref().unwrap_or(&self.client) };
        let sent = if client { 0 } else { own.certificate.len() };
        let config = self
            .config(mtu.max((sent / CERTIFICATE_DATAGRAMS + CERTIFICATE_OVERHEAD).min(LARGEST_DATAGRAM)))?;
        self.surroundings.within(|| {
            let mut dtls = match self.version {
                Version::Only12 => Dtls::new_12(config, own.clone(), now),
                Version::Only13 => Dtls::new_13(config, own.clone(), now),
                Version::From12 => Dtls::new_auto(config, own.clone(), now),
            };
            dtls.set_active(client);
            Ok(dtls)
        })
    }

    /// Returns dimpl's configuration for a connection. In a simulation each connection has its own configuration, which
    /// contains a seed. This seed determines randomness that need not be secret, for example in hellos and timers.
    fn config(&self, mtu: usize) -> Result<Arc<Config>, HostConfigError> {
        if let Some(config) = self.configs.borrow().get(&mtu) {
            return Ok(config.clone());
        }
        let config = Config::builder()
            .mtu(mtu)
            // Servers request no certificates from clients. This setting does not affect clients, which always verify
            // the server's certificate.
            .require_client_certificate(false)
            .use_server_cookie(true)
            .flight_start_rto(Duration::from_secs(1))
            .handshake_timeout(HANDSHAKE);
        let config = match &self.surroundings {
            Surroundings::Real => config.with_crypto_provider(provider::real()),
            Surroundings::Simulated(_) => {
                let mut seed = [0; 8];
                if !self.surroundings.within(|| anabranch_tls::draw_seeded(&mut seed)) {
                    return Err(HostConfigError::Library("there is no randomness".to_owned()));
                }
                config
                    .dangerously_set_rng_seed(u64::from_be_bytes(seed))
                    .with_crypto_provider(simulation::provider(&self.surroundings))
            }
        };
        let build = || config.build();
        let config = self.surroundings.within(|| match &self.surroundings {
            Surroundings::Real => build(),
            Surroundings::Simulated(_) => simulation::configured(build),
        });
        let config = Arc::new(config.map_err(|why| HostConfigError::Library(why.to_string()))?);
        if let Surroundings::Real = self.surroundings {
            self.configs.borrow_mut().insert(mtu, config.clone());
        }
        Ok(config)
    }
}

/// Returns the certificate and key of an identity in the form that dimpl takes, if these are of a supported type.
fn usable(identity: &Identity, provider: &CryptoProvider) -> Result<DtlsCertificate, HostConfigError> {
    let wrong = |what: &str| HostConfigError::Identity(what.to_owned());
    let own = identity.chain.first().ok_or_else(|| wrong("there is no certificate"))?;
    let key = identity.key.secret_der();
    // RFC 8422 §2.2: the server signs with its certificate's key, so the certificate must be for a supported curve.
    dimpl::crypto::cert_named_group(own)
        .map_err(|_| wrong("the certificate is of another kind (RSA, Ed25519)"))?;
    let loaded = provider.key_provider.load_private_key(key);
    loaded.map_err(|_| wrong("the key is of another kind (RSA, Ed25519)"))?;
    Ok(DtlsCertificate { certificate: own.to_vec(), private_key: key.to_vec() })
}

/// The maximum number of datagrams over which a certificate is spread. Each of these datagrams needs a record. dimpl
/// has room for twelve records in a flight of DTLS 1.3, and some records carry other messages.
const CERTIFICATE_DATAGRAMS: usize = 6;
/// The bytes that a handshake datagram may need in addition to its part of the certificate. They hold record headers,
/// and messages that are sent in the same flight before the certificate.
const CERTIFICATE_OVERHEAD: usize = 80;
/// The maximum size of handshake datagrams in bytes, which fit an MTU of 1500 over IPv6.
const LARGEST_DATAGRAM: usize = 1_452;

/// The maximum duration of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
