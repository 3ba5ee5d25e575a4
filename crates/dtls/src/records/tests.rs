//! Tests our records against dimpl: each side decrypts the records that the other side encrypted. The keys come from
//! handshakes between two dimpl ends.

mod dimpl;
mod harness;
mod nonces;
mod rules;
