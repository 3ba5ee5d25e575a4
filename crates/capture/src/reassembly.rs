//! Brings the bytes of a stream into order: the bytes of a TCP connection, of a QUIC stream, or of a handshake.
//!
//! The bytes that arrived ahead of a gap are limited. If they exceed the limit, the decoder assumes that the bytes in
//! the gap were not captured. The stream then ends there, because nothing can be read after a gap in an encrypted
//! stream.

use std::collections::BTreeMap;

/// The maximum number of bytes that are kept ahead of gaps, in all streams of one transport together.
pub(super) const MAX_AHEAD: usize = 64 << 20;
/// The maximum number of separate pieces of data that are kept ahead of a gap.
const MAX_PIECES: usize = 1 << 12;

#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The position of the first byte that has not been delivered.
    next: i64,
    ahead: BTreeMap<i64, Vec<u8>>,
    bytes: usize,
    /// Whether bytes are missing for good.
    pub is_broken: bool,
    /// The position after the last byte of the stream, once known.
    pub end: Option<i64>,
}

impl Reassembly {
    /// Returns whether all bytes of the stream have been delivered.
    pub fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// Adds bytes at a position. Calls `deliver` with the bytes that are in order now. `room` is the number of bytes that
    /// all streams together may still keep.
    pub fn add(&mut self, start: i64, bytes: &[u8], room: &mut usize, mut deliver: impl FnMut(&[u8])) {
        if self.is_broken || bytes.is_empty() {
            return;
        }
        let end = start.saturating_add(bytes.len() as i64);
        if start > self.next {
            if self.ahead.get(&start).is_none_or(|known| known.len() < bytes.len()) {
                let known = self.ahead.insert(start, bytes.to_vec());
                let more = bytes.len() - known.map_or(0, |known| known.len());
                self.bytes += more;
                if more > *room || self.ahead.len() > MAX_PIECES {
                    *room += self.bytes - more;
                    (self.is_broken, self.bytes) = (true, 0);
                    self.ahead.clear();
                } else {
                    *room -= more;
                }
            }
            return;
        }
        if end > self.next {
            deliver(&bytes[(self.next - start) as usize..]);
            self.next = end;
        }
        while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() <= self.next) {
            let (start, bytes) = entry.remove_entry();
            self.bytes -= bytes.len();
            *room += bytes.len();
            if start + bytes.len() as i64 > self.next {
                deliver(&bytes[(self.next - start) as usize..]);
                self.next = start + bytes.len() as i64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    #[test]
    fn bytes_in_any_order_are_delivered_in_order() {
        let whole: Vec<u8> = (0..200).collect();
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut stream, mut out, mut room) = (Reassembly::default(), Vec::new(), 1 << 20);
            while out.len() < whole.len() {
                let start = rng.below(200) as usize;
                let end = (start + rng.below(20) as usize).min(200);
                stream.add(start as i64, &whole[start..end], &mut room, |bytes| out.extend_from_slice(bytes));
                assert!(whole.starts_with(&out));
            }
            assert_eq!((stream.bytes, stream.is_broken, room), (0, false, 1 << 20));
        }
    }

    #[test]
    fn bytes_ahead_of_a_gap_are_limited() {
        let (mut stream, mut room) = (Reassembly::default(), 10_500);
        for at in 0..11 {
            assert_eq!((stream.is_broken, room), (false, 10_500 - at * 1_000));
            stream.add(1 + at as i64 * 1_000, &[0; 1_000], &mut room, |_| panic!("there is a gap"));
        }
        assert!(stream.is_broken && stream.ahead.is_empty() && room == 10_500);
    }
}
