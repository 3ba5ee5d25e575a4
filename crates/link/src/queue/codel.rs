//! CoDel: drops packets when the queueing delay stays above a target for too long.
//!
//! Implements RFC 8289: §4.3 the target, §4.4 the estimator's interval, §5.5 the dequeue routine with its control law.
//! The control law uses integer square roots.

use super::held::{Discipline, HeldQueue};
use super::{Limit, Occupancy, mark_ce};
use crate::element::{Carried, Released};
use crate::meter::{DropCause, Meter};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use std::collections::VecDeque;

/// A CoDel queue, including its serializer.
pub type CodelQueue<P> = HeldQueue<CodelDiscipline<P>>;

/// The settings of CoDel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodelConfig {
    /// The queueing delay that CoDel tolerates permanently.
    pub target: Duration,
    /// The time for which the queueing delay may exceed the target before a drop. It should be the round-trip time of
    /// the slowest usual path.
    pub interval: Duration,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// The size of the largest packet in bytes. CoDel drops nothing while the queue holds at most this number of bytes.
    pub max_packet: u64,
}

impl Default for CodelConfig {
    /// RFC 8289 §4.3, §4.4: a target of 5 ms and an interval of 100 ms.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
            max_packet: 1500,
        }
    }
}

/// A queue of packets in order of arrival.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    packets: VecDeque<(Instant, P)>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Carried> Fifo<P> {
    /// Returns how many packets and bytes are in the queue.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    /// Adds a packet that arrived at `at`.
    pub fn push(&mut self, at: Instant, packet: P) {
        self.bytes += packet.wire_len() as u64;
        self.packets.push_back((at, packet));
    }

    /// Removes the oldest packet and returns it with its time of arrival.
    pub fn pop(&mut self) -> Option<(Instant, P)> {
        let (at, packet) = self.packets.pop_front()?;
        self.bytes -= packet.wire_len() as u64;
        Some((at, packet))
    }
}

/// The state of CoDel's control law for one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codel {
    /// The time from which packets may be dropped: one interval after the queueing delay rose above the target. `None`
    /// while the delay is below the target or the queue holds at most one packet of the maximum size.
    first_above_time: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u64,
    last_count: u64,
}

impl Codel {
    /// RFC 8289 §5.5: removes packets from `queue`. Drops those that the control law selects, and returns the first
    /// packet that is not dropped.
    pub fn take<P: Carried>(
        &mut self,
        now: Instant,
        config: &CodelConfig,
        queue: &mut Fifo<P>,
        out: &mut Released<P>,
        meter: &mut Meter,
    ) -> Option<P> {
        let (mut packet, mut may_drop) = self.next(now, config, queue)?;
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if config.ecn && mark_ce(&mut packet, meter) {
                    self.drop_next = control_law(config, self.drop_next, self.count);
                    continue;
                }
                out.lost(now, packet, DropCause::Early);
                let Some(next) = self.next(now, config, queue) else {
                    self.dropping = false;
                    return None;
                };
                (packet, may_drop) = next;
                if may_drop {
                    self.drop_next = control_law(config, self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            // RFC 8289 §5.5: if the last dropping phase ended recently, start near the drop rate that controlled the
            // queue in that phase.
            let delta = self.count.saturating_sub(self.last_count);
            let recently = now.since(self.drop_next) < config.interval * 16;
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.drop_next = control_law(config, now, self.count);
            self.last_count = self.count;
            self.dropping = true;
            if !(config.ecn && mark_ce(&mut packet, meter)) {
                out.lost(now, packet, DropCause::Early);
                let Some(next) = self.next(now, config, queue) else {
                    self.dropping = false;
                    return None;
                };
                packet = next.0;
            }
        }
        Some(packet)
    }

    /// Removes the oldest packet. Also returns whether the delay has been above the target for at least an interval.
    fn next<P: Carried>(
        &mut self,
        now: Instant,
        config: &CodelConfig,
        queue: &mut Fifo<P>,
    ) -> Option<(P, bool)> {
        let Some((came, packet)) = queue.pop() else {
            self.first_above_time = None;
            return None;
        };
        if now.since(came) < config.target || queue.occupancy().bytes <= config.max_packet {
            self.first_above_time = None;
            return Some((packet, false));
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + config.interval);
                Some((packet, false))
            }
            Some(from) => Some((packet, now >= from)),
        }
    }
}

/// RFC 8289 §5.5: returns the time of the next drop: `from` plus the interval divided by the square root of `count`.
fn control_law(config: &CodelConfig, from: Instant, count: u64) -> Instant {
    let interval = u128::from(nanos(config.interval));
    let step = (interval * interval / u128::from(count.max(1))).isqrt();
    from.plus_nanos(u64::try_from(step).unwrap_or(u64::MAX))
}

/// One queue that is managed by CoDel's control law.
#[derive(Clone, Debug)]
pub struct CodelDiscipline<P> {
    limit: Limit,
    config: CodelConfig,
    codel: Codel,
    queue: Fifo<P>,
}

impl<P> CodelDiscipline<P> {
    /// Creates an empty queue that holds at most `limit`.
    #[must_use]
    pub fn new(limit: Limit, config: CodelConfig) -> Self {
        Self { limit, config, codel: Codel::default(), queue: Fifo::default() }
    }
}

impl<P: Carried> Discipline<P> for CodelDiscipline<P> {
    fn join(&mut self, at: Instant, packet: P, out: &mut Released<P>) {
        let waiting = self.queue.occupancy();
        if waiting.packets > 0 && !self.limit.has_room(waiting, packet.wire_len()) {
            return out.lost(at, packet, DropCause::Overflow);
        }
        self.queue.push(at, packet);
    }

    fn take(&mut self, at: Instant, out: &mut Released<P>, meter: &mut Meter) -> Option<P> {
        self.codel.take(at, &self.config, &mut self.queue, out, meter)
    }

    fn waiting(&self) -> Occupancy {
        self.queue.occupancy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Stage};
    use crate::element::TestPacket;
    use crate::rate::{Rate, Serializer};
    use anabranch_base::Ecn;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Creates a chain with a CoDel queue, whose serializer sends a packet of 1500 bytes in 10 ms.
    fn chain(ecn: bool) -> Chain<TestPacket> {
        let serializer = Serializer::Rate(Rate::new("1200kbit".parse().expect("a rate")));
        let config = CodelConfig { ecn, ..CodelConfig::default() };
        let discipline = CodelDiscipline::new(Limit::Packets(1000), config);
        Chain::new(vec![Stage::Codel(Box::new(CodelQueue::new(discipline, serializer)))])
    }

    #[test]
    fn the_control_law_is_an_interval_over_a_root() {
        let config = CodelConfig::default();
        let step = |count| control_law(&config, Instant::ZERO, count).as_nanos();
        assert_eq!([step(1), step(4), step(100)], [100_000_000, 50_000_000, 10_000_000]);
        // 100 ms / √2 is 70.710678118… ms, which is rounded down.
        assert_eq!(step(2), 70_710_678);
    }

    /// 60 packets enter at the same time. A packet leaves every 10 ms, and each waits 10 ms longer than the packet
    /// before it.
    ///
    /// RFC 8289 §5.5: packet 2 is dequeued at 10 ms with a delay of 10 ms. The delay must then stay above 5 ms until
    /// 110 ms. Packet 12, which is dequeued at 110 ms, is the first to be dropped. By the control law, the following
    /// drops are due 100, 70.7 and 57.7 ms after one another: at 210, 280.71 and 338.45 ms. The next packet that is
    /// dequeued at or after each of these times is dropped.
    #[test]
    fn a_standing_queue_is_thinned_out_ever_faster() {
        let mut chain = chain(false);
        for number in 1..=60 {
            chain.push(Instant::ZERO, TestPacket::numbered(1500, number));
        }
        let mut dropped = Vec::new();
        while let Some(now) = chain.next().filter(|now| *now <= at(345)) {
            while chain.pop(now).is_some() {}
            while let Some(drop) = chain.pop_dropped() {
                assert_eq!(drop.cause, DropCause::Early);
                dropped.push((drop.at, drop.packet.number));
            }
        }
        let expected = [(at(110), 12), (at(210), 23), (at(290), 32), (at(340), 38)];
        assert_eq!(dropped, expected);
    }

    #[test]
    fn with_ecn_it_marks_the_packets_it_would_drop() {
        let mut chain = chain(true);
        for number in 1..=60 {
            chain.push(Instant::ZERO, TestPacket { ecn: Ecn::Ect0, ..TestPacket::numbered(1500, number) });
        }
        let mut marked = Vec::new();
        while let Some(now) = chain.next().filter(|now| *now <= at(350)) {
            while let Some(packet) = chain.pop(now) {
                if packet.ecn == Ecn::Ce {
                    marked.push((now, packet.number));
                }
            }
        }
        // `marked` has the arrival time and the number of each marked packet. A packet is marked when it is dequeued,
        // and arrives 10 ms later. No packet is dropped, so packet n arrives at n · 10 ms.
        assert_eq!(marked, [(at(120), 12), (at(220), 22), (at(300), 30), (at(350), 35)]);
        assert_eq!(chain.meter().lost().packets, 0);
    }

    #[test]
    fn a_short_queue_is_left_alone() {
        let mut chain = chain(false);
        let mut out = 0;
        for i in 0..200 {
            // Two packets arrive every 20 ms, and the link needs 10 ms for each. So the second packet of a pair waits
            // 10 ms, and the queue never holds more than one packet.
            chain.push(at(20 * i), TestPacket::new(1500));
            chain.push(at(20 * i), TestPacket::new(1500));
            while chain.pop(at(20 * i)).is_some() {
                out += 1;
            }
        }
        assert!(out > 390 && chain.meter().lost().packets == 0, "{out}");
    }
}
