//! How many may be at something at a time, in all threads together; and who goes when a server's sessions are as many.
//!
//! A session is not busy while it waits for a request, also for the rest of a head. When there is no room for a new one,
//! the session that has waited longest ends in its favour: whoever only holds sessions cannot keep others out.

use anabranch_transport::Session;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
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
        self.occupy().then(|| Place(self.clone()))
    }

    fn occupy(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn vacate(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// Given back on drop.
pub(crate) struct Place(Room);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.vacate();
    }
}

/// The sessions of one server that have a place in its [`Room`].
pub(crate) struct Seats<N> {
    room: Room,
    line: Rc<Line>,
    /// By seat; `None` where nobody sits, or who sits there has been ended in favour of another.
    sessions: RefCell<Vec<Option<N>>>,
}

impl<N: Session> Seats<N> {
    pub(crate) fn new(room: Room) -> Rc<Self> {
        Rc::new(Self { room, line: Rc::default(), sessions: RefCell::default() })
    }

    /// A seat for `session`, which waits for a request: a free one, or that of the session that has waited longest.
    pub(crate) fn take(self: &Rc<Self>, session: &N) -> Option<Seat<N>> {
        if !self.room.occupy() && !self.end_longest() {
            return None;
        }
        let at = self.line.join();
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() <= at as usize {
            sessions.resize_with(at as usize + 1, || None);
        }
        sessions[at as usize] = Some(session.clone());
        Some(Seat { seats: self.clone(), at })
    }

    /// Ends the session that has waited longest; its place is the caller's.
    fn end_longest(&self) -> bool {
        for _ in 0..LOOKS {
            let Some(at) = self.line.first() else { return false };
            let session = self.sessions.borrow()[at as usize].clone();
            let Some(session) = session else { return false };
            // All of an answer may be in the send buffer: it is waiting only since it has arrived.
            if session.unacknowledged() > 0 {
                self.line.leaves(at);
                self.line.waits(at);
                continue;
            }
            self.line.evict(at);
            self.sessions.borrow_mut()[at as usize] = None;
            session.abort();
            return true;
        }
        false
    }
}

/// Held by a session's task, given up on drop.
pub(crate) struct Seat<N: Session> {
    seats: Rc<Seats<N>>,
    at: u32,
}

impl<N: Session> Seat<N> {
    /// Where its streams tell that a request is under way.
    pub(crate) fn spot(&self) -> Spot {
        Spot { line: self.seats.line.clone(), at: self.at }
    }
}

impl<N: Session> Drop for Seat<N> {
    fn drop(&mut self) {
        let session = self.seats.sessions.borrow_mut()[self.at as usize].take();
        self.seats.line.free(self.at);
        // Else another has its place.
        if session.is_some() {
            self.seats.room.vacate();
        }
    }
}

/// A seat's place in the line of those that wait.
#[derive(Debug)]
pub(crate) struct Spot {
    line: Rc<Line>,
    at: u32,
}

impl Spot {
    /// A request is under way.
    pub(crate) fn busy(&self) {
        self.line.leaves(self.at);
    }

    /// None is any more.
    pub(crate) fn waits(&self) {
        self.line.waits(self.at);
    }
}

/// Who waits, longest first: a list through links by seat. Link 0 is both its ends.
#[derive(Debug)]
struct Line {
    links: RefCell<Vec<Link>>,
    /// The first free seat; the next one is its `next`. 0: there is none.
    free: Cell<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Or [`AWAY`], or [`GONE`].
    previous: u32,
    next: u32,
}

/// Not in the line: busy, or free.
const AWAY: u32 = u32::MAX;
/// Ended in favour of another.
const GONE: u32 = u32::MAX - 1;
/// Sessions whose answer is still on its way are passed over, so many for a newcomer.
const LOOKS: usize = 64;

impl Default for Line {
    fn default() -> Self {
        Self { links: RefCell::new(vec![Link { previous: 0, next: 0 }]), free: Cell::new(0) }
    }
}

impl Line {
    /// A seat, at the end of the line.
    fn join(&self) -> u32 {
        let mut links = self.links.borrow_mut();
        let mut at = self.free.get();
        if at == 0 {
            at = links.len() as u32;
            links.push(Link { previous: AWAY, next: 0 });
        } else {
            self.free.set(links[at as usize].next);
        }
        drop(links);
        self.waits(at);
        at
    }

    fn first(&self) -> Option<u32> {
        Some(self.links.borrow()[0].next).filter(|first| *first != 0)
    }

    /// To the end of the line.
    fn waits(&self, at: u32) {
        let mut links = self.links.borrow_mut();
        if links[at as usize].previous != AWAY {
            return;
        }
        let last = links[0].previous;
        links[at as usize] = Link { previous: last, next: 0 };
        links[last as usize].next = at;
        links[0].previous = at;
    }

    /// Out of the line.
    fn leaves(&self, at: u32) {
        let mut links = self.links.borrow_mut();
        let Link { previous, next } = links[at as usize];
        if previous == AWAY || previous == GONE {
            return;
        }
        links[previous as usize].next = next;
        links[next as usize].previous = previous;
        links[at as usize].previous = AWAY;
    }

    /// Out of the line for good.
    fn evict(&self, at: u32) {
        self.leaves(at);
        self.links.borrow_mut()[at as usize].previous = GONE;
    }

    fn free(&self, at: u32) {
        self.leaves(at);
        self.links.borrow_mut()[at as usize] = Link { previous: AWAY, next: self.free.get() };
        self.free.set(at);
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

    #[test]
    fn who_has_waited_longest_is_first_in_the_line() {
        let line = Line::default();
        assert_eq!(line.first(), None);
        let (one, two, three) = (line.join(), line.join(), line.join());
        assert_eq!(line.first(), Some(one));
        line.leaves(one);
        line.leaves(one);
        assert_eq!(line.first(), Some(two), "who is busy is not in it");
        line.waits(one);
        line.waits(one);
        line.evict(two);
        line.waits(two);
        assert_eq!(line.first(), Some(three), "who was ended does not come back");
        line.free(three);
        assert_eq!(line.first(), Some(one), "who was busy waits anew");
        assert_eq!(line.join(), three, "a free seat is taken again");
        line.free(one);
        assert_eq!(line.first(), Some(three));
        line.free(three);
        line.free(two);
        assert_eq!(line.first(), None);
        assert_eq!([line.join(), line.join(), line.join()], [two, three, one]);
    }
}
