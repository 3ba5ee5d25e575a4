//! What an association does about path MTUs: probes, timers, and what a change means.
//!
//! The size itself, and the search for it, are the path's (`path/mtu/`); here it
//! meets outstanding data, timers and packets. A probe is a HEARTBEAT with a PAD
//! behind it, whole or not at all; that it is lost says nothing of congestion or
//! of the path's health.
//!
//! Home of RFC 9260 §7.3 and of RFC 8899 §6.2 (SCTP: probes §6.2.1.2, ICMP §6.2.1.4, in UDP §6.2.2).

use super::timers::Timer;
use super::{Association, Ctx};
use crate::path::heartbeat;
use crate::path::mtu::{Change, Found, Probe, RAISE_TIMER};
use anabranch_wire::sctp::{Heartbeat, Pad, packet};

impl Association {
    /// A path can be used: its search begins, or goes on.
    pub(super) fn begin_mtu_search(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.paths.at(index).begin_mtu_search();
        self.searched(ctx, index, Found { change: Change::Same, ended: false });
    }

    /// A path cannot be used, or nothing is sent any more.
    pub(super) fn stop_mtu_search(&mut self, index: usize) {
        self.timers.stop(Timer::PathMtu(index));
        self.paths.at(index).suspend_mtu_search();
    }

    /// The path whose probe is to be sent.
    pub(super) fn next_mtu_probe(&mut self) -> Option<usize> {
        let found = self.paths.iter().position(|path| path.is_usable() && path.wants_mtu_probe());
        self.outbox.set_mtu_probes(found.is_some());
        found.filter(|_| self.state.may_send_data())
    }

    /// RFC 8899 §6.2.1.2: HEARTBEAT and PAD; the heartbeat information tells the probe's size.
    pub(super) fn write_mtu_probe(&mut self, ctx: &mut Ctx<'_>, index: usize, buffer: &mut Vec<u8>) {
        let nonce = self.rng.next_u64();
        let auth = self.extensions.auth_size_of(&[Heartbeat::KIND, Pad::KIND]);
        let path = self.paths.at(index);
        let overhead = path.headers();
        let Some(Probe { size, timeout }) = path.send_mtu_probe(nonce) else {
            return;
        };
        let before = buffer.len();
        let info = heartbeat::write_probe_info(index, nonce, ctx.now, size);
        Heartbeat { info: &info, rest: &[] }.emit(buffer);
        let filled = overhead + packet::HEADER + auth + (buffer.len() - before);
        Pad::emit_zeros((size as usize).saturating_sub(filled).max(Pad::HEADER), buffer);
        self.timers.set(Timer::PathMtu(index), ctx.now + timeout);
    }

    /// A HEARTBEAT ACK that answers a probe.
    pub(super) fn on_mtu_probe_ack(&mut self, ctx: &mut Ctx<'_>, index: usize, nonce: u64) {
        if index >= self.paths.len() || !self.state.may_send_data() {
            return;
        }
        if let Some(found) = self.paths.at(index).on_mtu_probe_ack(nonce) {
            self.searched(ctx, index, found);
        }
    }

    /// RFC 8899 §6.2.1.2: a PAD chunk: the peer searches for its path MTU, and is no program that reads small datagrams alone.
    pub(super) fn on_pad(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if self.paths.at(index).on_peer_probes() {
            self.searched(ctx, index, Found { change: Change::Same, ended: false });
        }
    }

    /// PROBE_TIMER or PMTU_RAISE_TIMER.
    pub(super) fn on_mtu_timer(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if !self.state.may_send_data() {
            return;
        }
        if let Some(found) = self.paths.at(index).on_mtu_timer() {
            self.searched(ctx, index, found);
        }
    }

    /// The network says that a packet of ours was too large (the quote has been verified).
    pub(super) fn on_too_big(&mut self, ctx: &mut Ctx<'_>, index: usize, mtu: u32) {
        let found = self.paths.at(index).on_too_big(mtu);
        self.searched(ctx, index, found);
    }

    /// RFC 8899 §4.3: T3-rtx has run out twice for the same chunk, sent whole each time, or twice while HEARTBEATs were
    /// answered: perhaps it is the size of packets. That costs two probes when it was not.
    #[cold]
    pub(super) fn suspect_black_hole(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let path = self.paths.get(index);
        let limit = path.chunk_limit().saturating_sub(self.extensions.auth_room()) as u64;
        if !path.passes_heartbeats_only() && !self.send.repeats_within(index, limit) {
            return;
        }
        if let Some(found) = self.paths.at(index).on_black_hole() {
            self.searched(ctx, index, found);
        }
    }

    /// What a search has found means for timers and for what is on its way.
    fn searched(&mut self, ctx: &mut Ctx<'_>, index: usize, found: Found) {
        if found.ended {
            self.timers.stop(Timer::PathMtu(index));
        }
        let path = self.paths.get(index);
        if path.wants_mtu_probe() {
            self.outbox.set_mtu_probes(true);
        }
        if path.may_rise() && self.state.may_send_data() {
            self.timers.set(Timer::PathMtu(index), ctx.now + RAISE_TIMER);
        }
        match found.change {
            Change::Same => {}
            Change::Raised => self.measure(),
            Change::Reduced => self.shrunk(index),
        }
    }

    /// A path takes less than was thought: what is on its way and too large is lost.
    fn shrunk(&mut self, index: usize) {
        self.measure();
        let largest = (self.paths.get(index).chunk_limit() - self.send.chunk_header())
            .saturating_sub(self.extensions.auth_room()) as u32;
        let flight = self.send.lose_larger(index, largest);
        let path = self.paths.at(index);
        path.lose(flight);
        path.set_earliest(self.send.earliest_on(index).unwrap_or(u64::MAX));
        if path.flight() == 0 {
            self.timers.stop(Timer::T3Rtx(index));
        }
    }
}
