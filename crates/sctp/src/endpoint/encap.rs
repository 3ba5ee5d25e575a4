//! UDP encapsulation.
//!
//! The sockets add and strip the UDP header; here lies what the protocol must
//! remember of it: which UDP port a peer's address is reached at. Only packets
//! that prove to be the peer's, by Verification Tag or by State Cookie, change
//! that; an INIT from another port is answered there and changes nothing.
//!
//! Home of RFC 6951 §5.1, §5.4 and §5.6.

use super::{AssociationId, Endpoint};
use crate::association::Association;
use crate::error::PrimaryError;
use anabranch_base::Instant;
use std::net::SocketAddr;

/// A packet that is the peer's came from `source`: replies go to the UDP port it came from.
#[inline]
pub(super) fn follow_port(association: &mut Association, path: usize, source: SocketAddr) {
    // RFC 6951 §5.4: the port of the last valid packet (a NAT may have changed it); one that came
    // without UDP header ends the encapsulation.
    let address = association.paths().get(path).address();
    // RFC 5061 §5.2 D2: a packet may have come from an address that is not the path's.
    if address.port() != source.port() && address.ip() == source.ip() {
        association.set_udp_port(path, source.port());
    }
}

/// A cookie that was accepted for a living association came from `source`.
pub(super) fn follow_cookie(association: &mut Association, source: SocketAddr) {
    if let Some(path) = association.paths().find(source.ip()) {
        follow_port(association, path, source);
    }
}

impl Endpoint {
    /// Sets the UDP port that packets to a path of the peer go to, 0 for no
    /// encapsulation (RFC 6951 §6.1). It holds until a packet of the peer
    /// comes from another.
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
