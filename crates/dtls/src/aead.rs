//! The AEAD cipher that a connection has negotiated, and the properties of the cipher that the record layer needs.

use ring::aead;

/// An AEAD cipher.
#[derive(Clone, Copy)]
pub(crate) struct Aead {
    pub algorithm: &'static aead::Algorithm,
    /// The algorithm that encrypts record numbers in DTLS 1.3 (RFC 9147 §4.2.3). QUIC encrypts its packet numbers with
    /// the same algorithm.
    pub number_cipher: &'static aead::quic::Algorithm,
    /// The number of bytes of the explicit nonce in each DTLS 1.2 record: eight for AES-GCM (RFC 5288 §3), none for
    /// ChaCha20-Poly1305 (RFC 7905 §2).
    pub explicit: usize,
    /// Whether DTLS 1.3 encrypts application data with the placeholder cipher of simulations instead. All other records
    /// are encrypted with `algorithm`, because dimpl knows no other cipher.
    pub placeholder: bool,
}
