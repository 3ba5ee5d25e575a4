//! The AEAD cipher that a connection has negotiated, with what the record layer needs of it.

use ring::aead;

/// An AEAD cipher.
#[derive(Clone, Copy)]
pub(crate) struct Aead {
    pub algorithm: &'static aead::Algorithm,
    /// The algorithm that encrypts record numbers in DTLS 1.3 (RFC 9147 §4.2.3). It is the same as for packet numbers in
    /// QUIC.
    pub numbers: &'static aead::quic::Algorithm,
    /// The number of bytes of the explicit nonce in each DTLS 1.2 record (RFC 5288 §3). RFC 7905 §2: ChaCha20-Poly1305 has
    /// none.
    pub explicit: usize,
}
