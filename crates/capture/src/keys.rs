//! Keys that decrypt the records of TLS and DTLS and the packets of QUIC.
//!
//! The ciphers and hashes are those of ring. It has AES-GCM and ChaCha20-Poly1305, but neither CBC nor CCM.
//!
//! Implements these derivations of keys and nonces:
//! - TLS 1.3: RFC 8446 §7.1 to §7.3; DTLS 1.3: RFC 9147 §5.9
//! - QUIC: RFC 9001 §5 (version 1), RFC 9369 §3.3 (version 2)
//! - TLS 1.2 and DTLS 1.2: RFC 5246 §5 and §6.3, RFC 5288 §3, RFC 7905 §2

use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::{hkdf, hmac};

/// The length of an authentication tag in bytes.
pub(super) const TAG: usize = 16;
/// The length in bytes of the sample of a ciphertext that masks the packet number or record number.
pub(super) const SAMPLE: usize = 16;

/// A cipher suite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suite {
    aead: &'static aead::Algorithm,
    header: &'static quic::Algorithm,
    hkdf: hkdf::Algorithm,
    /// The number of bytes of the nonce that each record of TLS 1.2 carries.
    pub explicit: usize,
}

/// Returns a cipher suite by its number, or `None` if this module cannot decrypt its records.
pub(super) fn suite(number: u16) -> Option<Suite> {
    let aes128 = (&aead::AES_128_GCM, &quic::AES_128, hkdf::HKDF_SHA256);
    let aes256 = (&aead::AES_256_GCM, &quic::AES_256, hkdf::HKDF_SHA384);
    let chacha = (&aead::CHACHA20_POLY1305, &quic::CHACHA20, hkdf::HKDF_SHA256);
    let ((aead, header, hkdf), explicit) = match number {
        0x1301 => (aes128, 0),
        0x1302 => (aes256, 0),
        0x1303 | 0xcca8..=0xccaa => (chacha, 0),
        0x009c | 0x009e | 0xc02b | 0xc02f => (aes128, 8),
        0x009d | 0x009f | 0xc02c | 0xc030 => (aes256, 8),
        _ => return None,
    };
    Some(Suite { aead, header, hkdf, explicit })
}

/// The cipher suites of TLS 1.3 whose secrets have `length` bytes.
pub(super) fn suites_with_secrets_of(length: usize) -> impl Iterator<Item = Suite> {
    let fits = move |suite: &Suite| suite.hkdf.hmac_algorithm().digest_algorithm().output_len() == length;
    [0x1301, 0x1302, 0x1303].into_iter().filter_map(suite).filter(fits)
}

/// The protocol for which keys are derived from a traffic secret. It determines the labels of the derivation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Tls,
    Dtls,
    Quic1,
    Quic2,
}

impl Protocol {
    /// Returns the label's prefix, and the labels of the key, the IV, the header protection key, and the next secret.
    fn labels(self) -> (&'static [u8], [&'static [u8]; 4]) {
        match self {
            Self::Tls => (b"tls13 ", [b"key", b"iv", b"", b"traffic upd"]),
            Self::Dtls => (b"dtls13", [b"key", b"iv", b"sn", b"traffic upd"]),
            Self::Quic1 => (b"tls13 ", [b"quic key", b"quic iv", b"quic hp", b"quic ku"]),
            Self::Quic2 => (b"tls13 ", [b"quicv2 key", b"quicv2 iv", b"quicv2 hp", b"quicv2 ku"]),
        }
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// RFC 8446 §7.1: HKDF-Expand-Label with an empty context.
fn expand(prk: &hkdf::Prk, prefix: &[u8], label: &[u8], out: &mut [u8]) -> Option<()> {
    let [_, _, .., length_high, length_low] = out.len().to_be_bytes();
    let lengths = [length_high, length_low, (prefix.len() + label.len()) as u8];
    let info: [&[u8]; 4] = [&lengths, prefix, label, &[0]];
    prk.expand(&info, Length(out.len())).ok()?.fill(out).ok()
}

/// A key and an IV, which decrypt records or packets.
#[derive(Debug)]
pub(super) struct Key {
    aead: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl Key {
    fn new(suite: Suite, key: &[u8], iv: [u8; NONCE_LEN]) -> Option<Self> {
        Some(Self { aead: LessSafeKey::new(UnboundKey::new(suite.aead, key).ok()?), iv })
    }

    /// Decrypts `body` in place. Returns the content, or `None` if `body` is not authentic. `number` is the number of
    /// the record or packet.
    pub fn open<'b>(&self, number: u64, head: &[u8], body: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        self.aead.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(head), body).ok()
    }

    /// Encrypts `body` and appends the authentication tag.
    #[cfg(test)]
    pub fn seal(&self, number: u64, head: &[u8], body: &mut Vec<u8>) {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.aead.seal_in_place_append_tag(nonce, Aad::from(head), body);
        assert!(sealed.is_ok(), "the body is short enough");
    }

    /// RFC 5288 §3: decrypts a record of TLS 1.2 whose nonce ends in the bytes `explicit`.
    pub fn open_explicit<'b>(
        &self,
        explicit: &[u8],
        head: &[u8],
        body: &'b mut [u8],
    ) -> Option<&'b mut [u8]> {
        let mut nonce = self.iv;
        nonce.get_mut(4..)?.get_mut(..explicit.len())?.copy_from_slice(explicit);
        self.aead.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(head), body).ok()
    }
}

/// The traffic secret of one direction and the keys derived from it.
#[derive(Debug)]
pub(super) struct TrafficKeys {
    pub key: Key,
    secret: Vec<u8>,
    suite: Suite,
    protocol: Protocol,
}

impl TrafficKeys {
    /// RFC 8446 §7.3: derives the keys from a traffic secret.
    pub fn new(suite: Suite, protocol: Protocol, secret: &[u8]) -> Option<Self> {
        let prk = hkdf::Prk::new_less_safe(suite.hkdf, secret);
        let (prefix, [key, iv, ..]) = protocol.labels();
        let (mut bytes, mut nonce) = ([0; 32], [0; NONCE_LEN]);
        let bytes = &mut bytes[..suite.aead.key_len()];
        expand(&prk, prefix, key, bytes)?;
        expand(&prk, prefix, iv, &mut nonce)?;
        Some(Self { key: Key::new(suite, bytes, nonce)?, secret: secret.to_vec(), suite, protocol })
    }

    /// RFC 8446 §7.2, RFC 9001 §6.1: returns the keys that follow a key update.
    pub fn next(&self) -> Option<Self> {
        let prk = hkdf::Prk::new_less_safe(self.suite.hkdf, &self.secret);
        let (prefix, [.., update]) = self.protocol.labels();
        let mut secret = vec![0; self.secret.len()];
        expand(&prk, prefix, update, &mut secret)?;
        Self::new(self.suite, self.protocol, &secret)
    }

    /// RFC 9001 §5.4.1, RFC 9147 §4.2.3: returns the key that masks packet numbers or record numbers.
    pub fn header_protection(&self) -> Option<HeaderProtectionKey> {
        let prk = hkdf::Prk::new_less_safe(self.suite.hkdf, &self.secret);
        let (prefix, [_, _, label, _]) = self.protocol.labels();
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..self.suite.header.key_len()];
        expand(&prk, prefix, label, bytes)?;
        HeaderProtectionKey::new(self.suite.header, bytes).ok()
    }
}

/// RFC 9001 §5.2, RFC 9369 §3.3.1: returns the Initial keys of the client and the server for a Destination Connection
/// ID that the client has chosen.
pub(super) fn quic_initial(protocol: Protocol, id: &[u8]) -> Option<[TrafficKeys; 2]> {
    let salt: [u8; 20] = match protocol {
        Protocol::Quic2 => [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
            0xf9, 0xbd, 0x2e, 0xd9,
        ],
        _ => [
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
            0xcc, 0xbb, 0x7f, 0x0a,
        ],
    };
    let initial = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(id);
    let of = |label| {
        let mut secret = [0; 32];
        expand(&initial, b"tls13 ", label, &mut secret)?;
        TrafficKeys::new(suite(0x1301)?, protocol, &secret)
    };
    Some([of(b"client in")?, of(b"server in")?])
}

/// RFC 5246 §6.3: returns the keys of the client and the server in TLS 1.2 and DTLS 1.2.
pub(super) fn tls12(
    suite: Suite,
    master: &[u8],
    client_random: &[u8; 32],
    server_random: &[u8; 32],
) -> Option<[Key; 2]> {
    let (key, iv) = (suite.aead.key_len(), NONCE_LEN - suite.explicit);
    let seed = [&b"key expansion"[..], server_random, client_random].concat();
    let mac = hmac::Key::new(suite.hkdf.hmac_algorithm(), master);
    let (mut block, mut a) = (Vec::new(), hmac::sign(&mac, &seed));
    while block.len() < 2 * (key + iv) {
        block.extend_from_slice(hmac::sign(&mac, &[a.as_ref(), &seed].concat()).as_ref());
        a = hmac::sign(&mac, a.as_ref());
    }
    let of = |side: usize| {
        let mut nonce = [0; NONCE_LEN];
        nonce[..iv].copy_from_slice(block.get(2 * key + side * iv..)?.get(..iv)?);
        Key::new(suite, block.get(side * key..)?.get(..key)?, nonce)
    };
    Some([of(0)?, of(1)?])
}

/// RFC 9000 A.3, RFC 9147 §4.2.2: returns the number nearest to `expected` whose last `bits` bits are `low`.
pub(super) fn nearest(low: u64, bits: u32, expected: u64) -> u64 {
    let size = 1_u64 << bits;
    let candidate = expected & !(size - 1) | low;
    if candidate + size / 2 <= expected && candidate < (1 << 62) - size {
        candidate + size
    } else if candidate > expected + size / 2 && candidate >= size {
        candidate - size
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mask of the client's Initial packet must be that of RFC 9001 A.2 and RFC 9369 A.2.
    #[test]
    fn initial_keys_are_those_of_the_examples_in_the_rfcs() {
        let id = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        for (protocol, sample, mask) in [
            (Protocol::Quic1, 0xd1b1_c98d_d768_9fb8_ec11_d242_b123_dc9b_u128, [0x43, 0x7b, 0x9a, 0xec, 0x36]),
            (Protocol::Quic2, 0xffe6_7b6a_bcdb_4298_b485_dd04_de80_6071, [0x94, 0xa0, 0xc9, 0x5e, 0x80]),
        ] {
            let [client, _] = quic_initial(protocol, &id).expect("keys");
            let header = client.header_protection().expect("a key");
            assert_eq!(header.new_mask(&sample.to_be_bytes()).ok(), Some(mask), "{protocol:?}");
        }
    }

    #[test]
    fn packet_numbers_are_decoded_as_in_the_example_of_the_rfc() {
        assert_eq!(nearest(0x9b32, 16, 0xa82f_30eb), 0xa82f_9b32);
        assert_eq!((nearest(0xff, 8, 0x100), nearest(1, 8, 0xff), nearest(7, 8, 0)), (0xff, 0x101, 7));
    }
}
