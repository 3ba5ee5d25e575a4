//! Undoes the sending of a segment that this host's own packet filter has dropped.
//!
//! The acknowledgement in a dropped segment still counts as sent, as in tcp_transmit_skb of Linux. A dropped SYN,
//! window probe or segment without data also counts as sent. Timers repeat the SYN and the probe; nothing repeats a
//! segment without data.

use super::timers::Timer;
use super::{Connection, Outbox, State};
use crate::config::SynQueue;
use anabranch_base::Instant;
use anabranch_base::trace::{SendCause, TraceEvent};
use anabranch_wire::tcp::{Flags, Segment};

impl Connection {
    /// Returns whether the host forgets this half-open connection if it cannot send the SYN-ACK (tcp_v4_conn_request of
    /// Linux 2.6). The peer then repeats its SYN.
    pub(crate) fn is_forgotten_when_refused(&self) -> bool {
        self.passive && self.state == State::SynReceived && self.config.syn_queue == SynQueue::Scan
    }

    /// Handles the drop of `segment`, which this connection has just sent as packet number `tag`.
    #[cold]
    pub(crate) fn on_local_drop(&mut self, now: Instant, segment: &Segment<'_>, tag: u64, out: &mut Outbox) {
        let length = segment.payload.len() as u64;
        let fin = segment.header.flags.has(Flags::FIN);
        let Ok(start) = u64::try_from(self.own_position(segment.header.seq)) else { return };
        let end = start + length + u64::from(fin);
        if !self.state.is_synchronized() || end == start {
            return;
        }
        let Some(cause) = self.send.take_back(&(start..end)) else { return };
        match cause {
            SendCause::Fast => self.stats.retransmitted_fast -= 1,
            SendCause::Timeout => self.stats.retransmitted_timeout -= 1,
            SendCause::New | SendCause::Probe => {}
        }
        if length > 0 {
            self.stats.data_segments_sent -= 1;
            self.stats.bytes_sent -= length;
        }
        if cause != SendCause::New {
            self.stats.bytes_retransmitted -= length;
        }
        let sent = out
            .trace
            .iter()
            .rposition(|record| matches!(record.event, TraceEvent::Sent { packet, .. } if packet == tag));
        if let Some(index) = sent {
            out.trace.remove(index);
        }
        if self.send.scoreboard.flight() == 0 {
            self.timers.stop(Timer::Retransmit);
        }
        self.set_loss_timer(now);
    }
}
