//! The identity of an association: its ports, Verification Tags and initial TSN.
//!
//! Implements RFC 9260 §5.3.1 (tags) and the Tie-Tags of §5.2.2.

use anabranch_base::Rng;
use anabranch_wire::sctp::Header;

/// Ports, tags and initial TSN of one association.
#[derive(Debug)]
pub(crate) struct Identity {
    local_port: u16,
    peer_port: u16,
    /// RFC 9260 §5.3.1: the local tag, which does not change unless the peer restarts.
    local_tag: u32,
    /// The peer's tag, 0 until known.
    peer_tag: u32,
    /// RFC 9260 §5.2.2: the local Tie-Tag and the peer's Tie-Tag. Both are 0 until a second INIT arrives.
    tie_tags: (u32, u32),
    initial_tsn: u32,
    /// Whether this side sent the INIT.
    initiator: bool,
}

impl Identity {
    pub(crate) fn new(
        (local_port, peer_port): (u16, u16),
        local_tag: u32,
        initial_tsn: u32,
        initiator: bool,
    ) -> Self {
        Self { local_port, peer_port, local_tag, peer_tag: 0, tie_tags: (0, 0), initial_tsn, initiator }
    }

    #[inline]
    pub(crate) fn local_port(&self) -> u16 {
        self.local_port
    }

    #[inline]
    pub(crate) fn peer_port(&self) -> u16 {
        self.peer_port
    }

    #[inline]
    pub(crate) fn local_tag(&self) -> u32 {
        self.local_tag
    }

    /// Returns the peer's tag, or 0 while it is unknown.
    #[inline]
    pub(crate) fn peer_tag(&self) -> u32 {
        self.peer_tag
    }

    pub(crate) fn initial_tsn(&self) -> u32 {
        self.initial_tsn
    }

    pub(crate) fn is_initiator(&self) -> bool {
        self.initiator
    }

    /// Returns the initiator's port, by which both ends identify the association in traces.
    #[inline]
    pub(crate) fn trace_key(&self) -> u64 {
        u64::from(if self.initiator { self.local_port } else { self.peer_port })
    }

    /// Returns whether the source and destination port in `header` are the ports of this association.
    #[inline(always)]
    pub(crate) fn has_ports_of(&self, header: Header) -> bool {
        self.local_port == header.target_port && self.peer_port == header.source_port
    }

    /// Returns the common header of a packet to the peer, with `tag`.
    #[inline(always)]
    pub(crate) fn header(&self, tag: u32) -> Header {
        Header { source_port: self.local_port, target_port: self.peer_port, tag }
    }

    /// Returns the common header of a packet to the peer. Its tag is the peer's.
    #[inline(always)]
    pub(crate) fn header_to_peer(&self) -> Header {
        self.header(self.peer_tag)
    }

    pub(crate) fn set_peer_tag(&mut self, tag: u32) {
        self.peer_tag = tag;
    }

    /// Returns the Tie-Tags for the INIT ACK to a second INIT. The first call chooses them at random.
    pub(crate) fn make_tie_tags(&mut self, rng: &mut Rng) -> (u32, u32) {
        if self.tie_tags == (0, 0) {
            self.tie_tags = (rng.next_u32().max(1), rng.next_u32().max(1));
        }
        self.tie_tags
    }

    /// Returns whether this association put `tie_tags` into a cookie. It does so when it answers a second INIT.
    pub(crate) fn is_tied_by(&self, tie_tags: (u32, u32)) -> bool {
        tie_tags == self.tie_tags && self.tie_tags != (0, 0)
    }

    /// RFC 9260 §5.2.4 A: the peer has restarted. Sets the new local tag and initial TSN; the peer is now the
    /// initiator.
    pub(crate) fn restart(&mut self, local_tag: u32, initial_tsn: u32) {
        (self.local_tag, self.initial_tsn) = (local_tag, initial_tsn);
        self.tie_tags = (0, 0);
        self.initiator = false;
    }
}
