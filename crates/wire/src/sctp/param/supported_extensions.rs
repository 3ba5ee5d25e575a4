//! Supported extensions (type 0x8008): the chunk types of the extensions that the sender supports.
//!
//! Implements RFC 5061 §4.2.7.

pub(super) const KIND: u16 = 0x8008;
