//! Heartbeat information (type 1): opaque to the peer, which returns it unchanged.
//!
//! Home of RFC 9260 §3.3.5, the part about the parameter.

pub(crate) const KIND: u16 = 1;
