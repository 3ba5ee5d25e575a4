//! Asks the peer to skip abandoned chunks.
//!
//! Owns the Advanced.Peer.Ack.Point and the state of the last FORWARD TSN. The module [`abandon`](super::abandon)
//! decides which messages are abandoned. The timers belong to the association.
//!
//! Implements RFC 3758 §3.5 (A5, C1 – C5, F2) and RFC 8260 §2.3.1 (the sender's half).

use super::SendHalf;
use super::outstanding::{ChunkState, Outstanding};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::sctp::{ForwardTsn, IForwardTsn, Skipped, SkippedMessage, Ssn, Tsn};
use std::collections::{BTreeMap, VecDeque};

/// The Advanced.Peer.Ack.Point, and the FORWARD TSNs that were sent for it.
#[derive(Debug, Default)]
pub(super) struct AckPoint {
    /// The TSN after the Advanced.Peer.Ack.Point, as an offset from the initial TSN.
    advanced: u64,
    /// The TSN after the New Cumulative TSN in the last FORWARD TSN, as an offset from the initial TSN. That FORWARD
    /// TSN was sent at `last_sent_at`.
    last_sent: u64,
    last_sent_at: Instant,
    /// The path that the last FORWARD TSN was sent to.
    last_path: usize,
    /// The FORWARD TSNs that skip chunks not yet cumulatively acknowledged, in ascending order. Each entry holds the
    /// TSN after the last skipped chunk (as an offset from the initial TSN), and the time at which the skip was first
    /// requested.
    sent_forwards: VecDeque<(u64, Instant)>,
    /// Number of T3-rtx expirations since a FORWARD TSN that skips the chunk at `unanswered_at` was sent.
    unanswered: u32,
    unanswered_at: u64,
    /// Whether the last FORWARD TSN had room for only some of the streams. The next FORWARD TSN lists the others, after
    /// the peer has acknowledged the last one.
    is_truncated: bool,
    /// Whether a FORWARD TSN is to be sent.
    send_pending: bool,
}

impl AckPoint {
    /// Creates the initial state, in which no message is abandoned. `base` is the TSN offset of the lowest outstanding
    /// chunk.
    pub(super) fn beginning_at(base: u64) -> Self {
        Self { advanced: base, last_sent: base, ..Self::default() }
    }

    /// Returns whether the peer has not yet acknowledged all chunks up to the Advanced.Peer.Ack.Point.
    fn is_pending(&self, base: u64) -> bool {
        self.advanced > base
    }

    /// RFC 3758 §3.5 C1, C2: advances the Advanced.Peer.Ack.Point over abandoned chunks.
    fn advance(&mut self, outstanding: &Outstanding) {
        let base = outstanding.base();
        self.advanced = self.advanced.max(base);
        while outstanding.get(self.advanced).is_some_and(|entry| entry.state == ChunkState::Abandoned) {
            self.advanced += 1;
        }
        self.is_truncated &= self.last_sent > base;
        // RFC 3758 §3.5 C3: a new FORWARD TSN is sent if the Advanced.Peer.Ack.Point has moved since the last FORWARD
        // TSN.
        self.send_pending |= self.advanced > self.last_sent.max(base) && !self.is_truncated;
        self.send_pending &= self.advanced > base;
    }

    /// RFC 3758 §3.5 A5: schedules the FORWARD TSN again after T3-rtx has expired.
    fn schedule_forward_tsn_retransmit(&mut self, base: u64) {
        self.send_pending |= self.is_pending(base);
        if std::mem::replace(&mut self.unanswered_at, base) != base {
            self.unanswered = 0;
        }
        if self.last_sent > base {
            self.unanswered = self.unanswered.saturating_add(1);
        }
    }

    /// Returns true if a FORWARD TSN that skips all outstanding chunks was sent, and T3-rtx has expired at least
    /// `times` times since then.
    fn is_unanswered_over(&self, outstanding: &Outstanding, times: u32) -> bool {
        let all = self.advanced == outstanding.end() && self.last_sent == outstanding.end();
        all && (times == 0 || self.unanswered_at == outstanding.base() && self.unanswered >= times)
    }

    /// Records that a FORWARD TSN, which skips all chunks below TSN offset `point`, was sent on the path with the index
    /// `path`.
    fn record_sent(&mut self, now: Instant, base: u64, point: u64, path: usize) {
        self.is_truncated = point < self.advanced;
        (self.last_sent, self.last_sent_at, self.last_path) = (point, now, path);
        self.forget_announced(base);
        if self.sent_forwards.back().is_none_or(|&(announced, _)| announced < point) {
            self.sent_forwards.push_back((point, now));
        }
        self.send_pending = false;
    }

    /// Drops the records of FORWARD TSNs that skip only chunks below `base`.
    fn forget_announced(&mut self, base: u64) {
        while self.sent_forwards.front().is_some_and(|&(point, _)| point <= base) {
            self.sent_forwards.pop_front();
        }
    }
}

impl SendHalf {
    /// Returns whether a FORWARD TSN is to be sent.
    #[inline]
    pub(crate) fn wants_forward(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.point.send_pending)
    }

    /// Returns whether a FORWARD TSN is to be sent, or was sent and is not yet acknowledged.
    pub(crate) fn awaits_forward_answer(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.point.is_pending(self.outstanding.base()))
    }

    /// Returns the path to which the last FORWARD TSN was sent. `None` if no message of the association was ever
    /// allowed to be abandoned.
    pub(crate) fn forward_path(&self) -> Option<usize> {
        self.limits.as_ref().map(|limits| limits.point.last_path)
    }

    /// Returns the time at which the peer was first asked to skip the chunk at `offset`.
    pub(crate) fn announced_at(&self, offset: u64) -> Option<Instant> {
        let announced = &self.limits.as_ref()?.point.sent_forwards;
        announced.get(announced.partition_point(|&(point, _)| point <= offset)).map(|&(_, at)| at)
    }

    /// Drops the record of each FORWARD TSN if all chunks that it skips have been cumulatively acknowledged.
    pub(crate) fn forget_announced(&mut self) {
        let base = self.outstanding.base();
        if let Some(limits) = &mut self.limits {
            limits.point.forget_announced(base);
        }
    }

    /// RFC 3758 §3.5 C3, F2: repeats a FORWARD TSN that was not acknowledged within a round trip.
    pub(crate) fn repeat_forward(&mut self, now: Instant, round_trip: Duration) {
        let base = self.outstanding.base();
        if let Some(point) = self.limits.as_mut().map(|limits| &mut limits.point) {
            point.send_pending |=
                point.is_pending(base) && point.last_sent > base && now >= point.last_sent_at + round_trip;
        }
    }

    /// RFC 3758 §3.5 A5: schedules the FORWARD TSN again after T3-rtx has expired.
    pub(super) fn schedule_forward_tsn_retransmit(&mut self) {
        let base = self.outstanding.base();
        if let Some(limits) = &mut self.limits {
            limits.point.schedule_forward_tsn_retransmit(base);
        }
    }

    /// RFC 3758 §3.5 C1, C2: advances the Advanced.Peer.Ack.Point over abandoned chunks.
    pub(super) fn advance(&mut self) {
        if let Some(limits) = &mut self.limits {
            limits.point.advance(&self.outstanding);
        }
    }

    /// Returns true if a shutdown need not wait any longer for abandoned chunks. This requires that no data waits to be
    /// sent, and that all unacknowledged chunks were abandoned (RFC 3758 §3.5 A2). In addition, T3-rtx must have
    /// expired at least `times` times since the FORWARD TSN that skips these chunks was sent.
    pub(crate) fn is_given_up(&self, times: u32) -> bool {
        self.queue.unsent_bytes() == 0
            && self.limits.as_ref().is_some_and(|l| l.point.is_unanswered_over(&self.outstanding, times))
    }

    /// Writes a FORWARD TSN of at most `room` bytes for `path`. With interleaving, writes an I-FORWARD-TSN instead.
    /// Returns false if not even the smallest chunk of this type fits.
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
        // RFC 6525 §5.2.2: a FORWARD TSN must not list sequence numbers from before a reset together with numbers from
        // after it. The peer would mistake the earlier numbers for numbers after the reset.
        let fence = self.resets.iter().copied().find(|&at| at > base).unwrap_or(u64::MAX);
        while point < limits.point.advanced.min(fence) {
            let Some(entry) = self.outstanding.get(point) else {
                break;
            };
            if last != Some(entry.message) {
                last = Some(entry.message);
                let stored = self.queue.message(entry.message);
                // RFC 3758 §3.5 C4: lists the highest sequence number of each stream. Without interleaving, unordered
                // messages have no sequence number.
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
        limits.point.record_sent(now, base, point, path);
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
