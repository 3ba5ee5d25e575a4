//! Host name address (type 11): deprecated; never sent, and on receipt the sender is told that the address cannot be resolved.
//!
//! Home of RFC 9260 §3.3.2.1.4.

pub(super) const KIND: u16 = 11;
