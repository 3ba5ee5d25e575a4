//! SACK: reports which TSNs have arrived, and the size of the receiver window.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 3    |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                     cumulative TSN ack                        |
//! +---------------------------------------------------------------+
//! |             advertised receiver window (a_rwnd)               |
//! +-------------------------------+-------------------------------+
//! |       number of gap blocks    |     number of duplicates      |
//! +-------------------------------+-------------------------------+
//! |    gap block start (offset)   |     gap block end (offset)    | …
//! +-------------------------------+-------------------------------+
//! |                        duplicate TSN                          | …
//! ```
//!
//! Implements RFC 9260 §3.3.4.

use crate::sctp::Tsn;
use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk};
use std::fmt;

/// A range of consecutive TSNs that arrived beyond a gap. The TSNs are given as offsets from the cumulative TSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GapBlock {
    /// The offset of the first TSN of the range.
    pub start: u16,
    /// The offset of the last TSN of the range.
    pub end: u16,
}

/// A SACK to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sack<'a> {
    /// The cumulative TSN ack: all TSNs up to this TSN have arrived.
    pub cumulative: Tsn,
    /// The advertised receiver window (a_rwnd) in bytes.
    pub window: u32,
    /// The ranges of TSNs that arrived beyond gaps, in ascending order.
    pub gaps: &'a [GapBlock],
    /// TSNs that have arrived again since the last SACK.
    pub duplicates: &'a [Tsn],
}

/// A received SACK. The gap blocks are not checked: they may be unsorted, overlapping or invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SackView<'a> {
    /// The cumulative TSN ack: all TSNs up to this TSN have arrived.
    pub cumulative: Tsn,
    /// The advertised receiver window (a_rwnd) in bytes.
    pub window: u32,
    gaps: &'a [[u8; 4]],
    duplicates: &'a [[u8; 4]],
}

impl Sack<'_> {
    /// Chunk type.
    pub const KIND: u8 = 3;
    /// The size in bytes of a SACK without gap blocks and duplicates, including the chunk header.
    pub const FIXED: usize = 16;

    /// Appends the chunk. Panics if the chunk would be too long. The caller must pass only as many blocks as fit in the
    /// packet.
    #[inline]
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        if self.gaps.is_empty() && self.duplicates.is_empty() {
            // The whole chunk is written with one store. The checksum computation soon reads it in words of eight
            // bytes, and a read that covers several recent small stores would stall the processor.
            let [c0, c1, c2, c3] = self.cumulative.0.to_be_bytes();
            let [w0, w1, w2, w3] = self.window.to_be_bytes();
            let length = Self::FIXED as u8;
            let whole = [Self::KIND, 0, 0, length, c0, c1, c2, c3, w0, w1, w2, w3, 0, 0, 0, 0];
            return buffer.extend_from_slice(&whole);
        }
        self.emit_with_blocks(buffer);
    }

    #[inline(never)]
    fn emit_with_blocks(&self, buffer: &mut Vec<u8>) {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        let mut fixed = [0; 12];
        fixed[0..4].copy_from_slice(&self.cumulative.0.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.window.to_be_bytes());
        fixed[8..10].copy_from_slice(&(self.gaps.len() as u16).to_be_bytes());
        fixed[10..12].copy_from_slice(&(self.duplicates.len() as u16).to_be_bytes());
        chunk.bytes(&fixed);
        for gap in self.gaps {
            let [s0, s1] = gap.start.to_be_bytes();
            let [e0, e1] = gap.end.to_be_bytes();
            chunk.bytes(&[s0, s1, e0, e1]);
        }
        for tsn in self.duplicates {
            chunk.bytes(&tsn.0.to_be_bytes());
        }
        // `close` asserts that the length of the chunk fits its 16-bit field. Therefore both counts fit their fields,
        // too.
        chunk.close();
    }
}

/// Returns the gap blocks in `raw`, in the order of the chunk.
#[inline]
pub(super) fn blocks(raw: &[[u8; 4]]) -> impl ExactSizeIterator<Item = GapBlock> + Clone + use<'_> {
    raw.iter().map(|&[s0, s1, e0, e1]| GapBlock {
        start: u16::from_be_bytes([s0, s1]),
        end: u16::from_be_bytes([e0, e1]),
    })
}

impl<'a> SackView<'a> {
    /// Parses a SACK chunk.
    ///
    /// # Errors
    /// The length does not match the two counts in the chunk.
    #[inline]
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let Some((&[t0, t1, t2, t3, w0, w1, w2, w3, g0, g1, d0, d1], blocks)) =
            raw.value.split_first_chunk::<12>()
        else {
            return Err(raw.malformed());
        };
        let gaps = usize::from(u16::from_be_bytes([g0, g1]));
        let duplicates = usize::from(u16::from_be_bytes([d0, d1]));
        let (words, rest) = blocks.as_chunks::<4>();
        if words.len() != gaps + duplicates || !rest.is_empty() {
            return Err(raw.malformed());
        }
        let (gaps, duplicates) = words.split_at(gaps);
        Ok(Self {
            cumulative: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            window: u32::from_be_bytes([w0, w1, w2, w3]),
            gaps,
            duplicates,
        })
    }

    /// Creates a view from those fields of an NR-SACK that a SACK also has.
    pub(super) const fn of(
        cumulative: Tsn,
        window: u32,
        gaps: &'a [[u8; 4]],
        duplicates: &'a [[u8; 4]],
    ) -> Self {
        Self { cumulative, window, gaps, duplicates }
    }

    /// Returns the gap blocks in the order of the chunk.
    #[inline]
    pub fn gaps(&self) -> impl ExactSizeIterator<Item = GapBlock> + Clone + use<'a> {
        blocks(self.gaps)
    }

    /// Returns the duplicate TSNs in the order of the chunk.
    pub fn duplicates(&self) -> impl ExactSizeIterator<Item = Tsn> + Clone + use<'a> {
        self.duplicates.iter().map(|&bytes| Tsn(u32::from_be_bytes(bytes)))
    }

    /// Returns whether the SACK has no gap blocks, which is the usual case.
    #[must_use]
    pub const fn has_no_gaps(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Returns whether the SACK has neither gap blocks nor duplicates.
    #[must_use]
    #[inline]
    pub const fn has_no_gaps_or_duplicates(&self) -> bool {
        self.gaps.is_empty() && self.duplicates.is_empty()
    }

    /// Appends a SACK chunk with the content of `self`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let mut chunk = ChunkWriter::open(buffer, Sack::KIND, 0);
        chunk.bytes(&self.cumulative.0.to_be_bytes());
        chunk.bytes(&self.window.to_be_bytes());
        chunk.bytes(&(self.gaps.len() as u16).to_be_bytes());
        chunk.bytes(&(self.duplicates.len() as u16).to_be_bytes());
        chunk.bytes(self.gaps.as_flattened());
        chunk.bytes(self.duplicates.as_flattened());
        chunk.close();
    }
}

impl fmt::Display for SackView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SACK cum={} rwnd={}", self.cumulative, self.window)?;
        self.fmt_blocks(f, |tsn| i64::from(tsn.0))
    }
}

impl SackView<'_> {
    /// Writes the gap blocks and duplicates, for example ` gaps=2-3,5 dups=7`, with TSNs converted by `number`. Writes
    /// nothing if there are no blocks and no duplicates.
    pub(crate) fn fmt_blocks(&self, f: &mut impl fmt::Write, number: impl Fn(Tsn) -> i64) -> fmt::Result {
        self.fmt_gaps(f, " gaps=", self.gaps(), &number)?;
        self.fmt_duplicates(f, &number)
    }

    pub(super) fn fmt_gaps(
        &self,
        f: &mut impl fmt::Write,
        name: &str,
        gaps: impl Iterator<Item = GapBlock>,
        number: &impl Fn(Tsn) -> i64,
    ) -> fmt::Result {
        for (i, GapBlock { start, end }) in gaps.enumerate() {
            f.write_str(if i == 0 { name } else { "," })?;
            let tsn = |offset: u16| number(self.cumulative.plus(u32::from(offset)));
            write!(f, "{}", tsn(start))?;
            if end != start {
                write!(f, "-{}", tsn(end))?;
            }
        }
        Ok(())
    }

    pub(super) fn fmt_duplicates(
        &self,
        f: &mut impl fmt::Write,
        number: &impl Fn(Tsn) -> i64,
    ) -> fmt::Result {
        for (i, tsn) in self.duplicates().enumerate() {
            f.write_str(if i == 0 { " dups=" } else { "," })?;
            write!(f, "{}", number(tsn))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    /// The example SACK of RFC 9260 §3.3.4 is parsed: the TSNs 10 to 12, 14, 15 and 17 have arrived, 13 and 16 have
    /// not.
    #[test]
    fn from_the_rfc_example() {
        let bytes = [
            0x03, 0x00, 0x00, 0x18, 0x00, 0x00, 0x00, 0x0c, 0x00, 0x00, 0x12, 0x34, 0x00, 0x02, 0x00, 0x00,
            0x00, 0x02, 0x00, 0x03, 0x00, 0x05, 0x00, 0x05,
        ];
        let Chunk::Sack(sack) = one(&bytes) else { panic!("SACK") };
        assert_eq!((sack.cumulative, sack.window), (Tsn(12), 0x1234));
        let gaps: Vec<_> = sack.gaps().collect();
        assert_eq!(gaps, [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }]);
        assert_eq!(sack.duplicates().len(), 0);
        assert_eq!(sack.to_string(), "SACK cum=12 rwnd=4660 gaps=14-15,17");
        round_trip(Chunk::Sack(sack));
    }

    #[test]
    fn written_and_read_back() {
        let gaps = [GapBlock { start: 2, end: 9 }, GapBlock { start: 11, end: 65_535 }];
        let duplicates = [Tsn(4), Tsn(u32::MAX)];
        let mut buffer = Vec::new();
        Sack { cumulative: Tsn(u32::MAX), window: 0, gaps: &gaps, duplicates: &duplicates }.emit(&mut buffer);
        let Chunk::Sack(view) = one(&buffer) else { panic!("SACK") };
        assert!(view.gaps().eq(gaps) && view.duplicates().eq(duplicates));
        let mut again = Vec::new();
        view.emit(&mut again);
        assert_eq!(again, buffer);
    }

    #[test]
    fn counts_that_do_not_fit_the_length_are_malformed() {
        let mut value = [0; 20];
        value[9] = 3;
        let raw = RawChunk { kind: 3, flags: 0, value: &value, bytes: &[] };
        assert_eq!(SackView::parse(raw), Err(Malformed::Chunk { kind: 3 }));
        value[9] = 1;
        let raw = RawChunk { kind: 3, flags: 0, value: &value, bytes: &[] };
        assert_eq!(SackView::parse(raw), Err(Malformed::Chunk { kind: 3 }));
    }
}
