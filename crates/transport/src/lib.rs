//! Binds protocol engines to a world and offers async sessions and streams on them.
//!
//! - [`session`]: the sessions and streams that an application holds
//! - [`connector`]: how an application opens and accepts sessions
//! - [`protocol`], [`capabilities`], [`settings`]: what a transport is, what it can do, and how it
//!   is configured
//! - [`drive`]: the loop that moves packets, time and events between an engine and a world
//! - [`engine`]: the code that sessions on all engines share
//! - [`tcp`], [`sctp`]: the bindings of the two engines; a host has at most one engine of each kind
//! - [`kernel`]: the host's own protocols, in worlds that have them
//! - [`placement`]: maps byte positions of a layer above an engine to those that the engine counts
//!
//! # A transport is a plug-in
//!
//! `Protocol` says what a transport is, without a world: name, address schemes, profiles, knobs, and its capabilities as data. `Runs<W>`
//! starts it in worlds of one kind, and returns a `Host`: connector, listener, trace, totals, the settings in force. The laboratory's list
//! of transports is an argument, never a global.
//!
//! An engine becomes a transport by `SessionEngine`: its commands under common names, and what its events mean. `EngineHost<E>` has
//! sessions, streams, backlogs, waits, idleness and failure once for all engines. Constants of the engine say whether a session is one
//! stream or many, and whether it half-closes.
//!
//! `drive` takes any `Datagrams`, so a layer may stand between engine and network. `AnySession` and related types hide the concrete type, so
//! that code over them is compiled once.

pub mod capabilities;
pub mod connector;
pub mod drive;
pub mod engine;
pub mod erased;
pub mod kernel;
pub mod placement;
pub mod protocol;
pub mod sctp;
pub mod session;
pub mod settings;
mod table;
pub mod tcp;
mod waiters;

pub use anabranch_sctp::Reliability;
pub use capabilities::{Capabilities, Carrier, Streams};
pub use connector::{ConnectError, Connector, ListenError, Listener};
pub use erased::{AnyConnector, AnyListener, AnySession, AnyStream};
pub use placement::{Piece, Placement};
pub use protocol::{Host, Layer, Protocol, Runs, Scheme, Server};
pub use session::{CloseReason, Delivery, ONE_WAY, OpenError, Session, Stream, StreamId};
pub use settings::{Knob, Settings};
