//! Graceful shutdown.
//!
//! Implements RFC 9260 §9.2.

use super::acknowledge::Acknowledgement;
use super::outbound::packet::StatelessPacket;
use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::{CloseReason, Event};
use anabranch_wire::sctp::{Cause, ShutdownComplete, Tsn};

/// The progress of a graceful shutdown.
#[derive(Debug, Default)]
pub(crate) struct ShutdownProgress {
    /// Whether the application asked to close the association during the handshake.
    requested: bool,
    /// The path for SHUTDOWN and SHUTDOWN ACK; `None` for the current path. After a timeout, or to answer a SHUTDOWN,
    /// another path may be used.
    path: Option<u8>,
    /// The number of consecutive expirations of T2-shutdown.
    retries: u32,
}

impl ShutdownProgress {
    /// Returns whether the application asked to close the association as soon as the handshake is complete.
    pub(super) fn is_shutdown_requested(&self) -> bool {
        self.requested
    }

    /// Returns whether the application asked to close the association during the handshake, and clears the request.
    pub(super) fn take_shutdown_request(&mut self) -> bool {
        std::mem::take(&mut self.requested)
    }

    /// Resets the path and the number of retries of SHUTDOWN and SHUTDOWN ACK.
    pub(super) fn begin_again(&mut self) {
        (self.path, self.retries) = (None, 0);
    }

    /// Makes SHUTDOWN and SHUTDOWN ACK use the current path, if they used `path`. Called when `path` is removed.
    pub(super) fn forget_path(&mut self, path: usize) {
        self.path = self.path.filter(|&other| usize::from(other) != path);
    }
}

impl Association {
    /// Closes the association at the application's request.
    pub(crate) fn shutdown(&mut self, ctx: &mut Ctx<'_>) {
        match self.state {
            // In COOKIE-WAIT the peer does not know the association yet, so the association is simply aborted if there
            // is nothing to deliver. In COOKIE-ECHOED the peer may have established the association and sent data. So
            // the handshake continues in COOKIE-ECHOED, and in COOKIE-WAIT if data is queued.
            State::CookieWait(_) if self.send.is_idle() => {
                self.abort_with(ctx, &Cause::UserAbort(&[]), CloseReason::Local);
            }
            State::CookieWait(_) | State::CookieEchoed(_) => self.closing.requested = true,
            State::Established => {
                self.state = State::ShutdownPending;
                self.begin_shutdown(ctx);
            }
            // RFC 9260 §9.2: if a shutdown is already in progress, the request changes nothing.
            _ => {}
        }
    }

    /// Starts the shutdown at the request of either side. RFC 3758 §3.5 A2: the shutdown does not wait for abandoned
    /// chunks that a FORWARD TSN has already announced, because such chunks do not count as outstanding.
    fn begin_shutdown(&mut self, ctx: &mut Ctx<'_>) {
        if self.send.is_given_up(0) {
            self.leave_given_up();
            self.continue_shutdown(ctx);
        } else {
            self.advance_shutdown(ctx);
        }
    }

    /// Takes the next step of the shutdown once no chunk is outstanding. If only abandoned chunks are outstanding, a
    /// FORWARD TSN announces them, because other stacks wait for it. The FORWARD TSN is repeated when T3-rtx expires.
    /// After the second expiration the shutdown continues without an answer.
    pub(super) fn advance_shutdown(&mut self, ctx: &mut Ctx<'_>) {
        let closing = matches!(self.state, State::ShutdownPending | State::ShutdownReceived);
        if self.send.is_idle() {
            self.continue_shutdown(ctx);
        } else if closing && self.send.is_given_up(2) {
            self.leave_given_up();
            self.continue_shutdown(ctx);
        }
    }

    fn continue_shutdown(&mut self, ctx: &mut Ctx<'_>) {
        match self.state {
            State::ShutdownPending => {
                self.state = State::ShutdownSent;
                self.stop_heartbeats();
                self.outbox.set_shutdown(true);
                // RFC 9260 §9.2: the guard timer is five times RTO.Max.
                self.timers.set(Timer::T5Guard, ctx.now + self.config.rto_max.saturating_mul(5));
            }
            State::ShutdownReceived => self.enter_shutdown_ack_sent(),
            _ => {}
        }
    }

    /// Ends the wait for the acknowledgement of abandoned chunks.
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

    /// Records that a SHUTDOWN or SHUTDOWN ACK has been written.
    pub(super) fn shutdown_sent(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.outbox.set_shutdown(false);
        let rto = self.paths.get(index).rto();
        self.timers.set(Timer::T2Shutdown, ctx.now + rto);
    }

    /// Returns the path for SHUTDOWN and SHUTDOWN ACK.
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
        // Retransmit the SHUTDOWN or SHUTDOWN ACK to another address if there is one, like DATA after a timeout.
        self.closing.path = Some(self.paths.alternate(index).unwrap_or(index) as u8);
        if matches!(self.state, State::ShutdownSent | State::ShutdownAckSent) {
            self.outbox.set_shutdown(true);
        }
    }

    /// RFC 9260 §9.2: aborts a shutdown that takes too long.
    pub(super) fn on_t5_guard(&mut self, ctx: &mut Ctx<'_>) {
        self.abort_with(ctx, &Cause::UserAbort(b"shutdown guard"), CloseReason::ShutdownTimeout);
    }

    pub(super) fn on_shutdown(&mut self, ctx: &mut Ctx<'_>, cumulative: Tsn, path: usize) {
        if matches!(self.state, State::CookieWait(_) | State::CookieEchoed(_) | State::Closed) {
            return;
        }
        // RFC 9260 §6.4: the SHUTDOWN ACK is sent to the address that the SHUTDOWN came from.
        if self.paths.get(path).is_reachable() {
            self.closing.path = Some(path as u8);
        }
        // The SHUTDOWN ACK is repeated, because no SHUTDOWN COMPLETE has arrived yet.
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
            // RFC 9260 §9.2: both sides have sent a SHUTDOWN at the same time, so both answer with SHUTDOWN ACK.
            State::ShutdownSent => self.enter_shutdown_ack_sent(),
            State::ShutdownReceived => self.advance_shutdown(ctx),
            _ => {}
        }
    }

    /// Processes the Cumulative TSN Ack of a SHUTDOWN. Returns false if the association has ended as a result.
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
                // RFC 9260 §6.4: answer the address that the SHUTDOWN ACK came from; §5.4: if that address is
                // unverified, answer another address.
                let path = self.paths.confirmed_or_current(path);
                let packet = StatelessPacket::new(self.ends(path), self.identity.header_to_peer(), |bytes| {
                    ShutdownComplete { reflected: false }.emit(bytes);
                });
                self.send_stateless(ctx, packet);
                self.close(ctx, CloseReason::Shutdown);
            }
            // RFC 9260 §8.5.1 E, §9.2: the SHUTDOWN ACK belongs to a former association. Answer the chunk as if there
            // were no association, and continue the handshake.
            State::CookieWait(_) | State::CookieEchoed(_) => {
                let header = self.identity.header(self.identity.local_tag());
                let packet = StatelessPacket::new(self.ends(path), header, |bytes| {
                    ShutdownComplete { reflected: true }.emit(bytes);
                });
                ctx.stateless_packets.push_back(packet);
            }
            _ => {}
        }
    }

    pub(crate) fn on_shutdown_complete(&mut self, ctx: &mut Ctx<'_>) {
        // RFC 9260 §8.5.1 C: a SHUTDOWN COMPLETE is ignored in any state but SHUTDOWN-ACK-SENT.
        if matches!(self.state, State::ShutdownAckSent) {
            self.close(ctx, CloseReason::Shutdown);
        }
    }

    /// RFC 9260 §9.2: any packet from the peer shows that the peer is alive and resets the retry count. A packet
    /// without a HEARTBEAT also restarts T2-shutdown. HEARTBEATs are not answered during the shutdown (§8.3) and must
    /// not restart T2-shutdown. Otherwise a lost SHUTDOWN would never be repeated to a peer that sends HEARTBEATs more
    /// than once per RTO.
    pub(super) fn reset_shutdown_retry_count(&mut self, ctx: &mut Ctx<'_>, heartbeat: bool) {
        self.closing.retries = 0;
        if !heartbeat && self.timers.is_set(Timer::T2Shutdown) {
            let index = self.shutdown_path();
            self.timers.set(Timer::T2Shutdown, ctx.now + self.paths.get(index).rto());
        }
    }

    /// RFC 9260 §9.2: after SHUTDOWN was sent, DATA is answered with another SHUTDOWN at once.
    pub(super) fn data_while_shutting_down(&mut self) {
        self.outbox.set_shutdown(true);
        if self.recv.needs_sack_beside_shutdown() {
            self.recv.sack_now();
        }
    }
}
