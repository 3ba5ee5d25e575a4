//! Undoes the sending of segments that this host's own packet filter has dropped. The stack learns of the drop
//! immediately.
//!
//! A refused segment of new data stays unsent, and a refused retransmission does not count as sent. Nothing more is
//! sent until the next event: an arriving segment, a write, or a timer. If nothing is in flight, a timer expires after
//! an RTO, and then one segment is sent.
//!
//! No RFC describes this behaviour. The model is Linux: ip_queue_xmit returns -EPERM, so tcp_write_xmit and
//! tcp_xmit_retransmit_queue stop before they record the segment as sent (net/ipv4/tcp_output.c). tcp_check_probe_timer
//! then starts the timer, and tcp_write_wakeup sends one segment.

use super::{Phase, SendHalf};
use anabranch_base::trace::SendCause;
use std::ops::Range;

/// Whether the connection must wait because the host has refused to send a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Refusal {
    /// The host has not refused a segment since the last event.
    #[default]
    None,
    /// The host has refused a segment. The connection waits for the next event.
    Waits,
    /// The timer for refused segments has expired: one segment may be sent, and the other segments wait.
    TriesOne,
}

impl SendHalf {
    /// Undoes the last transmission of the data at the stream positions `range`. Returns why the data was sent, or
    /// `None` if the scoreboard has no such transmission.
    pub(crate) fn take_back(&mut self, range: &Range<u64>) -> Option<SendCause> {
        let bytes = if self.usage.is_some() { self.mss } else { range.end - range.start };
        let phase = self.recovery.phase();
        let cause = if self.scoreboard.take_back_new(range) {
            self.small_until = self.small_until.min(range.start);
            self.timed = self.timed.filter(|(end, _)| *end != range.end);
            self.recovery.take_back_new(bytes);
            SendCause::New
        } else if self.scoreboard.take_back_retransmission(range) {
            self.recovery.take_back_retransmission(bytes);
            if phase == Phase::Open {
                // Outside a recovery, only tail loss probes retransmit data, so the refused segment was a probe.
                self.forget_probe();
            }
            if phase == Phase::Timeout { SendCause::Timeout } else { SendCause::Fast }
        } else {
            return None;
        };
        self.refusal = Refusal::Waits;
        Some(cause)
    }

    /// Returns whether a refused segment must wait for a timer, because no acknowledgement is expected.
    pub(crate) fn waits_to_try_again(&self) -> bool {
        self.refusal == Refusal::Waits && self.scoreboard.flight() == 0 && self.has_unsent()
    }

    /// Called when the timer for a refused segment has expired: allows one segment to be sent.
    pub(crate) fn try_again(&mut self) {
        self.refusal = Refusal::TriesOne;
    }

    /// Called at the beginning of each event that may cause segments: a refused segment may be sent again.
    #[inline]
    pub(crate) fn forget_refusal(&mut self) {
        self.refusal = Refusal::None;
    }
}
