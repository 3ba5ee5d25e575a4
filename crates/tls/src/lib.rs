//! TLS over a transport's byte stream, based on `rustls`: RFC 8446 (TLS 1.3), and RFC 5246 with RFC 7627 (TLS 1.2).
//!
//! This crate is a layer, not a transport. [`TlsConnector`] and [`TlsListener`] wrap the connector and the listener of
//! any transport whose sessions have one stream. Their sessions also implement
//! [`Session`](anabranch_transport::Session). The same code runs on a real network and in a simulation, because the
//! sources of randomness and time are an argument ([`Surroundings`]).
//!
//! - `session`: a session over TLS and its stream, with handshake, records and closing
//! - `connector`: opens and accepts sessions
//! - `client`, `server`: the settings of a client and of a server
//! - `identity`: certificates and keys, loaded from files or generated
//! - `names`: checks whether a certificate is for a host
//! - `secret_file`: reads files that hold secrets, after a check of their permissions
//! - `trust`: the certificates that a client trusts
//! - `rejection`: the reason why a client refused a certificate
//! - `simulation`: the source of secrets in a simulation, which fails outside a simulation
//! - `scope`: holds random numbers and the clock while a call in a simulation runs
//! - `signatures`: verifies signatures in simulations, each of them once
//! - `placeholder`: a cipher for simulations that costs almost no time
//! - `hybrid`: the key exchange X25519MLKEM768
//! - `host`: wraps the host of a transport, so that each of the transport's sessions carries TLS
//! - `pair`: the client and server of an experiment, with matching certificates, and the secrets of their sessions
//! - `fault`: converts errors to one-line messages for people
//!
//! # Randomness and time
//!
//! A `Surroundings` value says where this crate gets random numbers and the time of day. TLS, however, needs them
//! inside calls that have no parameter for this value. In a simulation, each such call therefore runs within a scope
//! that holds the random number generator and the clock. The cryptographic provider of simulations uses this scope, and
//! fails outside a scope.
//!
//! This provider is ring's provider with another random source and another key exchange. Certificates of simulations
//! have fixed keys, and the caller chooses the size of the certificate chain.
//!
//! # Relation to other crates
//!
//! `TlsHost` wraps a whole `Host`, so any transport whose sessions have one stream can use TLS. `Pair` has the
//! configurations of client and server, the tickets of earlier sessions, and the secrets for packet captures. An
//! engine's trace counts the bytes of TLS records, and not the bytes that the program wrote. Therefore `TlsHost`
//! records which bytes of the program are in which TLS record (`transport::RecordMap`). The laboratory uses this map to
//! find the causes of delays.

mod client;
mod connector;
mod fault;
mod host;
mod hybrid;
mod identity;
mod names;
mod pair;
mod placeholder;
mod rejection;
mod scope;
mod secret_file;
mod server;
mod session;
mod signatures;
mod simulation;
mod trust;

pub use client::{Client, ClientSettings};
pub use connector::{TlsConnector, TlsListener};
pub use rustls::KeyLog;
pub use rustls::crypto::CryptoProvider;

pub use fault::{ended_by_peer, ended_here};
pub use host::TlsHost;
pub use identity::{Identity, IdentityError};
pub use names::CertificateNames;
pub use pair::{HostTls, KeyExchange, Pair, PairSettings, ResumptionMode, Secrets};
pub use placeholder::PlaceholderKey;
pub use rejection::CertificateRejection;
pub use rustls::pki_types::CertificateDer;
pub use scope::{Encryption, Simulation, draw_seeded};
pub use secret_file::read_secret_file;
pub use server::{SendableServer, Server, ServerSettings};
pub use session::{TlsSession, TlsStream};
pub use simulation::Surroundings;
pub use trust::{CertificateJudge, Fingerprint, Trust, TrustError};

/// The TLS versions that an endpoint supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versions {
    /// TLS 1.3. With peers that do not support it, TLS 1.2 with ECDHE and AEAD.
    #[default]
    From12,
    /// TLS 1.3 only.
    Only13,
}

impl Versions {
    const fn list(self) -> &'static [&'static rustls::SupportedProtocolVersion] {
        const BOTH: &[&rustls::SupportedProtocolVersion] =
            &[&rustls::version::TLS13, &rustls::version::TLS12];
        match self {
            Self::From12 => BOTH,
            Self::Only13 => BOTH.split_at(1).0,
        }
    }
}
