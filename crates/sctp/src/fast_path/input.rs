//! Packets that arrive on the fast path: one DATA chunk with the message that comes next, or one SACK that only
//! advances the cumulative TSN, for an association that is found by its tag, from the address that is expected.

use super::FastPath;
use crate::Endpoint;
use crate::association::{Association, Ctx};
use crate::event::Event;
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Instant, Packet};
use anabranch_congestion::{Acked, Controller};
use anabranch_wire::sctp::{Data, Header, RawChunk, SackView};

impl Endpoint {
    /// Takes in a packet of one DATA or SACK chunk, if it qualifies. False when it does not, and nothing has been done.
    #[inline(always)]
    pub(crate) fn handle_on_fast_path(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: Header,
        chunk: RawChunk<'_>,
    ) -> bool {
        let Some(slot) = self.demux.by_tag(header.tag) else { return false };
        let lends = self.lends;
        let (mut ctx, slots) = self.context(now);
        let Some(place) = slots.get_mut(slot as usize) else { return false };
        let Some(association) = place.association.as_deref_mut() else { return false };
        let is_data = chunk.kind == Data::KIND;
        let path = if is_data { association.paths.data_from() } else { association.paths.current() };
        let known = association.paths.get(path);
        let expected = association.fast_path == FastPath::Eligible
            && known.address == packet.source
            && !known.removed
            && association.identity.has_ports_of(header);
        if !expected {
            return false;
        }
        let bytes = packet.payload.len();
        let taken = if is_data {
            association.recv.offer(lends);
            let taken = association.on_next_data(&mut ctx, chunk, path, bytes, packet.tag);
            association.recv.offer(false);
            taken
        } else {
            association.on_advancing_sack(&mut ctx, chunk, path, bytes)
        };
        if !taken {
            return false;
        }
        let lent = association.recv.is_lent();
        let next = association.timeout_before(place.armed);
        // The trace wants to know what holds the sender back.
        let quiet = association.sends_nothing() && !ctx.trace.on;
        let waits = quiet || std::mem::replace(&mut place.queued, true);
        if lent {
            self.lender = Some(slot);
        }
        if !waits {
            self.ready.push_back(slot);
        }
        if let Some(next) = next {
            self.arm_at(slot, next);
        }
        true
    }
}

impl Association {
    /// Takes in a packet of `bytes` from `path` that is one DATA chunk and nothing else. False when its message is not
    /// the one that comes next.
    #[inline(always)]
    fn on_next_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        raw: RawChunk<'_>,
        path: usize,
        bytes: usize,
        tag: u64,
    ) -> bool {
        let Ok(data) = Data::parse(raw) else { return false };
        let Some((offset, news)) = self.recv.take_next(&data) else { return false };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.data_received += 1;
        self.stats.data_bytes_received += data.payload.len() as u64;
        self.paths.at(path).stats.packets_received += 1;
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Received {
            units: offset..offset + 1,
            packet: tag,
        });
        self.paths.set_data_from(path);
        self.schedule_sack(ctx.now);
        if news {
            ctx.events.push_back(Event::Readable { id: self.id, stream: data.stream });
        }
        true
    }

    /// Takes in a packet of `bytes` from `from` that is one SACK and nothing else. False when it says more than that
    /// the next chunks have arrived.
    #[inline(always)]
    fn on_advancing_sack(&mut self, ctx: &mut Ctx<'_>, raw: RawChunk<'_>, from: usize, bytes: usize) -> bool {
        let Ok(sack) = SackView::parse(raw) else { return false };
        if !sack.says_no_more() || self.send.probing.is_some() {
            return false;
        }
        let Some(taken) = self.send.take_next(sack.cumulative, sack.window) else { return false };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.sacks_received += 1;
        self.paths.at(from).stats.packets_received += 1;
        self.send.renew_burst();
        let index = usize::from(taken.path);
        let base = self.send.outstanding.base();
        let (polls, more) = (self.paths.polls(), self.send.queue.unsent_bytes() > 0);
        let path = self.paths.at(index);
        let flight_before = path.flight_before(polls, more);
        path.flight = path.flight.saturating_sub(taken.size);
        if let Some((timed, at)) = path.timed
            && timed >= taken.begin
            && timed < base
        {
            // RFC 9260 §6.3.1 C4, C5: one measurement each round trip, and it was sent once.
            path.timed = None;
            path.rtt.on_sample(ctx.now - at);
        }
        path.one_packet = false;
        let revived = path.is_shown_by(base) && path.on_answer(ctx.now);
        let full = path.fills_window(flight_before, base);
        path.full_at = full.then_some(polls);
        let acked = Acked {
            bytes: taken.size,
            flight_before,
            cumulative: true,
            in_recovery: false,
            window_limited: full,
            conservative: false,
            rtt: path.rtt.smoothed(),
        };
        path.congestion.on_acked(ctx.now, acked);
        let earliest = path.earliest_unsure || taken.begin <= path.earliest;
        self.paths.clear_errors();
        if revived {
            self.revive(ctx, index);
        }
        self.rearm_t3(ctx.now, index, earliest, false);
        self.emit_writable(ctx);
        self.check_probe(ctx.now);
        true
    }

    #[cold]
    fn revive(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.invalidate_fast_path();
        self.on_path_up(ctx, index, true);
    }
}
