//! The placeholder cipher of simulations: it gives records and QUIC packets the sizes of AES-128-GCM, at almost no cost.
//!
//! Nobody reads the ciphertext of a simulation if the packets are not captured. The placeholder cipher therefore leaves
//! the content in the clear and appends a tag of 16 bytes. The tag depends on the key, the nonce, the additional data
//! and the length of the content. A peer with another key, or one that expects another record, rejects the record, as
//! with AES-128-GCM. The tag does not depend on the content. Where links corrupt packets, the real cipher must be used.
//!
//! Keys are derived and replaced as with the real cipher. Outside [`Surroundings::within`](crate::Surroundings::within)
//! of a simulation, encryption and decryption fail. A session on a real network therefore cannot use this cipher by
//! mistake.

use crate::scope::is_inside;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter, Nonce,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{self, HeaderProtectionKey, PacketKey};
use rustls::{
    CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, SupportedCipherSuite,
    Tls13CipherSuite,
};
use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

/// The length of a tag in bytes.
const TAG: usize = 16;
/// The length of a key of AES-128 in bytes.
const KEY: usize = 16;
/// RFC 9001 §5.4.2: the length of the sample for header protection in bytes. A sender pads packets that are too short
/// for a sample.
const SAMPLE: usize = 16;
/// The number of QUIC packets after which a key must be replaced (RFC 9001 §B.1.1).
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
/// The number of forged QUIC packets after which a connection must end (RFC 9001 §B.1.2).
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// Returns the cipher suite TLS_AES_128_GCM_SHA256 with the placeholder cipher.
pub(crate) fn suite() -> SupportedCipherSuite {
    static SUITE: LazyLock<Option<Tls13CipherSuite>> = LazyLock::new(|| {
        let real = TLS13_AES_128_GCM_SHA256.tls13()?;
        Some(Tls13CipherSuite {
            common: CipherSuiteCommon { ..real.common },
            hkdf_provider: real.hkdf_provider,
            aead_alg: &Placeholder,
            quic: Some(&Placeholder),
        })
    });
    SUITE.as_ref().map_or(TLS13_AES_128_GCM_SHA256, SupportedCipherSuite::Tls13)
}

/// A key of the placeholder cipher.
#[derive(Clone)]
pub struct PlaceholderKey(DefaultHasher);

impl PlaceholderKey {
    /// Creates a key from the bytes of a real key.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(key);
        Self(hasher)
    }

    /// Returns the tag of a record with `length` bytes of content.
    #[must_use]
    pub fn tag(&self, nonce: &[u8], additional_data: &[u8], length: usize) -> [u8; TAG] {
        let mut hasher = self.0.clone();
        hasher.write(nonce);
        hasher.write(additional_data);
        hasher.write_usize(length);
        let low = hasher.finish();
        hasher.write_u64(low);
        (u128::from(hasher.finish()) << 64 | u128::from(low)).to_be_bytes()
    }

    /// Returns the length of the content of `sealed`, which ends with a tag. Returns `None` if the tag is not that of
    /// this record.
    #[must_use]
    pub fn content_len(&self, nonce: &[u8], additional_data: &[u8], sealed: &[u8]) -> Option<usize> {
        let (content, tag) = sealed.split_last_chunk::<TAG>()?;
        (*tag == self.tag(nonce, additional_data, content.len())).then_some(content.len())
    }
}

impl std::fmt::Debug for PlaceholderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlaceholderKey").finish_non_exhaustive()
    }
}

/// The algorithm that creates keys for TLS records and QUIC packets.
struct Placeholder;

/// The keys of one direction of a session or connection.
struct Keys {
    key: PlaceholderKey,
    iv: Iv,
}

impl Keys {
    fn new(key: &AeadKey, iv: Iv) -> Box<Self> {
        Box::new(Self { key: PlaceholderKey::new(key.as_ref()), iv })
    }

    fn nonce(&self, number: u64) -> [u8; 12] {
        Nonce::new(&self.iv, number).0
    }
}

impl Tls13AeadAlgorithm for Placeholder {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Keys::new(&key, iv)
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Keys::new(&key, iv)
    }

    fn key_len(&self) -> usize {
        KEY
    }

    fn extract_keys(&self, _: AeadKey, _: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

impl MessageEncrypter for Keys {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        if !is_inside() {
            return Err(Error::EncryptError);
        }
        let length = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&message.typ.to_array());
        let tag = self.key.tag(&self.nonce(number), &make_tls13_aad(length), length - TAG);
        payload.extend_from_slice(&tag);
        // RFC 8446 §5.2: an encrypted record has the type application_data and the version of TLS 1.2.
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        // RFC 8446 §5.2: the content type takes one byte.
        length + 1 + TAG
    }
}

impl MessageDecrypter for Keys {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        if !is_inside() {
            return Err(Error::DecryptError);
        }
        let sealed = &message.payload[..];
        let length = self.key.content_len(&self.nonce(number), &make_tls13_aad(sealed.len()), sealed);
        message.payload.truncate(length.ok_or(Error::DecryptError)?);
        message.into_tls13_unpadded_message()
    }
}

impl quic::Algorithm for Placeholder {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Keys::new(&key, iv)
    }

    fn header_protection_key(&self, _: AeadKey) -> Box<dyn HeaderProtectionKey> {
        Box::new(ClearHeader)
    }

    fn aead_key_len(&self) -> usize {
        KEY
    }
}

impl PacketKey for Keys {
    fn encrypt_in_place(&self, number: u64, header: &[u8], content: &mut [u8]) -> Result<quic::Tag, Error> {
        if !is_inside() {
            return Err(Error::EncryptError);
        }
        Ok(quic::Tag::from(&self.key.tag(&self.nonce(number), header, content.len())[..]))
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let length = self.key.content_len(&self.nonce(number), header, sealed);
        match length.filter(|_| is_inside()) {
            Some(length) => Ok(&sealed[..length]),
            None => Err(Error::DecryptError),
        }
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

/// Leaves the headers of QUIC packets in the clear.
struct ClearHeader;

impl HeaderProtectionKey for ClearHeader {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn sample_len(&self) -> usize {
        SAMPLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Simulation, Surroundings};
    use anabranch_base::{Instant, Rng};
    use rustls::quic::Algorithm as _;

    fn key(byte: u8) -> AeadKey {
        AeadKey::from([byte; 32])
    }

    fn inside<T>(work: impl FnOnce() -> T) -> T {
        Surroundings::Simulated(Simulation::new(Rng::new(1), || Instant::ZERO)).within(work)
    }

    #[test]
    fn only_the_record_that_was_encrypted_is_decrypted() {
        let key = PlaceholderKey::new(&[1; KEY]);
        let mut sealed = b"content".to_vec();
        sealed.extend(key.tag(&[2; 12], b"header", 7));
        assert_eq!(key.content_len(&[2; 12], b"header", &sealed), Some(7));
        assert_eq!(PlaceholderKey::new(&[3; KEY]).content_len(&[2; 12], b"header", &sealed), None);
        assert_eq!(key.content_len(&[3; 12], b"header", &sealed), None);
        assert_eq!(key.content_len(&[2; 12], b"leader", &sealed), None);
        assert_eq!(key.content_len(&[2; 12], b"header", &sealed[1..]), None);
        assert_eq!(key.content_len(&[2; 12], b"header", &sealed[..TAG - 1]), None);
        sealed[7] ^= 1;
        assert_eq!(key.content_len(&[2; 12], b"header", &sealed), None);
    }

    #[test]
    fn outside_of_a_simulation_nothing_is_encrypted_or_decrypted() {
        let packets = || Placeholder.packet_key(key(1), Iv::from([2; 12]));
        let mut content = b"content".to_vec();
        let tag = inside(|| packets().encrypt_in_place(9, b"header", &mut content)).expect("a tag");
        content.extend_from_slice(tag.as_ref());
        let open = |number: u64| {
            packets().decrypt_in_place(number, b"header", &mut content.clone()).map(<[u8]>::len)
        };
        assert_eq!(inside(|| open(9)).ok(), Some(7));
        assert!(inside(|| open(8)).is_err() && open(9).is_err());
        assert!(packets().encrypt_in_place(9, b"header", &mut content).is_err());
        let message = OutboundPlainMessage {
            typ: ContentType::ApplicationData,
            version: ProtocolVersion::TLSv1_2,
            payload: b"content".as_slice().into(),
        };
        assert!(Placeholder.encrypter(key(1), Iv::from([2; 12])).encrypt(message, 0).is_err());
    }

    /// The sizes and limits of the placeholder cipher must be those of ring's AES-128-GCM.
    #[test]
    fn sizes_and_limits_are_those_of_aes_128_gcm() {
        let of = |suite: SupportedCipherSuite| {
            let suite = suite.tls13().expect("TLS 1.3");
            let quic = suite.quic_suite().expect("QUIC");
            let keys = quic.keys(&[5; 8], rustls::Side::Client, quic::Version::V1).local;
            let limits = (suite.common.confidentiality_limit, keys.packet.confidentiality_limit());
            let lengths = (suite.aead_alg.key_len(), keys.packet.tag_len(), keys.header.sample_len());
            (suite.common.suite, lengths, limits, keys.packet.integrity_limit())
        };
        assert_eq!(of(suite()), of(TLS13_AES_128_GCM_SHA256));
        assert_eq!(Keys::new(&key(1), Iv::from([0; 12])).encrypted_payload_len(100), 117);
    }
}
