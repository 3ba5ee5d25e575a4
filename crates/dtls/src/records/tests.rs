//! Tests our records against dimpl: each of the two decrypts the records that the other has encrypted. The keys come
//! from handshakes between two dimpl ends.

mod dimpl;
mod harness;
mod nonces;
mod rules;
