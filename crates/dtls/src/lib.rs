//! DTLS under an engine of datagrams: SCTP over DTLS (RFC 8261), with DTLS 1.3 (RFC 9147) or 1.2 (RFC 6347): the handshake by `dimpl`,
//! all that follows it by this crate.
//!
//! A layer below a transport's engine, where TLS is one above it: each packet of the engine becomes one record in one UDP
//! datagram. [`DtlsLayer`] stands around a world's socket; the same code runs on a real network and in virtual time, and
//! where randomness and the time of day come from is an argument ([`Surroundings`](anabranch_tls::Surroundings)).
//!
//! - `layer`: packets in and out
//! - `peers`: connections by their addresses, what is due, limits; and `entrance`, whose handshake begins
//! - `hello`, `cookie`: the first answer to a client, for which nothing is kept
//! - `connection`: one connection, from its handshake to its end
//! - `records`: what is sealed, and what goes on beneath data after the handshake
//! - `outbox`: datagrams on their way out
//! - `ends`: what both roles are set to: who we are, whom we believe, what is spoken
//! - `provider`: the cryptography that the library is handed
//! - `secrets`: what it lets us see, and what follows from that
//! - `simulation`: what of it is another in virtual time
//! - `pair`: two ends of an experiment that know each other
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

/// The UDP port of a server that names none. None is registered for SCTP over DTLS; here decoders look for DTLS.
pub const PORT: u16 = 4433;
