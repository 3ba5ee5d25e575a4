//! The interface of the crate `sctp-proto`, as far as str0m uses it, with anabranch's engine beneath.
//!
//! `sctp-proto` splits an endpoint, which reads where a packet belongs, from associations, which do the rest. Here each
//! association has an `anabranch_sctp::Endpoint` over datagrams to itself; the endpoint only finds the association
//! of a packet's ports. Names, types and what events mean are `sctp-proto`'s; no line of it is here.

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

/// What a [`Transmit`] carries.
#[derive(Debug)]
#[non_exhaustive]
pub enum Payload {
    /// Packets to be sent.
    RawEncode(Vec<Bytes>),
}

/// Packets to be sent.
#[derive(Debug)]
pub struct Transmit {
    /// When.
    pub now: Instant,
    /// Where to.
    pub remote: SocketAddr,
    /// Never a mark.
    pub ecn: Option<EcnCodepoint>,
    /// From where.
    pub local_ip: Option<IpAddr>,
    /// The packets.
    pub payload: Payload,
}
