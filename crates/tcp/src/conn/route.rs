//! Keeps the slow-start threshold of a connection for the next connection to the same host. Linux 2.6 keeps it with the
//! route.
//!
//! Linux also keeps the round-trip time and its variation, which raise the first RTO of the next connection. This
//! module does not keep them: the first RTO is above 200 ms in any case, and the values of a short path would not raise
//! it.
//!
//! No RFC requires this (RFC 9040 §3.2 describes it). The model is tcp_update_metrics and tcp_init_metrics of
//! net/ipv4/tcp_input.c in Linux 2.6.12-rc2. Linux has one route for both ends of a loopback connection. Here each end
//! keeps its own threshold.

use super::{Connection, Outbox};
use crate::send::Phase;
use anabranch_congestion::Controller;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The slow-start thresholds of ended connections in segments, by the address of the peer.
#[derive(Debug, Default)]
pub(crate) struct RouteMetrics(BTreeMap<IpAddr, u64>);

/// A threshold of this many segments means that slow start has not ended.
const UNLIMITED: u64 = 0xffff;

impl RouteMetrics {
    /// Updates the threshold of the route to `peer` from the window and the threshold of a connection that has ended,
    /// both in segments. `is_open` is true if the connection was not repairing a loss.
    fn update(&mut self, peer: IpAddr, (window, ssthresh): (u64, u64), is_open: bool) {
        let kept = self.0.get(&peer).copied();
        let found = if ssthresh >= UNLIMITED {
            // The connection never left slow start, so it has no threshold. Half of its congestion window replaces the
            // kept threshold only if it is larger.
            kept.map(|kept| kept.max(window / 2))
        } else if window > ssthresh && is_open {
            Some(ssthresh.max(window / 2))
        } else {
            kept.map(|kept| kept.max(ssthresh))
        };
        if let Some(found) = found {
            self.0.insert(peer, found);
        }
    }
}

impl Connection {
    /// Keeps the threshold of this connection, which has ended properly.
    pub(super) fn keep_metrics(&self, out: &mut Outbox) {
        // Nothing is kept if the peer has not answered since the last timeout, or if no round trip was measured.
        if !self.config.route_metrics || self.timeouts > 0 || self.send.rtt.smoothed().is_none() {
            return;
        }
        let mss = self.send.mss().max(1);
        let controller = &self.send.controller;
        let state = (controller.window() / mss, controller.ssthresh() / mss);
        out.routes.update(self.remote.ip(), state, self.send.recovery.phase() == Phase::Open);
    }

    /// Returns the slow-start threshold, in segments, of earlier connections to this peer.
    pub(super) fn kept_ssthresh(&self, out: &Outbox) -> Option<u64> {
        let kept = out.routes.0.get(&self.remote.ip()).copied();
        kept.filter(|_| self.config.route_metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_kept_once_slow_start_has_ended() {
        let peer = IpAddr::from([10, 0, 0, 1]);
        let mut routes = RouteMetrics::default();
        let mut after = |window, ssthresh, is_open| {
            routes.update(peer, (window, ssthresh), is_open);
            routes.0.get(&peer).copied()
        };
        assert_eq!(after(20, u64::MAX, true), None, "slow start has not ended");
        assert_eq!(after(2, 4, true), None, "the window is below its threshold");
        assert_eq!(after(5, 4, false), None, "a loss is being repaired");
        assert_eq!(after(5, 4, true), Some(4));
        assert_eq!(after(20, 4, true), Some(10));
        assert_eq!(after(3, 2, true), Some(2), "the last connection decides");
        assert_eq!(after(8, u64::MAX, true), Some(4), "half of the window");
        assert_eq!(after(2, 7, true), Some(7));
        assert_eq!(after(2, 3, true), Some(7));
    }
}
