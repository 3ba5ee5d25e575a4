//! TLS over a transport's byte stream: RFC 8446 (TLS 1.3) and RFC 5246 with RFC 7627 (TLS 1.2), with `rustls`.
//!
//! This is a layer, not a transport. [`TlsConnector`] and [`TlsListener`] wrap those of any transport whose sessions are
//! one stream, and their sessions are again of type [`Session`](anabranch_transport::Session). The same code runs on a
//! real network and in virtual time; the sources of randomness and time are an argument ([`Surroundings`]).
//!
//! - `session`: a session and its stream: handshake, records, closing
//! - `connector`: opening and accepting sessions
//! - `client`, `server`: the settings of each end
//! - `identity`: certificates and keys, from files or generated here; `names`: the hosts that a certificate is for
//! - `secret_file`: reading files that hold secrets, with a check of their permissions
//! - `trust`: which certificates a client trusts; `distrust`: why it refused one
//! - `simulation`: the source of secrets in virtual time, which fails outside of it
//! - `host`: a TLS layer over the whole transport of a host
//! - `pair`: the two ends of an experiment, with matching certificates, and the secrets of their sessions
//! - `fault`: errors as one-line messages for people
//!
//! # Randomness and time
//!
//! Where randomness and the time of day come from is an argument. TLS draws both inside calls that cannot take them as arguments. So each
//! call of a session in virtual time runs within a scope that holds them. The provider of virtual time takes them from that scope, and
//! fails outside it. It is ring's provider with the random source and the key exchange replaced. Certificates of virtual time have fixed Ed25519 keys,
//! and are as large as is asked for.
//!
//! # Where it stands
//!
//! `TlsHost` wraps a whole `Host`, so that any contestant with one stream a session can have TLS. `Pair` is both ends of an experiment, with
//! earlier visits and the secrets for captures. Bytes above TLS are not the bytes that an engine's trace counts. The layer records which
//! piece above lies in which piece below (`transport::Placement`), and attribution follows it.

mod client;
mod connector;
mod distrust;
mod fault;
mod host;
mod identity;
mod names;
mod pair;
mod secret_file;
mod server;
mod session;
mod simulation;
mod trust;

pub use client::{Client, ClientSettings};
pub use connector::{TlsConnector, TlsListener};
pub use rustls::KeyLog;
pub use rustls::crypto::CryptoProvider;

pub use distrust::Distrust;
pub use fault::{ended_by_peer, ended_here};
pub use host::TlsHost;
pub use identity::{Identity, IdentityError};
pub use names::CertificateNames;
pub use pair::{Ends, Pair, Secrets, Visits};
pub use rustls::pki_types::CertificateDer;
pub use secret_file::read_secret_file;
pub use server::{Server, ServerSettings, Shared};
pub use session::{TlsSession, TlsStream};
pub use simulation::{Simulation, Surroundings, draw_seeded};
pub use trust::{Fingerprint, Judge, Trust, TrustError};

/// The protocol versions that an endpoint speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versions {
    /// TLS 1.3, and 1.2 with ECDHE and AEAD for older peers.
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
