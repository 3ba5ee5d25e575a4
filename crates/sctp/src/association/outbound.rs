//! The only builder of an association's packets.
//!
//! Handlers have marked what is wanted; here it becomes packets when polled:
//! which destination, which chunks in which order, how much fits, what the
//! windows allow. The one place that counts, times and traces what is sent.
//!
//! Home of RFC 9260 §6.1 and §6.10.

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::config::{RetransmitPath, SackPath};
use crate::path::heartbeat;
use crate::send::chunk_size;
use crate::send::outstanding::{ChunkState, Entry};
use anabranch_base::trace::{Limit, SendCause, TraceEvent};
use anabranch_base::{Batch, Ecn, Instant};
use anabranch_congestion::Controller;
use anabranch_wire::sctp::{
    CookieAck, CookieEcho, Cwr, Data, Ecne, Heartbeat, Shutdown, ShutdownAck, Ssn, Tsn, packet,
};
use std::collections::VecDeque;

/// Control chunks that are wanted.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(super) init: bool,
    pub(super) cookie_echo: bool,
    /// Where INIT and COOKIE ECHO go.
    pub(super) handshake_path: usize,
    /// When INIT or COOKIE ECHO was last sent, and whether more than once.
    pub(super) handshake_sent: Option<Instant>,
    pub(super) handshake_repeated: bool,
    /// COOKIE ACK, and where to.
    pub(crate) cookie_ack: Option<usize>,
    /// HEARTBEAT ACK chunks, and where to.
    pub(super) heartbeat_acks: VecDeque<(usize, Vec<u8>)>,
    /// ERROR chunks, and where to.
    pub(super) errors: Vec<(usize, Vec<u8>)>,
    pub(super) shutdown: bool,
    pub(super) shutdown_ack: bool,
    /// Where SHUTDOWN and SHUTDOWN ACK go after a timeout.
    pub(super) shutdown_path: Option<usize>,
    pub(super) t2_retries: u32,
}

/// What the next packet is for, and its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    Init(usize),
    CookieEcho(usize),
    Control(usize),
    Data(usize, Allowed),
    Sack(usize),
    Shutdown(usize),
}

impl Job {
    fn path(self) -> usize {
        match self {
            Self::Init(path)
            | Self::CookieEcho(path)
            | Self::Control(path)
            | Self::Data(path, _)
            | Self::Sack(path)
            | Self::Shutdown(path) => path,
        }
    }
}

/// Which DATA may go to a path now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Allowed {
    again: bool,
    new: bool,
}

impl Association {
    /// Appends packets to `out`; false when nothing is to be sent.
    pub(crate) fn poll_transmit(&mut self, ctx: &mut Ctx<'_>, out: &mut Batch, tag: &mut u64) -> bool {
        let Some(mut job) = self.next_job(ctx.now) else {
            self.note_limit(ctx);
            return false;
        };
        let index = job.path();
        let path = self.paths.get(index);
        out.source = path.source;
        out.target = path.address;
        out.ecn = if self.ecn.on && matches!(job, Job::Data(..)) { Ecn::Ect0 } else { Ecn::NotEct };
        out.first_tag = *tag;
        let mut limit = path.packet_limit();
        loop {
            let bytes = out.push_with(|buffer| {
                let before = buffer.len();
                self.write_packet(ctx, job, limit, buffer, *tag);
                buffer.len() - before
            });
            assert!(bytes > packet::HEADER, "a packet without chunks");
            *tag += 1;
            self.stats.packets_sent += 1;
            self.stats.bytes_sent += bytes as u64;
            let path = self.paths.at(index);
            path.stats.packets_sent += 1;
            path.stats.bytes_sent += bytes as u64;
            if !out.has_room() {
                return true;
            }
            // More of the same: DATA to the same path that fits the size of the batch.
            limit = limit.min(out.stride());
            match self.next_job(ctx.now) {
                Some(next @ Job::Data(path, allowed))
                    if path == index
                        && out.ecn == if self.ecn.on { Ecn::Ect0 } else { Ecn::NotEct }
                        && !self.recv.sack_pending()
                        && self.ecn.reduced.is_none()
                        && self.first_chunk_fits(allowed, limit - packet::HEADER) =>
                {
                    job = next;
                }
                _ => return true,
            }
        }
    }

    fn next_job(&mut self, now: Instant) -> Option<Job> {
        match self.state {
            State::CookieWait(_) => return self.outbox.init.then_some(Job::Init(self.outbox.handshake_path)),
            State::CookieEchoed(_) => {
                // RFC 9260 §5.1 C: nothing but COOKIE ECHO until it is answered.
                return self.outbox.cookie_echo.then_some(Job::CookieEcho(self.outbox.handshake_path));
            }
            State::Closed => return None,
            _ => {}
        }
        if let Some(path) = self.outbox.cookie_ack {
            return Some(Job::Control(path));
        }
        if let Some(&(path, _)) = self.outbox.errors.first() {
            return Some(Job::Control(path));
        }
        if let Some(&(path, _)) = self.outbox.heartbeat_acks.front() {
            return Some(Job::Control(path));
        }
        if let Some(path) = self.paths.iter().position(|path| path.heartbeat.wanted) {
            return Some(Job::Control(path));
        }
        if let Some((path, allowed)) = self.data_path(now) {
            return Some(Job::Data(path, allowed));
        }
        // A SHUTDOWN acknowledges too, so it goes before a SACK that may not be needed any more.
        if self.outbox.shutdown || self.outbox.shutdown_ack {
            return Some(Job::Shutdown(self.outbox.shutdown_path.unwrap_or(self.paths.current())));
        }
        self.recv.sack_due().then(|| Job::Sack(self.sack_path()))
    }

    /// RFC 9260 §6.4: where SACKs go.
    fn sack_path(&self) -> usize {
        let same = self.data_from;
        match self.config.sack_path {
            // RFC 9260 §6.4: a duplicate hints that the last SACK went the wrong way.
            SackPath::Other if !self.recv.has_duplicates() => self.paths.alternate(same).unwrap_or(same),
            // RFC 9260 §5.4: nothing but HEARTBEATs to what is not verified.
            _ if self.paths.get(same).confirmed => same,
            _ => self.paths.current(),
        }
    }

    /// RFC 9260 §6.4, §6.4.1: where a chunk that is marked goes.
    #[cold]
    fn retransmission_path(&self, last: usize, cause: SendCause, length: u32) -> usize {
        let move_away = match self.config.rtx_path {
            RetransmitPath::Same => false,
            RetransmitPath::Timeout => cause != SendCause::Fast,
            RetransmitPath::All => true,
        };
        let path = match move_away.then(|| self.paths.alternate(last)).flatten() {
            Some(other) => other,
            _ if self.paths.get(last).is_usable() => last,
            _ => self.paths.current(),
        };
        if length <= self.largest { path } else { self.wide_path(path, length) }
    }

    /// RFC 9260 §6.9: a chunk that was cut before a path MTU shrank cannot be cut again, and nobody
    /// here fragments IP packets: it goes where a packet takes it whole, if there is such a path.
    #[cold]
    fn wide_path(&self, path: usize, length: u32) -> usize {
        let n = self.paths.len();
        let takes = |&path: &usize| {
            let path = self.paths.get(path);
            path.is_usable() && path.chunk_limit() as u64 >= chunk_size(length)
        };
        (0..n).map(|step| (path + step) % n).find(takes).unwrap_or(path)
    }

    /// The path that DATA can go to now, and which.
    #[inline]
    fn data_path(&mut self, now: Instant) -> Option<(usize, Allowed)> {
        if !self.state.may_send_data() {
            return None;
        }
        if let Some((_, path)) = self.next_again() {
            let allowed = self.allowed(now, path);
            if allowed.again {
                return Some((path, allowed));
            }
        }
        if self.send.queue.unsent_bytes() == 0 {
            return None;
        }
        let current = self.paths.current();
        let allowed = self.allowed(now, current);
        allowed.new.then_some((current, allowed))
    }

    /// The lowest chunk to be sent again, and where to.
    #[inline]
    fn next_again(&mut self) -> Option<(u64, usize)> {
        let offset = self.send.outstanding.next_lost()?;
        let entry = self.send.outstanding.get(offset)?;
        let ChunkState::Lost(cause) = entry.state else {
            return None;
        };
        Some((offset, self.retransmission_path(usize::from(entry.path), cause, entry.length)))
    }

    /// What may start a packet with DATA to `index`.
    #[inline]
    fn allowed(&mut self, now: Instant, index: usize) -> Allowed {
        let again_here = self.next_again();
        let path = self.paths.get(index);
        // RFC 9260 §7.2.3: after a timeout one packet, until something is acknowledged.
        let blocked = path.one_packet && path.flight > 0;
        // RFC 9260 §6.1 B: while the flight is below cwnd a whole packet may go.
        let open = path.flight < path.congestion.window() && !blocked;
        let again =
            again_here.is_some_and(|(_, path)| path == index) && (open || self.send.recovery.free_packet);
        // RFC 9260 §6.1 C: what is marked goes first.
        let waits_behind = again_here.is_some_and(|(_, path)| path == index);
        let new = open && !waits_behind && self.new_allowed(now);
        Allowed { again, new }
    }

    /// New DATA may go, as far as the peer's window, Nagle and bursts are concerned.
    #[inline]
    fn new_allowed(&mut self, now: Instant) -> bool {
        if self.send.outstanding.is_full() {
            return false;
        }
        let Some(cut) = self.send.queue.next_cut(self.largest, usize::MAX) else {
            return false;
        };
        self.window_takes(cut.length) && !self.is_held_back() && self.burst_allows(now)
    }

    /// RFC 9260 §6.1 A: the peer has room, or this is a probe.
    #[inline]
    fn window_takes(&self, length: u32) -> bool {
        u64::from(length) <= self.send.peer_window
            || self.send.probing.is_some_and(|probing| probing.allowed) && self.send.outstanding.is_empty()
    }

    /// Nagle's rule: a packet that is not full waits while anything is unacknowledged.
    #[inline]
    fn is_held_back(&self) -> bool {
        self.config.nagle
            && matches!(self.state, State::Established)
            && !self.send.outstanding.is_empty()
            && self.send.queue.unsent_bytes() < u64::from(self.largest)
    }

    /// RFC 9260 §6.1 D: Max.Burst packets at one instant.
    #[inline]
    fn burst_allows(&mut self, now: Instant) -> bool {
        let Some(most) = self.config.max_burst else {
            return true;
        };
        if self.burst_at != now {
            self.burst_at = now;
            self.burst_left = most;
        }
        self.burst_left > 0
    }

    /// The first chunk of a packet with the DATA that is allowed fits into `room` bytes.
    fn first_chunk_fits(&mut self, allowed: Allowed, room: usize) -> bool {
        if allowed.again {
            let entry =
                self.send.outstanding.next_lost().and_then(|offset| self.send.outstanding.get(offset));
            return entry.is_some_and(|entry| chunk_size(entry.length) as usize <= room);
        }
        allowed.new
            && self.send.queue.next_cut(self.largest, room).is_some_and(|cut| self.window_takes(cut.length))
    }

    /// Writes one packet of at most `limit` bytes (more only for a chunk that
    /// cannot be cut again).
    fn write_packet(&mut self, ctx: &mut Ctx<'_>, job: Job, limit: usize, buffer: &mut Vec<u8>, tag: u64) {
        let verification = if matches!(job, Job::Init(_)) { 0 } else { self.peer_tag };
        let start = packet::begin(buffer, self.local_port, self.peer_port, verification);
        let end = start + limit;
        match job {
            Job::Init(path) => {
                self.write_init(ctx, buffer);
                self.init_sent(ctx, path);
            }
            Job::CookieEcho(path) => self.write_cookie_echo(ctx, path, end, buffer, tag),
            Job::Shutdown(path) => self.write_shutdown(ctx, path, end, buffer),
            Job::Control(path) => {
                self.write_control(ctx, path, end, buffer);
                let allowed =
                    self.data_path(ctx.now).filter(|&(target, _)| target == path).map(|(_, allowed)| allowed);
                self.write_sack_and_data(ctx, path, end, buffer, tag, allowed);
            }
            Job::Data(path, allowed) => {
                self.write_sack_and_data(ctx, path, end, buffer, tag, Some(allowed));
            }
            Job::Sack(path) => self.write_sack(end, buffer, path),
        }
        packet::finish(buffer, start);
    }

    fn write_cookie_echo(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
    ) {
        if let State::CookieEchoed(echo) = &self.state {
            CookieEcho { cookie: &echo.cookie }.emit(buffer);
        }
        // RFC 9260 §5.4: to an unverified address only with a HEARTBEAT.
        if !self.paths.get(index).confirmed {
            self.write_heartbeat(ctx, index, buffer);
        }
        // RFC 9260 §3.3.10 allows ERROR with it: what the INIT ACK held that we do not know.
        self.write_errors(index, end, buffer, false);
        // RFC 9260 §5.1 C: DATA may ride along.
        if self.config.cookie_data && self.paths.get(index).confirmed {
            let open = self.paths.get(index).flight == 0;
            let allowed = Allowed { again: open, new: open && self.cookie_takes_new() };
            self.write_data(ctx, index, end, buffer, tag, allowed);
        }
        self.cookie_echo_sent(ctx, index);
    }

    fn cookie_takes_new(&mut self) -> bool {
        self.send.queue.next_cut(self.largest, usize::MAX).is_some_and(|cut| self.window_takes(cut.length))
            && !self.send.outstanding.has_lost()
    }

    fn write_shutdown(&mut self, ctx: &mut Ctx<'_>, index: usize, end: usize, buffer: &mut Vec<u8>) {
        if matches!(self.state, State::ShutdownAckSent) {
            ShutdownAck.emit(buffer);
        } else {
            // RFC 9260 §9.2: gaps need a SACK beside it.
            if self.recv.needs_sack_beside_shutdown() {
                self.emit_sack(end.saturating_sub(8), buffer);
            }
            Shutdown { cumulative: self.recv.cumulative() }.emit(buffer);
            self.recv.sack_done();
            self.timers.stop(Timer::Sack);
        }
        self.shutdown_sent(ctx, index);
    }

    /// Control chunks for `index`, in front of all others.
    #[cold]
    fn write_control(&mut self, ctx: &mut Ctx<'_>, index: usize, end: usize, buffer: &mut Vec<u8>) {
        let begin = buffer.len();
        if self.outbox.cookie_ack == Some(index) {
            // RFC 9260 §5.1 D: COOKIE ACK is the first chunk.
            self.outbox.cookie_ack = None;
            CookieAck.emit(buffer);
            if !self.paths.get(index).confirmed {
                // RFC 9260 §5.4: never without it.
                self.write_heartbeat(ctx, index, buffer);
            }
        }
        self.write_errors(index, end, buffer, buffer.len() == begin);
        // It came in a packet, so it fits one, unless the way back is narrower.
        let alone = &mut (buffer.len() == begin);
        while let Some((path, chunk)) = self.outbox.heartbeat_acks.front() {
            let fits = buffer.len() + chunk.len() <= end;
            if *path != index || !(fits || *alone) {
                break;
            }
            *alone = false;
            buffer.extend_from_slice(chunk);
            self.outbox.heartbeat_acks.pop_front();
        }
        if self.paths.get(index).heartbeat.wanted && buffer.len() + 8 + heartbeat::INFO <= end {
            self.write_heartbeat(ctx, index, buffer);
        }
    }

    fn write_errors(&mut self, index: usize, end: usize, buffer: &mut Vec<u8>, alone: bool) {
        let mut alone = alone;
        while let Some((path, bytes)) = self.outbox.errors.first() {
            let room = end.saturating_sub(buffer.len());
            if *path != index || (!alone && bytes.len() > room) {
                break;
            }
            let start = buffer.len();
            buffer.extend_from_slice(bytes);
            if bytes.len() > room {
                // It quotes more than this path takes: the quote ends early, and so says its length.
                buffer.truncate(start + (room & !3));
                let chunk = (buffer.len() - start) as u16;
                buffer[start + 2..start + 4].copy_from_slice(&chunk.to_be_bytes());
                buffer[start + 6..start + 8].copy_from_slice(&(chunk - 4).to_be_bytes());
            }
            alone = false;
            self.outbox.errors.remove(0);
        }
    }

    fn write_heartbeat(&mut self, ctx: &mut Ctx<'_>, index: usize, buffer: &mut Vec<u8>) {
        let nonce = self.rng.next_u64();
        let info = heartbeat::write_info(index, nonce, ctx.now);
        Heartbeat { info: &info, rest: &[] }.emit(buffer);
        self.heartbeat_sent(ctx, index, nonce);
    }

    /// A SACK alone, and what belongs to it.
    fn write_sack(&mut self, end: usize, buffer: &mut Vec<u8>, index: usize) {
        let _ = index;
        self.write_ecn(buffer);
        self.emit_sack(end, buffer);
    }

    fn emit_sack(&mut self, end: usize, buffer: &mut Vec<u8>) {
        let room = end.saturating_sub(buffer.len());
        self.recv.emit_sack(buffer, room);
        self.timers.stop(Timer::Sack);
        self.stats.sacks_sent += 1;
    }

    /// RFC 4960 Appendix A: the echo until it is answered, and the answer.
    fn write_ecn(&mut self, buffer: &mut Vec<u8>) {
        if let Some(tsn) = self.ecn.echo {
            Ecne { tsn: Tsn(tsn) }.emit(buffer);
        }
        if let Some(tsn) = self.ecn.reduced.take() {
            Cwr { tsn: Tsn(tsn) }.emit(buffer);
        }
    }

    /// A SACK if one is due, or one that rides with DATA; then DATA.
    fn write_sack_and_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
        allowed: Option<Allowed>,
    ) {
        // A SACK must leave room for the DATA it rides with; one that is due goes first, alone.
        if self.recv.sack_pending() && self.sack_path() == index {
            let ecn =
                if self.ecn.echo.is_some() { 8 } else { 0 } + if self.ecn.reduced.is_some() { 8 } else { 0 };
            let size = self.recv.sack_size() + ecn;
            let room = end.saturating_sub(buffer.len());
            let together =
                size < room && allowed.is_some_and(|allowed| self.first_chunk_fits(allowed, room - size));
            if together {
                self.write_ecn(buffer);
                self.emit_sack(end, buffer);
            } else if self.recv.sack_due() && room > size.min(64) + ecn {
                self.write_ecn(buffer);
                self.emit_sack(end, buffer);
                return;
            }
        } else if self.ecn.reduced.is_some()
            && let Some(allowed) = allowed
        {
            let room = end.saturating_sub(buffer.len());
            if room > 8 && self.first_chunk_fits(allowed, room - 8) {
                self.write_ecn(buffer);
            }
        }
        if let Some(allowed) = allowed {
            self.write_data(ctx, index, end, buffer, tag, allowed);
        }
    }

    /// DATA chunks: what is marked first, then new.
    fn write_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
        allowed: Allowed,
    ) {
        if !allowed.again && !allowed.new {
            return;
        }
        self.account_idle(ctx.now, index);
        let mut repeated = false;
        let mut fresh = false;
        let begin = buffer.len();
        let mut written = 0_u64;
        if allowed.again {
            while let Some((offset, path)) = self.next_again() {
                let Some(&entry) = self.send.outstanding.get(offset) else {
                    break;
                };
                let fits = buffer.len() + chunk_size(entry.length) as usize <= end;
                // A chunk cut for a larger MTU goes out whole, alone (RFC 9260 §6.9).
                let oversize = buffer.len() == begin
                    && chunk_size(entry.length) as usize > self.paths.get(index).chunk_limit();
                if path != index || !(fits || oversize) {
                    break;
                }
                self.write_again(ctx, index, offset, entry, buffer, tag);
                repeated = true;
                written += 1;
            }
        }
        let more_marked = self.send.outstanding.has_lost() && allowed.again;
        if (allowed.new || allowed.again && !more_marked && self.follows_new(ctx.now, index))
            && index == self.data_target()
        {
            while !self.send.outstanding.is_full() {
                let room = end.saturating_sub(buffer.len());
                if room <= Data::HEADER {
                    break;
                }
                let Some(cut) = self.send.queue.next_cut(self.largest, room) else {
                    break;
                };
                if !self.window_takes(cut.length) {
                    break;
                }
                self.write_new(ctx, index, cut, buffer, tag);
                fresh = true;
                written += 1;
            }
        }
        if written == 0 {
            return;
        }
        if repeated {
            self.stats.packets_retransmitted += 1;
            self.send.recovery.free_packet = false;
        }
        if fresh {
            self.burst_left = self.burst_left.saturating_sub(1);
            self.paths.at(index).last_used = ctx.now;
        }
        self.paths.at(index).last_data = Some(ctx.now);
    }

    /// The path new data goes to: the one of the handshake until it is over.
    fn data_target(&self) -> usize {
        if matches!(self.state, State::CookieEchoed(_)) {
            self.outbox.handshake_path
        } else {
            self.paths.current()
        }
    }

    /// New DATA may fill up a packet of retransmissions.
    fn follows_new(&mut self, now: Instant, index: usize) -> bool {
        let path = self.paths.get(index);
        path.flight < path.congestion.window()
            && !path.one_packet
            && self.state.may_send_data()
            && self.new_allowed(now)
    }

    fn write_new(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        cut: crate::send::queue::Cut,
        buffer: &mut Vec<u8>,
        tag: u64,
    ) {
        let offset = self.send.outstanding.end();
        let message = self.send.queue.message(cut.message);
        let last = cut.offset + cut.length == message.payload.len() as u32;
        // RFC 9260 §6.1: the SACK is wanted at once where the application says so, and at the
        // end of what a shutdown waits for.
        let closing = matches!(self.state, State::ShutdownPending)
            && self.send.queue.unsent_bytes() == u64::from(cut.length);
        let data = Data {
            immediate: last && (message.immediate || closing),
            unordered: message.unordered,
            begin: cut.offset == 0,
            end: last,
            tsn: Tsn(self.send.outstanding.tsn(offset)),
            stream: message.stream,
            ssn: Ssn(message.ssn),
            ppid: message.ppid,
            payload: &message.payload[cut.offset as usize..(cut.offset + cut.length) as usize],
        };
        data.emit(buffer);
        let (stream, from) = (message.stream, message.begins + u64::from(cut.offset));
        let probing = self.send.probing.is_some_and(|probing| probing.allowed)
            && u64::from(cut.length) > self.send.peer_window;
        let cause = if probing { SendCause::Probe } else { SendCause::New };
        if probing && let Some(state) = &mut self.send.probing {
            state.allowed = false;
            state.answered = false;
            state.sent += 1;
        }
        self.send.queue.commit(cut);
        self.send.outstanding.push(Entry {
            sent_at: ctx.now,
            message: cut.message,
            offset: cut.offset,
            length: cut.length,
            state: ChunkState::InFlight,
            path: index as u8,
            misses: 0,
            fast: false,
            again: false,
        });
        let path = self.paths.at(index);
        if path.timed.is_none() {
            // RFC 9260 §6.3.1 C4: one measurement at a time.
            path.timed = Some((offset, ctx.now));
        }
        self.count_sent(ctx, index, offset, cut.length, stream, from, tag, cause, false);
    }

    #[cold]
    fn write_again(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        offset: u64,
        entry: Entry,
        buffer: &mut Vec<u8>,
        tag: u64,
    ) {
        let ChunkState::Lost(cause) = entry.state else {
            return;
        };
        let message = self.send.queue.message(entry.message);
        let data = Data {
            immediate: message.immediate && entry.offset + entry.length == message.payload.len() as u32,
            unordered: message.unordered,
            begin: entry.offset == 0,
            end: entry.offset + entry.length == message.payload.len() as u32,
            tsn: Tsn(self.send.outstanding.tsn(offset)),
            stream: message.stream,
            ssn: Ssn(message.ssn),
            ppid: message.ppid,
            payload: &message.payload[entry.offset as usize..(entry.offset + entry.length) as usize],
        };
        data.emit(buffer);
        let (stream, from) = (message.stream, message.begins + u64::from(entry.offset));
        self.send.outstanding.set(offset, ChunkState::InFlight);
        if let Some(entry) = self.send.outstanding.at(offset) {
            entry.sent_at = ctx.now;
            entry.path = index as u8;
            entry.again = true;
        }
        self.send.outstanding.note_repeated(offset);
        // RFC 9260 §6.3.1 C5 (Karn): what was sent twice measures nothing, nor does what was first
        // sent after it and may have waited for it.
        for path in 0..self.paths.len() {
            let path = self.paths.at(path);
            if path.timed.is_some_and(|(timed, _)| timed >= offset) {
                path.timed = None;
            }
        }
        match cause {
            SendCause::Fast => self.stats.retransmitted_fast += 1,
            _ => self.stats.retransmitted_timeout += 1,
        }
        self.paths.at(index).stats.retransmitted += 1;
        let same_path = usize::from(entry.path) == index;
        self.count_sent(ctx, index, offset, entry.length, stream, from, tag, cause, same_path);
    }

    /// Windows, timer, counters and trace of a chunk that was written.
    #[expect(
        clippy::too_many_arguments,
        reason = "they describe one chunk, and a struct of them would be read once"
    )]
    #[inline]
    fn count_sent(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        offset: u64,
        length: u32,
        stream: u16,
        from: u64,
        packet: u64,
        cause: SendCause,
        same_path: bool,
    ) {
        // RFC 9260 §6.2.1 B.
        self.send.peer_window = self.send.peer_window.saturating_sub(u64::from(length));
        let path = self.paths.at(index);
        let idle = path.flight == 0;
        path.flight += chunk_size(length);
        let timer = Timer::T3Rtx(index);
        // RFC 9260 §6.3.2 R1, §6.1: start it, or restart it when the earliest that was sent to this
        // address is sent there again; not for a chunk that moves here from another address.
        let earliest_again = same_path && !idle && offset <= path.earliest;
        if idle || offset < path.earliest {
            path.earliest = offset;
        }
        if earliest_again || !self.timers.is_set(timer) {
            self.timers.set(timer, ctx.now + path.rto());
        }
        self.stats.data_sent += 1;
        self.stats.data_bytes_sent += u64::from(length);
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Sent {
            units: offset..offset + 1,
            stream,
            bytes: from..from + u64::from(length),
            packet,
            cause,
        });
    }

    /// Tells the trace what holds the sender back, when that has changed.
    fn note_limit(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.trace.on || !self.state.is_up() {
            return;
        }
        let limit = self.current_limit(ctx.now);
        if self.limit != Some(limit) {
            self.limit = Some(limit);
            ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Limited(limit));
        }
    }

    fn current_limit(&mut self, now: Instant) -> Limit {
        if self.send.queue.unsent_bytes() == 0 && !self.send.outstanding.has_lost() {
            return Limit::Application;
        }
        if self.send.recovery.timeout_exit.is_some() {
            return Limit::Timeout;
        }
        if self.send.recovery.exit.is_some() {
            return Limit::Recovery;
        }
        let cut = self.send.queue.next_cut(self.largest, usize::MAX);
        if cut.is_some_and(|cut| !self.window_takes(cut.length)) {
            return Limit::Receiver;
        }
        let path = self.paths.get(self.paths.current());
        if path.flight >= path.congestion.window() {
            return Limit::Congestion;
        }
        let _ = now;
        Limit::Pacing
    }
}
