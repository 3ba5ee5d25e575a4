//! The receiving half of a connection: from segments to the application's bytes.
//!
//! Owns the receive buffer, the out-of-order data, the offered window and the pending acknowledgements. Stream
//! positions are counted from 0 at the first byte after the peer's SYN and never wrap.
//!
//! Implements RFC 9293 §3.10.7.4 (seventh: the segment text) and §3.8.6.2.2 (SWS avoidance of the receiver).

mod ack;
mod assembler;
mod tuning;

pub(crate) use ack::AckScheduler;

use crate::config::{Config, FirstWindow};
use crate::ring::Ring;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, PacketBytes, SharedBytes};
use assembler::Assembler;
use std::ops::Range;
use tuning::Tuning;

/// The last segment of the stream so far, in the buffer in which it arrived. If the application reads each segment
/// before the next arrives, the data is copied only once. Otherwise the data is moved into the ring.
#[derive(Debug, Default)]
struct LastSegment {
    /// The buffer is kept after the application has read all its bytes. When the next segment arrives, this buffer is
    /// exchanged for the buffer of that segment.
    buffer: Vec<u8>,
    /// The payload of the segment, if it is shared with the sender. It is then used instead of `buffer`.
    shared: SharedBytes,
    /// The range of `buffer` or `shared` that the application has not read.
    unread: Range<usize>,
}

impl LastSegment {
    fn unread(&self) -> &[u8] {
        let bytes = if self.shared.is_empty() { self.buffer.as_slice() } else { &self.shared };
        &bytes[self.unread.clone()]
    }

    /// Removes `count` bytes from the unread ones.
    fn advance(&mut self, count: usize) {
        self.unread.start += count;
        if self.unread.is_empty() && !self.shared.is_empty() {
            self.shared = SharedBytes::default();
            self.unread = 0..0;
        }
    }
}

#[derive(Debug)]
pub(crate) struct RecvHalf {
    ring: Ring,
    /// A segment that is kept outside the ring. While the segment has unread bytes, the ring has no data, so the
    /// application reads from the segment next.
    last: LastSegment,
    assembler: Assembler,
    pub(crate) ack_scheduler: AckScheduler,
    /// The capacity of the receive buffer in bytes.
    capacity: u64,
    tuning: Tuning,
    dsack: bool,
    /// Set while the acknowledgement of the peer's FIN may be delayed, so that our own FIN carries it. Cleared when our
    /// FIN is sent or queued.
    fin_waits: bool,
    /// The first position that the application has not read.
    read: u64,
    /// RCV.NXT: the next position expected. Once the peer's FIN has arrived in order, this is the position after the
    /// FIN.
    next: u64,
    /// The right edge of the window that was offered to the peer.
    edge: u64,
    /// The position of the peer's FIN, once received.
    fin: Option<u64>,
}

/// The result of receiving a segment's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Arrival {
    /// The number of bytes of the segment that were kept, because they are new.
    pub(crate) kept_bytes: u64,
    /// Whether the application can read more than before.
    pub(crate) readable: bool,
    /// Whether the peer's FIN has now arrived in order.
    pub(crate) finished: bool,
    /// The delay after which the received data must be acknowledged; `None` if this segment does not start the delay.
    pub(crate) delay: Option<Duration>,
}

impl RecvHalf {
    pub(crate) fn new(config: &Config) -> Self {
        // The limit on separate runs of data bounds the memory that a malicious peer can use. Honest peers do not reach
        // the limit, because each of their segments carries at least a few hundred bytes.
        let most_runs = (config.rcvbuf / 256).clamp(16, 16_384) as usize;
        Self {
            ring: Ring::default(),
            last: LastSegment::default(),
            assembler: Assembler::new(most_runs),
            ack_scheduler: AckScheduler::new(config),
            capacity: config.rcvbuf,
            tuning: Tuning::new(config),
            dsack: config.dsack,
            fin_waits: config.fin_delack,
            read: 0,
            next: 0,
            edge: 0,
            fin: None,
        }
    }

    /// Sets the first window to offer to a peer whose segments have up to `mss` bytes.
    pub(crate) fn begin(&mut self, config: &Config, mss: u64) {
        if config.rcvbuf_auto && config.first_window == FirstWindow::Segments {
            self.tuning.begin_with_segments(mss);
        }
    }

    /// Records that our FIN was sent or is queued behind pending data. From now on, the peer's FIN is acknowledged
    /// immediately.
    pub(crate) fn on_own_fin(&mut self) {
        self.fin_waits = false;
    }

    /// Returns RCV.NXT.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the right edge of the window that was offered to the peer.
    #[inline]
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// Returns whether the peer's FIN has arrived in order.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Returns the number of bytes that arrived in order and have not been read.
    #[inline]
    pub(crate) fn readable(&self) -> u64 {
        let end = self.fin.map_or(self.next, |fin| self.next.min(fin));
        end - self.read
    }

    /// Stores the bytes of `data` that are new and inside the receive window. `position` is the position of the first
    /// byte of `data`. Calls `on_new` for each range of positions that is stored.
    pub(crate) fn on_data(
        &mut self,
        position: u64,
        data: &[u8],
        (fin, pushed): (bool, bool),
        mut on_new: impl FnMut(Range<u64>),
    ) -> Arrival {
        let end = position + data.len() as u64;
        let mut arrival = Arrival::default();
        // A FIN is ignored if data beyond the FIN's position has already arrived, or if the FIN lies beyond the window.
        if fin && end <= self.edge && end >= self.next.max(self.assembler.end()) {
            self.fin.get_or_insert(end);
        }
        let limit = self.edge.min(self.fin.unwrap_or(u64::MAX));
        let (start, stop) = (position.max(self.next), end.min(limit));
        if start < stop {
            let data = &data[(start - position) as usize..(stop - position) as usize];
            let had_hole = !self.assembler.is_empty();
            if start == self.next && !had_hole {
                if self.read == start {
                    self.ring.rebase(start);
                }
                self.keep(start, data);
                self.next = stop;
                arrival.kept_bytes = stop - start;
                on_new(start..stop);
                self.widen(stop - start);
                arrival.delay = self.ack_scheduler.on_segment(stop - start, pushed, stop - self.read);
            } else {
                self.on_beyond_hole(start..stop, data, &mut arrival, on_new);
            }
            arrival.readable = self.next > start || arrival.readable;
        } else if !data.is_empty() {
            // RFC 9293 §3.10.7.4: data that has already arrived or lies beyond the window is answered with an
            // acknowledgement.
            if end <= self.next {
                self.record_duplicate(position..end);
                self.ack_scheduler.on_duplicate();
            }
            self.ack_scheduler.ack_now();
        }
        if let Some(fin) = self.fin
            && self.next == fin
        {
            // The FIN occupies one sequence number.
            self.next = fin + 1;
            arrival.finished = true;
            if self.fin_waits {
                arrival.delay = self.ack_scheduler.on_awaited_fin();
            } else {
                arrival.delay = None;
                self.ack_scheduler.ack_now();
            }
        } else if fin {
            // The FIN is a duplicate or lies beyond a gap, so it is acknowledged immediately.
            self.ack_scheduler.ack_now();
            arrival.delay = None;
        }
        arrival
    }

    /// Takes the last `length` bytes of `segment` as the next data, if all earlier data has been read and no data lies
    /// beyond a gap. Keeps the segment's buffer if possible. If the segment does not qualify, returns `None` and
    /// changes nothing; the caller must use [`on_data`](Self::on_data). Returns `Some(Some(delay))` if the data must be
    /// acknowledged after `delay`, and `Some(None)` if it must be acknowledged now.
    #[inline(always)]
    pub(crate) fn take_next(
        &mut self,
        length: usize,
        pushed: bool,
        segment: &mut PacketBytes<'_>,
    ) -> Option<Option<Duration>> {
        let is_next = self.read == self.next && self.assembler.is_empty() && self.fin.is_none();
        if !is_next || length < MIN_KEPT {
            return None;
        }
        if segment.shared_len() == length
            && let Some(shared) = segment.take_shared()
        {
            self.last.shared = shared;
            self.last.unread = 0..length;
        } else if segment.take_buffer(&mut self.last.buffer).is_some() {
            let end = self.last.buffer.len();
            self.last.unread = end - length..end;
        } else {
            segment.join();
            self.copy_next(length, segment.bytes());
        }
        let length = length as u64;
        self.next += length;
        self.widen(length);
        Some(self.ack_scheduler.on_segment(length, pushed, length))
    }

    /// Widens the offered window after a segment of `length` bytes, if tuning allows it.
    #[inline(always)]
    fn widen(&mut self, length: u64) {
        if self.tuning.is_behind() && self.tuning.widen(length) {
            self.ack_scheduler.on_growth();
        }
    }

    fn on_beyond_hole(
        &mut self,
        range: Range<u64>,
        data: &[u8],
        arrival: &mut Arrival,
        mut on_new: impl FnMut(Range<u64>),
    ) {
        if let Some(known) = self.assembler.overlap(&range) {
            self.record_duplicate(known);
        }
        // The ring buffer keeps the data only if the assembler has recorded its positions. The assembler refuses data
        // that would make too many gaps.
        let (start, end) = (range.start, range.end);
        let taken = self.assembler.insert(range, |part| {
            arrival.kept_bytes += part.end - part.start;
            on_new(part);
        });
        if taken {
            self.keep(start, data);
            self.assert_within_capacity(end);
        }
        let before = self.next;
        self.next = self.assembler.advance(self.next);
        if self.next > before {
            arrival.readable = true;
            // RFC 5681 §4.2: data that fills a gap is acknowledged immediately.
            self.ack_scheduler.ack_now();
        } else {
            self.ack_scheduler.on_out_of_order();
        }
    }

    fn assert_within_capacity(&self, end: u64) {
        assert!(end - self.read <= self.capacity + SLACK, "kept more than the window allowed");
    }

    fn keep(&mut self, at: u64, data: &[u8]) {
        if !self.last.unread.is_empty() {
            self.spill();
        }
        let end = at + data.len() as u64;
        let alive_end = self.next.max(self.assembler.end());
        self.ring.reserve(self.read..alive_end, end.max(alive_end) - self.read);
        self.ring.write(at, data);
    }

    /// Copies the last `length` bytes of `segment`, which are the next data, into the ring.
    #[inline(never)]
    fn copy_next(&mut self, length: usize, segment: &[u8]) {
        self.ring.rebase(self.read);
        self.keep(self.read, &segment[segment.len() - length..]);
    }

    /// Moves the unread rest of the last segment into the ring, because more data has arrived.
    fn spill(&mut self) {
        let unread = self.last.unread();
        self.ring.rebase(self.read);
        self.ring.reserve(self.read..self.read, unread.len() as u64);
        self.ring.write(self.read, unread);
        self.last.advance(self.last.unread.len());
    }

    /// Records that an arriving segment repeated the data `range`.
    pub(crate) fn on_old(&mut self, range: Range<u64>) {
        self.record_duplicate(range);
        self.ack_scheduler.on_duplicate();
        self.ack_scheduler.ack_now();
    }

    fn record_duplicate(&mut self, range: Range<u64>) {
        if self.dsack {
            self.ack_scheduler.duplicate = Some(range);
        }
    }

    /// Copies readable data to `into` and returns the number of bytes copied.
    #[inline]
    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        let count = (self.readable() as usize).min(into.len());
        if self.last.unread.is_empty() {
            self.ring.copy_to(self.read, &mut into[..count]);
        } else {
            into[..count].copy_from_slice(&self.last.unread()[..count]);
            self.last.advance(count);
        }
        self.on_read(count);
        count
    }

    /// Returns readable data without a copy, at most `most` bytes. Returns `None` if the data is not shared.
    #[inline]
    pub(crate) fn read_shared(&mut self, most: usize) -> Option<SharedBytes> {
        if self.last.shared.is_empty() {
            return None;
        }
        let count = self.last.unread.len().min(most);
        let start = self.last.unread.start;
        let whole = start == 0 && count == self.last.shared.len();
        let bytes = if whole {
            self.last.unread = 0..0;
            std::mem::take(&mut self.last.shared)
        } else {
            let bytes = self.last.shared.slice(start..start + count);
            self.last.advance(count);
            bytes
        };
        self.on_read(count);
        Some(bytes)
    }

    #[inline]
    fn on_read(&mut self, count: usize) {
        self.read += count as u64;
        if count > 0 && self.read == self.next {
            self.ack_scheduler.on_read();
        }
    }

    /// Returns whether the window may still grow. Otherwise [`on_echo`](Self::on_echo) and [`tune`](Self::tune) have no
    /// effect.
    #[inline]
    pub(crate) fn is_tuning(&self) -> bool {
        self.tuning.is_open()
    }

    /// Records that a data segment echoed a timestamp that we sent `age` nanoseconds ago.
    #[inline]
    pub(crate) fn on_echo(&mut self, age: u64) {
        self.tuning.on_echo(age);
    }

    /// Called after the application has read: the window may grow with the amount read in a round trip.
    #[inline]
    pub(crate) fn tune(&mut self, now: Instant, rtt: Option<Duration>, mss: u64) {
        self.tuning.on_read(now, self.read, rtt, mss);
    }

    /// Returns the window field of the next segment, shifted right by `shift` bits, and records the window that the
    /// field offers.
    #[inline]
    pub(crate) fn offer(&mut self, shift: u8, most: u64, mss: u64) -> u16 {
        let wanted = self.wanted_edge(most << shift, mss);
        let window = wanted.saturating_sub(self.next);
        // The offered window never shrinks (RFC 9293 §3.8.6). If rounding down would shrink it, the field is rounded
        // up.
        let mut field = window >> shift;
        if self.next + (field << shift) < self.edge {
            field = window.div_ceil(1 << shift);
        }
        let field = field.min(most);
        self.edge = self.edge.max(self.next + (field << shift));
        self.ack_scheduler.on_offered(self.edge - self.next);
        field as u16
    }

    /// Returns the right edge of the window to offer. The edge moves only if it can move by a full segment or by half
    /// of the full window, whichever is less.
    #[inline]
    fn wanted_edge(&self, most: u64, mss: u64) -> u64 {
        let capacity = self.tuning.offered();
        let possible = (self.read + capacity).min(self.next + most);
        // RFC 9293 §3.8.6.2.2: small window updates are avoided.
        let worthwhile = mss.min(capacity / 2);
        if possible >= self.edge + worthwhile { possible } else { self.edge.max(self.next) }
    }

    /// Returns whether the application has read enough for a window update. An update that adds at least half of the
    /// full window is enough. As in Linux, two segments are also enough if the update adds at least as much as the peer
    /// may still send.
    pub(crate) fn wants_update(&self, mss: u64) -> bool {
        let capacity = self.tuning.offered();
        let gain = (self.read + capacity).saturating_sub(self.edge);
        let left = self.edge.saturating_sub(self.next);
        gain >= capacity / 2 || (gain >= 2 * mss && gain >= left)
    }

    /// Calls `tell` for at most `most` ranges to report in a SACK option. A duplicate range comes first.
    pub(crate) fn report(&self, most: usize, mut tell: impl FnMut(Range<u64>)) {
        let mut left = most;
        if let Some(duplicate) = &self.ack_scheduler.duplicate
            && left > 0
        {
            tell(duplicate.clone());
            left -= 1;
        }
        self.assembler.report(left, tell);
    }

    /// Returns whether there is anything to report in a SACK option.
    #[inline]
    pub(crate) fn has_report(&self) -> bool {
        self.ack_scheduler.duplicate.is_some() || !self.assembler.is_empty()
    }

    /// Releases the buffers, because the connection has ended.
    pub(crate) fn discard(&mut self) {
        self.ring.release();
        self.last = LastSegment::default();
        self.read = self.fin.map_or(self.next, |fin| self.next.min(fin));
    }
}

/// Segments with a smaller payload are copied, because a kept segment would hold a whole packet buffer for a few bytes.
const MIN_KEPT: usize = 512;
/// The maximum number of bytes that window scaling adds to the offered window by rounding it up.
const SLACK: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::{RecvBatch, Rng};

    /// The stream is read intact for any order of segments, whether the segments' buffers are kept or copied.
    #[test]
    fn bytes_come_out_as_they_went_in_whoever_keeps_them() {
        let byte = |position: u64| (position % 251) as u8;
        let mut kept = 0;
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut half = RecvHalf::new(&Config::default());
            let (mut batch, mut heard) = (RecvBatch::new(1), 0);
            half.offer(7, 65_535, 1460);
            for _ in 0..200 {
                let start = if rng.below(8) == 0 { half.next() + rng.below(3000) } else { half.next() };
                let end = start + 1 + rng.below(1460);
                let data: Vec<u8> = (start..end).map(byte).collect();
                // The buffer is laid out as in the virtual network: 48 bytes of headroom and 40 bytes of headers
                // precede the payload.
                let whole = [&[0; 88], &data[..]].concat();
                batch.put_buffer(&mut whole.clone(), 48);
                let mut segment = match rng.below(2) {
                    0 => batch.only_owned().expect("one packet").2,
                    _ => PacketBytes::Borrowed(&whole[48..]),
                };
                if start != half.next() || half.take_next(data.len(), false, &mut segment).is_none() {
                    half.on_data(start, &data, (false, false), |_| {});
                } else if batch.is_empty() {
                    kept += 1;
                }
                if rng.below(3) > 0 {
                    let mut into = vec![0; 1 + rng.below(4000) as usize];
                    let count = half.read(&mut into);
                    assert!((heard..).zip(&into[..count]).all(|(at, &got)| got == byte(at)), "seed {seed}");
                    heard += count as u64;
                    half.offer(7, 65_535, 1460);
                }
            }
            assert_eq!(heard + half.readable(), half.next(), "seed {seed}");
        }
        assert!(kept > 1000, "{kept} buffers");
    }
}
