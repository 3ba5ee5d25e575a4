//! The signatures that simulated servers have made. A simulated client need not verify them again.
//!
//! All simulated servers have the same few keys, and a client of a simulation verifies only signatures of this process.
//! Verifying one takes as long as a key exchange. Therefore a thread remembers the last signatures that it has made.
//! Every other signature is verified.

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use std::cell::RefCell;
use std::collections::VecDeque;

/// The encoded public key of a P-256 key (RFC 5480 §2.2): an uncompressed point.
pub(crate) type PublicKey = [u8; 65];
/// The SHA-256 hash of a public key, a signature, and the signed data.
type SignatureHash = [u8; SHA256_OUTPUT_LEN];

/// The number of signatures that a thread remembers. A handshake has one.
const MAX_REMEMBERED: usize = 64;

thread_local! {
    /// The hashes of the last signatures, the newest at the end.
    static MADE: RefCell<VecDeque<SignatureHash>> = const { RefCell::new(VecDeque::new()) };
}

fn hash(public_key: &PublicKey, signature: &[u8], data: &[u8]) -> SignatureHash {
    let mut context = Context::new(&SHA256);
    // The length separates the signature from the data.
    for part in [public_key, &signature.len().to_be_bytes()[..], signature, data] {
        context.update(part);
    }
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Remembers a signature that the owner of `public_key` has just made.
pub(crate) fn remember(public_key: &PublicKey, signature: &[u8], data: &[u8]) {
    let hash = hash(public_key, signature, data);
    MADE.with_borrow_mut(|made| {
        if made.len() == MAX_REMEMBERED {
            made.pop_front();
        }
        made.push_back(hash);
    });
}

/// Returns whether this signature is remembered.
pub(crate) fn is_remembered(public_key: &PublicKey, signature: &[u8], data: &[u8]) -> bool {
    let hash = hash(public_key, signature, data);
    MADE.with_borrow(|made| made.iter().rev().any(|made| *made == hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_signature_is_remembered() {
        let (key, other) = ([1; 65], [2; 65]);
        remember(&key, b"signature", b"data");
        assert!(is_remembered(&key, b"signature", b"data"));
        assert!(!is_remembered(&other, b"signature", b"data"));
        assert!(!is_remembered(&key, b"signatur", b"edata"));
        assert!(!is_remembered(&key, b"signature", b"date"));
    }

    #[test]
    fn the_oldest_signature_is_forgotten() {
        let key = [1; 65];
        for number in 0..=MAX_REMEMBERED as u8 {
            remember(&key, &[number], b"data");
        }
        assert!(!is_remembered(&key, &[0], b"data") && is_remembered(&key, &[1], b"data"));
    }
}
