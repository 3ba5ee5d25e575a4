//! Unrecognized parameter (type 8): a parameter of the INIT that the sender did not recognize, quoted whole in the INIT
//! ACK.
//!
//! Implements RFC 9260 §3.3.3.1.2.

pub(super) const KIND: u16 = 8;
