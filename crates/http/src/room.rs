//! How many may be at something at a time, in all threads together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many may be at something at a time. A clone counts the same, in whatever thread.
#[derive(Clone, Debug)]
pub struct Room {
    left: Arc<AtomicUsize>,
}

impl Room {
    /// Room for so many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(most)) }
    }

    /// A place, while there is one.
    pub(crate) fn take(&self) -> Option<Place> {
        let less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Place(self.left.clone()))
    }
}

/// Given back on drop.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
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
        assert!(one.is_some() && two.is_some() && room.take().is_none());
        drop(one);
        assert!(other.take().is_some() && room.take().is_some() && Room::new(0).take().is_none());
    }
}
