//! Writes packets on the fast path: packets with only new DATA, or with only a SACK. The general selection in
//! `association/outbound` would produce the same packets.

use super::FastPath;
use crate::association::outbound::PacketChecksum;
use crate::association::outbound::packet::OpenPacket;
use crate::association::{Association, Ctx};
use anabranch_base::{Ecn, SendBatch, SharedBytes};
use anabranch_wire::sctp::packet::HEADER;

impl Association {
    /// Writes the next packet into `out`, if the packet qualifies for the fast path. `out` must be empty and takes only
    /// one packet.
    #[inline(always)]
    pub(crate) fn transmit_on_fast_path(
        &mut self,
        ctx: &mut Ctx<'_>,
        out: &mut SendBatch,
        tag: &mut u64,
    ) -> bool {
        if self.fast_path != FastPath::Eligible || out.max_segments() != 1 || self.send.has_lost() {
            return false;
        }
        if self.recv.sack_pending() {
            return self.transmit_sack_alone(out, tag);
        }
        let index = self.paths.current();
        self.apply_burst_window();
        let data = self.send.unsent_bytes() > 0 && self.is_open(index) && self.new_allowed(ctx.now);
        if !data || self.config().pacing {
            return false;
        }
        let limit = self.set_addresses(index, out, *tag);
        let checksum = self.checksum_alone(limit, out);
        let mut shared = None;
        let bytes = out.push_with(|buffer| {
            let before = buffer.len();
            let may_share = (checksum == PacketChecksum::Left).then_some(&mut shared);
            self.write_new_data(ctx, index, limit, buffer, *tag, checksum, may_share);
            buffer.len() - before
        });
        let bytes = bytes + shared.as_ref().map_or(0, SharedBytes::len);
        if let Some(shared) = shared {
            out.set_shared(shared);
        }
        assert!(bytes > HEADER, "a packet without chunks");
        out.may_fragment = bytes > limit;
        self.count_packet(index, bytes, tag);
        true
    }

    /// Returns whether a DATA packet sent now would contain only DATA chunks: no control chunk and no SACK.
    #[inline]
    pub(crate) fn sends_new_data_alone(&self) -> bool {
        self.fast_path == FastPath::Eligible && !self.recv.sack_pending()
    }

    /// Writes a packet with only a SACK, if a SACK is due and there is no data with which to bundle it.
    #[inline]
    fn transmit_sack_alone(&mut self, out: &mut SendBatch, tag: &mut u64) -> bool {
        let alone = self.recv.sack_due() && self.send.unsent_bytes() == 0;
        if !alone || self.wants_shutdown() || self.extensions.agreed().zero_checksum {
            return false;
        }
        let index = self.sack_path();
        let limit = self.set_addresses(index, out, *tag);
        let leaves_checksum = self.leaves_checksum(out);
        let bytes = out.push_with(|buffer| {
            let packet = OpenPacket::begin(buffer, self.identity.header_to_peer());
            self.emit_sack(packet.start() + limit, buffer);
            if !leaves_checksum {
                packet.finish(buffer);
            }
            buffer.len() - packet.start()
        });
        self.count_packet(index, bytes, tag);
        true
    }

    /// Sets the source and destination address of the packets in `out`. Returns the maximum size of one packet in
    /// bytes.
    #[inline(always)]
    fn set_addresses(&mut self, index: usize, out: &mut SendBatch, tag: u64) -> usize {
        let path = self.paths.get(index);
        out.source = path.source();
        out.target = path.address();
        out.ecn = Ecn::NotEct;
        out.first_tag = tag;
        path.packet_limit()
    }

    #[inline(always)]
    fn count_packet(&mut self, index: usize, bytes: usize, tag: &mut u64) {
        *tag += 1;
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes as u64;
        self.paths.at(index).count_sent(bytes as u64);
    }
}
