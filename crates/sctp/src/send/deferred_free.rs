//! Memory of what one SACK has acknowledged beyond measure.
//!
//! A SACK that acknowledges tens of thousands of chunks for good is believed at
//! once: windows, timers and what is buffered are as it says. The chunks' own
//! memory, and that of their messages, is given back a bounded number of chunks
//! at a time: with the packets and calls that follow, and before the
//! application's next messages need the room. A SACK for as many chunks as an
//! honest peer acknowledges at a time never comes here.
//!
//! Home of no rule.

use super::SendHalf;
use super::outstanding::{ChunkState, ChunkSummary, Entry};
use super::sack_outcome::{Newest, SackOutcome, Waiting};
use super::sack_work_limit::SackWorkLimit;
use anabranch_base::Instant;
use std::ops::Range;

/// Chunks that the SACKs of a packet may acknowledge for good and be done with.
pub(super) const AT_ONCE: u64 = 2_048;

/// Chunks given back with one packet or call.
const A_CALL: usize = 1_024;

/// Chunks given back for each message that is taken in.
const A_MESSAGE: usize = 16;

impl SendHalf {
    /// Takes `count` chunks for acknowledged for good, and owes their memory.
    #[cold]
    pub(super) fn retire(
        &mut self,
        now: Instant,
        count: u64,
        waiting: &impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
        newest: &mut Newest,
    ) {
        /// Looked at twice, so as many as the first cache holds.
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
                // Its bytes went when it was acknowledged.
                ChunkState::Freed => continue,
                ChunkState::Abandoned => {
                    outcome.skipped = true;
                    for offset in run.offsets {
                        if let Some(entry) = self.outstanding.get(offset) {
                            outcome.land_skipped(offset, entry);
                        }
                    }
                    // It counts no longer already.
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

    /// As `acknowledge` of `sack`, for a run that is alike.
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
        // Sent once, they left in their order.
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
        // RFC 9260 §6.3.1 C4, C5: as in `sack`.
        if let Some((timed, at)) = expected.timed
            && run.offsets.contains(&timed)
        {
            ack.timed = true;
            if !run.first.again {
                ack.sample = Some(now - at);
            }
        }
    }

    /// A packet or call has been dealt with: gives back some of what is owed.
    #[inline]
    pub(crate) fn free_deferred(&mut self) {
        self.at_once = 0;
        self.sack_work = SackWorkLimit::default();
        if self.outstanding.has_retired() {
            self.free_deferred_of(A_CALL);
        }
    }

    /// Gives back more than `messages` that are being taken in may use anew.
    #[inline]
    pub(crate) fn free_before(&mut self, messages: usize) {
        if self.outstanding.has_retired() {
            self.free_deferred_of(messages.saturating_mul(A_MESSAGE));
        }
    }

    /// Gives everything back: somebody is to look at all messages there are.
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

/// Chunks that are alike, one behind the other.
struct Run {
    offsets: Range<u64>,
    first: Entry,
    /// User bytes.
    bytes: u64,
    /// Bytes, chunk headers included.
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
        // An association has one form of header.
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

    /// A sending half that gives messages of one to three bytes, and sends all it has.
    struct Sender {
        half: SendHalf,
        given: u64,
        rng: Rng,
        /// Some messages may be given up.
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

        /// Some are marked as lost, some as acknowledged by gap blocks.
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

        /// What is still outstanding, with its bytes.
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

    /// Whether one SACK acknowledges everything or many do, all that can be seen is the same; and
    /// what is sent while memory is still owed comes out right.
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
