//! The cryptographic provider for dimpl. Ciphers and signature verification are ring's. On a real network, the key
//! exchange and signatures are also ring's. In a simulation, the module `simulation` replaces them. Everything else is
//! dimpl's own.
//!
//! dimpl does not expose its secrets and ciphers. Therefore this module and [`crate::secrets`] observe them.

use crate::aead::Aead;
use crate::secrets::{self, Hmac};
use anabranch_tls::CertificateDer;
use dimpl::crypto::{
    Aad, ActiveKeyExchange, Buf, Cipher, CryptoProvider, Dtls12CipherSuite, Dtls13CipherSuite, HashAlgorithm,
    KeyProvider, NamedGroup, Nonce, SignatureAlgorithm, SignatureVerifier, SigningKey,
    SupportedDtls12CipherSuite, SupportedDtls13CipherSuite, SupportedKxGroup, TmpBuf, rust_crypto,
};
use dimpl::{CryptoError, CryptoOperation};
use ring::aead::{self, LessSafeKey, UnboundKey};
use ring::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use webpki::EndEntityCert;

/// Returns the provider for a real network.
pub(crate) fn real() -> CryptoProvider {
    CryptoProvider { kx_groups: GROUPS, key_provider: &Keys, ..common() }
}

/// Returns the part of the provider that real networks and simulations share.
pub(crate) fn common() -> CryptoProvider {
    CryptoProvider {
        hmac_provider: &Hmac,
        signature_verification: &Verifier,
        cipher_suites: SUITES_12,
        dtls13_cipher_suites: SUITES_13,
        ..rust_crypto::default_provider()
    }
}

const GROUPS: &[&dyn SupportedKxGroup] = {
    static X25519: Group = Group(NamedGroup::X25519, &agreement::X25519);
    static P256: Group = Group(NamedGroup::Secp256r1, &agreement::ECDH_P256);
    static P384: Group = Group(NamedGroup::Secp384r1, &agreement::ECDH_P384);
    &[&X25519, &P256, &P384]
};

const SUITES_12: &[&dyn SupportedDtls12CipherSuite] = {
    use Dtls12CipherSuite as Named;
    const SHA256: HashAlgorithm = HashAlgorithm::SHA256;
    const SHA384: HashAlgorithm = HashAlgorithm::SHA384;
    static FIRST: Suite12 = Suite12(Named::ECDHE_ECDSA_AES128_GCM_SHA256, SHA256, AES_128);
    static SECOND: Suite12 = Suite12(Named::ECDHE_ECDSA_AES256_GCM_SHA384, SHA384, AES_256);
    static THIRD: Suite12 = Suite12(Named::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256, SHA256, CHACHA);
    &[&FIRST, &SECOND, &THIRD]
};

pub(crate) const SUITES_13: &[&dyn SupportedDtls13CipherSuite] = {
    use Dtls13CipherSuite as Named;
    const SHA256: HashAlgorithm = HashAlgorithm::SHA256;
    const SHA384: HashAlgorithm = HashAlgorithm::SHA384;
    static FIRST: Suite13 = Suite13(Named::AES_128_GCM_SHA256, SHA256, AES_128);
    static SECOND: Suite13 = Suite13(Named::AES_256_GCM_SHA384, SHA384, AES_256);
    static THIRD: Suite13 = Suite13(Named::CHACHA20_POLY1305_SHA256, SHA256, CHACHA);
    &[&FIRST, &SECOND, &THIRD]
};

const AES_128: Aead = Aead {
    algorithm: &aead::AES_128_GCM,
    number_cipher: &aead::quic::AES_128,
    explicit: 8,
    placeholder: false,
};
const AES_256: Aead = Aead {
    algorithm: &aead::AES_256_GCM,
    number_cipher: &aead::quic::AES_256,
    explicit: 8,
    placeholder: false,
};
const CHACHA: Aead = Aead {
    algorithm: &aead::CHACHA20_POLY1305,
    number_cipher: &aead::quic::CHACHA20,
    explicit: 0,
    placeholder: false,
};

/// Returns a cipher with this key, and records that the connection uses this cipher.
fn cipher(aead: Aead, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
    secrets::note_cipher(aead);
    let key = UnboundKey::new(aead.algorithm, key).map_err(|_| failed(CryptoOperation::CreateCipher))?;
    Ok(Box::new(AeadCipher(LessSafeKey::new(key))))
}

fn failed(operation: CryptoOperation) -> CryptoError {
    CryptoError::OperationFailed(operation)
}

#[derive(Debug)]
struct AeadCipher(LessSafeKey);

impl Cipher for AeadCipher {
    fn encrypt(&mut self, plaintext: &mut Buf, aad: Aad, nonce: Nonce) -> Result<(), CryptoError> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce.0);
        let tag = self.0.seal_in_place_separate_tag(nonce, aead::Aad::from(&aad.0[..]), plaintext);
        let tag = tag.map_err(|_| failed(CryptoOperation::Encrypt))?;
        plaintext.extend_from_slice(tag.as_ref());
        Ok(())
    }

    fn decrypt(&mut self, sealed: &mut TmpBuf, aad: Aad, nonce: Nonce) -> Result<(), CryptoError> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce.0);
        let opened = self.0.open_in_place(nonce, aead::Aad::from(&aad.0[..]), sealed.as_mut());
        let length = opened.map_err(|_| failed(CryptoOperation::Decrypt))?.len();
        sealed.truncate(length);
        Ok(())
    }
}

struct Suite12(Dtls12CipherSuite, HashAlgorithm, Aead);

impl std::fmt::Debug for Suite12 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl SupportedDtls12CipherSuite for Suite12 {
    fn suite(&self) -> Dtls12CipherSuite {
        self.0
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.1
    }

    fn key_lengths(&self) -> (usize, usize, usize) {
        (0, self.2.algorithm.key_len(), aead::NONCE_LEN - self.2.explicit)
    }

    fn explicit_nonce_len(&self) -> usize {
        self.2.explicit
    }

    fn tag_len(&self) -> usize {
        self.2.algorithm.tag_len()
    }

    fn create_cipher(&self, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
        cipher(self.2, key)
    }
}

struct Suite13(Dtls13CipherSuite, HashAlgorithm, Aead);

impl std::fmt::Debug for Suite13 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl SupportedDtls13CipherSuite for Suite13 {
    fn suite(&self) -> Dtls13CipherSuite {
        self.0
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.1
    }

    fn key_len(&self) -> usize {
        self.2.algorithm.key_len()
    }

    fn iv_len(&self) -> usize {
        aead::NONCE_LEN
    }

    fn tag_len(&self) -> usize {
        self.2.algorithm.tag_len()
    }

    fn create_cipher(&self, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
        cipher(self.2, key)
    }

    /// RFC 9147 §4.2.3: returns the mask for a record number. dimpl's own implementation computes the mask, because
    /// ring returns fewer bytes than dimpl's self-test checks.
    fn encrypt_sn(&self, key: &[u8], sample: &[u8; 16]) -> [u8; 16] {
        let dimpl_suites = rust_crypto::default_provider().dtls13_cipher_suites;
        let same = dimpl_suites.iter().find(|suite| suite.suite() == self.0);
        same.map_or([0; 16], |suite| suite.encrypt_sn(key, sample))
    }
}

/// A key exchange group, implemented by ring.
#[derive(Debug)]
struct Group(NamedGroup, &'static agreement::Algorithm);

impl SupportedKxGroup for Group {
    fn name(&self) -> NamedGroup {
        self.0
    }

    fn start_exchange(&self, _: Buf) -> Result<Box<dyn ActiveKeyExchange>, CryptoError> {
        let wrong = |_| failed(CryptoOperation::GenerateEphemeralKey);
        let secret = EphemeralPrivateKey::generate(self.1, &SystemRandom::new()).map_err(wrong)?;
        let public = secret.compute_public_key().map_err(wrong)?;
        Ok(Box::new(Exchange { group: self.0, algorithm: self.1, secret, public }))
    }
}

#[derive(Debug)]
struct Exchange {
    group: NamedGroup,
    algorithm: &'static agreement::Algorithm,
    secret: EphemeralPrivateKey,
    public: agreement::PublicKey,
}

impl ActiveKeyExchange for Exchange {
    fn pub_key(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn complete(self: Box<Self>, peer: &[u8], out: &mut Buf) -> Result<(), CryptoError> {
        let peer = UnparsedPublicKey::new(self.algorithm, peer);
        let agreed = agreement::agree_ephemeral(self.secret, &peer, |shared| {
            out.clear();
            out.extend_from_slice(shared);
        });
        agreed.map_err(|_| CryptoError::InvalidPublicKey(self.group))
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}

/// Verifies signatures with ring, which is ten times as fast as dimpl's own verifier.
#[derive(Debug)]
pub(crate) struct Verifier;

impl SignatureVerifier for Verifier {
    fn verify_signature(
        &self,
        certificate: &[u8],
        data: &[u8],
        signature: &[u8],
        hash: HashAlgorithm,
        algorithm: SignatureAlgorithm,
    ) -> Result<(), CryptoError> {
        let dimpl_verifier = rust_crypto::default_provider().signature_verification;
        let slowly = || dimpl_verifier.verify_signature(certificate, data, signature, hash, algorithm);
        let algorithms = match (algorithm, hash) {
            (SignatureAlgorithm::ECDSA, HashAlgorithm::SHA256) => {
                [webpki::ring::ECDSA_P256_SHA256, webpki::ring::ECDSA_P384_SHA256]
            }
            (SignatureAlgorithm::ECDSA, HashAlgorithm::SHA384) => {
                [webpki::ring::ECDSA_P256_SHA384, webpki::ring::ECDSA_P384_SHA384]
            }
            _ => return slowly(),
        };
        let der = CertificateDer::from(certificate);
        // dimpl's verifier handles certificates that webpki does not parse.
        let Ok(certificate) = EndEntityCert::try_from(&der) else { return slowly() };
        for algorithm in algorithms {
            match certificate.verify_signature(algorithm, data, signature) {
                Ok(()) => return Ok(()),
                Err(webpki::Error::InvalidSignatureForPublicKey) => {
                    return Err(failed(CryptoOperation::VerifySignature));
                }
                // The certificate's key may be for the other curve, so the other algorithm is tried.
                Err(_) => {}
            }
        }
        slowly()
    }
}

/// Loads signature keys: P-256 keys with ring, all others with dimpl.
#[derive(Debug)]
struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(&self, key: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        let random = SystemRandom::new();
        match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key, &random) {
            Ok(fast) => Ok(Box::new(Key { fast, pkcs8: key.to_vec(), random })),
            // The key is not a P-256 key, so dimpl loads it.
            Err(_) => rust_crypto::default_provider().key_provider.load_private_key(key),
        }
    }
}

/// A P-256 key, with which the library ring signs.
struct Key {
    fast: EcdsaKeyPair,
    /// The same private key as `fast`, in encoded form. dimpl signs with this key if ring does not support the hash.
    pkcs8: Vec<u8>,
    random: SystemRandom,
}

impl std::fmt::Debug for Key {
    /// Writes a placeholder, so that no part of the key appears in debug output.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl SigningKey for Key {
    fn sign(&mut self, data: &[u8], hash: HashAlgorithm, out: &mut Buf) -> Result<(), CryptoError> {
        if hash != HashAlgorithm::SHA256 {
            let dimpl_key = rust_crypto::default_provider().key_provider.load_private_key(&self.pkcs8);
            return dimpl_key?.sign(data, hash, out);
        }
        let signed = self.fast.sign(&self.random, data).map_err(|_| failed(CryptoOperation::Sign))?;
        out.clear();
        out.extend_from_slice(signed.as_ref());
        Ok(())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::SHA256
    }

    fn supported_hash_algorithms(&self) -> &[HashAlgorithm] {
        P256_HASHES
    }
}

/// The hashes with which a P-256 key can sign.
pub(crate) const P256_HASHES: &[HashAlgorithm] = &[HashAlgorithm::SHA256, HashAlgorithm::SHA384];
