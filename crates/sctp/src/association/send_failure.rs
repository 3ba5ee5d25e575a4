//! Packets that this host could not send because it has no route to their destination.
//!
//! A packet without a route never left the host, so the failure is known before any protocol timer expires. The
//! packet's data is sent on another path at once, as if the path without a route were potentially failed. If there is
//! no other path, the data waits until the host reports a change of its routes. The missing route itself does not count
//! as an error, but T3-rtx and the HEARTBEAT timer keep running and count errors. So if the host stays without a
//! network, the association still ends after the usual time.
//!
//! Implements RFC 7829 §3 (2) for failures that this host detects itself, and RFC 1122 §3.3.1.4 (advice about dead
//! gateways).

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::path::health::HealthChange;
use anabranch_base::trace::{SendCause, TraceEvent};
use std::net::{IpAddr, SocketAddr};

impl Association {
    /// Handles a packet from `source` to `target` that the host could not send. Returns true if the association waits
    /// for the host's routes to change.
    pub(crate) fn on_unsent(&mut self, ctx: &mut Ctx<'_>, source: IpAddr, target: IpAddr) -> bool {
        self.asconf_unsent(source, target);
        let Some(index) = self.paths.find(target) else {
            return false;
        };
        let path = self.paths.at(index);
        if path.source().ip() != source || !path.is_usable() {
            return true;
        }
        path.on_unsent();
        let foreseen = path.has_potentially_failed_state();
        let elsewhere = (0..self.paths.len()).any(|other| other != index && self.paths.get(other).is_sound());
        if foreseen && elsewhere && !self.paths.get(index).is_potentially_failed() {
            self.mark_path_lost(ctx, index);
            self.paths.at(index).suspect();
            self.on_health(ctx, index, HealthChange::PotentiallyFailed);
        }
        true
    }

    /// Called when the routes of the host have changed. Sends the data and the ASCONF that the host could not send
    /// before, without waiting for a timer.
    pub(crate) fn routes_changed(&mut self, ctx: &mut Ctx<'_>) {
        self.asconf_again();
        for index in 0..self.paths.len() {
            let path = self.paths.at(index);
            if !path.take_unsent() || !path.is_usable() {
                continue;
            }
            if path.is_potentially_failed() {
                // RFC 7829 §3 (5): the peer has to answer a HEARTBEAT before data is sent on this path again.
                path.ask_heartbeat_once();
            }
            self.mark_path_lost(ctx, index);
        }
    }

    /// Returns whether packets of this association are sent to the address `peer`.
    pub(crate) fn has_peer_address(&self, peer: SocketAddr) -> bool {
        (0..self.paths.len()).any(|index| self.ends(index).1 == peer)
    }

    /// Handles the report that a lower layer can now carry packets to the peer. If the host could not send the INIT
    /// earlier, the INIT is sent now. No earlier copy has left the host, so the INIT ACK gives a round-trip sample (RFC
    /// 9260 §6.3.1 C5).
    pub(crate) fn on_peer_reachable(&mut self, ctx: &mut Ctx<'_>) {
        let path = self.handshake_path();
        if matches!(self.state, State::CookieWait(_)) && self.paths.at(path).take_unsent() {
            ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Secured);
            self.outbox.set_handshake(true);
        }
    }

    /// Marks all chunks in flight on a path as lost, as after an expiration of T3-rtx (RFC 9260 §6.3.3 E1, E3). There
    /// is no back-off, because the timer has not expired.
    fn mark_path_lost(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let path = self.paths.at(index);
        if path.flight() == 0 || self.send.is_probing() || !self.state.may_send_data() {
            return;
        }
        path.collapse(ctx.now);
        self.timers.stop(Timer::T3Rtx(index));
        self.lose_flight(index, SendCause::Timeout);
        self.send.begin_timeout_repair();
    }
}
