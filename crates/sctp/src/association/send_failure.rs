//! Packets that this host itself could not send: it knew no way to their target.
//!
//! Nothing has left the host, so that no timer of the protocol need run out to know it. What was to go by such a path
//! goes by another at once, as if it were potentially failed; where there is none, it waits for the host to tell that
//! its routes have changed. Neither is an error of the path or of the association: those are counted by T3-rtx and
//! HEARTBEAT, so that a host whose network is gone for good is given up as ever.
//!
//! Home of RFC 7829 §3 (2) as far as local knowledge goes, and of RFC 1122 §3.3.1.4 (advice about dead ways).

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::path::health::Health;
use anabranch_base::trace::{SendCause, TraceEvent};
use std::net::{IpAddr, SocketAddr};

impl Association {
    /// A packet from `source` to `target` could not be sent. True when the association waits for routes to change.
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
        let foreseen = path.foresees_failure();
        let elsewhere = (0..self.paths.len()).any(|other| other != index && self.paths.get(other).is_sound());
        if foreseen && elsewhere && !self.paths.get(index).is_potentially_failed() {
            self.take_back(ctx, index);
            self.paths.at(index).suspect();
            self.on_health(ctx, index, Health::PotentiallyFailed);
        }
        true
    }

    /// The host's routes have changed: what could not be sent is tried again at once.
    pub(crate) fn routes_changed(&mut self, ctx: &mut Ctx<'_>) {
        self.asconf_again();
        for index in 0..self.paths.len() {
            let path = self.paths.at(index);
            if !path.take_unsent() || !path.is_usable() {
                continue;
            }
            if path.is_potentially_failed() {
                // It asks before data comes back (RFC 7829 §3 (5)).
                path.ask_heartbeat_once();
            }
            self.take_back(ctx, index);
        }
    }

    /// Whether `peer` is an address that packets of this association go to.
    pub(crate) fn reaches(&self, peer: SocketAddr) -> bool {
        (0..self.paths.len()).any(|index| self.ends(index).1 == peer)
    }

    /// A layer beneath can carry packets to the peer from now on. An INIT that it could not goes at once: nothing has left
    /// before, so that its answer measures the round trip (RFC 9260 §6.3.1 C5).
    pub(crate) fn carried(&mut self, ctx: &mut Ctx<'_>) {
        let path = self.handshake_path();
        if matches!(self.state, State::CookieWait(_)) && self.paths.at(path).take_unsent() {
            ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Secured);
            self.outbox.set_handshake(true);
        }
    }

    /// What is in flight there is lost, as after T3-rtx (RFC 9260 §6.3.3 E1, E3), but without a back-off: the timer
    /// has not run out.
    fn take_back(&mut self, ctx: &mut Ctx<'_>, index: usize) {
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
