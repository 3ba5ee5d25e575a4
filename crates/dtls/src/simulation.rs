//! The cryptographic provider of simulations. The provider is dimpl's own, with randomness and key exchange from the
//! seed.
//!
//! Signatures are ECDSA with nonces that are derived from the key and the message (RFC 6979, as dimpl implements it).
//! The secrets of the key exchange (X25519, RFC 7748) are drawn from the seed. Randomness and key exchange fail outside
//! `Surroundings::within` of a simulation, so every handshake fails there. A real connection therefore cannot use this
//! provider by mistake.
//!
//! If nobody reads the ciphertext, the shared secret of a key exchange is a hash of both public keys. The public keys
//! are still those of X25519. A server signs them, and the length of an ECDSA signature depends on what is signed.

use crate::{provider, signatures};
use anabranch_base::time::Duration;
use anabranch_tls::{CertificateDer, Surroundings, draw_seeded};
use dimpl::crypto::{
    ActiveKeyExchange, Buf, CryptoProvider, HashAlgorithm, KeyProvider, NamedGroup, SecureRandom,
    SignatureAlgorithm, SignatureVerifier, SigningKey, SupportedDtls13CipherSuite, SupportedKxGroup,
    rust_crypto,
};
use dimpl::{CryptoError, CryptoOperation};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use webpki::EndEntityCert;
use x25519_dalek::{PublicKey, StaticSecret};

/// Returns dimpl's provider with the source of randomness and the key exchange replaced.
pub(crate) fn provider(surroundings: &Surroundings) -> CryptoProvider {
    CryptoProvider {
        kx_groups: match surroundings.uses_placeholder() {
            false => &[&SeededX25519 { hashes: false }],
            true => &[&SeededX25519 { hashes: true }],
        },
        secure_random: &SeededRandom,
        key_provider: &Keys,
        signature_verification: &Verifier,
        dtls13_cipher_suites: ONLY_AES_128,
        ..provider::common()
    }
}

/// The DTLS 1.3 cipher suite of simulations.
const ONLY_AES_128: &[&dyn SupportedDtls13CipherSuite] = provider::SUITES_13.split_at(1).0;

thread_local! {
    /// Whether the current call of `configured` skips dimpl's self-test, because the test has succeeded in this
    /// process.
    static SKIPS_SELF_TEST: Cell<bool> = const { Cell::new(false) };
}

/// Runs `build`, in which dimpl creates a configuration with this provider. Each time, dimpl runs a self-test: it
/// verifies three signatures and exchanges keys, which takes longer than a handshake. In a simulation each connection
/// has its own configuration, so the self-test is skipped after the first success in this process. A skipped self-test
/// draws as many random bytes as a complete one, so the random numbers after it do not change.
pub(crate) fn configured<T, E>(build: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    static IS_GOOD: AtomicBool = AtomicBool::new(false);
    SKIPS_SELF_TEST.set(IS_GOOD.load(Ordering::Relaxed));
    let built = build();
    SKIPS_SELF_TEST.set(false);
    if built.is_ok() {
        IS_GOOD.store(true, Ordering::Relaxed);
    }
    built
}

/// Verifies signatures as on a real network, with two exceptions. While dimpl repeats a self-test that has already
/// succeeded in this process, every signature is accepted. A signature that this thread has made is not verified again.
#[derive(Debug)]
struct Verifier;

impl SignatureVerifier for Verifier {
    fn verify_signature(
        &self,
        certificate: &[u8],
        data: &[u8],
        signature: &[u8],
        hash: HashAlgorithm,
        algorithm: SignatureAlgorithm,
    ) -> Result<(), CryptoError> {
        if SKIPS_SELF_TEST.get() || made_here(certificate, data, signature) {
            return Ok(());
        }
        provider::Verifier.verify_signature(certificate, data, signature, hash, algorithm)
    }
}

/// Returns whether the owner of the certificate has made this signature in this thread.
fn made_here(certificate: &[u8], data: &[u8], signature: &[u8]) -> bool {
    let certificate = CertificateDer::from(certificate);
    EndEntityCert::try_from(&certificate).is_ok_and(|certificate| {
        // RFC 5480 §2.2: the encoded key information ends with the public key.
        let key_info = certificate.subject_public_key_info();
        key_info.as_ref().last_chunk().is_some_and(|key| signatures::is_remembered(key, signature, data))
    })
}

/// Loads keys with dimpl, and caches the last few. The cache is useful because all connections use the same keys, and
/// loading a key is slow.
#[derive(Debug)]
struct Keys;

/// An entry of the cache: an encoded key, and the key that was loaded from it.
type Known = (Vec<u8>, Key);

impl KeyProvider for Keys {
    fn load_private_key(&self, key: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loaded)) = known.iter().find(|(written, _)| written == key) {
            return Ok(Box::new(loaded.clone()));
        }
        let loaded = rust_crypto::default_provider().key_provider.load_private_key(key)?;
        if loaded.hash_algorithm() != HashAlgorithm::SHA256 {
            return Ok(loaded);
        }
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key, &SystemRandom::new());
        let public_key = pair.ok().and_then(|pair| pair.public_key().as_ref().try_into().ok());
        let loaded = Key { loaded: Arc::new(Mutex::new(loaded)), public_key };
        known.truncate(MAX_KNOWN - 1);
        known.insert(0, (key.to_vec(), loaded.clone()));
        Ok(Box::new(loaded))
    }
}

/// The maximum number of cached keys.
const MAX_KNOWN: usize = 4;

/// A cached P-256 key.
#[derive(Clone, Debug)]
struct Key {
    loaded: Arc<Mutex<Box<dyn SigningKey>>>,
    /// The public key; `None` if ring cannot read the encoded key.
    public_key: Option<signatures::PublicKey>,
}

impl SigningKey for Key {
    fn sign(&mut self, data: &[u8], hash: HashAlgorithm, out: &mut Buf) -> Result<(), CryptoError> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).sign(data, hash, out)?;
        if let (Some(public_key), HashAlgorithm::SHA256) = (&self.public_key, hash) {
            signatures::remember(public_key, out, data);
        }
        Ok(())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::SHA256
    }

    fn supported_hash_algorithms(&self) -> &[HashAlgorithm] {
        provider::P256_HASHES
    }
}

/// dimpl's instant for the start of a simulation.
///
/// dimpl reads the system clock for one purpose: DTLS 1.2 puts the time of day in seconds into its hellos, as a field
/// of 32 bits (RFC 5246 §7.4.1.2). In simulations, the field must always hold 1 January 2026. `BEGINNING` is that
/// date plus 2^32 seconds. The field wraps at 2^32, so these seconds do not change it.
///
/// An `Instant` cannot be made from a date. `BEGINNING` is therefore computed as the present instant plus the time from
/// the present to that date, which is positive. Half a second is added, so that small errors of the clock readings do
/// not change the second.
#[expect(clippy::disallowed_methods, reason = "what comes of it is the same whenever it is asked")]
pub(crate) static BEGINNING: LazyLock<Instant> = LazyLock::new(|| {
    let then = Duration::from_secs(1_767_225_600 + (1 << 32)) + Duration::from_millis(500);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Instant::now() + then.saturating_sub(now)
});

#[derive(Debug)]
struct SeededRandom;

impl SecureRandom for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<(), CryptoError> {
        draw(out, CryptoOperation::FillRandom)
    }
}

fn draw(out: &mut [u8], operation: CryptoOperation) -> Result<(), CryptoError> {
    if draw_seeded(out) { Ok(()) } else { Err(CryptoError::OperationFailed(operation)) }
}

/// The X25519 key exchange. Its secrets come from the random numbers of the simulation.
#[derive(Debug)]
struct SeededX25519 {
    /// Whether the shared secret is a hash of the public keys. A hash takes less time than a multiplication on the curve.
    hashes: bool,
}

impl SupportedKxGroup for SeededX25519 {
    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }

    fn start_exchange(&self, _: Buf) -> Result<Box<dyn ActiveKeyExchange>, CryptoError> {
        let mut secret = [0; 32];
        draw(&mut secret, CryptoOperation::GenerateEphemeralKey)?;
        if SKIPS_SELF_TEST.get() {
            return Ok(Box::new(NoExchange));
        }
        let secret = StaticSecret::from(secret);
        Ok(Box::new(Exchange { public: PublicKey::from(&secret), secret, hashes: self.hashes }))
    }
}

/// A fake key exchange, for repeated self-tests of dimpl.
#[derive(Debug)]
struct NoExchange;

impl ActiveKeyExchange for NoExchange {
    fn pub_key(&self) -> &[u8] {
        &[9; 32]
    }

    fn complete(self: Box<Self>, _: &[u8], out: &mut Buf) -> Result<(), CryptoError> {
        // The fake key exchange must not be used outside a self-test.
        if !SKIPS_SELF_TEST.get() {
            return Err(CryptoError::InvalidPublicKey(NamedGroup::X25519));
        }
        out.clear();
        out.extend_from_slice(&[9; 32]);
        Ok(())
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Exchange {
    secret: StaticSecret,
    public: PublicKey,
    hashes: bool,
}

impl std::fmt::Debug for Exchange {
    /// Writes a placeholder, so that no part of the secret appears in debug output.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

impl ActiveKeyExchange for Exchange {
    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn complete(self: Box<Self>, peer: &[u8], out: &mut Buf) -> Result<(), CryptoError> {
        let wrong = CryptoError::InvalidPublicKey(NamedGroup::X25519);
        let Ok(peer) = <[u8; 32]>::try_from(peer) else { return Err(wrong) };
        if self.hashes {
            let own = self.public.to_bytes();
            out.clear();
            out.extend_from_slice(digest(&SHA256, &[own.min(peer), own.max(peer)].concat()).as_ref());
            return Ok(());
        }
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        // RFC 7748 §6.1: a peer's key of small order gives an all-zero shared secret, and is refused.
        if !shared.was_contributory() {
            return Err(wrong);
        }
        out.clear();
        out.extend_from_slice(shared.as_bytes());
        Ok(())
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::{Instant, Rng};
    use anabranch_tls::{Encryption, Simulation};

    fn simulated(encryption: Encryption) -> Surroundings {
        Surroundings::Simulated(Simulation::new(Rng::new(1), || Instant::ZERO).with_encryption(encryption))
    }

    #[test]
    fn outside_of_virtual_time_there_is_no_randomness() {
        for encryption in [Encryption::Real, Encryption::Placeholder] {
            let simulated = simulated(encryption);
            let provider = provider(&simulated);
            assert!(provider.secure_random.fill(&mut [0; 4]).is_err());
            assert!(provider.kx_groups.iter().all(|group| group.start_exchange(Buf::new()).is_err()));
            // Within a scope of `Surroundings::Real`, this provider fails as it does outside any scope.
            Surroundings::Real.within(|| assert!(provider.secure_random.fill(&mut [0; 4]).is_err()));
            simulated.within(|| assert!(provider.secure_random.fill(&mut [0; 4]).is_ok()));
        }
    }

    /// With and without the placeholder, the public keys are the same, and two ends agree on a secret.
    #[test]
    fn the_placeholder_changes_only_the_shared_secret() {
        let exchange = |encryption| {
            let simulated = simulated(encryption);
            let [group] = provider(&simulated).kx_groups else { panic!("one group") };
            let start = || group.start_exchange(Buf::new()).expect("a key");
            let (near, far) = simulated.within(|| (start(), start()));
            let public = [near.pub_key().to_vec(), far.pub_key().to_vec()];
            let (mut here, mut there) = (Buf::new(), Buf::new());
            near.complete(&public[1], &mut here).expect("a secret");
            far.complete(&public[0], &mut there).expect("a secret");
            assert_eq!(here.as_ref(), there.as_ref());
            (public, here.to_vec())
        };
        let (real, placeholder) = (exchange(Encryption::Real), exchange(Encryption::Placeholder));
        assert_eq!(real.0, placeholder.0);
        assert_ne!(real.1, placeholder.1);
        assert_eq!(real.1.len(), placeholder.1.len());
    }

    #[test]
    fn a_key_of_small_order_is_refused() {
        let group = SeededX25519 { hashes: false };
        let lone = simulated(Encryption::Real).within(|| group.start_exchange(Buf::new())).expect("a key");
        assert!(lone.complete(&[0; 32], &mut Buf::new()).is_err());
    }
}
