//! The authentication parameters of the handshake, and the association key. The key is derived from those parameters
//! and the endpoint pair shared key (`config::shared_keys`).
//!
//! Implements RFC 4895 §6.1.

use crate::config::{ChunkSet, Config, Hmacs};
use anabranch_wire::sctp::param::hmacs;
use anabranch_wire::sctp::{ChunkWriter, Param};
use std::cmp::Ordering;

use super::mac::Algorithm;

/// RFC 4895 §3.1: the size of the random number in bytes.
pub(crate) const RANDOM: usize = 32;

/// The authentication parameters of one side in INIT or INIT ACK.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AuthParams {
    pub(crate) random: [u8; RANDOM],
    /// The chunk types for which the sender of these parameters requires authentication; `None` if the sender listed
    /// none.
    pub(crate) chunks: Option<Vec<u8>>,
    /// HMAC identifiers, two bytes each, in order of preference.
    pub(crate) hmacs: Vec<u8>,
}

impl AuthParams {
    /// Returns the parameters that this side sends.
    pub(crate) fn ours(config: &Config, random: [u8; RANDOM]) -> Self {
        let chunks = config.guarded_chunks().kinds();
        let hmacs: &[u8] = match config.auth_hmac {
            Hmacs::Sha256First => &[0, 3, 0, 1],
            Hmacs::Sha1Only => &[0, 1],
        };
        // RFC 4895 §6.1: an empty list may be left out.
        Self { random, chunks: (!chunks.is_empty()).then_some(chunks), hmacs: hmacs.to_vec() }
    }

    /// Reads the peer's authentication parameters. Returns `Ok(None)` if the peer does not support authentication.
    pub(crate) fn read(
        random: Option<&[u8]>,
        chunks: Option<&[u8]>,
        hmacs: Option<&[u8]>,
    ) -> Result<Option<Self>, &'static str> {
        /// The maximum number of HMAC identifiers. The number is small because the cookie stores the identifiers. No
        /// known peer lists more identifiers.
        const MAX_HMACS: usize = 64;
        let (Some(random), Some(hmacs)) = (random, hmacs) else {
            return Ok(None);
        };
        let random = random.try_into().map_err(|_| "RFC 4895 6.1: a RANDOM that is not 32 bytes long")?;
        if !hmacs.len().is_multiple_of(2) || hmacs.len() > 2 * MAX_HMACS {
            return Err("RFC 4895 3.3: an HMAC-ALGO of an impossible length");
        }
        if chunks.is_some_and(|kinds| kinds.len() > 256) {
            return Err("RFC 4895 3.2: more than 256 chunk types");
        }
        let params = Self { random, chunks: chunks.map(<[u8]>::to_vec), hmacs: hmacs.to_vec() };
        if params.algorithm().is_none() {
            return Err("RFC 4895 6.1: an HMAC-ALGO without SHA-1");
        }
        Ok(Some(params))
    }

    /// Appends the parameters.
    pub(crate) fn emit(&self, chunk: &mut ChunkWriter<'_>) {
        Param::Random(&self.random).emit(chunk);
        if let Some(kinds) = &self.chunks {
            Param::ChunkList(kinds).emit(chunk);
        }
        Param::HmacAlgos(&self.hmacs).emit(chunk);
    }

    /// RFC 4895 §6.1: returns the key vector: the parameters including their headers, without padding.
    pub(crate) fn vector(&self) -> Vec<u8> {
        let mut vector = Vec::new();
        let parts = [
            (0x8002, Some(&self.random[..])),
            (0x8003, self.chunks.as_deref()),
            (0x8004, Some(&self.hmacs[..])),
        ];
        for (kind, value) in parts {
            if let Some(value) = value {
                vector.extend_from_slice(&u16::to_be_bytes(kind));
                vector.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
                vector.extend_from_slice(value);
            }
        }
        vector
    }

    /// Returns the chunk types that this side accepts only if authenticated.
    pub(crate) fn guarded(&self) -> ChunkSet {
        self.chunks.iter().flatten().copied().collect()
    }

    /// Returns whether this side offered the HMAC algorithm.
    pub(crate) fn takes(&self, hmac: u16) -> bool {
        hmacs(&self.hmacs).any(|id| id == hmac)
    }

    /// RFC 4895 §6.1: returns the first algorithm in the peer's HMAC-ALGO list that this side supports.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        hmacs(&self.hmacs).find_map(Algorithm::of)
    }
}

/// RFC 4895 §6.1: compares two key vectors as numbers. If the numbers are equal, the shorter vector comes first.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    let digits = |vector: &[u8]| vector.iter().position(|&byte| byte != 0).unwrap_or(vector.len());
    let (x, y) = (&a[digits(a)..], &b[digits(b)..]);
    x.len().cmp(&y.len()).then_with(|| x.cmp(y)).then_with(|| a.len().cmp(&b.len()))
}

/// RFC 4895 §6.1: returns the association shared key.
pub(crate) fn association_key(shared: &[u8], one: &[u8], other: &[u8]) -> Vec<u8> {
    let (first, second) = if order(one, other) == Ordering::Greater { (other, one) } else { (one, other) };
    [shared, first, second].concat()
}

#[cfg(test)]
mod tests {
    use super::super::mac::Keyed;
    use super::*;

    #[test]
    fn vectors_are_compared_as_numbers() {
        assert_eq!(association_key(b"k", &[1, 0], &[0xff]), b"k\xff\x01\x00");
        assert_eq!(association_key(b"k", &[0xff], &[1, 0]), b"k\xff\x01\x00");
        assert_eq!(association_key(b"", &[2, 1], &[1, 9]), [1, 9, 2, 1]);
        // Two vectors that are equal as numbers: the shorter one comes first.
        assert_eq!(association_key(b"", &[0, 0, 7], &[0, 7]), [0, 7, 0, 0, 7]);
        assert_eq!(order(&[0, 0], &[0]), Ordering::Greater);
        assert_eq!(order(&[5], &[5]), Ordering::Equal);
    }

    /// A hand-made example with the key `secret`. One side has a RANDOM of ones and a list of three chunk types. The
    /// other side has a RANDOM of zeros and no list. The HMACs were computed with another implementation.
    #[test]
    fn a_key_from_two_handshakes() {
        let one = AuthParams { random: [1; 32], chunks: Some(vec![0, 0xc1, 0x80]), hmacs: vec![0, 3, 0, 1] };
        let other = AuthParams { random: [0; 32], chunks: None, hmacs: vec![0, 1] };
        let vector = one.vector();
        assert_eq!(vector[..4], [0x80, 2, 0, 36]);
        assert_eq!(vector[36..], [0x80, 3, 0, 7, 0, 0xc1, 0x80, 0x80, 4, 0, 8, 0, 3, 0, 1], "no padding");
        assert_eq!(other.vector().len(), 36 + 6);
        let key = association_key(b"secret", &vector, &other.vector());
        assert_eq!(key, association_key(b"secret", &other.vector(), &vector));
        assert_eq!(key.len(), 6 + 51 + 42);
        assert_eq!(key[..10], *b"secret\x80\x02\x00\x24");
        assert_eq!(key[10], 0, "the shorter vector is the smaller number");
        let chunks = [15, 0, 0, 28, 0, 2, 0, 1];
        let mut mac = [0; 20];
        Keyed::new(Algorithm::Sha1, &key).compute(&[&chunks, &[0; 20], b"\x0b\x00\x00\x04"], &mut mac);
        assert_eq!(mac.map(|byte| format!("{byte:02x}")).concat(), EXPECTED_SHA1);
        let chunks = [15, 0, 0, 40, 0, 2, 0, 3];
        let mut mac = [0; 32];
        Keyed::new(Algorithm::Sha256, &key).compute(&[&chunks, &[0; 32], b"\x0b\x00\x00\x04"], &mut mac);
        assert_eq!(mac.map(|byte| format!("{byte:02x}")).concat(), EXPECTED_SHA256);
    }

    const EXPECTED_SHA1: &str = "f2618613e3c9ad678e4b3fb9cdfc165aa17c2ac8";
    const EXPECTED_SHA256: &str = "163dee909f0b65e897b146a5677d618d2d245edb37e74f50fa8cb80c193a3143";

    #[test]
    fn the_first_known_algorithm_is_used() {
        let params = |hmacs: &[u8]| AuthParams { random: [0; 32], chunks: None, hmacs: hmacs.to_vec() };
        assert_eq!(params(&[0, 9, 0, 3, 0, 1]).algorithm(), Some(Algorithm::Sha256));
        assert_eq!(params(&[0, 1, 0, 3]).algorithm(), Some(Algorithm::Sha1));
        assert_eq!(params(&[0, 2]).algorithm(), None);
    }
}
