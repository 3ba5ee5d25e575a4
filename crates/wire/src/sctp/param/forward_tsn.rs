//! Forward TSN supported (type 0xC000): the sender supports partial reliability, so the peer may send FORWARD TSN.
//!
//! Implements RFC 3758 §3.1.

pub(super) const KIND: u16 = 0xC000;
