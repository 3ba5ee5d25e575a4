//! Seeded random numbers, with independent streams that are derived by name.
//!
//! [`Rng::fork`] returns an independent stream. The stream depends only on the parent's seed and the label, not on how
//! many numbers the parent has drawn. Adding a link or a host therefore leaves the random numbers of other links and
//! hosts unchanged (the idea of ns-3's fixed stream numbers). The generator is xoshiro256++ (Blackman and Vigna, 2019),
//! seeded through SplitMix64. For secrets, a keyed function is used instead. Floating point is not used.

use crate::units::Ratio;
use std::time::Duration;

/// A keyed function, for example an HMAC. An observer without the key cannot distinguish the output from random bytes.
/// The caller provides the function, so that this crate needs no cryptography.
pub type KeyedFunction = fn(key: &[u8; 32], input: &[u8]) -> [u8; 32];

/// A deterministic pseudo-random generator. A generator made from a seed must not be used for secrets, because its
/// output reveals the numbers that follow. A generator made from a key is safe for secrets.
#[derive(Clone)]
pub struct Rng(Source);

#[derive(Clone)]
enum Source {
    Seeded { seed: u64, state: [u64; 4] },
    Keyed { function: KeyedFunction, key: [u8; 32], drawn: u64 },
}

impl std::fmt::Debug for Rng {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Source::Seeded { seed, .. } => write!(f, "Rng(seed {seed})"),
            Source::Keyed { drawn, .. } => write!(f, "Rng(keyed, {drawn} drawn)"),
        }
    }
}

impl Rng {
    /// Creates the generator for `seed`, for tests and experiments that must be repeatable. For traffic with real
    /// peers, use `Rng::from_os` (feature `os-random`), because numbers from a seed can be predicted from the seed or
    /// from earlier output.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        let state = std::array::from_fn(|_| split_mix(&mut mixer));
        Self(Source::Seeded { seed, state })
    }

    /// Creates a generator whose output cannot be predicted without `key`, even from earlier output. The generator runs
    /// `function` in counter mode, with one call of `function` for each number drawn.
    #[must_use]
    pub const fn keyed(key: [u8; 32], function: KeyedFunction) -> Self {
        Self(Source::Keyed { function, key, drawn: 0 })
    }

    /// Returns an independent generator for `label`. Its numbers depend only on this generator's seed or key, and on
    /// the label.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        match &self.0 {
            Source::Seeded { seed, .. } => {
                // The label is hashed with FNV-1a, and the hash is mixed with the seed.
                let mut hash = 0xcbf2_9ce4_8422_2325_u64;
                for byte in label.bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                }
                let mut mixer = seed ^ hash.rotate_left(29);
                Self::new(split_mix(&mut mixer))
            }
            Source::Keyed { function, key, .. } => {
                Self::keyed(function(key, &[b"fork ", label.as_bytes()].concat()), *function)
            }
        }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = match &mut self.0 {
            Source::Seeded { state, .. } => state,
            Source::Keyed { function, key, drawn } => return next_keyed(*function, key, drawn),
        };
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Returns 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Returns a uniformly distributed number in `0..bound`, or 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiply-shift method is below bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with probability `p`. If `p` is 0 or 1, no number is drawn.
    #[inline]
    pub fn chance(&mut self, p: Ratio) -> bool {
        if p == Ratio::ZERO {
            return false;
        }
        if p == Ratio::ONE {
            return true;
        }
        self.below(Ratio::ONE.parts()) < p.parts()
    }

    /// Returns a uniformly distributed duration in `0..=bound`.
    pub fn duration_up_to(&mut self, bound: Duration) -> Duration {
        Duration::from_nanos(self.below(crate::time::nanos(bound).saturating_add(1)))
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Puts `items` in a random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Generators whose output is unpredictable. Only the key comes from the operating system; all output is computed from
/// the key.
#[cfg(feature = "os-random")]
impl Rng {
    /// Creates a generator for traffic with real peers. Verification tags, cookies, nonces and initial sequence numbers
    /// from it cannot be guessed (RFC 9260 §5.3.1, §12.2.4.2). The generator is HMAC-SHA-256 in counter mode, with a
    /// key from the operating system.
    ///
    /// ```
    /// use anabranch_base::Rng;
    ///
    /// let (mut one, mut other) = (Rng::from_os()?, Rng::from_os()?);
    /// assert_ne!(one.next_u64(), other.next_u64());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the operating system could not provide random bytes.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn from_os() -> std::io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|why| std::io::Error::other(why.to_string()))?;
        Ok(Self::from_key(key))
    }

    /// Like `from_os`, but the caller provides the key: 32 random bytes. Used where there is no operating system, for
    /// example in a web page (`crypto.getRandomValues`).
    ///
    /// ```
    /// use anabranch_base::Rng;
    ///
    /// let mut rng = Rng::from_key([7; 32]);
    /// assert_eq!(rng.next_u64(), Rng::from_key([7; 32]).next_u64(), "the output depends only on the key");
    /// ```
    #[must_use]
    pub const fn from_key(key: [u8; 32]) -> Self {
        Self::keyed(key, hmac_sha256)
    }
}

#[cfg(feature = "os-random")]
fn hmac_sha256(key: &[u8; 32], input: &[u8]) -> [u8; 32] {
    use hmac::Mac;
    let Ok(mut mac) = hmac::Hmac::<sha2::Sha256>::new_from_slice(key) else {
        unreachable!("a key of any length will do")
    };
    mac.update(input);
    mac.finalize().into_bytes().into()
}

#[cold]
fn next_keyed(function: KeyedFunction, key: &[u8; 32], drawn: &mut u64) -> u64 {
    *drawn += 1;
    let block = function(key, &drawn.to_le_bytes());
    block.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_depends_on_seed_and_label_alone() {
        let mut parent = Rng::new(7);
        let before = parent.fork("link/3").next_u64();
        parent.next_u64();
        assert_eq!(parent.fork("link/3").next_u64(), before);
        assert_ne!(parent.fork("link/4").next_u64(), before);
        assert_ne!(Rng::new(8).fork("link/3").next_u64(), before);
    }

    #[test]
    fn a_keyed_generator_uses_its_function_and_forks_get_other_keys() {
        // A simple replacement for HMAC. Its output depends on every byte of the key and of the input.
        fn mix(key: &[u8; 32], input: &[u8]) -> [u8; 32] {
            let mut out = *key;
            for (i, byte) in input.iter().enumerate() {
                out[i % 32] = out[i % 32].wrapping_mul(31).wrapping_add(*byte);
            }
            out
        }
        let mut rng = Rng::keyed([7; 32], mix);
        let fork = rng.fork("a").next_u64();
        let (first, second) = (rng.next_u64(), rng.next_u64());
        assert_ne!(first, second);
        assert_eq!(rng.fork("a").next_u64(), fork);
        assert_ne!(rng.fork("b").next_u64(), fork);
        assert!(!format!("{rng:?}").contains("7, 7"), "a key is nothing to print");
    }

    #[test]
    fn chance_hits_its_probability() {
        let mut rng = Rng::new(1);
        let p: Ratio = "1%".parse().expect("a ratio");
        let hits = (0..1_000_000).filter(|_| rng.chance(p)).count();
        // The expected number of hits is 10,000. The bounds are ten standard deviations below and above it.
        assert!((9_000..11_000).contains(&hits), "{hits}");
    }
}
