//! The number of streams in each direction.
//!
//! Implements RFC 9260 §5.1.1 as far as it concerns streams. RFC 6525 §5.1.5 and §5.1.6 add streams later (`reconfig`).

use crate::config::Config;

/// The stream counts of one association. Before the handshake they are the counts in our INIT, and afterwards the
/// counts that both sides agreed on.
#[derive(Debug)]
pub(crate) struct StreamCounts {
    requested: u16,
    outbound: u16,
    inbound: u16,
}

impl StreamCounts {
    pub(crate) fn new(config: &Config, requested: u16) -> Self {
        Self { requested, outbound: requested, inbound: config.max_instreams.unwrap_or(requested) }
    }

    /// Returns the outbound and inbound stream counts that our INIT requests.
    pub(crate) fn requested(&self, config: &Config) -> (u16, u16) {
        (self.requested, config.max_instreams.unwrap_or(self.requested))
    }

    #[inline]
    pub(crate) fn outbound(&self) -> u16 {
        self.outbound
    }

    #[inline]
    pub(crate) fn inbound(&self) -> u16 {
        self.inbound
    }

    /// Sets the stream counts from the peer's cookie.
    pub(crate) fn set(&mut self, outbound: u16, inbound: u16) {
        (self.outbound, self.inbound) = (outbound, inbound);
    }

    /// Removes streams that were added to an earlier association, because a new association replaces it.
    pub(crate) fn forget_added(&mut self) {
        (self.outbound, self.inbound) = (self.requested, self.requested);
    }

    /// RFC 9260 §5.1.1: limits the outbound streams to the number that the peer accepts, and the inbound streams to the
    /// number that the peer requests.
    pub(crate) fn limit(&mut self, peer_inbound: u16, peer_outbound: u16) {
        self.outbound = self.outbound.min(peer_inbound);
        self.inbound = self.inbound.min(peer_outbound);
    }

    /// RFC 6525 §5.1.5: adds outgoing streams that the peer has granted.
    pub(crate) fn add_outbound(&mut self, more: u16) {
        self.outbound = self.outbound.saturating_add(more);
    }

    /// RFC 6525 §5.2.5: adds `more` streams on which the peer sends to this side.
    pub(crate) fn add_inbound(&mut self, more: u16) {
        self.inbound = self.inbound.saturating_add(more);
    }
}
