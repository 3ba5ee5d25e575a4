//! Path MTU discovery of an association: probes, timers, and the effects of a change.
//!
//! `Path` holds the MTU of a path and the state of the search (`path/mtu/`). This module connects them with outstanding
//! data, timers and packets. A probe is a HEARTBEAT followed by a PAD chunk. The loss of a probe indicates neither
//! congestion nor failure of the path.
//!
//! Implements RFC 9260 §7.3 and RFC 8899 §6.2: probes (§6.2.1.2), ICMP messages (§6.2.1.4) and UDP encapsulation
//! (§6.2.2).

use super::timers::Timer;
use super::{Association, Ctx};
use crate::path::heartbeat;
use crate::path::mtu::{MtuChange, Probe, RAISE_TIMER, SearchResult};
use anabranch_wire::sctp::{Heartbeat, Pad, packet};

impl Association {
    /// Starts or resumes the MTU search of a path that has become usable.
    pub(super) fn begin_mtu_search(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.paths.at(index).begin_mtu_search();
        self.searched(ctx, index, SearchResult { change: MtuChange::Same, ended: false });
    }

    /// Suspends the MTU search of a path. Called when the path is not usable, or when the association is ending.
    pub(super) fn stop_mtu_search(&mut self, index: usize) {
        self.timers.stop(Timer::PathMtu(index));
        self.paths.at(index).suspend_mtu_search();
    }

    /// Returns the path on which an MTU probe has to be sent, if there is one.
    pub(super) fn next_mtu_probe(&mut self) -> Option<usize> {
        let found = self.paths.iter().position(|path| path.is_usable() && path.wants_mtu_probe());
        self.outbox.set_mtu_probes(found.is_some());
        found.filter(|_| self.state.may_send_data())
    }

    /// RFC 8899 §6.2.1.2: writes a probe that consists of HEARTBEAT and PAD. The heartbeat information contains the
    /// size of the probe.
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

    /// Handles a HEARTBEAT ACK that answers a probe.
    pub(super) fn on_mtu_probe_ack(&mut self, ctx: &mut Ctx<'_>, index: usize, nonce: u64) {
        if index >= self.paths.len() || !self.state.may_send_data() {
            return;
        }
        if let Some(found) = self.paths.at(index).on_mtu_probe_ack(nonce) {
            self.searched(ctx, index, found);
        }
    }

    /// RFC 8899 §6.2.1.2: handles a PAD chunk, which shows that the peer probes its path MTU. This side assumes that
    /// such a peer accepts packets as large as this side's interface MTU.
    pub(super) fn on_pad(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if self.paths.at(index).on_peer_probes() {
            self.searched(ctx, index, SearchResult { change: MtuChange::Same, ended: false });
        }
    }

    /// Handles the expiration of a path's PROBE_TIMER or PMTU_RAISE_TIMER (RFC 8899 §5.1.1).
    pub(super) fn on_mtu_timer(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if !self.state.may_send_data() {
            return;
        }
        if let Some(found) = self.paths.at(index).on_mtu_timer() {
            self.searched(ctx, index, found);
        }
    }

    /// Handles an ICMP report that a packet was too large. The caller has verified the quoted packet.
    pub(super) fn on_too_big(&mut self, ctx: &mut Ctx<'_>, index: usize, mtu: u32) {
        let found = self.paths.at(index).on_too_big(mtu);
        self.searched(ctx, index, found);
    }

    /// RFC 8899 §4.3: checks for a black hole: packets on the path may be too large to get through. One sign is that
    /// T3-rtx has expired twice for a chunk that was never IP-fragmented. The other sign is that T3-rtx has expired
    /// twice while HEARTBEATs were answered. A wrong suspicion costs two probes.
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

    /// Applies the result of an MTU search to timers and outstanding data.
    fn searched(&mut self, ctx: &mut Ctx<'_>, index: usize, found: SearchResult) {
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
            MtuChange::Same => {}
            MtuChange::Raised => self.set_fragment_size(),
            MtuChange::Reduced => self.shrunk(index),
        }
    }

    /// Handles a reduced path MTU. Chunks in flight that are larger than the new MTU are marked as lost.
    fn shrunk(&mut self, index: usize) {
        self.set_fragment_size();
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
