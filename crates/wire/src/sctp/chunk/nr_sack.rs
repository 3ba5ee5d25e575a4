//! NR-SACK: a SACK that also reports TSNs as non-renegable, which means that the receiver will not drop their chunks.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 16   |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                     cumulative TSN ack                        |
//! +---------------------------------------------------------------+
//! |             advertised receiver window (a_rwnd)               |
//! +-------------------------------+-------------------------------+
//! |    number of gap blocks       |   number of NR gap blocks     |
//! +-------------------------------+-------------------------------+
//! |    number of duplicates       |           reserved            |
//! +-------------------------------+-------------------------------+
//! |    gap block start (offset)   |     gap block end (offset)    | …
//! +-------------------------------+-------------------------------+
//! |   NR gap block start (offset) |   NR gap block end (offset)   | …
//! +-------------------------------+-------------------------------+
//! |                        duplicate TSN                          | …
//! ```
//!
//! Implements draft-natarajan-tsvwg-sctp-nrsack §3.2 and draft-tuexen-tsvwg-sctp-multipath §2.6.

use super::sack::{GapBlock, SackView};
use crate::sctp::Tsn;
use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk};
use std::fmt;

/// An NR-SACK to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NrSack<'a> {
    /// The cumulative TSN ack: all TSNs up to this TSN have arrived.
    pub cumulative: Tsn,
    /// The advertised receiver window (a_rwnd) in bytes.
    pub window: u32,
    /// The renegable gap blocks, in ascending order. Their chunks have arrived, but the receiver may still drop them.
    pub gaps: &'a [GapBlock],
    /// The non-renegable gap blocks, in ascending order and disjoint from `gaps`. Their chunks have arrived, and the
    /// receiver will not drop them.
    pub nr_gaps: &'a [GapBlock],
    /// TSNs that have arrived again since the last SACK.
    pub duplicates: &'a [Tsn],
}

/// A received NR-SACK. The blocks are not checked: they may be unsorted, overlapping or invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NrSackView<'a> {
    /// The fields that a SACK also has. `sack.gaps()` returns the renegable gap blocks.
    pub sack: SackView<'a>,
    nr_gaps: &'a [[u8; 4]],
}

impl NrSack<'_> {
    /// Chunk type.
    pub const KIND: u8 = 16;
    /// The size in bytes of an NR-SACK without gap blocks, including the chunk header.
    pub const FIXED: usize = 20;

    /// Appends the chunk. Panics if the chunk would be too long. The caller must pass only as many blocks as fit in the
    /// packet.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        chunk.bytes(&self.cumulative.0.to_be_bytes());
        chunk.bytes(&self.window.to_be_bytes());
        for count in [self.gaps.len(), self.nr_gaps.len(), self.duplicates.len(), 0] {
            chunk.bytes(&(count as u16).to_be_bytes());
        }
        for gap in self.gaps.iter().chain(self.nr_gaps) {
            let [s0, s1] = gap.start.to_be_bytes();
            let [e0, e1] = gap.end.to_be_bytes();
            chunk.bytes(&[s0, s1, e0, e1]);
        }
        for tsn in self.duplicates {
            chunk.bytes(&tsn.0.to_be_bytes());
        }
        // `close` asserts that the length of the chunk fits its 16-bit field. Therefore all counts fit their fields,
        // too.
        chunk.close();
    }
}

impl<'a> NrSackView<'a> {
    /// Parses an NR-SACK chunk.
    ///
    /// # Errors
    /// The length does not match the three counts in the chunk.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let Some((&[t0, t1, t2, t3, w0, w1, w2, w3, g0, g1, n0, n1, d0, d1, _, _], blocks)) =
            raw.value.split_first_chunk::<16>()
        else {
            return Err(raw.malformed());
        };
        let count = |high, low| usize::from(u16::from_be_bytes([high, low]));
        let (gaps, nr_gaps, duplicates) = (count(g0, g1), count(n0, n1), count(d0, d1));
        let (words, rest) = blocks.as_chunks::<4>();
        if words.len() != gaps + nr_gaps + duplicates || !rest.is_empty() {
            return Err(raw.malformed());
        }
        let (gaps, words) = words.split_at(gaps);
        let (nr_gaps, duplicates) = words.split_at(nr_gaps);
        let cumulative = Tsn(u32::from_be_bytes([t0, t1, t2, t3]));
        let window = u32::from_be_bytes([w0, w1, w2, w3]);
        Ok(Self { sack: SackView::of(cumulative, window, gaps, duplicates), nr_gaps })
    }

    /// Returns the non-renegable gap blocks in the order of the chunk.
    pub fn nr_gaps(&self) -> impl ExactSizeIterator<Item = GapBlock> + Clone + use<'a> {
        super::sack::blocks(self.nr_gaps)
    }

    /// Returns the renegable and the non-renegable gap blocks, merged in the order of their starts. If blocks of the
    /// two types overlap, the later block is cut to the part that the earlier block does not cover.
    pub fn all_gaps(&self) -> impl Iterator<Item = GapBlock> + use<'a> {
        let (mut gaps, mut nr_gaps) = (self.sack.gaps().peekable(), self.nr_gaps().peekable());
        // `renegable_end` is the end of the renegable blocks so far, and `nr_end` is the end of the non-renegable
        // blocks.
        let (mut renegable_end, mut nr_end) = (0, 0);
        std::iter::from_fn(move || {
            loop {
                let nr_is_next = match (gaps.peek(), nr_gaps.peek()) {
                    (Some(gap), Some(nr_gap)) => nr_gap.start < gap.start,
                    (gap, _) => gap.is_none(),
                };
                let (block, own, other) = if nr_is_next {
                    (nr_gaps.next()?, &mut nr_end, renegable_end)
                } else {
                    (gaps.next()?, &mut renegable_end, nr_end)
                };
                let is_a_run = (1..=block.end).contains(&block.start);
                if is_a_run {
                    *own = block.end.max(*own);
                }
                if !is_a_run || block.start > other {
                    return Some(block);
                }
                if block.end > other {
                    return Some(GapBlock { start: other + 1, ..block });
                }
            }
        })
    }

    /// Appends an NR-SACK chunk with the content of `self`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let gaps: Vec<GapBlock> = self.sack.gaps().collect();
        let nr_gaps: Vec<GapBlock> = self.nr_gaps().collect();
        let duplicates: Vec<Tsn> = self.sack.duplicates().collect();
        let SackView { cumulative, window, .. } = self.sack;
        NrSack { cumulative, window, gaps: &gaps, nr_gaps: &nr_gaps, duplicates: &duplicates }.emit(buffer);
    }

    /// Writes the blocks and duplicates, for example ` gaps=2-3 nr-gaps=5 dups=7`, with TSNs converted by `number`.
    /// Writes nothing if there are no blocks and no duplicates.
    pub(crate) fn fmt_blocks(&self, f: &mut impl fmt::Write, number: impl Fn(Tsn) -> i64) -> fmt::Result {
        self.sack.fmt_gaps(f, " gaps=", self.sack.gaps(), &number)?;
        self.sack.fmt_gaps(f, " nr-gaps=", self.nr_gaps(), &number)?;
        self.sack.fmt_duplicates(f, &number)
    }
}

impl fmt::Display for NrSackView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NR-SACK cum={} rwnd={}", self.sack.cumulative, self.sack.window)?;
        self.fmt_blocks(f, |tsn| i64::from(tsn.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn written_and_read_back() {
        let gaps = [GapBlock { start: 5, end: 9 }, GapBlock { start: 20, end: 20 }];
        let nr_gaps = [GapBlock { start: 2, end: 3 }, GapBlock { start: 11, end: 12 }];
        let sack =
            NrSack { cumulative: Tsn(100), window: 7, gaps: &gaps, nr_gaps: &nr_gaps, duplicates: &[Tsn(4)] };
        let mut buffer = Vec::new();
        sack.emit(&mut buffer);
        assert_eq!(buffer[..20], [16, 0, 0, 40, 0, 0, 0, 100, 0, 0, 0, 7, 0, 2, 0, 2, 0, 1, 0, 0]);
        let Chunk::NrSack(view) = one(&buffer) else { panic!("NR-SACK") };
        assert!(
            view.sack.gaps().eq(gaps) && view.nr_gaps().eq(nr_gaps) && view.sack.duplicates().eq([Tsn(4)])
        );
        assert!(view.all_gaps().eq([nr_gaps[0], gaps[0], nr_gaps[1], gaps[1]]));
        assert_eq!(
            view.to_string(),
            "NR-SACK cum=100 rwnd=7 gaps=105-109,120 nr-gaps=102-103,111-112 dups=4"
        );
        round_trip(Chunk::NrSack(view));
    }

    /// `all_gaps` lists a TSN once if the chunk reports it as both renegable and non-renegable.
    #[test]
    fn blocks_of_one_kind_may_overlap_those_of_the_other() {
        let block = |(start, end)| GapBlock { start, end };
        for (gaps, nr_gaps, all) in [
            (&[(1, 1)][..], &[(1, 2)][..], &[(1, 1), (2, 2)][..]),
            (&[(2, 9)], &[(3, 4), (6, 7)], &[(2, 9)]),
            (&[(3, 4), (6, 7)], &[(2, 9)], &[(2, 9)]),
            (&[(2, 5), (8, 9)], &[(4, 8)], &[(2, 5), (6, 8), (9, 9)]),
            (&[(2, 2)], &[(2, 2)], &[(2, 2)]),
            (&[(2, 65_535)], &[(3, 65_535)], &[(2, 65_535)]),
            // Invalid blocks, and overlaps between blocks of the same kind (renegable or not), stay unchanged: the
            // receiver of the chunk rejects them.
            (&[(5, 4), (2, 3), (3, 6)], &[], &[(5, 4), (2, 3), (3, 6)]),
            (&[(0, 9)], &[(0, 3), (9, 2), (9, 9)], &[(0, 9), (0, 3), (9, 2), (9, 9)]),
        ] {
            let gaps: Vec<_> = gaps.iter().copied().map(block).collect();
            let nr_gaps: Vec<_> = nr_gaps.iter().copied().map(block).collect();
            let mut bytes = Vec::new();
            NrSack { cumulative: Tsn(0), window: 0, gaps: &gaps, nr_gaps: &nr_gaps, duplicates: &[] }
                .emit(&mut bytes);
            let Chunk::NrSack(view) = one(&bytes) else { panic!("an NR-SACK") };
            assert!(view.all_gaps().eq(all.iter().copied().map(block)), "{gaps:?} {nr_gaps:?}");
        }
    }

    #[test]
    fn counts_that_do_not_fit_the_length_are_malformed() {
        for at in [9, 11, 13] {
            let mut value = [0; 24];
            (value[9], value[at]) = (1, 3);
            let raw = RawChunk { kind: 16, flags: 0, value: &value, bytes: &[] };
            assert_eq!(NrSackView::parse(raw), Err(Malformed::Chunk { kind: 16 }));
        }
    }
}
