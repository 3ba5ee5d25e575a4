//! Decides which segment to send next, or records why none can be sent.
//!
//! Chooses between retransmissions, new data and probes, within the limits of the congestion window, the peer's window,
//! pacing and bursts. Builds no segments. Also records the segments that were sent.
//!
//! Implements RFC 9293 §3.8.6.2.1 (SWS avoidance of the sender), §3.7.4 (Nagle) and §3.8.6.1 (probing a closed window),
//! RFC 6675 §4 (NextSeg) and RFC 8985 §7.3.

use super::{Phase, Refusal, SendHalf};
use crate::config::{Fin, Nagle, RttSampling, WindowProbe};
use anabranch_base::Instant;
use anabranch_base::trace::{Limit, SendCause};
use anabranch_congestion::Controller;
use std::ops::Range;

/// The content of the segment to send next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SelectedSegment {
    /// The range of stream positions, including that of the FIN if the segment has one.
    pub(crate) range: Range<u64>,
    pub(crate) cause: SendCause,
    /// RFC 6675 NextSeg rule 4: whether this is a rescue retransmission.
    rescue: bool,
    /// RFC 8985 §7.3: whether this is a tail loss probe, which ignores the congestion window.
    probe: bool,
}

impl SendHalf {
    /// Returns the segment to send next. If there is none, sets `limit` to the reason.
    pub(crate) fn choose(&mut self) -> Option<SelectedSegment> {
        let waits = self.refusal == Refusal::Waits;
        if waits || self.burst_left == 0 && self.scoreboard.flight() > 0 {
            self.limit = Limit::Pacing;
            return None;
        }
        if self.rack_tlp.as_ref().is_some_and(|rack_tlp| rack_tlp.probe_due) {
            return self.choose_probe();
        }
        let phase = self.recovery.phase();
        let room = self.room();
        let cause = if phase == Phase::Timeout { SendCause::Timeout } else { SendCause::Fast };
        if let Some(range) = self.scoreboard.next_lost(self.mss)
            && (phase != Phase::Open || self.too_big)
        {
            let fits = room >= (range.end - range.start) as i64 || self.scoreboard.pipe() == 0;
            if fits || self.recovery.is_urgent() {
                return Some(SelectedSegment { range, cause, rescue: false, probe: false });
            }
            self.limit = if phase == Phase::Timeout { Limit::Timeout } else { Limit::Recovery };
            return None;
        }
        self.too_big = false;
        let new = self.choose_new(room);
        if new.is_some() || phase != Phase::Fast || !self.recovery.by_sack() || self.rack_tlp.is_some() {
            return new;
        }
        self.choose_unconfirmed(room)
    }

    /// Returns whether [`choose`](Self::choose) would consider only new data. True if there is nothing to retransmit or
    /// probe, and neither pacing nor a burst limit applies.
    #[inline(always)]
    fn is_untroubled(&self) -> bool {
        self.recovery.phase() == Phase::Open
            && !self.scoreboard.has_missing()
            && !self.too_big
            && self.burst_left > 0
            && self.refusal == Refusal::None
            && self.pacer.is_none()
            && self.rack_tlp.as_ref().is_none_or(|rack_tlp| !rack_tlp.probe_due)
    }

    /// Returns true if the unsent data fills a segment and the peer's window has room for this segment.
    #[inline(always)]
    fn has_full(&self) -> bool {
        let next = self.scoreboard.next();
        let (data, window) = (self.buffer.end().saturating_sub(next), self.edge.saturating_sub(next));
        data.min(window) >= self.mss && !self.finished
    }

    /// Like [`choose`](Self::choose), but returns only a full segment of new data. If another segment or none must be
    /// sent, returns `None`.
    #[inline(always)]
    pub(crate) fn choose_full(&self) -> Option<SelectedSegment> {
        if !self.is_untroubled() || !self.has_full() || self.room() < self.mss as i64 {
            return None;
        }
        let next = self.scoreboard.next();
        Some(SelectedSegment {
            range: next..next + self.mss,
            cause: SendCause::New,
            rescue: false,
            probe: false,
        })
    }

    /// Returns whether a full segment waits for room in the congestion window. If so, records the same state that
    /// [`choose`](Self::choose) would record.
    #[inline(always)]
    pub(crate) fn is_held_back(&mut self) -> bool {
        let full = self.is_untroubled() && self.has_full() && self.scoreboard.flight() > 0;
        if !full || self.room() >= self.mss as i64 {
            return false;
        }
        self.limit = Limit::Congestion;
        self.limited_until = self.scoreboard.next();
        self.record_usage(true);
        true
    }

    /// Returns whether [`choose`](Self::choose) would find no data to send. If so, records the same state that `choose`
    /// would record.
    #[inline(always)]
    pub(crate) fn has_nothing(&mut self) -> bool {
        if !self.is_untroubled() || self.has_unsent() {
            return false;
        }
        self.limit = Limit::Application;
        true
    }

    /// Returns the unused part of the congestion window in bytes.
    #[inline(always)]
    pub(super) fn room(&self) -> i64 {
        self.recovery.room(self.controller.window(), self.mss, &self.scoreboard)
    }

    /// RFC 6675 §4, NextSeg rules 3 and 4: chooses data to retransmit that is not known to be lost.
    fn choose_unconfirmed(&mut self, room: i64) -> Option<SelectedSegment> {
        if room <= 0 {
            return None;
        }
        let cause = SendCause::Fast;
        if let Some(range) = self.scoreboard.next_unsacked(self.mss) {
            return (room >= (range.end - range.start) as i64).then_some(SelectedSegment {
                range,
                cause,
                rescue: false,
                probe: false,
            });
        }
        let range = self.scoreboard.last_unsacked(self.mss)?;
        if !self.recovery.may_rescue(self.scoreboard.una(), range.end) {
            return None;
        }
        (room >= (range.end - range.start) as i64).then_some(SelectedSegment {
            range,
            cause,
            rescue: true,
            probe: false,
        })
    }

    /// RFC 8985 §7.3: chooses new data if it is available and the peer's window allows it. Otherwise chooses the last
    /// outstanding segment that is not SACKed.
    fn choose_probe(&mut self) -> Option<SelectedSegment> {
        let room = self.mss as i64;
        if let Some(new) = self.choose_new(room) {
            return Some(SelectedSegment { probe: true, ..new });
        }
        let range = self.scoreboard.last_unsacked(self.mss);
        if range.is_none() {
            // The last outstanding segment has already been retransmitted, so no probe is sent.
            self.forget_probe();
        }
        range.map(|range| SelectedSegment { range, cause: SendCause::Fast, rescue: false, probe: true })
    }

    fn choose_new(&mut self, room: i64) -> Option<SelectedSegment> {
        let (next, end) = (self.scoreboard.next(), self.end());
        if next >= end {
            self.limit = Limit::Application;
            if self.reported.is_some() {
                self.controller.on_application_limited();
            }
            return None;
        }
        let blocked = match self.recovery.phase() {
            Phase::Open => Limit::Congestion,
            Phase::Fast => Limit::Recovery,
            Phase::Timeout => Limit::Timeout,
        };
        let data = self.buffer.end().saturating_sub(next);
        let window = self.edge.saturating_sub(next);
        let length = data.min(self.mss).min(window);
        if length == 0 && data > 0 {
            self.limit = Limit::Receiver;
            self.record_usage(false);
            return None;
        }
        let idle = self.scoreboard.flight() == 0;
        if room < length as i64 && !(idle && room > 0) {
            self.limit = blocked;
            self.limited_until = next;
            self.record_usage(true);
            return None;
        }
        let last = length == data;
        // RFC 9293 §3.8.6.2.1: a segment is sent only if it is full, has all remaining data (if Nagle permits), or has
        // at least half the peer's largest window.
        let worthwhile = length == self.mss
            || (last && (idle || self.finished || !self.waits_as_small()))
            || (length > 0 && (length >= self.largest_window / 2 || self.fills_window));
        self.fills_window = false;
        if !worthwhile {
            self.limit = if last { Limit::Pacing } else { Limit::Receiver };
            return None;
        }
        let fin = last && self.finished && (length == 0 || !self.fin_alone);
        Some(SelectedSegment {
            range: next..next + length + u64::from(fin),
            cause: SendCause::New,
            rescue: false,
            probe: false,
        })
    }

    /// Records that the application will write no more data, and decides which segment carries the FIN.
    pub(crate) fn finish(&mut self) {
        self.fin_alone = match self.fin {
            Fin::Data => false,
            Fin::Alone => true,
            Fin::Waiting => !self.must_last_segment_wait(),
        };
        self.finished = true;
    }

    /// Returns whether the last segment of unsent data has to wait. Data that the application has just written, and
    /// that may be sent at once, does not wait. In a recovery, all unsent data waits.
    fn must_last_segment_wait(&self) -> bool {
        let next = self.scoreboard.next();
        let data = self.buffer.end().saturating_sub(next);
        if data == 0 {
            return false;
        }
        let (idle, room) = (self.scoreboard.flight() == 0, self.room());
        let has_room = room >= data as i64 || (idle && room > 0 && data <= self.mss);
        let is_in_window = data <= self.edge.saturating_sub(next);
        // RFC 9293 §3.8.6.2.1 and §3.7.4, as in `choose_new`.
        let small = data % self.mss;
        let is_first = idle && small == data;
        let waits_as_small =
            small > 0 && !is_first && small < self.largest_window / 2 && self.waits_as_small();
        !self.is_untroubled() || !has_room || !is_in_window || waits_as_small
    }

    /// RFC 9293 §3.7.4: returns whether a small segment must wait until the data in flight is acknowledged. In
    /// Minshall's variant it waits only for an earlier small segment.
    fn waits_as_small(&self) -> bool {
        match self.nagle {
            Nagle::No => false,
            Nagle::Yes => true,
            Nagle::Minshall => self.small_until > self.scoreboard.una(),
        }
    }

    /// Records that the chosen segment was sent.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, now: Instant, choice: &SelectedSegment, stamp: Option<u32>) {
        let length = choice.range.end - choice.range.start;
        // If the congestion window is counted in segments, each segment counts as a full segment.
        let counted = if self.usage.is_some() { self.mss } else { length };
        self.last_sent = Some(now);
        if self.refusal == Refusal::TriesOne {
            self.refusal = Refusal::Waits;
        }
        self.burst_left = self.burst_left.saturating_sub(1);
        self.controller.on_sent(now, length);
        if let Some(pacer) = &mut self.pacer {
            let (window, threshold) = (self.controller.window(), self.controller.ssthresh());
            match self.controller.pacing_rate() {
                Some(rate) => pacer.on_sent_at_rate(now, length, rate, self.mss),
                None => pacer.on_sent(now, length, window, self.mss, window < threshold, self.rtt.smoothed()),
            }
        }
        if choice.cause == SendCause::New {
            self.scoreboard.push(choice.range.end, now);
            if self.usage.is_some() && !self.has_unsent() {
                self.record_usage(false);
            }
            if length < self.mss {
                self.small_until = choice.range.end;
            }
            self.recovery.on_sent(counted);
            if self.sampling == RttSampling::Once && self.timed.is_none() {
                self.timed = Some((choice.range.end, now));
            }
            if choice.probe {
                self.record_probe(false);
            }
            return;
        }
        self.scoreboard.record_retransmission(&choice.range, now);
        if choice.probe {
            self.recovery.on_probed(counted);
            self.record_probe(true);
        } else {
            self.recovery.on_retransmitted(stamp, counted);
            self.record_retransmission(choice.range.start, now);
            self.record_for_fack(choice.range.start, now);
        }
        // Karn's algorithm: a retransmission is not timed.
        self.timed = None;
        if choice.rescue {
            self.recovery.on_rescued();
        }
    }

    /// Returns whether sending the chosen segment restarts the retransmission timer: it retransmits the oldest data in
    /// flight, and losses are found by SACK. Without SACK, RFC 6582 §4 says when the timer is restarted.
    pub(crate) fn restarts_timer(&self, choice: &SelectedSegment) -> bool {
        choice.cause != SendCause::New
            && choice.range.start <= self.scoreboard.una()
            && self.recovery.by_sack()
    }

    /// Returns the time until which pacing delays the chosen segment, or `None` if it may be sent now.
    #[inline]
    pub(crate) fn held_until(&mut self, now: Instant, choice: &SelectedSegment) -> Option<Instant> {
        let at = self.pacer.as_ref()?.ready_at();
        if at <= now || choice.probe {
            return None;
        }
        self.limit = Limit::Pacing;
        // RFC 9002 §7.8: a sender that is limited by pacing still counts as fully using its window.
        self.limited_until = self.scoreboard.next();
        Some(at)
    }

    /// Returns whether nothing is in flight, no data waits to be sent, and the last call of [`choose`](Self::choose)
    /// found no data to send.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.scoreboard.flight() == 0
            && !self.has_unsent()
            && self.limit == Limit::Application
            && !self.too_big
    }

    /// Returns whether the peer's window prevents sending: data waits and nothing is in flight, so no acknowledgement
    /// is expected that could open the window.
    pub(crate) fn is_shut_out(&self) -> bool {
        self.has_unsent() && self.scoreboard.flight() == 0 && self.limit == Limit::Receiver
    }

    /// Allows a segment that is as small as the peer's window. Returns false if the window is closed.
    pub(crate) fn fill_window(&mut self) -> bool {
        self.fills_window = self.edge > self.scoreboard.next() && self.buffer.end() > self.scoreboard.next();
        self.fills_window
    }

    /// RFC 9293 §3.8.6.1: returns the range of data that a window probe carries. This is nothing for an empty probe.
    /// Otherwise it is the data that the peer's window still allows, or one byte if the window is closed.
    pub(crate) fn probe(&mut self, kind: WindowProbe) -> Option<Range<u64>> {
        let next = self.scoreboard.next();
        let data = self.buffer.end().saturating_sub(next);
        if data == 0 {
            return None;
        }
        if kind == WindowProbe::Empty {
            return Some(next..next);
        }
        let window = self.edge.saturating_sub(next);
        let length = window.min(data).min(self.mss).max(1);
        self.probed_until = self.probed_until.max(next + length);
        Some(next..next + length)
    }
}
