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
    #[cold]
    pub(super) fn ease_without_control(&self) -> Ease {
        let calm = matches!(self.state, State::Established)
            && self.asconf.is_none()
            && self.reconfig.is_none()
            && self.send.limits.is_none();
        let more = self.extensions.auth || self.extensions.interleaving || self.ecn.on;
        let controlled = self.paths.iter().any(|path| path.control.is_some());
        match (calm, more || controlled) {
            (false, _) => Ease::None,
            (true, true) => Ease::Calm,
            (true, false) => Ease::Plain,
        }
    }

    /// Nothing is to be sent now, as far as can be told at a glance.
    #[inline(always)]
    pub(crate) fn sends_nothing(&self) -> bool {
        if self.ease != Ease::Plain || self.recv.sack_due() || self.send.outstanding.has_lost() {
            return false;
        }
        let path = self.paths.get(self.paths.current());
        self.send.queue.unsent_bytes() == 0 || path.flight >= path.congestion.window()
    }

    /// Takes in a packet of `bytes` from `path` that is one DATA chunk and nothing else. False
    /// when it is not what comes next.
    #[inline(always)]
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
    #[inline(always)]
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
        // RFC 9260 §6.1 D, as in `acknowledge`.
        if self.send.outstanding.is_empty() {
            self.burst_at = Instant::MAX;
        }
        let index = usize::from(taken.path);
        let base = self.send.outstanding.base();
        let (polls, more) = (self.polls, self.send.queue.unsent_bytes() > 0);
        let path = self.paths.at(index);
        let flight_before = path.flight_before(polls, more);
        path.flight = path.flight.saturating_sub(taken.size);
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
        let full = path.fills_window(flight_before, base);
        path.full_at = full.then_some(polls);
        let acked = Acked {
            bytes: taken.size,
            flight_before,
            cumulative: true,
            in_recovery: false,
            window_limited: full,
            conservative: false,
            rtt: path.rtt.smoothed(),
        };
        path.congestion.on_acked(ctx.now, acked);
        let earliest = path.earliest_unsure || taken.begin <= path.earliest;
        self.errors = 0;
        if revived {
            self.revive(ctx, index);
        }
        self.rearm_t3(ctx.now, index, earliest, false);
        self.tell_writable(ctx);
        self.check_probe(ctx.now);
        true
    }

    #[cold]
    fn revive(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        self.stir();
        self.on_path_up(ctx, index, true);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Associate, Config, Endpoint, Event, Message};
    use anabranch_base::time::Duration;
    use anabranch_base::{Batch, Engine, Instant, Rng};
    use std::net::SocketAddr;

    /// Everything that two endpoints say and tell over a lossy network. With `long` nothing is
    /// known of an association when something comes in, so all of it goes the long way.
    fn story(seed: u64, long: bool) -> String {
        let addresses = [1, 2].map(|n| SocketAddr::from(([10, 0, 0, n], 0)));
        let mut config = Config::default();
        (config.rcvbuf, config.sndbuf) = (40_000, 60_000);
        let mut ends = addresses.map(|a| Endpoint::new(config.clone(), vec![a], Rng::new(seed)));
        let (mut rng, mut now, mut said) = (Rng::new(seed).fork("story"), Instant::ZERO, String::new());
        let mut way: Vec<(Instant, usize, Vec<u8>)> = Vec::new();
        ends[1].listen(80).expect("free");
        let mut ids = [Some(ends[0].associate(now, Associate::to(addresses[1], 80)).expect("begun")), None];
        let mut batch = Batch::new(1);
        for _ in 0..1500 {
            now += Duration::from_micros(rng.below(4000));
            for end in [0, 1] {
                while let Some(at) = way.iter().position(|(at, to, _)| *at <= now && *to == end) {
                    let (_, _, packet) = way.remove(at);
                    batch.clear();
                    (batch.source, batch.target) = (addresses[1 - end], addresses[end]);
                    batch.push(&packet);
                    if long {
                        ends[end].stir_all();
                    }
                    ends[end].handle_batch(now, &mut batch);
                }
                if ends[end].poll_timeout().is_some_and(|at| at <= now) {
                    ends[end].handle_timeout(now);
                }
                if let Some(id) = ids[end] {
                    // Mostly one side sends, messages of a packet, of less and of more.
                    if rng.below(if end == 0 { 2 } else { 9 }) == 0 {
                        let stream = (rng.below(8) == 0).into();
                        let message = Message { stream, unordered: rng.below(40) == 0, ..Message::default() };
                        let bytes = vec![7; 1 + rng.below(6000) as usize];
                        let taken = ends[end].send_pieces(now, id, message, &bytes, 1452);
                        said += &format!("{end} sends {taken:?}\n");
                    }
                    let mut into = vec![0; rng.below(3000) as usize];
                    let read = ends[end].recv_bytes(now, id, rng.below(2) as u16, &mut into, |_| true);
                    said += &format!("{end} reads {read:?}\n");
                }
                batch.clear();
                while ends[end].poll_transmit(now, &mut batch) {
                    said += &format!("{now:?} {end} {:?}\n", batch.bytes());
                    if rng.below(40) > 0 {
                        let wait = Duration::from_millis(5 + rng.below(30) / 29 * 3);
                        way.push((now + wait, 1 - end, batch.bytes().to_vec()));
                    }
                    batch.clear();
                }
                while let Some(event) = ends[end].poll_event() {
                    if let Event::Accepted { id, .. } = event {
                        ids[end] = Some(id);
                    }
                    said += &format!("{end} {event:?}\n");
                }
                said += &format!("{end} {:?}\n", ends[end].poll_timeout());
            }
        }
        for (end, id) in ends.iter().zip(ids) {
            said += &format!("{:?}\n", id.and_then(|id| end.stats(id)));
        }
        said
    }

    #[test]
    fn what_goes_straight_comes_to_the_same() {
        let mut told = 0;
        for seed in 0..30 {
            let (straight, long) = (story(seed, false), story(seed, true));
            let differs = straight.lines().zip(long.lines()).position(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed}");
            assert_eq!(straight.len(), long.len(), "seed {seed}");
            told += straight.matches("Writable").count() + straight.matches("Readable").count();
        }
        assert!(told > 1000, "{told}");
    }
}
