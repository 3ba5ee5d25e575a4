//! What the application learns.
//!
//! Home of RFC 9260 §11.2 (notifications from SCTP to its user).

use crate::endpoint::AssociationId;
use std::net::IpAddr;

/// Something the application should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An association that this side asked for is up (RFC 9260 §11.2.4).
    Established {
        /// Which.
        id: AssociationId,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
    },
    /// A peer has set up an association with a listening port.
    Accepted {
        /// Which.
        id: AssociationId,
        /// The listening port.
        port: u16,
        /// The peer's port.
        peer_port: u16,
        /// The address the peer is reached at first.
        peer: IpAddr,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
    },
    /// A stream has something to read. Told once; told again only after a
    /// `recv` on that stream has returned `None`.
    Readable {
        /// Which association.
        id: AssociationId,
        /// Which stream.
        stream: u16,
    },
    /// The send buffer has room again after a `SendError::Full`.
    Writable {
        /// Which.
        id: AssociationId,
    },
    /// A destination address works: verified for the first time, or back after a failure.
    PathUp {
        /// Which association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// A destination address no longer answers (RFC 9260 §8.2).
    PathDown {
        /// Which association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The peer has restarted (RFC 9260 §5.2.4 A): streams begin anew, unsent
    /// and unacknowledged messages are gone.
    Restarted {
        /// Which.
        id: AssociationId,
    },
    /// The peer has asked to close: it takes no further messages, what was
    /// given to `send` before will still be delivered.
    PeerShutdown {
        /// Which.
        id: AssociationId,
    },
    /// The association has ended: its last event. What arrived and was not yet
    /// read can still be read.
    Closed {
        /// Which.
        id: AssociationId,
        /// How it ended.
        reason: CloseReason,
    },
}

/// How an association ended, and whose doing it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// Graceful shutdown: everything was delivered both ways.
    Shutdown,
    /// This side's application aborted it.
    Local,
    /// The peer sent ABORT; the first cause code, when it gave one.
    Aborted(Option<u16>),
    /// The peer did not answer in time (RFC 9260 §8.1, or the handshake was given up).
    Unreachable,
    /// The peer's shutdown took too long (T5-shutdown-guard).
    ShutdownTimeout,
    /// The State Cookie went stale again and again (RFC 9260 §5.2.6).
    StaleCookie,
    /// The peer broke a rule; names the section.
    PeerViolated(&'static str),
    /// The peer cannot do what this side needs.
    PeerIncompatible(&'static str),
}
