//! Builds all segments of a connection.
//!
//! The order of segments is fixed: SYN, then data (lost data first), then an acknowledgement without data, then a probe
//! of a closed window. Each segment carries the latest acknowledgement and window.
//!
//! Implements RFC 9293 §3.7, §3.10.2 (SEND), §3.5.2 (reset generation), RFC 6298 §5.1, and RFC 3168 §6.1.4 and §6.1.5
//! (segments that are not ECN-capable).

use super::timers::Timer;
use super::{Connection, Outbox, State};
use crate::config::SynQueue;
use crate::send::SelectedSegment;
use anabranch_base::time::Duration;
use anabranch_base::trace::{SendCause, TraceEvent};
use anabranch_base::{Ecn, Instant, SendBatch};
use anabranch_congestion::Controller;
use anabranch_wire::tcp::{Flags, Header, Options, SackBlocks, Segment, Seq, seal};
use std::net::SocketAddr;
use std::ops::Range;

/// A segment without data that is sent for no existing connection, in most cases a reset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) header: Header,
}

impl Reply {
    /// Creates a reset with sequence number `seq`. The reset acknowledges `ack`, if given.
    pub(crate) fn reset(local: SocketAddr, remote: SocketAddr, seq: Seq, ack: Option<Seq>) -> Self {
        let flags = if ack.is_some() { Flags::RST.with(Flags::ACK) } else { Flags::RST };
        let header = Header {
            source_port: local.port(),
            target_port: remote.port(),
            seq,
            ack: ack.unwrap_or_default(),
            flags,
            ..Header::default()
        };
        Self { local, remote, header }
    }

    /// RFC 9293 §3.5.2: creates the reset that answers an unacceptable segment. If the segment has ACK set, its
    /// acknowledgement number becomes the reset's sequence number. Otherwise the reset acknowledges the segment.
    pub(crate) fn reset_for(local: SocketAddr, remote: SocketAddr, segment: &Segment<'_>) -> Self {
        let header = &segment.header;
        if header.flags.has(Flags::ACK) {
            Self::reset(local, remote, header.ack, None)
        } else {
            Self::reset(local, remote, Seq(0), Some(header.seq.plus(segment.sequence_len())))
        }
    }

    pub(crate) fn transmit(&self, batch: &mut SendBatch, out: &mut Outbox) {
        begin_batch(batch, (without_port(self.local), without_port(self.remote)), Ecn::NotEct, out);
        batch.push_with(|buffer| {
            let start = buffer.len();
            self.header.emit(buffer);
            seal(&mut buffer[start..], self.local.ip(), self.remote.ip());
        });
    }
}

/// The type of the segment that is sent next.
enum NextSegment {
    Syn,
    Data(SelectedSegment),
    Ack,
    /// A window probe with the data in this range. If the range is empty, the segment has the sequence number before it.
    Probe(Range<u64>),
}

/// Returns the address with port 0, as raw sockets need it. The ports are in the TCP header.
pub(super) fn without_port(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip(), 0)
}

#[inline(always)]
pub(crate) fn begin_batch(
    batch: &mut SendBatch,
    ip_addresses: (SocketAddr, SocketAddr),
    ecn: Ecn,
    out: &mut Outbox,
) {
    if batch.is_empty() {
        (batch.source, batch.target) = ip_addresses;
        batch.ecn = ecn;
        batch.first_tag = out.next_tag;
    }
    out.next_tag += 1;
}

/// Returns whether the checksum of the next packet is left to the socket.
#[inline(always)]
pub(crate) fn leave_checksum(batch: &mut SendBatch) -> bool {
    let offloads = batch.offloads_checksums();
    if offloads {
        batch.missing_checksum = Some(seal);
    }
    offloads
}

/// Linux 2.6 scans its half-open connections every 200 ms (tcp_synack_timer, TCP_SYNQ_INTERVAL; net/ipv4/tcp_timer.c).
/// Each scan covers 68 of 512 hash buckets, so a given connection is looked at in one of 8 scans.
const SCAN_INTERVAL: Duration = Duration::from_millis(200);
const SCANS_PER_CYCLE: u32 = 8;

impl Connection {
    /// Appends to `batch` the segments that may be sent now, as many as fit. Returns false if there are none.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, now: Instant, batch: &mut SendBatch, out: &mut Outbox) -> bool {
        batch.is_empty() && self.transmit_on_fast_path(now, batch, out) || self.transmit_any(now, batch, out)
    }

    #[inline(never)]
    fn transmit_any(&mut self, now: Instant, batch: &mut SendBatch, out: &mut Outbox) -> bool {
        while batch.has_room() {
            let Some(next) = self.next_segment(now) else {
                self.settle(now, out);
                break;
            };
            let mut header = Header::default();
            let (payload, ecn) = self.describe(now, &next, &mut header);
            if !batch.is_empty() {
                let size = header.encoded_len() + (payload.end - payload.start) as usize;
                if size > batch.stride() || ecn != batch.ecn {
                    break;
                }
            }
            let tag = out.next_tag;
            begin_batch(batch, self.ip_addresses, ecn, out);
            let summed = !leave_checksum(batch);
            batch.push_with(|buffer| {
                let start = buffer.len();
                header.emit(buffer);
                self.send.buffer.append_to(payload.clone(), buffer);
                if summed {
                    seal(&mut buffer[start..], self.local.ip(), self.remote.ip());
                }
            });
            self.on_sent(now, next, &header, payload, tag, out);
        }
        !batch.is_empty()
    }

    /// Returns whether the connection has no segment to send and no state to change at the next poll. On a connection
    /// that only receives, this is true after about half of the arriving segments.
    #[inline]
    pub(crate) fn is_at_rest(&self, out: &Outbox) -> bool {
        self.send.is_at_rest() && self.waits_for_nothing_else(out)
    }

    /// Returns whether the only possible effect of a poll is that data is sent. Such a poll would send no other
    /// segment, change no state, and trace nothing.
    #[inline]
    pub(crate) fn waits_for_nothing_else(&self, out: &Outbox) -> bool {
        self.state.receives()
            && !self.recv.ack_scheduler.is_due()
            && !self.probe_due
            && self.probes == 0
            && !self.timers.is_set(Timer::Persist)
            && (!out.tracing
                || self.recorded_limit == Some(self.send.limit)
                    && self.recorded_window == self.send.controller.window())
    }

    /// Returns the window field of the next segment and records the window that it offers.
    #[inline(always)]
    pub(crate) fn offer_window(&mut self) -> u16 {
        self.recv.offer(self.options.own_shift, u64::from(u16::MAX), u64::from(self.peer_mss))
    }

    fn next_segment(&mut self, now: Instant) -> Option<NextSegment> {
        match self.state {
            State::SynSent | State::SynReceived => {
                return self.syn_due.then_some(NextSegment::Syn);
            }
            State::Closed => return None,
            State::TimeWait => return self.recv.ack_scheduler.is_due().then_some(NextSegment::Ack),
            _ => {}
        }
        if let Some(choice) = self.send.choose() {
            match self.send.held_until(now, &choice) {
                None => return Some(NextSegment::Data(choice)),
                Some(at) => self.timers.set(Timer::Pace, at),
            }
        }
        if self.recv.ack_scheduler.is_due() {
            return Some(NextSegment::Ack);
        }
        if std::mem::take(&mut self.probe_due)
            && self.send.is_shut_out()
            && let Some(range) = self.send.probe(self.config.window_probe)
        {
            return Some(NextSegment::Probe(range));
        }
        None
    }

    /// Called when nothing more can be sent. Runs the persist timer if and only if no acknowledgement is expected: the
    /// peer's closed window prevents sending, or this host has refused to send the only segment. Records in the trace
    /// what limits sending.
    fn settle(&mut self, now: Instant, out: &mut Outbox) {
        if !self.state.is_synchronized() {
            return;
        }
        if self.send.is_shut_out() || self.send.waits_to_try_again() {
            if !self.timers.is_set(Timer::Persist) {
                self.timers.set(Timer::Persist, now + self.probe_delay());
            }
        } else {
            self.timers.stop(Timer::Persist);
            self.probes = 0;
        }
        if out.tracing && self.recorded_limit != Some(self.send.limit) {
            self.recorded_limit = Some(self.send.limit);
            out.record(now, self.key(), || TraceEvent::Limited(self.send.limit));
        }
        if out.tracing {
            let window = self.send.controller.window();
            if self.recorded_window != window {
                self.recorded_window = window;
                out.record(now, self.key(), || TraceEvent::Window(window));
            }
        }
    }

    /// Returns the payload positions and the ECN codepoint of the next segment. Fills in `header` in place, because
    /// moving a header costs time.
    #[inline(always)]
    fn describe(&mut self, now: Instant, next: &NextSegment, header: &mut Header) -> (Range<u64>, Ecn) {
        let (range, fin, fresh) = match next {
            NextSegment::Syn => {
                let ecn;
                (*header, ecn) = self.syn_header(now);
                return (0..0, ecn);
            }
            NextSegment::Data(choice) => {
                let (payload, fin) = self.send.parts(&choice.range);
                (payload, fin, choice.cause == SendCause::New)
            }
            NextSegment::Probe(range) => (range.clone(), false, false),
            NextSegment::Ack => {
                let next = self.send.scoreboard.next();
                (next..next, false, false)
            }
        };
        let position = match next {
            NextSegment::Data(choice) => choice.range.start,
            _ => range.start,
        };
        let length = range.end - range.start;
        let mut flags = Flags::ACK;
        if fin {
            flags = flags.with(Flags::FIN);
        }
        // RFC 9293 §3.9.1.2: the last segment of a write has PSH set. With `push=burst`, the last new segment of a
        // burst also has PSH set.
        if length > 0 && (range.end == self.send.buffer.end() || fresh && self.send.ends_burst()) {
            flags = flags.with(Flags::PSH);
        }
        let mut ecn = Ecn::NotEct;
        if self.options.ecn {
            if self.ecn_echo {
                flags = flags.with(Flags::ECE);
            }
            if fresh && length > 0 {
                ecn = Ecn::Ect0;
                if self.send.cwr_due {
                    flags = flags.with(Flags::CWR);
                }
            }
        }
        header.options.timestamps = self.options.stamps(now);
        if self.options.sack && self.recv.has_report() {
            header.options.sack = self.sack_blocks(length);
        }
        header.source_port = self.local.port();
        header.target_port = self.remote.port();
        header.seq = match next {
            NextSegment::Probe(range) if range.is_empty() => self.seq_of(position).minus(1),
            _ => self.seq_of(position),
        };
        header.ack = self.ack_of(self.recv.next());
        header.flags = flags;
        header.window = self.offer_window();
        (range, ecn)
    }

    /// Returns the SACK blocks that fit into a segment with a payload of `length` bytes.
    fn sack_blocks(&self, length: u64) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let spare = self.payload_size().saturating_sub(length);
        let fit = if length == 0 { SackBlocks::MAX } else { (spare.saturating_sub(4) / 8) as usize };
        let most = fit.min(Options::sack_room(self.options.timestamps));
        self.recv.report(most, |run| {
            blocks.push(self.ack_of(run.start), self.ack_of(run.end));
        });
        blocks
    }

    fn on_sent(
        &mut self,
        now: Instant,
        next: NextSegment,
        header: &Header,
        payload: Range<u64>,
        tag: u64,
        out: &mut Outbox,
    ) {
        self.stats.segments_sent += 1;
        let length = payload.end - payload.start;
        if length > 0 {
            self.stats.data_segments_sent += 1;
            self.stats.bytes_sent += length;
        }
        let cause = match next {
            NextSegment::Syn => return self.on_syn_sent(now, out),
            NextSegment::Ack => {
                self.stats.acks_sent += 1;
                None
            }
            NextSegment::Probe(_) => {
                self.stats.probes += 1;
                self.timers.set(Timer::Persist, now + self.probe_delay());
                Some(SendCause::Probe)
            }
            NextSegment::Data(choice) => {
                self.on_data_sent(now, &choice, header, length);
                Some(choice.cause)
            }
        };
        if let Some(cause) = cause.filter(|_| length > 0 && out.tracing) {
            out.record(now, self.key(), || TraceEvent::Sent {
                units: payload.clone(),
                stream: 0,
                bytes: payload,
                packet: tag,
                cause,
            });
        }
        self.on_ack_sent(header);
    }

    fn on_data_sent(&mut self, now: Instant, choice: &SelectedSegment, header: &Header, length: u64) {
        self.send.on_sent(now, choice, header.options.timestamps.map(|stamps| stamps.value));
        match choice.cause {
            SendCause::Fast => self.stats.retransmitted_fast += 1,
            SendCause::Timeout => self.stats.retransmitted_timeout += 1,
            SendCause::New | SendCause::Probe => {}
        }
        if choice.cause != SendCause::New {
            self.stats.bytes_retransmitted += length;
        } else if header.flags.has(Flags::CWR) {
            self.send.cwr_due = false;
        }
        // Linux (tcp_output.c, tcp_xmit_retransmit_queue): the retransmission of the oldest data restarts the timer. Linux
        // 2.6.11 does the same.
        if self.send.restarts_timer(choice) {
            self.timers.stop(Timer::Retransmit);
        }
        self.start_timers(now);
    }

    /// Starts the timers that must run after a data segment was sent.
    #[inline(always)]
    pub(crate) fn start_timers(&mut self, now: Instant) {
        self.recv.ack_scheduler.on_data_sent(now);
        // RFC 6298 §5.1: sending data starts the retransmission timer, if it does not run.
        if !self.timers.is_set(Timer::Retransmit) {
            self.timers.set(Timer::Retransmit, now.plus_nanos(self.send.rtt.rto_nanos()));
        }
        self.set_loss_timer(now);
    }

    fn on_syn_sent(&mut self, now: Instant, out: &mut Outbox) {
        self.syn_due = false;
        self.syn_tries += 1;
        if self.syn_tries == 1 {
            self.syn_sent = now;
            if self.state == State::SynSent {
                out.record(now, self.key(), || TraceEvent::Opening);
            }
        }
        if self.state != State::SynReceived {
            self.timers.set(Timer::Retransmit, now + self.send.rtt.rto());
            return;
        }
        self.recv.ack_scheduler.on_sent();
        match self.config.syn_queue {
            SynQueue::Timers => self.timers.set(Timer::Retransmit, now + self.send.rtt.rto()),
            // The SYN-ACK that answers a repeated SYN does not restart the retransmission timer.
            SynQueue::Scan if self.timers.is_set(Timer::Retransmit) => {}
            SynQueue::Scan => {
                let next_scan = SCAN_INTERVAL * (1 + self.iss.0 % SCANS_PER_CYCLE);
                self.timers.set(Timer::Retransmit, now + self.send.rtt.rto() + next_scan);
            }
        }
    }

    /// Records that the sent segment with `header` carried the latest acknowledgement.
    #[inline]
    fn on_ack_sent(&mut self, header: &Header) {
        self.last_ack_sent = self.recv.next();
        // A full data segment may have no room for the SACK option. In that case, an acknowledgement with the option
        // must follow.
        let silent = self.options.sack && self.recv.has_report() && header.options.sack.is_empty();
        if !silent {
            self.recv.ack_scheduler.on_sent();
            self.timers.stop(Timer::DelayedAck);
        }
    }
}
