//! Unrecognized parameter (type 8): quotes, in an INIT ACK, a whole parameter of the INIT whose type is unknown.
//!
//! Implements RFC 9260 §3.3.3.1.2.

pub(super) const KIND: u16 = 8;
