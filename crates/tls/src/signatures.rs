//! Ed25519 signatures in simulations. Each signature is verified at most once in a thread.
//!
//! All simulated servers have the same certificates, and a simulated client verifies only signatures that this process
//! has made. Verifying a signature takes longer than the rest of a handshake. Therefore this module remembers valid
//! signatures: those that a simulated server has just made, and those that ring has verified. Every other signature is
//! verified by ring.
//!
//! If nobody reads the ciphertext ([`Encryption::Placeholder`]), servers do not sign their handshakes. In place of the
//! signature, they send a hash that has the same length. Certificates have real signatures.

use crate::scope::{Encryption, is_inside};
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
/// The length of an Ed25519 signature in bytes.
const SIGNATURE: usize = 64;

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

/// Returns the hash that stands in for a server's signature of a handshake.
fn placeholder(public_key: &[u8], message: &[u8]) -> [u8; SIGNATURE] {
    let hash: [u8; SIGNATURE / 2] =
        Sha256::new().chain_update(public_key).chain_update(message).finalize().into();
    let mut signature = [0; SIGNATURE];
    signature.chunks_exact_mut(hash.len()).for_each(|half| half.copy_from_slice(&hash));
    signature
}

type Algorithm = &'static dyn SignatureVerificationAlgorithm;
type Mapping = (SignatureScheme, &'static [Algorithm]);

/// Returns ring's algorithms, with Ed25519 replaced by the algorithm that remembers valid signatures.
pub fn algorithms(encryption: Encryption) -> WebPkiSupportedAlgorithms {
    type Lists = LazyLock<(Vec<Algorithm>, Vec<Mapping>)>;
    static REAL: Lists = LazyLock::new(|| lists(&[&Ed25519(Encryption::Real)]));
    static PLACEHOLDER: Lists = LazyLock::new(|| lists(&[&Ed25519(Encryption::Placeholder)]));
    let lists = match encryption {
        Encryption::Real => &*REAL,
        Encryption::Placeholder => &*PLACEHOLDER,
    };
    WebPkiSupportedAlgorithms { all: &lists.0, mapping: &lists.1 }
}

/// Returns the lists of ring's algorithms, with Ed25519 replaced by `ed25519`.
fn lists(ed25519: &'static [Algorithm; 1]) -> (Vec<Algorithm>, Vec<Mapping>) {
    let real = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let all = real.all.iter().map(|one| match one.signature_alg_id() == alg_id::ED25519 {
        true => ed25519[0],
        false => *one,
    });
    let mapping = real.mapping.iter().map(|(scheme, algorithms)| match *scheme {
        SignatureScheme::ED25519 => (*scheme, ed25519.as_slice()),
        _ => (*scheme, *algorithms),
    });
    (all.collect(), mapping.collect())
}

/// The verification of Ed25519 signatures.
#[derive(Debug)]
struct Ed25519(Encryption);

impl SignatureVerificationAlgorithm for Ed25519 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        if self.0 == Encryption::Placeholder && is_inside() && signature == placeholder(public_key, message) {
            return Ok(());
        }
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

/// Returns the loader of keys. It loads keys with ring, and replaces the signatures of Ed25519 keys or remembers them.
pub fn keys(encryption: Encryption) -> &'static dyn KeyProvider {
    match encryption {
        Encryption::Real => &Keys(Encryption::Real),
        Encryption::Placeholder => &Keys(Encryption::Placeholder),
    }
}

#[derive(Debug)]
struct Keys(Encryption);

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        let key = rustls::crypto::ring::default_provider().key_provider.load_private_key(key)?;
        Ok(match key.algorithm() {
            SignatureAlgorithm::ED25519 => Arc::new(Key(key, self.0)),
            _ => key,
        })
    }
}

/// An Ed25519 key.
#[derive(Debug)]
struct Key(Arc<dyn SigningKey>, Encryption);

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.0.choose_scheme(offered)?;
        // RFC 8410 §4: the encoded public key ends with the 32 bytes of the key.
        let public_key = *self.0.public_key()?.as_ref().last_chunk()?;
        Some(match self.1 {
            Encryption::Real => Box::new(RememberingSigner { signer, public_key }),
            Encryption::Placeholder => Box::new(PlaceholderSigner { public_key }),
        })
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

#[derive(Debug)]
struct PlaceholderSigner {
    public_key: [u8; PUBLIC_KEY],
}

impl Signer for PlaceholderSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(placeholder(&self.public_key, message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, Simulation, Surroundings};
    use anabranch_base::{Instant, Rng};

    /// Returns a public key, and the signature of a message.
    fn signed(encryption: Encryption) -> ([u8; PUBLIC_KEY], Vec<u8>) {
        let (identity, _) = Identity::simulated("server.test", 3_000).expect("a chain");
        let key = keys(encryption).load_private_key(identity.key).expect("a key");
        let signer = key.choose_scheme(&[SignatureScheme::ED25519]).expect("Ed25519");
        assert_eq!(signer.scheme(), SignatureScheme::ED25519);
        let public_key = key.public_key().expect("a public key");
        let public_key = *public_key.as_ref().last_chunk().expect("32 bytes");
        (public_key, signer.sign(b"message").expect("a signature"))
    }

    /// Only the provider with placeholders accepts a placeholder, and only in a simulation. It accepts real signatures
    /// too, because certificates have them.
    #[test]
    fn a_placeholder_is_valid_only_where_placeholders_are_used() {
        let (public_key, signature) = signed(Encryption::Placeholder);
        let (_, real) = signed(Encryption::Real);
        assert_eq!(signature.len(), real.len());
        let surroundings = Surroundings::Simulated(Simulation::new(Rng::new(1), || Instant::ZERO));
        let verify = |encryption, message: &[u8], signature: &[u8]| {
            let verify = || Ed25519(encryption).verify_signature(&public_key, message, signature);
            (surroundings.within(verify).is_ok(), verify().is_ok())
        };
        assert_eq!(verify(Encryption::Placeholder, b"message", &signature), (true, false));
        assert_eq!(verify(Encryption::Placeholder, b"massage", &signature), (false, false));
        assert_eq!(verify(Encryption::Real, b"message", &signature), (false, false));
        assert_eq!(verify(Encryption::Placeholder, b"message", &real), (true, true));
    }

    #[test]
    fn remembered_and_new_signatures_are_verified_alike() {
        VALID.with_borrow_mut(Vec::clear);
        let (public_key, signature) = signed(Encryption::Real);
        let ed25519 = Ed25519(Encryption::Real);
        let count = || VALID.with_borrow(Vec::len);
        let remembered = count();
        let verify =
            |message: &[u8], signature: &[u8]| ed25519.verify_signature(&public_key, message, signature);
        assert!(verify(b"message", &signature).is_ok());
        assert_eq!(count(), remembered);
        // Ring verifies the signature if it is not remembered, for example in another thread.
        VALID.with_borrow_mut(Vec::clear);
        assert!(verify(b"message", &signature).is_ok() && verify(b"message", &signature).is_ok());
        assert_eq!(count(), 1);
        let mut wrong = signature.clone();
        wrong[5] ^= 1;
        assert!(verify(b"message", &wrong).is_err() && verify(b"massage", &signature).is_err());
        assert!(ed25519.verify_signature(&[7; PUBLIC_KEY], b"message", &signature).is_err());
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
