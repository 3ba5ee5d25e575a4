//! How arriving segments, ICMP messages and expired timers change a connection.
//!
//! The functions here change state and mark segments as due; `output` builds the segments. The checks follow the order
//! of RFC 9293.
//!
//! Implements RFC 9293 §3.10.7.4, §3.9.2.2 (ICMP), §3.10.8 (timeouts), §3.8.3 (R2), and RFC 5961 §3 to §5 and §7. Also
//! implements RFC 7323 §5.3, RFC 3168 §6.1.3, and RFC 5927 §4.

use super::timers::Timer;
use super::{Connection, Outbox, Reply, State};
use crate::config::WindowProbe;
use crate::send::{Ack, AckOutcome, LossTimer};
use crate::{CloseReason, Event};
use anabranch_base::time::{Duration, nanos};
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Ecn, IcmpKind, Instant};
use anabranch_wire::tcp::{Flags, Segment, Seq, Timestamps};

impl Connection {
    /// Handles a segment of this connection on the slow path.
    #[inline(never)]
    pub(crate) fn on_segment(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        ecn: Ecn,
        tag: u64,
        out: &mut Outbox,
    ) {
        self.stats.segments_received += 1;
        self.send.begin_burst();
        self.send.forget_refusal();
        match self.state {
            State::SynSent => return self.on_segment_in_syn_sent(now, segment, out),
            State::Closed => return,
            _ => {}
        }
        let header = &segment.header;
        let flags = header.flags;
        if !self.passes_timestamps(now, segment) {
            return;
        }
        let start = self.peer_position(header.seq);
        let end = start + i64::from(segment.sequence_len());
        if !self.is_acceptable(now, segment, start, end) {
            return;
        }
        if let Some(stamps) = header.options.timestamps.filter(|_| self.options.timestamps)
            && start <= self.last_ack_sent as i64
        {
            self.options.remember(now, stamps);
        }
        if flags.has(Flags::RST) {
            return self.on_reset(now, start, out);
        }
        if flags.has(Flags::SYN) {
            if self.state == State::SynReceived && self.answers_our_syn(header) {
                // RFC 9293 §3.5, figure 7: the segment is the SYN-ACK of a simultaneous open. The peer's SYN was
                // processed earlier, and the SYN-ACK acknowledges our SYN.
                self.on_opened(now, header, out);
                self.recv.ack_scheduler.ack_now();
                return;
            }
            return self.on_syn_again(now, header.seq);
        }
        // RFC 9293 §3.10.7.4, fifth: a segment without ACK is dropped.
        if !flags.has(Flags::ACK) || !self.on_acknowledgement(now, segment, out) {
            return;
        }
        if self.state == State::Closed {
            return;
        }
        if self.options.ecn && self.state.receives() && !segment.payload.is_empty() {
            self.record_ecn(ecn, flags);
        }
        let ends = (flags.has(Flags::FIN), flags.has(Flags::PSH));
        self.take_data(now, (start, segment.payload, ends), tag, out);
    }

    /// RFC 7323 §5.3: returns whether the segment's timestamp is acceptable. If timestamps are negotiated, a timestamp
    /// must be present and not older than TS.Recent.
    #[inline]
    fn passes_timestamps(&mut self, now: Instant, segment: &Segment<'_>) -> bool {
        if !self.options.timestamps || segment.header.flags.has(Flags::RST) {
            return true;
        }
        match segment.header.options.timestamps {
            // RFC 7323 §3.2: a segment without the timestamp option is silently dropped, unless it is a SYN.
            None => segment.header.flags.has(Flags::SYN),
            Some(stamps) if self.options.is_outdated(now, stamps) => {
                self.stats.paws_discards += 1;
                self.recv.ack_scheduler.ack_now();
                false
            }
            Some(_) => true,
        }
    }

    /// First check of RFC 9293 §3.10.7.4: returns whether part of the segment lies in the receive window. A segment
    /// that starts exactly at the right edge is accepted: after a sender has filled the window, its pure ACKs start
    /// there.
    fn is_acceptable(&mut self, now: Instant, segment: &Segment<'_>, start: i64, end: i64) -> bool {
        let (next, edge) = (self.recv.next() as i64, self.recv.edge().max(self.recv.next()) as i64);
        if end >= next && start <= edge {
            return true;
        }
        if !segment.header.flags.has(Flags::RST) {
            if segment.payload.is_empty() {
                self.challenge(now);
            } else {
                self.stats.bytes_discarded += segment.payload.len() as u64;
                // RFC 2883 §4: data that had arrived before is reported as a duplicate.
                if end <= next && start >= 0 {
                    self.recv.on_old(start as u64..end as u64);
                }
                self.recv.ack_scheduler.ack_now();
            }
        }
        false
    }

    /// RFC 5961 §7: sends a challenge ACK in response to a segment that may be forged, unless the rate limit is
    /// reached.
    fn challenge(&mut self, now: Instant) {
        let (since, count) = self.challenges;
        if now.since(since) >= CHALLENGE_INTERVAL {
            self.challenges = (now, 1);
        } else if count < CHALLENGES {
            self.challenges = (since, count + 1);
        } else {
            return;
        }
        self.recv.ack_scheduler.ack_now();
    }

    /// Second check of RFC 9293 §3.10.7.4: accepts a reset only if its sequence number is exactly RCV.NXT
    /// (RFC 5961 §3.2).
    fn on_reset(&mut self, now: Instant, start: i64, out: &mut Outbox) {
        if start != self.recv.next() as i64 {
            return self.challenge(now);
        }
        match self.state {
            // RFC 1337 §3: a reset must not cut TIME-WAIT short.
            State::TimeWait => {}
            // RFC 9293 §3.10.7.4: both sides have sent a FIN and all our data is acknowledged. So the reset causes no
            // loss of data.
            State::Closing | State::LastAck if self.send.all_data_acked() => self.finish_early(now, out),
            State::SynReceived if !self.passive => self.fail(now, CloseReason::Refused, out),
            _ => self.fail(now, CloseReason::Reset, out),
        }
    }

    /// Fourth check of RFC 9293 §3.10.7.4: handles a SYN that arrives in any state except SYN-SENT (RFC 5961 §4.2).
    fn on_syn_again(&mut self, now: Instant, seq: Seq) {
        if self.state == State::SynReceived && seq == self.irs {
            // The peer repeats its SYN because it has not received our SYN-ACK, so the SYN-ACK is sent again.
            self.syn_due = self.syn_tries > 0;
        } else {
            self.challenge(now);
        }
    }

    /// Fifth check of RFC 9293 §3.10.7.4: processes the acknowledgement. Returns false if the segment must be dropped.
    fn on_acknowledgement(&mut self, now: Instant, segment: &Segment<'_>, out: &mut Outbox) -> bool {
        let header = &segment.header;
        let position = self.own_position(header.ack);
        if self.state == State::SynReceived {
            if position != 0 || self.syn_tries == 0 {
                out.reply(Reply::reset_for(self.local, self.remote, segment));
                return false;
            }
            self.on_opened(now, header, out);
            self.set_peer_window(header.seq, header.ack, header.window, 0);
        }
        if position > self.send.highest_sent() as i64 {
            // RFC 5961 §5.2: the segment acknowledges data that was never sent.
            self.challenge(now);
            return false;
        }
        if position < self.send.lowest_plausible() {
            // RFC 5961 §5.2: the acknowledgement number is too old. It lies below SND.UNA by more than the largest
            // window that the peer has offered.
            self.challenge(now);
            return false;
        }
        let una = self.send.scoreboard.una();
        if position >= una as i64 {
            self.on_current_ack(now, segment, position as u64, out);
        }
        true
    }

    #[inline(never)]
    fn on_current_ack(&mut self, now: Instant, segment: &Segment<'_>, position: u64, out: &mut Outbox) {
        let header = &segment.header;
        let window_before = self.window_field;
        self.record_window(header.seq, header.ack, header.window, position);
        let has_data = !segment.payload.is_empty();
        if has_data {
            self.record_echo(now, header.options.timestamps.filter(|_| self.options.timestamps));
        }
        let ece = self.options.ecn && header.flags.has(Flags::ECE);
        if has_data && !ece && header.options.sack.is_empty() && self.send.knows(position) {
            return self.record_answer(now);
        }
        let mut sacks = [(0, 0); 4];
        let mut count = 0;
        let mut duplicate = None;
        if self.options.sack && !header.options.sack.is_empty() {
            (count, duplicate) = self.read_sacks(header.options.sack.as_slice(), position, &mut sacks);
        }
        let echo = header.options.timestamps.filter(|_| self.options.timestamps);
        let echo = echo.and_then(|stamps| self.options.age(now, stamps.echo).map(|age| (stamps.echo, age)));
        let ack = Ack {
            position,
            sacks: &sacks[..count],
            duplicate,
            could_be_duplicate: !has_data
                && !header.flags.has_any(Flags::FIN)
                && header.window == window_before,
            echo,
            ece,
        };
        let outcome = self.send.on_ack(now, &ack, &mut self.stats);
        self.after_ack(now, outcome, out);
    }

    /// RFC 9293 §3.10.7.4: updates the peer's window, unless the segment is older than the segment that last set the
    /// window.
    #[inline(always)]
    pub(crate) fn record_window(&mut self, seq: Seq, ack: Seq, field: u16, position: u64) {
        if seq.after(self.wl1) || (seq == self.wl1 && ack.at_or_after(self.wl2)) {
            self.set_peer_window(seq, ack, field, position);
        }
    }

    /// Takes an RTT sample for receive window tuning from a data segment that echoes our timestamp.
    #[inline(always)]
    pub(crate) fn record_echo(&mut self, now: Instant, stamps: Option<Timestamps>) {
        if self.recv.is_tuning()
            && let Some(stamps) = stamps
            && let Some(age) = self.options.age(now, stamps.echo)
        {
            self.recv.on_echo(age);
        }
    }

    #[inline(always)]
    pub(crate) fn after_ack(&mut self, now: Instant, outcome: AckOutcome, out: &mut Outbox) {
        if outcome.progress {
            self.timeouts = 0;
            self.last_progress = now;
            self.soft_error = None;
        }
        if outcome.restart_timer {
            // RFC 6298 §5.2, §5.3: an acknowledgement of new data restarts the timer, or stops it if nothing is in
            // flight.
            if self.send.scoreboard.flight() > 0 {
                self.timers.set(Timer::Retransmit, now.plus_nanos(self.send.rtt.rto_nanos()));
            } else {
                self.timers.stop(Timer::Retransmit);
            }
        }
        self.set_loss_timer(now);
        self.record_answer(now);
        if outcome.spurious {
            self.emit_spurious(now, out);
        }
        if outcome.writable && !self.send.finished {
            let id = self.id;
            self.event(out, Event::Writable { id });
        }
        if outcome.fin_acked {
            self.on_fin_acked(now, out);
        }
    }

    #[cold]
    fn emit_spurious(&self, now: Instant, out: &mut Outbox) {
        out.record(now, self.key(), || TraceEvent::Spurious);
    }

    /// Records that the peer answered our window probes. Any acknowledgement shows that the peer is alive, so the count
    /// of unanswered probes is set to 0. A live peer may keep its window closed without a time limit (RFC 9293
    /// §3.8.6.1). So while the window is closed, the count of timeouts is set to 0 as well, even if data was in flight
    /// when the window closed.
    #[inline(always)]
    pub(crate) fn record_answer(&mut self, now: Instant) {
        self.unanswered = 0;
        if self.send.peer_window() == 0 {
            self.on_closed_window(now);
        }
    }

    #[cold]
    fn on_closed_window(&mut self, now: Instant) {
        self.timeouts = 0;
        // Linux tcp_ack_probe: the wait for the next probe begins with the acknowledgement of the last one.
        if self.config.window_probe == WindowProbe::Empty && self.timers.is_set(Timer::Persist) {
            self.timers.set(Timer::Persist, now + self.probe_delay());
        }
    }

    #[inline]
    fn set_peer_window(&mut self, seq: Seq, ack: Seq, field: u16, position: u64) {
        self.wl1 = seq;
        self.wl2 = ack;
        self.window_field = field;
        self.send.set_window(position, u64::from(field) << self.options.peer_shift);
    }

    /// Converts SACK blocks to stream positions and leaves out invalid blocks. The first block reports a duplicate (RFC
    /// 2883 §4) if it repeats acknowledged data or lies within the second block.
    fn read_sacks(
        &self,
        blocks: &[(Seq, Seq)],
        ack: u64,
        sacks: &mut [(u64, u64); 4],
    ) -> (usize, Option<u64>) {
        let mut count = 0;
        let mut duplicate = None;
        let highest = self.send.highest_sent() as i64;
        let position = |number| self.own_position(number);
        for (index, &(start, end)) in blocks.iter().enumerate() {
            let (start, end) = (position(start), position(end));
            if start >= end || end > highest {
                continue;
            }
            if index == 0 {
                let within_second =
                    blocks.get(1).is_some_and(|&(from, to)| position(from) <= start && end <= position(to));
                if end <= ack as i64 || within_second {
                    duplicate = Some(start.max(0) as u64);
                    continue;
                }
            }
            if start >= ack as i64 && count < sacks.len() {
                sacks[count] = (start as u64, end as u64);
                count += 1;
            }
        }
        (count, duplicate)
    }

    /// Seventh and eighth checks of RFC 9293 §3.10.7.4: takes the payload, which begins at stream position `start`, and
    /// the FIN. `fin` and `pushed` are flags of the segment.
    #[inline(never)]
    pub(crate) fn take_data(
        &mut self,
        now: Instant,
        (start, payload, (fin, pushed)): (i64, &[u8], (bool, bool)),
        tag: u64,
        out: &mut Outbox,
    ) {
        if payload.is_empty() && !fin {
            return;
        }
        if !self.state.receives() {
            // RFC 9293 §3.10.7.4: no data follows the peer's FIN, so the segment is a retransmission and is
            // acknowledged at once. The peer has not received our acknowledgement.
            self.recv.ack_scheduler.ack_now();
            if fin && self.state == State::TimeWait {
                self.restart_time_wait(now);
            }
            return;
        }
        // Positions below 0 are in the peer's SYN and carry no data.
        let skipped = (-start).max(0) as usize;
        let data = payload.get(skipped..).unwrap_or_default();
        let position = start.max(0) as u64;
        let key = self.key();
        if !data.is_empty() {
            self.recv.ack_scheduler.on_arrival(now);
        }
        let arrival = self.recv.on_data(position, data, (fin, pushed), |units| {
            out.record(now, key, || TraceEvent::Received { units, packet: tag });
        });
        self.stats.bytes_received += arrival.kept_bytes;
        self.stats.bytes_discarded += data.len() as u64 - arrival.kept_bytes;
        self.start_delayed_ack_timer(now, arrival.delay);
        if self.orphan && arrival.kept_bytes > 0 {
            // RFC 9293 §3.6.1: the application has closed the connection and will not read the data, so the peer is
            // reset.
            self.reset_peer(out);
            return self.fail(now, CloseReason::Aborted, out);
        }
        if arrival.readable && !self.is_readable_reported {
            self.is_readable_reported = true;
            let id = self.id;
            self.event(out, Event::Readable { id });
        }
        if arrival.finished {
            self.on_peer_finished(now, out);
        }
    }

    /// Starts the timer for a delayed acknowledgement, unless it is running. If `delay` is `None`, no acknowledgement
    /// is delayed.
    #[inline(always)]
    pub(crate) fn start_delayed_ack_timer(&mut self, now: Instant, delay: Option<Duration>) {
        if let Some(delay) = delay
            && !self.timers.is_set(Timer::DelayedAck)
        {
            self.timers.set(Timer::DelayedAck, now + delay);
        }
    }

    /// RFC 3168 §6.1.3: after a CE mark, our acknowledgements carry ECE until a segment with CWR shows that the peer
    /// has reduced its window.
    pub(crate) fn record_ecn(&mut self, ecn: Ecn, flags: Flags) {
        if flags.has(Flags::CWR) {
            self.ecn_echo = false;
        }
        if ecn == Ecn::Ce {
            self.stats.ce_received += 1;
            self.ecn_echo = true;
        }
    }

    /// Handles all timers that have expired.
    pub(crate) fn on_time(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(timer) = self.timers.expired(now) {
            self.send.begin_burst();
            if matches!(timer, Timer::Loss | Timer::Retransmit) {
                self.send.forget_refusal();
            }
            match timer {
                Timer::Loss => self.on_loss_timer(now),
                // No action here: the next poll sends the segment that pacing now allows.
                Timer::Pace => {}
                Timer::Retransmit => self.on_retransmit_timer(now, out),
                Timer::Persist => self.on_persist_timer(now, out),
                Timer::DelayedAck => self.recv.ack_scheduler.on_delay_over(),
                Timer::FinWait2 => {
                    // The application has closed the connection, and the peer sent no FIN in time. The connection is
                    // dropped, as in other stacks.
                    self.reset_peer(out);
                    self.fail(now, CloseReason::Finished, out);
                }
                Timer::TimeWait => self.leave_time_wait(now, out),
            }
        }
    }

    fn on_retransmit_timer(&mut self, now: Instant, out: &mut Outbox) {
        self.stats.timeouts += 1;
        self.timeouts += 1;
        if matches!(self.state, State::SynSent | State::SynReceived) {
            if self.timeouts > self.config.syn_retries {
                let reason = self.soft_error.map_or(CloseReason::HandshakeTimedOut, CloseReason::Unreachable);
                return self.fail(now, reason, out);
            }
            self.send.rtt.back_off();
            self.syn_due = true;
            return;
        }
        if self.timeouts > self.config.retries || self.user_timeout_is_over(now) {
            let reason = self.soft_error.map_or(CloseReason::TimedOut, CloseReason::Unreachable);
            return self.fail(now, reason, out);
        }
        self.send.on_timeout(now);
        // RFC 6298 §5.6: restart the retransmission timer now. Sending the retransmitted segment later does not restart
        // it.
        self.timers.set(Timer::Retransmit, now + self.send.rtt.rto());
        self.timers.stop(Timer::Loss);
    }

    /// RFC 8985 §6.2 step 5, §7.2: sets the timer for the RACK reordering timeout or for the tail loss probe.
    #[inline]
    pub(super) fn set_loss_timer(&mut self, now: Instant) {
        match self.send.loss_timer() {
            None => self.timers.stop(Timer::Loss),
            Some(LossTimer::Reorder(at)) => self.timers.set(Timer::Loss, at),
            // RFC 8985 §7.2: the probe is sent when the retransmission timer expires, or earlier. Sending the probe
            // restarts the retransmission timer.
            Some(LossTimer::Probe(wait)) => {
                self.timers.set(Timer::Loss, now.plus_nanos(wait).min(self.timers.at(Timer::Retransmit)));
            }
        }
    }

    fn on_loss_timer(&mut self, now: Instant) {
        if self.send.on_loss_timer(now, &mut self.stats) {
            self.timers.set(Timer::Retransmit, now + self.send.rtt.rto());
        } else {
            self.set_loss_timer(now);
        }
    }

    fn on_persist_timer(&mut self, now: Instant, out: &mut Outbox) {
        if self.send.waits_to_try_again() {
            self.probes += 1;
            return self.send.try_again();
        }
        if !self.send.is_shut_out() {
            return;
        }
        // RFC 9293 §3.8.6.1: a peer that answers probes may keep its window closed forever. A connection to a peer that
        // does not answer ends after some time.
        if self.unanswered > self.config.retries || (self.unanswered > 0 && self.user_timeout_is_over(now)) {
            return self.fail(now, CloseReason::TimedOut, out);
        }
        if self.config.window_probe == WindowProbe::Empty && self.send.fill_window() {
            return;
        }
        self.probe_due = true;
        self.probes += 1;
        self.unanswered += 1;
    }

    /// Returns the delay until the next window probe: the RTO, doubled for each probe already sent, up to a limit.
    pub(super) fn probe_delay(&self) -> Duration {
        let rto = nanos(self.send.rtt.rto());
        let doubled = rto.saturating_mul(1 << self.probes.min(20));
        let limit = match self.config.window_probe {
            WindowProbe::Data => self.config.rto_max.min(MAX_PROBE_DELAY),
            WindowProbe::Empty => self.config.rto_max,
        };
        Duration::from_nanos(doubled.min(nanos(limit)).max(1))
    }

    fn user_timeout_is_over(&self, now: Instant) -> bool {
        self.config.user_timeout.is_some_and(|limit| now.since(self.last_progress) >= limit)
    }

    /// Handles an ICMP message about the sent segment whose sequence number is `seq`.
    pub(crate) fn on_icmp(&mut self, now: Instant, kind: IcmpKind, seq: Seq, out: &mut Outbox) {
        // RFC 5927 §4: an ICMP message is accepted only if it refers to a segment in flight.
        let position = self.own_position(seq);
        let on_its_way = match self.state {
            State::SynSent | State::SynReceived => seq == self.iss,
            _ => position >= self.send.scoreboard.una() as i64 && position < self.send.highest_sent() as i64,
        };
        if !on_its_way {
            return;
        }
        match kind {
            IcmpKind::TooBig(mtu) if self.config.pmtu => self.on_smaller_mtu(mtu),
            IcmpKind::TooBig(_) => {}
            // The peer's host has no TCP, so it has no listener on the port either. The message is treated as ICMPv6
            // code 4, port unreachable.
            IcmpKind::UnknownNextHeader => {
                self.on_icmp(now, IcmpKind::Unreachable(PORT_UNREACHABLE_V6), seq, out);
            }
            IcmpKind::Unreachable(code) => {
                // RFC 9293 §3.9.2.2: while the connection opens, these codes are hard errors and end it. RFC 5927 §5.2:
                // on an open connection they are soft errors.
                let hard = if self.remote.is_ipv4() { matches!(code, 2 | 3) } else { matches!(code, 1 | 4) };
                if hard && self.state == State::SynSent {
                    self.fail(now, CloseReason::Unreachable(code), out);
                } else {
                    self.soft_error = Some(code);
                }
            }
        }
    }

    fn on_smaller_mtu(&mut self, mtu: u32) {
        // RFC 1191 §3, RFC 8201 §4: no path has an MTU below this minimum, so a smaller reported value is raised to it.
        let least = if self.remote.is_ipv4() { MIN_MTU_V4 } else { MIN_MTU_V6 };
        let mtu = mtu.max(least);
        if mtu >= self.mtu {
            return;
        }
        self.mtu = mtu;
        if self.state.is_synchronized() {
            self.send.set_mss(self.payload_size());
        }
    }
}

/// RFC 5961 §7: at most ten challenge ACKs are sent in five seconds.
const CHALLENGES: u32 = 10;
const CHALLENGE_INTERVAL: Duration = Duration::from_secs(5);
/// The upper bound of the delay between window probes, which are repeated without limit. RFC 9293 specifies no bound;
/// this value is BSD's TCPTV_PERSMAX.
const MAX_PROBE_DELAY: Duration = Duration::from_secs(60);
/// RFC 791 allows an MTU as small as 68 bytes. Linux's min_pmtu is used instead, because forged ICMP messages could
/// demand tiny segments.
const MIN_MTU_V4: u32 = 552;
const MIN_MTU_V6: u32 = 1280;
/// The code of Destination Unreachable for a port (RFC 4443 §3.1).
const PORT_UNREACHABLE_V6: u8 = 4;
