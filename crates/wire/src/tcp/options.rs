//! TCP options: maximum segment size, window scale, SACK, timestamps.
//!
//! ```text
//!  kind 0 end · 1 no-operation · 2 MSS (4) · 3 window scale (3)
//!  4 SACK permitted (2) · 5 SACK (2 + 8n) · 8 timestamps (10)
//! ```
//! Implements RFC 9293 §3.2, RFC 7323 §2.2 and §3.2, RFC 2018 §2 and §3. Options of other kinds are skipped, as RFC
//! 9293 §3.1 requires.

use super::Seq;
use std::fmt;

/// The TCP options of a segment. Options that this parser does not know are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The largest segment that the sender accepts, in bytes of payload and options. Sent only in a SYN.
    pub mss: Option<u16>,
    /// The number of bits by which the sender's window fields are shifted. Sent only in a SYN.
    pub window_scale: Option<u8>,
    /// Whether the sender supports SACK. Sent only in a SYN.
    pub sack_permitted: bool,
    /// The timestamp of the sender, and the echo of the receiver's timestamp.
    pub timestamps: Option<Timestamps>,
    /// The SACK blocks: data that the sender of the segment received out of order.
    pub sack: SackBlocks,
}

/// RFC 7323 §3.2: the clock of the segment's sender, and the echo of the receiver's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// TSval: the clock of the segment's sender.
    pub value: u32,
    /// TSecr: the last TSval that the segment's sender received from its peer.
    pub echo: u32,
}

impl Timestamps {
    /// The first four bytes of an option area that has only timestamps: two no-operations, then kind and length of the
    /// timestamp option (RFC 7323 app. A).
    pub(super) const ALONE: [u8; 4] = [1, 1, 8, 10];

    #[inline]
    pub(super) fn parse_alone(options_bytes: &[u8; Options::TIMESTAMPS_LEN]) -> Option<Self> {
        let [a, b, c, d, v0, v1, v2, v3, e0, e1, e2, e3] = *options_bytes;
        let value = u32::from_be_bytes([v0, v1, v2, v3]);
        let echo = u32::from_be_bytes([e0, e1, e2, e3]);
        ([a, b, c, d] == Self::ALONE).then_some(Self { value, echo })
    }

    #[inline]
    pub(super) fn emit(self) -> [u8; Options::TIMESTAMPS_LEN] {
        let ([a, b, c, d], [v0, v1, v2, v3], [e0, e1, e2, e3]) =
            (Self::ALONE, self.value.to_be_bytes(), self.echo.to_be_bytes());
        [a, b, c, d, v0, v1, v2, v3, e0, e1, e2, e3]
    }
}

/// Up to four SACK blocks. Each block is given by its first sequence number and by the sequence number after its last
/// byte.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); Self::MAX],
    len: u8,
}

impl SackBlocks {
    /// The largest number of blocks for which the option space has room (RFC 2018 §3).
    pub const MAX: usize = 4;

    /// Appends a block. Returns false if there is no room for another block.
    pub fn push(&mut self, start: Seq, end: Seq) -> bool {
        let index = usize::from(self.len);
        if index == Self::MAX {
            return false;
        }
        self.blocks[index] = (start, end);
        self.len += 1;
        true
    }

    /// Returns the blocks in the order in which the option lists them.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Returns whether the list has no SACK block.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

impl Options {
    /// The size in bytes of the largest option area. A header has at most 60 bytes, of which 20 are fixed.
    pub const MAX_LEN: usize = 40;

    /// Reads an option area. A malformed option ends the reading. The options before the malformed option are used and
    /// the rest of the area is ignored, as in common TCP stacks.
    #[must_use]
    #[inline]
    pub fn parse(options_bytes: &[u8]) -> Self {
        let mut options = Self::default();
        options.read(options_bytes);
        options
    }

    /// Like [`parse`](Self::parse), but writes the result into `self`.
    #[inline]
    pub(super) fn read(&mut self, options_bytes: &[u8]) {
        *self = Self::default();
        if let Some(stamps) = options_bytes.try_into().ok().and_then(Timestamps::parse_alone) {
            self.timestamps = Some(stamps);
        } else if !options_bytes.is_empty() {
            self.read_any(options_bytes);
        }
    }

    fn read_any(&mut self, mut options_bytes: &[u8]) {
        while let [kind, rest @ ..] = options_bytes {
            match kind {
                0 => break,
                1 => {
                    options_bytes = rest;
                    continue;
                }
                _ => {}
            }
            let Some(&length) = rest.first() else { break };
            let length = usize::from(length);
            if length < 2 || length > options_bytes.len() {
                break;
            }
            self.take(*kind, &options_bytes[2..length]);
            options_bytes = &options_bytes[length..];
        }
    }

    /// Processes one option. An option of a known kind with a wrong length is ignored.
    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (2, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (3, &[shift]) => self.window_scale = Some(shift),
            (4, []) => self.sack_permitted = true,
            (5, blocks) => {
                for block in blocks.chunks_exact(8) {
                    let start = u32::from_be_bytes([block[0], block[1], block[2], block[3]]);
                    let end = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
                    self.sack.push(Seq(start), Seq(end));
                }
            }
            (8, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
                let value = u32::from_be_bytes([v0, v1, v2, v3]);
                let echo = u32::from_be_bytes([e0, e1, e2, e3]);
                self.timestamps = Some(Timestamps { value, echo });
            }
            _ => {}
        }
    }

    /// The length in bytes of the timestamp option and the two no-operations that align it.
    pub(super) const TIMESTAMPS_LEN: usize = 12;

    /// Returns the timestamps, if they are the only option of the segment.
    #[inline]
    pub(super) fn only_timestamps(&self) -> Option<Timestamps> {
        let alone =
            self.mss.is_none() && self.window_scale.is_none() && !self.sack_permitted && self.sack.is_empty();
        self.timestamps.filter(|_| alone)
    }

    /// Returns the number of bytes that [`emit`](Self::emit) writes, a multiple of four.
    #[must_use]
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let mut len = 0;
        len += if self.mss.is_some() { 4 } else { 0 };
        len += if self.timestamps.is_some() { 12 } else { 0 };
        // If there are timestamps, SACK-permitted replaces the two no-operations before them, so it needs no extra
        // space.
        len += if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        len += if self.window_scale.is_some() { 4 } else { 0 };
        len += if self.sack.is_empty() { 0 } else { 4 + 8 * self.sack.as_slice().len() };
        len
    }

    /// Writes the option area into `out` and returns its length. SACK blocks that do not fit are left out.
    #[inline]
    pub fn emit(&self, out: &mut [u8; Self::MAX_LEN]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            put(&[2, 4, a, b]);
        }
        if let Some(stamps) = self.timestamps {
            put(if self.sack_permitted { &[4, 2, 8, 10] } else { &[1, 1, 8, 10] });
            put(&stamps.value.to_be_bytes());
            put(&stamps.echo.to_be_bytes());
        } else if self.sack_permitted {
            put(&[1, 1, 4, 2]);
        }
        if let Some(shift) = self.window_scale {
            put(&[1, 3, 3, shift]);
        }
        if !self.sack.is_empty() {
            let blocks = self.sack.as_slice();
            put(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                put(&start.0.to_be_bytes());
                put(&end.0.to_be_bytes());
            }
        }
        at
    }

    /// Returns the number of SACK blocks that fit into a header, with or without timestamps.
    #[must_use]
    #[inline]
    pub const fn sack_room(timestamps: bool) -> usize {
        // Timestamps take 12 of the 40 bytes; kind, length and padding of the SACK option take 4. A block takes 8
        // bytes.
        if timestamps { 3 } else { Self::MAX_SACK_ALONE }
    }

    const MAX_SACK_ALONE: usize = SackBlocks::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(options: &Options) -> Vec<u8> {
        let mut options_bytes = [0; Options::MAX_LEN];
        let len = options.emit(&mut options_bytes);
        options_bytes[..len].to_vec()
    }

    #[test]
    fn round_trip() {
        let mut sack = SackBlocks::default();
        sack.push(Seq(10), Seq(20));
        sack.push(Seq(u32::MAX), Seq(3));
        sack.push(Seq(50), Seq(60));
        let stamps = Some(Timestamps { value: 7, echo: 0x0102_0304 });
        let syn =
            Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..Options::default() };
        let cases = [
            Options::default(),
            syn,
            Options { timestamps: stamps, ..syn },
            Options { timestamps: stamps, ..Options::default() },
            Options { timestamps: stamps, sack, ..Options::default() },
            Options { sack, ..Options::default() },
        ];
        for options in cases {
            let options_bytes = emitted(&options);
            assert_eq!(options_bytes.len() % 4, 0);
            assert_eq!(options_bytes.len(), options.encoded_len());
            assert_eq!(Options::parse(&options_bytes), options);
        }
    }

    /// Parses the options in the SYN of a Linux 6 host: MSS, SACK permitted, timestamps, no-operation, window scale.
    /// The parsed options must be written as the same bytes.
    #[test]
    fn from_capture() {
        let options_bytes = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0x3c, 0x1a, 0x2b, 0x4d, 0, 0, 0, 0, 1, 3, 3, 7];
        let options = Options::parse(&options_bytes);
        assert_eq!(options.mss, Some(1460));
        assert_eq!(options.window_scale, Some(7));
        assert!(options.sack_permitted);
        assert_eq!(options.timestamps, Some(Timestamps { value: 0x3c1a_2b4d, echo: 0 }));
        assert_eq!(emitted(&options), options_bytes);
    }

    #[test]
    fn malformed_areas_end_quietly() {
        for options_bytes in
            [&[2][..], &[2, 0], &[2, 1, 1], &[8, 10, 1], &[5, 9, 0, 0, 0, 0, 0, 0, 0], &[2, 40, 1]]
        {
            let _ = Options::parse(options_bytes);
        }
        let options = Options::parse(&[99, 4, 1, 2, 2, 4, 1, 2]);
        assert_eq!(options.mss, Some(258), "an unknown option is skipped");
        assert_eq!(Options::parse(&[0, 2, 4, 1]).mss, None, "nothing counts after the end");
    }
}
