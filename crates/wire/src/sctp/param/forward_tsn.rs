//! Forward TSN supported (type 0xC000): the sender of this parameter supports partial reliability. The receiver of the
//! parameter may therefore send FORWARD TSN chunks.
//!
//! Implements RFC 3758 §3.1.

pub(super) const KIND: u16 = 0xC000;
