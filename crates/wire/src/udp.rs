//! The UDP header.
//!
//! ```text
//!  0               1               2               3
//! |          source port          |          target port          |
//! |             length            |            checksum           |
//! ```
//!
//! Implements RFC 768 and, for UDP over IPv6, RFC 8200 §8.1: a checksum of zero is not accepted.

use crate::checksum::Checksum;
use crate::ip::protocol;
use std::net::{IpAddr, SocketAddr};

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 8;

/// The reason why bytes are not a valid UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UdpError {
    /// The data is shorter than a header, or shorter than the length field says.
    #[error("truncated UDP datagram")]
    Truncated,
    /// The length field is less than the eight bytes of the header.
    #[error("the UDP length field is wrong")]
    Length,
    /// The checksum is wrong, or is missing although it is mandatory.
    #[error("wrong UDP checksum")]
    Checksum,
}

/// A UDP datagram, as a view of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub target_port: u16,
    /// The bytes after the header.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram that was sent from the IP address `source` to `target`, and verifies its checksum.
    ///
    /// # Errors
    /// [`UdpError`].
    pub fn parse(bytes: &'a [u8], source: IpAddr, target: IpAddr) -> Result<Self, UdpError> {
        let datagram = Self::parse_quoted(bytes)?;
        let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        if length < HEADER_LEN {
            return Err(UdpError::Length);
        }
        if length > bytes.len() {
            return Err(UdpError::Truncated);
        }
        // RFC 768: a checksum of zero means that the sender computed none.
        if bytes[6..8] == [0, 0] {
            return if source.is_ipv4() { Ok(datagram) } else { Err(UdpError::Checksum) };
        }
        let sum = Checksum::pseudo_header(source, target, protocol::UDP, length as u32);
        let Some(mut sum) = sum else { return Err(UdpError::Checksum) };
        sum.add(&bytes[..length]);
        if sum.is_valid() { Ok(datagram) } else { Err(UdpError::Checksum) }
    }

    /// Reads the ports of a datagram that may be truncated, for example because an ICMP message quotes it. Verifies
    /// nothing.
    ///
    /// # Errors
    /// [`UdpError::Truncated`] if the header is incomplete.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, UdpError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(UdpError::Truncated);
        };
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        Ok(Self {
            source_port: u16::from_be_bytes([header[0], header[1]]),
            target_port: u16::from_be_bytes([header[2], header[3]]),
            payload: &bytes[HEADER_LEN..length.clamp(HEADER_LEN, bytes.len())],
        })
    }
}

/// Writes the header, including the checksum, over the first eight bytes of `datagram`. The payload must already follow
/// the header. The two addresses must be of the same IP version, and `datagram` must have 8 to 65,535 bytes.
pub fn emit_in_place(datagram: &mut [u8], source: SocketAddr, target: SocketAddr) {
    emit_without_checksum(datagram, source.port(), target.port());
    write_checksum(datagram, source.ip(), target.ip());
}

/// Like [`emit_in_place`], but sets the checksum to zero. [`write_checksum`] writes the checksum later.
#[inline]
pub fn emit_without_checksum(datagram: &mut [u8], source_port: u16, target_port: u16) {
    assert!(datagram.len() >= HEADER_LEN, "no room for a UDP header");
    let Ok(length) = u16::try_from(datagram.len()) else { panic!("a UDP datagram above 65,535 bytes") };
    datagram[0..2].copy_from_slice(&source_port.to_be_bytes());
    datagram[2..4].copy_from_slice(&target_port.to_be_bytes());
    datagram[4..6].copy_from_slice(&length.to_be_bytes());
    datagram[6..8].fill(0);
}

/// Writes the checksum of a datagram whose checksum field is zero. The two addresses must be of the same IP version.
pub fn write_checksum(datagram: &mut [u8], source: IpAddr, target: IpAddr) {
    let sum = Checksum::pseudo_header(source, target, protocol::UDP, datagram.len() as u32);
    let Some(mut sum) = sum else { panic!("UDP between address families") };
    sum.add(datagram);
    // RFC 768: a computed checksum of zero is sent as all ones.
    let checksum = match sum.finish() {
        0 => 0xffff,
        checksum => checksum,
    };
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(v6: bool) -> (SocketAddr, SocketAddr) {
        if v6 {
            (
                "[2001:db8::1]:9899".parse().expect("an address"),
                "[2001:db8::2]:53".parse().expect("an address"),
            )
        } else {
            ("10.0.0.1:9899".parse().expect("an address"), "10.0.0.2:53".parse().expect("an address"))
        }
    }

    #[test]
    fn round_trip_and_every_flipped_bit_is_noticed() {
        for v6 in [false, true] {
            let (source, target) = pair(v6);
            let mut bytes = vec![0; 8];
            bytes.extend_from_slice(b"some payload of odd length!");
            emit_in_place(&mut bytes, source, target);
            let datagram = Datagram::parse(&bytes, source.ip(), target.ip()).expect("a datagram");
            assert_eq!((datagram.source_port, datagram.target_port), (9899, 53));
            assert_eq!(datagram.payload, b"some payload of odd length!");
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Datagram::parse(&bytes, source.ip(), target.ip()).is_err(), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    /// RFC 768, RFC 8200 §8.1: a missing checksum is accepted over IPv4 and is an error over IPv6.
    #[test]
    fn a_missing_checksum() {
        for v6 in [false, true] {
            let (source, target) = pair(v6);
            let mut bytes = vec![1; 20];
            emit_in_place(&mut bytes, source, target);
            bytes[6..8].fill(0);
            assert_eq!(Datagram::parse(&bytes, source.ip(), target.ip()).is_err(), v6);
        }
    }

    #[test]
    fn short_bytes_are_refused() {
        let (source, target) = pair(false);
        let mut bytes = vec![1; 20];
        emit_in_place(&mut bytes, source, target);
        for cut in 0..20 {
            assert!(Datagram::parse(&bytes[..cut], source.ip(), target.ip()).is_err(), "cut to {cut}");
        }
        bytes[5] = 7;
        assert_eq!(Datagram::parse(&bytes, source.ip(), target.ip()), Err(UdpError::Length));
    }
}
