//! Tests our records against dimpl: each side decrypts the records that the other side encrypted. The keys come from
//! handshakes between two dimpl ends.

mod beside;
mod harness;
mod nonces;
mod rules;
