//! One direction of a link: elements one behind the other.
//!
//! Owns the packets that are under way and the order in which they come out:
//! by instant, and at equal instants in the order in which they were let go.
//! [`Stage`] is the closed set of elements (see `table`), so that a packet's way
//! through the chain is a few predictable branches and no virtual call.

use crate::element::{Carried, Cause, Fate, Holding, Passing, Released};
use crate::meter::Meter;
use crate::queue::Occupancy;
use anabranch_base::Instant;
use std::collections::VecDeque;

pub use crate::Stage;

/// A packet that the link did not deliver.
#[derive(Debug)]
pub struct Dropped<P> {
    /// When it was lost; for a packet lost on the wire this is when its
    /// serialization ended, which may still lie ahead.
    pub at: Instant,
    /// Why.
    pub cause: Cause,
    /// The packet.
    pub packet: P,
}

/// One direction of a link. See the crate's documentation for the protocol:
/// [`push`](Self::push), then ask [`next`](Self::next) again, and
/// [`pop`](Self::pop) until `None` when that instant has come. `now` must not
/// go backwards from call to call.
#[derive(Debug)]
pub struct Chain<P> {
    stages: Vec<Stage<P>>,
    /// Some stage holds packets: only then are deadlines looked for.
    holding: bool,
    /// What leaves when, in order.
    arrivals: VecDeque<(Instant, P)>,
    dropped: VecDeque<Dropped<P>>,
    released: Released<P>,
    meter: Meter,
    now: Instant,
}

impl<P: Carried> Chain<P> {
    /// The chain of these elements, the first being the first to see a packet.
    #[must_use]
    pub fn new(stages: Vec<Stage<P>>) -> Self {
        let holding = stages.iter().any(|stage| {
            matches!(stage, Stage::Codel(_) | Stage::FqCodel(_) | Stage::Contender(_) | Stage::SharedLoss(_))
        });
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

    /// A packet enters at `now`. What is due up to `now` inside the chain
    /// happens first. Afterwards [`next`](Self::next) may be earlier than before.
    #[inline(always)]
    pub fn push(&mut self, now: Instant, packet: P) {
        self.advance(now);
        self.meter.entered.add(packet.wire_len());
        self.run(0, now, packet);
    }

    /// When to call [`pop`](Self::pop) next; `None` when the chain is empty.
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
        let deadlines = self.stages.iter().filter_map(Stage::deadline);
        deadlines.chain(head).min()
    }

    /// The next packet that has come out by `now`, if any.
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

    /// A packet that was lost, oldest first. The caller should take them after
    /// every `push` and `pop` (to recycle buffers, to send ICMP for
    /// [`Cause::TooBig`], to draw a ladder); only the last 1024 are kept.
    #[inline]
    pub fn pop_dropped(&mut self) -> Option<Dropped<P>> {
        self.dropped.pop_front()
    }

    /// A lost packet is there to be taken.
    #[must_use]
    #[inline]
    pub fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// The counters.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// What waits in the queues at `now`, the packet being serialized not included.
    #[must_use]
    pub fn occupancy(&self, now: Instant) -> Occupancy {
        self.stages.iter().fold(Occupancy::default(), |sum, stage| {
            let one = match stage {
                Stage::Bottleneck(stage) => stage.occupancy(now),
                Stage::Codel(stage) => stage.occupancy(),
                Stage::FqCodel(stage) => stage.occupancy(),
                Stage::Contender(stage) => stage.occupancy(),
                _ => Occupancy::default(),
            };
            Occupancy { packets: sum.packets + one.packets, bytes: sum.bytes + one.bytes }
        })
    }

    /// Packets inside: waiting, being serialized or under way.
    #[must_use]
    pub fn held(&self) -> usize {
        let waiting: usize = self.stages.iter().map(Stage::held).sum();
        waiting + self.arrivals.len()
    }

    /// Lets the holding stages do what is due, the first stage first: what one
    /// lets go may still be due in the next.
    #[inline]
    fn advance(&mut self, now: Instant) {
        debug_assert!(self.now <= now, "time goes forward");
        self.now = now;
        if self.holding {
            self.advance_holding(now);
        }
    }

    fn advance_holding(&mut self, now: Instant) {
        for index in 0..self.stages.len() {
            let released = &mut self.released;
            match &mut self.stages[index] {
                Stage::Codel(stage) => stage.advance(now, released, &mut self.meter),
                Stage::FqCodel(stage) => stage.advance(now, released, &mut self.meter),
                Stage::Contender(stage) => stage.advance(now, released, &mut self.meter),
                Stage::SharedLoss(stage) => stage.advance(now, released, &mut self.meter),
                _ => continue,
            }
            self.run_released(index + 1);
        }
    }

    /// Sends what the stage before `from` let go through the rest.
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
        // The memory is kept; nothing can have been released meanwhile that a
        // deeper call did not take.
        self.released.packets = released;
    }

    /// The packet enters stage `from` at `at`.
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
            (_, Passed::Through(at)) => self.arrive(at, packet),
            (_, Passed::Lost(at, cause)) => self.lose(at, packet, cause),
            (stage, Passed::Doubled(at)) => {
                let copy = packet.duplicate();
                self.meter.changed.duplicated.add(copy.wire_len());
                self.run(from + stage + 1, at, packet);
                self.run(from + stage + 1, at, copy);
            }
            (stage, Passed::Held(at)) => self.hold(from + stage, at, packet),
        }
    }

    #[cold]
    fn hold(&mut self, index: usize, at: Instant, packet: P) {
        let released = &mut self.released;
        match &mut self.stages[index] {
            Stage::Codel(stage) => stage.push(at, packet, released, &mut self.meter),
            Stage::FqCodel(stage) => stage.push(at, packet, released, &mut self.meter),
            Stage::Contender(stage) => stage.push(at, packet, released, &mut self.meter),
            Stage::SharedLoss(stage) => stage.push(at, packet, released, &mut self.meter),
            _ => unreachable!("only holding stages come here"),
        }
        self.run_released(index + 1);
    }

    #[cold]
    fn lose(&mut self, at: Instant, packet: P, cause: Cause) {
        self.meter.lose(cause, packet.wire_len());
        if self.dropped.len() == DROPPED_KEPT {
            self.dropped.pop_front();
        }
        self.dropped.push_back(Dropped { at, cause, packet });
    }

    /// Puts the packet in its place among those under way.
    #[inline(always)]
    fn arrive(&mut self, at: Instant, packet: P) {
        // A reordering element may reach back, but never before the packet entered.
        let at = at.max(self.now);
        match self.arrivals.back() {
            Some((last, _)) if *last > at => self.overtake(at, packet),
            _ => self.arrivals.push_back((at, packet)),
        }
    }

    #[cold]
    fn overtake(&mut self, at: Instant, packet: P) {
        let place = self.arrivals.partition_point(|(other, _)| *other <= at);
        self.arrivals.insert(place, (at, packet));
    }
}

/// How far a packet came.
enum Passed {
    /// To the end, at this instant.
    Through(Instant),
    /// The packet was lost at this instant.
    Lost(Instant, Cause),
    /// Through a stage that doubled it.
    Doubled(Instant),
    /// To a stage that is to hold it, at this instant.
    Held(Instant),
}

/// Leads a packet through the chain that most links are: a queue with its
/// serializer, perhaps a loss model, a delay. `None`: it is another chain. Does
/// what [`pass_through`] does, without asking each stage what it is.
#[inline(always)]
fn pass_plainly<P: Carried>(
    stages: &mut [Stage<P>],
    at: Instant,
    packet: &mut P,
    meter: &mut Meter,
) -> Option<Result<Instant, (Instant, Cause)>> {
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

/// Leads a packet through `stages` as far as it goes without being moved.
/// Also returns the number of the stage that ended it.
#[inline]
fn pass_through<P: Carried>(
    stages: &mut [Stage<P>],
    mut at: Instant,
    packet: &mut P,
    meter: &mut Meter,
) -> (usize, Passed) {
    for (index, stage) in stages.iter_mut().enumerate() {
        let Some(fate) = stage.pass(at, packet, meter) else { return (index, Passed::Held(at)) };
        match fate {
            Fate::Leaves(then) => at = then,
            Fate::Lost(cause) => return (index, Passed::Lost(at, cause)),
            Fate::Doubled(then) => return (index, Passed::Doubled(then)),
        }
    }
    (stages.len(), Passed::Through(at))
}

impl<P: Carried> Stage<P> {
    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Codel(stage) => stage.deadline(),
            Self::FqCodel(stage) => stage.deadline(),
            Self::Contender(stage) => stage.deadline(),
            Self::SharedLoss(stage) => stage.deadline(),
            _ => None,
        }
    }

    fn held(&self) -> usize {
        match self {
            Self::Codel(stage) => stage.held(),
            Self::FqCodel(stage) => stage.held(),
            Self::Contender(stage) => stage.held(),
            Self::SharedLoss(stage) => stage.held(),
            _ => 0,
        }
    }
}

/// How many lost packets wait for [`Chain::pop_dropped`].
const DROPPED_KEPT: usize = 1024;
