//! A session engine for QUIC (RFC 9000, RFC 9001, RFC 9002), built on `quinn-proto`.
//!
//! A connection is a session. Its streams are the two-way streams that the client begins, numbered in their order of
//! creation. One-way streams, which either end can begin, are numbered separately. The state machine is quinn's. This
//! crate supplies packets, time, randomness and keys as for the other engines, so that the same code runs on a real
//! network and in virtual time. The congestion controller may be one of ours (`window`).
//!
//! Some behaviour is quinn's with every controller: loss detection and its timers (RFC 9002 §6), and the pacer, which
//! cannot be turned off. So are acknowledgements (one per two packets, or after 25 ms), and the decision whether the
//! application limits the sender. A window reduction for a spurious loss is not undone.
//!
//! - `config`: the knobs
//! - `endpoint`: the engine: connections, packets, deadlines
//! - `frames`: parses the frames of a packet for observation
//! - `host`: a host's QUIC in a world
//! - `identifiers`: connection IDs, keys and the time in tokens, derived from a seed
//! - `keys`: packet protection keys that report what they seal and open
//! - `protocol`: QUIC as an entry in lists of transports
//! - `qlog`: the log of a connection in the format of visualization tools
//! - `ranges`: sets of byte ranges
//! - `shards`: several endpoints behind one port, one thread each
//! - `sessions`: maps events and commands to sessions
//! - `trace`: the trace records of all connections
//! - `visits`: earlier connections that leave resumption tickets
//! - `watch`: tracks the data in flight of a connection, and traces it
//! - `window`: adapts our congestion controllers to quinn's interface
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
