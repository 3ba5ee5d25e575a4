//! One direction of a link: a sequence of elements, each of which delays, drops or changes packets.
//!
//! A chain owns the packets inside the link, and determines the order in which they come out. Packets are sorted by
//! instant. Packets that leave at the same instant keep the order in which the elements released them. The elements are
//! variants of the enum [`Stage`] (see the module `table`), so a packet passes through them with a few predictable
//! branches. Only elements that hold packets cost a virtual call.

use crate::element::{Carried, Fate, HoldingElement, ImmediateElement, Released};
use crate::meter::{DropCause, Meter, Occupancy};
use anabranch_base::Instant;
use std::collections::VecDeque;

pub use crate::Stage;

/// A packet that the link did not deliver.
#[derive(Debug)]
pub struct Dropped<P> {
    /// The time of the loss. For a packet lost on the wire, this is the end of the packet's serialization, which may be
    /// in the future.
    pub at: Instant,
    /// The cause of the loss.
    pub cause: DropCause,
    /// The packet.
    pub packet: P,
}

/// One direction of a link. To use it, call [`push`](Self::push) with a packet and then [`next`](Self::next), which
/// returns the instant of the next event. At that instant, call [`pop`](Self::pop) until it returns `None`. The
/// argument `now` must not decrease from call to call.
#[derive(Debug)]
pub struct Chain<P> {
    stages: Vec<Stage<P>>,
    /// Whether any element of the chain can hold packets. Otherwise the chain need not check the elements' deadlines.
    holding: bool,
    /// The packets that have passed all elements, each with the time at which it leaves the chain. They are sorted by
    /// time.
    arrivals: VecDeque<(Instant, P)>,
    dropped: VecDeque<Dropped<P>>,
    released: Released<P>,
    meter: Meter,
    now: Instant,
}

impl<P: Carried> Chain<P> {
    /// Creates a chain of the elements `stages`. A packet passes them in this order.
    #[must_use]
    pub fn new(stages: Vec<Stage<P>>) -> Self {
        let holding = stages.iter().any(|stage| stage.holding().is_some());
        Self {
            stages,
            holding,
            arrivals: VecDeque::new(),
            dropped: VecDeque::new(),
            released: Released::default(),
            meter: Meter::default(),
            now: Instant::ZERO,
        }
    }

    /// Adds a packet at `now`. Events inside the chain that are due by `now` are processed first. After this call,
    /// [`next`](Self::next) may return an earlier instant than before.
    #[inline(always)]
    pub fn push(&mut self, now: Instant, packet: P) {
        self.advance(now);
        self.meter.entered.add(packet.wire_len());
        self.run(0, now, packet);
    }

    /// Returns the instant at which to call [`pop`](Self::pop) next; `None` if no packet is in the chain.
    #[must_use]
    #[inline(always)]
    pub fn next(&self) -> Option<Instant> {
        let head = self.arrivals.front().map(|(at, _)| *at);
        if !self.holding {
            return head;
        }
        self.next_holding(head)
    }

    #[cold]
    fn next_holding(&self, head: Option<Instant>) -> Option<Instant> {
        let deadlines = self.stages.iter().filter_map(|stage| stage.holding()?.deadline());
        deadlines.chain(head).min()
    }

    /// Returns the next packet that has come out of the chain by `now`, if there is one.
    #[inline]
    pub fn pop(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        if self.arrivals.front()?.0 > now {
            return None;
        }
        let (_, packet) = self.arrivals.pop_front()?;
        if let Some((_, next)) = self.arrivals.front() {
            next.approach();
        }
        self.meter.left.add(packet.wire_len());
        Some(packet)
    }

    /// Returns the oldest lost packet and removes it. The caller should take lost packets after every `push` and `pop`:
    /// to reuse their buffers, to send ICMP for [`DropCause::TooBig`], or to draw them in a ladder diagram. Only the
    /// last 1024 lost packets are kept.
    #[inline]
    pub fn pop_dropped(&mut self) -> Option<Dropped<P>> {
        self.dropped.pop_front()
    }

    /// Returns whether [`pop_dropped`](Self::pop_dropped) would return a packet.
    #[must_use]
    #[inline]
    pub fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Returns the counters of the chain.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns how many packets and bytes wait in the queues at `now`. A packet that is being serialized does not
    /// count.
    #[must_use]
    pub fn occupancy(&self, now: Instant) -> Occupancy {
        self.stages.iter().fold(Occupancy::default(), |sum, stage| {
            let one = match stage {
                Stage::Bottleneck(stage) => stage.occupancy(now),
                _ => stage.holding().map_or_else(Occupancy::default, HoldingElement::occupancy),
            };
            Occupancy { packets: sum.packets + one.packets, bytes: sum.bytes + one.bytes }
        })
    }

    /// Returns the number of packets inside the chain: waiting, being serialized or propagating.
    #[must_use]
    pub fn held(&self) -> usize {
        let waiting: usize = self.stages.iter().filter_map(Stage::holding).map(HoldingElement::held).sum();
        waiting + self.arrivals.len()
    }

    /// Processes the due events of all elements that hold packets, in the order of the chain. A packet that one element
    /// releases may be due immediately in the next element.
    #[inline]
    fn advance(&mut self, now: Instant) {
        debug_assert!(self.now <= now, "time goes forward");
        self.now = now;
        if self.holding {
            self.advance_holding(now);
        }
    }

    #[inline(never)]
    fn advance_holding(&mut self, now: Instant) {
        for index in 0..self.stages.len() {
            let Some(stage) = self.stages[index].holding_mut() else { continue };
            stage.advance(now, &mut self.released, &mut self.meter);
            self.run_released(index + 1);
        }
    }

    /// Passes the packets that an element has released through the remaining elements, from index `from` on.
    fn run_released(&mut self, from: usize) {
        if self.released.packets.is_empty() {
            return;
        }
        let mut released = std::mem::take(&mut self.released.packets);
        for (at, packet, cause) in released.drain(..) {
            match cause {
                None => self.run(from, at, packet),
                Some(cause) => self.lose(at, packet, cause),
            }
        }
        // Put the empty vector back, to reuse its allocation. `self.released` has no packets here: a nested call of
        // this function has already passed on all packets that `run` released.
        self.released.packets = released;
    }

    /// Passes a packet through the elements of the chain, from index `from` on. The packet enters the first of them at
    /// the time `at`.
    #[inline(always)]
    fn run(&mut self, from: usize, at: Instant, mut packet: P) {
        if from == 0
            && let Some(passed) = pass_plainly(&mut self.stages, at, &mut packet, &mut self.meter)
        {
            return match passed {
                Ok(at) => self.arrive(at, packet),
                Err((at, cause)) => self.lose(at, packet, cause),
            };
        }
        self.run_stages(from, at, packet);
    }

    #[inline(never)]
    fn run_stages(&mut self, from: usize, at: Instant, mut packet: P) {
        match pass_through(&mut self.stages[from..], at, &mut packet, &mut self.meter) {
            (_, ChainOutcome::Through(at)) => self.arrive(at, packet),
            (_, ChainOutcome::Lost(at, cause)) => self.lose(at, packet, cause),
            (stage, ChainOutcome::Doubled(at)) => {
                let copy = packet.duplicate();
                self.meter.changed.duplicated.add(copy.wire_len());
                self.run(from + stage + 1, at, packet);
                self.run(from + stage + 1, at, copy);
            }
            (stage, ChainOutcome::Held(at)) => self.hold(from + stage, at, packet),
        }
    }

    #[cold]
    fn hold(&mut self, index: usize, at: Instant, packet: P) {
        let stage = self.stages[index].holding_mut().expect("only holding stages come here");
        stage.push(at, packet, &mut self.released, &mut self.meter);
        self.run_released(index + 1);
    }

    #[cold]
    fn lose(&mut self, at: Instant, packet: P, cause: DropCause) {
        self.meter.lose(cause, packet.wire_len());
        if self.dropped.len() == DROPPED_KEPT {
            self.dropped.pop_front();
        }
        self.dropped.push_back(Dropped { at, cause, packet });
    }

    /// Inserts a packet that leaves the chain at `at` into `arrivals`, in order of time.
    #[inline(always)]
    fn arrive(&mut self, at: Instant, packet: P) {
        // A reordering element may let a packet leave earlier, but never before the packet entered the chain.
        let at = at.max(self.now);
        match self.arrivals.back() {
            Some((last, _)) if *last > at => self.overtake(at, packet),
            _ => self.arrivals.push_back((at, packet)),
        }
    }

    #[cold]
    fn overtake(&mut self, at: Instant, packet: P) {
        let index = self.arrivals.partition_point(|(other, _)| *other <= at);
        self.arrivals.insert(index, (at, packet));
    }
}

/// What happened to a packet that was passed through the elements of a chain.
enum ChainOutcome {
    /// The packet has passed all elements and leaves at this instant.
    Through(Instant),
    /// The packet was lost at this instant.
    Lost(Instant, DropCause),
    /// An element has duplicated the packet. The packet and its copy leave this element at this instant.
    Doubled(Instant),
    /// At this instant, the packet has reached an element that has to hold it.
    Held(Instant),
}

/// Passes a packet through a chain of the most common form: MTU, queue with serializer, perhaps a loss model, delay.
/// Returns `None` if the chain has another form. The result is the same as that of [`pass_through`], without a `match`
/// for each element.
#[inline(always)]
fn pass_plainly<P: Carried>(
    stages: &mut [Stage<P>],
    at: Instant,
    packet: &mut P,
    meter: &mut Meter,
) -> Option<Result<Instant, (Instant, DropCause)>> {
    let (mtu, queue, loss, delay) = match stages {
        [Stage::Mtu(mtu), Stage::Bottleneck(queue), Stage::Delay(delay)] => (mtu, queue, None, delay),
        [Stage::Mtu(mtu), Stage::Bottleneck(queue), Stage::Loss(loss), Stage::Delay(delay)] => {
            (mtu, queue, Some(loss), delay)
        }
        _ => return None,
    };
    if let Fate::Lost(cause) = mtu.pass(at, packet, meter) {
        return Some(Err((at, cause)));
    }
    let at = match queue.pass(at, packet, meter) {
        Fate::Leaves(at) | Fate::Doubled(at) => at,
        Fate::Lost(cause) => return Some(Err((at, cause))),
    };
    if let Some(loss) = loss
        && let Fate::Lost(cause) = loss.pass(at, packet, meter)
    {
        return Some(Err((at, cause)));
    }
    match delay.pass(at, packet, meter) {
        Fate::Leaves(at) | Fate::Doubled(at) => Some(Ok(at)),
        Fate::Lost(cause) => Some(Err((at, cause))),
    }
}

/// Passes a packet through `stages` until a stage loses, duplicates or holds it. Returns the index of this stage and
/// the outcome. If the packet has passed all stages, returns the number of stages as the index.
#[inline]
fn pass_through<P: Carried>(
    stages: &mut [Stage<P>],
    mut at: Instant,
    packet: &mut P,
    meter: &mut Meter,
) -> (usize, ChainOutcome) {
    for (index, stage) in stages.iter_mut().enumerate() {
        let Some(fate) = stage.pass(at, packet, meter) else { return (index, ChainOutcome::Held(at)) };
        match fate {
            Fate::Leaves(then) => at = then,
            Fate::Lost(cause) => return (index, ChainOutcome::Lost(at, cause)),
            Fate::Doubled(then) => return (index, ChainOutcome::Doubled(then)),
        }
    }
    (stages.len(), ChainOutcome::Through(at))
}

/// The maximum number of lost packets that wait for [`Chain::pop_dropped`].
const DROPPED_KEPT: usize = 1024;
