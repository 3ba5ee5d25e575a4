//! Host name address (type 11): deprecated and never sent. A peer that sends this parameter gets the error cause for an
//! unresolvable address.
//!
//! Implements RFC 9260 §3.3.2.1.4.

pub(super) const KIND: u16 = 11;
