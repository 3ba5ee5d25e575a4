//! Forward TSN supported (type 0xC000): the parameter is recognized, so that it is not reported as unknown.
//!
//! Home of RFC 3758 §3.1.

pub(super) const KIND: u16 = 0xC000;
