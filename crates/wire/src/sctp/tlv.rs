//! Type-length-value encoding, common to chunks, parameters and error causes.
//!
//! This module implements the rules for lengths, padding and unknown types, and the writer that fills in the length of
//! a finished chunk. The rules for individual types are in other modules.
//!
//! Implements RFC 9260 §3.2, §3.2.1 and §3.2.2.

/// The reason why bytes are not a valid chunk, parameter or error cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// The length of a chunk is below four, exceeds the packet (RFC 9260 §6.10), or leaves no room for the chunk's
    /// padding.
    #[error("chunk type {kind} has length {length}, which does not fit the packet")]
    ChunkLength {
        /// The chunk's type.
        kind: u8,
        /// The value of the chunk's length field.
        length: u16,
    },
    /// One to three bytes follow the last chunk. They are too few for the header of another chunk.
    #[error("{left} bytes after the last chunk are not a chunk")]
    Trailing {
        /// The number of bytes after the last chunk.
        left: usize,
    },
    /// The value of a chunk does not have the size or content that the chunk's type requires.
    #[error("chunk type {kind} does not have the form of its type")]
    Chunk {
        /// The chunk's type.
        kind: u8,
    },
    /// The length of a parameter or error cause is below four, or exceeds the chunk.
    #[error("parameter or cause type {kind} has length {length}, which does not fit its chunk")]
    TlvLength {
        /// The parameter type or cause code.
        kind: u16,
        /// The value of the length field.
        length: u16,
    },
    /// The value of a parameter or error cause does not have the size that its type requires.
    #[error("parameter or cause type {kind} does not have the form of its type")]
    Tlv {
        /// The parameter type or cause code.
        kind: u16,
    },
}

/// The action that the two highest bits of an unknown type require.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnrecognizedAction {
    /// Whether to ignore all that follows: the later chunks of the packet after an unknown chunk, or the later
    /// parameters of the chunk after an unknown parameter.
    pub stop: bool,
    /// Whether to report the unknown chunk or parameter to the peer.
    pub report: bool,
}

impl UnrecognizedAction {
    /// RFC 9260 §3.2: returns the action for an unknown chunk type.
    #[must_use]
    pub const fn chunk(kind: u8) -> Self {
        Self { stop: kind & 0x80 == 0, report: kind & 0x40 != 0 }
    }

    /// RFC 9260 §3.2.1: returns the action for an unknown parameter type.
    #[must_use]
    pub const fn param(kind: u16) -> Self {
        Self { stop: kind & 0x8000 == 0, report: kind & 0x4000 != 0 }
    }
}

/// Returns `length` rounded up to a multiple of four.
#[must_use]
#[inline]
pub const fn padded(length: usize) -> usize {
    length.wrapping_add(3) & !3
}

/// A chunk whose value has not been parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawChunk<'a> {
    /// The chunk type.
    pub kind: u8,
    /// The chunk flags.
    pub flags: u8,
    /// The chunk value, without padding.
    pub value: &'a [u8],
    /// The chunk with its header and without padding. Error causes quote a chunk in this form.
    pub bytes: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Removes the first chunk from `rest` and returns it. Returns `None` if `rest` is empty. After an error, `rest` is
    /// emptied, because the bytes after the error cannot be parsed.
    #[inline]
    pub(crate) fn take(rest: &mut &'a [u8]) -> Option<Result<Self, Malformed>> {
        let bytes = *rest;
        let Some(&[kind, flags, high, low]) = bytes.first_chunk::<4>() else {
            *rest = &[];
            return if bytes.is_empty() {
                None
            } else {
                Some(Err(Malformed::Trailing { left: bytes.len() }))
            };
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let whole = padded(length);
        // RFC 9260 §3.2: the length includes the header. Padding follows the value and is not included.
        if length < HEADER || whole > bytes.len() {
            *rest = &[];
            return Some(Err(Malformed::ChunkLength { kind, length: length as u16 }));
        }
        *rest = &bytes[whole..];
        Some(Ok(Self { kind, flags, value: &bytes[HEADER..length], bytes: &bytes[..length] }))
    }

    /// Returns the error for a chunk whose value does not have the form that its type requires.
    #[must_use]
    pub const fn malformed(&self) -> Malformed {
        Malformed::Chunk { kind: self.kind }
    }
}

/// A parameter or error cause whose value has not been parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawTlv<'a> {
    /// The parameter type or cause code.
    pub kind: u16,
    /// The value of the parameter or cause, without padding.
    pub value: &'a [u8],
    /// The parameter or cause with its header and without padding. Error causes quote a parameter in this form.
    pub bytes: &'a [u8],
}

impl RawTlv<'_> {
    /// Returns the value, which has to be a single 32-bit number.
    pub(super) fn word(&self) -> Result<u32, Malformed> {
        <[u8; 4]>::try_from(self.value).map(u32::from_be_bytes).map_err(|_| self.malformed())
    }

    /// Returns the error for a parameter or cause whose value does not have the form that its type requires.
    #[must_use]
    pub const fn malformed(&self) -> Malformed {
        Malformed::Tlv { kind: self.kind }
    }
}

/// Iterates over parameters or error causes. The iteration ends after the first error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// Creates an iterator over `bytes`, which begin with the header of a parameter or cause.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that have not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<RawTlv<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest;
        let Some(&[k0, k1, l0, l1]) = bytes.first_chunk::<4>() else {
            self.rest = &[];
            return if bytes.is_empty() {
                None
            } else {
                Some(Err(Malformed::Trailing { left: bytes.len() }))
            };
        };
        let (kind, length) = (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([l0, l1]));
        let end = usize::from(length);
        if end < HEADER || end > bytes.len() {
            self.rest = &[];
            return Some(Err(Malformed::TlvLength { kind, length }));
        }
        // RFC 9260 §3.2: the chunk's length may or may not include the padding of the last parameter, so missing
        // padding is accepted.
        self.rest = bytes.get(padded(end)..).unwrap_or(&[]);
        Some(Ok(RawTlv { kind, value: &bytes[HEADER..end], bytes: &bytes[..end] }))
    }
}

/// Appends a chunk to a buffer. [`close`](Self::close) fills in the length and appends the padding.
#[derive(Debug)]
#[must_use = "a chunk has no length until it is closed"]
pub struct ChunkWriter<'b> {
    buffer: &'b mut Vec<u8>,
    at: usize,
}

impl<'b> ChunkWriter<'b> {
    /// Begins a chunk at the end of `buffer`.
    #[inline]
    pub fn open(buffer: &'b mut Vec<u8>, kind: u8, flags: u8) -> Self {
        let at = buffer.len();
        buffer.extend_from_slice(&[kind, flags, 0, 0]);
        Self { buffer, at }
    }

    /// Appends bytes to the value of the chunk.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends a parameter or error cause whose value is the concatenation of `parts`. Returns false and writes nothing
    /// if the chunk would exceed the largest 16-bit length.
    pub fn tlv(&mut self, kind: u16, parts: &[&[u8]]) -> bool {
        let length = HEADER + parts.iter().map(|part| part.len()).sum::<usize>();
        // RFC 9260 §3.2.1: each parameter starts at a multiple of four bytes. The padding of the last parameter belongs
        // to the chunk. Padding is therefore written before a parameter and not after it.
        let start = padded(self.length());
        if start + length > usize::from(u16::MAX) {
            return false;
        }
        self.buffer.resize(self.at + start, 0);
        self.buffer.extend_from_slice(&kind.to_be_bytes());
        self.buffer.extend_from_slice(&(length as u16).to_be_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        true
    }

    /// Returns the length of the chunk so far in bytes, including its header.
    #[must_use]
    pub fn length(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// Fills in the length and pads the chunk. Panics if the length exceeds 16 bits.
    #[inline]
    pub fn close(self) {
        let length = self.length();
        assert!(length <= usize::from(u16::MAX), "a chunk of {length} bytes");
        self.buffer[self.at + 2..self.at + 4].copy_from_slice(&(length as u16).to_be_bytes());
        pad(self.buffer, length);
    }
}

/// Appends the padding that follows `length` bytes.
#[inline]
pub fn pad(buffer: &mut Vec<u8>, length: usize) {
    let more = padded(length) - length;
    if more > 0 {
        append_zeros(buffer, more);
    }
}

#[cold]
fn append_zeros(buffer: &mut Vec<u8>, count: usize) {
    buffer.resize(buffer.len() + count, 0);
}

/// The size in bytes of the header of a chunk, parameter or error cause.
pub const HEADER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §3.2: the two highest bits of an unknown type select one of four actions for the receiver.
    #[test]
    fn unknown_types_say_what_to_do_with_them() {
        let rule = |stop, report| UnrecognizedAction { stop, report };
        assert_eq!(UnrecognizedAction::chunk(0x3f), rule(true, false));
        assert_eq!(UnrecognizedAction::chunk(0x7e), rule(true, true));
        assert_eq!(UnrecognizedAction::chunk(0x82), rule(false, false));
        assert_eq!(UnrecognizedAction::chunk(0xc1), rule(false, true));
        assert_eq!(UnrecognizedAction::param(0x0009), rule(true, false));
        assert_eq!(UnrecognizedAction::param(0x4001), rule(true, true));
        assert_eq!(UnrecognizedAction::param(0x8001), rule(false, false));
        assert_eq!(UnrecognizedAction::param(0xc001), rule(false, true));
    }

    #[test]
    fn a_chunk_that_runs_past_the_packet_ends_the_walk() {
        let bytes = [0, 0, 0, 8, 1, 2, 3, 4, 9, 0, 0, 12, 0, 0];
        let mut rest = &bytes[..];
        assert!(matches!(RawChunk::take(&mut rest), Some(Ok(chunk)) if chunk.value == [1, 2, 3, 4]));
        assert_eq!(RawChunk::take(&mut rest), Some(Err(Malformed::ChunkLength { kind: 9, length: 12 })));
        assert_eq!(RawChunk::take(&mut rest), None);
    }

    #[test]
    fn lengths_below_a_header_and_missing_padding_are_errors() {
        for bytes in [&[9, 0, 0, 3][..], &[9, 0, 0, 0], &[9, 0, 0, 5, 1], &[9, 0, 0, 7, 1, 2, 3]] {
            let mut rest = bytes;
            assert!(matches!(RawChunk::take(&mut rest), Some(Err(Malformed::ChunkLength { .. }))));
            assert!(rest.is_empty());
        }
        let mut rest = &[9, 0, 0][..];
        assert_eq!(RawChunk::take(&mut rest), Some(Err(Malformed::Trailing { left: 3 })));
        assert_eq!(Tlvs::new(&[0, 1, 0, 3]).count(), 1);
        assert!(Tlvs::new(&[0, 1, 0, 3]).all(|tlv| tlv.is_err()));
        assert!(Tlvs::new(&[0, 1, 0, 5]).all(|tlv| tlv.is_err()));
    }

    #[test]
    fn the_last_padding_may_be_counted_or_not() {
        let with = [0, 7, 0, 5, 1, 0, 0, 0];
        for bytes in [&with[..], &with[..5]] {
            let values: Vec<_> = Tlvs::new(bytes).map(|tlv| tlv.map(|tlv| tlv.value.to_vec())).collect();
            assert_eq!(values, [Ok(vec![1])]);
        }
    }

    #[test]
    fn the_writer_counts_inner_padding_only() {
        let mut buffer = vec![0xee; 3];
        let mut chunk = ChunkWriter::open(&mut buffer, 9, 0);
        assert!(chunk.tlv(1, &[&[1, 2], &[3]]));
        assert!(chunk.tlv(2, &[&[4]]));
        chunk.close();
        assert_eq!(buffer[3..], [9, 0, 0, 17, 0, 1, 0, 7, 1, 2, 3, 0, 0, 2, 0, 5, 4, 0, 0, 0]);
    }

    #[test]
    fn tlvs_too_long_for_the_length_field_are_left_out() {
        let mut buffer = Vec::new();
        let mut chunk = ChunkWriter::open(&mut buffer, 9, 0);
        assert!(!chunk.tlv(1, &[&[0; 65_528]]));
        assert!(chunk.tlv(1, &[&[0; 65_527]]));
        chunk.close();
        assert_eq!(buffer.len(), 65_536);
    }
}
