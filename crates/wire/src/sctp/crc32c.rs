//! The CRC32c checksum of SCTP packets.
//!
//! The polynomial arithmetic is the `crc-fast` crate's (carry-less multiply
//! where the processor has it); what lies here is where the checksum sits in a
//! packet and in which byte order.
//!
//! Home of RFC 9260 §6.8 and Appendix A.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};
use std::ops::Range;

/// Where the checksum lies in the common header.
pub const FIELD: Range<usize> = 8..12;

/// The last bytes of a long packet have a checksum of their own, which is
/// joined to that of what precedes them: a processor works on both at a time,
/// while one long chain has to wait for each of its steps.
const TAIL: usize = 256;
/// Packets of this size and more have such a tail.
const LONG: usize = 2 * TAIL;

/// What [`TAIL`] bytes of zeros make of a checksum, four of its bits at a time.
static PAST_TAIL: [[u32; 16]; 8] = past_tail();

const fn past_tail() -> [[u32; 16]; 8] {
    // What one bit of zero makes of each bit: a shift, or the polynomial (RFC 9260 Appendix A,
    // lowest bit first). Squared, it is what two bits make of it, and so on.
    let mut bits = [0_u32; 32];
    bits[0] = 0x82f6_3b78;
    let mut i = 1;
    while i < 32 {
        bits[i] = 1 << (i - 1);
        i += 1;
    }
    let mut zeros = 1;
    while zeros < 8 * TAIL {
        let mut squared = [0; 32];
        let mut i = 0;
        while i < 32 {
            squared[i] = sum_of(&bits, bits[i]);
            i += 1;
        }
        bits = squared;
        zeros *= 2;
    }
    let mut table = [[0; 16]; 8];
    let mut i = 0;
    while i < 8 {
        let mut four = 0;
        while four < 16 {
            table[i][four as usize] = sum_of(&bits, four << (4 * i));
            four += 1;
        }
        i += 1;
    }
    table
}

/// The sum of those `bits` that are set in `checksum`.
const fn sum_of(bits: &[u32; 32], checksum: u32) -> u32 {
    let mut sum = 0;
    let mut i = 0;
    while i < 32 {
        if checksum >> i & 1 == 1 {
            sum ^= bits[i];
        }
        i += 1;
    }
    sum
}

/// The checksum of two parts from theirs; the second has [`TAIL`] bytes.
#[inline]
fn join(first: u32, tail: u32) -> u32 {
    let fours = PAST_TAIL.iter().enumerate();
    fours.fold(tail, |sum, (i, table)| sum ^ table[(first >> (4 * i) & 15) as usize])
}

/// CRC32c of `bytes` as they are.
#[must_use]
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    if bytes.len() < LONG {
        return crc32_iscsi(bytes);
    }
    let (first, tail) = bytes.split_at(bytes.len() - TAIL);
    join(crc32_iscsi(first), crc32_iscsi(tail))
}

/// CRC32c of a packet with its checksum field taken as zero. `packet` has at
/// least twelve bytes; a shorter one gives a number that means nothing.
#[must_use]
#[inline]
pub fn of_packet(packet: &[u8]) -> u32 {
    if packet.len() < LONG {
        return of_beginning(packet);
    }
    let (first, tail) = packet.split_at(packet.len() - TAIL);
    join(of_beginning(first), crc32_iscsi(tail))
}

/// CRC32c of a packet that may go on, its checksum field taken as zero.
#[inline]
fn of_beginning(packet: &[u8]) -> u32 {
    let (head, rest) = match packet.split_first_chunk::<16>() {
        // With the first chunk's header, eight bytes at a time: what follows is aligned as the packet is.
        Some((&[a, b, c, d, e, f, g, h, _, _, _, _, w, x, y, z], rest)) => {
            (crc32_iscsi(&[a, b, c, d, e, f, g, h, 0, 0, 0, 0, w, x, y, z]), rest)
        }
        None => {
            let Some((head, rest)) = packet.split_at_checked(FIELD.end) else {
                return 0;
            };
            let mut cleared = [0; FIELD.end];
            cleared[..FIELD.start].copy_from_slice(&head[..FIELD.start]);
            (crc32_iscsi(&cleared), rest)
        }
    };
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!head));
    digest.update(rest);
    digest.finalize() as u32
}

/// The checksum that `packet` carries is right.
#[must_use]
#[inline]
pub fn is_valid(packet: &[u8]) -> bool {
    // RFC 9260 Appendix A: the checksum travels with its least significant byte first.
    packet.get(FIELD).is_some_and(|field| field == of_packet(packet).to_le_bytes())
}

/// Puts the checksum into `packet`, whose common header is complete otherwise.
#[inline]
pub fn put(packet: &mut [u8]) {
    assert!(packet.len() >= FIELD.end, "no room for the common header");
    packet[FIELD].fill(0);
    let sum = crc32c(packet);
    packet[FIELD].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 §B.4: the published examples of CRC32c.
    #[test]
    fn published_values() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn two_parts_joined_are_the_whole() {
        let bytes: Vec<u8> = (0..70_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        for len in (0..3000).chain([9_000, 65_535, 70_000]) {
            assert_eq!(crc32c(&bytes[..len]), crc32_iscsi(&bytes[..len]), "length {len}");
        }
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
