//! Partial reliability: handles a received FORWARD TSN, and updates paths and timers when messages are abandoned.
//!
//! Implements RFC 3758 §3.3 (when partial reliability may be used) and §3.5 (C5: timers).

use super::inbound::PacketMeta;
use super::timers::Timer;
use super::{Association, Ctx};
use crate::event::{CloseReason, Event};
use crate::path::loss_control::LONGEST_ACK_DELAY;
use crate::recv::Violation;
use crate::recv::forward::Forwarded;
use crate::reliability::{Abandoned, Policy};
use crate::send::sack_outcome::Skip;
use anabranch_base::Instant;
use anabranch_wire::sctp::{Cause, Chunk, IForwardTsn, RawChunk};

impl Association {
    /// Handles a FORWARD TSN or I-FORWARD-TSN.
    pub(super) fn on_forward_tsn(&mut self, ctx: &mut Ctx<'_>, raw: RawChunk<'_>, arrived: &PacketMeta) {
        if !self.extensions.agreed.partial_reliability {
            // RFC 3758 §3.3.1: partial reliability was not agreed on, so the FORWARD TSN is treated as an unrecognized
            // chunk.
            self.report(arrived.path, &Cause::UnrecognizedChunk(raw.bytes));
            return;
        }
        // RFC 8260 §2.3.1: FORWARD TSN is used with DATA, I-FORWARD-TSN with I-DATA.
        if (raw.kind == IForwardTsn::KIND) != self.extensions.agreed.interleaving {
            self.violated(ctx, "RFC 8260 2.3.1: FORWARD TSN goes with DATA, I-FORWARD-TSN with I-DATA");
            return;
        }
        if !self.state.may_receive_data() {
            return;
        }
        // RFC 6525 §5.1.4: a TSN reset is pending. The skipped TSNs may already belong to the numbering after the
        // reset, so the chunk is refused.
        if self.extensions.reconfig.is_some() && self.may_be_renumbered() {
            return self.refuse_early(ctx.now, arrived);
        }
        let chunk = Chunk::parse(raw);
        let cumulative = match &chunk {
            Ok(Chunk::ForwardTsn(forward)) => Some(forward.cumulative),
            Ok(Chunk::IForwardTsn(forward)) => Some(forward.cumulative),
            _ => None,
        };
        // RFC 6525 §5.2.4 G1: the TSNs before and after the reset are 2^31 apart. A delayed FORWARD TSN from before the
        // reset would skip that many TSNs, so it is ignored.
        let far = cumulative.is_some_and(|cumulative| self.recv.beyond(cumulative.0) > 1 << 30);
        if far && self.was_renumbered_recently(ctx.now) {
            self.stats.rare_mut().duplicates_received += 1;
            return;
        }
        let forwarded = match chunk {
            Ok(Chunk::ForwardTsn(forward)) => self.recv.on_forward(forward.cumulative, forward.streams()),
            Ok(Chunk::IForwardTsn(forward)) => self.recv.on_iforward(forward.cumulative, forward.streams()),
            _ => Err(Violation("3.3: a chunk does not have the form of its type")),
        };
        match forwarded {
            Ok(Forwarded::New) => {}
            Ok(Forwarded::Old) => self.stats.rare_mut().duplicates_received += 1,
            Err(violation) => self.violated(ctx, violation.0),
        }
    }

    /// RFC 3758 §3.3.3: handles a peer that announced FORWARD TSN but now reports it as unrecognized. From now on, a
    /// partly sent message is never abandoned. If chunks were abandoned earlier, the association is aborted, because
    /// these chunks can be neither sent nor skipped.
    #[cold]
    pub(super) fn on_forward_tsn_unrecognized(&mut self, ctx: &mut Ctx<'_>) {
        if !self.extensions.agreed.partial_reliability {
            return;
        }
        self.extensions.agreed.partial_reliability = false;
        if self.send.has_abandoned() {
            let reason =
                CloseReason::PeerIncompatible("RFC 3758 3.3.3: the peer knows no FORWARD TSN after all");
            self.abort_with(
                ctx,
                &Cause::ProtocolViolation(b"RFC 3758 3.3.3: FORWARD TSN was agreed on"),
                reason,
            );
        }
    }

    /// Returns whether a FORWARD TSN has to be sent now.
    #[inline]
    pub(super) fn forward_wanted(&self) -> bool {
        self.send.wants_forward() && self.state.may_send_data()
    }

    /// Appends a FORWARD TSN, if one is due and path `index` is the current path.
    pub(super) fn write_forward(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
    ) {
        if !self.forward_wanted() || index != self.paths.current() {
            return;
        }
        let room = end.saturating_sub(buffer.len());
        if self.send.write_forward(ctx.now, self.extensions.agreed.interleaving, index, buffer, room) {
            self.guard_forward(ctx.now);
        }
    }

    /// RFC 3758 §3.5 C5: ensures that a T3-rtx runs while a FORWARD TSN is unanswered. Once it is answered, stops the
    /// T3-rtx of each path that has no chunk in flight.
    fn guard_forward(&mut self, now: Instant) {
        let pending = self.send.awaits_forward_answer();
        let running = (0..self.paths.len()).filter(|&index| self.timers.is_set(Timer::T3Rtx(index))).count();
        if pending && running == 0 && self.state.may_send_data() {
            let index = self.paths.current();
            self.timers.set(Timer::T3Rtx(index), now + self.paths.get(index).rto());
        }
        if !pending && running > 0 {
            for index in 0..self.paths.len() {
                if self.paths.get(index).flight() == 0 {
                    self.timers.stop(Timer::T3Rtx(index));
                }
            }
        }
    }

    /// Handles a SACK that arrives while a FORWARD TSN is unanswered. `skipped` is true if the SACK's cumulative TSN
    /// now covers abandoned chunks.
    #[cold]
    pub(super) fn on_forward_answered(&mut self, ctx: &mut Ctx<'_>, skipped: bool) {
        let Some(index) = self.send.forward_path() else {
            return;
        };
        let path = self.paths.at(index);
        self.send.repeat_forward(ctx.now, path.round_trip());
        if skipped {
            // RFC 9260 §8.1, §8.2: an answered FORWARD TSN proves that the path works, as acknowledged DATA does.
            let revived = path.on_path_proved(ctx.now);
            self.paths.clear_errors();
            if revived {
                self.on_path_up(ctx, index, true);
            }
        }
    }

    /// RFC 3758 §3.5 F5: reduces the congestion window for skipped chunks that were lost. The FORWARD TSN skipped these
    /// chunks before three miss indications or T3-rtx could detect the loss. Losses below the TSN offset
    /// `recovers_until` have already reduced the window.
    ///
    /// A SACK does not show whether a chunk arrived or was skipped. A chunk counts as skipped only if the SACK arrives
    /// at least half a round trip after the FORWARD TSN was sent. A skipped chunk counts as lost in any of three cases:
    /// - The peer had already acknowledged chunks that were sent later.
    /// - The acknowledgement of the chunk was overdue when the FORWARD TSN was sent.
    /// - The SACK covers more than two packets of skipped bytes. A receiver acknowledges at least every second packet
    ///   (RFC 9260 §6.2).
    #[cold]
    pub(super) fn reduce_window_for_skipped(
        &mut self,
        now: Instant,
        skips: &[Skip],
        recovers_until: Option<u64>,
    ) {
        let reduces = !self.send.is_recovering();
        let mut lost_on_any = false;
        for index in 0..self.paths.len() {
            let path = self.paths.get(index);
            let round_trip = path.round_trip();
            let (mut bytes, mut lost) = (0, false);
            for skip in skips.iter().filter(|skip| usize::from(skip.path) == index) {
                let announced = self.send.announced_at(skip.offset);
                let Some(announced) = announced.filter(|&announced| now >= announced + round_trip / 2) else {
                    continue;
                };
                if recovers_until.is_some_and(|until| skip.offset < until) {
                    continue;
                }
                bytes += skip.size;
                lost |= skip.missed || announced >= skip.sent_at + round_trip + LONGEST_ACK_DELAY;
            }
            lost |= bytes > 2 * path.chunk_limit() as u64;
            if lost && reduces {
                self.paths.at(index).add_to_flight(bytes);
                self.record_loss(now, index, bytes, true);
                lost_on_any = true;
            }
        }
        if lost_on_any {
            self.send.enter_recovery_of_skipped();
            self.stats.rare_mut().fast_recoveries += 1;
        }
        self.send.forget_announced();
    }

    /// Cancels all messages that the application has sent on a stream.
    pub(crate) fn cancel(&mut self, stream: u16) {
        self.send.cancel(stream, self.extensions.agreed.partial_reliability);
    }

    /// Abandons expired messages. Also emits the events that a stream's buffered amount has become low, and that an
    /// authentication key is no longer used. The caller must call this after every change of the association.
    #[inline]
    pub(crate) fn abandon_expired(&mut self, ctx: &mut Ctx<'_>) {
        self.send.reset_sack_work();
        self.emit_low(ctx);
        self.free_keys(ctx);
        if self.send.has_limits() {
            self.abandon_expired_now(ctx);
        }
    }

    #[cold]
    fn abandon_expired_now(&mut self, ctx: &mut Ctx<'_>) {
        if matches!(self.state, super::State::Closed) {
            return;
        }
        self.send.abandon_expired(ctx.now, self.extensions.agreed.partial_reliability);
        let given_up = self.send.take_given_up();
        for failed in &given_up.failed {
            match failed.sent {
                true => self.stats.rare_mut().abandoned_sent += 1,
                false => self.stats.rare_mut().abandoned_unsent += 1,
            }
            if ctx.events.len() < super::MAX_EVENTS {
                ctx.events.push_back(Event::Abandoned {
                    id: self.id,
                    stream: failed.stream,
                    ppid: failed.ppid,
                    context: failed.context,
                    bytes: failed.bytes,
                    unordered: failed.unordered,
                    policy: failed.policy,
                    sent: failed.sent,
                });
            }
        }
        if !given_up.paths.is_empty() {
            self.disregard(&given_up.paths);
        }
        self.guard_forward(ctx.now);
        if !given_up.failed.is_empty() {
            self.after_acknowledgement(ctx);
        }
        match self.send.next_expiry() {
            Some(at) => self.timers.set(Timer::Lifetime, at),
            None => self.timers.stop(Timer::Lifetime),
        }
    }

    /// Excludes abandoned chunks from the measurement of the round-trip time and from T3-rtx on their paths.
    fn disregard(&mut self, paths: &[u8]) {
        for index in 0..self.paths.len() {
            if !paths.iter().any(|&touched| usize::from(touched) == index) {
                continue;
            }
            let first = self.send.earliest_on(index).unwrap_or(self.send.end());
            self.paths.at(index).disregard(first, |offset| self.send.is_in_flight(offset));
        }
    }

    /// Returns the number of abandoned messages (RFC 7496 §4.3, §4.4).
    pub(crate) fn abandoned(&self, stream: Option<u16>, policy: Option<Policy>) -> Abandoned {
        self.send.abandoned(stream, policy)
    }
}
