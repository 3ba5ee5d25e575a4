//! Ed25519 signatures in simulations. Each signature is verified at most once in a thread.
//!
//! All simulated servers have the same certificates, and a simulated client verifies only signatures that this process
//! has made. Verifying a signature takes longer than the rest of a handshake. Therefore this module remembers valid
//! signatures: those that a simulated server has just made, and those that ring has verified. Every other signature is
//! verified by ring.

use rustls::crypto::{KeyProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm,
    SubjectPublicKeyInfoDer, alg_id,
};
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

/// The SHA-256 hash of a public key, a signature, and the signed message.
type SignatureHash = [u8; 32];

/// The number of valid signatures that a thread remembers. A handshake needs three.
const MAX_REMEMBERED: usize = 64;
/// The length of an Ed25519 public key in bytes.
const PUBLIC_KEY: usize = 32;

thread_local! {
    /// The hashes of valid signatures, the one that was used last at the end.
    static VALID: RefCell<Vec<SignatureHash>> = const { RefCell::new(Vec::new()) };
}

/// Public keys and signatures of Ed25519 have fixed lengths, so the parts of a valid signature cannot be confused.
fn hash(public_key: &[u8], signature: &[u8], message: &[u8]) -> SignatureHash {
    Sha256::new().chain_update(public_key).chain_update(signature).chain_update(message).finalize().into()
}

/// Returns whether a signature is remembered as valid. If so, it is remembered longest.
fn is_remembered(hash: &SignatureHash) -> bool {
    VALID.with_borrow_mut(|valid| {
        let Some(at) = valid.iter().rposition(|known| known == hash) else { return false };
        valid[at..].rotate_left(1);
        true
    })
}

fn remember(hash: SignatureHash) {
    VALID.with_borrow_mut(|valid| {
        if valid.len() == MAX_REMEMBERED {
            valid.remove(0);
        }
        valid.push(hash);
    });
}

/// Returns ring's algorithms, with Ed25519 replaced by the algorithm that remembers valid signatures.
pub fn algorithms() -> WebPkiSupportedAlgorithms {
    type Algorithm = &'static dyn SignatureVerificationAlgorithm;
    type Mapping = (SignatureScheme, &'static [Algorithm]);
    static LISTS: LazyLock<(Vec<Algorithm>, Vec<Mapping>)> = LazyLock::new(|| {
        let real = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let all = real.all.iter().map(|one| match one.signature_alg_id() == alg_id::ED25519 {
            true => &Ed25519 as Algorithm,
            false => *one,
        });
        let mapping = real.mapping.iter().map(|(scheme, algorithms)| match *scheme {
            SignatureScheme::ED25519 => (*scheme, &[&Ed25519 as Algorithm] as &'static [Algorithm]),
            _ => (*scheme, *algorithms),
        });
        (all.collect(), mapping.collect())
    });
    WebPkiSupportedAlgorithms { all: &LISTS.0, mapping: &LISTS.1 }
}

/// The verification of Ed25519 signatures.
#[derive(Debug)]
struct Ed25519;

impl SignatureVerificationAlgorithm for Ed25519 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let hash = hash(public_key, signature, message);
        if is_remembered(&hash) {
            return Ok(());
        }
        let ring = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let ring = ring.all.iter().find(|one| one.signature_alg_id() == alg_id::ED25519);
        ring.ok_or(InvalidSignature)?.verify_signature(public_key, message, signature)?;
        remember(hash);
        Ok(())
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }
}

/// Loads keys with ring. The signatures of Ed25519 keys are remembered.
#[derive(Debug)]
pub struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        let key = rustls::crypto::ring::default_provider().key_provider.load_private_key(key)?;
        Ok(match key.algorithm() {
            SignatureAlgorithm::ED25519 => Arc::new(Key(key)),
            _ => key,
        })
    }
}

/// An Ed25519 key.
#[derive(Debug)]
struct Key(Arc<dyn SigningKey>);

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.0.choose_scheme(offered)?;
        // RFC 8410 §4: the encoded public key ends with the 32 bytes of the key.
        let public_key = *self.0.public_key()?.as_ref().last_chunk()?;
        Some(Box::new(RememberingSigner { signer, public_key }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct RememberingSigner {
    signer: Box<dyn Signer>,
    public_key: [u8; PUBLIC_KEY],
}

impl Signer for RememberingSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.signer.sign(message)?;
        remember(hash(&self.public_key, &signature, message));
        Ok(signature)
    }

    fn scheme(&self) -> SignatureScheme {
        self.signer.scheme()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn remembered_and_new_signatures_are_verified_alike() {
        let (identity, _) = Identity::simulated("server.test", 3_000).expect("a chain");
        let key = Keys.load_private_key(identity.key).expect("a key");
        let signer = key.choose_scheme(&[SignatureScheme::ED25519]).expect("Ed25519");
        let public_key = key.public_key().expect("a public key");
        let public_key = &public_key.as_ref()[public_key.as_ref().len() - PUBLIC_KEY..];
        let signature = signer.sign(b"message").expect("a signature");
        let count = || VALID.with_borrow(Vec::len);
        let remembered = count();
        let verify =
            |message: &[u8], signature: &[u8]| Ed25519.verify_signature(public_key, message, signature);
        assert!(verify(b"message", &signature).is_ok());
        assert_eq!(count(), remembered);
        // Ring verifies the signature if it is not remembered, for example in another thread.
        VALID.with_borrow_mut(Vec::clear);
        assert!(verify(b"message", &signature).is_ok() && verify(b"message", &signature).is_ok());
        assert_eq!(count(), 1);
        let mut wrong = signature.clone();
        wrong[5] ^= 1;
        assert!(verify(b"message", &wrong).is_err() && verify(b"massage", &signature).is_err());
        assert!(Ed25519.verify_signature(&[7; PUBLIC_KEY], b"message", &signature).is_err());
        assert_eq!(count(), 1);
    }

    #[test]
    fn the_signatures_used_last_are_remembered() {
        VALID.with_borrow_mut(Vec::clear);
        for number in 0..=MAX_REMEMBERED {
            remember([number as u8; 32]);
            assert!(is_remembered(&[0; 32]) || number == MAX_REMEMBERED);
        }
        assert!(is_remembered(&[0; 32]) && !is_remembered(&[1; 32]));
        assert_eq!(VALID.with_borrow(Vec::len), MAX_REMEMBERED);
    }
}
