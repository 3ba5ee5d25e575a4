//! How many may be at something at a time, in all threads together.
//!
//! - [`seats`]: a server's sessions, and who goes when they are as many
//! - [`entrance`]: who comes when they are

mod entrance;
mod seats;

pub(crate) use entrance::Entrance;
pub(crate) use seats::{Seat, Spot};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many may be at something at a time. A clone counts the same, in whatever thread.
#[derive(Clone, Debug)]
pub struct Room {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    left: AtomicUsize,
    /// So many would like a place and have found none.
    wanted: AtomicUsize,
    /// Who can end sessions in their favour.
    servers: AtomicUsize,
}

impl Room {
    /// Room for so many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let (left, none) = (AtomicUsize::new(most), || AtomicUsize::new(0));
        Self { shared: Arc::new(Shared { left, wanted: none(), servers: none() }) }
    }

    /// A place, while there is one.
    pub(crate) fn take(&self) -> Option<Place> {
        self.occupy().then(|| Place(self.clone()))
    }

    fn occupy(&self) -> bool {
        take_one(&self.shared.left)
    }

    fn vacate(&self) {
        self.shared.left.fetch_add(1, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.shared.left.load(Ordering::Relaxed) == 0
    }

    /// Somebody would like a place and has found none.
    pub(crate) fn want(&self) {
        self.shared.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody does any more, or one fewer.
    fn take_wish(&self) -> bool {
        take_one(&self.shared.wanted)
    }

    fn forget_wishes(&self) -> bool {
        self.shared.wanted.swap(0, Ordering::Relaxed) > 0
    }
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

/// Given back on drop.
pub(crate) struct Place(Room);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.vacate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_given_back() {
        let room = Room::new(2);
        let other = room.clone();
        let (one, two) = (room.take(), other.take());
        assert!(one.is_some() && two.is_some() && room.take().is_none() && room.is_full());
        drop(one);
        assert!(other.take().is_some() && room.take().is_some() && Room::new(0).take().is_none());
    }
}
