//! Computes bytes that can be put in front of a packet without changing its CRC32c.
//!
//! `crc-fast` processes blocks of 384 bytes with wide multiplications, starting at a cache line, and the bytes after
//! the last block word by word. In a full packet, these last bytes take as long as all the blocks. This module
//! therefore extends a packet at its front, until it fills whole blocks from a cache line on. The padding repeats four
//! bytes that take the CRC from its initial state back to that state, so that it does not change the CRC. Not every
//! position of the packet in memory allows this.

/// The size of a block in bytes.
const BLOCK: usize = 384;

/// The alignment in bytes that the first block must have, the size of a cache line.
pub const LINE: usize = 64;

/// Returns the number of free bytes that must be in front of a packet of `size` bytes to pad the packet to whole
/// blocks.
#[must_use]
#[inline]
pub const fn room_for(size: usize) -> usize {
    (BLOCK - size % BLOCK) % BLOCK
}

/// Returns the index of the first byte to process, so that the packet `buffer[start..]` is processed in whole blocks.
/// The bytes before `start` serve as padding. Returns `None` if the packet's position does not allow padding, or if
/// padding saves no time.
#[inline(always)]
pub(super) fn begin(buffer: &[u8], start: usize) -> Option<usize> {
    let size = buffer.len() - start;
    // Padding to whole blocks saves no time if the packet is short, or if less than a cache line of it follows its last
    // whole block. The padding consists of four-byte sequences, so the packet's size must be a multiple of four.
    if size <= 2 * BLOCK || !size.is_multiple_of(4) {
        return None;
    }
    let room = room_for(size);
    let lies_well = room <= BLOCK - LINE
        && room <= start
        && (buffer.as_ptr() as usize + start - room).is_multiple_of(LINE);
    lies_well.then(|| start - room)
}

/// Pads the packet `buffer[start..]` at its front without a change of its CRC32c, and returns the padded packet
/// `buffer[begin..]`. The function [`begin`] computes the index `begin`.
#[inline(always)]
pub(super) fn lengthen(buffer: &mut [u8], begin: usize, start: usize) -> &[u8] {
    buffer[begin..start].copy_from_slice(&NEUTRAL[..start - begin]);
    &buffer[begin..]
}

/// Four bytes, repeated to fill a block. Each repetition takes the CRC from its initial state back to that state.
static NEUTRAL: [u8; BLOCK] = neutral();

const fn neutral() -> [u8; BLOCK] {
    /// The polynomial of CRC32c, lowest bit first.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    // `bytes` are the four bytes that leave the CRC in its initial state of all ones. The loop runs the CRC backwards
    // by 32 bits from that state. The result, `word`, is the XOR of the initial state and these bytes.
    let mut word = u32::MAX;
    let mut bit = 0;
    while bit < u32::BITS {
        word = if word >> 31 == 1 { (word ^ POLYNOMIAL) << 1 | 1 } else { word << 1 };
        bit += 1;
    }
    let bytes = (word ^ u32::MAX).to_le_bytes();
    let mut all = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        all[at] = bytes[at % 4];
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::{FIELD, crc32c, is_valid, is_valid_with_headroom, put, put_with_headroom};
    use super::*;

    #[test]
    fn the_neutral_prefix_keeps_the_crc() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for room in (0..BLOCK).step_by(4) {
            let whole: Vec<u8> = NEUTRAL[..room].iter().chain(&bytes).copied().collect();
            assert_eq!(crc32c(&whole), crc32c(&bytes), "{room}");
        }
    }

    /// For packets of any length and at any position in a buffer, the functions with and without headroom must compute
    /// the same checksum, and must not change the packet.
    #[test]
    fn the_checksum_is_the_same_with_and_without_headroom() {
        let mut lengthened = 0;
        for size in (12..2000).step_by(4) {
            let mut packet: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
            put(&mut packet);
            for start in [0, 48, 56, 72, 88, 400] {
                let mut buffer = Vec::with_capacity(2600);
                let begin = buffer.as_ptr() as usize + start - room_for(size).min(start);
                // For half of the values of `start`, the packet is shifted so that the checksum computation begins at a
                // multiple of `LINE`.
                let start = start + if start % 16 == 0 { begin.next_multiple_of(LINE) - begin } else { 0 };
                buffer.resize(start, 0xee);
                buffer.extend_from_slice(&packet);
                lengthened += u32::from(super::begin(&buffer, start).is_some());
                assert!(is_valid_with_headroom(&mut buffer, start), "{size} at {start}");
                assert_eq!(buffer[start..], packet, "{size} at {start}");
                buffer[start..][FIELD].fill(9);
                assert!(!is_valid_with_headroom(&mut buffer, start), "{size} at {start}");
                put_with_headroom(&mut buffer, start);
                assert_eq!(buffer[start..], packet, "{size} at {start}");
                assert!(is_valid(&buffer[start..]));
            }
        }
        assert!(lengthened > 50, "{lengthened}");
    }
}
