//! Graceful close.
//!
//! Home of RFC 9260 §9.2.

use super::acknowledge::Acknowledgement;
use super::outbound::packet::FinalPacket;
use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::{CloseReason, Event};
use anabranch_wire::sctp::{Cause, ShutdownComplete, Tsn};

/// How far a graceful close is.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// The application has asked to close while the handshake was under way.
    asked: bool,
    /// Where SHUTDOWN and SHUTDOWN ACK go after a timeout.
    path: Option<u8>,
    /// Expiries of T2-shutdown in a row.
    retries: u32,
}

impl Closing {
    /// Whether the application has asked to close once the handshake is over.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Whether it has; now that comes to pass.
    pub(super) fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// A SHUTDOWN that was sent means nothing any more.
    pub(super) fn begin_again(&mut self) {
        (self.path, self.retries) = (None, 0);
    }

    /// A path is no more.
    pub(super) fn forget_path(&mut self, path: usize) {
        self.path = self.path.filter(|&other| usize::from(other) != path);
    }
}

impl Association {
    /// The application wants to close.
    pub(crate) fn shutdown(&mut self, ctx: &mut Ctx<'_>) {
        match self.state {
            // An association that has nothing to deliver is just given up as long as the peer
            // knows nothing of it. After the COOKIE ECHO it may be up over there, with data on
            // its way, and what was given to `send` is to be delivered: the handshake goes on.
            State::CookieWait(_) if self.send.is_idle() => {
                self.abort_with(ctx, &Cause::UserAbort(&[]), CloseReason::Local);
            }
            State::CookieWait(_) | State::CookieEchoed(_) => self.closing.asked = true,
            State::Established => {
                self.state = State::ShutdownPending;
                self.begin_shutdown(ctx);
            }
            // RFC 9260 §9.2: once the peer shuts down, the request changes nothing.
            _ => {}
        }
    }

    /// One side has asked to close. RFC 3758 §3.5 A2: what was given up before, and the peer was told so, is not
    /// outstanding: the shutdown waits for nothing of it.
    fn begin_shutdown(&mut self, ctx: &mut Ctx<'_>) {
        if self.send.is_given_up(0) {
            self.leave_given_up();
            self.go_on_shutting_down(ctx);
        } else {
            self.advance_shutdown(ctx);
        }
    }

    /// Nothing is outstanding any more: the next step of the shutdown. What was given up while the shutdown waited for it
    /// has a second FORWARD TSN to be answered, as other stacks wait for that; longer the shutdown does not wait.
    pub(super) fn advance_shutdown(&mut self, ctx: &mut Ctx<'_>) {
        let closing = matches!(self.state, State::ShutdownPending | State::ShutdownReceived);
        if self.send.is_idle() {
            self.go_on_shutting_down(ctx);
        } else if closing && self.send.is_given_up(2) {
            self.leave_given_up();
            self.go_on_shutting_down(ctx);
        }
    }

    fn go_on_shutting_down(&mut self, ctx: &mut Ctx<'_>) {
        match self.state {
            State::ShutdownPending => {
                self.state = State::ShutdownSent;
                self.stop_heartbeats();
                self.outbox.set_shutdown(true);
                // RFC 9260 §9.2: the guard, five times RTO.Max.
                self.timers.set(Timer::T5Guard, ctx.now + self.config.rto_max.saturating_mul(5));
            }
            State::ShutdownReceived => self.enter_shutdown_ack_sent(),
            _ => {}
        }
    }

    /// Nobody waits any more for the answer to a FORWARD TSN.
    fn leave_given_up(&mut self) {
        for index in 0..self.paths.len() {
            self.timers.stop(Timer::T3Rtx(index));
            self.timers.stop(Timer::Loss(index));
            self.paths.at(index).forget_flight();
        }
    }

    fn enter_shutdown_ack_sent(&mut self) {
        self.state = State::ShutdownAckSent;
        self.stop_heartbeats();
        self.outbox.set_shutdown(true);
        self.closing.retries = 0;
    }

    fn stop_heartbeats(&mut self) {
        for index in 0..self.paths.len() {
            self.timers.stop(Timer::Heartbeat(index));
            self.timers.stop(Timer::HeartbeatLost(index));
            self.paths.at(index).cancel_heartbeat();
            self.stop_mtu_search(index);
        }
    }

    /// SHUTDOWN or SHUTDOWN ACK has been written.
    pub(super) fn shutdown_sent(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.outbox.set_shutdown(false);
        let rto = self.paths.get(index).rto();
        self.timers.set(Timer::T2Shutdown, ctx.now + rto);
    }

    /// Where SHUTDOWN and SHUTDOWN ACK go.
    pub(super) fn shutdown_path(&self) -> usize {
        self.closing.path.map_or(self.paths.current(), usize::from)
    }

    pub(super) fn on_t2_shutdown(&mut self, ctx: &mut Ctx<'_>) {
        let index = self.shutdown_path();
        let most = self.config.path_max_retrans;
        self.closing.retries += 1;
        if self.closing.retries > self.config.assoc_max_retrans {
            self.give_up(ctx);
            return;
        }
        let path = self.paths.at(index);
        path.back_off();
        let health = path.on_error(ctx.now, most);
        self.on_health(ctx, index, health);
        // As DATA that timed out: to another address, if there is one.
        self.closing.path = Some(self.paths.alternate(index).unwrap_or(index) as u8);
        if matches!(self.state, State::ShutdownSent | State::ShutdownAckSent) {
            self.outbox.set_shutdown(true);
        }
    }

    /// RFC 9260 §9.2: the shutdown as a whole takes too long.
    pub(super) fn on_t5_guard(&mut self, ctx: &mut Ctx<'_>) {
        self.abort_with(ctx, &Cause::UserAbort(b"shutdown guard"), CloseReason::ShutdownTimeout);
    }

    pub(super) fn on_shutdown(&mut self, ctx: &mut Ctx<'_>, cumulative: Tsn, path: usize) {
        if matches!(self.state, State::CookieWait(_) | State::CookieEchoed(_) | State::Closed) {
            return;
        }
        // RFC 9260 §6.4: the answer goes to where the SHUTDOWN came from.
        if self.paths.get(path).is_reachable() {
            self.closing.path = Some(path as u8);
        }
        // The SHUTDOWN COMPLETE that answers our SHUTDOWN ACK is still to come.
        if matches!(self.state, State::ShutdownAckSent) {
            self.outbox.set_shutdown(true);
            return;
        }
        if !self.acknowledge_by_shutdown(ctx, cumulative) {
            return;
        }
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
                ctx.events.push_back(Event::PeerShutdown { id: self.id });
                self.begin_shutdown(ctx);
            }
            // RFC 9260 §9.2: both shut down at once.
            State::ShutdownSent => self.enter_shutdown_ack_sent(),
            State::ShutdownReceived => self.advance_shutdown(ctx),
            _ => {}
        }
    }

    /// Takes in the Cumulative TSN Ack; false when that was the end.
    fn acknowledge_by_shutdown(&mut self, ctx: &mut Ctx<'_>, cumulative: Tsn) -> bool {
        if !self.send.is_advanced_by(cumulative) {
            return true;
        }
        self.on_acknowledgement(ctx, Acknowledgement::Shutdown(cumulative));
        !matches!(self.state, State::Closed)
    }

    pub(super) fn on_shutdown_ack(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        match self.state {
            State::ShutdownSent | State::ShutdownAckSent => {
                // RFC 9260 §6.4: to where the SHUTDOWN ACK came from; §5.4: but to no unverified address.
                let path = self.paths.confirmed_or_current(path);
                let packet = FinalPacket::new(self.ends(path), self.identity.header_to_peer(), |bytes| {
                    ShutdownComplete { reflected: false }.emit(bytes);
                });
                self.send_final(ctx, packet);
                self.close(ctx, CloseReason::Shutdown);
            }
            // RFC 9260 §8.5.1 E, §9.2: of a former association: answered as if there were none,
            // and the handshake goes on.
            State::CookieWait(_) | State::CookieEchoed(_) => {
                let header = self.identity.header(self.identity.local_tag());
                let packet = FinalPacket::new(self.ends(path), header, |bytes| {
                    ShutdownComplete { reflected: true }.emit(bytes);
                });
                ctx.final_packets.push_back(packet);
            }
            _ => {}
        }
    }

    pub(crate) fn on_shutdown_complete(&mut self, ctx: &mut Ctx<'_>) {
        // RFC 9260 §8.5.1 C: in no other state.
        if matches!(self.state, State::ShutdownAckSent) {
            self.close(ctx, CloseReason::Shutdown);
        }
    }

    /// RFC 9260 §9.2: whatever comes from the peer shows that it is there: it gets its time. Not by a HEARTBEAT: those
    /// are answered no more (§8.3), and if they came more often than the RTO, a SHUTDOWN that was lost would never be
    /// repeated, until the peer took this host for unreachable.
    pub(super) fn heard_while_shutting_down(&mut self, ctx: &mut Ctx<'_>, heartbeat: bool) {
        self.closing.retries = 0;
        if !heartbeat && self.timers.is_set(Timer::T2Shutdown) {
            let index = self.shutdown_path();
            self.timers.set(Timer::T2Shutdown, ctx.now + self.paths.get(index).rto());
        }
    }

    /// RFC 9260 §9.2: DATA while SHUTDOWN is out: answer it with another at once.
    pub(super) fn data_while_shutting_down(&mut self) {
        self.outbox.set_shutdown(true);
        if self.recv.needs_sack_beside_shutdown() {
            self.recv.sack_now();
        }
    }
}
