//! The event queue of the simulator, which returns the events in order of time.
//!
//! The queue is a heap of keys. Each key is one number that holds *(instant, sequence number, slot)*. Every source of
//! events owns one slot: each direction of a link (for the earliest of its pending events), each timer, and each host's
//! processor. A change of a slot's deadline touches the heap only if the new deadline is earlier than the slot's entry
//! in the heap. A later or cleared deadline is merely stored. When the old entry reaches the top too early, it is
//! reinserted or discarded, and the clock does not move.
//!
//! Taking an event leaves a hole at the top of the heap. In most cases, the source of the event immediately sets the
//! deadline of its next event. The new key fills the hole, so that one pass through the heap replaces a removal and an
//! insertion.

use anabranch_base::Instant;

/// An index into the table of deadlines. Each source of events owns one slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct Slot(u32);

/// The source of events that owns a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A direction of a link, by its index.
    Link(u32),
    /// A timer of a program, by its index.
    Timer(u32),
    /// A host's processor, by the index of the host.
    Processor(u32),
    /// The list of scheduled changes of the network.
    Changes,
    /// No owner: the slot can be reused.
    Free,
}

/// A heap key: an instant in the upper 64 bits, followed by a sequence number that orders equal instants, and the slot.
/// No two keys are equal.
type Key = u128;

#[inline]
fn key(at: Instant, sequence: u64, slot: Slot) -> Key {
    u128::from(at.as_nanos()) << 64 | u128::from(sequence << SLOT_BITS) | u128::from(slot.0)
}

#[inline]
const fn instant(key: Key) -> Instant {
    Instant::from_nanos((key >> 64) as u64)
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    owner: Owner,
    /// The key (deadline) at which the slot's next event is due, or [`NEVER`] if the slot has no deadline.
    due: Key,
    /// The key of the slot's valid entry in the heap, never later than `due`; [`NEVER`] if the slot has no valid entry.
    entry: Key,
}

/// The table of deadlines, and a heap that orders the deadlines.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// A heap in which each key is not greater than the keys of its [`CHILDREN`] children.
    heap: Vec<Key>,
    /// Whether the event at the top has been taken, so that the top of the heap is a hole.
    hollow: bool,
    slots: Vec<Deadline>,
    free: Vec<Slot>,
    sequence: u64,
}

impl Events {
    /// Creates a slot that has no deadline, for events of `owner`.
    pub(crate) fn open(&mut self, owner: Owner) -> Slot {
        let fresh = Deadline { owner, due: NEVER, entry: NEVER };
        if let Some(slot) = self.free.pop() {
            self.slots[slot.0 as usize] = fresh;
            return slot;
        }
        assert!(self.slots.len() < 1 << SLOT_BITS, "sixteen million slots");
        self.slots.push(fresh);
        Slot(self.slots.len() as u32 - 1)
    }

    /// Clears the slot's deadline and frees the slot for reuse.
    pub(crate) fn close(&mut self, slot: Slot) {
        // The slot's key may stay in the heap, where it is ignored: keys are unique, so no slot's `entry` equals this
        // key.
        self.slots[slot.0 as usize] = Deadline { owner: Owner::Free, due: NEVER, entry: NEVER };
        self.free.push(slot);
    }

    /// Sets, moves or clears the slot's deadline. If the instant does not change, the slot keeps its position among the
    /// slots with the same instant. Otherwise the slot is placed behind all slots that already have the new instant.
    #[inline(always)]
    pub(crate) fn set(&mut self, slot: Slot, at: Option<Instant>) {
        let deadline = &mut self.slots[slot.0 as usize];
        let Some(at) = at else {
            deadline.due = NEVER;
            return;
        };
        if instant(deadline.due) == at && deadline.due != NEVER {
            return;
        }
        self.sequence += 1;
        assert!(self.sequence >> (u64::BITS - SLOT_BITS) == 0, "a million million deadlines were set");
        let key = key(at, self.sequence, slot);
        deadline.due = key;
        if key < deadline.entry {
            deadline.entry = key;
            self.push(key);
        }
    }

    /// Returns the earliest deadline, and discards outdated entries of the heap.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Instant> {
        if std::mem::take(&mut self.hollow) {
            self.remove_top();
        }
        loop {
            let top = *self.heap.first()?;
            let deadline = &mut self.slots[(top & SLOT_MASK) as usize];
            if deadline.due == top {
                return Some(instant(top));
            }
            if deadline.entry == top {
                deadline.entry = deadline.due;
                if deadline.due != NEVER {
                    let due = deadline.due;
                    self.sift_down(due);
                    continue;
                }
            }
            self.remove_top();
        }
    }

    /// Takes the event that [`next`](Self::next) has just found: clears its deadline and returns its owner.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Owner> {
        let top = *self.heap.first()?;
        let deadline = &mut self.slots[(top & SLOT_MASK) as usize];
        deadline.due = NEVER;
        deadline.entry = NEVER;
        self.hollow = true;
        Some(deadline.owner)
    }

    #[inline(always)]
    fn push(&mut self, key: Key) {
        if std::mem::take(&mut self.hollow) {
            return self.sift_down(key);
        }
        let mut hole = self.heap.len();
        self.heap.push(key);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.heap[parent] < key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = key;
    }

    fn remove_top(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Replaces the key at the top by `key`, and moves `key` down to its position.
    #[inline]
    fn sift_down(&mut self, key: Key) {
        let heap = self.heap.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * CHILDREN + 1;
            let Some(&[a, b, c, d]) = heap.get(first..).and_then(<[Key]>::first_chunk::<CHILDREN>) else {
                return Self::sink_at_the_edge(heap, hole, key);
            };
            let left = if a < b { (a, first) } else { (b, first + 1) };
            let right = if c < d { (c, first + 2) } else { (d, first + 3) };
            let least = if left.0 < right.0 { left } else { right };
            if key < least.0 {
                heap[hole] = key;
                return;
            }
            heap[hole] = least.0;
            hole = least.1;
        }
    }

    /// Moves `key` down from the node `hole`, which has fewer than [`CHILDREN`] children. These children have no
    /// children themselves.
    #[inline(never)]
    fn sink_at_the_edge(heap: &mut [Key], mut hole: usize, key: Key) {
        let first = hole * CHILDREN + 1;
        let below = (first..).zip(heap.get(first..).unwrap_or_default().iter().copied());
        if let Some((child, least)) = below.min_by_key(|(_, other)| *other)
            && least < key
        {
            heap[hole] = least;
            hole = child;
        }
        heap[hole] = key;
    }

    /// Returns the number of entries in the heap, valid or outdated.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.heap.len() - usize::from(self.hollow)
    }
}

/// A key that is later than any other key.
const NEVER: Key = Key::MAX;
/// The number of children of each node of the heap.
const CHILDREN: usize = 4;
/// The number of low bits of a key that hold the slot's index. The 40 bits above them hold the number of deadlines set
/// so far. At ten million deadlines per second, 40 bits last for 30 hours.
const SLOT_BITS: u32 = 24;
const SLOT_MASK: Key = (1 << SLOT_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Option<Instant> {
        Some(Instant::from_nanos(nanos))
    }

    fn drain(events: &mut Events) -> Vec<(u64, Owner)> {
        let mut out = Vec::new();
        while let Some(due) = events.next() {
            out.push((due.as_nanos(), events.take().expect("an entry")));
        }
        out
    }

    #[test]
    fn equal_times_keep_the_order_of_setting_even_when_moved() {
        let mut events = Events::default();
        let slots: Vec<_> = (0..3).map(|i| events.open(Owner::Timer(i))).collect();
        events.set(slots[0], at(5));
        events.set(slots[1], at(5));
        events.set(slots[2], at(3));
        // The deadline of timer 0 is moved from 5 to 9 and back to 5. Equal deadlines are due in the order in which
        // they were set, so timer 0 now comes after timer 1. The old entry of timer 0, which is still in the heap, does
        // not matter.
        events.set(slots[0], at(9));
        events.set(slots[0], at(5));
        let order: Vec<_> = drain(&mut events);
        assert_eq!(order, [(3, Owner::Timer(2)), (5, Owner::Timer(1)), (5, Owner::Timer(0))]);
    }

    #[test]
    fn moving_a_deadline_later_leaves_the_heap_alone() {
        let mut events = Events::default();
        let slot = events.open(Owner::Timer(0));
        for i in 0..1000 {
            events.set(slot, at(100 + i));
        }
        assert_eq!(events.entries(), 1);
        assert_eq!(drain(&mut events), [(1099, Owner::Timer(0))]);
    }

    /// After random sequences of operations, the event queue must return the same events as a sorted map.
    #[test]
    fn the_heap_agrees_with_a_sorted_map() {
        let mut rng = anabranch_base::Rng::new(5);
        for _ in 0..200 {
            let (mut events, mut model) = (Events::default(), std::collections::BTreeMap::new());
            let (mut open, mut now, mut timers) = (Vec::new(), 0, 0);
            for step in 0..400 {
                match rng.below(10) {
                    0 => {
                        open.push((events.open(Owner::Timer(timers)), timers));
                        timers += 1;
                    }
                    1 if !open.is_empty() => {
                        let (slot, name) = open.swap_remove(rng.below(open.len() as u64) as usize);
                        events.close(slot);
                        model.retain(|_, other| *other != name);
                    }
                    2..8 if !open.is_empty() => {
                        let (slot, name) = open[rng.below(open.len() as u64) as usize];
                        let to = (rng.below(8) > 0).then(|| now + rng.below(20));
                        events.set(slot, to.map(Instant::from_nanos));
                        let before = model.iter().find(|(_, other)| **other == name).map(|(key, _)| *key);
                        if before.map(|(at, _)| at) != to {
                            model.retain(|_, other| *other != name);
                            model.extend(to.map(|to| ((to, step), name)));
                        }
                    }
                    _ => {
                        let expected = model.pop_first();
                        assert_eq!(events.next().map(Instant::as_nanos), expected.map(|((at, _), _)| at));
                        if let Some(((at, _), name)) = expected {
                            assert_eq!(events.take(), Some(Owner::Timer(name)));
                            now = at;
                        }
                    }
                }
                assert!(events.entries() <= 500, "the heap does not grow without bound");
            }
        }
    }

    #[test]
    fn a_closed_slot_is_never_due_even_when_reused() {
        let mut events = Events::default();
        let first = events.open(Owner::Timer(0));
        events.set(first, at(10));
        events.close(first);
        let second = events.open(Owner::Timer(1));
        assert_eq!(events.next(), None);
        events.set(second, at(20));
        assert_eq!(drain(&mut events), [(20, Owner::Timer(1))]);
    }
}
