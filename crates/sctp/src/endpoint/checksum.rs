//! Verification of packets whose checksum may be missing.
//!
//! If the configuration states that a lower layer detects errors, a checksum of zero is accepted, except on packets
//! that begin an association. A checksum of zero is also accepted on packets out of the blue. This lets a host that has
//! lost its state answer packets of the old association.
//!
//! Implements RFC 9653 §5.3. Which packets are sent without a checksum is decided in `association::outbound`.

use anabranch_wire::sctp::{CookieEcho, Init, PacketView, packet};

/// Parses a packet. A packet that does not begin an association may lack a checksum if `may` returns true for its tag.
pub(super) fn read(bytes: &[u8], may: impl FnOnce(u32) -> bool) -> Option<PacketView<'_>> {
    if !packet::has_zero_checksum(bytes) {
        return PacketView::parse(bytes).ok();
    }
    let view = PacketView::parse_without_checksum(bytes).ok()?;
    let first = view.chunks().next_raw()?.ok()?;
    // RFC 9653 §5.3: accept a packet without a checksum even out of the blue. From the answer the peer learns without a
    // timeout that its association is gone.
    if !matches!(first.kind, Init::KIND | CookieEcho::KIND) && may(view.header.tag) {
        return Some(view);
    }
    // RFC 9653 §3: zero may also be the correct checksum of the packet, so the packet is parsed as usual.
    PacketView::parse(bytes).ok()
}
