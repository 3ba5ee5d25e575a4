//! The slots that hold the associations. Each slot also has state derived from its association: its entries in the
//! demultiplexer, its deadline, and its position in the send queue.

use super::demux::AddressKey;
use super::{AssociationId, Endpoint, listen};
use crate::association::{Association, Ctx};
use anabranch_base::Instant;
use std::cmp::Reverse;

/// A slot for an association.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) generation: u32,
    pub(crate) association: Option<Box<Association>>,
    /// Whether the slot is in the queue `ready`.
    pub(crate) queued: bool,
    /// The association's current deadline. Heap entries of this slot with another deadline are outdated.
    pub(crate) deadline: Instant,
    /// The local tag under which the demultiplexer finds the association.
    pub(super) tag: Option<u32>,
    pub(super) address_keys: Vec<AddressKey>,
    /// The value of `Paths::changes` when `address_keys` was last updated.
    pub(super) changes: u32,
}

impl Endpoint {
    pub(super) fn id_of(&self, slot: u32) -> AssociationId {
        AssociationId { slot, generation: self.slots[slot as usize].generation }
    }

    pub(super) fn find(&self, id: AssociationId) -> Option<u32> {
        let slot = self.slots.get(id.slot as usize)?;
        (slot.generation == id.generation && slot.association.is_some()).then_some(id.slot)
    }

    /// Returns whether this id belongs, or once belonged, to an association.
    pub(super) fn is_past(&self, id: AssociationId) -> bool {
        self.slots
            .get(id.slot as usize)
            .is_some_and(|slot| slot.generation.wrapping_sub(id.generation) < 1 << 31)
    }

    pub(super) fn association(&self, id: AssociationId) -> Option<&Association> {
        self.find(id).and_then(|slot| self.slots[slot as usize].association.as_deref())
    }

    /// Returns the association in a slot, unless it has ended.
    pub(super) fn alive(&self, slot: u32) -> Option<&Association> {
        let association = self.slots.get(slot as usize)?.association.as_deref()?;
        (!association.is_closed()).then_some(association)
    }

    pub(super) fn new_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        self.slots.push(Slot {
            generation: 0,
            association: None,
            queued: false,
            deadline: Instant::MAX,
            tag: None,
            address_keys: Vec::new(),
            changes: 0,
        });
        (self.slots.len() - 1) as u32
    }

    /// Runs `change` on the association in a slot. Then updates what the slot derives from the association, such as its
    /// deadline.
    pub(super) fn with<R>(
        &mut self,
        now: Instant,
        slot: u32,
        change: impl FnOnce(&mut Association, &mut Ctx<'_>) -> R,
    ) -> Option<R> {
        let (mut ctx, slots) = self.context(now);
        let association = slots.get_mut(slot as usize)?.association.as_deref_mut()?;
        association.invalidate_fast_path();
        let was_established = association.was_established();
        let result = change(association, &mut ctx);
        association.abandon_expired(&mut ctx);
        if !was_established && association.was_established() {
            self.totals.associations += 1;
        }
        self.settle(now, slot);
        Some(result)
    }

    /// Updates what the endpoint stores about the association in a slot: the entries in the demultiplexer, the
    /// deadline, and the position in the send queue.
    #[inline]
    pub(super) fn settle(&mut self, now: Instant, slot: u32) {
        let Some(entry) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let Some(association) = &mut entry.association else {
            return;
        };
        if association.is_closed() {
            self.retire(now, slot);
            return;
        }
        let moved = entry.tag != Some(association.identity().local_tag())
            || entry.changes != association.paths().changes();
        let next = association.timeout_before(entry.deadline);
        if !entry.queued {
            entry.queued = true;
            self.ready.push_back(slot);
        }
        if moved {
            self.index(slot);
        }
        if let Some(next) = next {
            self.arm_at(slot, next);
        }
    }

    #[inline]
    pub(super) fn arm(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let Some(association) = &mut entry.association else {
            return;
        };
        // A deadline that has moved to a later time gets no heap entry now. Its entry is added when the earlier
        // deadline passes.
        if let Some(next) = association.timeout_before(entry.deadline) {
            self.arm_at(slot, next);
        }
    }

    /// Sets the deadline of a slot and adds an entry for it to the heap. Called rarely, because most packets only move
    /// deadlines to later times.
    #[cold]
    pub(crate) fn arm_at(&mut self, slot: u32, next: Instant) {
        self.slots[slot as usize].deadline = next;
        self.deadlines.push(Reverse((next, slot)));
        // Removes outdated entries. Otherwise the entries of short-lived associations would stay in the heap until
        // their deadlines pass.
        if self.deadlines.len() > MAX_OUTDATED + 2 * self.slots.len() {
            let slots = &self.slots;
            self.deadlines.retain(|Reverse((at, slot))| slots[*slot as usize].deadline == *at);
        }
    }

    /// Updates the entries of an association in the demultiplexer: its tag, its addresses and its ports.
    #[cold]
    pub(super) fn index(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let Some(association) = &entry.association else {
            return;
        };
        if entry.tag != Some(association.identity().local_tag()) {
            if let Some(old) = entry.tag.replace(association.identity().local_tag()) {
                self.demux.remove_tag(old);
            } else {
                *self.ports.entry(association.identity().local_port()).or_insert(0) += 1;
            }
            self.demux.add_tag(association.identity().local_tag(), slot);
        }
        let (peer_port, local_port) =
            (association.identity().peer_port(), association.identity().local_port());
        if entry.changes == association.paths().changes() {
            return;
        }
        entry.changes = association.paths().changes();
        let present = association.paths().iter().filter(|path| !path.is_removed());
        // There may be very many associations, most of them with a single path. So the list is allocated with no spare
        // capacity.
        let mut address_keys = Vec::with_capacity(association.paths().len());
        address_keys
            .extend(present.map(|path| self.demux.address_key(path.address(), peer_port, local_port)));
        let before = std::mem::take(&mut entry.address_keys);
        for &address_key in before.iter().filter(|address_key| !address_keys.contains(address_key)) {
            if self.demux.remove_address_key(address_key, slot) {
                self.claim(address_key, false);
            }
        }
        for &address_key in &address_keys {
            if self.demux.add_address_key(address_key, slot) {
                self.claim(address_key, true);
            }
        }
        self.slots[slot as usize].address_keys = address_keys;
    }

    /// Removes an ended association from the demultiplexer. Its state is dropped once the application has read all
    /// received data.
    #[cold]
    pub(super) fn retire(&mut self, now: Instant, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        if let Some(tag) = entry.tag.take() {
            self.demux.remove_tag(tag);
            if entry.association.as_ref().is_some_and(|association| !association.identity().is_initiator()) {
                self.used_cookies.add(now, self.config.cookie_life + listen::MAX_PRESERVED, tag);
            }
            if let Some(association) = &entry.association
                && let Some(count) = self.ports.get_mut(&association.identity().local_port())
            {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(&association.identity().local_port());
                }
            }
        }
        entry.changes = 0;
        for address_key in std::mem::take(&mut entry.address_keys) {
            if self.demux.remove_address_key(address_key, slot) {
                self.claim(address_key, false);
            }
        }
        let entry = &self.slots[slot as usize];
        if entry.association.as_ref().is_some_and(|association| !association.receiving().has_unread()) {
            self.forget(slot);
        }
    }

    pub(super) fn forget(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        if let Some(association) = entry.association.take() {
            self.totals.sum.add(&association.stats());
            self.totals.add_paths(association.path_infos());
        }
        entry.generation = entry.generation.wrapping_add(1);
        entry.deadline = Instant::MAX;
        self.free.push(slot);
    }
}

/// The number of outdated deadlines that may stay in the heap.
const MAX_OUTDATED: usize = 1024;
