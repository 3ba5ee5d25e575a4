//! Heartbeat information (type 1): data of the sender of a HEARTBEAT, which the peer returns unchanged.
//!
//! Implements the parameter that RFC 9260 §3.3.5 defines.

pub(crate) const KIND: u16 = 1;
