//! QUIC (RFC 9000, RFC 9001, RFC 9002), by `quinn-proto`, as an engine of sessions.
//!
//! A connection is a session; its streams are those that the client begins, both ways, by their order of creation, and apart
//! from them those of one way, which either end begins. The state machine is quinn's; what is here gives it packets, time,
//! randomness and keys as any engine here has them, so that the same code runs on a real network and in virtual time. The
//! window's law may be one of ours ([`window`]).
//!
//! - `config`: the knobs
//! - `endpoint`: the engine: connections, packets, deadlines
//! - `host`: a host's QUIC in a world
//! - `identifiers`: connection ids, keys and the time of tokens, from a seed
//! - `sessions`: what its events and commands mean to sessions
//! - `window`: a controller of ours in quinn's place

mod config;
mod endpoint;
mod host;
mod identifiers;
mod sessions;
mod window;

pub use config::{Cc, Config, PROFILES};
pub use endpoint::{Endpoint, Event, Id, Start};
pub use host::{Ends, QuicConnector, QuicHost, QuicListener, QuicSession, QuicStream, start};
