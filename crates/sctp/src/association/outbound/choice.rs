//! Selects the next packet and its path, and decides whether it may be sent.
//!
//! Implements the order in which packets are sent, and the checks whether they may be sent: windows, bursts, Nagle.
//! This module writes no packets.
//!
//! Implements RFC 9260 §6.1 (rules B and C; A and D are in `send/permission.rs`). The choice of a path (§6.4) is in
//! `path/select.rs`.

use super::{Allowed, ControlJob, Job};
use crate::association::timers::Timer;
use crate::association::{Association, Ctx, State};
use crate::config::SackPath;
use crate::path::Path;
use crate::send::outstanding::{ChunkState, Entry};
use anabranch_base::Instant;
use anabranch_base::trace::{Limit, SendCause, TraceEvent};

impl Association {
    pub(super) fn next_job(&mut self, ctx: &Ctx<'_>) -> Option<Job> {
        if !self.is_eligibility_known() {
            match self.control_job() {
                ControlJob::Job(job) => return Some(job),
                ControlJob::Wait => return None,
                ControlJob::Go => self.find_eligibility(ctx.fast_path),
            }
        } else {
            debug_assert!(matches!(self.control_job(), ControlJob::Go), "a control chunk waits unseen");
        }
        if let Some((path, allowed)) = self.data_path(ctx.now) {
            return Some(Job::Data(path, allowed));
        }
        // A SHUTDOWN also acknowledges data, so it is sent first. A separate SACK may then be unnecessary.
        if self.outbox.wants_shutdown() {
            return Some(Job::Shutdown(self.shutdown_path()));
        }
        self.recv.sack_due().then(|| Job::Sack(self.sack_path()))
    }

    /// Returns the control packet that has to be sent before DATA, if there is one.
    #[cold]
    fn control_job(&mut self) -> ControlJob {
        let now_or_wait = |job: Option<Job>| job.map_or(ControlJob::Wait, ControlJob::Job);
        match self.state {
            State::CookieWait(_) => {
                return now_or_wait(
                    self.outbox.wants_handshake().then_some(Job::Init(self.handshake_path())),
                );
            }
            State::CookieEchoed(_) => {
                // RFC 9260 §5.1 C: until the COOKIE ECHO is answered, no other packet may be sent, except a HEARTBEAT
                // ACK (§8.3). A peer that sends HEARTBEATs has accepted the cookie and waits for the HEARTBEAT ACK.
                let echo = self.outbox.wants_handshake().then_some(Job::CookieEcho(self.handshake_path()));
                let answer = self.outbox.heartbeat_ack_path().map(Job::Control);
                return now_or_wait(echo.or(answer));
            }
            State::Closed => return ControlJob::Wait,
            _ => {}
        }
        if let Some(path) = self.outbox.cookie_ack_path() {
            return ControlJob::Job(Job::Control(path));
        }
        if self.extensions.asconf.is_some() {
            match self.asconf_job() {
                ControlJob::Go => {}
                turn => return turn,
            }
        }
        if let Some(path) = self.outbox.error_path().or(self.outbox.heartbeat_ack_path()) {
            return ControlJob::Job(Job::Control(path));
        }
        if let Some(path) = self.reconfig_path() {
            return ControlJob::Job(Job::Control(path));
        }
        if let Some(path) = self.paths.iter().position(Path::wants_heartbeat) {
            return ControlJob::Job(Job::Control(path));
        }
        if self.forward_wanted() {
            return ControlJob::Job(Job::Control(self.paths.current()));
        }
        if self.outbox.wants_mtu_probes()
            && let Some(path) = self.next_mtu_probe()
        {
            return ControlJob::Job(Job::MtuProbe(path));
        }
        ControlJob::Go
    }

    /// RFC 9260 §6.4: returns the path on which SACKs are sent.
    #[inline]
    pub(crate) fn sack_path(&self) -> usize {
        // RFC 9260 §6.4: a duplicate suggests that the last SACK was lost. So the next SACK is sent on the path of the
        // DATA, even if SACKs usually take another path.
        let elsewhere = self.config.sack_path == SackPath::Other && !self.recv.has_duplicates();
        self.paths.for_sack(elsewhere)
    }

    /// RFC 9260 §6.4, §6.4.1: returns the path on which a chunk is retransmitted.
    #[cold]
    fn retransmission_path(&self, last: usize, cause: SendCause, length: u32) -> usize {
        let path = self.paths.for_retransmission(self.config.rtx_path, last, cause);
        if length <= self.send.largest() {
            return path;
        }
        let size = self.send.chunk_header() + (length as usize).next_multiple_of(4);
        self.paths.with_sufficient_mtu(path, size)
    }

    /// Returns the path on which DATA can be sent now, and the kinds of DATA that are allowed on it.
    #[inline]
    pub(super) fn data_path(&mut self, now: Instant) -> Option<(usize, Allowed)> {
        let found = self.open_path(now)?;
        if self.paths.get(found.0).is_paced() && self.is_held(now, found.0) { None } else { Some(found) }
    }

    /// Returns whether pacing delays the next packet on a path. If so, sets the pacing timer.
    #[cold]
    fn is_held(&mut self, now: Instant, index: usize) -> bool {
        let end = self.send.end();
        let Some(at) = self.paths.at(index).hold_back(now, end) else { return false };
        self.timers.set(Timer::Pace(index), at);
        true
    }

    /// RFC 8985 §7.3: returns whether new data can be sent on this path as a tail loss probe. The congestion window
    /// does not limit such a probe.
    pub(in crate::association) fn takes_new_on(&mut self, now: Instant, index: usize) -> bool {
        index == self.data_target() && self.send.unsent_bytes() > 0 && self.new_allowed(now)
    }

    /// With `burst_window`, lets Max.Burst lower the congestion window before data is sent.
    #[inline(always)]
    pub(in crate::association) fn apply_burst_window(&mut self) {
        if self.config.burst_window
            && let Some(packets) = self.config.max_burst
            && (self.send.unsent_bytes() > 0 || self.send.has_lost())
        {
            let current = self.paths.current();
            self.paths.at(current).limit_burst(packets);
        }
    }

    #[inline]
    fn open_path(&mut self, now: Instant) -> Option<(usize, Allowed)> {
        if !self.state.may_send_data() {
            return None;
        }
        self.apply_burst_window();
        if self.send.has_lost() {
            return self.data_path_with_lost(now);
        }
        if self.send.unsent_bytes() == 0 {
            return None;
        }
        let current = self.paths.current();
        let new = self.is_open(current) && self.new_allowed(now);
        new.then_some((current, Allowed { retransmissions: false, new }))
    }

    /// Like [`data_path`](Self::data_path), for an association with chunks marked for retransmission.
    #[cold]
    fn data_path_with_lost(&mut self, now: Instant) -> Option<(usize, Allowed)> {
        if let Some((.., path)) = self.next_retransmission() {
            let allowed = self.allowed(now, path);
            if allowed.retransmissions {
                return Some((path, allowed));
            }
        }
        if self.send.unsent_bytes() == 0 {
            return None;
        }
        let current = self.paths.current();
        let allowed = self.allowed(now, current);
        allowed.new.then_some((current, allowed))
    }

    /// Returns whether the congestion window of a path allows sending.
    #[inline(always)]
    pub(crate) fn is_open(&self, index: usize) -> bool {
        self.paths.get(index).is_open(|| self.send.is_recovering())
    }

    /// Returns the lowest chunk to be retransmitted, and its path.
    #[inline]
    pub(super) fn next_retransmission(&mut self) -> Option<(u64, Entry, usize)> {
        let (offset, entry) = self.send.next_lost()?;
        let ChunkState::Lost(cause) = entry.state else {
            return None;
        };
        let path = self.retransmission_path(usize::from(entry.path), cause, entry.length.into());
        Some((offset, entry, path))
    }

    /// Returns the kinds of DATA that may begin a packet on path `index`.
    fn allowed(&mut self, now: Instant, index: usize) -> Allowed {
        let marked = self.next_retransmission().is_some_and(|(.., path)| path == index);
        let open = self.is_open(index);
        // RFC 9260 §7.2.4: fast retransmit may send one packet regardless of the congestion window.
        let again = marked && (open || self.send.has_free_packet());
        // RFC 9260 §6.1 C: chunks marked for retransmission are sent before new chunks.
        let new = open && !marked && self.new_allowed(now);
        Allowed { retransmissions: again, new }
    }

    /// Returns whether the peer's window, the Nagle algorithm and the burst limit allow new DATA.
    #[inline(always)]
    pub(crate) fn new_allowed(&mut self, now: Instant) -> bool {
        self.send.new_allowed(&self.config, matches!(self.state, State::Established), now)
    }

    /// Returns whether the first DATA chunk that may be sent fits into `room` bytes.
    pub(super) fn first_chunk_fits(&mut self, allowed: Allowed, room: usize) -> bool {
        if allowed.retransmissions {
            return self.send.next_lost().is_some_and(|(_, entry)| entry.size() as usize <= room);
        }
        allowed.new && self.send.next_new_fits(room)
    }

    pub(super) fn cookie_takes_new(&mut self) -> bool {
        self.send.next_new_fits(usize::MAX) && !self.send.has_lost()
    }

    /// Returns the path for new data. During the handshake this is the path of COOKIE ECHO.
    pub(super) fn data_target(&self) -> usize {
        if matches!(self.state, State::CookieEchoed(_)) {
            self.handshake_path()
        } else {
            self.paths.current()
        }
    }

    /// Returns whether new DATA may follow retransmitted chunks in the same packet on path `index`.
    pub(super) fn follows_new(&mut self, now: Instant, index: usize) -> bool {
        let path = self.paths.get(index);
        !path.sends_one_packet() && self.is_open(index) && self.state.may_send_data() && self.new_allowed(now)
    }

    /// Informs the congestion controller that the application, not the path, limits the rate. Only a controller that
    /// models the path (BBR) needs this information.
    pub(super) fn record_application_limited(&mut self) {
        let index = self.data_target();
        if self.paths.get(index).wants_reports() && self.send.unsent_bytes() == 0 && !self.send.has_lost() {
            self.paths.at(index).on_application_limited();
        }
    }

    /// Records changes of the congestion window, and of the reason why the sender cannot send more, in the trace.
    pub(super) fn record_limit(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.trace.on || !self.state.is_up() {
            return;
        }
        let limit = self.current_limit();
        if self.limit != Some(limit) {
            self.limit = Some(limit);
            ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Limited(limit));
        }
        let window = self.paths.get(self.data_target()).window();
        if self.recorded_window != window {
            self.recorded_window = window;
            ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Window(window));
        }
    }

    fn current_limit(&self) -> Limit {
        if self.send.unsent_bytes() == 0 && !self.send.has_lost() {
            return Limit::Application;
        }
        if self.send.repairs_timeout() {
            return Limit::Timeout;
        }
        if self.send.is_recovering() {
            return Limit::Recovery;
        }
        let cut = self.send.next_cut(usize::MAX);
        if cut.is_some_and(|cut| !self.send.window_takes(cut.length)) {
            return Limit::Receiver;
        }
        if self.paths.get(self.paths.current()).is_full() {
            return Limit::Congestion;
        }
        Limit::Pacing
    }
}
