//! Heartbeat information (type 1): opaque to the peer, which returns it unchanged.
//!
//! Implements the parameter that RFC 9260 §3.3.5 defines.

pub(crate) const KIND: u16 = 1;
