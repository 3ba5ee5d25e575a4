//! The client and the server of an experiment. The size of the server's certificate chain can be chosen, and the client
//! trusts the authority that signed it. The pair also holds the tickets of earlier sessions, and the secrets of all
//! sessions for packet decoders.
//!
//! In a simulation and on a real network, both ends use TLS 1.3 with the same cipher suite, so the handshakes have the
//! same size. Only the source of the secrets differs.

use crate::rejection::CertificateRejection;
use crate::server::SendableServer;
use crate::{Client, ClientSettings, Identity, Server, ServerSettings, Surroundings, Trust, Versions, fault};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, Connection, KeyLog, NamedGroup};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// How the client's sessions begin: with full handshakes, by resumption, or by resumption with early data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ResumptionMode {
    /// The client has no tickets, so every session begins with a full handshake.
    #[default]
    Never,
    /// The client has tickets from earlier sessions. Each new session resumes an earlier one (RFC 8446 §2.2) until the
    /// tickets are used up.
    Before,
    /// Sessions are resumed as in `Before`. The client also sends its first requests as early data with the handshake
    /// (RFC 8446 §2.3).
    Early,
}

/// The key exchange of the sessions. The client always offers both, as browsers do; the server selects this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyExchange {
    /// X25519MLKEM768 (draft-ietf-tls-ecdhe-mlkem).
    #[default]
    X25519MlKem768,
    /// X25519 (RFC 7748).
    X25519,
}

impl KeyExchange {
    /// Returns the name of the group as in the registry of TLS.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519MlKem768 => "X25519MLKEM768",
            Self::X25519 => "X25519",
        }
    }
}

/// What the handshakes of a pair have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairSettings {
    /// The size of the server's certificate chain in bytes.
    pub chain: usize,
    /// How the client's sessions begin.
    pub resumption: ResumptionMode,
    /// The key exchange that the server selects.
    pub key_exchange: KeyExchange,
}

impl PairSettings {
    /// The algorithms of all sessions but the key exchange, as text.
    pub const CIPHER: &'static str = "TLS 1.3, AES-128-GCM, Ed25519";
}

impl Default for PairSettings {
    fn default() -> Self {
        Self { chain: 3_000, resumption: ResumptionMode::Never, key_exchange: KeyExchange::default() }
    }
}

/// The TLS client and TLS server of one host, each with its certificates.
#[derive(Clone, Debug)]
pub struct HostTls {
    /// The source of randomness and time for both ends.
    pub surroundings: Surroundings,
    /// The TLS client, and the name that the server's certificate must have; `None` if the host does not connect.
    pub client: Option<(Client, String)>,
    /// The TLS server; `None` if the host does not accept connections.
    pub server: Option<Server>,
}

/// A client and a server with matching certificates.
#[derive(Clone)]
pub struct Pair {
    client: Arc<ClientConfig>,
    rejection: CertificateRejection,
    server: SendableServer,
    secrets: Arc<Secrets>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl Pair {
    /// The server's name in the certificate.
    pub const NAME: &'static str = "server.test";

    /// Creates a pair. Both ends support the application protocols `protocols` (ALPN, RFC 7301). `before` is the source
    /// of randomness and time for the sessions that obtain tickets before the experiment.
    ///
    /// # Errors
    /// A one-line text that says why the pair could not be created.
    pub fn new(settings: PairSettings, protocols: &[&str], before: &Surroundings) -> Result<Self, String> {
        Self::with_resumption(settings, protocols, before, &|client, server| {
            obtain_tickets(client, server).map_err(|error| fault::line(&error))
        })
    }

    /// Like [`new`](Self::new), but calls `visit` to run the sessions that obtain tickets, one session per call. A
    /// transport that includes TLS (QUIC) needs this, because [`new`](Self::new) runs TLS in memory.
    ///
    /// # Errors
    /// A one-line text that says why the pair could not be created.
    pub fn with_resumption(
        settings: PairSettings,
        protocols: &[&str],
        before: &Surroundings,
        visit: &dyn Fn(&Client, &Server) -> Result<(), String>,
    ) -> Result<Self, String> {
        let PairSettings { chain, resumption, key_exchange } = settings;
        let early_data = resumption == ResumptionMode::Early;
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let (identity, root) = Identity::simulated(Self::NAME, chain).map_err(|error| error.to_string())?;
        let server_settings = ServerSettings {
            versions: Versions::Only13,
            protocols: protocols.clone(),
            early_data,
            ..ServerSettings::of(identity)
        };
        let server = Server::with(server_settings, before.clone(), provider(before, key_exchange))?;
        let secrets = Arc::new(Secrets::default());
        let client_settings = ClientSettings {
            trust: Trust::Authorities(vec![root]),
            versions: Versions::Only13,
            protocols,
            resumes: resumption != ResumptionMode::Never,
            early_data,
            key_log: Some(secrets.clone()),
        };
        let client =
            Client::with(client_settings, before.clone(), provider(before, KeyExchange::X25519MlKem768));
        let client = client.map_err(|error| error.to_string())?;
        if resumption != ResumptionMode::Never {
            // Each session gives the client two tickets, and each ticket is used for one session (RFC 8446 §C.4).
            for _ in 0..KEPT / 2 {
                visit(&client, &server)?;
            }
            secrets.clear();
        }
        Ok(Self { client: client.config, rejection: client.rejection, server: server.shared(), secrets })
    }

    /// Returns the client with this source of randomness and time.
    #[must_use]
    pub fn client(&self, surroundings: Surroundings) -> Client {
        Client { config: self.client.clone(), rejection: self.rejection.clone(), surroundings }
    }

    /// Returns the server with this source of randomness and time.
    #[must_use]
    pub fn server(&self, surroundings: Surroundings) -> Server {
        self.server.clone().within(surroundings)
    }

    /// Returns the client and the server together, for a host whose transport has built-in TLS.
    #[must_use]
    pub fn host_tls(&self, surroundings: &Surroundings) -> HostTls {
        HostTls {
            surroundings: surroundings.clone(),
            client: Some((self.client(surroundings.clone()), Self::NAME.to_owned())),
            server: Some(self.server(surroundings.clone())),
        }
    }

    /// Returns the secrets of all sessions that the client has begun so far, one per line. The format is the NSS key
    /// log, which packet decoders read.
    #[must_use]
    pub fn secrets(&self) -> String {
        self.secrets.text()
    }
}

/// Returns the cryptographic provider for `surroundings`, reduced to the algorithms of [`PairSettings`].
fn provider(surroundings: &Surroundings, key_exchange: KeyExchange) -> CryptoProvider {
    let mut provider = surroundings.provider();
    provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider.kx_groups.retain(|group| group.name() == NamedGroup::X25519);
    if key_exchange == KeyExchange::X25519MlKem768 {
        provider.kx_groups.insert(0, surroundings.hybrid());
    }
    provider
}

/// Runs one handshake between the client and the server in memory, so that the client gets tickets.
fn obtain_tickets(client: &Client, server: &Server) -> Result<(), rustls::Error> {
    let name = ServerName::try_from(Pair::NAME).map_err(|_| rustls::Error::General("no name".to_owned()))?;
    let mut near = client.begin(name)?.into();
    let mut far = server.begin()?.into();
    // RFC 8446 §2, §4.6.1: the client's second flight completes the handshake. Then the server sends its tickets.
    for _ in 0..ROUND_TRIPS {
        pass((&client.surroundings, &mut near), (&server.surroundings, &mut far))?;
        pass((&server.surroundings, &mut far), (&client.surroundings, &mut near))?;
    }
    Ok(())
}

/// Moves all pending TLS records of `from` to `to`, which processes the records.
fn pass(
    (here, from): (&Surroundings, &mut Connection),
    (there, to): (&Surroundings, &mut Connection),
) -> Result<(), rustls::Error> {
    let mut sealed = Vec::new();
    here.within(|| while from.wants_write() && from.write_tls(&mut sealed).is_ok() {});
    let mut unread = &sealed[..];
    there.within(|| {
        while !unread.is_empty() && to.read_tls(&mut unread).is_ok() {
            to.process_new_packets()?;
        }
        Ok(())
    })
}

/// The number of tickets that a client keeps per server: rustls' default, and about the number that browsers keep.
const KEPT: usize = 8;
/// The number of round trips after which the handshake is complete and the tickets have arrived.
const ROUND_TRIPS: usize = 3;

/// The secrets of TLS sessions as text, one secret per line, in the order in which the secrets were created.
#[derive(Debug, Default)]
pub struct Secrets(Mutex<String>);

impl Secrets {
    /// Returns all secrets that were created so far, one per line.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hex = |text: &mut String, bytes: &[u8]| {
            bytes.iter().for_each(|byte| {
                let _ = write!(text, "{byte:02x}");
            });
        };
        text.push_str(label);
        text.push(' ');
        hex(&mut text, client_random);
        text.push(' ');
        hex(&mut text, secret);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;
    use anabranch_base::{Instant, Rng};

    fn simulated() -> Surroundings {
        Surroundings::Simulated(Simulation::new(Rng::new(1), || Instant::from_millis(5)))
    }

    fn meets(pair: &Pair, surroundings: &Surroundings) -> Result<(), rustls::Error> {
        obtain_tickets(&pair.client(surroundings.clone()), &pair.server(surroundings.clone()))
    }

    #[test]
    fn a_simulated_pair_fails_on_a_real_network() {
        let pair = |before: &Surroundings| {
            let settings = PairSettings { resumption: ResumptionMode::Before, ..PairSettings::default() };
            Pair::new(settings, &["h2"], before).expect("a pair")
        };
        for (before, then, meet) in [
            (simulated(), simulated(), true),
            (Surroundings::Real, Surroundings::Real, true),
            (simulated(), Surroundings::Real, false),
        ] {
            assert_eq!(meets(&pair(&before), &then).is_ok(), meet, "{before:?} {then:?}");
        }
    }

    #[test]
    fn the_secrets_of_each_session_are_there_once() {
        let here = simulated();
        let pair = Pair::new(PairSettings::default(), &["http/1.1"], &here).expect("a pair");
        assert_eq!(pair.secrets(), "", "of what was before nothing is said");
        for sessions in 1..=2 {
            meets(&pair, &here).expect("met");
            let text = pair.secrets();
            assert_eq!(text.matches("CLIENT_TRAFFIC_SECRET_0 ").count(), sessions, "{text}");
            assert!(text.lines().all(|line| line.split(' ').count() == 3), "{text}");
        }
    }
}
