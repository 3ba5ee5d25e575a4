//! Tests our records against dimpl: our records decrypt what dimpl has encrypted, and dimpl decrypts what our records
//! have encrypted. The keys come from handshakes between a dimpl client and a dimpl server.

mod dimpl;
mod harness;
mod nonces;
mod rules;
