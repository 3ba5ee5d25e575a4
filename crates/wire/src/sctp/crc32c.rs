//! The CRC32c checksum of SCTP packets.
//!
//! The `crc-fast` crate does the polynomial arithmetic, with carry-less multiplication if the processor supports it.
//! This module handles the position of the checksum in a packet and its byte order.
//!
//! Implements RFC 9260 §6.8 and Appendix A.

mod front;

pub use front::{LINE, room_for};

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};
use std::net::IpAddr;
use std::ops::Range;

/// The position of the checksum in the common header, in bytes.
pub const FIELD: Range<usize> = 8..12;

/// The bits of the checksum in the first sixteen bytes of a packet, which are read as a little-endian number.
const FIELD_MASK: u128 = 0xffff_ffff << (8 * FIELD.start);

/// Returns the CRC32c of `bytes`, without treating any bytes as a checksum field.
#[must_use]
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// Returns the CRC32c of a packet, with the checksum field counted as zero. `packet` must have at least twelve bytes;
/// the result for a shorter packet has no meaning.
#[must_use]
#[inline]
pub fn of_packet(packet: &[u8]) -> u32 {
    let (head, rest) = match packet.split_first_chunk::<16>() {
        // The common header is processed together with the header of the first chunk. The remaining bytes then have the
        // same alignment as the whole packet. The words are assembled in registers. Loading eight bytes that were just
        // stored one by one would stall the processor.
        Some((head, rest)) => {
            let words = u128::from_le_bytes(*head) & !FIELD_MASK;
            (crc32c(&words.to_le_bytes()), rest)
        }
        None => {
            let Some((head, rest)) = packet.split_at_checked(FIELD.end) else {
                return 0;
            };
            let mut cleared = [0; FIELD.end];
            cleared[..FIELD.start].copy_from_slice(&head[..FIELD.start]);
            (crc32c(&cleared), rest)
        }
    };
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!head));
    digest.update(rest);
    digest.finalize() as u32
}

/// Returns whether the checksum in `packet` is right.
#[must_use]
#[inline]
pub fn is_valid(packet: &[u8]) -> bool {
    // RFC 9260 Appendix A: the least significant byte of the checksum is sent first.
    packet.get(FIELD).is_some_and(|field| field == of_packet(packet).to_le_bytes())
}

/// Writes the checksum into `packet`, whose common header must be complete except for the checksum.
#[inline]
pub fn put(packet: &mut [u8]) {
    assert!(packet.len() >= FIELD.end, "no room for the common header");
    // The field is usually zero already. In that case it is not written, because reading bytes that were just written
    // is slow.
    if packet[FIELD] != [0; 4] {
        packet[FIELD].fill(0);
    }
    let sum = crc32c(packet);
    packet[FIELD].copy_from_slice(&sum.to_le_bytes());
}

/// Like [`put`]. The addresses are not part of the checksum; the Internet checksum of other transports needs them.
pub fn put_between(packet: &mut [u8], _source: IpAddr, _target: IpAddr) {
    put(packet);
}

/// Like [`put`], but for the packet `buffer[start..]`. May overwrite bytes in front of the packet.
#[inline]
pub fn put_with_headroom(buffer: &mut [u8], start: usize) {
    let Some(begin) = front::begin(buffer, start) else {
        return put(&mut buffer[start..]);
    };
    let packet = &mut buffer[start..];
    if packet[FIELD] != [0; 4] {
        packet[FIELD].fill(0);
    }
    let sum = crc32_iscsi(front::lengthen(buffer, begin, start));
    buffer[start..][FIELD].copy_from_slice(&sum.to_le_bytes());
}

/// Like [`is_valid`], but for the packet `buffer[start..]`. May overwrite bytes in front of the packet.
#[inline]
pub fn is_valid_with_headroom(buffer: &mut [u8], start: usize) -> bool {
    let Some(begin) = front::begin(buffer, start) else {
        return match buffer[start..].try_into() {
            Ok(short) => is_valid_short(short),
            Err(_) => is_valid(&buffer[start..]),
        };
    };
    let Some(&field) = buffer[start..].get(FIELD).and_then(|field| field.first_chunk::<4>()) else {
        return false;
    };
    buffer[start..][FIELD].fill(0);
    let sum = crc32_iscsi(front::lengthen(buffer, begin, start));
    buffer[start..][FIELD].copy_from_slice(&field);
    field == sum.to_le_bytes()
}

/// Like [`is_valid`], but for a packet whose only chunk is a SACK without blocks. In a bulk transfer, nearly all
/// packets that the sender receives have this form. The packet is copied in registers, with its checksum field cleared.
#[inline]
fn is_valid_short(packet: &[u8; SHORT]) -> bool {
    let (Some(head), Some(rest)) = (packet.first_chunk::<16>(), packet.last_chunk::<{ SHORT - 16 }>()) else {
        return false;
    };
    let head = u128::from_le_bytes(*head);
    let mut cleared = [0; SHORT];
    cleared[..16].copy_from_slice(&(head & !FIELD_MASK).to_le_bytes());
    cleared[16..].copy_from_slice(rest);
    (head >> (8 * FIELD.start)) as u32 == crc32c(&cleared)
}

/// The size in bytes of a packet whose only chunk is a SACK without blocks.
const SHORT: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 §B.4: `crc32c` returns the published values.
    #[test]
    fn published_values() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn put_and_check_agree_at_every_length() {
        for len in 12..1600 {
            let mut packet: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            put(&mut packet);
            assert!(is_valid(&packet), "length {len}");
            packet[len / 2] ^= 4;
            assert!(!is_valid(&packet), "length {len}");
        }
        assert!(!is_valid(&[0; 11]) && !is_valid(&[]));
    }
}
