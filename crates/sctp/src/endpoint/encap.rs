//! UDP encapsulation.
//!
//! The sockets add and remove the UDP header. This module tracks the UDP port at which each address of the peer is
//! reached. The port changes only if a Verification Tag or a State Cookie proves that a packet is from the peer. An
//! INIT from another port is answered at that port and changes nothing.
//!
//! Implements RFC 6951 §5.1, §5.4 and §5.6.

use super::{AssociationId, Endpoint};
use crate::association::Association;
use crate::error::PrimaryError;
use anabranch_base::Instant;
use std::net::SocketAddr;

/// Sets the UDP port of a path to the source port of the peer's latest packet, so that replies are sent to that port.
#[inline]
pub(super) fn follow_port(association: &mut Association, path: usize, source: SocketAddr) {
    // RFC 6951 §5.4: use the port of the last valid packet, because a NAT may have changed it. If the packet has no UDP
    // header, encapsulation ends.
    let address = association.paths().get(path).address();
    // RFC 5061 §5.2 D2: an ASCONF may come from an address other than that of this path. In that case the UDP port of
    // this path does not change.
    if address.port() != source.port() && address.ip() == source.ip() {
        association.set_udp_port(path, source.port());
    }
}

/// Finds the path to the IP address of `source`, and sets the UDP port of this path to the port of `source`. Called
/// after a COOKIE ECHO from `source` was accepted for an existing association.
pub(super) fn follow_cookie(association: &mut Association, source: SocketAddr) {
    if let Some(path) = association.paths().find(source.ip()) {
        follow_port(association, path, source);
    }
}

impl Endpoint {
    /// Sets the UDP port to which packets on a path to the peer are sent; 0 means no encapsulation (RFC 6951 §6.1). The
    /// port stays in use until a packet from the peer arrives from another port.
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
