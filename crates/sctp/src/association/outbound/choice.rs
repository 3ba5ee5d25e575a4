//! Which packet next, where to, and what holds one back.
//!
//! Owns the order of jobs and the permissions: windows, bursts, Nagle. Decides
//! and writes nothing.
//!
//! Home of RFC 9260 §6.1 (rules B and C; A and D are `send/permission.rs`); the choice of a path (§6.4) is `path/select.rs`.

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
        // A SHUTDOWN acknowledges too, so it goes before a SACK that may not be needed any more.
        if self.outbox.wants_shutdown() {
            return Some(Job::Shutdown(self.shutdown_path()));
        }
        self.recv.sack_due().then(|| Job::Sack(self.sack_path()))
    }

    /// What goes before DATA.
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
                // RFC 9260 §5.1 C: nothing but COOKIE ECHO until it is answered. §8.3: and HEARTBEAT ACK: who sends a
                // HEARTBEAT has taken the cookie, and waits for that.
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
            match self.asconf_turn() {
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

    /// RFC 9260 §6.4: where SACKs go.
    #[inline]
    pub(crate) fn sack_path(&self) -> usize {
        // RFC 9260 §6.4: a duplicate hints that the last SACK went the wrong way.
        let elsewhere = self.config.sack_path == SackPath::Other && !self.recv.has_duplicates();
        self.paths.for_sack(elsewhere)
    }

    /// RFC 9260 §6.4, §6.4.1: where a chunk that is marked goes.
    #[cold]
    fn retransmission_path(&self, last: usize, cause: SendCause, length: u32) -> usize {
        let path = self.paths.for_retransmission(self.config.rtx_path, last, cause);
        if length <= self.send.largest() {
            return path;
        }
        let size = self.send.chunk_header() + (length as usize).next_multiple_of(4);
        self.paths.wide_enough(path, size)
    }

    /// The path that DATA can go to now, and which.
    #[inline]
    pub(super) fn data_path(&mut self, now: Instant) -> Option<(usize, Allowed)> {
        let found = self.open_path(now)?;
        if self.paths.get(found.0).is_paced() && self.is_held(now, found.0) { None } else { Some(found) }
    }

    /// By its pace the next packet to a path has to wait.
    #[cold]
    fn is_held(&mut self, now: Instant, index: usize) -> bool {
        let end = self.send.end();
        let Some(at) = self.paths.at(index).hold_back(now, end) else { return false };
        self.timers.set(Timer::Pace(index), at);
        true
    }

    /// RFC 8985 §7.3: new data may go to this path, but for the congestion window.
    pub(in crate::association) fn takes_new_on(&mut self, now: Instant, index: usize) -> bool {
        index == self.data_target() && self.send.unsent_bytes() > 0 && self.new_allowed(now)
    }

    #[inline]
    fn open_path(&mut self, now: Instant) -> Option<(usize, Allowed)> {
        if !self.state.may_send_data() {
            return None;
        }
        if self.send.has_lost() {
            return self.data_path_again(now);
        }
        if self.send.unsent_bytes() == 0 {
            return None;
        }
        let current = self.paths.current();
        let new = self.is_open(current) && self.new_allowed(now);
        new.then_some((current, Allowed { again: false, new }))
    }

    /// As [`data_path`](Self::data_path), with something marked for retransmission.
    #[cold]
    fn data_path_again(&mut self, now: Instant) -> Option<(usize, Allowed)> {
        if let Some((.., path)) = self.next_again() {
            let allowed = self.allowed(now, path);
            if allowed.again {
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

    /// The congestion window of a path is open.
    #[inline(always)]
    pub(crate) fn is_open(&self, index: usize) -> bool {
        self.paths.get(index).is_open(|| self.send.is_recovering())
    }

    /// The lowest chunk to be retransmitted, and where to.
    #[inline]
    pub(super) fn next_again(&mut self) -> Option<(u64, Entry, usize)> {
        let (offset, entry) = self.send.next_lost()?;
        let ChunkState::Lost(cause) = entry.state else {
            return None;
        };
        let path = self.retransmission_path(usize::from(entry.path), cause, entry.length.into());
        Some((offset, entry, path))
    }

    /// What may start a packet with DATA to `index`.
    fn allowed(&mut self, now: Instant, index: usize) -> Allowed {
        let marked = self.next_again().is_some_and(|(.., path)| path == index);
        let open = self.is_open(index);
        // RFC 9260 §7.2.4: fast retransmit has one packet regardless of the window.
        let again = marked && (open || self.send.has_free_packet());
        // RFC 9260 §6.1 C: what is marked goes first.
        let new = open && !marked && self.new_allowed(now);
        Allowed { again, new }
    }

    /// New DATA may go, as far as the peer's window, Nagle and bursts are concerned.
    #[inline(always)]
    pub(crate) fn new_allowed(&mut self, now: Instant) -> bool {
        self.send.new_allowed(&self.config, matches!(self.state, State::Established), now)
    }

    /// The first chunk of a packet with the DATA that is allowed fits into `room` bytes.
    pub(super) fn first_chunk_fits(&mut self, allowed: Allowed, room: usize) -> bool {
        if allowed.again {
            return self.send.next_lost().is_some_and(|(_, entry)| entry.size() as usize <= room);
        }
        allowed.new && self.send.next_new_fits(room)
    }

    pub(super) fn cookie_takes_new(&mut self) -> bool {
        self.send.next_new_fits(usize::MAX) && !self.send.has_lost()
    }

    /// The path new data goes to: the one of the handshake until it is over.
    pub(super) fn data_target(&self) -> usize {
        if matches!(self.state, State::CookieEchoed(_)) {
            self.handshake_path()
        } else {
            self.paths.current()
        }
    }

    /// New DATA may fill up a packet of retransmissions.
    pub(super) fn follows_new(&mut self, now: Instant, index: usize) -> bool {
        let path = self.paths.get(index);
        !path.sends_one_packet() && self.is_open(index) && self.state.may_send_data() && self.new_allowed(now)
    }

    /// Nothing is left to be sent: a controller that models the path learns that it is not the path that holds back.
    pub(super) fn record_rest(&mut self) {
        let index = self.data_target();
        if self.paths.get(index).wants_reports() && self.send.unsent_bytes() == 0 && !self.send.has_lost() {
            self.paths.at(index).on_application_limited();
        }
    }

    /// Tells the trace what holds the sender back, and its congestion window, when that has changed.
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
        if self.window_told != window {
            self.window_told = window;
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
