//! ECN capable (type 0x8000): reserved by RFC 9260; its meaning is RFC 4960 Appendix A's.
//!
//! The value is empty; what an odd sender puts there is ignored.

pub(super) const KIND: u16 = 0x8000;
