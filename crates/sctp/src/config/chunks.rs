//! A set of chunk types and its text form. The set lists the chunks that are accepted only if they are authenticated.

use std::fmt;

/// A set of chunk types.
///
/// ```
/// use anabranch_sctp::ChunkSet;
///
/// let mut set = ChunkSet::default();
/// set.insert(0x00);
/// set.insert(0x01);
/// assert_eq!(set.kinds(), [0x00], "INIT is never authenticated");
/// set.remove(0x00);
/// assert!(set.is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkSet([u64; 4]);

/// RFC 4895 §3.2: INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH cannot be listed, because they are never authenticated.
const NEVER: [u8; 4] = [1, 2, 14, 15];

/// The chunk types that can be listed, by name.
const NAMES: &[(&str, &[u8])] = &[
    ("data", &[0x00, 0x40]),
    ("sack", &[0x03, 0x10]),
    ("heartbeat", &[0x04, 0x05]),
    ("abort", &[0x06]),
    ("shutdown", &[0x07, 0x08]),
    ("error", &[0x09]),
    ("cookie_echo", &[0x0a]),
    ("cookie_ack", &[0x0b]),
    ("reconfig", &[0x82]),
    ("forward_tsn", &[0xc0, 0xc2]),
];

impl ChunkSet {
    /// Returns true if the set contains the chunk type `kind`.
    #[must_use]
    #[inline]
    pub const fn has(&self, kind: u8) -> bool {
        self.0[(kind >> 6) as usize] & 1 << (kind & 63) != 0
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.0, [0, 0, 0, 0])
    }

    /// Adds the chunk type `kind`, unless chunks of this type are never authenticated.
    pub fn insert(&mut self, kind: u8) {
        if !NEVER.contains(&kind) {
            self.0[usize::from(kind >> 6)] |= 1 << (kind & 63);
        }
    }

    /// Removes the chunk type `kind`.
    pub fn remove(&mut self, kind: u8) {
        self.0[usize::from(kind >> 6)] &= !(1 << (kind & 63));
    }

    /// Returns the chunk types in ascending order.
    #[must_use]
    pub fn kinds(&self) -> Vec<u8> {
        (0..=u8::MAX).filter(|&kind| self.has(kind)).collect()
    }

    /// Parses `none`, `all`, or names of chunks joined by `+`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::default()),
            "all" => Ok(NAMES.iter().flat_map(|(_, kinds)| kinds.iter().copied()).collect()),
            _ => {
                let mut set = Self::default();
                for name in text.split('+') {
                    let kinds = NAMES.iter().find(|(known, _)| *known == name).map(|(_, kinds)| *kinds);
                    kinds
                        .ok_or_else(|| format!("'{name}' is none of them"))?
                        .iter()
                        .for_each(|&kind| set.insert(kind));
                }
                Ok(set)
            }
        }
    }
}

impl FromIterator<u8> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = u8>>(kinds: I) -> Self {
        let mut set = Self::default();
        kinds.into_iter().for_each(|kind| set.insert(kind));
        set
    }
}

impl fmt::Display for ChunkSet {
    /// Writes the text form that the knob `auth_chunks` parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |kinds: &[u8]| kinds.iter().all(|&kind| self.has(kind));
        if self.is_empty() {
            return f.write_str("none");
        }
        if NAMES.iter().all(|(_, kinds)| named(kinds)) {
            return f.write_str("all");
        }
        let names: Vec<_> = NAMES.iter().filter(|(_, kinds)| named(kinds)).map(|(name, _)| *name).collect();
        f.write_str(&names.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["none", "all", "data", "data+abort+cookie_echo", "heartbeat+forward_tsn"] {
            assert_eq!(ChunkSet::parse(text).expect(text).to_string(), text);
        }
        assert!(ChunkSet::parse("data+init").is_err() && ChunkSet::parse("").is_err());
    }

    /// RFC 4895 §3.2: INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH cannot be listed.
    #[test]
    fn some_are_never_listed() {
        let set: ChunkSet = (0..=255).collect();
        assert_eq!(set.kinds().len(), 252);
        for kind in NEVER {
            assert!(!set.has(kind));
        }
        assert!(ChunkSet::parse("all").expect("a set").kinds().iter().all(|kind| !NEVER.contains(kind)));
    }
}
