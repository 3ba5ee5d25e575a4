//! Writing of control chunks, alone or in front of DATA.
//!
//! Decides which pending control chunks go into a packet, and in which order. During bulk transfer there is usually no
//! control chunk.
//!
//! Implements RFC 9260 §5.1 C and D (chunks bundled with COOKIE ECHO and COOKIE ACK), and the order of §6.10.

use super::Allowed;
use crate::association::timers::Timer;
use crate::association::{Association, Ctx, State};
use crate::path::heartbeat;
use anabranch_wire::sctp::{CookieAck, CookieEcho, Heartbeat, Shutdown, ShutdownAck};

impl Association {
    pub(super) fn write_cookie_echo(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
    ) {
        if let State::CookieEchoed(echo) = &self.state {
            CookieEcho { cookie: &echo.cookie }.emit(buffer);
        }
        // RFC 9260 §5.4: a COOKIE ECHO to an unverified address is sent only together with a HEARTBEAT.
        if !self.paths.get(index).is_confirmed() {
            self.write_heartbeat(ctx, index, buffer);
        }
        // RFC 9260 §3.3.10 allows an ERROR in the packet of the COOKIE ECHO. The ERROR reports unrecognized parameters
        // of the INIT ACK.
        self.outbox.write_errors(index, end, buffer, false);
        // RFC 9260 §5.1 C: DATA may be bundled with COOKIE ECHO. RFC 8899 §4.3: if the path MTU is smaller than
        // assumed, large packets are lost. So during an MTU search, a retransmitted COOKIE ECHO carries no DATA. If the
        // retransmissions were lost too, the cookie might become stale.
        let small = self.paths.get(index).has_mtu_search()
            && matches!(&self.state, State::CookieEchoed(echo) if echo.is_overdue());
        if self.config.cookie_data && self.paths.get(index).is_confirmed() && !small {
            let open = self.paths.get(index).flight() == 0;
            let allowed = Allowed { retransmissions: open, new: open && self.cookie_takes_new() };
            self.write_data(ctx, index, end, buffer, tag, allowed);
        }
        self.cookie_echo_sent(ctx, index);
    }

    pub(super) fn write_shutdown(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
    ) {
        if matches!(self.state, State::ShutdownAckSent) {
            ShutdownAck.emit(buffer);
        } else {
            // RFC 9260 §9.2: if there are gaps, bundle a SACK with the SHUTDOWN.
            if self.recv.needs_sack_beside_shutdown() {
                self.emit_sack(end.saturating_sub(8), buffer);
            }
            Shutdown { cumulative: self.recv.cumulative() }.emit(buffer);
            self.recv.sack_done();
            self.timers.stop(Timer::Sack);
        }
        self.shutdown_sent(ctx, index);
    }

    /// Writes the control chunks for path `index`. They precede all other chunks.
    #[cold]
    pub(super) fn write_control(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
    ) {
        let begin = buffer.len();
        if self.outbox.take_cookie_ack(index) {
            // RFC 9260 §5.1 D: COOKIE ACK must be the first chunk.
            CookieAck.emit(buffer);
            if !self.paths.get(index).is_confirmed() {
                // RFC 9260 §5.4: a COOKIE ACK to an unverified address is sent only together with a HEARTBEAT.
                self.write_heartbeat(ctx, index, buffer);
            }
        }
        self.outbox.write_errors(index, end, buffer, buffer.len() == begin);
        // RFC 9260 §8.3: a HEARTBEAT ACK is as long as the HEARTBEAT, which fitted into a packet. So the HEARTBEAT ACK
        // fits as well, unless the path to the peer has a smaller MTU.
        let alone = self.outbox.write_heartbeat_acks(index, end, buffer, buffer.len() == begin);
        self.write_reconfig(ctx, index, end, buffer, alone);
        if self.paths.get(index).wants_heartbeat() && buffer.len() + 8 + heartbeat::INFO <= end {
            self.write_heartbeat(ctx, index, buffer);
        }
    }

    pub(in crate::association) fn write_heartbeat(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        buffer: &mut Vec<u8>,
    ) {
        let nonce = self.rng.next_u64();
        let info = heartbeat::write_info(index, nonce, ctx.now);
        Heartbeat { info: &info, rest: &[] }.emit(buffer);
        self.heartbeat_sent(ctx, index, nonce);
    }
}
