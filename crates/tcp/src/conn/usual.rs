//! The two segments that nearly all are.
//!
//! While nothing is lost, an open connection hears the data that comes next, and
//! acknowledgements that move on (header prediction, Van Jacobson 1990). Both are
//! taken in here, in a straight line: what they do is what [`input`](super::input)
//! and the two halves do with them, without asking after all that they are not.
//! Whatever is otherwise goes the long way, and nothing has been done then.
//!
//! Home of no rule: each has its own.

use super::{Connection, Outbox, State};
use crate::Event;
use crate::send::Ack;
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Ecn, Instant};
use anabranch_wire::tcp::{Flags, Plain};

impl Connection {
    /// The very segment that was to be expected: [`take_plain`](Self::take_plain) may have it,
    /// once its checksum is known to be right.
    #[inline(always)]
    pub(crate) fn expects(&self, now: Instant, plain: &Plain<'_>) -> bool {
        let next = self.recv.next();
        let position = self.own_position(plain.ack);
        // RFC 7323 §3.2, §5.3: what was agreed on is there and has not run backwards.
        let in_time = !self.agreed.timestamps
            || plain.stamps.is_some_and(|stamps| !self.agreed.is_outdated(now, stamps));
        // RFC 9293 §3.10.7.4, first: the next number, and all of it within the window.
        // Second to fourth, sixth and eighth: `Plain` has neither RST, SYN, URG nor FIN.
        // Fifth: an acknowledgement that can be believed, and is not old.
        self.state == State::Established
            && plain.seq == self.ack_of(next)
            && next + plain.payload.len() as u64 <= self.recv.edge()
            && position >= self.send.board.una() as i64
            && position <= self.send.highest_sent() as i64
            && in_time
            && !self.orphan
    }

    /// The checksum of a segment between our ends is right.
    #[inline(always)]
    pub(crate) fn is_intact(&self, segment: &[u8]) -> bool {
        self.template.as_ref().is_some_and(|template| template.is_intact(segment))
    }

    /// Takes in the segment that was expected.
    #[inline(always)]
    pub(crate) fn take_plain(
        &mut self,
        now: Instant,
        plain: &Plain<'_>,
        ecn: Ecn,
        tag: u64,
        out: &mut Outbox,
    ) {
        self.stats.segments_received += 1;
        self.send.begin_burst();
        let stamps = plain.stamps.filter(|_| self.agreed.timestamps);
        if let Some(stamps) = stamps
            && self.recv.next() <= self.last_ack_sent
        {
            self.agreed.renew(now, stamps);
        }
        let position = self.own_position(plain.ack) as u64;
        let window_before = self.window_field;
        self.note_window(plain.seq, plain.ack, plain.window, position);
        let has_data = !plain.payload.is_empty();
        if has_data {
            self.note_echo(now, stamps);
        }
        // RFC 3168 §6.1.2: without ECE nothing is to be learnt of marks; without SACK blocks nothing of holes.
        if has_data && self.send.knows(position) {
            self.note_answer();
        } else {
            let echo =
                stamps.and_then(|stamps| self.agreed.age(now, stamps.echo).map(|age| (stamps.echo, age)));
            let could_be_duplicate = !has_data && plain.window == window_before;
            let ack = Ack { position, sacks: &[], duplicate: None, could_be_duplicate, echo, ece: false };
            let outcome = self.send.on_ack(now, &ack, &mut self.stats);
            self.after_ack(now, outcome, out);
        }
        if has_data {
            self.take_next_data(now, plain, ecn, tag, out);
        }
    }

    /// Seventh: the data, which is what comes next.
    #[inline(always)]
    fn take_next_data(&mut self, now: Instant, plain: &Plain<'_>, ecn: Ecn, tag: u64, out: &mut Outbox) {
        if self.agreed.ecn {
            self.note_ecn(ecn, Flags::ACK);
        }
        let (start, length) = (self.recv.next(), plain.payload.len() as u64);
        let Some(delay) = self.recv.take_next(length, plain.pushed) else {
            return self.take_data(now, (start as i64, plain.payload, (false, plain.pushed)), tag, out);
        };
        self.recv.duty.on_arrival(now);
        let key = self.key();
        out.record(now, key, || TraceEvent::Received { units: start..start + length, packet: tag });
        self.stats.bytes_received += length;
        self.note_delay(now, delay);
        out.expectant = Some(self.id.slot());
        if !self.readable_told {
            self.readable_told = true;
            let id = self.id;
            self.event(out, Event::Readable { id });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Endpoint, Event};
    use anabranch_base::time::Duration;
    use anabranch_base::{Batch, Ecn, Engine, Instant, Rng};
    use std::net::{IpAddr, SocketAddr};

    /// Everything that two endpoints say and tell over a lossy network, `long` with nothing of it going
    /// the straight way.
    fn story(seed: u64, long: bool) -> String {
        let addresses = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        let mut config =
            Config::profile(crate::PROFILES[seed as usize % crate::PROFILES.len()]).expect("known");
        (config.rcvbuf, config.sndbuf) = (90_000, 60_000 + 20_000 * (seed % 3));
        config.timestamps = !seed.is_multiple_of(7);
        config.ecn = seed.is_multiple_of(5);
        config.max_burst = seed.is_multiple_of(11).then_some(4);
        let mut ends = addresses.map(|a| Endpoint::new(config.clone(), vec![a], Rng::new(seed)));
        if long {
            ends.iter_mut().for_each(Endpoint::go_the_long_way);
        }
        let (mut rng, mut now, mut said) = (Rng::new(seed).fork("story"), Instant::ZERO, String::new());
        let mut way: Vec<(Instant, usize, Ecn, Vec<u8>)> = Vec::new();
        ends[1].listen(80, 0).expect("free");
        let mut ids = [Some(ends[0].connect(now, None, (addresses[1], 80).into()).expect("begun")), None];
        let mut batch = Batch::new(1);
        for step in 0..1500 {
            now += Duration::from_micros(rng.below(3000));
            for end in [0, 1] {
                while let Some(at) = way.iter().position(|(at, to, ..)| *at <= now && *to == end) {
                    let (_, _, ecn, packet) = way.remove(at);
                    batch.clear();
                    (batch.source, batch.target) =
                        (SocketAddr::new(addresses[1 - end], 0), SocketAddr::new(addresses[end], 0));
                    batch.ecn = ecn;
                    batch.push(&packet);
                    ends[end].handle_batch(now, &mut batch);
                }
                if ends[end].poll_timeout().is_some_and(|at| at <= now) {
                    ends[end].handle_timeout(now);
                }
                if let Some(id) = ids[end] {
                    // Mostly one side sends.
                    if rng.below(if end == 0 { 2 } else { 9 }) == 0 {
                        let taken = ends[end].send(now, id, &vec![7; 1 + rng.below(9000) as usize]);
                        said += &format!("{end} sends {taken:?}\n");
                    }
                    if rng.below(4) > 0 {
                        let read = ends[end].recv(now, id, &mut vec![0; rng.below(6000) as usize]);
                        said += &format!("{end} reads {read:?}\n");
                    }
                    if step == 1300 && end == 0 {
                        ends[end].finish(now, id);
                    }
                }
                batch.clear();
                while ends[end].poll_transmit(now, &mut batch) {
                    said += &format!("{now:?} {end} {:?} {:?}\n", batch.ecn, batch.bytes());
                    if rng.below(50) > 0 {
                        let wait = Duration::from_millis(5 + rng.below(30) / 29 * 3);
                        let ecn = if rng.below(60) == 0 { Ecn::Ce } else { batch.ecn };
                        way.push((now + wait, 1 - end, ecn, batch.bytes().to_vec()));
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
            said += &format!("{:?} {:?}\n", id.and_then(|id| end.stats(id)), end.dropped());
        }
        said
    }

    #[test]
    fn what_goes_straight_comes_to_the_same() {
        let mut told = 0;
        for seed in 0..24 {
            let (straight, long) = (story(seed, false), story(seed, true));
            let differs = straight.lines().zip(long.lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed}");
            assert_eq!(straight.len(), long.len(), "seed {seed}");
            told += straight.matches("Writable").count() + straight.matches("Readable").count();
        }
        assert!(told > 1000, "{told}");
    }
}
