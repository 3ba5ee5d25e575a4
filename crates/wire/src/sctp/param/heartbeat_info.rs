//! Heartbeat information (type 1): opaque to the peer, which returns it.
//!
//! Home of RFC 9260 §3.3.5, parameter part.

pub(crate) const KIND: u16 = 1;
