//! Verification of packets whose checksum may be missing.
//!
//! If the configuration states that a lower layer detects errors, a checksum of zero is accepted, except on packets
//! that begin an association. It is accepted even on packets out of the blue, so that a host that has lost its state
//! can answer packets of the old association.
//!
//! Implements RFC 9653 §5.3. Which packets are sent without a checksum is decided in `association::outbound`.

use anabranch_wire::sctp::{CookieEcho, Init, PacketView, packet};

/// Parses a packet. Returns `None` if the packet is malformed or its checksum is wrong. The checksum may be absent (0)
/// if `may` returns true for the packet's tag, except on INIT and COOKIE ECHO.
pub(super) fn read(bytes: &[u8], may: impl FnOnce(u32) -> bool) -> Option<PacketView<'_>> {
    if !packet::has_zero_checksum(bytes) {
        return PacketView::parse(bytes).ok();
    }
    let view = PacketView::parse_without_checksum(bytes).ok()?;
    let first = view.chunks().next_raw()?.ok()?;
    // RFC 9653 §5.3: a packet without a checksum is accepted even if it belongs to no association. The answer then
    // tells the peer that its association has ended, so the peer need not wait for a timeout.
    if !matches!(first.kind, Init::KIND | CookieEcho::KIND) && may(view.header.tag) {
        return Some(view);
    }
    // RFC 9653 §3: zero can also be the correct CRC32c of a packet. So a checksum of zero that is not accepted as
    // absent is verified as usual.
    PacketView::parse(bytes).ok()
}
