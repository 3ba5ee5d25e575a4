//! Parses the frames in the payload of a QUIC packet for tools that only observe a connection.
//!
//! Implements RFC 9000 §19. The frames of RFC 9221 and draft-ietf-quic-ack-frequency are only skipped.

use std::ops::RangeInclusive;

/// A QUIC frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// Bytes of a stream (STREAM, RFC 9000 §19.8).
    Stream {
        /// The stream ID.
        id: u64,
        /// The position of the first byte of the frame in the stream.
        offset: u64,
        /// The bytes in the frame.
        data: &'a [u8],
        /// Whether these are the last bytes of the stream.
        fin: bool,
    },
    /// The numbers of received packets (ACK, RFC 9000 §19.3), the highest first.
    Ack(Vec<RangeInclusive<u64>>),
    /// Bytes of the handshake (CRYPTO, RFC 9000 §19.6).
    Crypto {
        /// The position of the first byte of the frame in the handshake data.
        offset: u64,
        /// The bytes in the frame.
        data: &'a [u8],
    },
    /// A further connection ID by which the peer may address the sender (NEW_CONNECTION_ID, RFC 9000 §19.15).
    NewConnectionId(&'a [u8]),
    /// The new flow control limit of the connection (MAX_DATA, RFC 9000 §19.9).
    MaxData(u64),
    /// The new flow control limit of a stream (MAX_STREAM_DATA, RFC 9000 §19.10).
    MaxStreamData {
        /// The stream ID.
        id: u64,
        /// The total number of bytes that may be sent on the stream.
        limit: u64,
    },
    /// The sender has data that the flow control of the connection does not allow (DATA_BLOCKED, RFC 9000 §19.12), with
    /// the limit.
    DataBlocked(u64),
    /// The sender has data that the flow control of a stream does not allow (STREAM_DATA_BLOCKED, RFC 9000 §19.13).
    StreamDataBlocked {
        /// The stream ID.
        id: u64,
        /// The total number of bytes that may be sent on the stream.
        limit: u64,
    },
    /// The new number of streams of a kind that the peer may open in total (MAX_STREAMS, RFC 9000 §19.11).
    MaxStreams {
        /// Whether the limit holds for unidirectional streams.
        unidirectional: bool,
        /// The number of streams.
        limit: u64,
    },
    /// The sender wants to open a stream that the limit does not allow (STREAMS_BLOCKED, RFC 9000 §19.14).
    StreamsBlocked {
        /// Whether the stream would be unidirectional.
        unidirectional: bool,
        /// The number of streams that the limit allows.
        limit: u64,
    },
    /// The sender ends a stream early (RESET_STREAM, RFC 9000 §19.4), with the stream ID.
    ResetStream(u64),
    /// The receiver asks the peer to end a stream early (STOP_SENDING, RFC 9000 §19.5), with the stream ID.
    StopSending(u64),
    /// Padding (PADDING, §19.1).
    Padding,
    /// A frame that only asks for an acknowledgement (PING, RFC 9000 §19.2).
    Ping,
    /// The end of the connection (CONNECTION_CLOSE, RFC 9000 §19.19). The peer does not acknowledge it.
    Close {
        /// Whether the transport closed the connection; otherwise the application did.
        transport: bool,
        /// The error code.
        code: u64,
    },
    /// A token that the peer has to repeat (PATH_CHALLENGE, RFC 9000 §19.17).
    PathChallenge(u64),
    /// The token that the peer repeats (PATH_RESPONSE, RFC 9000 §19.18).
    PathResponse(u64),
    /// A frame of any other type; the number is the type.
    Other(u64),
}

impl Frame<'_> {
    /// RFC 9002 §2: returns whether the frame makes its packet ack-eliciting.
    #[must_use]
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Ack(_) | Self::Padding | Self::Close { .. })
    }
}

/// Iterates over the frames of a payload, up to its end or to the first frame that cannot be parsed.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a>(pub &'a [u8]);

impl<'a> Frames<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a variable-length integer (RFC 9000 §16).
    pub fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let mut value = u64::from(first & 0x3f);
        for _ in 1..1u8 << (first >> 6) {
            value = value << 8 | u64::from(self.byte()?);
        }
        Some(value)
    }

    /// Removes and returns the next `count` bytes.
    pub fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn skip_numbers(&mut self, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.number().map(|_| ()))
    }

    /// Reads the next transport parameter (RFC 9000 §18). Returns its ID, and its value as a variable-length integer.
    /// The value is meaningless if the parameter is not an integer.
    pub fn parameter(&mut self) -> Option<(u64, u64)> {
        let (key, length) = (self.number()?, self.number()?);
        let rest = self.0;
        let value = self.number().unwrap_or(0);
        self.0 = rest;
        self.bytes(length)?;
        Some((key, value))
    }

    fn ack(&mut self, ecn: bool) -> Option<Frame<'a>> {
        let largest = self.number()?;
        self.number()?;
        let more = self.number()?;
        let mut least = largest.checked_sub(self.number()?)?;
        let mut ranges = vec![least..=largest];
        for _ in 0..more {
            let largest = least.checked_sub(self.number()?)?.checked_sub(2)?;
            least = largest.checked_sub(self.number()?)?;
            ranges.push(least..=largest);
        }
        self.skip_numbers(if ecn { 3 } else { 0 })?;
        Some(Frame::Ack(ranges))
    }

    fn stream(&mut self, kind: u64) -> Option<Frame<'a>> {
        let id = self.number()?;
        let offset = if kind & 4 != 0 { self.number()? } else { 0 };
        let length = if kind & 2 != 0 { self.number()? } else { self.0.len() as u64 };
        let data = self.bytes(length)?;
        Some(Frame::Stream { id, offset, data, fin: kind & 1 != 0 })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let kind = self.number()?;
        Some(match kind {
            0x00 => {
                let zeros = self.0.iter().take_while(|byte| **byte == 0).count();
                self.bytes(zeros as u64)?;
                Frame::Padding
            }
            0x01 => Frame::Ping,
            0x02 | 0x03 => self.ack(kind == 0x03)?,
            0x06 => {
                let (offset, length) = (self.number()?, self.number()?);
                Frame::Crypto { offset, data: self.bytes(length)? }
            }
            0x08..=0x0f => self.stream(kind)?,
            0x10 => Frame::MaxData(self.number()?),
            0x11 => Frame::MaxStreamData { id: self.number()?, limit: self.number()? },
            0x04 => {
                let id = self.number()?;
                self.skip_numbers(2)?;
                Frame::ResetStream(id)
            }
            0x05 => {
                let id = self.number()?;
                self.skip_numbers(1)?;
                Frame::StopSending(id)
            }
            0x12 | 0x13 => Frame::MaxStreams { unidirectional: kind == 0x13, limit: self.number()? },
            0x16 | 0x17 => Frame::StreamsBlocked { unidirectional: kind == 0x17, limit: self.number()? },
            0x14 => Frame::DataBlocked(self.number()?),
            0x15 => Frame::StreamDataBlocked { id: self.number()?, limit: self.number()? },
            0x1c | 0x1d => {
                let code = self.number()?;
                self.skip_numbers(if kind == 0x1c { 1 } else { 0 })?;
                let reason = self.number()?;
                self.bytes(reason)?;
                Frame::Close { transport: kind == 0x1c, code }
            }
            0x1a | 0x1b => {
                let (token, rest) = self.0.split_first_chunk()?;
                let token = u64::from_be_bytes(*token);
                self.0 = rest;
                if kind == 0x1a { Frame::PathChallenge(token) } else { Frame::PathResponse(token) }
            }
            0x18 => {
                self.skip_numbers(2)?;
                let length = self.byte()?;
                let id = self.bytes(length.into())?;
                self.bytes(16)?;
                Frame::NewConnectionId(id)
            }
            other => {
                match other {
                    0x1e | 0x1f => {}
                    0x19 => self.skip_numbers(1)?,
                    0xaf => self.skip_numbers(4)?,
                    0x07 | 0x31 => {
                        let length = self.number()?;
                        self.bytes(length)?;
                    }
                    0x30 => self.0 = &[],
                    _ => return None,
                }
                Frame::Other(other)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    #[test]
    fn frames_are_what_the_rfc_says() {
        let payload = [
            &[0x02, 0x40, 0x64, 0x00, 0x01, 0x02, 0x03, 0x01][..],
            &[0x06, 0x05, 0x02, 0xaa, 0xbb],
            &[0x10, 0x80, 0x01, 0x00, 0x00],
            &[0x11, 0x04, 0x20],
            &[0x14, 0x09],
            &[0x15, 0x04, 0x20],
            &[0x12, 0x05, 0x17, 0x03],
            &[0x04, 0x08, 0x07, 0x40, 0x64],
            &[0x05, 0x0c, 0x07],
            &[0x18, 0x01, 0x00, 0x02, 1, 2],
            &[0; 16],
            &[0x00, 0x00, 0x01],
            &[0x0e, 0x04, 0x07, 0x02, 9, 9],
            &[0x09, 0x08, 1, 2, 3],
        ]
        .concat();
        let frames: Vec<Frame<'_>> = Frames(&payload).collect();
        let wanted = [
            Frame::Ack(vec![98..=100, 92..=93]),
            Frame::Crypto { offset: 5, data: &[0xaa, 0xbb] },
            Frame::MaxData(65_536),
            Frame::MaxStreamData { id: 4, limit: 32 },
            Frame::DataBlocked(9),
            Frame::StreamDataBlocked { id: 4, limit: 32 },
            Frame::MaxStreams { unidirectional: false, limit: 5 },
            Frame::StreamsBlocked { unidirectional: true, limit: 3 },
            Frame::ResetStream(8),
            Frame::StopSending(12),
            Frame::NewConnectionId(&[1, 2]),
            Frame::Padding,
            Frame::Ping,
            Frame::Stream { id: 4, offset: 7, data: &[9, 9], fin: false },
            Frame::Stream { id: 8, offset: 0, data: &[1, 2, 3], fin: true },
        ];
        assert_eq!(frames, wanted);
        let eliciting: Vec<bool> = frames.iter().map(Frame::is_ack_eliciting).collect();
        assert_eq!(
            eliciting,
            [false, true, true, true, true, true, true, true, true, true, true, false, true, true, true]
        );
    }

    /// RFC 9000 §19: a frame whose content is not used is skipped, according to the lengths of its fields.
    #[test]
    fn frames_that_are_not_read_are_skipped_to_their_end() {
        let frames = [
            (0x07, &[2, 9, 9][..]),
            (0x19, &[3]),
            (0x1e, &[]),
            (0x1f, &[]),
            (0x31, &[2, 9, 9]),
            (0xaf, &[1, 2, 3, 4]),
        ];
        for (kind, content) in frames {
            let payload = [&[0x40, kind], content, &[0x01]].concat();
            let read: Vec<Frame<'_>> = Frames(&payload).collect();
            assert_eq!(read, [Frame::Other(kind.into()), Frame::Ping], "{kind:#x}");
        }
        // RFC 9221 §4: a DATAGRAM frame without a length extends to the end of the packet.
        let read: Vec<Frame<'_>> = Frames(&[0x01, 0x30, 0x01, 0x01]).collect();
        assert_eq!(read, [Frame::Ping, Frame::Other(0x30)]);
        // A frame of an unknown type has an unknown length, so parsing stops before it.
        assert_eq!(Frames(&[0x01, 0x2f, 0x01]).collect::<Vec<Frame<'_>>>(), [Frame::Ping]);
    }

    #[test]
    fn parsing_random_bytes_terminates() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let mut bytes = vec![0; rng.below(60) as usize];
            rng.fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first %= 0x32;
            }
            assert!(Frames(&bytes).count() <= bytes.len());
        }
    }
}
