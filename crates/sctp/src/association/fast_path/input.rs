//! Handles received packets on the fast path. A packet qualifies if it holds one DATA chunk with the next message in
//! order, or one SACK that only advances the cumulative TSN. The caller has found the association by the packet's tag.
//! The packet's source address must be the address of a path.

use super::FastPath;
use crate::association::{Association, Ctx};
use crate::event::Event;
use crate::path::flight::NewlyAcked;
use crate::recv::order::Delivery;
use anabranch_base::PacketBytes;
use anabranch_base::trace::TraceEvent;
use anabranch_wire::sctp::packet::HEADER;
use anabranch_wire::sctp::{Data, Header, PacketView, RawChunk, Sack, SackView};
use std::net::SocketAddr;

/// The single chunk of a packet: either a SACK, or DATA with a whole ordered message. The chunk is stored as a byte
/// offset and does not borrow the packet, because the association may take over the packet's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoleChunk {
    header: Header,
    kind: u8,
    flags: u8,
    /// The offset in the packet at which the chunk ends, not counting its padding.
    end: usize,
}

impl SoleChunk {
    /// Returns `None` unless the packet has exactly one chunk: a SACK, or DATA with a whole ordered message. The last
    /// `shared` bytes of the packet are not in `packet`. They must be the whole payload of the chunk.
    #[inline(always)]
    pub(crate) fn of(packet: &PacketView<'_>, shared: usize) -> Option<Self> {
        let chunks = packet.chunks().rest();
        let &[kind, flags, l0, l1] = chunks.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let whole = length >= 4 && length.next_multiple_of(4) == chunks.len() + shared;
        let taken = match kind {
            // RFC 9260 §3.3.1: the chunk holds a whole ordered message if B and E are set and U is not.
            Data::KIND => flags & 0b111 == 0b011,
            Sack::KIND => true,
            _ => false,
        };
        let in_two_parts = shared > 0;
        if in_two_parts && (kind != Data::KIND || length != Data::HEADER + shared) {
            return None;
        }
        if !whole || !taken {
            return None;
        }
        Some(Self { header: packet.header, kind, flags, end: HEADER + length })
    }

    /// Returns the verification tag of the packet.
    #[inline(always)]
    pub(crate) fn tag(self) -> u32 {
        self.header.tag
    }

    #[inline(always)]
    fn raw(self, packet: &[u8]) -> Option<RawChunk<'_>> {
        let bytes = packet.get(HEADER..self.end.min(packet.len()))?;
        Some(RawChunk { kind: self.kind, flags: self.flags, value: bytes.get(4..)?, bytes })
    }
}

impl Association {
    /// Handles a packet with a single DATA or SACK chunk, if it qualifies for the fast path. Otherwise returns false
    /// and changes nothing.
    #[inline(always)]
    pub(crate) fn handle_sole_chunk(
        &mut self,
        ctx: &mut Ctx<'_>,
        (source, tag): (&SocketAddr, u64),
        chunk: SoleChunk,
        packet: &mut PacketBytes<'_>,
    ) -> bool {
        let is_data = chunk.kind == Data::KIND;
        let path = if is_data { self.paths.data_from() } else { self.paths.current() };
        let known = self.paths.get(path);
        let expected = self.fast_path == FastPath::Eligible
            && known.address() == *source
            && !known.is_removed()
            && self.identity.has_ports_of(chunk.header);
        if !expected {
            return false;
        }
        if is_data {
            self.on_next_data(ctx, chunk, packet, path, tag)
        } else {
            self.on_advancing_sack(ctx, chunk, packet.bytes(), path)
        }
    }

    /// Handles a packet from `path` with a single DATA chunk. May keep the packet's buffer. Returns false if the
    /// chunk's message is not the next message in order.
    #[inline(always)]
    fn on_next_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        chunk: SoleChunk,
        packet: &mut PacketBytes<'_>,
        path: usize,
        tag: u64,
    ) -> bool {
        let bytes = packet.bytes().len() + packet.shared_len();
        let Some(Ok(data)) = chunk.raw(packet.bytes()).map(Data::parse) else { return false };
        let Data { immediate, tsn, stream, ssn, ppid, payload, .. } = data;
        let to = Delivery { stream, ssn: ssn.0, ppid, tsn: tsn.0, unordered: false };
        let payload = chunk.end - payload.len() - packet.shared_len()..chunk.end;
        let length = payload.len() as u64;
        let Some((offset, became_readable)) = self.recv.take_next(to, immediate, packet, payload) else {
            return false;
        };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.data_received += 1;
        self.stats.data_bytes_received += length;
        self.paths.at(path).count_received(bytes as u64);
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Received {
            units: offset..offset + 1,
            packet: tag,
        });
        if let Some(interruption) = self.paths.on_data_from(ctx.now, path, false) {
            self.record_interruption(ctx, interruption);
        }
        self.schedule_sack(ctx.now);
        if became_readable {
            ctx.events.push_back(Event::Readable { id: self.id, stream });
        }
        true
    }

    /// Handles a packet from the path `from` whose only chunk is a SACK. Returns false if the SACK does more than
    /// acknowledge the next chunks in order.
    #[inline(always)]
    fn on_advancing_sack(&mut self, ctx: &mut Ctx<'_>, chunk: SoleChunk, packet: &[u8], from: usize) -> bool {
        let bytes = packet.len();
        let Some(Ok(sack)) = chunk.raw(packet).map(SackView::parse) else { return false };
        if !sack.has_no_gaps_or_duplicates() || self.send.is_probing() {
            return false;
        }
        let Some(taken) = self.send.take_next(sack.cumulative, sack.window) else { return false };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.sacks_received += 1;
        self.paths.at(from).count_received(bytes as u64);
        self.send.renew_burst();
        let index = usize::from(taken.path);
        let base = self.send.base();
        let (polls, more) = (self.paths.polls(), self.send.unsent_bytes() > 0);
        let path = self.paths.at(index);
        let flight_before = path.on_bytes_acked(taken.size, polls, more);
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
        if let Some(interruption) = self.paths.on_data_acked(ctx.now, index) {
            self.record_interruption(ctx, interruption);
        }
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
