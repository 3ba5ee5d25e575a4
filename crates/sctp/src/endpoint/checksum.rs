//! Packets without a checksum.
//!
//! Where the configuration says that a lower layer finds errors, a checksum of
//! zero is taken, but for what begins an association. On packets out of the
//! blue, too: who has forgotten an association must still answer what its peer
//! sends in it.
//!
//! Home of RFC 9653 §5.3 (which of its packets a sender leaves it out of is in
//! `association::outbound`).

use anabranch_wire::sctp::{CookieEcho, Init, PacketView, packet};

/// Reads a packet whose checksum may be missing, if it does not begin an association and `may` says so of its tag.
pub(super) fn read(bytes: &[u8], may: impl FnOnce(u32) -> bool) -> Option<PacketView<'_>> {
    if !packet::has_zero_checksum(bytes) {
        return PacketView::parse(bytes).ok();
    }
    let view = PacketView::parse_without_checksum(bytes).ok()?;
    let first = view.chunks().next_raw()?.ok()?;
    // RFC 9653 §5.3: packets out of the blue may be taken, and ends are learned of sooner so.
    if !matches!(first.kind, Init::KIND | CookieEcho::KIND) && may(view.header.tag) {
        return Some(view);
    }
    // RFC 9653 §3: zero may also be what the checksum is.
    PacketView::parse(bytes).ok()
}
