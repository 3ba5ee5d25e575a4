//! The HMACs of chunk authentication. Each HMAC state is keyed once and used for many packets.
//!
//! Implements RFC 4895 §3.3 (the identifiers). RFC 2104 defines the HMAC itself.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The hash function of an HMAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Algorithm {
    Sha1,
    Sha256,
}

/// The size of the longest HMAC in bytes.
pub(crate) const LONGEST: usize = 32;

impl Algorithm {
    /// RFC 4895 §3.3: returns the identifier.
    pub(crate) const fn id(self) -> u16 {
        match self {
            Self::Sha1 => 1,
            Self::Sha256 => 3,
        }
    }

    /// Returns the algorithm with this identifier, if it is supported.
    pub(crate) const fn of(id: u16) -> Option<Self> {
        match id {
            1 => Some(Self::Sha1),
            3 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// Returns the size of the HMAC in bytes.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// An HMAC state that has absorbed its key. Each computation starts from a copy of this state.
#[derive(Clone, Debug)]
pub(crate) enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

/// RFC 2104 §2: pads a key to 64 bytes, the block size of SHA-1 and SHA-256. A longer key is hashed first.
fn block<H: Digest>(key: &[u8]) -> [u8; 64] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        let digest = H::digest(key);
        block[..digest.len()].copy_from_slice(&digest);
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    block
}

impl Keyed {
    pub(crate) fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        match algorithm {
            Algorithm::Sha1 => Self::Sha1(<Hmac<Sha1> as KeyInit>::new(&block::<Sha1>(key).into())),
            Algorithm::Sha256 => Self::Sha256(<Hmac<Sha256> as KeyInit>::new(&block::<Sha256>(key).into())),
        }
    }

    /// Writes the HMAC of the concatenated `parts` to `out`, which must have the size of the HMAC.
    pub(crate) fn compute(&self, parts: &[&[u8]], out: &mut [u8]) {
        match self.clone() {
            Self::Sha1(mac) => out.copy_from_slice(&fed(mac, parts).finalize().into_bytes()),
            Self::Sha256(mac) => out.copy_from_slice(&fed(mac, parts).finalize().into_bytes()),
        }
    }

    /// Returns whether `mac` is the HMAC of `parts`. The comparison takes constant time.
    pub(crate) fn verify(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        match self.clone() {
            Self::Sha1(keyed) => fed(keyed, parts).verify_slice(mac).is_ok(),
            Self::Sha256(keyed) => fed(keyed, parts).verify_slice(mac).is_ok(),
        }
    }
}

fn fed<M: Mac>(mut mac: M, parts: &[&[u8]]) -> M {
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn mac(algorithm: Algorithm, key: &[u8], data: &[u8]) -> String {
        let mut out = [0; LONGEST];
        let out = &mut out[..algorithm.size()];
        let keyed = Keyed::new(algorithm, key);
        let (head, tail) = data.split_at(data.len() / 3);
        keyed.compute(&[head, tail], out);
        assert!(keyed.verify(&[data], out));
        out[0] ^= 1;
        assert!(!keyed.verify(&[data], out) && !keyed.verify(&[data], &out[1..]));
        out[0] ^= 1;
        hex(out)
    }

    /// RFC 2202 §3: test cases 1, 2, 3, 6 and 7.
    #[test]
    fn sha1_gives_what_rfc_2202_lists() {
        let cases: [(&[u8], &[u8], &str); 5] = [
            (&[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
            (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (&[0xaa; 20], &[0xdd; 50], "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
            (
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "aa4ae5e15272d00e95705637ce8a3b55ed402112",
            ),
            (
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
                "e8e99d0f45237d786d6bbaa7965c7808bbff1a91",
            ),
        ];
        for (key, data, expected) in cases {
            assert_eq!(mac(Algorithm::Sha1, key, data), expected);
        }
    }

    /// The test cases of RFC 4231 §4.2, §4.3, §4.4 and §4.7.
    #[test]
    fn sha256_gives_what_rfc_4231_lists() {
        let cases: [(&[u8], &[u8], &str); 4] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, data, expected) in cases {
            assert_eq!(mac(Algorithm::Sha256, key, data), expected);
        }
    }
}
