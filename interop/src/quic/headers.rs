//! Parses the long headers of QUIC packets, which are readable on the path without decryption. Supports packets of
//! version 1.
//!
//! ```text
//! first byte: 1 1 type (2 bits) .... ; version (4 bytes); length (1 byte) and destination ID; length and source ID
//!   Retry: then token, integrity tag (16 bytes)
//!   Initial: then token length (varint), token, and the fields of the next line
//!   0-RTT, Handshake: then length (varint), packet number and payload of that length
//! Version Negotiation: first bit 1; version 0; both IDs as above; supported versions (4 bytes each)
//! ```
//!
//! Implements RFC 9000 §16 (variable-length integers) and §17.2 (long headers).

/// The type of a packet with a long header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketType {
    /// Initial (§17.2.2).
    Initial,
    /// 0-RTT (§17.2.3).
    ZeroRtt,
    /// Handshake (§17.2.4).
    Handshake,
    /// Retry (§17.2.5).
    Retry,
    /// Version Negotiation (§17.2.1).
    VersionNegotiation,
    /// A packet of a QUIC version other than 1.
    Other,
}

/// A long header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The type of the packet, for example Initial.
    pub kind: PacketType,
    /// The version of QUIC.
    pub version: u32,
    /// Destination Connection ID.
    pub target: Vec<u8>,
    /// Source Connection ID.
    pub source: Vec<u8>,
    /// The token of an Initial or a Retry.
    pub token: Vec<u8>,
    /// The size of the packet with its header, in bytes.
    pub bytes: usize,
}

/// Returns the long headers of the packets in a datagram, up to the first packet that cannot be read.
#[must_use]
pub fn of(datagram: &[u8]) -> Vec<Header> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Some(header) = first(rest) {
        rest = &rest[header.bytes..];
        found.push(header);
    }
    found
}

fn first(packet: &[u8]) -> Option<Header> {
    let mut rest = packet;
    let first = take(&mut rest, 1)?[0];
    if first & 0x80 == 0 {
        return None;
    }
    let version = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?);
    let length = usize::from(take(&mut rest, 1)?[0]);
    let target = take(&mut rest, length)?.to_vec();
    let length = usize::from(take(&mut rest, 1)?[0]);
    let source = take(&mut rest, length)?.to_vec();
    let kind = match (version, first >> 4 & 3) {
        (0, _) => PacketType::VersionNegotiation,
        (1, 0) => PacketType::Initial,
        (1, 1) => PacketType::ZeroRtt,
        (1, 2) => PacketType::Handshake,
        (1, _) => PacketType::Retry,
        _ => PacketType::Other,
    };
    let mut token = Vec::new();
    match kind {
        PacketType::VersionNegotiation | PacketType::Other => rest = &[],
        PacketType::Retry => {
            token = rest.get(..rest.len().checked_sub(16)?)?.to_vec();
            rest = &[];
        }
        PacketType::Initial | PacketType::ZeroRtt | PacketType::Handshake => {
            if kind == PacketType::Initial {
                let length = varint(&mut rest)?;
                token = take(&mut rest, length)?.to_vec();
            }
            let length = varint(&mut rest)?;
            take(&mut rest, length)?;
        }
    }
    Some(Header { kind, version, target, source, token, bytes: packet.len() - rest.len() })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

// RFC 9000 §16: the first two bits of an integer give its length: 1, 2, 4 or 8 bytes.
fn varint(rest: &mut &[u8]) -> Option<usize> {
    let first = *rest.first()?;
    let bytes = take(rest, 1 << (first >> 6))?;
    let head = u64::from(first & 0x3f);
    let value = bytes[1..].iter().fold(head, |value, &byte| value << 8 | u64::from(byte));
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(first: u8, version: u32, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(&[2, 7, 7, 1, 9]);
        bytes.extend_from_slice(behind);
        bytes
    }

    #[test]
    fn packets_of_one_datagram_are_told_apart() {
        let mut datagram = packet(0xc0, 1, &[3, 1, 2, 3, 0x40, 2, 0, 0]);
        datagram.extend(packet(0xe0, 1, &[1, 0]));
        // A packet with a short header extends to the end of the datagram, so no packet can follow it.
        datagram.extend([0x40, 1, 2, 3]);
        let found = of(&datagram);
        assert_eq!(
            found.iter().map(|header| header.kind).collect::<Vec<_>>(),
            [PacketType::Initial, PacketType::Handshake]
        );
        assert_eq!(
            (&found[0].token[..], &found[0].target[..], &found[0].source[..]),
            (&[1, 2, 3][..], &[7, 7][..], &[9][..])
        );
    }

    #[test]
    fn a_retry_has_a_token_and_version_negotiation_version_0() {
        let retry = of(&packet(0xf0, 1, &[&[5, 6][..], &[0; 16]].concat()));
        assert_eq!((retry[0].kind, &retry[0].token[..]), (PacketType::Retry, &[5, 6][..]));
        assert_eq!(of(&packet(0x80, 0, &[0, 0, 0, 1]))[0].kind, PacketType::VersionNegotiation);
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let whole = packet(0xc0, 1, &[3, 1, 2, 3, 0x40, 2, 0, 0]);
        (0..whole.len()).for_each(|length| assert_eq!(of(&whole[..length]), []));
    }
}
