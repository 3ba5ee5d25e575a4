//! The IPv6 header.
//!
//! ```text
//!  0               1               2               3
//! |version| traffic class |              flow label               |
//! |         payload length        |  next header  |   hop limit   |
//! |                    source address, 16 bytes                   |
//! |                    target address, 16 bytes                   |
//! ```
//!
//! Implements RFC 8200 §3. The flow label is sent as 0 ("not labelled", RFC 6437 §2). Extension headers are not parsed:
//! the value of the next header field is treated as the protocol of the payload.

use super::{HOP_LIMIT, IpError};
use anabranch_base::Ecn;
use std::net::Ipv6Addr;

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 40;

/// The fields of an IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The source address.
    pub source: Ipv6Addr,
    /// The target address.
    pub target: Ipv6Addr,
    /// The protocol of the payload: the next header field.
    pub protocol: u8,
    /// The differentiated services codepoint (DSCP), 6 bits.
    pub dscp: u8,
    /// The ECN bits.
    pub ecn: Ecn,
    /// The number of routers that the packet may still pass.
    pub hop_limit: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The number of bytes after the header.
    pub payload_len: u16,
}

impl Header {
    /// Creates the header of a packet with `payload_len` bytes after the header.
    #[must_use]
    pub fn new(source: Ipv6Addr, target: Ipv6Addr, protocol: u8, payload_len: u16) -> Self {
        Self {
            source,
            target,
            protocol,
            dscp: 0,
            ecn: Ecn::NotEct,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            payload_len,
        }
    }

    /// Reads a header and checks that the payload is complete.
    ///
    /// # Errors
    /// [`IpError`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, IpError> {
        let header = Self::parse_quoted(bytes)?;
        if bytes.len() - HEADER_LEN < usize::from(header.payload_len) {
            return Err(IpError::Truncated);
        }
        Ok(header)
    }

    /// Reads a header. The payload may be truncated.
    ///
    /// # Errors
    /// [`IpError`].
    #[inline]
    pub fn parse_quoted(bytes: &[u8]) -> Result<Self, IpError> {
        let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(IpError::Truncated);
        };
        let first = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
        if first >> 28 != 6 {
            return Err(IpError::Version((first >> 28) as u8));
        }
        Ok(Self {
            source: address(fixed, 8),
            target: address(fixed, 24),
            protocol: fixed[6],
            dscp: (first >> 22) as u8 & 0x3f,
            ecn: Ecn::from_bits((first >> 20) as u8),
            hop_limit: fixed[7],
            flow_label: first & 0xf_ffff,
            payload_len: u16::from_be_bytes([fixed[4], fixed[5]]),
        })
    }

    /// Writes the header over the first 40 bytes of `out`. Panics if `out` is shorter.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        let Some(out) = out.first_chunk_mut::<HEADER_LEN>() else {
            panic!("no room for an IPv6 header");
        };
        let first =
            6 << 28 | u32::from(self.dscp) << 22 | (self.ecn as u32) << 20 | self.flow_label & 0xf_ffff;
        out[0..4].copy_from_slice(&first.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.protocol;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.source.octets());
        out[24..40].copy_from_slice(&self.target.octets());
    }
}

fn address(header: &[u8; HEADER_LEN], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[at..at + 16]);
    octets.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let header = Header {
            dscp: 46,
            ecn: Ecn::Ect0,
            hop_limit: 3,
            flow_label: 0xabcde,
            ..Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 132, 5)
        };
        let mut bytes = [0; 45];
        header.emit(&mut bytes);
        assert_eq!(bytes[..8], [0x6b, 0xaa, 0xbc, 0xde, 0, 5, 132, 3]);
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(Header::parse(&bytes[..44]), Err(IpError::Truncated));
        assert_eq!(Header::parse_quoted(&bytes[..44]), Ok(header));
        bytes[0] = 0x45;
        assert_eq!(Header::parse(&bytes), Err(IpError::Version(4)));
    }
}
