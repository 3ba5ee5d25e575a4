//! How many bytes of a message go into the next chunk.
//!
//! Home of RFC 9260 §6.9 (the sender's half).

use super::chunk_size;
use anabranch_wire::sctp::Data;

/// A fragment that only fills up a packet is at least this long, bytes.
const LEAST: usize = 256;

/// Bytes of a message of `total`, `done` of which are sent, for a chunk in
/// `room` bytes; `largest` is the most user bytes in a chunk. `None` when the
/// chunk should wait for another packet.
#[inline]
pub(crate) fn cut(total: u32, done: u32, largest: u32, room: usize) -> Option<u32> {
    let left = total - done;
    let piece = left.min(largest);
    if chunk_size(piece) as usize <= room {
        return Some(piece);
    }
    // RFC 9260 §6.9: what fits a chunk is not fragmented. What does not may as well fill the packet.
    let fill = room.saturating_sub(Data::HEADER) & !3;
    (total > largest && fill >= LEAST).then_some(fill as u32)
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn small_messages_stay_whole_and_large_ones_fill_packets() {
        assert_eq!(cut(100, 0, 1452, 1468), Some(100));
        assert_eq!(cut(1452, 0, 1452, 1000), None, "whole, in another packet");
        assert_eq!(cut(5000, 0, 1452, 1468), Some(1452));
        assert_eq!(cut(5000, 0, 1452, 1000), Some(984));
        assert_eq!(cut(5000, 4900, 1452, 1000), Some(100));
        assert_eq!(cut(5000, 0, 1452, 200), None);
    }
}
