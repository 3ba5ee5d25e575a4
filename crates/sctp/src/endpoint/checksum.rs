//! Packets without a checksum.
//!
//! Where the configuration says that a lower layer finds errors, a checksum of
//! zero is taken on packets of an association; whatever begins one, and
//! whatever belongs to none, has a checksum all the same.
//!
//! Home of RFC 9653 §5.3 (which of its packets a sender leaves it out of is in
//! `association::outbound`).

use super::demux::Demux;
use anabranch_wire::sctp::{CookieEcho, Init, PacketView, packet};

/// Reads a packet whose checksum may be missing, if it is of an association.
pub(super) fn read<'a>(bytes: &'a [u8], demux: &mut Demux) -> Option<PacketView<'a>> {
    if !packet::has_zero_checksum(bytes) {
        return PacketView::parse(bytes).ok();
    }
    let view = PacketView::parse_without_checksum(bytes).ok()?;
    let first = view.chunks().next_raw()?.ok()?;
    let begins = matches!(first.kind, Init::KIND | CookieEcho::KIND);
    if !begins && demux.by_tag(view.header.tag).is_some() {
        return Some(view);
    }
    // RFC 9653 §3: zero may also be what the checksum is.
    PacketView::parse(bytes).ok()
}
