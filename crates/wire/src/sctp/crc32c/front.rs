//! Bytes in front of a packet that leave its CRC32c as it is.
//!
//! `crc-fast` folds blocks of 384 bytes with wide multiplications, from one cache
//! line on; what is left over it sums word by word, which for a full packet takes
//! as long as all the rest. There are four bytes that lead the sum from its
//! beginning back to its beginning. So many of them in front of a packet that it is
//! a multiple of a block, and the packet placed so that both begin on a cache line:
//! then nothing is left over. Where a packet lies decides how it is summed, never
//! what comes out.

/// What is folded at a time.
const BLOCK: usize = 384;

/// Where the folding begins.
pub const LINE: usize = 64;

/// The free bytes in front of a packet of `size` bytes that it takes to make it a multiple of a block.
#[must_use]
#[inline]
pub const fn room_for(size: usize) -> usize {
    (BLOCK - size % BLOCK) % BLOCK
}

/// Where whole blocks begin that end with the packet `buffer[start..]`, if it lies so that it can be
/// lengthened to them, and that is worth it.
#[inline(always)]
pub(super) fn begin(buffer: &[u8], start: usize) -> Option<usize> {
    let size = buffer.len() - start;
    // Not for short packets, nor to sum one more block for a few words.
    if size <= 2 * BLOCK || !size.is_multiple_of(4) {
        return None;
    }
    let room = room_for(size);
    let lies_well = room <= BLOCK - LINE
        && room <= start
        && (buffer.as_ptr() as usize + start - room).is_multiple_of(LINE);
    lies_well.then(|| start - room)
}

/// What has the CRC32c of the packet `buffer[start..]`, from `begin` on, which [`begin`] has said.
#[inline(always)]
pub(super) fn lengthen(buffer: &mut [u8], begin: usize, start: usize) -> &[u8] {
    buffer[begin..start].copy_from_slice(&NEUTRAL[..start - begin]);
    &buffer[begin..]
}

/// Four bytes after which the sum is what it was at the beginning, many times.
static NEUTRAL: [u8; BLOCK] = neutral();

const fn neutral() -> [u8; BLOCK] {
    /// The polynomial of CRC32c, lowest bit first.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    // The sum begins with all ones. Backwards, bit by bit, from there: what the sum and the four
    // bytes come to together.
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
    use super::super::{FIELD, crc32c, is_valid, is_valid_alone, put, put_alone};
    use super::*;

    #[test]
    fn in_front_of_anything_it_changes_nothing() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for room in (0..BLOCK).step_by(4) {
            let whole: Vec<u8> = NEUTRAL[..room].iter().chain(&bytes).copied().collect();
            assert_eq!(crc32c(&whole), crc32c(&bytes), "{room}");
        }
    }

    /// Wherever a packet lies, and however long it is: the sum is the same, and the packet, too.
    #[test]
    fn alone_as_among_others() {
        let mut lengthened = 0;
        for size in (12..2000).step_by(4) {
            let mut packet: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
            put(&mut packet);
            for start in [0, 48, 56, 72, 88, 400] {
                let mut buffer = Vec::with_capacity(2600);
                let begin = buffer.as_ptr() as usize + start - room_for(size).min(start);
                // Half of them where they are wanted.
                let start = start + if start % 16 == 0 { begin.next_multiple_of(LINE) - begin } else { 0 };
                buffer.resize(start, 0xee);
                buffer.extend_from_slice(&packet);
                lengthened += u32::from(super::begin(&buffer, start).is_some());
                assert!(is_valid_alone(&mut buffer, start), "{size} at {start}");
                assert_eq!(buffer[start..], packet, "{size} at {start}");
                buffer[start..][FIELD].fill(9);
                assert!(!is_valid_alone(&mut buffer, start), "{size} at {start}");
                put_alone(&mut buffer, start);
                assert_eq!(buffer[start..], packet, "{size} at {start}");
                assert!(is_valid(&buffer[start..]));
            }
        }
        assert!(lengthened > 50, "{lengthened}");
    }
}
