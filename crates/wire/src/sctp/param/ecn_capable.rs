//! ECN capable (type 0x8000): reserved by RFC 9260; RFC 4960 Appendix A defines its meaning.
//!
//! The value is empty; any other value is ignored.

pub(super) const KIND: u16 = 0x8000;
