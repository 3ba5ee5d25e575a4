//! Dispatches each arriving segment to a connection or a listener, drops it, or answers it with a reset.
//!
//! This module has no state of its own. The endpoint owns the ports and the connections.
//!
//! Implements RFC 9293 §3.10.7.1 and §3.10.7.2 (CLOSED, LISTEN), and RFC 6191 (TIME-WAIT reuse).

use super::Endpoint;
use super::demux::FourTuple;
use crate::config::SynCookies;
use crate::conn::{Connection, Reply};
use crate::state::State;
use anabranch_base::{Instant, Packet, RecvBatch};
use anabranch_wire::tcp::{Flags, Segment, is_intact};
use std::net::SocketAddr;

impl Endpoint {
    /// Handles a segment for an existing connection.
    #[inline]
    pub(super) fn on_segment_for(
        &mut self,
        now: Instant,
        slot: u32,
        segment: &Segment<'_>,
        packet: &Packet<'_>,
    ) {
        let Some(connection) = &mut self.slots[slot as usize].connection else { return };
        let half_open = connection.is_passive() && connection.state() == State::SynReceived;
        let port = connection.local.port();
        if half_open
            && segment.header.flags.has(Flags::ACK)
            && !segment.header.flags.has(Flags::RST)
            && !self.listeners.can_accept_open(port)
        {
            self.dropped.backlog += 1;
            if !self.listeners.is_open(port) {
                connection.abort(now, &mut self.out);
                self.after(now, slot);
            }
            // The listener's backlog has no room, so the ACK is dropped, and the connection stays half-open. The peer
            // considers the connection open. When we repeat the SYN-ACK, the peer repeats its ACK.
            return;
        }
        connection.on_segment(now, segment, packet.ecn, packet.tag, &mut self.out);
        if half_open && connection.state() != State::SynReceived {
            let opened = connection.state().is_synchronized();
            self.listeners.on_not_half_open(port, opened);
        }
        self.after(now, slot);
    }

    /// Handles the only packet of a batch.
    #[cold]
    pub(super) fn take_only(&mut self, now: Instant, batch: &mut RecvBatch) {
        batch.join();
        if let Some(packet) = batch.only() {
            self.take_any(now, packet, batch.intact);
        }
    }

    #[inline(never)]
    pub(super) fn take_any(&mut self, now: Instant, packet: Packet<'_>, intact: bool) {
        let (source, target) = (packet.source.ip(), packet.target.ip());
        let mut segment = Segment::default();
        if segment.read(packet.payload).is_err() {
            self.dropped.malformed += 1;
            return;
        }
        if !intact && !is_intact(packet.payload, source, target) {
            self.dropped.checksum += 1;
            return;
        }
        let ends = FourTuple {
            local: SocketAddr::new(target, segment.header.target_port),
            remote: SocketAddr::new(source, segment.header.source_port),
        };
        match self.demux.find(&ends) {
            Some(slot) if !self.accepts_new_incarnation(now, slot, &segment) => {
                self.on_segment_for(now, slot, &segment, &packet);
            }
            _ => self.on_unmatched_segment(now, ends, &segment, &packet),
        }
    }

    /// Handles a segment that belongs to no connection. Either a listener accepts it, or it is stray.
    fn on_unmatched_segment(
        &mut self,
        now: Instant,
        ends: FourTuple,
        segment: &Segment<'_>,
        packet: &Packet<'_>,
    ) {
        let flags = segment.header.flags;
        // RFC 9293 §3.10.7.1, §3.10.7.2: a reset is never answered.
        if flags.has(Flags::RST) {
            self.dropped.stray += 1;
            return;
        }
        let listens = self.listeners.is_open(ends.local.port());
        if listens && self.open_by_cookie(now, ends, segment, packet) {
            return;
        }
        if !listens || flags.has(Flags::ACK) {
            self.dropped.stray += 1;
            self.out.reply(Reply::reset_for(ends.local, ends.remote, segment));
            return;
        }
        if !flags.has(Flags::SYN) {
            self.dropped.stray += 1;
            return;
        }
        let full = !self.listeners.can_accept_syn(ends.local.port());
        if self.config.syncookies != SynCookies::No && self.answer_by_cookie(now, ends, &segment.header, full)
        {
            return;
        }
        if full {
            self.dropped.backlog += 1;
            return;
        }
        self.listeners.on_half_open(ends.local.port());
        let init = self.tcb_init(now, ends);
        let slot = init.id.slot;
        self.insert(slot, ends, Connection::accept(now, init, &segment.header));
        self.after(now, slot);
    }

    /// RFC 9293 §3.6.1, RFC 6191: ends TIME-WAIT if the segment is a SYN that opens a new connection. Returns whether
    /// TIME-WAIT has ended.
    fn accepts_new_incarnation(&mut self, now: Instant, slot: u32, segment: &Segment<'_>) -> bool {
        let Some(connection) = &mut self.slots[slot as usize].connection else { return false };
        let fresh = connection.state() == State::TimeWait
            && segment.header.flags.has(Flags::SYN)
            && !segment.header.flags.has_any(Flags::ACK.with(Flags::RST))
            && self.listeners.is_open(connection.local.port())
            && connection.is_new_incarnation(&segment.header);
        if fresh {
            connection.leave_time_wait(now, &mut self.out);
            self.retire(slot);
        }
        fresh
    }
}
