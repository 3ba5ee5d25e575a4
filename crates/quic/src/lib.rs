//! QUIC (RFC 9000, RFC 9001, RFC 9002), by `quinn-proto`, as an engine of sessions.
//!
//! A connection is a session; its streams are those that the client begins, both ways, by their order of creation, and apart
//! from them those of one way, which either end begins. The state machine is quinn's; what is here gives it packets, time,
//! randomness and keys as any engine here has them, so that the same code runs on a real network and in virtual time. The
//! window's law may be one of ours (`window`).
//!
//! What stays quinn's own, whichever law the window follows: which packets are lost and when a timer runs out (RFC 9002
//! §6), the pacer, which cannot be turned off, acknowledgements (one for two packets, or after 25 ms), and whether a sender
//! counts as limited by its application. A reduction of the window for a loss that turns out to be none is not undone.
//!
//! - `config`: the knobs
//! - `endpoint`: the engine: connections, packets, deadlines
//! - `frames`: the frames of a packet, to be looked at
//! - `host`: a host's QUIC in a world
//! - `identifiers`: connection ids, keys and the time of tokens, from a seed
//! - `keys`: keys that show what they seal and open
//! - `protocol`: QUIC among the transports
//! - `qlog`: the log of a connection, for tools that draw it
//! - `ranges`: sets of byte ranges
//! - `shards`: several endpoints behind one port, a thread each
//! - `sessions`: what its events and commands mean to sessions
//! - `trace`: the records of all connections, while they are wanted
//! - `visits`: tickets of connections that were before
//! - `watch`: what a connection has under way, and its trace
//! - `window`: a controller of ours in quinn's place
//!
//! # How it is observed
//!
//! quinn tells nobody which bytes are in which packet. So its keys are wrapped: sealing or opening a packet shows its number and its frames
//! (`watch`). The trace and what is not acknowledged follow from that, and from the calls to the congestion controller. Observation steers
//! nothing.
//!
//! TLS is inside QUIC. A host's identity comes with its start (`protocol::Start::ends`). Tickets of QUIC hold what the server
//! granted, so earlier visits of an experiment are connections of QUIC (`visits`). `endpoint/proof` bounds what goes to an address that a
//! peer has moved to, because quinn sends more than RFC 9000 §8.1 permits.

mod config;
mod endpoint;
mod frames;
mod host;
mod identifiers;
mod keys;
mod protocol;
mod qlog;
mod ranges;
mod sessions;
mod shards;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod visits;
mod watch;
mod window;

pub use config::{Cc, Config, PROFILES, Retry, Scheduler};
pub use endpoint::{Endpoint, Event, Figures, Id, Start};
pub use host::{
    Options, QuicConnector, QuicHost, QuicListener, QuicSession, QuicStream, Source, start, start_over,
};
pub use protocol::Quic;
pub use qlog::Logs;
pub use sessions::to_close_reason;
pub use shards::{Shard, Steered};
pub use visits::visit;
