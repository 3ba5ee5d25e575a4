//! What is due when.
//!
//! A binary heap of *(instant, sequence number, slot)*. Everything that can
//! become due owns a slot: each link direction one (for its head only), each
//! timer one, each host's processor one. Moving a deadline does not touch the
//! heap unless it becomes earlier than the slot's live entry: a later or
//! cleared deadline is merely stored, and the entry that comes up too early is
//! put back or thrown away without the clock noticing.

use anabranch_base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A place in the table of deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct Slot(u32);

/// What a slot belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A direction of a link, by index.
    Link(u32),
    /// A program's timer, by index.
    Timer(u32),
    /// A host's processor, by node index.
    Processor(u32),
    /// The list of scheduled changes.
    Changes,
    /// Nobody: free for reuse.
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    owner: Owner,
    /// When the slot is due, and its place among equal instants.
    due: Option<(Instant, u64)>,
    /// The live entry in the heap: never later than `due`.
    entry: Option<(Instant, u64)>,
}

/// The table of deadlines and the heap over it.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Instant, u64, Slot)>>,
    slots: Vec<Deadline>,
    free: Vec<Slot>,
    sequence: u64,
}

impl Events {
    /// A new slot, with nothing due.
    pub(crate) fn open(&mut self, owner: Owner) -> Slot {
        let fresh = Deadline { owner, due: None, entry: None };
        if let Some(slot) = self.free.pop() {
            self.slots[slot.0 as usize] = fresh;
            return slot;
        }
        self.slots.push(fresh);
        Slot(u32::try_from(self.slots.len() - 1).unwrap_or_else(|_| panic!("four thousand million slots")))
    }

    /// Gives the slot back; whatever was due no longer is.
    pub(crate) fn close(&mut self, slot: Slot) {
        // An entry left in the heap no longer matches any slot's `entry`: sequence numbers are unique.
        self.slots[slot.0 as usize] = Deadline { owner: Owner::Free, due: None, entry: None };
        self.free.push(slot);
    }

    /// Sets, moves or clears when the slot is due. Setting the instant it
    /// already has keeps its place among equals; any other takes a new place.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, at: Option<Instant>) {
        let deadline = &mut self.slots[slot.0 as usize];
        let Some(at) = at else {
            deadline.due = None;
            return;
        };
        if deadline.due.is_some_and(|(due, _)| due == at) {
            return;
        }
        self.sequence += 1;
        deadline.due = Some((at, self.sequence));
        if deadline.entry.is_none_or(|(entry, _)| at < entry) {
            deadline.entry = deadline.due;
            self.heap.push(Reverse((at, self.sequence, slot)));
        }
    }

    /// The earliest deadline; throws away entries that no longer mean anything.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Instant> {
        while let Some(&Reverse((at, sequence, slot))) = self.heap.peek() {
            let deadline = &mut self.slots[slot.0 as usize];
            let live = deadline.entry == Some((at, sequence));
            if live && deadline.due == deadline.entry {
                return Some(at);
            }
            self.heap.pop();
            if live {
                deadline.entry = deadline.due;
                if let Some((at, sequence)) = deadline.due {
                    self.heap.push(Reverse((at, sequence, slot)));
                }
            }
        }
        None
    }

    /// Takes what [`next`](Self::next) has just found: its deadline is cleared.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Owner> {
        let Reverse((_, _, slot)) = self.heap.pop()?;
        let deadline = &mut self.slots[slot.0 as usize];
        deadline.due = None;
        deadline.entry = None;
        Some(deadline.owner)
    }

    /// Entries in the heap, live or not.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.heap.len()
    }
}

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
        // Moved later and back to 5: it now comes after timer 1, though its entry stayed where it was.
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

    /// Any sequence of operations gives what a sorted map would.
    #[test]
    fn the_heap_agrees_with_a_sorted_map() {
        let mut rng = anabranch_base::Rng::new(5);
        for _ in 0..200 {
            let (mut events, mut model) = (Events::default(), std::collections::BTreeMap::new());
            let (mut open, mut now, mut places) = (Vec::new(), 0, 0);
            for step in 0..400 {
                match rng.below(10) {
                    0 => {
                        open.push((events.open(Owner::Timer(places)), places));
                        places += 1;
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
