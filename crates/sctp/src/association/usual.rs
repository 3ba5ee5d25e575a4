//! The two packets that nearly all are.
//!
//! While nothing is lost, an association sees packets of one DATA chunk with the
//! message that comes next, and packets of one SACK that says only "more". Both
//! are taken in here, in a straight line: what they do is what
//! [`inbound`](super::inbound), [`acknowledge`](super::acknowledge) and the two
//! halves do with them, without asking after all that they are not. Whatever is
//! otherwise goes the long way, and nothing has been done then.
//!
//! Home of no rule: each has its own.

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::Event;
use crate::recv::ack::Due;
use anabranch_base::Instant;
use anabranch_base::trace::TraceEvent;
use anabranch_congestion::{Acked, Controller};
use anabranch_wire::sctp::{Data, RawChunk, SackView};

/// What an association need not be asked after, found out once for many packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Ease {
    /// Nothing is known.
    #[default]
    None,
    /// It is established and no control chunk waits to be sent.
    Calm,
    /// Moreover it uses nothing that has more to say on DATA and SACK chunks.
    Plain,
}

impl Association {
    /// Something may have changed that the next packets depend on.
    #[inline]
    pub(crate) fn stir(&mut self) {
        self.ease = Ease::None;
    }

    /// What holds now, given that no control chunk waits.
    pub(super) fn ease_without_control(&self) -> Ease {
        let calm = matches!(self.state, State::Established)
            && self.asconf.is_none()
            && self.reconfig.is_none()
            && self.send.limits.is_none();
        let more = self.extensions.auth || self.extensions.interleaving || self.ecn.on;
        let by_time = self.config.rack || self.config.prr || self.config.hystart;
        match (calm, more || by_time) {
            (false, _) => Ease::None,
            (true, true) => Ease::Calm,
            (true, false) => Ease::Plain,
        }
    }

    /// Takes in a packet of `bytes` from `path` that is one DATA chunk and nothing else. False
    /// when it is not what comes next.
    #[inline]
    pub(crate) fn take_next_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        raw: RawChunk<'_>,
        path: usize,
        bytes: usize,
        tag: u64,
    ) -> bool {
        let Ok(data) = Data::parse(raw) else { return false };
        let Some((offset, news)) = self.recv.take_next(&data) else { return false };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.data_received += 1;
        self.stats.data_bytes_received += data.payload.len() as u64;
        self.paths.at(path).stats.packets_received += 1;
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Received {
            units: offset..offset + 1,
            packet: tag,
        });
        self.data_from = path;
        self.note_due(ctx.now);
        if news {
            ctx.events.push_back(Event::Readable { id: self.id, stream: data.stream });
        }
        true
    }

    /// The end of a packet with DATA: when is the SACK due?
    #[inline]
    pub(super) fn note_due(&mut self, now: Instant) {
        match self.recv.packet_done() {
            Some(Due::Now) => self.timers.stop(Timer::Sack),
            Some(Due::Later) if !self.timers.is_set(Timer::Sack) => {
                self.timers.set(Timer::Sack, now + self.config.delack);
            }
            _ => {}
        }
    }

    /// Takes in a packet of `bytes` from `from` that is one SACK and nothing else. False when it
    /// says more than that the next chunks have arrived.
    #[inline]
    pub(crate) fn take_plain_sack(
        &mut self,
        ctx: &mut Ctx<'_>,
        raw: RawChunk<'_>,
        from: usize,
        bytes: usize,
    ) -> bool {
        let Ok(sack) = SackView::parse(raw) else { return false };
        if !sack.says_no_more() || self.send.probing.is_some() {
            return false;
        }
        let Some(taken) = self.send.take_next(sack.cumulative, sack.window) else { return false };
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.sacks_received += 1;
        self.paths.at(from).stats.packets_received += 1;
        let index = usize::from(taken.path);
        let base = self.send.outstanding.base();
        let path = self.paths.at(index);
        let flight_before = path.flight;
        path.flight = flight_before.saturating_sub(taken.size);
        if let Some((timed, at)) = path.timed
            && timed >= taken.begin
            && timed < base
        {
            // RFC 9260 §6.3.1 C4, C5: one measurement each round trip, and it was sent once.
            path.timed = None;
            path.rtt.on_sample(ctx.now - at);
        }
        path.one_packet = false;
        let revived = path.is_shown_by(base) && path.on_answer(ctx.now);
        let acked = Acked {
            bytes: taken.size,
            flight_before,
            cumulative: true,
            in_recovery: false,
            window_limited: path.fills_window(flight_before, base),
            conservative: false,
            rtt: path.rtt.smoothed(),
        };
        path.congestion.on_acked(ctx.now, acked);
        let earliest = path.earliest_unsure || taken.begin <= path.earliest;
        self.errors = 0;
        if revived {
            self.stir();
            self.on_path_up(ctx, index, true);
        }
        self.rearm_t3(ctx.now, index, earliest, false);
        self.tell_writable(ctx);
        self.check_probe(ctx.now);
        true
    }
}
