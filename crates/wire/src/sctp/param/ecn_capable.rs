//! ECN capable (type 0x8000): the sender supports ECN. RFC 9260 only reserves the type; RFC 4960 Appendix A defines its
//! meaning.
//!
//! The value of the parameter is empty, and bytes in it are ignored.

pub(super) const KIND: u16 = 0x8000;
