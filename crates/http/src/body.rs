//! Generates the content of the objects that a server sends in an experiment.
//!
//! The body of an object is a section of an endless sequence, which repeats a fixed table of pseudo-random bytes. The
//! object's name determines where the section begins. Therefore a body of any length costs no memory and is written
//! without a copy. A receiver can check each byte. Bytes that were lost, duplicated, changed, misplaced or taken from
//! another object do not match. The period of the table is a prime number, so it is not a multiple of any packet or
//! message size.

use anabranch_base::Rng;
use bytes::Bytes;
use std::sync::OnceLock;

/// The content of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    start: usize,
}

impl Pattern {
    /// Returns the content of the object called `name`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        // The hash is FNV-1a with 64 bits.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { start: (hash % PERIOD as u64) as usize }
    }

    /// Returns the bytes of the content from `offset` on, without a copy. Returns at most `most` and at most [`CHUNK`]
    /// bytes.
    #[must_use]
    pub fn bytes(self, offset: u64, most: u64) -> Bytes {
        let begin = self.index(offset);
        let length = most.min(CHUNK as u64) as usize;
        table().slice(begin..begin + length)
    }

    /// Checks that `bytes` equal the content from `offset` on.
    ///
    /// # Errors
    /// The offset of the first byte that differs from the content.
    pub fn check(self, offset: u64, bytes: &[u8]) -> Result<(), u64> {
        let mut at = offset;
        for part in bytes.chunks(CHUNK) {
            let begin = self.index(at);
            let right = &table()[begin..begin + part.len()];
            if part != right {
                let good = part.iter().zip(right).take_while(|(a, b)| a == b).count();
                return Err(at + good as u64);
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    fn index(self, offset: u64) -> usize {
        ((self.start as u64 + offset % PERIOD as u64) % PERIOD as u64) as usize
    }
}

/// Returns one period of the repeated content. [`CHUNK`] bytes of the next period follow, so that a chunk can begin
/// at any position of the period.
fn table() -> &'static Bytes {
    static TABLE: OnceLock<Bytes> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut bytes = vec![0; PERIOD];
        Rng::new(0x616e_6162_7261_6e63).fill(&mut bytes);
        bytes.extend_from_within(..CHUNK);
        Bytes::from(bytes)
    })
}

/// The maximum number of bytes that [`Pattern::bytes`] returns at once.
pub const CHUNK: usize = 16 * 1024;
const PERIOD: usize = 65_521;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_exactly_the_generated_bytes() {
        let (first, second) = (Pattern::of("/a"), Pattern::of("/b"));
        let mut body = Vec::new();
        while body.len() < 200_000 {
            body.extend_from_slice(&first.bytes(body.len() as u64, (200_000 - body.len()) as u64));
        }
        assert_eq!(first.check(0, &body), Ok(()));
        assert_eq!(first.check(70_000, &body[70_000..]), Ok(()));
        assert!(second.check(0, &body).is_err());
        assert!(first.check(1_448, &body[..1_448]).is_err(), "out of place");
        body[123_456] ^= 1;
        assert_eq!(first.check(0, &body), Err(123_456));
    }
}
