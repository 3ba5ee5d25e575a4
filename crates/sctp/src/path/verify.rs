//! Is this address really the peer's?
//!
//! An address learned from the peer is not used before a HEARTBEAT to it has
//! come back with its nonce: nobody can make us send to a third party.
//!
//! Home of RFC 9260 §5.4.

use super::Path;
use super::health::Evidence;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// What a HEARTBEAT ACK has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verified {
    /// The round trip.
    pub(crate) rtt: Duration,
    /// The address is known to be the peer's now, and was not before.
    pub(crate) confirmed: bool,
    /// The path is back after a failure.
    pub(crate) revived: bool,
}

impl Path {
    /// A HEARTBEAT ACK names this path; `None` when the nonce is not the one sent.
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
