//! Observes dimpl's HMAC calls, in order to learn the secrets of a connection and the keys derived from them, and to
//! replace cookies.
//!
//! dimpl does not expose these values, but each value can be recognized by the HMAC call that computes it. dimpl calls
//! [`HmacProvider::hmac_sha256`] only for the cookie of a hello (RFC 6347 §4.2.1, RFC 9147 §5.1). The secrets of a
//! connection are results of [`HmacProvider::hmac`] whose input contains the label of the secret (RFC 8446 §7.1, RFC
//! 5246 §6.3, RFC 7627 §4).

use crate::aead::Aead;
use dimpl::CryptoError;
use dimpl::crypto::{HashAlgorithm, HmacProvider};
use ring::hmac;
use std::cell::RefCell;
use std::fmt;

/// A cookie, which proves when it was made and for which client.
pub(crate) type Cookie = [u8; 32];

/// The secrets observed during a handshake.
#[derive(Default)]
pub(crate) struct ObservedSecrets {
    /// Each observed secret: its label in the NSS key log format, and its bytes.
    pub secrets: Vec<(&'static str, Vec<u8>)>,
    /// The key block of DTLS 1.2, which contains the keys of both directions (RFC 5246 §6.3).
    pub key_block: Vec<u8>,
    /// The negotiated AEAD cipher.
    pub aead: Option<Aead>,
}

impl ObservedSecrets {
    /// Adds the observations of a later call to this value.
    pub fn add(&mut self, later: Self) {
        self.secrets.extend(later.secrets);
        if !later.key_block.is_empty() {
            self.key_block = later.key_block;
        }
        self.aead = later.aead.or(self.aead);
    }

    /// Returns the secret with this key log label, if it has been observed.
    pub fn secret(&self, label: &str) -> Option<TrafficSecret> {
        let (_, bytes) = self.secrets.iter().rev().find(|(known, _)| *known == label)?;
        TrafficSecret::new(bytes)
    }
}

thread_local! {
    /// The cookie that replaces dimpl's own cookie during the current call; `None` if dimpl's cookie is kept.
    static COOKIE: RefCell<Option<Cookie>> = const { RefCell::new(None) };
    /// The secrets that dimpl has computed during the current call; `None` if they are not recorded.
    static SEEN: RefCell<Option<ObservedSecrets>> = const { RefCell::new(None) };
}

/// Runs `work`, during which dimpl gets `cookie` as the result of its cookie computation.
pub(crate) fn with_cookie<T>(cookie: Cookie, work: impl FnOnce() -> T) -> T {
    COOKIE.set(Some(cookie));
    let done = work();
    COOKIE.set(None);
    done
}

/// Runs `work`. Returns its result, and the secrets that dimpl computes during the call.
pub(crate) fn watched<T>(work: impl FnOnce() -> T) -> (T, ObservedSecrets) {
    SEEN.set(Some(ObservedSecrets::default()));
    let done = work();
    (done, SEEN.take().unwrap_or_default())
}

/// Notes that dimpl creates a key for this cipher.
pub(crate) fn note_cipher(aead: Aead) {
    SEEN.with_borrow_mut(|secrets| {
        if let Some(secrets) = secrets {
            secrets.aead = Some(aead);
        }
    });
}

#[derive(Debug)]
pub(crate) struct Hmac;

impl HmacProvider for Hmac {
    fn hmac_sha256(&self, key: &[u8], data: &[u8]) -> Result<[u8; 32], CryptoError> {
        if let Some(cookie) = COOKIE.with_borrow(Clone::clone) {
            return Ok(cookie);
        }
        let mut out = [0; 32];
        self.hmac(HashAlgorithm::SHA256, key, data, &mut out)?;
        Ok(out)
    }

    fn hmac(
        &self,
        hash: HashAlgorithm,
        key: &[u8],
        data: &[u8],
        out: &mut [u8],
    ) -> Result<usize, CryptoError> {
        let algorithm = match hash {
            HashAlgorithm::SHA256 => hmac::HMAC_SHA256,
            HashAlgorithm::SHA384 => hmac::HMAC_SHA384,
            other => return Err(CryptoError::UnsupportedHmacHash(other)),
        };
        let output = hmac::sign(&hmac::Key::new(algorithm, key), data);
        let output = output.as_ref();
        out[..output.len()].copy_from_slice(output);
        SEEN.with_borrow_mut(|secrets| {
            if let Some(secrets) = secrets {
                note(secrets, data, output);
            }
        });
        Ok(output.len())
    }
}

/// The labels of DTLS 1.3 secrets (RFC 8446 §7.1), and their names in key logs.
const LABELS: [(&[u8], &str); 5] = [
    (b"c hs traffic", CLIENT_HANDSHAKE),
    (b"s hs traffic", SERVER_HANDSHAKE),
    (b"c ap traffic", CLIENT_TRAFFIC),
    (b"s ap traffic", SERVER_TRAFFIC),
    (b"exp master", "EXPORTER_SECRET"),
];
pub(crate) const CLIENT_HANDSHAKE: &str = "CLIENT_HANDSHAKE_TRAFFIC_SECRET";
pub(crate) const SERVER_HANDSHAKE: &str = "SERVER_HANDSHAKE_TRAFFIC_SECRET";
pub(crate) const CLIENT_TRAFFIC: &str = "CLIENT_TRAFFIC_SECRET_0";
pub(crate) const SERVER_TRAFFIC: &str = "SERVER_TRAFFIC_SECRET_0";
const MASTER: &[u8] = b"extended master secret";
/// The name of the DTLS 1.2 master secret in key logs.
const MASTER_LABEL: &str = "CLIENT_RANDOM";
const MASTER_BYTES: usize = 48;
const KEYS: &[u8] = b"key expansion";
/// The maximum size of a key block in bytes: for each end, a key of 32 bytes and a nonce of 12 bytes.
const MAX_KEYS: usize = 2 * (32 + 12);

/// Records the result of an HMAC call, if it is a secret.
fn note(secrets: &mut ObservedSecrets, data: &[u8], output: &[u8]) {
    // RFC 8446 §7.1: an HkdfLabel consists of a length, a label with its length, and a context. RFC 9147 §5.9: the
    // prefix of the label is "dtls13". The first block of the expansion (RFC 5869 §2.3) is as long as the secret.
    if let Some(label) = data.get(3..).and_then(|rest| rest.strip_prefix(b"dtls13")) {
        let known = LABELS.iter().find(|(known, _)| label.starts_with(known));
        secrets.secrets.extend(known.map(|(_, name)| (*name, output.to_vec())));
        return;
    }
    // RFC 5246 §5: the input of each P_hash block consists of A(i), the label, and the seed.
    let Some(rest) = data.get(output.len()..) else { return };
    if rest.starts_with(MASTER) {
        match secrets.secrets.last_mut() {
            Some((label, secret)) if *label == MASTER_LABEL && secret.len() < MASTER_BYTES => {
                secret.extend_from_slice(output);
            }
            _ => secrets.secrets.push((MASTER_LABEL, output.to_vec())),
        }
        if let Some((_, secret)) = secrets.secrets.last_mut() {
            secret.truncate(MASTER_BYTES);
        }
    } else if rest.starts_with(KEYS) && secrets.key_block.len() < MAX_KEYS {
        secrets.key_block.extend_from_slice(output);
    }
}

/// A DTLS 1.3 secret from which keys are derived. It is as long as the output of the cipher suite's hash.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TrafficSecret {
    bytes: [u8; 48],
    length: usize,
}

impl fmt::Debug for TrafficSecret {
    /// Writes a placeholder, so that no part of the secret appears in debug output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficSecret").finish_non_exhaustive()
    }
}

impl TrafficSecret {
    /// Creates a secret. Its length selects SHA-256 or SHA-384; any other length gives `None`.
    pub fn new(secret: &[u8]) -> Option<Self> {
        let mut bytes = [0; 48];
        let length = secret.len();
        matches!(length, 32 | 48).then(|| bytes[..length].copy_from_slice(secret))?;
        Some(Self { bytes, length })
    }

    /// HKDF-Expand-Label (RFC 8446 §7.1) with the prefix of RFC 9147 §5.9 and an empty context. `length` must not
    /// exceed the length of the hash.
    pub fn expand<const N: usize>(&self, label: &[u8], length: usize) -> [u8; N] {
        let algorithm = if self.length == 32 { hmac::HMAC_SHA256 } else { hmac::HMAC_SHA384 };
        let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, &self.bytes[..self.length]));
        context.update(&(length as u16).to_be_bytes());
        context.update(&[6 + label.len() as u8]);
        context.update(b"dtls13");
        context.update(label);
        // The first byte, 0, is the length of the empty context. The second byte, 1, is the number of the output block
        // (RFC 5869 §2.3). One block is enough for `length` bytes.
        context.update(&[0, 1]);
        let output = context.sign();
        let mut out = [0; N];
        out[..length].copy_from_slice(&output.as_ref()[..length]);
        out
    }

    /// Returns the secret that replaces this secret after a KeyUpdate (RFC 8446 §7.2).
    pub fn next(&self) -> Self {
        Self { bytes: self.expand(b"traffic upd", self.length), length: self.length }
    }
}
