//! Finds the association of a packet by its source address and its ports. The association's engine parses the rest.

use crate::association::Association;
use crate::config::{ClientConfig, EndpointConfig, ServerConfig};
use crate::{Error, Transmit};
use bytes::Bytes;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// Identifies an association of an endpoint.
#[derive(Debug, Copy, Clone, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct AssociationHandle(pub usize);

/// An ECN codepoint (RFC 3168 §5). It is never used, because DTLS does not pass the codepoint on.
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
pub enum EcnCodepoint {
    Ect0 = 0b10,
    Ect1 = 0b01,
    Ce = 0b11,
}

/// A packet for an association.
#[derive(Debug)]
pub struct AssociationEvent {
    pub(crate) now: Instant,
    pub(crate) packet: Bytes,
}

/// Tells an endpoint that an association has ended.
#[derive(Debug)]
pub struct EndpointEvent(());

impl EndpointEvent {
    pub fn drained() -> Self {
        Self(())
    }

    pub fn is_drained(&self) -> bool {
        true
    }
}

/// The result of processing a packet.
#[allow(clippy::large_enum_variant, reason = "as sctp-proto has it")]
pub enum DatagramEvent {
    /// The packet belongs to an existing association.
    AssociationEvent(AssociationEvent),
    /// The packet has created an association.
    NewAssociation(Association),
}

/// The reason why an association cannot be created.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    #[error("invalid remote address: {0}")]
    InvalidRemoteAddress(SocketAddr),
    #[error("SCTP source and destination ports must be nonzero")]
    InvalidSctpPort,
    #[error("there is an association between these ports")]
    TooManyAssociations,
    #[error("SNAP error: {0}")]
    Snap(String),
    #[error("{0}")]
    Engine(Error),
}

/// The peer's UDP address, its SCTP port, and our SCTP port.
type AssociationKey = (SocketAddr, u16, u16);

/// Distributes packets to associations.
pub struct Endpoint {
    config: Arc<EndpointConfig>,
    server: Option<Arc<ServerConfig>>,
    associations: HashMap<AssociationKey, AssociationHandle>,
    next: usize,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("associations", &self.associations).finish_non_exhaustive()
    }
}

impl Endpoint {
    pub fn new(config: Arc<EndpointConfig>, server_config: Option<Arc<ServerConfig>>) -> Self {
        Self { config, server: server_config, associations: HashMap::new(), next: 0 }
    }

    /// Returns `None`, because only associations send packets.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    pub fn set_server_config(&mut self, server_config: Option<Arc<ServerConfig>>) {
        self.server = server_config;
    }

    pub fn handle_event(&mut self, handle: AssociationHandle, _: EndpointEvent) -> Option<AssociationEvent> {
        self.associations.retain(|_, other| *other != handle);
        None
    }

    /// Processes a packet from `remote`.
    pub fn handle(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        _local_ip: Option<IpAddr>,
        _ecn: Option<EcnCodepoint>,
        data: Bytes,
    ) -> Option<(AssociationHandle, DatagramEvent)> {
        let [theirs, ours] = [0, 2].map(|at| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?])));
        let (theirs, ours) = (theirs?, ours?);
        if let Some(&handle) = self.associations.get(&(remote, theirs, ours)) {
            let event = AssociationEvent { now, packet: data };
            return Some((handle, DatagramEvent::AssociationEvent(event)));
        }
        // RFC 9260 §8.5.1 A: the verification tag of a packet with an INIT is 0, and the INIT is its only chunk.
        let server = self.server.as_ref()?;
        let begins = data.get(4..8) == Some(&[0; 4]) && data.get(12) == Some(&1);
        if !begins || ours == 0 || theirs == 0 {
            return None;
        }
        let payload = self.config.get_max_payload_size();
        let mut association = Association::accepting(&server.transport, payload, ours, remote).ok()?;
        association.handle_event(AssociationEvent { now, packet: data });
        let handle = self.add((remote, theirs, ours));
        Some((handle, DatagramEvent::NewAssociation(association)))
    }

    /// Starts an association with `remote`.
    pub fn connect(
        &mut self,
        config: ClientConfig,
        remote: SocketAddr,
    ) -> Result<(AssociationHandle, Association), ConnectError> {
        if remote.port() == 0 {
            return Err(ConnectError::InvalidRemoteAddress(remote));
        }
        let (ours, theirs) = config.transport.ports;
        if ours == 0 || theirs == 0 {
            return Err(ConnectError::InvalidSctpPort);
        }
        if self.associations.contains_key(&(remote, theirs, ours)) {
            return Err(ConnectError::TooManyAssociations);
        }
        let payload = self.config.get_max_payload_size();
        let association = Association::connecting(&config, payload, remote)?;
        Ok((self.add((remote, theirs, ours)), association))
    }

    fn add(&mut self, key: AssociationKey) -> AssociationHandle {
        let handle = AssociationHandle(self.next);
        self.next += 1;
        self.associations.insert(key, handle);
        handle
    }
}
