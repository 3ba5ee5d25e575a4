//! UDP encapsulation.
//!
//! The sockets add and strip the UDP header; here lies what the protocol must
//! remember of it: which UDP port a peer's address is reached at.
//!
//! Home of RFC 6951 §5.4.

use crate::association::Association;
use std::net::SocketAddr;

/// A packet with the right Verification Tag came from `source`: replies go to
/// the UDP port it came from.
#[inline]
pub(super) fn follow_port(association: &mut Association, path: usize, source: SocketAddr) {
    let path = association.paths.at(path);
    // RFC 6951 §5.4: the port of the last valid packet (a NAT may have changed it).
    if path.address.port() != source.port() {
        path.address.set_port(source.port());
    }
}
