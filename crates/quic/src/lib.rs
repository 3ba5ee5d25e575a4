//! A session engine for QUIC (RFC 9000, RFC 9001, RFC 9002), built on `quinn-proto`.
//!
//! A QUIC connection is a session. The streams of the session are the bidirectional streams that the client begins,
//! numbered in the order of their creation; unidirectional streams are numbered separately. The state machine is
//! quinn's. This crate supplies packets, time, randomness and keys to the state machine, so the same code runs on a
//! real network and in a simulation. The congestion controller is quinn's or one of anabranch's (`window`).
//!
//! Some behaviour is quinn's, whichever congestion controller is used:
//! - loss detection and its timers (RFC 9002 §6)
//! - the pacer, which cannot be turned off
//! - acknowledgements: one per two packets, or after 25 ms
//! - the decision whether the application limits the sender
//! - the reaction to a spurious loss: quinn does not undo the window reduction
//!
//! - `config`: the knobs
//! - `endpoint`: the engine: connections, packets, deadlines
//! - `host`: runs the QUIC endpoint of a host in a `World`
//! - `identifiers`: connection IDs, keys and the time in tokens, derived from a seed
//! - `keys`: packet protection keys that report the packets they encrypt and decrypt
//! - `protocol`: QUIC as an entry in lists of transports
//! - `qlog`: the log of a connection in qlog format, which visualization tools read
//! - `ranges`: sets of byte ranges
//! - `resumption`: connections before an experiment, which give the client resumption tickets
//! - `sessions`: implements the session engine with the endpoint's events and commands
//! - `shards`: several endpoints behind one port, one thread each
//! - `trace`: the trace records of all connections
//! - `watch`: tracks the data in flight of a connection, and traces it
//! - `window`: adapts anabranch's congestion controllers to quinn's interface
//!
//! # How connections are observed
//!
//! quinn does not report which stream bytes are in which packet. Therefore `keys` wraps the packet protection keys and
//! so sees the number and the frames of each packet. From these packets and from quinn's calls to the congestion
//! controller, `watch` computes the trace and the unacknowledged bytes. Observation does not influence the protocol.
//!
//! TLS is part of QUIC. A host gets its certificates and trust when it starts (`StartOptions::credentials`). In an
//! experiment, clients may resume sessions with tickets that were fetched earlier. A ticket of QUIC also holds the
//! limits that the server granted, so these tickets are fetched over QUIC (`resumption`). `endpoint/proof` limits the
//! bytes sent to addresses that are not validated, because quinn sends more than RFC 9000 §8.1 permits.

mod config;
mod endpoint;
mod host;
mod identifiers;
mod keys;
mod protocol;
mod qlog;
mod ranges;
mod resumption;
mod sessions;
mod shards;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod watch;
mod window;

pub use anabranch_transport::network::Logs;
pub use config::{Cc, Config, PROFILES, Retry, Scheduler};
pub use endpoint::{ConnectionStats, Endpoint, EndpointOptions, Event, Id};
pub use host::{
    Options, QuicConnector, QuicHost, QuicListener, QuicSession, QuicStream, Source, start, start_over,
};
pub use protocol::Quic;
pub use resumption::obtain_tickets;
pub use sessions::to_close_reason;
pub use shards::{Shard, Steered};
