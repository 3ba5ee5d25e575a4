//! A sans-IO SCTP endpoint (RFC 9260) with built-in multi-homing. It has no sockets, clock, threads or source of
//! randomness of its own.
//!
//! [`Endpoint`] is the SCTP instance of one host: any number of local ports, listeners and associations that share one
//! set of local addresses. An endpoint is driven through [`anabranch_base::Engine`]: the caller passes in packets and
//! the time, then takes out packets, events and one deadline. The same calls at the same times produce the same
//! packets.
//!
//! | to | see |
//! |---|---|
//! | use SCTP on tokio, with sockets and a clock | the crate `anabranch-tokio` |
//! | drive the engine yourself | [`Endpoint`], the example below, and `examples/two_endpoints.rs` |
//! | use the socket API of RFC 6458, without sockets of the operating system | [`socket`] |
//! | choose settings | [`config`] |
//!
//! # Extensions
//!
//! | RFC | setting |
//! |---|---|
//! | 3758, 7496: partial reliability | `partial_reliability` |
//! | 4895: authenticated chunks | `auth`, `auth_chunks`, [`Config::shared_keys`] |
//! | 5061: dynamic addresses | `asconf` |
//! | 6525: stream re-configuration | `reconfig` |
//! | 6951: UDP encapsulation | no setting: the UDP port of each address; 0 means no UDP |
//! | 7829: potentially failed paths | `pf_max_retrans`, `primary_switch` |
//! | 8260: interleaving, schedulers | `interleaving`, `scheduler` |
//! | 8899: path MTU by probes | `pmtud` |
//! | 8985, 6937, 9406, 9438: loss recovery and CUBIC | `rack`, `tlp`, `prr`, `hystart`, `cc` |
//! | 9653: zero checksum | `zero_checksum` |
//!
//! # Modules
//!
//! | module | owns |
//! |---|---|
//! | [`config`] | every setting, the profiles, and the source of each value |
//! | [`endpoint`] | demultiplexing, the stateless listener, cookies, and packets that match no association |
//! | `association` | the states of an association, its control chunks, and the only code that builds packets |
//! | `fast_path` | fast code for the two kinds of packets that make up a transfer without loss |
//! | `send` | data to be sent, from the user message to the acknowledgement |
//! | `recv` | received data, from the DATA chunk to the user message |
//! | `path` | each destination address and the state of the path to it |
//! | [`socket`] | the socket API of RFC 6458: sockets, options and notifications |
//!
//! # Driving the engine
//!
//! A program calls `poll_transmit`, `poll_event`, `poll_timeout`, `handle_packet` and `handle_timeout` in a loop.
//! This example runs over a channel of datagrams, such as DTLS provides. No packet is lost and no time passes:
//!
//! ```
//! use anabranch_base::{Engine, Instant, Rng, SendBatch};
//! use anabranch_sctp::{Associate, Endpoint, Event, Message};
//!
//! // The largest datagram is 1200 bytes. Values that must be unpredictable come from the operating system;
//! // with `Rng::new(seed)` a test is repeatable byte for byte.
//! let mut ends = [Endpoint::over_datagrams(1200, Rng::from_os()?), Endpoint::over_datagrams(1200, Rng::from_os()?)];
//! let now = Instant::ZERO;
//! ends[1].listen(5000)?;
//! let id = ends[0].associate(now, Associate::to_port(5000))?;
//! ends[0].send(now, id, Message { stream: 3, ..Message::default() }, b"hello")?;
//!
//! let mut batch = SendBatch::new(1);
//! let mut heard = Vec::new();
//! for turn in 0..20 {
//!     let (from, to) = (turn % 2, 1 - turn % 2);
//!     batch.clear();
//!     while ends[from].poll_transmit(now, &mut batch) {
//!         for packet in batch.packets() {
//!             ends[to].handle_datagram(now, packet.payload);
//!         }
//!         batch.clear();
//!     }
//!     while let Some(event) = ends[to].poll_event() {
//!         if let Event::Readable { id, stream } = event {
//!             let mut buffer = [0; 100];
//!             while let Some(received) = ends[to].recv(now, id, stream, &mut buffer)? {
//!                 heard.extend_from_slice(&buffer[..received.bytes]);
//!             }
//!         }
//!     }
//! }
//! assert_eq!(heard, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Over IP, with any number of addresses, use [`Endpoint::new`] instead of `over_datagrams`. Each packet must then be
//! passed in with its source and destination addresses.
//!
//! # Embedding the engine
//!
//! | need | use |
//! |---|---|
//! | SCTP over DTLS or another channel of datagrams (RFC 8261) | [`Endpoint::over_datagrams`], [`Endpoint::handle_datagram`] |
//! | no checksum over DTLS (RFC 9653) | `zero_checksum=yes` in [`Endpoint::over_datagrams_with`] |
//! | no handshake, with INIT chunks in signalling (draft-hancke-tsvwg-snap) | [`Endpoint::init_chunk`], [`Endpoint::associate_by_init`] |
//! | the buffered amount of a data channel, and its threshold | [`Endpoint::buffered_amount`], [`Endpoint::set_buffered_amount_low`] |
//! | unpredictable random numbers | `Rng::from_os` (feature `os-random`, on by default), `Rng::from_key` on a web page |
//!
//! `interop/str0m` in the repository replaces str0m's SCTP with this engine and runs str0m's own tests.
//!
//! # Compatibility
//!
//! The minimum supported Rust version is 1.90; a minor version of the crate may raise it. The crate builds on any
//! platform that has the standard library. CI builds it for Linux, macOS, Windows, Android, FreeBSD and WebAssembly,
//! and runs its tests on x86-64, i686 and WebAssembly.
//!
//! Enumerations and structures that will grow are `#[non_exhaustive]`. Structures that a program fills in
//! ([`Message`], [`Associate`]) should be written with `..`, as in the examples, because a minor version may add
//! fields. A [`Config`] starts from a profile.
//!
//! # Inside
//!
//! `Association` consists of structures that each own a part of the state in private fields. It passes a call on to the
//! structure that owns the state:
//!
//! - `Paths` has one `Path` for each destination. A `Path` owns all state that differs between destinations. `Paths`
//!   also has the primary path, the path for new data, and the error counter of the association.
//! - `SendHalf` and `RecvHalf` are siblings that never import each other, and write their own chunks.
//! - `Timers` is one list of deadlines.
//! - `ActiveExtensions` stores which extensions were negotiated, with the state and the rules of AUTH, ASCONF,
//!   RE-CONFIG and ECN.
//! - `Identity` has ports and tags, `StreamCounts` the numbers of streams, `Handshake` the establishment, and
//!   `ShutdownProgress` the termination of the association.
//! - `Outbox` has the control chunks that are to be sent.
//!
//! Handlers of events record which packets must be sent, and only `association/outbound/` builds packets. An
//! `OpenPacket` is written into a batch. A `StatelessPacket` is an ABORT, a SHUTDOWN COMPLETE, an INIT ACK, or another
//! answer that needs no association. It is sent even if the association has ended. A module may use its parent. Sibling
//! modules import each other in one direction only, which the repository's `tests/tests/circles.rs` checks.
//!
//! `association/fast_path/` handles the two kinds of packets in a transfer without loss: DATA with the next message in
//! order, and a SACK that only advances the cumulative TSN. [`Endpoint::set_fast_path`] turns the fast path off, and
//! `tests/fast_path.rs` compares the results with and without it.
//!
//! Over a channel of datagrams, both ends have the unspecified address. A path with this address has no IP headers,
//! lists no addresses and accepts none. In all other respects it is a path like any other. INIT chunks from signalling
//! are read by the same rules as INIT chunks in packets.
//!
//! Addresses and ports identify an association. A client that opens six associations to the same port of one server
//! therefore needs six local ports.

mod association;
pub mod config;
mod counters;
pub mod endpoint;
mod error;
mod event;
mod id;
mod message;
mod path;
mod recv;
mod reliability;
mod send;
pub mod socket;
mod stats;
mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use association::extensions::Extensions;
pub use config::{
    ChunkSet, Config, Hmacs, Knob, KnobError, PROFILES, ReconfigRequests, SchedulerKind, SharedKeys,
    SharedKeysError,
};
pub use endpoint::{Associate, Claim, Endpoint, OtherShards, Request, RequestId, Shard};
pub use error::AddressError;
pub use error::KeyError;
pub use error::{
    AssociateError, ListenError, PrimaryError, RecvError, ResetError, SchedulerError, SendError, SnapError,
    SnapSide,
};
pub use event::AddressChange;
pub use event::KeyChange;
pub use event::{CloseReason, Direction, Event, ReconfigResult};
pub use id::AssociationId;
pub use message::{Message, Received};
pub use reliability::{Abandoned, Policy, Reliability};
pub use stats::{
    AssociationInfo, AssociationState, AssociationStats, Interruption, PathChange, PathInfo, PathState,
    PathStats, Totals,
};
pub use streams::position_after_reset;

/// Runs the example in README.md as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
