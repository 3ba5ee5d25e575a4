//! ECN capable (type 0x8000): the sender supports ECN. RFC 9260 only reserves the type; RFC 4960 Appendix A defines its
//! meaning.
//!
//! The parameter should have no value; a value is ignored.

pub(super) const KIND: u16 = 0x8000;
