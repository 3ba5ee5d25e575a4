//! Binds protocol engines to a `World`, and offers async sessions and streams on them.
//!
//! - [`session`]: the sessions and streams that an application uses
//! - [`connector`]: how an application opens and accepts sessions
//! - [`protocol`], [`capabilities`], [`settings`]: the description of a transport, its features and its configuration
//! - [`drive`]: the loop that moves packets, time and events between an engine and a `World`
//! - [`engine`]: the code that sessions on all engines share
//! - [`tcp`], [`sctp`]: the bindings of the two engines; a host has at most one engine of each kind
//! - [`network`]: what a transport offers to programs on real networks
//! - [`kernel`]: the transport protocols of the operating system's kernel; simulated hosts have none
//! - [`record_map`]: maps byte positions of a layer above an engine to the positions that the engine counts
//!
//! # A transport is a plug-in
//!
//! `Protocol` describes a transport independently of a `World`: name, address schemes, profiles, knobs, and its
//! capabilities as data. `RunnableProtocol<W>` starts the transport in a `World` of type `W` and returns a `Host`. The
//! `Host` gives access to a connector, listeners, the engine's trace, counters (`Totals`), and the knob values in use.
//! The laboratory gets its list of
//! transports as an argument and never from a global variable.
//!
//! An engine becomes a transport by implementing `SessionEngine`. This trait gives the engine's commands common names,
//! and defines the meaning of the engine's events. `EngineHost<E>` implements sessions, streams, backlogs, waiting
//! tasks, idleness and failure for every engine `E`. Constants of the engine say whether a session has one stream or
//! many, and whether it supports half-close.
//!
//! `drive` accepts any `DatagramSocket`, so a layer may stand between the engine and the network. `AnySession`,
//! `AnyConnector` and `AnyListener` hide concrete types, so code that uses them is compiled only once.

pub mod capabilities;
pub mod connector;
pub mod drive;
pub mod engine;
pub mod erased;
pub mod kernel;
pub mod network;
pub mod protocol;
pub mod record_map;
pub mod sctp;
pub mod session;
pub mod settings;
mod table;
pub mod tcp;
mod waiters;

pub use anabranch_sctp::Reliability;
pub use capabilities::{Capabilities, LowerProtocol, Streams};
pub use connector::{ConnectError, Connector, ListenError, Listener};
pub use erased::{AnyConnector, AnyListener, AnySession, AnyStream};
pub use protocol::{Host, Http, Layer, Protocol, RunnableProtocol, Scheme, Server};
pub use record_map::{RecordMap, RecordPosition};
pub use session::{CloseReason, Delivery, ONE_WAY, OpenError, Session, Stream, StreamId};
pub use settings::{Knob, Settings};
