//! Defers freeing memory if one SACK acknowledges a very large number of chunks.
//!
//! A SACK that cumulatively acknowledges tens of thousands of chunks immediately updates windows, timers and the
//! buffered amount. The memory of the chunks and of their messages is freed in bounded steps: with the following
//! packets and calls, and before new messages need the room. A SACK that acknowledges as many chunks as an honest
//! peer acknowledges at a time is not deferred.
//!
//! Home of no rule.

use super::SendHalf;
use super::outstanding::{ChunkState, ChunkSummary, Entry};
use super::sack_outcome::{Newest, SackOutcome, Waiting};
use super::sack_work_limit::SackWorkLimit;
use anabranch_base::Instant;
use std::ops::Range;

/// The largest number of chunks that the SACKs of one packet may acknowledge without deferring.
pub(super) const AT_ONCE: u64 = 2_048;

/// The number of deferred chunks freed with each packet or call.
const A_CALL: usize = 1_024;

/// The number of deferred chunks freed for each new message.
const A_MESSAGE: usize = 16;

impl SendHalf {
    /// Marks `count` chunks as cumulatively acknowledged and defers freeing their memory.
    #[cold]
    pub(super) fn retire(
        &mut self,
        now: Instant,
        count: u64,
        waiting: &impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
        newest: &mut Newest,
    ) {
        /// The summaries are scanned twice, so a run fits into the L1 cache.
        const RUN: usize = 512;
        let end = self.outstanding.base() + count;
        let (mut owed, mut in_flight, mut lost) = (0, 0, 0);
        let mut offset = self.outstanding.base();
        while offset < end {
            let rest = self.outstanding.summaries(offset, end.min(offset + RUN as u64));
            let (Some(first), Some(&entry)) = (rest.first(), self.outstanding.get(offset)) else {
                break;
            };
            let length = rest.iter().take_while(|summary| summary.is_like(*first)).count();
            let run = Run::of(&rest[..length], offset, entry);
            offset += length as u64;
            match entry.state {
                ChunkState::InFlight => in_flight += run.bytes,
                ChunkState::Lost(_) => lost += length,
                ChunkState::Acked => {}
                // The bytes of this chunk were freed when it was acknowledged.
                ChunkState::Freed => continue,
                ChunkState::Abandoned => {
                    outcome.skipped = true;
                    for offset in run.offsets {
                        if let Some(entry) = self.outstanding.get(offset) {
                            outcome.land_skipped(offset, entry);
                        }
                    }
                    // The bytes of an abandoned chunk no longer count as buffered.
                    continue;
                }
            }
            owed += run.bytes;
            if entry.state != ChunkState::Acked {
                self.acknowledge(now, &run, waiting, outcome, newest);
            }
        }
        self.outstanding.retire(count as usize, in_flight, lost);
        self.queue.owe(owed);
    }

    /// Like `acknowledge` in the module `sack`, but for a run of chunks with the same state.
    fn acknowledge(
        &self,
        now: Instant,
        run: &Run,
        waiting: &impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
        newest: &mut Newest,
    ) {
        let (base, end) = (run.offsets.start, run.offsets.end);
        let path = usize::from(run.first.path);
        let last = self.outstanding.get(end - 1).unwrap_or(&run.first);
        // Chunks that were sent only once were sent in the order of their offsets, so the last one is the newest.
        let mut sent_at = last.sent_at;
        let fresh = outcome.fresh.get_mut(path);
        if run.first.again {
            let mut fresh = fresh;
            for offset in run.offsets.clone() {
                let Some(entry) = self.outstanding.get(offset) else {
                    continue;
                };
                sent_at = sent_at.max(entry.sent_at);
                if let Some(fresh) = &mut fresh {
                    fresh.add(entry.sent_at, offset + 1, true);
                }
            }
        } else if let Some(fresh) = fresh {
            fresh.add(run.first.sent_at, base + 1, false);
            fresh.add(last.sent_at, end, false);
        }
        newest.record(end, sent_at);
        let Some(ack) = outcome.paths.get_mut(path) else {
            return;
        };
        let expected = waiting(path);
        ack.acked += run.size;
        if run.first.state == ChunkState::InFlight {
            ack.landed += run.size;
            ack.earliest |= base <= expected.earliest;
        }
        // RFC 9260 §6.3.1 C4, C5: as in the module `sack`, a retransmitted chunk gives no round-trip sample.
        if let Some((timed, at)) = expected.timed
            && run.offsets.contains(&timed)
        {
            ack.timed = true;
            if !run.first.again {
                ack.sample = Some(now - at);
            }
        }
    }

    /// Frees some of the deferred memory after a packet or a call. Resets the work limits of the next packet's SACKs.
    #[inline]
    pub(crate) fn free_deferred(&mut self) {
        self.at_once = 0;
        self.sack_work = SackWorkLimit::default();
        if self.outstanding.has_retired() {
            self.free_deferred_of(A_CALL);
        }
    }

    /// Frees more deferred memory than `messages` new messages can use.
    #[inline]
    pub(crate) fn free_before(&mut self, messages: usize) {
        if self.outstanding.has_retired() {
            self.free_deferred_of(messages.saturating_mul(A_MESSAGE));
        }
    }

    /// Frees all deferred memory before a caller examines all messages.
    #[inline]
    pub(super) fn give_all_back(&mut self) {
        if self.outstanding.has_retired() {
            self.free_deferred_of(usize::MAX);
        }
    }

    #[cold]
    fn free_deferred_of(&mut self, most: usize) {
        for entry in self.outstanding.take_retired(most) {
            if entry.state != ChunkState::Freed {
                self.queue.release_owed(entry.message, entry.offset, entry.length.into());
            }
        }
        self.queue.release_now();
    }
}

/// Consecutive chunks that have the same state.
struct Run {
    offsets: Range<u64>,
    first: Entry,
    /// The sum of the user bytes.
    bytes: u64,
    /// The sum of the chunk sizes in bytes, headers and padding included.
    size: u64,
}

impl Run {
    fn of(run: &[ChunkSummary], from: u64, first: Entry) -> Self {
        let (mut bytes, mut padded) = (0, 0);
        for summary in run {
            let (length, with_padding) = summary.bytes();
            bytes += length;
            padded += with_padding;
        }
        let count = run.len() as u64;
        // All chunks of an association have the same header size.
        let size = u64::from(first.header) * count + padded;
        Self { offsets: from..from + count, first, bytes, size }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sack_outcome::PathAck;
    use super::*;
    use crate::config::Config;
    use crate::message::Message;
    use crate::reliability::Reliability;
    use anabranch_base::Rng;
    use anabranch_base::trace::SendCause;
    use anabranch_wire::sctp::Tsn;

    const STREAMS: u16 = 3;

    fn byte(message: u64) -> u8 {
        (message % 251) as u8
    }

    /// A sending half that queues messages of one to three bytes and sends all of them.
    struct Sender {
        half: SendHalf,
        given: u64,
        rng: Rng,
        /// Some of the messages may be abandoned.
        limited: bool,
    }

    impl Sender {
        fn new(seed: u64) -> Self {
            let half = SendHalf::new(&Config::default(), 7);
            Self { half, given: 0, rng: Rng::new(seed), limited: seed.is_multiple_of(2) }
        }

        fn send(&mut self, messages: u64) {
            for number in self.given..self.given + messages {
                let stream = self.rng.below(u64::from(STREAMS)) as u16;
                let payload = vec![byte(number); 1 + self.rng.below(3) as usize];
                let reliability = match self.rng.below(3) {
                    0 if self.limited => Reliability::Priority(7),
                    _ => Reliability::Full,
                };
                let context = number as u32;
                let message = Message { stream, context, reliability, ..Message::default() };
                self.half.push(Instant::ZERO, message, &payload, false).expect("room");
            }
            self.given += messages;
            while let Some(cut) = self.half.queue.next_cut(2, 1_000) {
                if self.half.queue.begins_limited(cut) {
                    self.half.begin_limited(cut.message);
                }
                self.half.queue.number(cut);
                self.half.queue.commit(cut);
                self.half.outstanding.push(Entry {
                    sent_at: Instant::from_millis(self.half.outstanding.end() / 100),
                    message: cut.message,
                    offset: cut.offset,
                    length: cut.length as u16,
                    fsn: cut.number,
                    header: 16,
                    state: ChunkState::InFlight,
                    path: self.rng.below(8).saturating_sub(6) as u8,
                    misses: 0,
                    fast: false,
                    again: false,
                    repeats: 0,
                });
            }
        }

        /// Marks, retransmits and abandons some of the chunks at random, and acknowledges some by gap blocks.
        fn disturb(&mut self) {
            for offset in self.half.outstanding.base()..self.half.outstanding.end() {
                let state = self.half.outstanding.get(offset).map(|entry| entry.state);
                match self.rng.below(40) {
                    _ if state == Some(ChunkState::Abandoned) => {}
                    0 => self.half.outstanding.set(offset, ChunkState::Lost(SendCause::Fast)),
                    1 => self.half.outstanding.set(offset, ChunkState::Acked),
                    2 => {
                        let at = Instant::from_millis(1_000 + offset);
                        self.half.outstanding.set(offset, ChunkState::Lost(SendCause::Fast));
                        self.half.outstanding.send_again(offset, at, 1);
                    }
                    3 => {
                        let message = self.half.outstanding.get(offset).map(|entry| entry.message);
                        self.half.give_up(message.expect("it is outstanding"));
                    }
                    _ => {}
                }
            }
        }

        fn acknowledge(&mut self, to: u64) -> SackOutcome {
            let mut outcome = SackOutcome::default();
            outcome.fit(2, true);
            let waiting = |path: usize| Waiting {
                earliest: 3 + path as u64,
                timed: Some((4_000, Instant::from_millis(2))),
            };
            let cumulative = Tsn(self.half.outstanding.tsn(to).wrapping_sub(1));
            let now = Instant::from_millis(9_000);
            self.half.on_shutdown(now, cumulative, waiting, &mut outcome).expect("it was sent");
            outcome
        }

        /// Returns each outstanding chunk as its offset, the context of its message and its bytes.
        fn rest(&self) -> Vec<(u64, u32, Vec<u8>)> {
            let all = self.half.outstanding.base()..self.half.outstanding.end();
            all.map(|offset| {
                let entry = self.half.outstanding.get(offset).expect("it is there");
                let message = self.half.queue.message(entry.message);
                if entry.state == ChunkState::Abandoned {
                    return (offset, message.context, Vec::new());
                }
                let (front, back) = self.half.queue.payload(message, entry.offset, entry.length.into());
                (offset, message.context, [front, back].concat())
            })
            .collect()
        }

        fn counts(&self) -> [u64; 4] {
            let half = &self.half;
            let marked = u64::from(half.outstanding.has_lost());
            [half.outstanding.in_flight(), half.queue.buffered_bytes(), half.peer_window, marked]
        }
    }

    /// One SACK for all chunks and many SACKs for a few chunks each have the same visible effect. Data sent while
    /// memory is still deferred is correct.
    #[test]
    fn at_once_or_bit_by_bit_is_the_same() {
        for seed in 0..12 {
            let (mut one, mut many) = (Sender::new(seed), Sender::new(seed));
            for round in 0..4 {
                for sender in [&mut one, &mut many] {
                    sender.send(3_000 + 200 * round);
                    sender.disturb();
                }
                let end = one.half.outstanding.end() - 5 * (seed % 3);
                let at_once = one.acknowledge(end);
                let mut bit_by_bit: Vec<SackOutcome> = Vec::new();
                while many.half.outstanding.base() < end {
                    bit_by_bit.push(many.acknowledge(end.min(many.half.outstanding.base() + 700)));
                }
                for path in 0..2 {
                    let of = |outcome: &SackOutcome| outcome.paths[path];
                    let sum = |value: fn(&PathAck) -> u64| {
                        bit_by_bit.iter().map(|outcome| value(&of(outcome))).sum::<u64>()
                    };
                    assert_eq!(of(&at_once).acked, sum(|ack| ack.acked), "seed {seed}");
                    assert_eq!(of(&at_once).landed, sum(|ack| ack.landed), "seed {seed}");
                    let any =
                        |value: fn(&PathAck) -> bool| bit_by_bit.iter().any(|outcome| value(&of(outcome)));
                    assert_eq!(of(&at_once).earliest, any(|ack| ack.earliest), "seed {seed}");
                    assert_eq!(of(&at_once).timed, any(|ack| ack.timed), "seed {seed}");
                    let sample = bit_by_bit.iter().find_map(|outcome| of(outcome).sample);
                    assert_eq!(of(&at_once).sample, sample, "seed {seed}");
                    assert_eq!(at_once.fresh[path].is_empty(), of(&at_once).acked == 0, "seed {seed}");
                }
                assert_eq!(at_once.skipped, bit_by_bit.iter().any(|outcome| outcome.skipped), "seed {seed}");
                assert!(one.half.outstanding.has_retired(), "seed {seed}: nothing was put off");
                assert_eq!(one.counts(), many.counts(), "seed {seed}");
                assert_eq!(one.rest(), many.rest(), "seed {seed}");
                if round % 2 == 1 {
                    one.half.free_deferred();
                }
                for sender in [&mut one, &mut many] {
                    sender.send(50);
                }
                assert_eq!(one.counts(), many.counts(), "seed {seed}");
                assert_eq!(one.rest(), many.rest(), "seed {seed}");
            }
            one.half.give_all_back();
            assert_eq!(one.rest(), many.rest(), "seed {seed}");
            assert!(!one.half.outstanding.has_retired(), "seed {seed}");
        }
    }
}
