//! Implements [`Engine`] for the endpoint. Its input is packets, ICMP messages and time; its output is packets and
//! events. A packet's association is found by its verification tag.
//!
//! Implements RFC 9260 §8.5. The exceptions of §8.5.1 are in [`out_of_the_blue`].

use super::{Endpoint, checksum, encap, out_of_the_blue};
use crate::association::fast_path::SoleChunk;
use crate::association::inbound::PacketMeta;
use crate::association::negotiate::is_unicast;
use crate::event::{CloseReason, Event};
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Engine, Icmp, Instant, Packet, PacketBytes, PeerState, RecvBatch, SendBatch};
use anabranch_wire::sctp::{self as wire, Auth, Chunk, Chunks, CookieEcho, PacketView, RawChunk, crc32c};
use std::cmp::Reverse;
use std::net::SocketAddr;

impl Endpoint {
    /// Handles a packet with a single DATA or SACK chunk, if it qualifies for the
    /// [`fast_path`](crate::association::fast_path). Otherwise returns false and changes nothing.
    #[inline(always)]
    fn handle_on_fast_path(
        &mut self,
        now: Instant,
        source_and_tag: (&SocketAddr, u64),
        chunk: SoleChunk,
        mut packet: PacketBytes<'_>,
    ) -> bool {
        let Some(slot) = self.demux.by_tag(chunk.tag()) else { return false };
        let (mut ctx, slots) = self.context(now);
        let Some(entry) = slots.get_mut(slot as usize) else { return false };
        let Some(association) = entry.association.as_deref_mut() else { return false };
        if !association.handle_sole_chunk(&mut ctx, source_and_tag, chunk, &mut packet) {
            return false;
        }
        let next = association.timeout_before(entry.deadline);
        // With tracing on, an association that sends nothing is polled too: the trace records what limits its sender.
        let quiet = association.sends_nothing() && !ctx.trace.on;
        let skip_queueing = quiet || std::mem::replace(&mut entry.queued, true);
        if !skip_queueing {
            self.ready.push_back(slot);
        }
        if let Some(next) = next {
            self.arm_at(slot, next);
        }
        true
    }

    /// Handles a packet whose tag is the local tag of the association in `slot`.
    #[inline]
    pub(super) fn on_own_tag(
        &mut self,
        now: Instant,
        slot: u32,
        packet: &Packet<'_>,
        view: &PacketView<'_>,
        first: RawChunk<'_>,
        rest: Chunks<'_>,
    ) {
        let (mut ctx, slots) = self.context(now);
        let Some(association) = slots.get_mut(slot as usize).and_then(|slot| slot.association.as_deref_mut())
        else {
            return;
        };
        let header = view.header;
        let known = association.paths().find(packet.source.ip());
        let known = known.or_else(|| association.path_of_init_ack(view.chunks()));
        let stranger = known.is_none();
        // RFC 5061 §5.2 D2: an ASCONF may come from an address that it adds to the association.
        let known = known.or_else(|| association.path_of_asconf(view.chunks()));
        let ports = association.identity().has_ports_of(header);
        // RFC 9260 §8.4: a packet whose ports differ from those of the association is out of the blue. RFC 5061 §5.3
        // F13: so is a packet from an address that the peer has removed. A packet from any other unknown address is
        // discarded without an answer, because the peer may have more addresses than this side stores.
        if !ports || known.is_none() && association.paths().was_deleted(packet.source.ip()) {
            return self.on_out_of_the_blue(now, packet, view);
        }
        let Some(path) = known else {
            self.totals.discarded += 1;
            return;
        };
        // RFC 5061 §5.3 F4: ignore an ABORT to an address that is being deleted. The peer sent the ABORT because it has
        // already deleted that address.
        if association.is_leaving(now, packet.target.ip()) && has_abort(view.chunks()) {
            self.totals.discarded += 1;
            return;
        }
        let (mut first, mut rest) = (first, rest);
        if stranger {
            // A packet from an unknown address is processed from its AUTH chunk on. All chunks before the AUTH chunk
            // are skipped.
            while first.kind != Auth::KIND
                && let Some(Ok(next)) = rest.next_raw()
            {
                first = next;
            }
        }
        encap::follow_port(association, path, packet.source);
        let was_established = association.was_established();
        let arrived = PacketMeta {
            path,
            source: packet.source,
            ecn: packet.ecn,
            tag: packet.tag,
            bytes: packet.payload.len(),
            authenticated: false,
        };
        // RFC 9260 §8.5.1 B, C: the packet has our own tag, so `handle_packet` ignores chunks whose T bit is set.
        association.handle_packet(&mut ctx, Some(first), rest, &arrived);
        association.abandon_expired(&mut ctx);
        if !was_established && association.was_established() {
            self.totals.associations += 1;
        }
        self.settle(now, slot);
    }
}

impl Endpoint {
    /// Transmits the next packet that is sent independently of an association.
    #[cold]
    fn transmit_stateless_packet(&mut self, out: &mut SendBatch) -> bool {
        let Some(packet) = self.stateless_packets.pop_front() else { return false };
        out.source = packet.source();
        out.target = packet.target();
        out.first_tag = self.next_tag;
        // Packets of different lanes may be reordered. The order of this packet does not matter, so it gets a lane of
        // its own.
        out.lane = self.next_tag as u32;
        self.next_tag += 1;
        out.push(packet.bytes());
        true
    }

    /// Handles a batch that has several packets, or whose packets may lack a checksum.
    #[inline(never)]
    fn handle_each(&mut self, now: Instant, batch: &RecvBatch) {
        for packet in batch.packets() {
            self.handle_packet(now, packet);
        }
    }

    /// Handles a packet on the slow path. `view` is `None` if the packet is not an SCTP packet with a valid checksum.
    #[inline(never)]
    fn handle_on_slow_path(&mut self, now: Instant, packet: &Packet<'_>, view: Option<PacketView<'_>>) {
        // RFC 9260 §6.8: a packet with a wrong checksum is ignored.
        let Some(view) = view else {
            return self.count_discarded(true);
        };
        let mut chunks = view.chunks();
        match chunks.next_raw() {
            Some(Ok(first)) => self.take_any(now, packet, &view, first, chunks),
            _ => self.count_discarded(false),
        }
    }

    /// Returns whether the source or destination address of the packet is not unicast. An unspecified destination is
    /// not checked, because it means that the address is unknown.
    fn is_of_group(&self, packet: &Packet<'_>) -> bool {
        let target = packet.target.ip();
        let group = !is_unicast(packet.source.ip()) || !is_unicast(target) && !target.is_unspecified();
        self.has_addresses && group
    }

    #[cold]
    fn count_discarded(&mut self, unreadable: bool) {
        self.totals.discarded += 1;
        self.totals.unreadable += u64::from(unreadable);
    }

    /// Handles a packet whose first chunk is `first`; `chunks` holds the chunks after it.
    fn take_any(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        view: &PacketView<'_>,
        first: RawChunk<'_>,
        chunks: Chunks<'_>,
    ) {
        match first.kind {
            // RFC 9260 §8.4 1: no association is set up with a non-unicast address.
            wire::Init::KIND | CookieEcho::KIND | Auth::KIND if self.is_of_group(packet) => {
                self.totals.discarded += 1;
            }
            wire::Init::KIND => {
                // RFC 9260 §8.5.1 A: an INIT is the only chunk of its packet, which has tag 0.
                match Chunk::parse(first) {
                    Ok(Chunk::Init(init)) if view.header.tag == 0 && chunks.is_empty() => {
                        self.on_init(now, packet, view.header, &init);
                    }
                    _ => self.totals.discarded += 1,
                }
            }
            CookieEcho::KIND => {
                let echo = CookieEcho { cookie: first.value };
                self.on_cookie_echo(now, packet, view.header, echo, chunks, None);
            }
            // RFC 4895 §6.3: a COOKIE ECHO after an AUTH chunk may belong to an association that does not exist yet.
            Auth::KIND if out_of_the_blue::leads_cookie_echo(chunks) => {
                self.on_signed_cookie_echo(now, packet, view.header, first, chunks);
            }
            // RFC 9260 §8.5.1 A: no other chunk may arrive in a packet with tag 0, so the packet is discarded.
            _ if view.header.tag == 0 => self.totals.discarded += 1,
            _ => match self.demux.by_tag(view.header.tag) {
                Some(slot) => self.on_own_tag(now, slot, packet, view, first, chunks),
                None => self.on_out_of_the_blue(now, packet, view),
            },
        }
    }
}

/// Returns whether one of the chunks is an ABORT.
#[cold]
fn has_abort(chunks: Chunks<'_>) -> bool {
    chunks.flatten().any(|chunk| matches!(chunk, Chunk::Abort(_)))
}

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        let view = if self.accepts_zero_checksum {
            // RFC 9653 §5.3: the association's own configuration decides whether its packets may come without a
            // checksum.
            checksum::read(packet.payload, |tag| {
                let association = self.demux.by_tag(tag).and_then(|slot| self.alive(slot));
                association
                    .map_or(self.config.zero_checksum, |association| association.config().zero_checksum)
            })
        } else {
            PacketView::parse(packet.payload).ok()
        };
        let sole = view.as_ref().and_then(|view| SoleChunk::of(view, 0));
        let (source_and_tag, bytes) = ((&packet.source, packet.tag), PacketBytes::Borrowed(packet.payload));
        if !sole.is_some_and(|sole| self.handle_on_fast_path(now, source_and_tag, sole, bytes)) {
            self.handle_on_slow_path(now, &packet, view);
        }
    }

    #[inline]
    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        let intact = batch.intact;
        let Some((buffer, start)) = batch.only_mut().filter(|_| intact || !self.accepts_zero_checksum) else {
            batch.join();
            return self.handle_each(now, batch);
        };
        if !intact && !crc32c::is_valid_with_headroom(buffer, start) {
            return self.count_discarded(true);
        }
        let tag = batch.first_tag;
        let shared = batch.shared_len();
        let view = PacketView::parse_verified(batch.bytes()).ok();
        let sole = view.as_ref().and_then(|view| SoleChunk::of(view, shared));
        if let Some(sole) = sole
            && let Some((source, _, bytes)) = batch.only_owned()
            && self.handle_on_fast_path(now, (source, tag), sole, bytes)
        {
            return;
        }
        batch.join();
        if let Some(packet) = batch.only() {
            self.handle_on_slow_path(now, &packet, PacketView::parse_verified(packet.payload).ok());
        }
    }

    fn offloads_checksums(&self) -> bool {
        true
    }

    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let Some(header) = wire::Header::parse(quoted) else {
            return;
        };
        // RFC 9260 §10: this side sent the quoted packet, so its source port is the local port. Several associations
        // may match, and each of them checks the tag of the quoted packet.
        for slot in self.demux.by_address(icmp.target, header.target_port, header.source_port) {
            self.with(now, slot, |association, ctx| association.on_icmp(ctx, icmp, header.tag, quoted));
        }
    }

    fn handle_unsent(&mut self, now: Instant, packet: Packet<'_>) {
        let Some(header) = wire::Header::parse(packet.payload) else {
            return;
        };
        let (source, target) = (packet.source.ip(), packet.target.ip());
        let address_key = self.demux.address_key(packet.target, header.target_port, header.source_port);
        if let Some(slot) = self.demux.by_address_key(address_key) {
            let waits = self.with(now, slot, |association, ctx| association.on_unsent(ctx, source, target));
            self.awaits_route |= waits == Some(true);
        }
    }

    fn handle_routes(&mut self, now: Instant) {
        // Routes change often, so the associations are visited only if one of them waits for a route.
        if std::mem::take(&mut self.awaits_route) {
            for slot in 0..self.slots.len() as u32 {
                self.with(now, slot, |association, ctx| association.routes_changed(ctx));
            }
        }
    }

    fn handle_peer(&mut self, now: Instant, peer: SocketAddr, state: PeerState) {
        for slot in 0..self.slots.len() as u32 {
            let entry = &self.slots[slot as usize];
            if entry.association.as_ref().is_some_and(|association| association.has_peer_address(peer)) {
                let _ = self.with(now, slot, |association, ctx| match state {
                    PeerState::Ready => association.on_peer_reachable(ctx),
                    PeerState::Lost => association.close(ctx, CloseReason::Unreachable),
                });
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&Reverse((at, slot))) = self.deadlines.peek() {
            if at > now {
                return;
            }
            self.deadlines.pop();
            let entry = &mut self.slots[slot as usize];
            if entry.deadline != at {
                continue;
            }
            entry.deadline = Instant::MAX;
            let due =
                entry.association.as_ref().and_then(|a| a.next_timeout()).is_some_and(|next| next <= now);
            if due {
                self.with(now, slot, |association, ctx| association.handle_timeout(ctx));
            } else {
                self.arm(slot);
            }
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        if !self.stateless_packets.is_empty() {
            return self.transmit_stateless_packet(out);
        }
        while let Some(&slot) = self.ready.front() {
            let mut tag = self.next_tag;
            let (mut ctx, slots) = self.context(now);
            let entry = &mut slots[slot as usize];
            let (mut sent, mut done, mut next) = (false, true, None);
            if let Some(association) = entry.association.as_deref_mut() {
                sent = association.poll_transmit(&mut ctx, out, &mut tag);
                done = !sent || association.sends_nothing() && !ctx.trace.on;
                // The deadline is checked even if nothing was sent, because the association may have set its pacing
                // timer.
                next = association.timeout_before(entry.deadline);
            }
            entry.queued = !done;
            self.next_tag = tag;
            if let Some(next) = next {
                self.arm_at(slot, next);
            }
            if done {
                self.ready.pop_front();
            }
            if sent {
                out.lane = slot;
                return true;
            }
        }
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    #[inline]
    fn has_output(&self) -> bool {
        !(self.ready.is_empty() && self.stateless_packets.is_empty() && self.events.is_empty())
    }

    fn set_tracing(&mut self, on: bool) {
        self.trace.on = on;
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        std::mem::take(&mut self.trace.records)
    }
}
