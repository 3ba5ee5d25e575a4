//! UDP encapsulation.
//!
//! The sockets add and remove the UDP header. This module tracks the UDP port at which each address of the peer is reached.
//! That port changes only by packets that a Verification Tag or a State Cookie proves to be from the peer. An INIT from
//! another port is answered at that port and changes nothing.
//!
//! Home of RFC 6951 §5.1, §5.4 and §5.6.

use super::{AssociationId, Endpoint};
use crate::association::Association;
use crate::error::PrimaryError;
use anabranch_base::Instant;
use std::net::SocketAddr;

/// Sends replies to the UDP port that a packet of the peer came from.
#[inline]
pub(super) fn follow_port(association: &mut Association, path: usize, source: SocketAddr) {
    // RFC 6951 §5.4: use the port of the last valid packet, because a NAT may have changed it. A packet without UDP header
    // ends the encapsulation.
    let address = association.paths().get(path).address();
    // RFC 5061 §5.2 D2: the packet may have come from an address other than the path's.
    if address.port() != source.port() && address.ip() == source.ip() {
        association.set_udp_port(path, source.port());
    }
}

/// Follows the UDP port of a packet whose cookie was accepted for an existing association.
pub(super) fn follow_cookie(association: &mut Association, source: SocketAddr) {
    if let Some(path) = association.paths().find(source.ip()) {
        follow_port(association, path, source);
    }
}

impl Endpoint {
    /// Sets the UDP port that packets to a path of the peer are sent to, 0 for no encapsulation (RFC 6951 §6.1). It stays
    /// in use until a packet from the peer arrives from another port.
    ///
    /// ```
    /// # use anabranch_base::{Engine, SendBatch};
    /// # use anabranch_sctp::{testing::Pair, Config, Message};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// pair.a.set_encapsulation_port(pair.now, id, 0, 9_899)?;
    /// pair.a.send(pair.now, id, Message::default(), b"hello")?;
    /// let mut batch = SendBatch::new(1);
    /// assert!(pair.a.poll_transmit(pair.now, &mut batch) && batch.target.port() == 9_899);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PrimaryError::Unknown`] when there is no such association or path.
    pub fn set_encapsulation_port(
        &mut self,
        now: Instant,
        id: AssociationId,
        path: usize,
        port: u16,
    ) -> Result<(), PrimaryError> {
        let slot = self.find(id).ok_or(PrimaryError::Unknown)?;
        let set = self.with(now, slot, |association, _| {
            let known = path < association.paths().len();
            if known {
                association.set_udp_port(path, port);
            }
            known
        });
        if set == Some(true) { Ok(()) } else { Err(PrimaryError::Unknown) }
    }
}
