//! Loss models: which packets the wire does not deliver.
//!
//! Bernoulli, every n-th (of one direction, or counted across both), the
//! Gilbert-Elliott two-state model, and a list of packet numbers. A lost packet
//! has already used the link.

use crate::element::{Carried, Cause, Fate, Holding, Passing, Released};
use crate::meter::Meter;
use anabranch_base::{Instant, Ratio, Rng};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A loss model with its state.
#[derive(Clone, Debug)]
pub enum Loss {
    /// Each packet is lost with this probability, independently.
    Bernoulli(Ratio, Rng),
    /// Every n-th packet is lost.
    Nth(Nth),
    /// Loss comes in bursts.
    GilbertElliott(GilbertElliott),
    /// The packets of these numbers are lost.
    List(List),
}

/// Loses packets `first`, `first + every`, `first + 2·every`, …, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nth {
    /// Packets until the next one that is lost, itself included; at least 1.
    until: u64,
    every: u64,
}

impl Nth {
    /// Loses packet `first` and every `every`-th after it (both at least 1).
    #[must_use]
    pub fn new(every: u64, first: u64) -> Self {
        Self { until: first.max(1), every: every.max(1) }
    }

    /// Counts a packet; true when it is one to lose.
    pub fn count(&mut self) -> bool {
        self.until -= 1;
        let hit = self.until == 0;
        if hit {
            self.until = self.every;
        }
        hit
    }
}

/// The two-state model of Gilbert (1960) and Elliott (1963): in the good state a
/// packet is lost with one probability, in the bad state with another; after
/// each packet the state changes with the probability of leaving it. It begins
/// in the good state. The order (loss by the state that is, then the change)
/// is netem's.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    /// Good to bad.
    pub to_bad: Ratio,
    /// Bad to good.
    pub to_good: Ratio,
    /// Loss in the bad state.
    pub bad_loss: Ratio,
    /// Loss in the good state.
    pub good_loss: Ratio,
    bad: bool,
    rng: Rng,
}

impl GilbertElliott {
    /// The model with these four probabilities.
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

/// Loses the packets of given numbers, counted from 1.
#[derive(Clone, Debug)]
pub struct List {
    /// Sorted, each once, the next one last.
    ahead: Vec<u64>,
    seen: u64,
}

impl List {
    /// Loses the packets of these numbers, given in any order.
    #[must_use]
    pub fn new(numbers: &[u64]) -> Self {
        let mut ahead = numbers.to_vec();
        ahead.sort_unstable_by(|a, b| b.cmp(a));
        ahead.dedup();
        Self { ahead, seen: 0 }
    }

    fn hit(&mut self) -> bool {
        self.seen += 1;
        let hit = self.ahead.last() == Some(&self.seen);
        if hit {
            self.ahead.pop();
        }
        hit
    }
}

impl<P: Carried> Passing<P> for Loss {
    #[inline]
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        let hit = match self {
            Self::Bernoulli(p, rng) => rng.chance(*p),
            Self::Nth(nth) => nth.count(),
            Self::GilbertElliott(model) => model.hit(),
            Self::List(list) => list.hit(),
        };
        if hit { Fate::Lost(Cause::Loss) } else { Fate::Leaves(at) }
    }
}

/// Every n-th packet, counted across both directions as iptables' `statistic`
/// match does on a loopback. Packets are counted when they reach this point of
/// the link, and those of the two directions take turns as they do so; hence
/// they are held until then.
#[derive(Debug)]
pub struct SharedLoss<P> {
    counter: Rc<Cell<Nth>>,
    waiting: VecDeque<(Instant, P)>,
}

impl<P> SharedLoss<P> {
    /// The two directions' elements around one counter.
    #[must_use]
    pub fn pair(counter: Nth) -> (Self, Self) {
        let counter = Rc::new(Cell::new(counter));
        let one = |counter| Self { counter, waiting: VecDeque::new() };
        (one(Rc::clone(&counter)), one(counter))
    }
}

impl<P> Holding<P> for SharedLoss<P> {
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
            if hit { out.lost(at, packet, Cause::Loss) } else { out.leaves(at, packet) }
        }
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }
}
