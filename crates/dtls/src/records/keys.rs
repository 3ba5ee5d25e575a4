//! Encrypts and decrypts single records in place: RFC 9147 §4 for DTLS 1.3, RFC 6347 §4.1 for DTLS 1.2.
//!
//! This module knows only keys and bytes. Its callers assign the record numbers.

use super::window::Window;
use crate::aead::Aead;
use crate::secrets::TrafficSecret;
use anabranch_tls::PlaceholderKey;
use ring::aead::quic::HeaderProtectionKey;
use ring::aead::{self, LessSafeKey, NONCE_LEN, UnboundKey};
use std::ops::Range;

/// Content types (RFC 8446 §5.1, RFC 9147 §4, RFC 5246 §6.2.1).
pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const DATA: u8 = 23;
pub(super) const ACK: u8 = 26;

/// The length of an authentication tag in bytes, which is the same for all ciphers used here.
pub(super) const TAG: usize = 16;
/// RFC 8446 §5.2: the maximum length of an encrypted record, which is 2^14 bytes of payload and 256 bytes for
/// encryption.
const MAX_BODY: usize = (1 << 14) + 256;

/// A decrypted, authentic record: its number, its content type, and the range of its content in the record.
pub(super) struct Content {
    pub number: u64,
    pub kind: u8,
    pub range: Range<usize>,
}

/// The keys of one direction in one epoch of DTLS 1.3.
pub(super) struct Keys13 {
    cipher: LessSafeKey,
    number_cipher: HeaderProtectionKey,
    iv: [u8; NONCE_LEN],
    /// The key with which application data is encrypted instead, if the simulation uses the placeholder cipher.
    placeholder: Option<PlaceholderKey>,
}

/// The parsed header of an encrypted DTLS 1.3 record (RFC 9147 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// The last two bits of the epoch.
    pub epoch: u8,
    /// The length of the record number in bytes: one or two.
    number_len: usize,
    /// The offset of the encrypted part in the record.
    body: usize,
    pub end: usize,
}

impl Header {
    /// Parses the header at the start of `bytes`. Returns `None` if `bytes` does not begin with an encrypted record. In
    /// that case, later records in `bytes` cannot be found.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        // RFC 9147 §4: the first byte has the bits 001CSLEE. C, which announces a connection ID, must be 0.
        if first & 0b1111_0000 != 0b0010_0000 {
            return None;
        }
        let number_len = if first & 0b1000 == 0 { 1 } else { 2 };
        let (body, end) = if first & 0b100 == 0 {
            (1 + number_len, bytes.len())
        } else {
            let length = bytes.get(1 + number_len..)?.first_chunk()?;
            (3 + number_len, 3 + number_len + usize::from(u16::from_be_bytes(*length)))
        };
        // RFC 9147 §4.2.3: the encrypted part must be at least as long as the sample that masks the record number.
        let sealed = end.checked_sub(body)?;
        let is_whole = end <= bytes.len() && (TAG + 1..=MAX_BODY).contains(&sealed);
        is_whole.then_some(Self { epoch: first & 3, number_len, body, end })
    }

    /// Returns the record number whose low bits are in `head`, decrypted. Of these numbers, it is the one that is nearest to
    /// the numbers in `window`.
    #[inline]
    fn nearest_number(&self, head: &[u8], window: &Window) -> Option<u64> {
        let low = head.get(1..1 + self.number_len)?.iter().fold(0, |low, byte| low << 8 | u64::from(*byte));
        Some(window.nearest(low, 8 * self.number_len as u32))
    }
}

impl Keys13 {
    /// Derives the keys from a traffic secret (RFC 8446 §7.3, RFC 9147 §4.2.3). Returns `None` if the cipher does not
    /// accept the derived keys.
    pub fn new(aead: Aead, secret: &TrafficSecret) -> Option<Self> {
        let length = aead.algorithm.key_len();
        let [key, number_cipher] =
            [b"key".as_slice(), b"sn"].map(|label| secret.expand::<{ aead::MAX_TAG_LEN * 2 }>(label, length));
        let cipher = UnboundKey::new(aead.algorithm, &key[..length]).ok()?;
        let number_cipher = HeaderProtectionKey::new(aead.number_cipher, &number_cipher[..length]).ok()?;
        Some(Self {
            cipher: LessSafeKey::new(cipher),
            number_cipher,
            iv: secret.expand(b"iv", NONCE_LEN),
            placeholder: aead.placeholder.then(|| PlaceholderKey::new(&key[..length])),
        })
    }

    /// Appends an encrypted record to `out`.
    #[inline]
    pub fn seal(&self, epoch: u64, number: u64, kind: u8, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let sealed = content.len() + 1 + TAG;
        let start = out.len();
        let [length, low] = [sealed as u16, number as u16].map(u16::to_be_bytes);
        // Headers that we send always have a 16-bit record number and a length.
        let header = [0b0010_1100 | (epoch & 3) as u8, low[0], low[1], length[0], length[1]];
        out.reserve(header.len() + sealed);
        out.extend_from_slice(&header);
        out.extend_from_slice(content);
        out.push(kind);
        if let Some(key) = self.placeholder.as_ref().filter(|_| kind == DATA) {
            out.extend_from_slice(&key.tag(&nonce_bytes(&self.iv, number), &header, content.len() + 1));
            return Some(());
        }
        let body = &mut out[start + header.len()..];
        let nonce = mixed(&self.iv, number);
        let tag = self.cipher.seal_in_place_separate_tag(nonce, aead::Aad::from(header), body).ok()?;
        out.extend_from_slice(tag.as_ref());
        // RFC 9147 §4.2.3: the record number is encrypted with a mask that is made from a sample of the ciphertext.
        let sample = out.get(start + header.len()..)?.get(..SAMPLE)?;
        let mask = self.number_cipher.new_mask(sample).ok()?;
        out[start + 1] ^= mask[0];
        out[start + 2] ^= mask[1];
        Some(())
    }

    /// Decrypts `record`, which must be exactly one record, in place. Returns `None` if the record is a replay or not
    /// authentic.
    #[inline]
    pub fn open(&self, window: &Window, header: Header, record: &mut [u8]) -> Option<Content> {
        if let Some(key) = &self.placeholder
            && let Some(content) = self.open_placeholder(key, window, header, record)
        {
            return Some(content);
        }
        let (head, body) = record.split_at_mut_checked(header.body)?;
        let mask = self.number_cipher.new_mask(body.get(..SAMPLE)?).ok()?;
        let number = head.get_mut(1..1 + header.number_len)?;
        number.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        let number = header.nearest_number(head, window)?;
        if !window.is_fresh(number) {
            return None;
        }
        let opened =
            self.cipher.open_in_place(mixed(&self.iv, number), aead::Aad::from(&*head), body).ok()?;
        Some(Content::of(number, header, opened))
    }

    /// Returns the content of a record that was encrypted with the placeholder cipher. Returns `None` if the record is a
    /// replay, not authentic, or encrypted with another cipher.
    fn open_placeholder(
        &self,
        key: &PlaceholderKey,
        window: &Window,
        header: Header,
        record: &[u8],
    ) -> Option<Content> {
        let (head, body) = record.split_at_checked(header.body)?;
        let number = header.nearest_number(head, window)?;
        let length = key.content_len(&nonce_bytes(&self.iv, number), head, body)?;
        window.is_fresh(number).then(|| Content::of(number, header, &body[..length]))
    }
}

impl Content {
    /// Finds the content type, which follows the content of a decrypted record. RFC 8446 §5.4: zeros at the end are
    /// padding. A record that contains only padding has no content type.
    fn of(number: u64, header: Header, opened: &[u8]) -> Self {
        let end = opened.iter().rposition(|byte| *byte != 0);
        let (kind, length) = end.map_or((0, 0), |end| (opened[end], end));
        Self { number, kind, range: header.body..header.body + length }
    }
}

/// The number of ciphertext bytes from which the mask of the record number is made.
const SAMPLE: usize = 16;

/// RFC 8446 §5.3: the nonce is the IV with the record number XORed into its last bytes.
#[inline]
fn nonce_bytes(iv: &[u8; NONCE_LEN], number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = *iv;
    nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
    nonce
}

#[inline]
fn mixed(iv: &[u8; NONCE_LEN], number: u64) -> aead::Nonce {
    aead::Nonce::assume_unique_for_key(nonce_bytes(iv, number))
}

/// The keys of one direction of DTLS 1.2, which has one encrypted epoch.
pub(super) struct Keys12 {
    cipher: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// The number of bytes of the explicit nonce in a record.
    explicit: usize,
}

/// The only encrypted epoch of DTLS 1.2, because there is no renegotiation.
pub(super) const EPOCH_12: u16 = 1;
/// The size of the record header in bytes: type, version, epoch, number and length.
pub(super) const HEADER_12: usize = 13;

/// The header of a DTLS 1.2 record, or of an unencrypted DTLS 1.3 record (RFC 6347 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header12 {
    pub kind: u8,
    pub epoch: u16,
    pub number: u64,
    pub end: usize,
}

impl Header12 {
    /// Parses the header at the start of `bytes`. Returns `None` if there is no valid header. In that case, later
    /// records in `bytes` cannot be found.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<HEADER_12>()?;
        let [kind, major, _, epoch @ .., l0, l1] = head;
        let [e0, e1, number @ ..] = *epoch;
        let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let end = HEADER_12 + usize::from(u16::from_be_bytes([*l0, *l1]));
        let is_whole = *major == 0xfe && end <= bytes.len() && end <= HEADER_12 + MAX_BODY;
        is_whole.then_some(Self { kind: *kind, epoch: u16::from_be_bytes([e0, e1]), number, end })
    }

    pub fn write(kind: u8, epoch: u16, number: u64, length: usize) -> [u8; HEADER_12] {
        let [_, _, n @ ..] = number.to_be_bytes();
        let ([e0, e1], [l0, l1]) = (epoch.to_be_bytes(), (length as u16).to_be_bytes());
        [kind, 0xfe, 0xfd, e0, e1, n[0], n[1], n[2], n[3], n[4], n[5], l0, l1]
    }
}

impl Keys12 {
    /// Derives the client's and the server's keys from the key block. RFC 5246 §6.3: AEAD ciphers have no MAC keys.
    /// Returns `None` if the block is too short.
    pub fn pair(aead: Aead, block: &[u8]) -> Option<[Self; 2]> {
        let (key, iv) = (aead.algorithm.key_len(), NONCE_LEN - aead.explicit);
        let of = |side: usize| {
            let nonce = block.get(2 * key + side * iv..)?.get(..iv)?;
            let key = UnboundKey::new(aead.algorithm, block.get(side * key..)?.get(..key)?).ok()?;
            let mut iv = [0; NONCE_LEN];
            iv[..nonce.len()].copy_from_slice(nonce);
            Some(Self { cipher: LessSafeKey::new(key), iv, explicit: aead.explicit })
        };
        Some([of(0)?, of(1)?])
    }

    /// RFC 5288 §3: the nonce consists of the salt and the record's eight explicit bytes. RFC 7905 §2: without explicit
    /// bytes, the nonce is the IV with the epoch and the record number XORed into it.
    #[inline]
    fn nonce(&self, number: u64, explicit: [u8; 8]) -> aead::Nonce {
        if self.explicit == 0 {
            return mixed(&self.iv, u64::from(EPOCH_12) << 48 | number);
        }
        let mut nonce = self.iv;
        nonce[4..].copy_from_slice(&explicit);
        aead::Nonce::assume_unique_for_key(nonce)
    }

    /// Returns the additional authenticated data of a record (RFC 5246 §6.2.3.3): epoch and number, type, version, and
    /// length of the content.
    #[inline]
    fn additional_data(kind: u8, number: u64, length: usize) -> aead::Aad<[u8; HEADER_12]> {
        let mut additional_data = [0; HEADER_12];
        additional_data[..8].copy_from_slice(&(u64::from(EPOCH_12) << 48 | number).to_be_bytes());
        additional_data[8..11].copy_from_slice(&[kind, 0xfe, 0xfd]);
        additional_data[11..].copy_from_slice(&(length as u16).to_be_bytes());
        aead::Aad::from(additional_data)
    }

    /// Appends an encrypted record to `out`. `prefix` is the first two bytes of the explicit nonce.
    #[inline]
    pub fn seal(&self, prefix: u16, number: u64, kind: u8, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len() + HEADER_12 + self.explicit;
        let explicit = (u64::from(prefix) << 48 | number).to_be_bytes();
        out.reserve(HEADER_12 + self.explicit + content.len() + TAG);
        out.extend_from_slice(&Header12::write(kind, EPOCH_12, number, self.explicit + content.len() + TAG));
        out.extend_from_slice(&explicit[..self.explicit]);
        out.extend_from_slice(content);
        let additional_data = Self::additional_data(kind, number, content.len());
        let nonce = self.nonce(number, explicit);
        let tag = self.cipher.seal_in_place_separate_tag(nonce, additional_data, &mut out[start..]).ok()?;
        out.extend_from_slice(tag.as_ref());
        Some(())
    }

    /// Decrypts `record`, which must be exactly one record of the encrypted epoch, in place. Returns `None` if the
    /// record is a replay or not authentic.
    #[inline]
    pub fn open(&self, window: &Window, header: Header12, record: &mut [u8]) -> Option<Content> {
        let body = HEADER_12 + self.explicit;
        let length = header.end.checked_sub(body + TAG)?;
        if !window.is_fresh(header.number) {
            return None;
        }
        let explicit = record.get(HEADER_12..)?.first_chunk().copied().unwrap_or_default();
        let nonce = self.nonce(header.number, explicit);
        let additional_data = Self::additional_data(header.kind, header.number, length);
        self.cipher.open_in_place(nonce, additional_data, record.get_mut(body..)?).ok()?;
        Some(Content { number: header.number, kind: header.kind, range: body..body + length })
    }
}
