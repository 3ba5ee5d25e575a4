//! Loss models: they decide which packets are lost on the wire.
//!
//! There are five models: Bernoulli, every n-th packet, the Gilbert-Elliott two-state model, a list of packet numbers,
//! and the losses recorded in a trace. The model of every n-th packet counts packets in one direction, or across both
//! directions. A lost packet has already used the link. A [`LossRule`] applies a model at the sending host instead, before
//! the packet uses the link.

use crate::element::{Carried, Fate, HoldingElement, ImmediateElement, Released};
use crate::meter::{DropCause, Meter, Occupancy};
use crate::spec::{LossSpec, SpecError};
use crate::table::{Impairment, Side};
use crate::trace::series::Series;
use crate::{DirectionSpec, Stage};
use anabranch_base::{Instant, Ratio, Rng};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A loss model and its state.
#[derive(Clone, Debug)]
pub enum Loss {
    /// Each packet is lost with this probability, independently.
    Bernoulli(Ratio, Rng),
    /// Every n-th packet is lost.
    Nth(Nth),
    /// Losses come in bursts, by the two-state model of Gilbert and Elliott.
    GilbertElliott(GilbertElliott),
    /// The packets with these numbers are lost.
    List(List),
    /// Each packet is lost with the probability that a trace has recorded for the packet's time.
    Recorded(Series<Ratio>, Rng),
}

/// A loss model that loses packets `first`, `first + every`, `first + 2·every`, …, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nth {
    /// The number of packets up to and including the next packet to be lost; at least 1.
    until_loss: u64,
    every: u64,
}

impl Nth {
    /// Creates a model that loses packet `first` and every `every`-th packet after it. Both numbers are at least 1.
    #[must_use]
    pub fn new(every: u64, first: u64) -> Self {
        Self { until_loss: first.max(1), every: every.max(1) }
    }

    /// Creates the model from a link's setting. If `first` is `None`, `seed` determines which packet is lost first.
    pub(crate) fn of(every: u64, first: Option<u64>, seed: u64) -> Self {
        Self::new(every, first.unwrap_or(1 + seed % every))
    }

    /// Counts a packet and returns whether the packet is lost.
    pub fn count(&mut self) -> bool {
        self.until_loss -= 1;
        let hit = self.until_loss == 0;
        if hit {
            self.until_loss = self.every;
        }
        hit
    }
}

/// The two-state model of Gilbert (1960) and Elliott (1963). In the good state a packet is lost with one probability,
/// and in the bad state with another. After each packet the state changes with a probability that depends on the state.
/// The initial state is good. As in netem, the loss of a packet is decided before the change of state.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    /// The probability of a change from the good to the bad state.
    pub to_bad: Ratio,
    /// The probability of a change from the bad to the good state.
    pub to_good: Ratio,
    /// The loss probability in the bad state.
    pub bad_loss: Ratio,
    /// The loss probability in the good state.
    pub good_loss: Ratio,
    bad: bool,
    rng: Rng,
}

impl GilbertElliott {
    /// Creates the model with these four probabilities.
    #[must_use]
    pub const fn new(to_bad: Ratio, to_good: Ratio, bad_loss: Ratio, good_loss: Ratio, rng: Rng) -> Self {
        Self { to_bad, to_good, bad_loss, good_loss, bad: false, rng }
    }

    fn hit(&mut self) -> bool {
        let (loss, change) =
            if self.bad { (self.bad_loss, self.to_good) } else { (self.good_loss, self.to_bad) };
        let hit = self.rng.chance(loss);
        self.bad ^= self.rng.chance(change);
        hit
    }
}

/// A loss model that loses the packets with given numbers, counted from 1.
#[derive(Clone, Debug)]
pub struct List {
    /// The numbers of the packets still to be lost, in descending order and without duplicates. The next packet to be
    /// lost is the last entry.
    remaining: Vec<u64>,
    passed: u64,
}

impl List {
    /// Creates a model that loses the packets with these numbers. The first packet has number 1. The numbers may be in
    /// any order.
    #[must_use]
    pub fn new(numbers: &[u64]) -> Self {
        let mut remaining = numbers.to_vec();
        remaining.sort_unstable_by(|a, b| b.cmp(a));
        remaining.dedup();
        Self { remaining, passed: 0 }
    }

    fn hit(&mut self) -> bool {
        self.passed += 1;
        let hit = self.remaining.last() == Some(&self.passed);
        if hit {
            self.remaining.pop();
        }
        hit
    }
}

impl Loss {
    /// Creates the loss model that a link's setting `loss` describes; `None` if nothing is lost. `seed` is the seed of
    /// the run, and `rng` belongs to the direction of the link.
    fn of(spec: &LossSpec, seed: u64, rng: &Rng) -> Option<Self> {
        let rng = rng.fork("loss");
        Some(match spec {
            LossSpec::None => return None,
            LossSpec::Bernoulli(share) => Self::Bernoulli(*share, rng),
            LossSpec::Nth { every, first, .. } => Self::Nth(Nth::of(*every, *first, seed)),
            LossSpec::GilbertElliott { to_bad, to_good, bad_loss, good_loss } => {
                Self::GilbertElliott(GilbertElliott::new(*to_bad, *to_good, *bad_loss, *good_loss, rng))
            }
            LossSpec::List(numbers) => Self::List(List::new(numbers)),
            LossSpec::Recorded(losses) => Self::Recorded(losses.clone(), rng),
        })
    }

    /// Counts a packet that reaches the model at `at`, and returns whether the packet is lost.
    #[inline(always)]
    fn hit(&mut self, at: Instant) -> bool {
        match self {
            Self::Bernoulli(p, rng) => rng.chance(*p),
            Self::Nth(nth) => nth.count(),
            Self::GilbertElliott(model) => model.hit(),
            Self::List(list) => list.hit(),
            Self::Recorded(losses, rng) => rng.chance(losses.at(at)),
        }
    }
}

/// A loss model that a host applies to the packets that it sends, as a rule in the OUTPUT chain of Linux's packet filter
/// does. The host knows that such a packet was dropped, and the packet does not use the link.
#[derive(Debug)]
pub enum LossRule {
    /// The loss model of one direction, which has its own packet counter.
    OneWay(Loss),
    /// The loss model of one direction, if both directions share one packet counter.
    Shared(Rc<Cell<Nth>>),
}

impl LossRule {
    /// Creates the rule of one direction; `None` if nothing is lost. `counter` is the packet counter that both
    /// directions share, if they share one.
    pub(crate) fn of(spec: &LossSpec, counter: Option<&Rc<Cell<Nth>>>, seed: u64, rng: &Rng) -> Option<Self> {
        match counter {
            Some(counter) => Some(Self::Shared(Rc::clone(counter))),
            None => Loss::of(spec, seed, rng).map(Self::OneWay),
        }
    }

    /// Counts a packet that the host sends at `at`, and returns whether the rule drops the packet.
    pub fn drops(&mut self, at: Instant) -> bool {
        match self {
            Self::OneWay(loss) => loss.hit(at),
            Self::Shared(counter) => {
                let mut nth = counter.get();
                let hit = nth.count();
                counter.set(nth);
                hit
            }
        }
    }
}

impl Impairment<LossSpec> for Loss {
    const PLACE: u8 = 40;

    fn read(text: &str) -> Result<LossSpec, String> {
        text.parse().map_err(|error: SpecError| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        match &spec.loss {
            // The setting `trace` already shows losses that come from a trace, so `loss` is not shown.
            LossSpec::None | LossSpec::Recorded(_) => String::new(),
            loss => loss.to_string(),
        }
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        if let Some(counter) = &side.counter {
            return Ok(Some(Stage::SharedLoss(SharedLoss::new(Rc::clone(counter)))));
        }
        Ok(Self::of(&side.spec.loss, side.seed, &side.rng).map(Stage::Loss))
    }
}

impl<P: Carried> ImmediateElement<P> for Loss {
    #[inline(always)]
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        if self.hit(at) { Fate::Lost(DropCause::Loss) } else { Fate::Leaves(at) }
    }
}

/// Loses every n-th packet, counted across both directions, as iptables' `statistic` match does on a loopback
/// interface. Packets of both directions are counted in the order of their entry times. The element gets each packet
/// before the packet's entry time, and holds the packet until that time. Until that time, the other direction may still
/// pass on a packet with an earlier entry time.
#[derive(Debug)]
pub struct SharedLoss<P> {
    counter: Rc<Cell<Nth>>,
    waiting: VecDeque<(Instant, P)>,
}

impl<P> SharedLoss<P> {
    /// Creates the element of one direction. The element of the other direction uses the same counter.
    #[must_use]
    pub fn new(counter: Rc<Cell<Nth>>) -> Self {
        Self { counter, waiting: VecDeque::new() }
    }
}

impl<P> HoldingElement<P> for SharedLoss<P> {
    fn push(&mut self, at: Instant, packet: P, _out: &mut Released<P>, _meter: &mut Meter) {
        self.waiting.push_back((at, packet));
    }

    fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _)| *at)
    }

    fn advance(&mut self, now: Instant, out: &mut Released<P>, _meter: &mut Meter) {
        while self.deadline().is_some_and(|at| at <= now) {
            let Some((at, packet)) = self.waiting.pop_front() else { return };
            let mut counter = self.counter.get();
            let hit = counter.count();
            self.counter.set(counter);
            if hit { out.lost(at, packet, DropCause::Loss) } else { out.leaves(at, packet) }
        }
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn occupancy(&self) -> Occupancy {
        // The held packets have left the queue and are on the wire, so they do not count as waiting.
        Occupancy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::TestPacket;

    fn ratio(text: &str) -> Ratio {
        text.parse().expect("a ratio")
    }

    /// Returns the numbers of the packets that `loss` loses among the first `count`, counted from 1.
    fn lost(mut loss: Loss, count: u64) -> Vec<u64> {
        let mut meter = Meter::default();
        (1..=count)
            .filter(|_| {
                let fate = loss.pass(Instant::ZERO, &mut TestPacket::new(1), &mut meter);
                fate == Fate::Lost(DropCause::Loss)
            })
            .collect()
    }

    #[test]
    fn nth_and_list_lose_exactly_the_packets_named() {
        assert_eq!(lost(Loss::Nth(Nth::new(10, 3)), 35), [3, 13, 23, 33]);
        assert_eq!(lost(Loss::Nth(Nth::new(4, 1)), 9), [1, 5, 9]);
        assert_eq!(lost(Loss::Nth(Nth::new(1, 1)), 3), [1, 2, 3]);
        assert_eq!(lost(Loss::Nth(Nth::new(5, 12)), 30), [12, 17, 22, 27]);
        assert_eq!(lost(Loss::List(List::new(&[17, 3, 3])), 30), [3, 17]);
    }

    #[test]
    fn a_shared_counter_counts_in_the_order_of_arrival_at_the_wire() {
        let counter = Rc::new(Cell::new(Nth::new(2, 2)));
        let (mut up, mut down) = (SharedLoss::new(Rc::clone(&counter)), SharedLoss::new(counter));
        let (mut out, mut meter) = (Released::default(), Meter::default());
        let at = Instant::from_millis;
        // The packet of the down direction is pushed last, but reaches the wire first, at 5 ms. The counter must count
        // the packets in the order of these times.
        up.push(at(10), TestPacket::numbered(1, 1), &mut out, &mut meter);
        up.push(at(20), TestPacket::numbered(1, 2), &mut out, &mut meter);
        down.push(at(5), TestPacket::numbered(1, 3), &mut out, &mut meter);
        for now in [5, 10, 20] {
            up.advance(at(now), &mut out, &mut meter);
            down.advance(at(now), &mut out, &mut meter);
        }
        let fates: Vec<_> = out.packets.into_iter().map(|(at, p, lost)| (at, p.number, lost)).collect();
        assert_eq!(fates, [(at(5), 3, None), (at(10), 1, Some(DropCause::Loss)), (at(20), 2, None)]);
    }

    #[test]
    fn rules_of_both_directions_share_one_counter() {
        let drops = |text: &str| {
            let rules =
                crate::LinkSpec::parse(text).expect("a link").loss_rules(1, &Rng::new(1)).expect("rules");
            let mut rules = rules.map(|rule| rule.expect("a rule"));
            [0, 0, 1, 1, 1, 0].map(|side: usize| rules[side].drops(Instant::ZERO))
        };
        assert_eq!(drops("loss=nth:3/first=2/shared"), [false, true, false, false, true, false]);
        assert_eq!(drops("loss=nth:3/first=2"), [false, true, false, true, false, false]);
        let none = crate::LinkSpec::default().loss_rules(1, &Rng::new(1)).expect("rules");
        assert!(none.iter().all(Option::is_none));
    }

    /// A host's loss rule draws the same random numbers as the loss element of a link. A run with rules therefore loses
    /// the packets with the same numbers as a run with elements.
    #[test]
    fn a_rule_drops_the_packets_that_the_link_would_lose() {
        let spec = crate::LinkSpec::parse("loss=20%").expect("a link");
        let (mut up, _) = spec.build::<TestPacket>(7, &Rng::new(7)).expect("chains");
        let [Some(mut rule), _] = spec.loss_rules(7, &Rng::new(7)).expect("rules") else {
            panic!("a rule for the up direction")
        };
        for number in 0..200 {
            let at = Instant::from_millis(10 * number);
            up.push(at, TestPacket::numbered(100, number));
            assert_eq!(up.pop_dropped().is_some(), rule.drops(at), "packet {number}");
        }
    }

    #[test]
    fn gilbert_elliott_has_its_share_and_its_burst_length() {
        let model = |bad_loss, good_loss| {
            let (to_bad, to_good) = (ratio("1%"), ratio("30%"));
            Loss::GilbertElliott(GilbertElliott::new(to_bad, to_good, bad_loss, good_loss, Rng::new(3)))
        };
        let numbers = lost(model(Ratio::ONE, Ratio::ZERO), 1_000_000);
        // For p = `to_bad` and r = `to_good`, the bad state has the stationary share p/(p+r) = 3.226 %, and the mean
        // burst is 1/r = 3.33 packets.
        assert!((31_000..33_600).contains(&numbers.len()), "{}", numbers.len());
        let bursts = 1 + numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let length = numbers.len() * 100 / bursts;
        assert!((323..343).contains(&length), "{length}");
        assert!(numbers[0] > 1, "it begins in the good state");
        // In the bad state, half of the packets are lost, which is 1.613 % of all packets. In the good state, 0.1 % are
        // lost, which is 0.097 % of all packets.
        let count = lost(model(ratio("50%"), ratio("0.1%")), 1_000_000).len();
        assert!((16_300..17_900).contains(&count), "{count}");
    }

    #[test]
    fn bernoulli_hits_its_share() {
        let count = lost(Loss::Bernoulli(ratio("2%"), Rng::new(9)), 1_000_000).len();
        // The expected number of lost packets is 20,000, with a standard deviation of 140. The range is five standard
        // deviations to either side.
        assert!((19_300..20_700).contains(&count), "{count}");
        assert!(lost(Loss::Bernoulli(Ratio::ZERO, Rng::new(9)), 1000).is_empty());
        assert_eq!(lost(Loss::Bernoulli(Ratio::ONE, Rng::new(9)), 1000).len(), 1000);
    }
}
