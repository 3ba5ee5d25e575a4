//! Our records beside the library's: what one seals the other opens, by the keys of handshakes between two of the library's ends.

mod beside;
mod harness;
mod nonces;
mod rules;
