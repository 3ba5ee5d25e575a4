//! Telling the peer not to wait for what was given up.
//!
//! Owns the Advanced.Peer.Ack.Point and what was last said of it. What was given up is [`abandon`](super::abandon)'s to
//! know; timers are the association's.
//!
//! Home of RFC 3758 §3.5 (A5, C1 – C5, F2) and RFC 8260 §2.3.1 (the sender's half).

use super::SendHalf;
use super::outstanding::{ChunkState, Outstanding};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::sctp::{ForwardTsn, IForwardTsn, Skipped, SkippedMessage, Ssn, Tsn};
use std::collections::{BTreeMap, VecDeque};

/// How far the peer is to skip, and what it was told.
#[derive(Debug, Default)]
pub(super) struct AckPoint {
    /// One past the Advanced.Peer.Ack.Point.
    advanced: u64,
    /// One past what the last FORWARD TSN said, and when.
    said: u64,
    said_at: Instant,
    /// Where it went.
    said_to: usize,
    /// Up to where FORWARD TSNs have said it, ascending, each with the time at which it was first said.
    told: VecDeque<(u64, Instant)>,
    /// How often T3-rtx has run out since it was said over the chunk at this offset.
    unanswered: u32,
    unanswered_at: u64,
    /// It did not hold all: the rest waits until it is acknowledged.
    cut_off: bool,
    /// A FORWARD TSN is to be sent.
    wanted: bool,
}

impl AckPoint {
    /// Nothing was given up yet; `base` is the offset of the lowest outstanding chunk.
    pub(super) fn beginning_at(base: u64) -> Self {
        Self { advanced: base, said: base, ..Self::default() }
    }

    /// The peer has yet to answer a FORWARD TSN.
    fn is_pending(&self, base: u64) -> bool {
        self.advanced > base
    }

    /// RFC 3758 §3.5 C1, C2.
    fn advance(&mut self, outstanding: &Outstanding) {
        let base = outstanding.base();
        self.advanced = self.advanced.max(base);
        while outstanding.get(self.advanced).is_some_and(|entry| entry.state == ChunkState::Abandoned) {
            self.advanced += 1;
        }
        self.cut_off &= self.said > base;
        // C3: it lies beyond what was said of it.
        self.wanted |= self.advanced > self.said.max(base) && !self.cut_off;
        self.wanted &= self.advanced > base;
    }

    /// RFC 3758 §3.5 A5: T3-rtx has run out.
    fn announce_again(&mut self, base: u64) {
        self.wanted |= self.is_pending(base);
        if std::mem::replace(&mut self.unanswered_at, base) != base {
            self.unanswered = 0;
        }
        if self.said > base {
            self.unanswered = self.unanswered.saturating_add(1);
        }
    }

    /// T3-rtx has run out `times` times while a FORWARD TSN was out that skips all there is.
    fn is_unanswered_over(&self, outstanding: &Outstanding, times: u32) -> bool {
        let all = self.advanced == outstanding.end() && self.said == outstanding.end();
        all && (times == 0 || self.unanswered_at == outstanding.base() && self.unanswered >= times)
    }

    /// A FORWARD TSN to a path has said it up to `point`.
    fn record_said(&mut self, now: Instant, base: u64, point: u64, path: usize) {
        self.cut_off = point < self.advanced;
        (self.said, self.said_at, self.said_to) = (point, now, path);
        self.forget_told(base);
        if self.told.back().is_none_or(|&(told, _)| told < point) {
            self.told.push_back((point, now));
        }
        self.wanted = false;
    }

    /// What was told of chunks below `base` matters no longer.
    fn forget_told(&mut self, base: u64) {
        while self.told.front().is_some_and(|&(point, _)| point <= base) {
            self.told.pop_front();
        }
    }
}

impl SendHalf {
    /// A FORWARD TSN is to be sent.
    #[inline]
    pub(crate) fn wants_forward(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.point.wanted)
    }

    /// The peer has yet to answer a FORWARD TSN, or to be sent it.
    pub(crate) fn awaits_forward_answer(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.point.is_pending(self.outstanding.base()))
    }

    /// Where the last FORWARD TSN went, once messages may be given up.
    pub(crate) fn forward_path(&self) -> Option<usize> {
        self.limits.as_ref().map(|limits| limits.point.said_to)
    }

    /// When the peer was first told to skip a chunk.
    pub(crate) fn announced_at(&self, offset: u64) -> Option<Instant> {
        let told = &self.limits.as_ref()?.point.told;
        told.get(told.partition_point(|&(point, _)| point <= offset)).map(|&(_, at)| at)
    }

    /// What the peer was told of chunks that are acknowledged for good matters no longer.
    pub(crate) fn forget_told(&mut self) {
        let base = self.outstanding.base();
        if let Some(limits) = &mut self.limits {
            limits.point.forget_told(base);
        }
    }

    /// RFC 3758 §3.5 C3, F2: a FORWARD TSN is said again when it was not answered within a round trip.
    pub(crate) fn repeat_forward(&mut self, now: Instant, round_trip: Duration) {
        let base = self.outstanding.base();
        if let Some(point) = self.limits.as_mut().map(|limits| &mut limits.point) {
            point.wanted |= point.is_pending(base) && point.said > base && now >= point.said_at + round_trip;
        }
    }

    /// RFC 3758 §3.5 A5: T3-rtx has run out: a FORWARD TSN is retransmitted.
    pub(super) fn announce_again(&mut self) {
        let base = self.outstanding.base();
        if let Some(limits) = &mut self.limits {
            limits.point.announce_again(base);
        }
    }

    /// RFC 3758 §3.5 C1, C2: the Advanced.Peer.Ack.Point.
    pub(super) fn advance(&mut self) {
        if let Some(limits) = &mut self.limits {
            limits.point.advance(&self.outstanding);
        }
    }

    /// Nothing is waiting, and all that is unacknowledged was given up (RFC 3758 §3.5 A2: finally acked); the peer has
    /// been told so, and T3-rtx has run out `times` times since.
    pub(crate) fn is_given_up(&self, times: u32) -> bool {
        self.queue.unsent_bytes() == 0
            && self.limits.as_ref().is_some_and(|l| l.point.is_unanswered_over(&self.outstanding, times))
    }

    /// Appends a FORWARD TSN, or with interleaving an I-FORWARD-TSN, of at most
    /// `room` bytes, that goes to `path`; false when not even the least fits.
    #[cold]
    pub(crate) fn write_forward(
        &mut self,
        now: Instant,
        interleaving: bool,
        path: usize,
        buffer: &mut Vec<u8>,
        room: usize,
    ) -> bool {
        let base = self.outstanding.base();
        let Some(limits) = &mut self.limits else {
            return false;
        };
        let each = if interleaving { IForwardTsn::EACH } else { ForwardTsn::EACH };
        if room < ForwardTsn::FIXED + each {
            return false;
        }
        let most = (room - ForwardTsn::FIXED) / each;
        let mut streams = BTreeMap::new();
        let mut point = base;
        let mut last = None;
        // RFC 6525 §5.2.2: the numbers of what was sent before a reset are said on their own, or they
        // would be taken for those that come after it.
        let fence = self.resets.iter().copied().find(|&at| at > base).unwrap_or(u64::MAX);
        while point < limits.point.advanced.min(fence) {
            let Some(entry) = self.outstanding.get(point) else {
                break;
            };
            if last != Some(entry.message) {
                last = Some(entry.message);
                let stored = self.queue.message(entry.message);
                // C4: the highest number of each stream; without interleaving unordered messages
                // have none.
                if interleaving || !stored.unordered {
                    let name = (stored.stream, stored.unordered);
                    if streams.len() == most && !streams.contains_key(&name) {
                        break;
                    }
                    streams.insert(name, stored.mid);
                }
            }
            point += 1;
        }
        limits.point.record_said(now, base, point, path);
        let cumulative = Tsn(self.outstanding.tsn(point).wrapping_sub(1));
        let skipped = streams.into_iter();
        if interleaving {
            let skipped = skipped.map(|((stream, unordered), mid)| SkippedMessage { stream, unordered, mid });
            IForwardTsn::write(buffer, cumulative, skipped);
        } else {
            let skipped = skipped.map(|((stream, _), mid)| Skipped { stream, ssn: Ssn(mid as u16) });
            ForwardTsn::write(buffer, cumulative, skipped);
        }
        true
    }
}
