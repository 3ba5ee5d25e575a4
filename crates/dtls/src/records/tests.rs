//! Tests our records against the library's: what one seals, the other opens, with keys of handshakes between two library
//! ends.

mod beside;
mod harness;
mod nonces;
mod rules;
