//! The TCP header and its checksum.
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +-------------------------------+-------------------------------+
//!  |          source port          |          target port          |
//!  +-------------------------------+-------------------------------+
//!  |                        sequence number                        |
//!  +---------------------------------------------------------------+
//!  |                     acknowledgment number                     |
//!  +-------+-------+-+-+-+-+-+-+-+-+-------------------------------+
//!  | length|   0   |C|E|U|A|P|R|S|F|             window            |
//!  +-------+-------+-+-+-+-+-+-+-+-+-------------------------------+
//!  |            checksum           |         urgent pointer        |
//!  +-------------------------------+-------------------------------+
//!  |                 options, then the payload                     |
//! ```
//! Implements RFC 9293 §3.1 and RFC 3168 §6.1 (the CWR and ECE bits).

use super::PROTOCOL;
pub use super::Seq;
use super::options::Options;
use crate::checksum::Checksum;
use std::fmt;
use std::net::IpAddr;

/// The control bits of a TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// FIN: the sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// SYN: synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// RST: reset the connection.
    pub const RST: Self = Self(0x04);
    /// PSH: push function.
    pub const PSH: Self = Self(0x08);
    /// ACK: the acknowledgment number is valid.
    pub const ACK: Self = Self(0x10);
    /// URG: the urgent pointer is valid.
    pub const URG: Self = Self(0x20);
    /// ECE: ECN echo.
    pub const ECE: Self = Self(0x40);
    /// CWR: congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Returns whether `self` has all bits of `other`.
    #[must_use]
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether `self` has any bit of `other`.
    #[must_use]
    #[inline]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the bits of `self` that are not in `other`.
    #[must_use]
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the bits that are in `self` or in `other`.
    #[must_use]
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// Writes the names of the flags that are set, in the usual order, for example `SYN ACK`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::SYN, "SYN"),
            (Self::FIN, "FIN"),
            (Self::RST, "RST"),
            (Self::PSH, "PSH"),
            (Self::ACK, "ACK"),
            (Self::URG, "URG"),
            (Self::ECE, "ECE"),
            (Self::CWR, "CWR"),
        ];
        let mut first = true;
        for (flag, name) in names {
            if self.has(flag) {
                write!(f, "{}{name}", if first { "" } else { " " })?;
                first = false;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A TCP header without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub target_port: u16,
    /// The sequence number of the first payload byte, or of the SYN if the segment has one.
    pub seq: Seq,
    /// The next sequence number that the sender expects. Valid only if [`Flags::ACK`] is set.
    pub ack: Seq,
    /// The control bits.
    pub flags: Flags,
    /// The window field as sent. The window scale option is not applied.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// The options of the segment.
    pub options: Options,
}

/// A TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment<'a> {
    /// The header.
    pub header: Header,
    /// The bytes after the header.
    pub payload: &'a [u8],
}

/// The reason why bytes are not a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    /// There are fewer bytes than a header has.
    #[error("{0} bytes are fewer than a TCP header")]
    Truncated(usize),
    /// The data offset is smaller than the fixed header, or larger than the segment.
    #[error("a data offset of {0} bytes is not possible here")]
    BadOffset(usize),
}

impl Header {
    /// The length in bytes of a header without options.
    pub const MIN_LEN: usize = 20;

    /// Returns the length in bytes of this header, including its options.
    #[must_use]
    #[inline]
    pub fn encoded_len(&self) -> usize {
        Self::MIN_LEN + self.options.encoded_len()
    }

    /// Appends the header with a checksum field of zero, which [`seal`] fills in.
    #[inline]
    pub fn emit(&self, out: &mut Vec<u8>) {
        // On an established connection, the only option is usually timestamps. Such a header is written with one copy.
        if let Some(stamps) = self.options.only_timestamps() {
            let mut bytes = [0; Self::MIN_LEN + Options::TIMESTAMPS_LEN];
            bytes[..Self::MIN_LEN].copy_from_slice(&self.fixed(Options::TIMESTAMPS_LEN));
            bytes[Self::MIN_LEN..].copy_from_slice(&stamps.emit());
            out.extend_from_slice(&bytes);
            return;
        }
        self.emit_any(out);
    }

    /// Appends the header with its options, whatever these are.
    #[inline(never)]
    fn emit_any(&self, out: &mut Vec<u8>) {
        let mut options_bytes = [0; Options::MAX_LEN];
        let options_len = self.options.emit(&mut options_bytes);
        out.extend_from_slice(&self.fixed(options_len));
        out.extend_from_slice(&options_bytes[..options_len]);
    }

    /// Returns the fixed part of the header, to be followed by options of `options_len` bytes.
    #[inline]
    fn fixed(&self, options_len: usize) -> [u8; Self::MIN_LEN] {
        let mut fixed = [0_u8; Self::MIN_LEN];
        fixed[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        fixed[2..4].copy_from_slice(&self.target_port.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        fixed[12] = (((Self::MIN_LEN + options_len) / 4) << 4) as u8;
        fixed[13] = self.flags.0;
        fixed[14..16].copy_from_slice(&self.window.to_be_bytes());
        fixed[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        fixed
    }
}

impl<'a> Segment<'a> {
    /// Reads a segment without verifying its checksum, which [`is_intact`] verifies.
    ///
    /// # Errors
    /// [`ParseError`] if a length is invalid.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut segment = Self::default();
        segment.read(bytes)?;
        Ok(segment)
    }

    /// Like [`parse`](Self::parse), but writes the result into `self`, because moving a header costs more than reading
    /// it.
    ///
    /// # Errors
    /// [`ParseError`]. In that case the segment is unchanged.
    #[inline]
    pub fn read(&mut self, bytes: &'a [u8]) -> Result<(), ParseError> {
        let Some(fixed) = bytes.first_chunk::<{ Header::MIN_LEN }>() else {
            return Err(ParseError::Truncated(bytes.len()));
        };
        let offset = usize::from(fixed[12] >> 4) * 4;
        if offset < Header::MIN_LEN || offset > bytes.len() {
            return Err(ParseError::BadOffset(offset));
        }
        let header = &mut self.header;
        header.source_port = u16::from_be_bytes([fixed[0], fixed[1]]);
        header.target_port = u16::from_be_bytes([fixed[2], fixed[3]]);
        header.seq = Seq(u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]));
        header.ack = Seq(u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]));
        header.flags = Flags(fixed[13]);
        header.window = u16::from_be_bytes([fixed[14], fixed[15]]);
        header.urgent = u16::from_be_bytes([fixed[18], fixed[19]]);
        header.options.read(&bytes[Header::MIN_LEN..offset]);
        self.payload = &bytes[offset..];
        Ok(())
    }

    /// RFC 9293 §3.4: returns the length in sequence space. SYN and FIN each count as one byte.
    #[must_use]
    #[inline]
    pub fn sequence_len(&self) -> u32 {
        let controls =
            u32::from(self.header.flags.has(Flags::SYN)) + u32::from(self.header.flags.has(Flags::FIN));
        self.payload.len() as u32 + controls
    }
}

impl fmt::Display for Segment<'_> {
    /// Writes a line for tools, for example `SYN ACK seq=7 ack=9 len=0 win=65535 mss=1460 …`, with absolute sequence
    /// numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { seq, ack, flags, window, options, .. } = &self.header;
        write!(f, "{flags} seq={seq}")?;
        if flags.has(Flags::ACK) {
            write!(f, " ack={ack}")?;
        }
        write!(f, " len={} win={window}", self.payload.len())?;
        if let Some(mss) = options.mss {
            write!(f, " mss={mss}")?;
        }
        if let Some(shift) = options.window_scale {
            write!(f, " ws={shift}")?;
        }
        if options.sack_permitted {
            write!(f, " sack-ok")?;
        }
        if let Some(stamps) = options.timestamps {
            write!(f, " ts={}/{}", stamps.value, stamps.echo)?;
        }
        for (start, end) in options.sack.as_slice() {
            write!(f, " sack={start}-{end}")?;
        }
        Ok(())
    }
}

/// Fills in the checksum of `segment`. If the addresses are of different IP versions, the checksum stays zero, which no
/// receiver accepts.
#[inline]
pub fn seal(segment: &mut [u8], source: IpAddr, target: IpAddr) {
    assert!(segment.len() >= Header::MIN_LEN, "not a segment");
    let length = segment.len() as u32;
    if let Some(mut sum) = Checksum::pseudo_header(source, target, PROTOCOL, length) {
        sum.add(segment);
        segment[16..18].copy_from_slice(&sum.finish().to_be_bytes());
    }
}

/// Returns whether the checksum of the segment is right for these source and target addresses.
#[must_use]
#[inline]
pub fn is_intact(segment: &[u8], source: IpAddr, target: IpAddr) -> bool {
    let Some(mut sum) = Checksum::pseudo_header(source, target, PROTOCOL, segment.len() as u32) else {
        return false;
    };
    sum.add(segment);
    sum.is_valid()
}

/// Returns whether the segment was captured on the sending host before the network card computed its checksum. In that
/// case the checksum field is zero, or contains the sum over the pseudo-header alone. The sum includes the segment's
/// length, unless the card is to split the segment.
#[must_use]
pub fn has_offloaded_checksum(segment: &[u8], source: IpAddr, target: IpAddr) -> bool {
    let Some(field) = segment.get(16..18).and_then(<[u8]>::first_chunk) else { return false };
    let field = u16::from_be_bytes(*field);
    let partial = |length| Checksum::pseudo_header(source, target, PROTOCOL, length).map(|sum| !sum.finish());
    field == 0 || [segment.len() as u32, 0].into_iter().any(|length| partial(length) == Some(field))
}

/// Returns the source port, the target port and the sequence number of a segment. Reads only the first eight bytes,
/// because an ICMP message quotes at least these (RFC 792).
#[must_use]
pub fn peek_ports_and_seq(quoted: &[u8]) -> Option<(u16, u16, Seq)> {
    let head = quoted.first_chunk::<8>()?;
    let source = u16::from_be_bytes([head[0], head[1]]);
    let target = u16::from_be_bytes([head[2], head[3]]);
    Some((source, target, Seq(u32::from_be_bytes([head[4], head[5], head[6], head[7]]))))
}

#[cfg(test)]
mod tests {
    use super::super::options::Timestamps;
    use super::*;
    use std::net::Ipv4Addr;

    fn sample() -> Header {
        Header {
            source_port: 49152,
            target_port: 80,
            seq: Seq(0xffff_fff0),
            ack: Seq(77),
            flags: Flags::ACK.with(Flags::PSH),
            window: 512,
            urgent: 0,
            options: Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::default() },
        }
    }

    #[test]
    fn round_trip_with_checksum() {
        let (a, b) = (IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::from(Ipv4Addr::new(10, 0, 0, 2)));
        let mut bytes = Vec::new();
        sample().emit(&mut bytes);
        bytes.extend_from_slice(b"hello");
        seal(&mut bytes, a, b);
        assert!(is_intact(&bytes, a, b));
        let segment = Segment::parse(&bytes).expect("a segment");
        assert_eq!(segment.header, sample());
        assert_eq!(segment.payload, b"hello");
        assert_eq!(segment.sequence_len(), 5);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_intact(&damaged, a, b), "bit {bit}");
        }
        assert_eq!(peek_ports_and_seq(&bytes[..8]), Some((49152, 80, Seq(0xffff_fff0))));
    }

    #[test]
    fn a_checksum_that_is_left_to_the_card_is_the_sum_of_the_pseudo_header() {
        let (a, b) =
            (IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::from(Ipv4Addr::new(198, 51, 100, 1)));
        let mut bytes = Vec::new();
        sample().emit(&mut bytes);
        bytes.extend_from_slice(b"hello");
        // The pseudo-header consists of the addresses, the protocol 6 and the length 0x25. Its folded sum is 0xc000 +
        // 0x0201 + 0xc633 + 0x6401 + 6 + 0x25 = 0xec61. Without the length, the sum is 0xec3c.
        for (field, is_left) in
            [(0xec61_u16, true), (0xec3c, true), (0, true), (0x139e, false), (0xec62, false)]
        {
            bytes[16..18].copy_from_slice(&field.to_be_bytes());
            assert_eq!(has_offloaded_checksum(&bytes, a, b), is_left, "{field:04x}");
        }
        seal(&mut bytes, a, b);
        assert!(!has_offloaded_checksum(&bytes, a, b) && !has_offloaded_checksum(&bytes[..17], a, b));
    }

    /// A SYN that tcpdump captured is parsed: its flags, sequence number, window and MSS are right.
    #[test]
    fn from_capture() {
        let bytes = [
            0xc0, 0x00, 0x00, 0x50, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x60, 0x02, 0xff, 0xff,
            0x00, 0x00, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4,
        ];
        let segment = Segment::parse(&bytes).expect("a segment");
        assert_eq!(segment.to_string(), "SYN seq=1 len=0 win=65535 mss=1460");
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let mut bytes = Vec::new();
        sample().emit(&mut bytes);
        for len in 0..bytes.len() {
            assert!(Segment::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
        bytes[12] = 0x40;
        assert_eq!(Segment::parse(&bytes), Err(ParseError::BadOffset(16)));
        assert_eq!(Segment::parse(&[]), Err(ParseError::Truncated(0)));
    }
}
