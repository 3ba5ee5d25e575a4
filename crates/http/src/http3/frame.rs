//! Parses and writes variable-length integers (RFC 9000 §16) and frame headers (RFC 9114 §7.1). The input may be split
//! at any byte.

use bytes::{Buf, Bytes};

/// Frame types (RFC 9114 §7.2, RFC 9218 §7.2).
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
    pub(crate) const PRIORITY_UPDATE: [u64; 2] = [0xf_0700, 0xf_0701];
    /// RFC 9114 §7.2.8: the types of the HTTP/2 frames PRIORITY, PING, WINDOW_UPDATE and CONTINUATION, which have no
    /// counterpart in HTTP/3.
    pub(crate) const RESERVED: [u64; 4] = [0x2, 0x6, 0x8, 0x9];
}

/// The maximum value of a variable-length integer, which has 62 bits.
pub(super) const MAX_VARINT: u64 = (1 << 62) - 1;

/// A variable-length integer, of which only a part may have been received.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Varint {
    bytes: [u8; 8],
    length: u8,
}

impl Varint {
    /// Consumes bytes from the front of `input` until the integer is complete; `None` if more bytes are needed.
    pub(super) fn take(&mut self, input: &mut Bytes) -> Option<u64> {
        loop {
            // The two highest bits of the first byte encode the length of the integer: 1, 2, 4 or 8 bytes.
            let length = 1_u8 << (self.bytes[0] >> 6);
            if self.length > 0 && self.length == length {
                let mut value = u64::from(self.bytes[0] & 0x3f);
                for &byte in &self.bytes[1..usize::from(length)] {
                    value = value << 8 | u64::from(byte);
                }
                *self = Self::default();
                return Some(value);
            }
            if !input.has_remaining() {
                return None;
            }
            self.bytes[usize::from(self.length)] = input.get_u8();
            self.length += 1;
        }
    }

    /// Whether no byte of the integer has been received.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Returns the integer in `payload`; `None` unless the payload consists of exactly one integer.
pub(super) fn single_varint(mut payload: Bytes) -> Option<u64> {
    let value = Varint::default().take(&mut payload)?;
    payload.is_empty().then_some(value)
}

/// Appends `value` to `out` as a variable-length integer in its shortest form.
pub(super) fn put_varint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value.min(MAX_VARINT) | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Appends a frame of type `kind` to `out`.
pub(super) fn put_frame(out: &mut Vec<u8>, kind: u64, payload: &[u8]) {
    put_varint(out, kind);
    put_varint(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

/// The type and length of a frame, as far as these two fields have been received.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FrameHeader {
    kind: Option<u64>,
    varint: Varint,
}

impl FrameHeader {
    /// Consumes bytes from the front of `input` until type and length are complete; `None` if more bytes are needed.
    pub(super) fn take(&mut self, input: &mut Bytes) -> Option<(u64, u64)> {
        if self.kind.is_none() {
            self.kind = Some(self.varint.take(input)?);
        }
        let length = self.varint.take(input)?;
        Some((self.kind.take()?, length))
    }

    /// Whether no byte of the frame header has been received.
    pub(super) fn is_empty(&self) -> bool {
        self.kind.is_none() && self.varint.is_empty()
    }
}

/// Collects the payload of a frame that is processed as a whole. A payload that arrives in one piece is not copied.
#[derive(Default, Debug)]
pub(super) struct Payload(Vec<u8>);

impl Payload {
    /// Consumes bytes from the front of `input` until the payload has `length` bytes; `None` if more bytes are needed.
    pub(super) fn take(&mut self, input: &mut Bytes, length: u64) -> Option<Bytes> {
        let missing = length - self.0.len() as u64;
        let payload = input.split_to(missing.min(input.len() as u64) as usize);
        if self.0.is_empty() && payload.len() as u64 == length {
            return Some(payload);
        }
        self.0.extend_from_slice(&payload);
        (self.0.len() as u64 == length).then(|| Bytes::from(std::mem::take(&mut self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_they_are_written_however_they_are_cut() {
        for value in [0, 0x3f, 0x40, 0x3fff, 0x4000, 0x3fff_ffff, 0x4000_0000, MAX_VARINT] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(single_varint(Bytes::from(bytes.clone())), Some(value));
            let (mut varint, mut decoded) = (Varint::default(), None);
            for byte in bytes {
                assert_eq!(decoded, None);
                decoded = varint.take(&mut Bytes::copy_from_slice(&[byte]));
            }
            assert_eq!(decoded, Some(value));
        }
        assert_eq!(single_varint(Bytes::new()), None);
        assert_eq!(single_varint(Bytes::from_static(&[0x40])), None, "it ends early");
        assert_eq!(single_varint(Bytes::from_static(&[1, 2])), None, "there is more");
    }
}
