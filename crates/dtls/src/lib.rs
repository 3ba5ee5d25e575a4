//! DTLS below a datagram engine: SCTP over DTLS (RFC 8261), with DTLS 1.3 (RFC 9147) or DTLS 1.2 (RFC 6347). The
//! library `dimpl` implements the handshake, and this crate implements everything after the handshake.
//!
//! TLS is a layer above a transport, whereas DTLS is a layer below the transport's engine. Each packet of the engine
//! becomes one record in one UDP datagram. [`DtlsLayer`] wraps a socket of a `World`. The same code runs on a real
//! network and in a simulation, because the sources of randomness and of the time of day are an argument
//! ([`Surroundings`](anabranch_tls::Surroundings)).
//!
//! - `layer`: converts packets to datagrams and back
//! - `peers`: connections by address, with their deadlines and limits; its submodule `handshake_limiter` decides which
//!   handshakes begin
//! - `hello`, `cookie`: the stateless first answer to a client
//! - `proof`: the limit on bytes sent to a client that has not returned a cookie
//! - `connection`: one connection, from its handshake to its end
//! - `records`: encrypts and decrypts records, and implements the protocol after the handshake
//! - `outbox`: the queue of outgoing datagrams
//! - `host_config`: the settings of a host as client and server: certificates, trust, versions
//! - `provider`: the cryptographic provider for dimpl
//! - `secrets`: observes dimpl's secrets through its HMAC calls
//! - `simulation`: the cryptographic provider of simulations
//! - `signatures`: signatures of simulations that need not be verified again
//! - `pair`: the client and server of an experiment, with matching certificates
//!
//! # How it works
//!
//! A DTLS connection belongs to one peer, which is identified by its address and UDP port. All associations with that
//! peer share the connection. The host that begins an association is the DTLS client. Its INIT waits in the engine
//! until `Engine::handle_peer` reports that the handshake is done. Therefore the answer to the INIT measures the
//! round-trip time of SCTP alone, and the trace shows the end of the DTLS handshake (`TraceEvent::Secured`).
//!
//! `Engine::handle_peer` also reports that a peer is lost or not trusted. An association over DTLS has one path, and
//! the addresses of its ends do not change.
//!
//! dimpl's state is dropped as soon as the handshake is done; `records` does everything after the handshake. No nonce
//! is used twice with one key; the documentation of `records` explains why. The server answers a ClientHello without a
//! cookie by asking for a cookie, and keeps no state if possible. If it must keep state, it does so for at most 64 such
//! ClientHellos at a time. At most 512 handshakes with clients that have returned a cookie are in progress at a time.
//!
//! DTLS has its own crate, so that no other crate depends on `dimpl` and its cryptography. Identities and trust come
//! from the `tls` crate.

mod aead;
mod connection;
mod cookie;
mod hello;
mod host_config;
mod layer;
mod outbox;
mod pair;
mod peers;
mod proof;
mod provider;
mod records;
mod secrets;
mod signatures;
mod simulation;

pub use host_config::{HostConfig, HostConfigError, Settings, Version};
pub use layer::DtlsLayer;
pub use pair::Pair;

/// The default UDP port of a server. No port is registered for SCTP over DTLS, and packet decoders expect DTLS on this
/// port.
pub const PORT: u16 = 4433;
