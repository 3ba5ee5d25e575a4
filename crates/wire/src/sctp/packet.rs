//! The SCTP packet: the common header, the checksum, and the iterator over the chunks.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                       verification tag                        |
//! +---------------------------------------------------------------+
//! |              checksum (CRC32c, low byte first)                |
//! +---------------------------------------------------------------+
//! |                          chunk 1 …                            |
//! ```
//!
//! Implements RFC 9260 §3.1.

use super::chunk::Chunk;
use super::crc32c;
use super::tlv::{Malformed, RawChunk};

/// The size of the common header in bytes.
pub const HEADER: usize = 12;

/// The common header without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub target_port: u16,
    /// The verification tag.
    pub tag: u32,
}

impl Header {
    /// Reads the ports and the verification tag, but not the checksum. The quote in an ICMP message contains at least
    /// these eight bytes.
    #[must_use]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[s0, s1, t0, t1, v0, v1, v2, v3] = bytes.first_chunk::<8>()?;
        Some(Self {
            source_port: u16::from_be_bytes([s0, s1]),
            target_port: u16::from_be_bytes([t0, t1]),
            tag: u32::from_be_bytes([v0, v1, v2, v3]),
        })
    }
}

/// The reason why bytes are not an SCTP packet. An endpoint drops such a packet without a response (RFC 9260 §6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PacketError {
    /// The packet is shorter than the common header.
    #[error("shorter than an SCTP common header")]
    TooShort,
    /// The checksum is wrong.
    #[error("wrong CRC32c")]
    Checksum,
    /// A port is 0, which is never valid.
    #[error("port 0")]
    PortZero,
}

/// An SCTP packet, as a view of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketView<'a> {
    /// The common header.
    pub header: Header,
    body: &'a [u8],
}

impl<'a> PacketView<'a> {
    /// Reads a packet and verifies its checksum.
    ///
    /// # Errors
    /// The packet is too short, the checksum is wrong, or a port is 0.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let packet = Self::parse_unverified(bytes)?;
        if !crc32c::is_valid(bytes) {
            return Err(PacketError::Checksum);
        }
        packet.check_ports()
    }

    /// RFC 9260 §3.1: returns an error if a port is 0, which must not be used.
    #[inline]
    fn check_ports(self) -> Result<Self, PacketError> {
        let Header { source_port, target_port, .. } = self.header;
        if source_port == 0 || target_port == 0 { Err(PacketError::PortZero) } else { Ok(self) }
    }

    /// Reads a packet whose checksum the caller has already verified with [`crc32c::is_valid_with_headroom`].
    ///
    /// # Errors
    /// The packet is too short, or a port is 0.
    #[inline]
    pub fn parse_verified(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse_unverified(bytes)?.check_ports()
    }

    /// Reads a packet whose checksum field is zero and therefore does not detect errors (RFC 9653 §5.3). The caller
    /// must know that another method detects errors in the packet.
    ///
    /// # Errors
    /// The packet is too short, the checksum is not zero, or a port is 0.
    pub fn parse_without_checksum(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let packet = Self::parse_unverified(bytes)?;
        if !has_zero_checksum(bytes) {
            return Err(PacketError::Checksum);
        }
        if packet.header.source_port == 0 || packet.header.target_port == 0 {
            return Err(PacketError::PortZero);
        }
        Ok(packet)
    }

    /// Reads a packet without verifying its checksum. Meant for tools.
    ///
    /// # Errors
    /// The packet is too short.
    #[inline]
    pub fn parse_unverified(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (_, body) = bytes.split_first_chunk::<HEADER>().ok_or(PacketError::TooShort)?;
        let header = Header::parse(bytes).ok_or(PacketError::TooShort)?;
        Ok(Self { header, body })
    }

    /// Returns an iterator that parses the chunks in order.
    #[must_use]
    #[inline]
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.body }
    }

    /// Returns the bytes after the common header.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// Iterates over the chunks of a packet. A framing error (an invalid length) ends the iteration; an error inside one
/// chunk does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// Creates an iterator over `body`, which begins with the header of a chunk.
    #[must_use]
    pub const fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// Returns the next chunk without parsing its value.
    #[inline]
    pub fn next_raw(&mut self) -> Option<Result<RawChunk<'a>, Malformed>> {
        RawChunk::take(&mut self.rest)
    }

    /// Returns the remaining chunks without parsing their values, up to the first framing error.
    pub fn framed(mut self) -> impl Iterator<Item = RawChunk<'a>> {
        std::iter::from_fn(move || self.next_raw()?.ok())
    }

    /// Returns the bytes that have not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns whether no bytes are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_raw()?.and_then(Chunk::parse))
    }
}

/// Begins a packet at the end of `buffer`: writes the common header and returns its position, which [`finish`] needs.
#[inline]
pub fn begin(buffer: &mut Vec<u8>, source_port: u16, target_port: u16, tag: u32) -> usize {
    let start = buffer.len();
    let mut header = [0; HEADER];
    header[0..2].copy_from_slice(&source_port.to_be_bytes());
    header[2..4].copy_from_slice(&target_port.to_be_bytes());
    header[4..8].copy_from_slice(&tag.to_be_bytes());
    buffer.extend_from_slice(&header);
    start
}

/// Writes the checksum of the packet that [`begin`] began at position `start`.
#[inline]
pub fn finish(buffer: &mut [u8], start: usize) {
    crc32c::put(&mut buffer[start..]);
}

/// Like [`finish`], but for a packet that is alone in its buffer, because the bytes in front of the packet may be
/// overwritten.
#[inline]
pub fn finish_alone(buffer: &mut [u8], start: usize) {
    crc32c::put_with_headroom(buffer, start);
}

/// Returns whether the checksum field of a packet is zero.
#[must_use]
#[inline]
pub fn has_zero_checksum(bytes: &[u8]) -> bool {
    bytes.get(8..12) == Some(&[0; 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::{CookieAck, Data, Tsn};
    use anabranch_base::Rng;

    #[test]
    fn a_packet_in_the_middle_of_a_buffer() {
        let mut buffer = vec![0xaa; 48];
        let start = begin(&mut buffer, 1, 2, 0x0102_0304);
        CookieAck.emit(&mut buffer);
        finish(&mut buffer, start);
        assert_eq!(start, 48);
        let packet = PacketView::parse(&buffer[start..]).expect("valid");
        assert_eq!(packet.header, Header { source_port: 1, target_port: 2, tag: 0x0102_0304 });
        assert_eq!(packet.chunks().count(), 1);
        assert!(buffer[..48].iter().all(|&b| b == 0xaa));
    }

    /// RFC 9260 Appendix A: the checksum of a packet with a COOKIE ECHO equals the result of a bit-by-bit computation,
    /// with the lowest bit first. The checksum field counts as zero.
    #[test]
    fn the_checksum_is_what_a_bitwise_one_gives() {
        let packet = [0x0b, 0x59, 0x0b, 0x59, 0, 0, 0x0e, 0x50, 0x53, 0xc3, 0x05, 0x5f, 0x0a, 0, 0, 4];
        let bitwise = {
            let mut cleared = packet;
            cleared[8..12].fill(0);
            let mut crc = !0_u32;
            for byte in cleared {
                crc ^= u32::from(byte);
                for _ in 0..8 {
                    crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
                }
            }
            !crc
        };
        assert_eq!(bitwise, crc32c::of_packet(&packet));
    }

    #[test]
    fn corruption_short_packets_and_port_zero_are_told_apart() {
        let mut buffer = Vec::new();
        let start = begin(&mut buffer, 9, 7, 5);
        Data { tsn: Tsn(1), payload: b"abc", ..Data::default() }.emit(&mut buffer);
        finish(&mut buffer, start);
        for i in 0..buffer.len() {
            let mut bad = buffer.clone();
            bad[i] ^= 0x10;
            assert_eq!(PacketView::parse(&bad), Err(PacketError::Checksum), "byte {i}");
        }
        assert_eq!(PacketView::parse(&buffer[..11]), Err(PacketError::TooShort));
        let mut zero = Vec::new();
        begin(&mut zero, 0, 7, 5);
        finish(&mut zero, 0);
        assert_eq!(PacketView::parse(&zero), Err(PacketError::PortZero));
    }

    #[test]
    fn random_bytes_never_panic_and_walks_end() {
        let mut rng = Rng::new(0x5c79);
        for _ in 0..200_000 {
            let mut bytes = vec![0; 12 + rng.below(200) as usize];
            rng.fill(&mut bytes);
            // Some random words are replaced by the header of a short chunk with a known type. Otherwise the iteration
            // would almost always end at the first chunk.
            bytes[12..].chunks_exact_mut(4).for_each(|word| {
                if rng.below(3) == 0 {
                    word.copy_from_slice(&[rng.below(16) as u8, word[1], 0, rng.below(48) as u8]);
                }
            });
            let packet = PacketView::parse_unverified(&bytes).expect("long enough");
            let mut steps = 0;
            for chunk in packet.chunks() {
                steps += 1;
                assert!(steps <= bytes.len() / 4 + 1);
                if let Ok(chunk) = chunk {
                    let text = chunk.to_string();
                    assert!(!text.is_empty());
                    let mut again = Vec::new();
                    chunk.emit(&mut again);
                }
            }
        }
    }
}
