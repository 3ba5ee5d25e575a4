//! The host's SCTP instance: local ports, listeners, associations, the five verbs.
//!
//! Home of RFC 9260 §11.1 (what the application may ask).

use crate::config::Config;
use crate::error::{AssociateError, ListenError, PrimaryError, RecvError, SendError};
use crate::event::Event;
use crate::stats::{AssociationInfo, AssociationStats, Totals};
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Batch, Engine, Instant, Packet, Rng};
use std::net::{IpAddr, SocketAddr};

/// Names an association of one endpoint; never used again after it has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// What to ask of a new association (RFC 9260 §11.1.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Associate {
    /// Known addresses of the peer, the first becomes the primary path. The
    /// port is the UDP encapsulation port (RFC 6951), 0 for none.
    pub peer: Vec<SocketAddr>,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The local SCTP port; `None` takes a free ephemeral one.
    pub local_port: Option<u16>,
    /// Streams to ask for in both directions; `None` takes the configuration's.
    pub streams: Option<u16>,
}

impl Associate {
    /// An association with `peer_port` at one address, the rest by default.
    #[must_use]
    pub fn to(peer: SocketAddr, peer_port: u16) -> Self {
        Self { peer: vec![peer], peer_port, local_port: None, streams: None }
    }
}

/// How a message is to be sent (RFC 9260 §11.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// The stream.
    pub stream: u16,
    /// Payload protocol identifier, passed through to the peer.
    pub ppid: u32,
    /// Deliver without regard to the order of the stream.
    pub unordered: bool,
    /// Ask the peer to acknowledge at once (RFC 7053).
    pub immediate: bool,
}

/// What a `recv` has put into the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Bytes written to the buffer (at least 1, unless the buffer is empty).
    pub bytes: usize,
    /// Payload protocol identifier of the message.
    pub ppid: u32,
    /// The message ends here.
    pub end_of_message: bool,
    /// It was sent unordered.
    pub unordered: bool,
}

/// A host's SCTP instance (see the crate's documentation).
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    addresses: Vec<SocketAddr>,
}

impl Endpoint {
    /// An endpoint on `addresses` (ports: the UDP encapsulation port, or 0).
    /// All randomness comes from `rng`.
    #[must_use]
    pub fn new(config: Config, addresses: Vec<SocketAddr>, rng: Rng) -> Self {
        let _ = rng;
        Self { config, addresses }
    }

    /// Tells the largest IP packet that the interface of a local address takes (1500 until told).
    pub fn set_mtu(&mut self, address: IpAddr, mtu: u32) {
        let _ = (address, mtu);
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The local addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts associations on `port`: each becomes an `Event::Accepted`.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, port: u16) -> Result<(), ListenError> {
        let _ = port;
        Ok(())
    }

    /// Accepts no more associations on `port`; the present ones go on.
    pub fn close_listener(&mut self, port: u16) {
        let _ = port;
    }

    /// Begins an association. `Event::Established` or `Event::Closed` follows.
    /// Messages can be sent at once: they wait for the handshake.
    ///
    /// # Errors
    /// [`AssociateError`].
    pub fn associate(&mut self, now: Instant, ask: Associate) -> Result<AssociationId, AssociateError> {
        let _ = (now, ask);
        Err(AssociateError::NoRoute)
    }

    /// Takes one whole message into the send buffer.
    ///
    /// # Errors
    /// [`SendError`]; the message was not taken.
    pub fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Message,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let _ = (now, id, message, payload);
        Err(SendError::Unknown)
    }

    /// Reads from a stream: at most the rest of one message a call. `None`
    /// when there is nothing now.
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        buffer: &mut [u8],
    ) -> Result<Option<Received>, RecvError> {
        let _ = (now, id, stream, buffer);
        Err(RecvError::Unknown)
    }

    /// Closes gracefully: what was sent is delivered first. `Event::Closed` follows.
    pub fn shutdown(&mut self, now: Instant, id: AssociationId) {
        let _ = (now, id);
    }

    /// Closes at once with an ABORT. `Event::Closed` follows.
    pub fn abort(&mut self, now: Instant, id: AssociationId) {
        let _ = (now, id);
    }

    /// Forgets an ended association together with what was not read of it
    /// (aborts it if it has not ended).
    pub fn release(&mut self, now: Instant, id: AssociationId) {
        let _ = (now, id);
    }

    /// Room in the send buffer, bytes.
    #[must_use]
    pub fn writable_bytes(&self, id: AssociationId) -> usize {
        let _ = id;
        0
    }

    /// The largest message that is not fragmented, bytes.
    #[must_use]
    pub fn fragment_size(&self, id: AssociationId) -> usize {
        let _ = id;
        0
    }

    /// Bytes of `stream` that a `recv` would return now.
    #[must_use]
    pub fn readable_bytes(&self, id: AssociationId, stream: u16) -> usize {
        let _ = (id, stream);
        0
    }

    /// Makes the path with this index the primary (RFC 9260 §11.1.3).
    ///
    /// # Errors
    /// [`PrimaryError`].
    pub fn set_primary(&mut self, now: Instant, id: AssociationId, path: usize) -> Result<(), PrimaryError> {
        let _ = (now, id, path);
        Err(PrimaryError::Unknown)
    }

    /// The association as it stands.
    #[must_use]
    pub fn info(&self, id: AssociationId) -> Option<AssociationInfo> {
        let _ = id;
        None
    }

    /// What the association has done.
    #[must_use]
    pub fn stats(&self, id: AssociationId) -> Option<AssociationStats> {
        let _ = id;
        None
    }

    /// What all associations have done, ended ones included.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals::default()
    }

    /// The `connection` of this association's trace records: the initiator's port.
    #[must_use]
    pub fn trace_key(&self, id: AssociationId) -> Option<u64> {
        let _ = id;
        None
    }
}

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        let _ = (now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut Batch) -> bool {
        let _ = (now, out);
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn set_tracing(&mut self, on: bool) {
        let _ = on;
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        Vec::new()
    }
}
