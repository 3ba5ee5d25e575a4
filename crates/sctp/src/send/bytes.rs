//! Stores the bytes of a stream's messages, back to back, until these bytes are acknowledged.
//!
//! Each stream has one ring buffer for the bytes of its messages. A message therefore needs no allocation of its own,
//! and an idle stream does not keep bytes of other streams in memory. Positions are counted from the first byte ever
//! queued on the stream. Bytes are freed as their TSNs are acknowledged, usually in order. Bytes freed out of order
//! keep their memory until all bytes before them are freed.
//!
//! An application may instead share the memory of its data. The ring is then empty.
//!
//! When the bytes of a long queue are finally sent, they are no longer in the CPU caches. So the bytes of the next few
//! packets are prefetched while earlier packets are built.

use anabranch_base::{MIN_SHARED, SharedBytes, SharedPieces, cache};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// Number of bytes that are prefetched beyond the next byte to be sent. Writing this number of bytes to packets takes
/// about as long as one access to memory.
const AHEAD: u64 = 4 << 10;

/// The largest number of bytes prefetched at once.
const MAX_AHEAD: u64 = 4 << 10;

/// Rings smaller than this number of bytes double when they grow.
const DOUBLED: usize = 64 << 10;

/// A queue of at most this number of bytes is assumed to be in the CPU caches.
const SHORT: u64 = 512 << 10;

/// The buffered bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamBytes {
    ring: VecDeque<u8>,
    /// The bytes, if the application shares their memory. The ring then has no bytes.
    shared: Option<Box<SharedPieces>>,
    /// The stream position of the first byte that is in the ring.
    base: u64,
    /// Ranges that were freed out of order, `None` if there are none.
    freed: Option<Box<Freed>>,
    /// Prefetching continues at this position: all bytes before it have been prefetched.
    prefetched_to: u64,
}

/// Ranges freed out of order: maps the first position of each range to the position after its last byte.
#[derive(Debug, Default)]
struct Freed(BTreeMap<u64, u64>);

impl StreamBytes {
    /// Returns the stream position after the last queued byte. The next message begins at this position.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        match &self.shared {
            None => self.base + self.ring.len() as u64,
            Some(shared) => shared.end(),
        }
    }

    /// Appends `payload`. Returns the number of bytes by which the ring's memory has grown. A ring of `most` bytes or
    /// more gets no spare memory.
    #[inline]
    pub(super) fn push(&mut self, payload: &[u8], most: u64) -> u64 {
        let unshared = if self.shared.is_some() { self.unshare(most) } else { 0 };
        let fits = self.ring.capacity() - self.ring.len() >= payload.len();
        let grown = if fits { 0 } else { self.grow(payload.len(), most) };
        self.ring.extend(payload);
        unshared + grown
    }

    /// Returns whether [`push_shared`](Self::push_shared) is possible for `length` bytes.
    pub(super) fn can_share(&self, length: usize) -> bool {
        match &self.shared {
            None => self.ring.is_empty() && length >= MIN_SHARED,
            Some(shared) => !shared.is_full(),
        }
    }

    /// Appends `payload`, whose memory is shared with the application.
    pub(super) fn push_shared(&mut self, payload: Bytes) {
        let end = self.end();
        self.shared.get_or_insert_default().push(end, payload);
    }

    /// Returns `length` bytes from position `from` on without a copy, if one piece of shared memory holds them.
    #[inline]
    pub(super) fn share(&mut self, from: u64, length: u64) -> Option<SharedBytes> {
        self.shared.as_mut()?.share(&(from..from + length))
    }

    /// Copies the shared bytes into the ring. Returns the number of bytes by which the ring's memory has grown.
    #[cold]
    fn unshare(&mut self, most: u64) -> u64 {
        let range = self.base..self.end();
        let Some(shared) = self.shared.take() else { return 0 };
        shared.parts(range).map(|(_, bytes)| self.push(bytes, most)).sum()
    }

    /// Grows the ring, so that it has room for at least `more` additional bytes. A small ring doubles. A larger ring
    /// grows by only a quarter, to save memory. A ring of more than `most` bytes gets no spare capacity, because it is
    /// freed as soon as it is empty.
    #[cold]
    fn grow(&mut self, more: usize, most: u64) -> u64 {
        let (length, capacity) = (self.ring.len(), self.ring.capacity());
        let ahead = if capacity < DOUBLED { 2 * capacity } else { capacity + capacity / 4 };
        let ahead = ahead.min(usize::try_from(most).unwrap_or(usize::MAX));
        self.ring.reserve_exact((length + more).max(ahead) - length);
        (self.ring.capacity() - capacity) as u64
    }

    /// Frees most of the ring's unused memory.
    #[cold]
    pub(super) fn trim(&mut self) {
        let length = self.ring.len();
        if self.ring.capacity() > 2 * length + 4096 {
            self.ring.shrink_to(length + length / 4);
        }
    }

    /// Returns `length` bytes from position `from` on, in up to two slices.
    #[inline]
    pub(super) fn slices(&self, from: u64, length: usize) -> (&[u8], &[u8]) {
        if let Some(shared) = &self.shared {
            return two(shared.parts(from..from + length as u64).map(|(_, bytes)| bytes));
        }
        let (front, back) = self.ring.as_slices();
        let start = (from - self.base) as usize;
        let end = start + length;
        if end <= front.len() {
            (&front[start..end], &[])
        } else if start >= front.len() {
            (&back[start - front.len()..end - front.len()], &[])
        } else {
            (&front[start..], &back[..end - front.len()])
        }
    }

    /// Frees `length` bytes from position `from` on.
    #[inline]
    pub(super) fn free(&mut self, from: u64, length: u64) {
        if from != self.base {
            self.free_behind(from, from + length);
            return;
        }
        self.advance(from + length);
        if self.freed.is_some() {
            self.join();
        }
    }

    #[inline]
    fn advance(&mut self, to: u64) {
        let count = (to - self.base) as usize;
        self.base = to;
        if let Some(shared) = &mut self.shared {
            shared.release(to);
            if shared.end() <= to {
                self.shared = None;
            }
            return;
        }
        if count == self.ring.len() {
            // The ring is empty. After `clear`, it starts at the beginning of its memory again.
            self.ring.clear();
        } else {
            self.ring.drain(..count);
        }
    }

    #[cold]
    fn free_behind(&mut self, from: u64, to: u64) {
        assert!(from > self.base && to <= self.end(), "bytes were freed twice");
        self.freed.get_or_insert_default().0.insert(from, to);
    }

    /// Frees the ranges that were freed out of order and are now at the front of the ring.
    #[cold]
    fn join(&mut self) {
        while let Some(Freed(freed)) = self.freed.as_deref_mut()
            && let Some(first) = freed.first_entry()
            && *first.key() == self.base
        {
            let to = first.remove();
            if freed.is_empty() {
                self.freed = None;
            }
            self.advance(to);
        }
    }

    /// Prefetches the bytes after position `position` into the CPU cache. All bytes before `position` have been sent.
    #[inline]
    pub(super) fn approach(&mut self, position: u64) {
        if self.shared.is_none() && self.end() > position + SHORT {
            // `position` may lie before `base`, the start of the ring, because `base` moves past cancelled messages. A
            // message with its own buffer is not in the ring and keeps its old position.
            let from = self.prefetched_to.max(position).max(self.base);
            let to = (position + AHEAD).min(from + MAX_AHEAD);
            if from < to {
                let (front, back) = self.slices(from, (to - from) as usize);
                cache::prefetch_all(front);
                cache::prefetch_all(back);
                self.prefetched_to = to;
            }
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.shared.is_none()
    }

    /// Returns the number of bytes of memory that the ring holds.
    #[inline]
    pub(super) fn capacity(&self) -> u64 {
        self.ring.capacity() as u64
    }

    /// Frees the memory of an empty ring. Only `kept` bytes of it stay allocated.
    #[cold]
    pub(super) fn release_spare(&mut self, kept: u64) {
        self.ring = VecDeque::with_capacity(kept as usize);
    }
}

/// Returns the two slices of `parts`. There are no more: a chunk lies within a message, and a message within a piece.
#[cold]
fn two<'a>(mut parts: impl Iterator<Item = &'a [u8]>) -> (&'a [u8], &'a [u8]) {
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    /// Each byte is moved only a few times, even if the ring is filled in small pieces.
    #[test]
    fn a_ring_that_fills_byte_by_byte_grows_seldom() {
        let mut bytes = StreamBytes::default();
        let grown = (0..DOUBLED).filter(|_| bytes.push(&[7], u64::MAX) > 0).count();
        assert!(grown <= 17, "65536 is the 16th power of two: {grown}");
    }

    #[test]
    fn agrees_with_a_plain_list_of_messages() {
        let byte = |position: u64| (position % 251) as u8;
        let mut shared = 0;
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut bytes = StreamBytes::default();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for _ in 0..400 {
                if held.len() < 12 && rng.below(2) == 0 {
                    // Long messages are often shared, and then also short ones, until one is copied.
                    let length = if rng.below(6) == 0 { MIN_SHARED as u64 } else { 1 + rng.below(300) };
                    let from = bytes.end();
                    let payload: Vec<u8> = (from..from + length).map(byte).collect();
                    if bytes.can_share(payload.len()) && rng.below(32) > 0 {
                        bytes.push_shared(payload.into());
                        shared += 1;
                    } else {
                        bytes.push(&payload, u64::MAX);
                    }
                    held.push((from, length));
                } else if !held.is_empty() {
                    // In three of four cases the oldest range is freed, so ranges are usually freed in order.
                    let at = if rng.below(4) == 0 { rng.below(held.len() as u64) as usize } else { 0 };
                    let (from, length) = held.remove(at);
                    bytes.free(from, length);
                }
                for &(from, length) in &held {
                    let (front, back) = bytes.slices(from, length as usize);
                    let read = front.iter().chain(back).copied();
                    assert!(read.eq((from..from + length).map(byte)), "seed {seed}");
                }
                assert_eq!(bytes.is_empty(), held.is_empty(), "seed {seed}");
                // The range to prefetch lies within the ring, whichever position the sender has reached.
                bytes.approach(rng.below(bytes.end() + 1));
                assert!(bytes.prefetched_to <= bytes.end(), "seed {seed}");
            }
        }
        assert!(shared > 300, "{shared} messages");
    }

    /// `most` is the usual limit of a ring in bytes. A ring that holds at most `most` bytes of messages takes at most
    /// `most` bytes of memory. For a message larger than `most`, the ring grows.
    #[test]
    fn a_ring_grows_to_what_it_may_hold() {
        for most in [(64_u64 << 10), 200_000, 1 << 20, 4 << 20] {
            let mut bytes = StreamBytes::default();
            while bytes.end() + 1_000 <= most {
                bytes.push(&[7; 1_000], most);
            }
            assert!(bytes.capacity() <= most, "{} of {most}", bytes.capacity());
            // A message of twice the usual limit of the ring must fit, too.
            bytes.push(&vec![7; 2 * most as usize], most);
            assert!(bytes.capacity() >= 2 * most);
        }
    }

    /// A trimmed ring has capacity for the bytes that it holds and a quarter more. If trimming would free little, the
    /// ring keeps all its capacity.
    #[test]
    fn a_ring_gives_back_what_holds_nothing() {
        let length = 100_000;
        for (held, trimmed) in [(10_000, 12_500), (40_000, 50_000), (47_952, length), (0, 0)] {
            let mut bytes = StreamBytes::default();
            let given: Vec<u8> = (0..length).map(|position| (position % 251) as u8).collect();
            bytes.push(&given, length as u64);
            bytes.free(0, (length - held) as u64);
            bytes.trim();
            assert_eq!(bytes.capacity(), trimmed as u64, "{held} bytes are held");
            let (front, back) = bytes.slices((length - held) as u64, held);
            assert_eq!([front, back].concat(), given[length - held..], "{held} bytes are held");
        }
    }

    /// A large ring grows by only a quarter, because unused capacity takes memory.
    #[test]
    fn a_large_ring_grows_by_a_quarter() {
        let mut bytes = StreamBytes::default();
        let mut before = 0;
        for _ in 0..4_000 {
            let grown = bytes.push(&[7; 1_000], u64::MAX);
            assert_eq!(grown, bytes.capacity() - before);
            let held = bytes.end();
            assert!(held < 2 * DOUBLED as u64 || bytes.capacity() <= held + held / 4 + 1_000, "{held}");
            before = bytes.capacity();
        }
    }

    #[test]
    fn freed_bytes_are_not_prefetched() {
        let mut bytes = StreamBytes::default();
        bytes.push(&vec![7; 2 * SHORT as usize], u64::MAX);
        bytes.free(0, 1_000);
        bytes.approach(10);
        assert_eq!(bytes.prefetched_to, 10 + AHEAD);
        bytes.free(1_000, SHORT / 2);
        bytes.approach(20);
        assert!(bytes.prefetched_to <= bytes.end());
    }
}
