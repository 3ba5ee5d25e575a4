//! Verifies that an address belongs to the peer.
//!
//! An address learned from the peer is used only once a HEARTBEAT to this address has been acknowledged with the right
//! nonce. Otherwise an attacker could make this host send to a third party.
//!
//! Implements RFC 9260 §5.4.

use super::Path;
use super::health::Evidence;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// The facts that a HEARTBEAT ACK has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verified {
    /// The round-trip time of the HEARTBEAT.
    pub(crate) rtt: Duration,
    /// Whether this HEARTBEAT ACK confirms the address.
    pub(crate) confirmed: bool,
    /// Whether the path recovered from a failure.
    pub(crate) revived: bool,
}

impl Path {
    /// Processes a HEARTBEAT ACK that names this path. Returns the round-trip time and the changes of the path's state.
    /// Returns `None` if the nonce is not that of the outstanding HEARTBEAT.
    pub(crate) fn on_heartbeat_ack(
        &mut self,
        now: Instant,
        nonce: u64,
        evidence: Evidence,
    ) -> Option<Verified> {
        let rtt = now - self.heartbeat.take_answered(nonce)?;
        self.stats.heartbeats_acked += 1;
        let confirmed = !self.confirmed;
        self.confirmed = true;
        let revived = self.on_heartbeat_answered(now, rtt, evidence);
        Some(Verified { rtt, confirmed, revived })
    }
}
