//! The IPv4 header.
//!
//! ```text
//!  0               1               2               3
//! |version|  IHL  |   DSCP    |ECN|          total length         |
//! |         identification        |flags|     fragment offset     |
//! |      TTL      |    protocol   |        header checksum        |
//! |                         source address                        |
//! |                         target address                        |
//! ```
//!
//! Implements RFC 791 §3.1. The headers that this module writes have no options, and have Don't Fragment set (RFC 1191
//! §3). Options of received packets are skipped.

use super::{HOP_LIMIT, IpError};
use anabranch_base::Ecn;
use std::net::Ipv4Addr;

/// The length in bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// The fields of an IPv4 header, except options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The source address.
    pub source: Ipv4Addr,
    /// The target address.
    pub target: Ipv4Addr,
    /// The protocol of the payload.
    pub protocol: u8,
    /// The differentiated services codepoint (DSCP), 6 bits.
    pub dscp: u8,
    /// The ECN bits.
    pub ecn: Ecn,
    /// Time to live: the number of routers that the packet may still pass.
    pub hop_limit: u8,
    /// The number that all fragments of one packet share.
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Whether more fragments of this packet follow.
    pub more_fragments: bool,
    /// The offset of this fragment in the payload of the whole packet, in units of 8 bytes.
    pub fragment_offset: u16,
    /// The length of the header and the payload in bytes.
    pub total_len: u16,
}

impl Header {
    /// Creates the header of a packet with Don't Fragment set. `payload_len` is the number of bytes after the header,
    /// at most 65,515.
    #[must_use]
    pub fn new(source: Ipv4Addr, target: Ipv4Addr, protocol: u8, payload_len: u16) -> Self {
        Self {
            source,
            target,
            protocol,
            dscp: 0,
            ecn: Ecn::NotEct,
            hop_limit: HOP_LIMIT,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            total_len: payload_len.saturating_add(HEADER_LEN as u16),
        }
    }

    /// Reads and verifies a header. Returns the header and its length in bytes, including options.
    ///
    /// # Errors
    /// [`IpError`], also if `bytes` ends before the end of the packet.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), IpError> {
        let (header, len) = Self::parse_quoted(bytes)?;
        if usize::from(header.total_len) > bytes.len() {
            return Err(IpError::Truncated);
        }
        if header_sum(&bytes[..len]) != 0xffff {
            return Err(IpError::Checksum);
        }
        Ok((header, len))
    }

    /// Reads a header without verifying its checksum. The payload may be truncated. Returns the header and its length
    /// in bytes.
    ///
    /// # Errors
    /// [`IpError`].
    #[inline]
    pub fn parse_quoted(bytes: &[u8]) -> Result<(Self, usize), IpError> {
        let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(IpError::Truncated);
        };
        if fixed[0] >> 4 != 4 {
            return Err(IpError::Version(fixed[0] >> 4));
        }
        let len = usize::from(fixed[0] & 0x0f) * 4;
        let total_len = u16::from_be_bytes([fixed[2], fixed[3]]);
        if len < HEADER_LEN || usize::from(total_len) < len {
            return Err(IpError::Length);
        }
        if bytes.len() < len {
            return Err(IpError::Truncated);
        }
        let flags = u16::from_be_bytes([fixed[6], fixed[7]]);
        let header = Self {
            source: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
            target: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
            protocol: fixed[9],
            dscp: fixed[1] >> 2,
            ecn: Ecn::from_bits(fixed[1]),
            hop_limit: fixed[8],
            identification: u16::from_be_bytes([fixed[4], fixed[5]]),
            dont_fragment: flags & 0x4000 != 0,
            more_fragments: flags & 0x2000 != 0,
            fragment_offset: flags & 0x1fff,
            total_len,
        };
        Ok((header, len))
    }

    /// Writes the header, including the checksum, over the first 20 bytes of `out`. Panics if `out` is shorter.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        let Some(out) = out.first_chunk_mut::<HEADER_LEN>() else {
            panic!("no room for an IPv4 header");
        };
        let flags = u16::from(self.dont_fragment) << 14
            | u16::from(self.more_fragments) << 13
            | self.fragment_offset & 0x1fff;
        out[0] = WITHOUT_OPTIONS;
        out[1] = self.dscp << 2 | self.ecn as u8;
        out[2..4].copy_from_slice(&self.total_len.to_be_bytes());
        out[4..6].copy_from_slice(&self.identification.to_be_bytes());
        out[6..8].copy_from_slice(&flags.to_be_bytes());
        out[8] = self.hop_limit;
        out[9] = self.protocol;
        out[10..12].fill(0);
        out[12..16].copy_from_slice(&self.source.octets());
        out[16..20].copy_from_slice(&self.target.octets());
        let checksum = !header_sum(out);
        out[10..12].copy_from_slice(&checksum.to_ne_bytes());
    }
}

/// A template for the IPv4 headers of a flow: the fields that they have in common, and the sum of these fields for the
/// checksum. With a template, the checksum of a packet needs only a few additions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// Bytes 8 to 20 of the header: hop limit, protocol, a checksum of zero, addresses.
    tail: [u8; 12],
    /// The one's complement sum of the constant part of the header, not folded to 16 bits.
    sum: u64,
}

impl Template {
    /// Creates a template for packets with Don't Fragment set, like the headers that [`Header::new`] creates.
    #[must_use]
    pub fn new(source: Ipv4Addr, target: Ipv4Addr, protocol: u8) -> Self {
        let mut whole = [0; HEADER_LEN];
        Header::new(source, target, protocol, 0).emit(&mut whole);
        whole[10..12].fill(0);
        let mut tail = [0; 12];
        tail.copy_from_slice(&whole[8..]);
        Self { tail, sum: sum_of_words(&tail) }
    }

    /// Writes the header of a packet that has `payload_len` bytes after the header, at most 65,515.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_LEN], payload_len: u16, identification: u16, ecn: Ecn) {
        let [high, low] = payload_len.saturating_add(HEADER_LEN as u16).to_be_bytes();
        let first = [WITHOUT_OPTIONS, ecn as u8, high, low];
        let [high, low] = identification.to_be_bytes();
        let second = [high, low, DONT_FRAGMENT, 0];
        let sum = self.sum + u64::from(u32::from_ne_bytes(first)) + u64::from(u32::from_ne_bytes(second));
        out[..4].copy_from_slice(&first);
        out[4..8].copy_from_slice(&second);
        out[8..].copy_from_slice(&self.tail);
        out[10..12].copy_from_slice(&(!fold(sum)).to_ne_bytes());
    }
}

/// Returns whether the checksum of a header without options is right.
#[must_use]
#[inline]
pub fn sum_is_right(header: &[u8; HEADER_LEN]) -> bool {
    fold(sum_of_words(header)) == 0xffff
}

/// The first byte of a header without options: version 4, and a header length of five 32-bit words.
pub const WITHOUT_OPTIONS: u8 = 0x45;
/// The More Fragments flag and the fragment offset. All these bits are zero in a packet that is not a fragment.
pub const FRAGMENT: u16 = 0x3fff;
/// The Don't Fragment flag, in the seventh byte of the header.
const DONT_FRAGMENT: u8 = 0x40;

/// Clears Don't Fragment in the packet at the start of `bytes`, sets the identification that its fragments will share,
/// and updates the checksum. Does nothing if the header is incomplete.
pub fn allow_fragments(bytes: &mut [u8], identification: u16) {
    if bytes.len() < HEADER_LEN {
        return;
    }
    bytes[4..6].copy_from_slice(&identification.to_be_bytes());
    bytes[6] &= !DONT_FRAGMENT;
    refresh_checksum(bytes);
}

/// Recomputes the header checksum of the packet at the start of `bytes`. Does nothing if the header is incomplete.
pub fn refresh_checksum(bytes: &mut [u8]) {
    let len = bytes.first().map_or(0, |byte| usize::from(byte & 0x0f) * 4);
    if len < HEADER_LEN || bytes.len() < len {
        return;
    }
    bytes[10..12].fill(0);
    let checksum = !header_sum(&bytes[..len]);
    bytes[10..12].copy_from_slice(&checksum.to_ne_bytes());
}

/// Returns the one's complement sum of a header, in native byte order. The header's length must be a multiple of four
/// bytes. A header is too short for the vectorized sum of `checksum.rs` to be faster.
#[inline]
fn header_sum(header: &[u8]) -> u16 {
    fold(sum_of_words(header))
}

/// Returns the sum of the native 32-bit words, without folding it to 16 bits.
#[inline]
fn sum_of_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    words.map(|w| u64::from(u32::from_ne_bytes([w[0], w[1], w[2], w[3]]))).sum()
}

#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::internet_checksum;

    /// An IPv4 header that many textbooks use as an example: 192.168.0.1 to 192.168.0.199, UDP, checksum b861.
    const CAPTURED: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];

    #[test]
    fn from_capture() {
        let mut bytes = CAPTURED.to_vec();
        bytes.resize(0x73, 0);
        let (header, len) = Header::parse(&bytes).expect("a header");
        assert_eq!(len, 20);
        assert_eq!(header, Header::new([192, 168, 0, 1].into(), [192, 168, 0, 199].into(), 17, 0x73 - 20));
        let mut out = [0xff; 20];
        header.emit(&mut out);
        assert_eq!(out, CAPTURED);
        assert_eq!(internet_checksum(&out), 0);
    }

    #[test]
    fn a_template_writes_what_the_header_does() {
        let (source, target) = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(172, 31, 255, 254));
        let template = Template::new(source, target, 132);
        for (length, identification, ecn) in
            [(0, 0, Ecn::NotEct), (1480, 1, Ecn::Ect0), (65_515, 0xffff, Ecn::Ce), (33, 0x8000, Ecn::Ect1)]
        {
            let (mut long, mut short) = ([0; HEADER_LEN], [0xff; HEADER_LEN]);
            Header { identification, ecn, ..Header::new(source, target, 132, length) }.emit(&mut long);
            template.emit(&mut short, length, identification, ecn);
            assert_eq!(long, short);
            assert!(sum_is_right(&short));
            short[3] ^= 1;
            assert!(!sum_is_right(&short));
        }
    }

    #[test]
    fn any_flipped_bit_of_the_header_is_noticed() {
        let mut bytes = CAPTURED.to_vec();
        bytes.resize(0x73, 0);
        for bit in 0..160 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn options_are_skipped_and_counted_in_the_checksum() {
        let mut bytes = [0; 32];
        let header = Header { total_len: 32, ..Header::new([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), 6, 0) };
        header.emit(&mut bytes);
        bytes[0] = 0x46;
        bytes[20..24].copy_from_slice(&[1, 1, 1, 0]);
        refresh_checksum(&mut bytes);
        assert_eq!(Header::parse(&bytes), Ok((header, 24)));
        bytes[0] = 0x44;
        assert_eq!(Header::parse(&bytes), Err(IpError::Length));
    }
}
