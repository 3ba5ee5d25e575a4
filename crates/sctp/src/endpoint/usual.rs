//! The packets that nearly all are, as far as the endpoint is concerned: one DATA
//! or SACK chunk, for an association that is found by its tag and sent it from where it is expected.
//!
//! Home of no rule: each has its own.

use super::Endpoint;
use crate::association::usual::Ease;
use anabranch_base::{Instant, Packet};
use anabranch_wire::sctp::{Data, Header, RawChunk};

impl Endpoint {
    /// Takes in a packet of one DATA or SACK chunk as nearly all are (`association/usual.rs`);
    /// false when it is not such a one, and nothing has been done.
    #[inline(always)]
    pub(super) fn take_usual(
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
        let path = if is_data { association.data_from } else { association.paths.current() };
        let known = association.paths.get(path);
        let expected = association.ease == Ease::Plain
            && known.address == packet.source
            && !known.removed
            && association.local_port == header.target_port
            && association.peer_port == header.source_port;
        if !expected {
            return false;
        }
        let bytes = packet.payload.len();
        let taken = if is_data {
            association.recv.offer(lends);
            let taken = association.take_next_data(&mut ctx, chunk, path, bytes, packet.tag);
            association.recv.offer(false);
            taken
        } else {
            association.take_plain_sack(&mut ctx, chunk, path, bytes)
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

    /// Nothing is known of any association.
    #[cfg(test)]
    pub(crate) fn stir_all(&mut self) {
        for association in self.slots.iter_mut().filter_map(|slot| slot.association.as_mut()) {
            association.stir();
        }
    }
}
