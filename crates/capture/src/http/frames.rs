//! The frames of HTTP/2 (RFC 9113 §4.1, §6) and HTTP/3 (RFC 9114 §7.1), read from a stream of bytes.

use super::Requests;
use super::hpack::Decoder;
use crate::arrival::Side;
use anabranch_wire::quic::Frames;

/// The frame types that are read. They are the same in both versions.
const DATA: u64 = 0;
const HEADERS: u64 = 1;
/// HTTP/2: the flag of a frame that ends a stream.
const END_STREAM: u8 = 1;
/// HTTP/2: the flag of a frame with padding.
const PADDED: u8 = 8;
/// HTTP/2: the flag of a HEADERS frame that begins with a priority.
const PRIORITY: u8 = 0x20;
/// HTTP/2: the flag of a frame that ends a head.
const END_HEADERS: u8 = 4;
/// HTTP/2: the frame that ends a stream early.
const RST_STREAM: u64 = 3;
/// HTTP/2: the types of the frames that control the flow of data.
const SETTINGS: u64 = 4;
const WINDOW_UPDATE: u64 = 8;
/// HTTP/2: the types of the frames that have a part of a head: the promise of a push, and a continuation.
const PUSH_PROMISE: u64 = 5;
const CONTINUATION: u64 = 9;
/// The maximum length of an encoded head in bytes. Longer heads are not decoded.
const MAX_HEAD: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct FrameReader {
    /// The header of a frame, as far as it has arrived.
    head: Vec<u8>,
    current: Frame,
    /// The number of bytes of the frame that have not arrived.
    rest: u64,
    /// HTTP/2: the number of bytes of padding at the end of the frame, once known.
    padding: u64,
    /// HTTP/2: whether the next byte is the length of the padding.
    awaits_padding: bool,
    /// The encoded head, as far as it has arrived.
    block: Vec<u8>,
    hpack: Decoder,
    /// HTTP/2: whether a head could not be decoded, so that the table of the decoder is not known.
    is_lost: bool,
}

/// The HTTP frame whose content is being read.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    kind: u64,
    flags: u8,
    stream: u64,
}

impl FrameReader {
    /// Processes the next bytes of an HTTP/2 connection.
    pub fn http2(&mut self, at: u64, side: Side, mut bytes: &[u8], requests: &mut Requests) {
        while !bytes.is_empty() {
            if self.rest == 0 {
                let wanted = 9 - self.head.len();
                let (head, more) = bytes.split_at(wanted.min(bytes.len()));
                self.head.extend_from_slice(head);
                bytes = more;
                let &[l0, l1, l2, kind, flags, s0, s1, s2, s3] = &self.head[..] else { return };
                self.head.clear();
                self.rest = u32::from_be_bytes([0, l0, l1, l2]).into();
                let stream = u64::from(u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]));
                self.current = Frame { kind: kind.into(), flags, stream };
                self.awaits_padding = flags & PADDED != 0
                    && [DATA, HEADERS, PUSH_PROMISE].contains(&kind.into())
                    && self.rest > 0;
                self.padding = 0;
                if self.current.kind == HEADERS && side == 0 {
                    requests.begin(at, stream);
                } else if self.current.kind <= HEADERS && side == 1 {
                    requests.answered(at, stream);
                }
                if [HEADERS, PUSH_PROMISE, SETTINGS, WINDOW_UPDATE].contains(&self.current.kind) {
                    self.block.clear();
                }
                if self.current.kind == DATA {
                    requests.flow.data(side, stream, self.rest, flags & END_STREAM != 0);
                }
                if self.rest == 0 {
                    self.ended(at, side, requests);
                }
                continue;
            }
            let count = if self.awaits_padding { 1 } else { self.rest.min(bytes.len() as u64) as usize };
            let (content, more) = bytes.split_at(count);
            (bytes, self.rest) = (more, self.rest - count as u64);
            if self.awaits_padding {
                self.awaits_padding = false;
                self.padding = u64::from(content[0]).min(self.rest);
            } else if self.current.kind == DATA {
                let without_padding = |rest: u64| rest.saturating_sub(self.padding);
                let more = without_padding(self.rest + count as u64) - without_padding(self.rest);
                requests.body(self.current.stream, side, more);
            } else if [HEADERS, PUSH_PROMISE, CONTINUATION, SETTINGS, WINDOW_UPDATE]
                .contains(&self.current.kind)
                && self.block.len() <= MAX_HEAD
            {
                self.block.extend_from_slice(content);
            }
            if self.rest == 0 {
                self.ended(at, side, requests);
            }
        }
    }

    /// Processes the end of an HTTP/2 frame.
    fn ended(&mut self, at: u64, side: Side, requests: &mut Requests) {
        let Frame { kind, flags, stream } = self.current;
        let carries_head = [HEADERS, PUSH_PROMISE, CONTINUATION].contains(&kind);
        if carries_head {
            // RFC 9113 §6.2, §6.6: skips a priority or the identifier of the promised stream, which come first, and
            // padding, which comes last.
            let skipped = match kind {
                HEADERS if flags & PRIORITY != 0 => 5,
                PUSH_PROMISE => 4,
                _ => 0,
            };
            let length = self.block.len().saturating_sub(self.padding as usize);
            self.block.truncate(length);
            self.block.drain(..skipped.min(length));
        }
        if carries_head && flags & END_HEADERS != 0 && !self.is_lost {
            let block = std::mem::take(&mut self.block);
            let decoded = self.hpack.decode(&block, |name, value| match kind {
                PUSH_PROMISE => {}
                _ => requests.field(stream, side, name, value),
            });
            self.is_lost = decoded.is_err() || block.len() > MAX_HEAD;
        }
        match kind {
            SETTINGS => requests.flow.settings(side, &self.block),
            WINDOW_UPDATE => requests.flow.update(side, stream, &self.block),
            RST_STREAM => requests.flow.reset(stream),
            _ => {}
        }
        let ends = kind <= HEADERS && flags & END_STREAM != 0 && side == 1;
        if ends || kind == RST_STREAM {
            requests.done(at, stream);
        }
    }

    /// Processes the next bytes of an HTTP/3 stream. Calls `head` with each encoded head.
    pub fn http3(
        &mut self,
        at: u64,
        side: Side,
        (stream, mut bytes): (u64, &[u8]),
        requests: &mut Requests,
        mut head: impl FnMut(&mut Requests, Vec<u8>),
    ) {
        if side == 1 && !bytes.is_empty() {
            requests.answered(at, stream);
        }
        while !bytes.is_empty() {
            if self.rest == 0 {
                // A frame begins with its type and its length, which have at most eight bytes each.
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
                let mut numbers = Frames(&self.head);
                let Some((kind, length)) = numbers.number().zip(numbers.number()) else { continue };
                self.head.clear();
                (self.rest, self.current.kind) = (length, kind);
                if kind == HEADERS && side == 0 {
                    requests.begin(at, stream);
                }
                continue;
            }
            let count = self.rest.min(bytes.len() as u64);
            self.rest -= count;
            let (content, more) = bytes.split_at(count as usize);
            bytes = more;
            if self.current.kind == DATA {
                requests.body(stream, side, count);
            } else if self.current.kind == HEADERS && self.block.len() <= MAX_HEAD {
                self.block.extend_from_slice(content);
                if self.rest == 0 {
                    head(requests, std::mem::take(&mut self.block));
                }
            }
        }
    }
}
