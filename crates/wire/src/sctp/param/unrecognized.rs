//! Unrecognized parameter (type 8): an INIT ACK quotes a whole parameter of the INIT that its sender did not recognize.
//!
//! Implements RFC 9260 §3.3.3.1.2.

pub(super) const KIND: u16 = 8;
