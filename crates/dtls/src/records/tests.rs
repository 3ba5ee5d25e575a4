//! Tests our records against dimpl: records that one encrypts, the other decrypts. The keys come from handshakes between two
//! dimpl ends.

mod beside;
mod harness;
mod nonces;
mod rules;
