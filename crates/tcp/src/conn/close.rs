//! Closing a connection, whichever side closes first, and aborting a connection.
//!
//! Implements RFC 9293 §3.6, §3.6.1 (TIME-WAIT), §3.10.4 (CLOSE), §3.10.5 (ABORT), and the eighth check of §3.10.7.4
//! (the FIN bit).

use super::timers::Timer;
use super::{Connection, Outbox, Reply, State};
use crate::{CloseReason, Event};
use anabranch_base::Instant;
use anabranch_wire::tcp::Header;

impl Connection {
    /// Ends our sending direction, because the application will send no more data. A FIN follows the buffered data.
    pub(crate) fn finish(&mut self) {
        if self.send.finished {
            return;
        }
        self.send.finish();
        self.send.begin_burst();
        self.send.forget_refusal();
        self.recv.on_own_fin();
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            // In SYN-SENT and SYN-RECEIVED, nothing is done yet: the FIN is sent after the handshake.
            _ => {}
        }
    }

    /// Closes the connection: the application neither sends nor reads any more. Data that arrives from now on is
    /// answered with a reset.
    pub(crate) fn close(&mut self, now: Instant, out: &mut Outbox) {
        // RFC 9293 §3.6.1: unread data is discarded, so a reset tells the peer that the data was lost.
        if self.recv.readable() > 0 {
            self.abort(now, out);
            return;
        }
        // RFC 9293 §3.10.4: a connection in SYN-SENT that has no buffered data is deleted.
        if self.state == State::SynSent && self.send.buffer.end() == 0 {
            return self.fail(now, CloseReason::Finished, out);
        }
        self.orphan = true;
        self.finish();
        if self.state == State::FinWait2 {
            self.timers.set(Timer::FinWait2, now + self.config.fin_wait2);
        }
        self.conclude(now, out);
    }

    /// Ends the connection immediately. Sends a reset to the peer if the peer may know of the connection.
    pub(crate) fn abort(&mut self, now: Instant, out: &mut Outbox) {
        self.reset_peer(out);
        self.fail(now, CloseReason::Aborted, out);
    }

    /// Ends the connection without informing the peer, because this host no longer has the local address.
    pub(crate) fn lose_address(&mut self, now: Instant, out: &mut Outbox) {
        self.fail(now, CloseReason::AddressGone, out);
    }

    /// RFC 9293 §3.10.5: sends a reset, unless this side's state shows that the peer needs none.
    pub(super) fn reset_peer(&mut self, out: &mut Outbox) {
        match self.state {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => {
                let seq = self.seq_of(self.send.scoreboard.next());
                let ack = self.ack_of(self.recv.next());
                out.reply(Reply::reset(self.local, self.remote, seq, Some(ack)));
            }
            State::SynSent | State::TimeWait | State::Closed => {}
        }
    }

    /// Changes the state after the peer has acknowledged our FIN.
    pub(super) fn on_fin_acked(&mut self, now: Instant, out: &mut Outbox) {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.orphan {
                    self.timers.set(Timer::FinWait2, now + self.config.fin_wait2);
                }
            }
            State::Closing => self.enter_time_wait(now, out),
            State::LastAck => self.finish_early(now, out),
            _ => {}
        }
    }

    /// Changes the state after the peer's FIN has arrived in order, and reports the end of the peer's data to the
    /// application.
    pub(super) fn on_peer_finished(&mut self, now: Instant, out: &mut Outbox) {
        if !self.is_finished_reported {
            self.is_finished_reported = true;
            let id = self.id;
            self.event(out, Event::Finished { id });
        }
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => {
                // RFC 9293 §3.10.7.4: the segment with the peer's FIN may also acknowledge our FIN.
                if self.send.fin_acked() {
                    self.enter_time_wait(now, out);
                } else {
                    self.state = State::Closing;
                }
            }
            State::FinWait2 => self.enter_time_wait(now, out),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Instant, out: &mut Outbox) {
        self.keep_metrics(out);
        self.state = State::TimeWait;
        self.timers.stop_all();
        self.send.discard();
        self.restart_time_wait(now);
        self.conclude(now, out);
    }

    /// Ends the connection and skips TIME-WAIT. Received data can still be read.
    pub(super) fn finish_early(&mut self, now: Instant, out: &mut Outbox) {
        self.keep_metrics(out);
        self.state = State::Closed;
        self.timers.stop_all();
        self.send.discard();
        self.conclude(now, out);
    }

    /// RFC 9293 §3.10.7.4: a retransmitted FIN restarts the 2 MSL wait.
    pub(super) fn restart_time_wait(&mut self, now: Instant) {
        // The deadline is strictly later than `now`, so that even a wait of 0 ends through the timer.
        self.timers.set(Timer::TimeWait, (now + self.config.time_wait).max(now.plus_nanos(1)));
    }

    /// Ends TIME-WAIT because its timer has expired, or because a new connection takes over the four-tuple.
    pub(crate) fn leave_time_wait(&mut self, now: Instant, out: &mut Outbox) {
        self.state = State::Closed;
        self.timers.stop_all();
        self.conclude(now, out);
    }

    /// RFC 9293 §3.6.1, RFC 6191 §2: returns whether `syn` opens a new connection and cannot be an old duplicate.
    pub(crate) fn is_new_incarnation(&self, syn: &Header) -> bool {
        match syn.options.timestamps {
            Some(stamps) if self.options.timestamps => self.options.is_younger(stamps),
            _ => syn.seq.after(self.ack_of(self.recv.next())),
        }
    }

    /// Emits the event `Closed` once the connection has ended and the application has read all received data.
    pub(super) fn conclude(&mut self, now: Instant, out: &mut Outbox) {
        if matches!(self.state, State::TimeWait | State::Closed) && (self.orphan || self.recv.readable() == 0)
        {
            self.emit_closed(now, CloseReason::Finished, out);
        }
    }
}
