//! State cookie (type 7): all that the responder needs to build the association.
//!
//! Home of RFC 9260 §3.3.3.1.1. Making and opening cookies is the endpoint's affair (§5.1.3).

pub(super) const KIND: u16 = 7;
