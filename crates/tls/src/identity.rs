//! The identity of a TLS server: its certificate chain and its private key.

use crate::secret_file::read_secret_file;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A certificate chain that begins with the server's own certificate, and the private key of that certificate.
pub struct Identity {
    /// The certificates in DER, the server's own certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

impl fmt::Debug for Identity {
    /// Writes the number of certificates, so that the key does not appear in debug output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

/// The reason why an identity could not be loaded or created.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read, or contains no usable certificate or key. The fields are the file and the reason.
    #[error("{0}: {1}")]
    File(String, String),
    /// A certificate could not be created.
    #[error("no certificate could be made: {0}")]
    Made(#[from] rcgen::Error),
}

impl Identity {
    /// Loads an identity from two PEM files: one with the certificate chain, the server's own certificate first, and
    /// one with the private key. Both may be the same file. [`read_secret_file`] refuses a key file to which others
    /// have access.
    ///
    /// # Errors
    /// [`IdentityError::File`] with the file and the reason.
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Self, IdentityError> {
        let wrong = |file: &Path, why| IdentityError::File(file.display().to_string(), why);
        let chain = fs::read(certificates).map_err(|why| wrong(certificates, why.to_string()))?;
        let secret = read_secret_file(key, MAX_KEY_FILE).map_err(|why| wrong(key, why))?;
        Self::from_pem(&chain, &secret).map_err(|(what, error)| {
            let file = if what == "key" { key } else { certificates };
            wrong(file, error)
        })
    }

    /// Parses PEM text. An error consists of the name of the wrong input (`certificate` or `key`) and the reason.
    fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, (&'static str, String)> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|error| ("certificate", format!("no PEM: {error}")))?;
        if chain.is_empty() {
            return Err(("certificate", "it holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                ("key", "it holds no private key (-----BEGIN PRIVATE KEY-----, not encrypted)".to_owned())
            }
            other => ("key", format!("no PEM: {other}")),
        })?;
        Ok(Self { chain, key })
    }

    /// Creates a self-signed certificate for these names and addresses, with a new ECDSA P-256 key.
    ///
    /// # Errors
    /// [`IdentityError::Made`], if certificates cannot contain one of the names.
    pub fn self_signed(names: &[String]) -> Result<Self, IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "anabranch");
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    /// Returns the certificate chain and the key as PEM text.
    #[must_use]
    pub fn to_pem(&self) -> (String, String) {
        let chain = self.chain.iter().map(|one| armour("CERTIFICATE", one)).collect();
        (chain, armour("PRIVATE KEY", self.key.secret_der()))
    }

    /// Creates the certificates of a simulation for the server `name`. Returns the identity of the server, whose chain
    /// has the server's own certificate and an intermediate certificate. Also returns the authority's certificate,
    /// which the client has to trust. The keys are fixed, so equal arguments give equal bytes. The chain is padded to
    /// `bytes` bytes, unless it is longer without padding.
    ///
    /// # Errors
    /// [`IdentityError::Made`], if certificates cannot contain the name.
    pub fn simulated(name: &str, bytes: usize) -> Result<(Self, CertificateDer<'static>), IdentityError> {
        static MADE: Made = Made::new();
        MADE.get_or_make(name, bytes, Self::make_chain)
    }

    /// Creates the identity that [`simulated`](Self::simulated) returns.
    fn make_chain(name: &str, bytes: usize) -> Result<SimulatedIdentity, IdentityError> {
        let keys = [fixed_key(1)?, fixed_key(2)?, fixed_key(3)?];
        let [root_key, middle_key, leaf_key] = &keys;
        let root = authority("anabranch virtual root");
        let root_certificate = root.self_signed(root_key)?;
        let root = Issuer::new(root, root_key);
        let middle = authority("anabranch virtual intermediate");
        let middle_certificate = middle.signed_by(middle_key, &root)?;
        let middle = Issuer::new(middle, middle_key);
        let bytes = bytes.saturating_sub(middle_certificate.der().len());
        let own = padded(bytes, |padding| leaf(name, leaf_key, &middle, padding))?;
        let key = PrivatePkcs8KeyDer::from(leaf_key.serialize_der()).into();
        let chain = vec![own, middle_certificate.der().clone()];
        Ok((Self { chain, key }, root_certificate.der().clone()))
    }

    /// Like [`simulated`](Self::simulated), but the server has a single certificate with an ECDSA P-256 key, signed by
    /// the authority. This identity is for protocols in which a server sends no chain.
    ///
    /// # Errors
    /// [`IdentityError::Made`], if certificates cannot contain the name.
    pub fn simulated_single(
        name: &str,
        bytes: usize,
    ) -> Result<(Self, CertificateDer<'static>), IdentityError> {
        static MADE: Made = Made::new();
        MADE.get_or_make(name, bytes, Self::make_single)
    }

    /// Creates the identity that [`simulated_single`](Self::simulated_single) returns.
    fn make_single(name: &str, bytes: usize) -> Result<SimulatedIdentity, IdentityError> {
        let key = PrivatePkcs8KeyDer::from(P256_KEY.to_vec());
        let own = KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ECDSA_P256_SHA256)?;
        let root_key = fixed_key(1)?;
        let root = authority("anabranch virtual root");
        let root_certificate = root.self_signed(&root_key)?;
        let root = Issuer::new(root, &root_key);
        let certificate = padded(bytes, |padding| leaf(name, &own, &root, padding))?;
        let chain = vec![certificate];
        Ok((Self { chain, key: key.into() }, root_certificate.der().clone()))
    }

    /// Derives a secret for `purpose` from the private key.
    pub(crate) fn derived(&self, purpose: &[u8]) -> [u8; 32] {
        Sha256::new().chain_update(purpose).chain_update(self.key.secret_der()).finalize().into()
    }

    /// Returns the SHA-256 hash of the server's own certificate.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.chain.first().map_or_else(|| [0; 32], |own| fingerprint(own))
    }
}

/// The identity of a server in a simulation, and the certificate of the authority that signed it.
type SimulatedIdentity = (Identity, CertificateDer<'static>);

/// The simulated identities that this process has created last, with their names and sizes. Each run of a race needs
/// one. Creating it takes up to five signatures, which is
/// more work than a handshake.
struct Made(Mutex<Vec<(String, usize, SimulatedIdentity)>>);

impl Made {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the identity with this name and size. Creates it with `make` if it is not stored.
    fn get_or_make(
        &self,
        name: &str,
        bytes: usize,
        make: impl FnOnce(&str, usize) -> Result<SimulatedIdentity, IdentityError>,
    ) -> Result<SimulatedIdentity, IdentityError> {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., made)) = stored.iter().find(|(known, size, _)| known == name && *size == bytes) {
            return Ok(made.clone());
        }
        let made = make(name, bytes)?;
        stored.truncate(MAX_MADE - 1);
        stored.insert(0, (name.to_owned(), bytes, made.clone()));
        Ok(made)
    }
}

/// The maximum number of simulated identities that are stored, of each kind.
const MAX_MADE: usize = 8;

/// Returns the SHA-256 hash of a certificate.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

/// The maximum size of a key file in bytes. A key file may also contain a certificate chain.
const MAX_KEY_FILE: u64 = 1 << 20;

/// Encodes DER as PEM (RFC 7468).
fn armour(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    // RFC 7468 §2: 64 characters per line, which encode 48 bytes.
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits =
                three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            for at in 0..4 {
                let six = (bits >> (18 - 6 * at)) as usize & 63;
                text.push(if at <= three.len() { ALPHABET[six] as char } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// Creates an Ed25519 key that is determined by `number`.
fn fixed_key(number: u8) -> Result<KeyPair, rcgen::Error> {
    // RFC 8410 §7: the key is encoded as PKCS #8, version 0, with the 32-byte seed at the end.
    let mut der =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend([number; 32]);
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(der), &rcgen::PKCS_ED25519)
}

/// Creates a server's certificate that contains `padding` meaningless bytes.
fn leaf(
    name: &str,
    key: &KeyPair,
    issuer: &Issuer<'_, &KeyPair>,
    padding: usize,
) -> Result<CertificateDer<'static>, rcgen::Error> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    validity(&mut params);
    params.distinguished_name.push(DnType::CommonName, name);
    if padding > 0 {
        // The padding is in an unknown, non-critical extension. It stands for the additional content of real
        // certificates.
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[2, 25, 1], vec![0; padding])];
    }
    Ok(params.signed_by(key, issuer)?.der().clone())
}

/// Calls `make` with the padding that makes the certificate `bytes` long. If the certificate is longer without padding,
/// the padding is empty.
fn padded(
    bytes: usize,
    make: impl Fn(usize) -> Result<CertificateDer<'static>, rcgen::Error>,
) -> Result<CertificateDer<'static>, rcgen::Error> {
    let without = make(0)?.len();
    // A certificate with padding also contains an object identifier and length fields. The size of these fields is
    // measured with a padding of 1,000 bytes.
    let around = make(1_000)?.len().saturating_sub(without + 1_000);
    make(bytes.saturating_sub(without + around))
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    validity(&mut params);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// Sets validity dates that include all times of simulations.
fn validity(params: &mut CertificateParams) {
    (params.not_before, params.not_after) = (date_time_ymd(2025, 1, 1), date_time_ymd(2099, 1, 1));
}

/// The P-256 key of simulations in PKCS #8 (RFC 5915 within RFC 5958). The secret consists of 32 bytes with the value
/// four.
#[rustfmt::skip]
const P256_KEY: [u8; 138] = [
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02,
    0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02,
    0x01, 0x01, 0x04, 0x20, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04,
    0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04,
    0x04, 0x04, 0x04, 0x04, 0xa1, 0x44, 0x03, 0x42, 0x00, 0x04, 0x73, 0x10, 0x3e, 0xc3, 0x0b, 0x3c,
    0xcf, 0x57, 0xda, 0xae, 0x08, 0xe9, 0x35, 0x34, 0xae, 0xf1, 0x44, 0xa3, 0x59, 0x40, 0xcf, 0x6b,
    0xbb, 0xa1, 0x2a, 0x0c, 0xf7, 0xcb, 0xd5, 0xd6, 0x5a, 0x64, 0xd8, 0x2c, 0x8c, 0x99, 0xe9, 0xd3,
    0xc4, 0x5f, 0x92, 0x45, 0xba, 0x9b, 0x27, 0x98, 0x2c, 0x9a, 0xea, 0x8e, 0xc1, 0xdb, 0x94, 0xb1,
    0x9c, 0x44, 0x79, 0x59, 0x42, 0xc0, 0xeb, 0x22, 0xaa, 0x32,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_virtual_time_has_the_size_asked_for_and_is_always_the_same() {
        let size = |identity: &Identity| identity.chain.iter().map(|one| one.len()).sum::<usize>();
        for bytes in [700, 3_000, 8_000] {
            let (identity, root) = Identity::simulated("server.test", bytes).expect("a chain");
            assert!(size(&identity).abs_diff(bytes) <= 8, "{} for {bytes}", size(&identity));
            let (again, same) = Identity::make_chain("server.test", bytes).expect("a chain");
            assert_eq!((&identity.chain, &root), (&again.chain, &same));
            let (stored, same) = Identity::simulated("server.test", bytes).expect("a chain");
            assert_eq!((identity.chain, root), (stored.chain, same));
        }
    }

    #[test]
    fn pem_round_trips() {
        let identity = Identity::self_signed(&["localhost".to_owned()]).expect("a certificate");
        let (certificate, key) = identity.to_pem();
        assert!(certificate.lines().all(|line| line.len() <= 64));
        let back = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).expect("PEM");
        assert_eq!(back.chain, identity.chain);
        assert_eq!(back.key.secret_der(), identity.key.secret_der());
        assert_eq!(back.fingerprint(), identity.fingerprint());
    }

    #[test]
    fn an_unusable_pem_file_is_named() {
        let (certificate, key) = Identity::self_signed(&[]).expect("a certificate").to_pem();
        let wrong = |a: &str, b: &str| Identity::from_pem(a.as_bytes(), b.as_bytes()).expect_err("wrong").0;
        assert_eq!(wrong(&key, &key), "certificate");
        assert_eq!(wrong(&certificate, &certificate), "key");
        assert_eq!(wrong("", ""), "certificate");
        let missing =
            Identity::from_files(Path::new("/nonexistent/cert.pem"), Path::new("/nonexistent/key.pem"));
        assert!(missing.expect_err("missing").to_string().starts_with("/nonexistent/cert.pem: "));
    }
}
