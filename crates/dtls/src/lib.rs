//! DTLS below a datagram engine: SCTP over DTLS (RFC 8261), with DTLS 1.3 (RFC 9147) or 1.2 (RFC 6347). `dimpl`
//! implements the handshake, this crate everything after it.
//!
//! TLS is a layer above a transport; DTLS is a layer below its engine. Each packet of the engine becomes one record in
//! one UDP datagram. [`DtlsLayer`] wraps a world's socket. The same code runs on a real network and in virtual time; the
//! sources of randomness and of the time of day are an argument ([`Surroundings`](anabranch_tls::Surroundings)).
//!
//! - `layer`: packets in both directions
//! - `peers`: connections by address, their deadlines and limits; and `entrance`, which decides whose handshake begins
//! - `hello`, `cookie`: the stateless first answer to a client
//! - `connection`: one connection, from its handshake to its end
//! - `records`: sealing and opening records, and the protocol after the handshake
//! - `outbox`: outgoing datagrams
//! - `ends`: the settings of both roles: certificates, trust, versions
//! - `provider`: the cryptographic provider for the library
//! - `secrets`: observes the library's secrets through its HMAC calls
//! - `simulation`: the provider for virtual time
//! - `pair`: the two ends of an experiment, with matching certificates
//!
//! # How it works
//!
//! A connection belongs to one peer, found by address and UDP port, and all associations with that peer share it. The host that begins an
//! association is the client. Its INIT waits in the engine until `Engine::handle_peer` reports that the handshake is done. So the answer
//! to the INIT measures the round trip of SCTP alone, and the trace knows where DTLS ends (`TraceEvent::Secured`). The engine hears in the
//! same way when a peer is lost or not trusted. An association over DTLS has one path, and the addresses of its ends do not change.
//!
//! The handshake is the library's, which is dropped as soon as the handshake is over; `records` does everything after it. No nonce is used
//! twice with one key: the head of `records.rs` says why. A hello without a cookie leaves nothing behind, except 64 that cannot be answered
//! otherwise. At most 512 handshakes are open.
//!
//! It is a crate of its own because only here may `dimpl` and its cryptography be used. Identities and trust are those of `tls`.

mod connection;
mod cookie;
mod ends;
mod hello;
mod layer;
mod outbox;
mod pair;
mod peers;
mod provider;
mod records;
mod secrets;
mod simulation;

pub use ends::{Ends, EndsError, Settings, Version};
pub use layer::DtlsLayer;
pub use pair::Pair;

/// The default UDP port of a server. None is registered for SCTP over DTLS; packet decoders expect DTLS on this one.
pub const PORT: u16 = 4433;
