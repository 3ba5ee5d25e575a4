//! The part of the crate `sctp-proto`'s interface that str0m uses, implemented with anabranch's SCTP engine.
//!
//! In `sctp-proto` an endpoint finds the association of a packet, and associations do the rest. Here each association
//! has its own `anabranch_sctp::Endpoint` over datagrams. Names, types and the meaning of events are those of
//! `sctp-proto`, but the code is not.

mod association;
mod config;
mod endpoint;
mod error;
mod stream;
mod time;

pub use association::{Association, AssociationError, Event};
pub use config::{
    ClientConfig, DEFAULT_SCTP_PORT, EndpointConfig, MAX_SNAP_INIT_BYTES, ServerConfig, TransportConfig,
    generate_snap_token,
};
pub use endpoint::{
    AssociationEvent, AssociationHandle, ConnectError, DatagramEvent, EcnCodepoint, Endpoint, EndpointEvent,
};
pub use error::Error;
pub use stream::{
    Chunks, ErrorCauseCode, PayloadProtocolIdentifier, ReliabilityType, Stream, StreamEvent, StreamId,
    StreamResetError,
};

use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// The contents of a [`Transmit`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Payload {
    /// Encoded SCTP packets.
    RawEncode(Vec<Bytes>),
}

/// Packets to send.
#[derive(Debug)]
pub struct Transmit {
    /// The time of the call that returned them.
    pub now: Instant,
    /// The destination.
    pub remote: SocketAddr,
    /// Always `None`.
    pub ecn: Option<EcnCodepoint>,
    /// The source address; always `None`, which leaves the choice to the caller.
    pub local_ip: Option<IpAddr>,
    pub payload: Payload,
}
