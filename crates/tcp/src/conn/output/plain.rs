//! The two segments that nearly all are, on their way out.
//!
//! While nothing is lost, what leaves an open connection is full segments of new data, or bare
//! acknowledgements. Both are written here in a straight line: what comes out is what the
//! choice among all segments would have come to. Whatever is otherwise goes the long way, and
//! nothing has been done then. `conn/usual.rs` is the same for what comes in.
//!
//! Home of no rule: each has its own.

use super::super::{Connection, Outbox, State};
use super::{Timer, begin_batch};
use crate::send::Choice;
use anabranch_base::{Batch, Ecn, Instant};
use anabranch_wire::tcp::Flags;

impl Connection {
    /// Writes the next segment into `batch`, which is empty and takes but one, if it is one of these.
    #[inline(always)]
    pub(super) fn send_plainly(&mut self, now: Instant, batch: &mut Batch, out: &mut Outbox) -> bool {
        #[cfg(test)]
        if out.long {
            return false;
        }
        // Neither SYN nor FIN, no SACK or ECN to report, and nobody who wants to know.
        if self.state != State::Established
            || self.agreed.ecn
            || self.recv.has_report()
            || out.tracing
            || batch.max_segments() != 1
        {
            return false;
        }
        let Some(stamps) = self.agreed.stamps(now) else { return false };
        let choice = self.send.choose_full();
        if choice.is_none() && !(self.recv.duty.is_due() && self.send.has_nothing()) {
            return false;
        }
        let position = self.send.board.next();
        let payload = choice.as_ref().map_or(position..position, |choice| choice.range.clone());
        // RFC 9293 §3.9.1.2: the last of what was written is pushed.
        let last = choice.is_some() && (payload.end == self.send.buffer.end() || self.send.ends_burst());
        let flags = if last { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
        let numbers = (self.seq_of(position), self.ack_of(self.recv.next()));
        let window = self.offer_window();
        let Some(template) = &self.template else { return false };
        begin_batch(batch, self.hosts, Ecn::NotEct, out);
        batch.push_with(|buffer| {
            template.emit(numbers, (flags, window), stamps, buffer, |buffer| {
                self.send.buffer.append_to(payload, buffer);
            });
        });
        self.stats.segments_sent += 1;
        match choice {
            Some(choice) => self.on_full_sent(now, &choice),
            None => self.stats.acks_sent += 1,
        }
        self.last_ack_sent = self.recv.next();
        self.recv.duty.on_sent();
        self.timers.stop(Timer::DelayedAck);
        true
    }

    #[inline(always)]
    fn on_full_sent(&mut self, now: Instant, choice: &Choice) {
        self.stats.data_segments_sent += 1;
        self.stats.bytes_sent += choice.range.end - choice.range.start;
        self.send.on_sent(now, choice, None);
        self.start_timers(now);
    }

    /// All that is left waits for acknowledgements, or there is nothing: to ask for a segment
    /// would give none, and note no more than this does.
    #[inline(always)]
    pub(crate) fn is_held_back(&mut self, out: &Outbox) -> bool {
        #[cfg(test)]
        if out.long {
            return self.is_at_rest(out);
        }
        // A trace is told what the limit is.
        self.waits_for_nothing_else(out)
            && (self.send.is_at_rest() || !out.tracing && self.send.is_held_back())
    }
}
