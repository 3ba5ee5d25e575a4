//! What both roles of a host are set to: who it is, whom it believes, which versions it speaks.

use crate::hello::Spoken;
use crate::{provider, simulation};
use anabranch_base::time::Duration;
use anabranch_tls::{Identity, IdentityError, Judge, KeyLog, Surroundings, Trust, TrustError};
use dimpl::crypto::{CryptoProvider, Dtls13CipherSuite};
use dimpl::{Config, Dtls, DtlsCertificate};
use ring::rand::{SecureRandom, SystemRandom};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The versions that an end speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Version {
    /// DTLS 1.3, and 1.2 with peers that have no other.
    #[default]
    From12,
    /// DTLS 1.2 alone (RFC 6347).
    Only12,
    /// DTLS 1.3 alone (RFC 9147).
    Only13,
}

impl Version {
    /// Bytes that a record adds to a packet.
    #[must_use]
    pub const fn overhead(self) -> u32 {
        match self {
            // RFC 9147 §4: a header of five bytes, as sent here; RFC 8446 §5.2: the type; AES-GCM's tag.
            Self::Only13 => 5 + 1 + 16,
            // RFC 6347 §4.1: a header of thirteen; RFC 5288 §3: the explicit nonce; the tag.
            Self::Only12 | Self::From12 => 13 + 8 + 16,
        }
    }
}

/// What a host's DTLS begins with.
#[derive(Debug, Default)]
pub struct Settings {
    /// The versions spoken.
    pub version: Version,
    /// Who it is to clients. `None`: it takes no clients in.
    pub identity: Option<Identity>,
    /// Whom it believes as a client. `None`: it goes to no servers.
    pub trust: Option<Trust>,
    /// Who is told the secrets of connections, for decoders.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

/// Why a host cannot speak DTLS as it is set.
#[derive(Debug, thiserror::Error)]
pub enum EndsError {
    /// The identity is of no use.
    #[error("DTLS needs a certificate and a key of ECDSA P-256 here, and {0}")]
    Identity(String),
    /// Nobody can be believed.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The library refuses.
    #[error("DTLS: {0}")]
    Library(String),
}

/// Both roles of a host, to be begun with each peer.
pub struct Ends {
    pub(crate) version: Version,
    pub(crate) surroundings: Surroundings,
    identity: Option<DtlsCertificate>,
    /// A client shows this one to nobody, but the library wants one.
    client: DtlsCertificate,
    judge: Option<Judge>,
    pub(crate) key_log: Option<Arc<dyn KeyLog>>,
    /// Records of one key after which it is changed.
    pub(crate) update_after: u64,
    /// What its first answer to a hello shows.
    pub(crate) spoken: Spoken,
    /// For each size of datagram; on a real network alone.
    configs: RefCell<BTreeMap<usize, Arc<Config>>>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Ends {
    /// With these settings, in these surroundings.
    ///
    /// # Errors
    /// [`EndsError`]: one line.
    pub fn new(settings: Settings, surroundings: Surroundings) -> Result<Self, EndsError> {
        let provider = provider::real();
        let identity = settings.identity.as_ref().map(|identity| usable(identity, &provider)).transpose()?;
        let client = match &identity {
            Some(own) => own.clone(),
            None => {
                let wrong = |why: IdentityError| EndsError::Library(why.to_string());
                match surroundings {
                    Surroundings::Real => usable(&Identity::self_signed(&[]).map_err(wrong)?, &provider)?,
                    Surroundings::Simulated(_) => {
                        // Always the same.
                        static CLIENT: OnceLock<DtlsCertificate> = OnceLock::new();
                        match CLIENT.get() {
                            Some(client) => client.clone(),
                            None => {
                                let made = Identity::simulated_alone("client.test", 0).map_err(wrong)?.0;
                                let made = usable(&made, &provider)?;
                                CLIENT.get_or_init(|| made).clone()
                            }
                        }
                    }
                }
            }
        };
        let judge = settings.trust.map(|trust| Judge::new(&trust, surroundings.clone())).transpose()?;
        let versions = match settings.version {
            Version::Only12 => [true, false],
            Version::Only13 => [false, true],
            Version::From12 => [true, true],
        };
        let mut ends = Self {
            version: settings.version,
            surroundings,
            identity,
            client,
            judge,
            key_log: settings.key_log,
            update_after: u64::MAX,
            spoken: Spoken { versions, suites: Vec::new(), groups: Vec::new() },
            configs: RefCell::default(),
        };
        let config = ends.config(1_200)?;
        ends.spoken.suites = config.dtls13_cipher_suites().map(|suite| suite.suite()).collect();
        ends.spoken.groups = config.kx_groups().map(|group| group.name()).collect();
        Ok(ends)
    }

    /// Has keys of DTLS 1.3 changed after so many records, if that is earlier than the cipher wants it (RFC 9147 §4.5.3).
    #[must_use]
    pub fn update_keys_after(mut self, records: u64) -> Self {
        self.update_after = records.max(1);
        self
    }

    /// Bytes that nobody else knows.
    pub(crate) fn secret(&self) -> Result<[u8; 32], EndsError> {
        let mut bytes = [0; 32];
        let drawn = match &self.surroundings {
            Surroundings::Real => SystemRandom::new().fill(&mut bytes).is_ok(),
            simulated @ Surroundings::Simulated(_) => {
                simulated.within(|| anabranch_tls::draw_seeded(&mut bytes))
            }
        };
        drawn.then_some(bytes).ok_or_else(|| EndsError::Library("there is no randomness".to_owned()))
    }

    /// Whether it takes clients in.
    pub(crate) fn accepts(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether it goes to servers.
    pub(crate) fn opens(&self) -> bool {
        self.judge.is_some()
    }

    /// Looks at a server's certificate.
    pub(crate) fn judge(&self, certificate: &[u8], name: &str) -> Result<(), String> {
        match &self.judge {
            Some(judge) => judge.judge(certificate, name),
            None => Err("this host goes to no servers".to_owned()),
        }
    }

    /// Begins as a client or as a server, with datagrams of at most `mtu` bytes.
    pub(crate) fn begin(&self, client: bool, mtu: usize, now: std::time::Instant) -> Result<Dtls, EndsError> {
        let config = self.config(mtu)?;
        let own = if client { &self.client } else { self.identity.as_ref().unwrap_or(&self.client) };
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

    /// What one begins with. In virtual time each has its own, because its randomness of no secrecy (the hello's, the
    /// timers') comes by a seed within it.
    fn config(&self, mtu: usize) -> Result<Arc<Config>, EndsError> {
        if let Some(config) = self.configs.borrow().get(&mtu) {
            return Ok(config.clone());
        }
        let config = Config::builder()
            .mtu(mtu)
            // Every server certificate is looked at; servers ask clients for none.
            .require_client_certificate(false)
            .use_server_cookie(true)
            .flight_start_rto(Duration::from_secs(1))
            .handshake_timeout(HANDSHAKE);
        let config = match &self.surroundings {
            Surroundings::Real => config.with_crypto_provider(provider::real()),
            Surroundings::Simulated(_) => {
                let mut seed = [0; 8];
                if !self.surroundings.within(|| anabranch_tls::draw_seeded(&mut seed)) {
                    return Err(EndsError::Library("there is no randomness".to_owned()));
                }
                config
                    .dangerously_set_rng_seed(u64::from_be_bytes(seed))
                    .with_crypto_provider(simulation::provider())
                    .dtls13_cipher_suites(&[Dtls13CipherSuite::AES_128_GCM_SHA256])
            }
        };
        let build = || config.build();
        let config = self.surroundings.within(|| match &self.surroundings {
            Surroundings::Real => build(),
            Surroundings::Simulated(_) => simulation::configured(build),
        });
        let config = Arc::new(config.map_err(|why| EndsError::Library(why.to_string()))?);
        if let Surroundings::Real = self.surroundings {
            self.configs.borrow_mut().insert(mtu, config.clone());
        }
        Ok(config)
    }
}

/// The certificate and key of an identity, if they are of a kind that can be used.
fn usable(identity: &Identity, provider: &CryptoProvider) -> Result<DtlsCertificate, EndsError> {
    let wrong = |what: &str| EndsError::Identity(what.to_owned());
    let own = identity.chain.first().ok_or_else(|| wrong("there is no certificate"))?;
    let key = identity.key.secret_der();
    // RFC 8422 §2.2: the key of the certificate is what signs.
    dimpl::crypto::cert_named_group(own)
        .map_err(|_| wrong("the certificate is of another kind (RSA, Ed25519)"))?;
    let loaded = provider.key_provider.load_private_key(key);
    loaded.map_err(|_| wrong("the key is of another kind (RSA, Ed25519)"))?;
    Ok(DtlsCertificate { certificate: own.to_vec(), private_key: key.to_vec() })
}

/// For how long a handshake may take, in all.
const HANDSHAKE: Duration = Duration::from_secs(30);
