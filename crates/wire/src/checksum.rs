//! The Internet checksum: the one's complement of the one's complement sum of 16-bit words. Also sums the
//! pseudo-headers of transport protocols.
//!
//! Implements RFC 1071 §1 and §2, RFC 9293 §3.1 (pseudo-headers) and RFC 8200 §8.1. The sum is computed over native
//! 64-bit words with carries. Neither byte order nor word size affects the result (RFC 1071 §2 B and C). Therefore one
//! fold and at most one byte swap at the end give the checksum.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A one's complement sum to which data is still being added.
///
/// Pieces of data are added one after the other. Every piece except the last must have an even length. Headers have an
/// even length, and the payload is the last piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checksum {
    /// The sum of all native-endian 32-bit words so far, reduced modulo 2^32 - 1 to a number below 2^33.
    sum: u64,
}

impl Checksum {
    /// Returns a sum over no data.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0 }
    }

    /// Returns the sum over the pseudo-header of a transport packet with this IP protocol number. `length` is the
    /// length of header and payload in bytes. Returns `None` if the addresses are of different IP versions.
    #[must_use]
    #[inline]
    pub fn pseudo_header(source: IpAddr, target: IpAddr, protocol: u8, length: u32) -> Option<Self> {
        match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                Some(Self::pseudo_header_v4(source, target, protocol, length))
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                Some(Self::pseudo_header_v6(source, target, protocol, length))
            }
            _ => None,
        }
    }

    /// RFC 9293 §3.1, RFC 768: sums source, target, zero, protocol and length.
    #[must_use]
    #[inline]
    pub fn pseudo_header_v4(source: Ipv4Addr, target: Ipv4Addr, protocol: u8, length: u32) -> Self {
        let words = [source.to_bits(), target.to_bits(), u32::from(protocol), length];
        Self { sum: fold_once(words.into_iter().map(|word| u64::from(word.to_be())).sum()) }
    }

    /// RFC 8200 §8.1: sums source, target, length, zeros and next header.
    #[must_use]
    pub fn pseudo_header_v6(source: Ipv6Addr, target: Ipv6Addr, protocol: u8, length: u32) -> Self {
        let mut sum = Self::new();
        sum.add(&source.octets());
        sum.add(&target.octets());
        sum.add_u32(length);
        sum.add_u32(u32::from(protocol));
        sum
    }

    /// Adds a piece of data. If the length is odd, the last byte counts as if a zero byte followed.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<4>();
        // For short data, such as a header, a simple sum is faster than `long_sum` with its fixed cost.
        let mut sum = if words.len() < LONG {
            words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()
        } else {
            long_sum(words)
        };
        let (pairs, last) = rest.as_chunks::<2>();
        for pair in pairs {
            sum += u64::from(u16::from_ne_bytes(*pair));
        }
        if let [last] = last {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        self.sum = fold_once(self.sum + fold_once(sum));
    }

    /// Adds 32-bit words, each given as four bytes in network byte order.
    #[inline(always)]
    pub fn add_words<const N: usize>(&mut self, words: [[u8; 4]; N]) {
        let sum: u64 = words.into_iter().map(|word| u64::from(u32::from_ne_bytes(word))).sum();
        self.sum = fold_once(self.sum + sum);
    }

    /// Adds a 16-bit number, as if it were written in network byte order.
    #[inline]
    pub fn add_u16(&mut self, number: u16) {
        self.sum = fold_once(self.sum + u64::from(number.to_be()));
    }

    /// Adds a 32-bit number, as if it were written in network byte order.
    #[inline]
    pub fn add_u32(&mut self, number: u32) {
        self.sum = fold_once(self.sum + u64::from(number.to_be()));
    }

    /// Returns the checksum for the header field. If the header contains this value, the sum over all data has all bits
    /// set.
    #[must_use]
    #[inline]
    pub fn finish(self) -> u16 {
        let mut sum = self.sum;
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !u16::from_be(sum as u16)
    }

    /// Returns whether the checksum is right. The sum must cover the data including its checksum field.
    #[must_use]
    #[inline]
    pub fn is_valid(self) -> bool {
        self.finish() == 0
    }
}

/// Returns the checksum over one piece of data, for example an IPv4 header or an ICMPv4 message.
#[must_use]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::new();
    sum.add(bytes);
    sum.finish()
}

/// Returns the sum of a long piece of data, modulo 2^32 - 1. Each block of 64 bytes is added to the total as one
/// 512-bit number. The carry out of the highest word is counted, and not passed to the next block.
fn long_sum(words: &[[u8; 4]]) -> u64 {
    let (mut long, mut carries) = ([0_u64; 8], 0_u64);
    let (blocks, rest) = words.as_flattened().as_chunks::<64>();
    for block in blocks {
        let mut carry = false;
        for (limb, word) in long.iter_mut().zip(block.as_chunks::<8>().0) {
            (*limb, carry) = add_with_carry(*limb, u64::from_ne_bytes(*word), carry);
        }
        carries += u64::from(carry);
    }
    let mut total: u128 = long.into_iter().map(u128::from).sum();
    for word in rest.as_chunks::<4>().0 {
        total += u128::from(u32::from_ne_bytes(*word));
    }
    // 2^64 is congruent to 1 modulo 2^32 - 1, so the carries are simply added.
    fold_once(total as u64) + (total >> 64) as u64 + carries
}

/// One step of a long addition: returns the sum of all three arguments, and the carry.
#[inline]
const fn add_with_carry(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carry as u64);
    (sum, first | second)
}

/// Returns a number below 2^33 that is congruent to `sum` modulo 2^32 - 1.
#[inline]
const fn fold_once(sum: u64) -> u64 {
    (sum & 0xffff_ffff) + (sum >> 32)
}

/// Data of at least this many 32-bit words is summed by `long_sum`.
const LONG: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071 §1: computes the checksum word by word, as a reference.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0_u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_fast_sum_equals_the_plain_one() {
        let mut rng = anabranch_base::Rng::new(1);
        let mut data = vec![0; 5000];
        rng.fill(&mut data);
        for length in (0..300).chain([1459, 1460, 1500, 4999]) {
            for start in 0..3.min(data.len() - length) {
                let piece = &data[start..start + length];
                assert_eq!(internet_checksum(piece), plain(piece), "{length} bytes from {start}");
            }
        }
        assert_eq!(internet_checksum(&[0xff; 65_536]), plain(&[0xff; 65_536]));
    }

    #[test]
    fn pieces_add_up() {
        let mut rng = anabranch_base::Rng::new(2);
        let mut data = vec![0; 1501];
        rng.fill(&mut data);
        let mut sum = Checksum::new();
        sum.add(&data[..20]);
        sum.add(&data[20..64]);
        sum.add(&data[64..]);
        assert_eq!(sum.finish(), plain(&data));
    }

    /// RFC 1071 §3: the checksum of 0001 f203 f4f5 f6f7 is the complement of ddf2.
    #[test]
    fn example_of_the_rfc() {
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn pseudo_headers_are_those_written_out() {
        let (source, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 2));
        let written = [10, 0, 0, 1, 10, 0, 1, 2, 0, 6, 0x12, 0x34];
        assert_eq!(Checksum::pseudo_header_v4(source, target, 6, 0x1234).finish(), plain(&written));
        let (source, target) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));
        let mut written = source.octets().to_vec();
        written.extend_from_slice(&target.octets());
        written.extend_from_slice(&[0, 1, 0x12, 0x34, 0, 0, 0, 17]);
        assert_eq!(Checksum::pseudo_header_v6(source, target, 17, 0x1_1234).finish(), plain(&written));
        assert_eq!(Checksum::pseudo_header(source.into(), Ipv4Addr::LOCALHOST.into(), 6, 20), None);
    }
}
