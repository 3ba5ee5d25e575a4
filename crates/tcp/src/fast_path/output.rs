//! Builds segments on the fast path: full segments with new data, or acknowledgements without data. The slow path
//! (`conn/output`) would build the same segments.

use crate::conn::output::{begin_batch, leave_checksum};
use crate::conn::timers::Timer;
use crate::conn::{Connection, Outbox};
use crate::send::SelectedSegment;
use crate::state::State;
use anabranch_base::{Ecn, Instant, SendBatch};
use anabranch_wire::tcp::Flags;

impl Connection {
    /// Writes the next segment into `batch` if the segment qualifies for the fast path. `batch` must be empty and have
    /// room for exactly one packet.
    #[inline(always)]
    pub(crate) fn transmit_on_fast_path(
        &mut self,
        now: Instant,
        batch: &mut SendBatch,
        out: &mut Outbox,
    ) -> bool {
        // The fast path is used only if the segment carries no SYN or FIN, there is no SACK or ECN to report, and
        // tracing is off.
        if !out.fast_path
            || self.state != State::Established
            || self.options.ecn
            || self.recv.has_report()
            || out.tracing
            || batch.max_segments() != 1
        {
            return false;
        }
        let Some(stamps) = self.options.stamps(now) else { return false };
        let choice = self.send.choose_full();
        if choice.is_none() && !(self.recv.ack_scheduler.is_due() && self.send.has_nothing()) {
            return false;
        }
        let position = self.send.scoreboard.next();
        let payload = choice.as_ref().map_or(position..position, |choice| choice.range.clone());
        // RFC 9293 §3.9.1.2: the last segment of a write has PSH set. With `push=burst`, the last segment of a burst
        // also has PSH set.
        let last = choice.is_some() && (payload.end == self.send.buffer.end() || self.send.ends_burst());
        let flags = if last { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
        let numbers = (self.seq_of(position), self.ack_of(self.recv.next()));
        let window = self.offer_window();
        let Some(template) = &self.template else { return false };
        begin_batch(batch, self.ip_addresses, Ecn::NotEct, out);
        let summed = !leave_checksum(batch);
        let shared = if summed { None } else { self.send.buffer.share(&payload) };
        batch.push_with(|buffer| {
            template.emit(numbers, (flags, window), stamps, summed, buffer, |buffer| {
                if shared.is_none() {
                    self.send.buffer.append_to(payload, buffer);
                }
            });
        });
        if let Some(shared) = shared {
            batch.set_shared(shared);
        }
        self.stats.segments_sent += 1;
        match choice {
            Some(choice) => self.on_full_sent(now, &choice),
            None => self.stats.acks_sent += 1,
        }
        self.last_ack_sent = self.recv.next();
        self.recv.ack_scheduler.on_sent();
        self.timers.stop(Timer::DelayedAck);
        true
    }

    #[inline(always)]
    fn on_full_sent(&mut self, now: Instant, choice: &SelectedSegment) {
        self.stats.data_segments_sent += 1;
        self.stats.bytes_sent += choice.range.end - choice.range.start;
        self.send.on_sent(now, choice, None);
        self.start_timers(now);
    }
}
