//! Contention for a half-duplex medium: both ends may try to send at the same time, and their packets then collide.
//!
//! This module adds the rules of IEEE 802.11's distributed coordination function to a shared medium. Each end of the
//! link that has a waiting packet draws a number of slots uniformly from its contention window. When the medium becomes
//! free and both ends wait, the end with fewer slots sends, and the other end keeps its remaining slots. Equal numbers
//! collide: the medium is busy for the time of the longer packet, both windows double, and both ends draw again. After
//! a collision, the next sender first waits for the slots that it has drawn. A packet is lost after
//! [`attempts`](ContentionRules::attempts) collisions.
//!
//! If no packet waits at the other end, an end sends as soon as the medium is free. The setting `packet-time` already
//! includes the average time to gain access to the medium, whether one end or both ends have packets. Drawn slots
//! therefore take extra time only after a collision.
//!
//! When a packet enters, it is not known when it will be sent, so each direction holds its packets. [`Contention`]
//! holds the state that both directions share.

use crate::element::{Carried, HoldingElement, Released};
use crate::meter::{DropCause, Meter, Occupancy};
use crate::queue::Limit;
use crate::rate::Serializer;
use anabranch_base::{Instant, Rng};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The contention rules of one kind of medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentionRules {
    /// The name of the medium, for example `802.11b`.
    pub name: &'static str,
    /// The minimum contention window in slots. With this window, an end draws a number of slots from 0 to `window_min`,
    /// inclusive, before it sends.
    pub window_min: u64,
    /// The maximum contention window in slots.
    pub window_max: u64,
    /// The duration of a slot in nanoseconds.
    pub slot_nanos: u64,
    /// The number of collisions of a packet after which it is lost.
    pub attempts: u32,
}

/// The supported media. Contention windows and slots are from IEEE 802.11b-1999, table 101 (HR/DSSS: aCWmin 31, aCWmax
/// 1023, slot 20 us), and from IEEE 802.11g-2003, section 19.8.4 (ERP without older stations: aCWmin 15, short slot 9
/// us, the same aCWmax). The number of attempts is dot11ShortRetryLimit, 7, which applies to frames without RTS.
///
/// The model of contention is that of Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination
/// function", IEEE JSAC 18(3), 2000, with one difference. Bianchi assumes that all stations always have data; here an
/// end contends only while it has a packet.
pub const RULES: [ContentionRules; 2] = [
    ContentionRules { name: "802.11b", window_min: 31, window_max: 1023, slot_nanos: 20_000, attempts: 7 },
    ContentionRules { name: "802.11g", window_min: 15, window_max: 1023, slot_nanos: 9_000, attempts: 7 },
];

/// The state of a half-duplex medium on which two ends contend for transmission.
#[derive(Debug)]
pub struct Contention {
    rules: ContentionRules,
    /// The time from which the medium is free.
    free_at: Instant,
    ends: [Transmitter; 2],
    rng: Rng,
    collisions: u64,
}

/// The state of one end of the medium, which sends in one direction.
#[derive(Debug, Default)]
struct Transmitter {
    serializer: Option<Serializer>,
    /// The sizes in bytes of the waiting packets, in order.
    waiting: VecDeque<usize>,
    waiting_bytes: u64,
    /// For each packet that has left `waiting`: the time at which the packet was sent or lost, and true if it was sent.
    /// An entry is removed when the packet is released to the next element.
    outcomes: VecDeque<(Instant, bool)>,
    /// The number of slots that this end of the medium still has to wait; `None` if this end has to draw a new number.
    slots: Option<u64>,
    window: u64,
    packet_collisions: u32,
}

impl Contention {
    /// Creates a medium with the rules `rules` and its own random number generator.
    #[must_use]
    pub fn new(rules: ContentionRules, rng: Rng) -> Rc<RefCell<Self>> {
        let end = || Transmitter { window: rules.window_min, ..Transmitter::default() };
        let ends = [end(), end()];
        Rc::new(RefCell::new(Self { rules, free_at: Instant::ZERO, ends, rng, collisions: 0 }))
    }

    /// Returns the number of collisions so far.
    #[must_use]
    pub fn collisions(&self) -> u64 {
        self.collisions
    }

    /// Decides which packets are sent or lost at or before `now`.
    fn decide(&mut self, now: Instant) {
        while self.free_at <= now {
            match self.ends.each_ref().map(|end| !end.waiting.is_empty()) {
                [false, false] => return,
                [true, true] => self.contend(),
                [first, _] => self.send(usize::from(!first), self.free_at),
            }
        }
    }

    /// Decides which end sends when both ends have a waiting packet.
    fn contend(&mut self) {
        for end in &mut self.ends {
            if end.slots.is_none() {
                end.slots = Some(self.rng.below(end.window + 1));
            }
        }
        let drawn = self.ends.each_ref().map(|end| end.slots.unwrap_or(0));
        let least = drawn[0].min(drawn[1]);
        let after_collision = self.ends.iter().any(|end| end.packet_collisions > 0);
        let wait = if after_collision { least * self.rules.slot_nanos } else { 0 };
        let start = self.free_at.plus_nanos(wait);
        if drawn[0] != drawn[1] {
            let winner = usize::from(drawn[1] < drawn[0]);
            self.ends[1 - winner].slots = Some(drawn[1 - winner] - least);
            self.send(winner, start);
            return;
        }
        self.collisions += 1;
        let ended = self.ends.each_mut().map(|end| end.transmit(start));
        self.free_at = ended[0].max(ended[1]);
        for end in &mut self.ends {
            end.slots = None;
            end.packet_collisions += 1;
            end.window = (2 * end.window + 1).min(self.rules.window_max);
            if end.packet_collisions >= self.rules.attempts {
                end.done(self.free_at, false, self.rules.window_min);
            }
        }
    }

    /// Sends the next packet of end number `end` (0 or 1) of the medium, beginning at `start`.
    fn send(&mut self, end: usize, start: Instant) {
        let end = &mut self.ends[end];
        self.free_at = end.transmit(start);
        end.done(self.free_at, true, self.rules.window_min);
    }
}

impl Transmitter {
    /// Returns the time at which the transmission of the next packet ends if it begins at `start`.
    fn transmit(&mut self, start: Instant) -> Instant {
        let bytes = self.waiting.front().copied().unwrap_or(0);
        self.serializer.as_mut().map_or(start, |serializer| serializer.transmit(start, bytes).end)
    }

    fn done(&mut self, at: Instant, sent: bool, window_min: u64) {
        let bytes = self.waiting.pop_front().unwrap_or(0);
        self.waiting_bytes -= bytes as u64;
        self.outcomes.push_back((at, sent));
        (self.slots, self.window, self.packet_collisions) = (None, window_min, 0);
    }

    fn occupancy(&self) -> Occupancy {
        Occupancy { packets: self.waiting.len() as u64, bytes: self.waiting_bytes }
    }
}

/// The queue at one end of a medium for which both ends contend.
#[derive(Debug)]
pub struct Contender<P> {
    limit: Limit,
    medium: Rc<RefCell<Contention>>,
    end: usize,
    packets: VecDeque<P>,
}

impl<P> Contender<P> {
    /// Creates the queue of one end of a shared medium. `end` is the index of the end (0 or 1). `serializer` sends the
    /// packets of this end.
    #[must_use]
    pub fn new(limit: Limit, medium: Rc<RefCell<Contention>>, end: usize, serializer: Serializer) -> Self {
        medium.borrow_mut().ends[end].serializer = Some(serializer);
        Self { limit, medium, end, packets: VecDeque::new() }
    }
}

impl<P: Carried> HoldingElement<P> for Contender<P> {
    fn push(&mut self, at: Instant, packet: P, out: &mut Released<P>, meter: &mut Meter) {
        self.advance(at, out, meter);
        let idle = self.medium.borrow().free_at <= at;
        let waiting = self.occupancy();
        if !idle && !self.limit.has_room(waiting, packet.wire_len()) {
            out.lost(at, packet, DropCause::Overflow);
            return;
        }
        let mut medium = self.medium.borrow_mut();
        let end = &mut medium.ends[self.end];
        end.waiting.push_back(packet.wire_len());
        end.waiting_bytes += packet.wire_len() as u64;
        self.packets.push_back(packet);
        if idle {
            // The medium is idle and no packet waits at either end, so this packet is sent immediately.
            medium.send(self.end, at);
        }
        drop(medium);
        self.advance(at, out, meter);
        let waiting = self.occupancy();
        meter.queue_holds(waiting.packets, waiting.bytes);
    }

    /// Returns the earliest time at which this end's next packet is sent or lost. Packets that the other end sends
    /// first can only make this time later.
    fn deadline(&self) -> Option<Instant> {
        let medium = self.medium.borrow();
        let end = &medium.ends[self.end];
        let outcome = end.outcomes.front().map(|(at, _)| *at);
        outcome.or((!end.waiting.is_empty()).then_some(medium.free_at))
    }

    fn advance(&mut self, now: Instant, out: &mut Released<P>, _: &mut Meter) {
        let mut medium = self.medium.borrow_mut();
        medium.decide(now);
        while let Some((at, sent)) = medium.ends[self.end].outcomes.pop_front() {
            let Some(packet) = self.packets.pop_front() else { return };
            match sent {
                true => out.leaves(at, packet),
                false => out.lost(at, packet, DropCause::Collision),
            }
        }
    }

    fn held(&self) -> usize {
        self.packets.len()
    }

    fn occupancy(&self) -> Occupancy {
        self.medium.borrow().ends[self.end].occupancy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::TestPacket;
    use crate::rate::Rate;

    /// Creates the two ends of a medium on which a packet of 1500 bytes takes 1 ms.
    fn ends(rules: usize, seed: u64) -> (Rc<RefCell<Contention>>, [Contender<TestPacket>; 2]) {
        let medium = Contention::new(RULES[rules], Rng::new(seed));
        let end = |number| {
            let serializer = Serializer::Rate(Rate::new("12mbit".parse().expect("a rate")));
            Contender::new(Limit::Packets(10), medium.clone(), number, serializer)
        };
        let both = [end(0), end(1)];
        (medium, both)
    }

    /// Sends packets of 1500 bytes from both ends, each of which always has more to send. Returns the number of
    /// collisions, the packets sent by each end, the packets lost, and the end time.
    fn saturated(rules: usize, seed: u64, rounds: usize) -> (u64, [usize; 2], usize, Instant) {
        let (medium, mut ends) = ends(rules, seed);
        let (mut out, mut meter) = (Released::default(), Meter::default());
        let (mut left, mut lost, mut now) = ([0; 2], 0, Instant::ZERO);
        for _ in 0..rounds {
            for (number, end) in ends.iter_mut().enumerate() {
                end.advance(now, &mut out, &mut meter);
                while end.occupancy().packets < 2 {
                    end.push(now, TestPacket::new(1500), &mut out, &mut meter);
                }
                for (at, _, cause) in out.packets.drain(..) {
                    assert!(at >= now && cause.is_none_or(|cause| cause == DropCause::Collision));
                    left[number] += usize::from(cause.is_none());
                    lost += usize::from(cause.is_some());
                }
            }
            let next = ends.iter().filter_map(HoldingElement::deadline).min().expect("something waits");
            assert!(next > now, "it stands still at {now:?}");
            now = next;
        }
        let collisions = medium.borrow().collisions();
        (collisions, left, lost, now)
    }

    #[test]
    fn one_end_alone_sends_as_if_there_were_no_contention() {
        let (medium, [mut end, _]) = ends(1, 1);
        let (mut out, mut meter) = (Released::default(), Meter::default());
        for _ in 0..11 {
            end.push(Instant::ZERO, TestPacket::new(1500), &mut out, &mut meter);
        }
        while let Some(at) = end.deadline() {
            end.advance(at, &mut out, &mut meter);
        }
        let times: Vec<u64> = out.packets.iter().map(|(at, ..)| at.as_nanos() / 1_000_000).collect();
        assert_eq!(times, (1..=11).collect::<Vec<_>>());
        assert_eq!((medium.borrow().collisions(), end.held(), meter.queue_peak_packets), (0, 0, 10));
        // The queue holds ten packets. The first of twelve packets is sent immediately, ten wait, and the last finds no
        // room.
        for _ in 0..12 {
            end.push(Instant::from_millis(20), TestPacket::new(1500), &mut out, &mut meter);
        }
        assert_eq!(
            out.packets.last().map(|(at, _, cause)| (*at, *cause)),
            Some((Instant::from_millis(20), Some(DropCause::Overflow)))
        );
    }

    /// Returns the collision probability p of Bianchi's model for two stations, with a minimum contention window W that
    /// doubles at most m times. It solves p = 2(1-2p) / ((1-2p)(W+1) + pW(1-(2p)^m)).
    fn bianchi(window: f64, doublings: i32) -> f64 {
        let tau = |p: f64| {
            2.0 * (1.0 - 2.0 * p)
                / ((1.0 - 2.0 * p) * (window + 1.0) + p * window * (1.0 - (2.0 * p).powi(doublings)))
        };
        let (mut low, mut high) = (0.0, 0.49);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if tau(middle) > middle { low = middle } else { high = middle }
        }
        low
    }

    #[test]
    fn two_ends_that_always_have_a_packet_collide_as_in_bianchi_s_model() {
        for (rules, window, doublings) in [(0, 32.0, 5), (1, 16.0, 6)] {
            let (collisions, left, lost, _) = saturated(rules, 7, 60_000);
            let sent = (left[0] + left[1]) as f64;
            // The share of one end's transmissions that collide.
            let share = 2.0 * collisions as f64 / (sent + 2.0 * collisions as f64);
            let expected = bianchi(window, doublings);
            assert!((share / expected - 1.0).abs() < 0.15, "{}: {share} and {expected}", RULES[rules].name);
            assert!((left[0] as f64 / sent - 0.5).abs() < 0.02 && lost < 10, "{left:?}, {lost} lost");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_collisions_and_another_others() {
        assert_eq!(saturated(1, 3, 5_000), saturated(1, 3, 5_000));
        assert_ne!(saturated(1, 3, 5_000), saturated(1, 4, 5_000));
    }

    /// With a contention window of 0, every transmission collides, and each packet is lost after its last attempt.
    #[test]
    fn a_packet_that_always_collides_is_given_up() {
        let (medium, mut ends) = ends(1, 1);
        let rules = ContentionRules { window_min: 0, window_max: 0, ..RULES[1] };
        medium.borrow_mut().rules = rules;
        medium.borrow_mut().ends.iter_mut().for_each(|end| end.window = 0);
        let (mut out, mut meter) = (Released::default(), Meter::default());
        // End 0 sends its first packet without contention, because end 1 has no packet yet. From 1 ms on, the second
        // packet of end 0 contends with the packet of end 1.
        for end in [0, 0, 1] {
            ends[end].push(Instant::ZERO, TestPacket::new(1500), &mut out, &mut meter);
        }
        while let Some(at) = ends.iter().filter_map(HoldingElement::deadline).min() {
            ends.iter_mut().for_each(|end| end.advance(at, &mut out, &mut meter));
        }
        let found: Vec<_> =
            out.packets.iter().map(|(at, _, cause)| (at.as_nanos() / 1_000_000, *cause)).collect();
        assert_eq!(found, [(1, None), (8, Some(DropCause::Collision)), (8, Some(DropCause::Collision))]);
    }
}
