//! Packets that arrive on the fast path: one DATA chunk with the message that comes next, or one SACK that only
//! advances the cumulative TSN, for an association that is found by its tag, from the address that is expected.

use super::FastPath;
use crate::Endpoint;
use crate::association::{Association, Ctx};
use crate::event::Event;
use crate::path::flight::NewlyAcked;
use crate::recv::order::Delivery;
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Instant, PacketBytes};
use anabranch_wire::sctp::packet::HEADER;
use anabranch_wire::sctp::{Data, Header, PacketView, RawChunk, Sack, SackView};
use std::net::SocketAddr;

/// The one chunk of a packet, a SACK or DATA with a whole ordered message, and where it lies. Without a reference: the
/// packet's buffer may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoleChunk {
    header: Header,
    kind: u8,
    flags: u8,
    /// Where in the packet the chunk ends, without padding.
    end: usize,
}

impl SoleChunk {
    /// `None` where a packet has another chunk, or more than one.
    #[inline(always)]
    pub(crate) fn of(packet: &PacketView<'_>) -> Option<Self> {
        let chunks = packet.chunks().rest();
        let &[kind, flags, l0, l1] = chunks.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let whole = length >= 4 && length.next_multiple_of(4) == chunks.len();
        let taken = match kind {
            // RFC 9260 §3.3.1: B and E are set, U is not.
            Data::KIND => flags & 0b111 == 0b011,
            Sack::KIND => true,
            _ => false,
        };
        if !whole || !taken {
            return None;
        }
        Some(Self { header: packet.header, kind, flags, end: HEADER + length })
    }

    #[inline(always)]
    fn raw(self, packet: &[u8]) -> Option<RawChunk<'_>> {
        let bytes = packet.get(HEADER..self.end)?;
        Some(RawChunk { kind: self.kind, flags: self.flags, value: bytes.get(4..)?, bytes })
    }
}

impl Endpoint {
    /// Takes in a packet of one DATA or SACK chunk, if it qualifies. False when it does not, and nothing has been done.
    #[inline(always)]
    pub(crate) fn handle_on_fast_path(
        &mut self,
        now: Instant,
        (source, tag): (&SocketAddr, u64),
        chunk: SoleChunk,
        mut packet: PacketBytes<'_>,
    ) -> bool {
        let header = chunk.header;
        let Some(slot) = self.demux.by_tag(header.tag) else { return false };
        let (mut ctx, slots) = self.context(now);
        let Some(place) = slots.get_mut(slot as usize) else { return false };
        let Some(association) = place.association.as_deref_mut() else { return false };
        let is_data = chunk.kind == Data::KIND;
        let path = if is_data { association.paths.data_from() } else { association.paths.current() };
        let known = association.paths.get(path);
        let expected = association.fast_path == FastPath::Eligible
            && known.address() == *source
            && !known.is_removed()
            && association.identity.has_ports_of(header);
        if !expected {
            return false;
        }
        let taken = if is_data {
            association.on_next_data(&mut ctx, chunk, &mut packet, path, tag)
        } else {
            association.on_advancing_sack(&mut ctx, chunk, packet.bytes(), path)
        };
        if !taken {
            return false;
        }
        let next = association.timeout_before(place.armed);
        // The trace wants to know what holds the sender back.
        let quiet = association.sends_nothing() && !ctx.trace.on;
        let waits = quiet || std::mem::replace(&mut place.queued, true);
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
    /// Takes in a packet from `path` that is one DATA chunk and nothing else; its buffer may be kept. False when its
    /// message is not the one that comes next.
    #[inline(always)]
    fn on_next_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        chunk: SoleChunk,
        packet: &mut PacketBytes<'_>,
        path: usize,
        tag: u64,
    ) -> bool {
        let bytes = packet.bytes().len();
        let Some(Ok(data)) = chunk.raw(packet.bytes()).map(Data::parse) else { return false };
        let Data { immediate, tsn, stream, ssn, ppid, payload, .. } = data;
        let to = Delivery { stream, ssn: ssn.0, ppid, tsn: tsn.0, unordered: false };
        let payload = chunk.end - payload.len()..chunk.end;
        let length = payload.len() as u64;
        let Some((offset, news)) = self.recv.take_next(to, immediate, packet, payload) else { return false };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.data_received += 1;
        self.stats.data_bytes_received += length;
        self.paths.at(path).count_received();
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Received {
            units: offset..offset + 1,
            packet: tag,
        });
        self.paths.set_data_from(path);
        self.schedule_sack(ctx.now);
        if news {
            ctx.events.push_back(Event::Readable { id: self.id, stream });
        }
        true
    }

    /// Takes in a packet from the path `from` that is one SACK and nothing else. False when it says more than that the
    /// next chunks have arrived.
    #[inline(always)]
    fn on_advancing_sack(&mut self, ctx: &mut Ctx<'_>, chunk: SoleChunk, packet: &[u8], from: usize) -> bool {
        let bytes = packet.len();
        let Some(Ok(sack)) = chunk.raw(packet).map(SackView::parse) else { return false };
        if !sack.says_no_more() || self.send.is_probing() {
            return false;
        }
        let Some(taken) = self.send.take_next(sack.cumulative, sack.window) else { return false };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.sacks_received += 1;
        self.paths.at(from).count_received();
        self.send.renew_burst();
        let index = usize::from(taken.path);
        let base = self.send.base();
        let (polls, more) = (self.paths.polls(), self.send.unsent_bytes() > 0);
        let path = self.paths.at(index);
        let flight_before = path.land(taken.size, polls, more);
        path.measure_run(ctx.now, taken.begin, base);
        let newly = NewlyAcked {
            bytes: taken.size,
            flight_before,
            base,
            cumulative: true,
            in_recovery: false,
            conservative: false,
            polls,
        };
        let revived = path.on_newly_acked(ctx.now, newly);
        let earliest = path.may_be_earliest(taken.begin);
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
