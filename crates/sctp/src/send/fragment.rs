//! Fragmentation: how many bytes of a message go into the next chunk.
//!
//! Implements RFC 9260 §6.9 (the sender's half) and §7.3 (fragments fit the path with the smallest MTU).

/// The minimum number of user bytes in a fragment that fills the rest of a packet.
const MIN_FRAGMENT: usize = 256;

/// Returns the length in bytes of the next chunk of a message. The message has `total` bytes, `done` of which are
/// sent, and the packet has `room` bytes left. `largest` is the maximum number of user bytes in a chunk, and `header`
/// is the size of the chunk header. Returns `None` if the chunk should wait for another packet.
#[inline]
pub(crate) fn cut(total: u32, done: u32, largest: u32, room: usize, header: usize) -> Option<u32> {
    let left = total - done;
    let piece = left.min(largest);
    if header + (piece as usize).next_multiple_of(4) <= room {
        return Some(piece);
    }
    // RFC 9260 §6.9: a message that fits into one chunk is not fragmented. A fragment of a larger message may fill
    // the rest of the packet.
    let fill = room.saturating_sub(header) & !3;
    (total > largest && fill >= MIN_FRAGMENT).then_some(fill as u32)
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn small_messages_stay_whole_and_large_ones_fill_packets() {
        assert_eq!(cut(100, 0, 1452, 1468, 16), Some(100));
        assert_eq!(cut(1452, 0, 1452, 1000, 16), None, "whole, in another packet");
        assert_eq!(cut(5000, 0, 1452, 1468, 16), Some(1452));
        assert_eq!(cut(5000, 0, 1452, 1000, 16), Some(984));
        assert_eq!(cut(5000, 4900, 1452, 1000, 16), Some(100));
        assert_eq!(cut(5000, 0, 1452, 200, 16), None);
        assert_eq!(cut(1452, 0, 1452, 1468, 20), None);
        assert_eq!(cut(5000, 0, 1448, 1000, 20), Some(980));
    }
}
