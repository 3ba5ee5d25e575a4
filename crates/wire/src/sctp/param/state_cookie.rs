//! State cookie (type 7): contains all the data that the responder needs to create the association.
//!
//! Implements RFC 9260 §3.3.3.1.1. The endpoint creates and validates cookies (§5.1.3).

pub(super) const KIND: u16 = 7;
