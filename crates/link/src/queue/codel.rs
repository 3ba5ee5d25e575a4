//! CoDel: drops when packets have waited too long for too long.
//!
//! Home of RFC 8289: §4.3 the target, §4.4 the estimator's interval, §5.5 the
//! dequeue routine with its control law. Square roots are of integers.

use super::held::{Discipline, HeldQueue};
use super::{Limit, Occupancy, mark_ce};
use crate::element::{Carried, Cause, Released};
use crate::meter::Meter;
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use std::collections::VecDeque;

/// A CoDel queue with its serializer.
pub type CodelQueue<P> = HeldQueue<CodelDiscipline<P>>;

/// What CoDel is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodelConfig {
    /// The standing delay that is fine.
    pub target: Duration,
    /// How long it may be exceeded: a round trip of the slowest usual path.
    pub interval: Duration,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// The largest packet: a queue of no more than this is never thinned out.
    pub max_packet: u64,
}

impl Default for CodelConfig {
    /// RFC 8289 §4.3, §4.4: 5 ms and 100 ms.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
            max_packet: 1500,
        }
    }
}

/// Packets in the order in which they came.
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
    /// What waits.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    /// Adds a packet that came at `at`.
    pub fn push(&mut self, at: Instant, packet: P) {
        self.bytes += packet.wire_len() as u64;
        self.packets.push_back((at, packet));
    }

    /// Takes the oldest packet and when it came.
    pub fn pop(&mut self) -> Option<(Instant, P)> {
        let (at, packet) = self.packets.pop_front()?;
        self.bytes -= packet.wire_len() as u64;
        Some((at, packet))
    }
}

/// The state of the control law for one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codel {
    /// When the delay will have been above the target for an interval.
    above_from: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u64,
    last_count: u64,
}

impl Codel {
    /// RFC 8289 §5.5: the next packet of `queue`, after dropping what is due.
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
                out.lost(now, packet, Cause::Early);
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
            // RFC 8289 §5.5: begin near the rate that controlled the queue last
            // time, if that is not long ago.
            let delta = self.count.saturating_sub(self.last_count);
            let recently = now.since(self.drop_next) < config.interval * 16;
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.drop_next = control_law(config, now, self.count);
            self.last_count = self.count;
            self.dropping = true;
            if !(config.ecn && mark_ce(&mut packet, meter)) {
                out.lost(now, packet, Cause::Early);
                let Some(next) = self.next(now, config, queue) else {
                    self.dropping = false;
                    return None;
                };
                packet = next.0;
            }
        }
        Some(packet)
    }

    /// The oldest packet, and whether the delay has been too long for an interval.
    fn next<P: Carried>(
        &mut self,
        now: Instant,
        config: &CodelConfig,
        queue: &mut Fifo<P>,
    ) -> Option<(P, bool)> {
        let Some((came, packet)) = queue.pop() else {
            self.above_from = None;
            return None;
        };
        if now.since(came) < config.target || queue.occupancy().bytes <= config.max_packet {
            self.above_from = None;
            return Some((packet, false));
        }
        match self.above_from {
            None => {
                self.above_from = Some(now + config.interval);
                Some((packet, false))
            }
            Some(from) => Some((packet, now >= from)),
        }
    }
}

/// RFC 8289 §5.5: the next drop comes an interval over the root of the count later.
fn control_law(config: &CodelConfig, from: Instant, count: u64) -> Instant {
    let interval = u128::from(nanos(config.interval));
    let step = (interval * interval / u128::from(count.max(1))).isqrt();
    from.plus_nanos(u64::try_from(step).unwrap_or(u64::MAX))
}

/// One queue under CoDel.
#[derive(Clone, Debug)]
pub struct CodelDiscipline<P> {
    limit: Limit,
    config: CodelConfig,
    codel: Codel,
    queue: Fifo<P>,
}

impl<P> CodelDiscipline<P> {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: Limit, config: CodelConfig) -> Self {
        Self { limit, config, codel: Codel::default(), queue: Fifo::default() }
    }
}

impl<P: Carried> Discipline<P> for CodelDiscipline<P> {
    fn join(&mut self, at: Instant, packet: P, out: &mut Released<P>) {
        let waiting = self.queue.occupancy();
        if waiting.packets > 0 && !self.limit.has_room(waiting, packet.wire_len()) {
            return out.lost(at, packet, Cause::Overflow);
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
