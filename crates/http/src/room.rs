//! How many may be at something at a time, in all threads together.
//!
//! - [`clients`]: who a client is, and how many seats each has
//! - [`seats`]: a server's sessions, and who goes when they are as many
//! - [`entrance`]: who comes when they are
//! - [`share`]: what of it may be one's own
//! - [`memory`]: the same of memory

mod clients;
mod entrance;
mod memory;
mod seats;
mod share;

pub use clients::Client;
pub use entrance::Entrance;
pub use memory::{Begun, Hold, Memory};
pub use seats::{Seat, Spot};
pub use share::{Pace, Portion, Share};

use clients::Census;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many may be at something at a time. A clone counts the same, in whatever thread.
#[derive(Clone, Debug)]
pub struct Room {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    left: AtomicUsize,
    /// So many would like a place and have found none.
    wanted: AtomicUsize,
    /// Who can end sessions in their favour.
    servers: AtomicUsize,
    /// Whose sessions they are.
    census: Census,
}

impl Room {
    /// Room for so many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let (left, none) = (AtomicUsize::new(most), || AtomicUsize::new(0));
        let census = Census::default();
        Self { shared: Arc::new(Shared { most, left, wanted: none(), servers: none(), census }) }
    }

    /// A place, while there is one.
    pub fn take(&self) -> Option<Place> {
        self.occupy().then(|| Place(self.clone()))
    }

    fn occupy(&self) -> bool {
        take_one(&self.shared.left)
    }

    fn vacate(&self) {
        self.shared.left.fetch_add(1, Ordering::Relaxed);
    }

    fn left(&self) -> usize {
        self.shared.left.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// Next to nothing is left.
    fn is_scarce(&self) -> bool {
        self.left() <= self.shared.most / SCARCE
    }

    /// Somebody would like a place and has found none.
    pub fn want(&self) {
        self.shared.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody does any more, or one fewer.
    fn take_wish(&self) -> bool {
        take_one(&self.shared.wanted)
    }

    /// One more, but no more than can be granted within a moment.
    fn wish(&self) {
        if self.shared.wanted.load(Ordering::Relaxed) < MOST_WISHES {
            self.want();
        }
    }

    fn forget_wishes(&self) {
        if self.shared.wanted.load(Ordering::Relaxed) > 0 {
            self.shared.wanted.store(0, Ordering::Relaxed);
        }
    }
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

/// Given back on drop.
pub struct Place(Room);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.vacate();
    }
}

/// Of so many places one is next to nothing.
const SCARCE: usize = 16;
/// Those who would like a place and are counted.
const MOST_WISHES: usize = 16;

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
