//! A server's sessions, and who goes when there is no room for one more.
//!
//! A session waits while it has no request under way, or only part of a head: of these the one that has waited longest goes,
//! at once. Where all have requests under way, that one goes that has stood still longest by its client's own doing, at
//! least for [`GRACE`]: its client takes nothing of an answer, or sends nothing of a request. Less than [`LEAST`] bytes are
//! nothing, or a byte now and then would keep a place for ever. While an answer is ours to give nobody is to blame, and
//! whoever moves is left alone.
//!
//! This is so among clients that have about as many seats. Where one has more than an eighth of all, and twice as many as
//! the newcomer's would have, one of its sessions goes, whatever it is at; and its own newcomers get none of the seats of
//! who has fewer (`clients`): slow downloads, be they never so many, do not part others from their quiet sessions.

use super::clients::Claim;
use super::share::{GRACE, LEAST};
use super::{Client, Room};
use anabranch_base::time::Instant;
use anabranch_transport::Session;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The sessions of one server that have a place in its [`Room`].
pub(super) struct Seats<N> {
    room: Room,
    line: Rc<Line>,
    /// By seat; `None` where nobody sits, or who sits there has been ended in favour of another.
    sessions: RefCell<Vec<Option<(N, Client)>>>,
}

impl<N: Session> Seats<N> {
    pub(super) fn new(room: Room) -> Rc<Self> {
        Rc::new(Self { room, line: Rc::default(), sessions: RefCell::default() })
    }

    /// A seat for `session`, which waits for a request: a free one, or that of a session that ends for it.
    pub(super) fn take(self: &Rc<Self>, session: &N, now: Instant) -> Option<Seat<N>> {
        let client = Client::of(session);
        if !self.room.occupy() && !self.end_one(now, client) {
            return None;
        }
        self.room.shared.census.join(client);
        let at = self.line.join();
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() <= at as usize {
            sessions.resize_with(at as usize + 1, || None);
        }
        sessions[at as usize] = Some((session.clone(), client));
        Some(Seat { seats: self.clone(), at })
    }

    /// Somebody sits.
    pub(super) fn are_taken(&self) -> bool {
        self.sessions.borrow().iter().any(Option::is_some)
    }

    /// Looks how far the sessions are; `anew`: what was seen before says nothing.
    pub(super) fn look(&self, now: Instant, anew: bool) {
        if anew {
            self.line.links.borrow_mut().iter_mut().for_each(|link| link.mark = None);
        }
        for (session, at) in self.sessions.borrow().iter().zip(0..) {
            if let Some((session, _)) = session {
                self.line.note(at, session.unacknowledged(), now);
            }
        }
    }

    /// Ends a session for one of `newcomer`; its place is the caller's.
    pub(super) fn end_one(&self, now: Instant, newcomer: Client) -> bool {
        match self.room.shared.census.claim(newcomer, self.room.shared.most) {
            Claim::Anybody => self.end_longest() || self.end_still(now, &|_| true),
            Claim::Among(clients) => {
                let theirs = |at| self.is_of(at, &clients);
                self.end_waiting(&theirs) || self.end_still(now, &theirs)
            }
            Claim::From(clients) => {
                let theirs = |at| self.is_of(at, &clients);
                self.end_waiting(&theirs) || self.end_still(now, &theirs) || self.end_any(now, &theirs)
            }
        }
    }

    fn is_of(&self, at: u32, clients: &[Client]) -> bool {
        let sessions = self.sessions.borrow();
        sessions.get(at as usize).and_then(Option::as_ref).is_some_and(|(_, client)| clients.contains(client))
    }

    fn session(&self, at: u32) -> Option<N> {
        self.sessions.borrow()[at as usize].as_ref().map(|(session, _)| session.clone())
    }

    /// Ends the session that has waited longest.
    fn end_longest(&self) -> bool {
        for _ in 0..LOOKS {
            let Some(at) = self.line.first() else { return false };
            if self.end_if_arrived(at) {
                return true;
            }
        }
        false
    }

    /// Ends the one of `theirs` that has waited longest.
    fn end_waiting(&self, theirs: &dyn Fn(u32) -> bool) -> bool {
        self.line.waiting(theirs).into_iter().take(LOOKS).any(|at| self.end_if_arrived(at))
    }

    /// Ends a session that waits, unless what it was sent is on its way: it is waiting only since that has arrived.
    fn end_if_arrived(&self, at: u32) -> bool {
        let Some(session) = self.session(at) else { return false };
        // All of an answer may be in the send buffer.
        if session.unacknowledged() > 0 {
            self.line.leaves(at);
            self.line.waits(at);
            return false;
        }
        self.end(at, &session);
        true
    }

    /// Ends the one of `theirs` that has stood still longest, and long enough.
    fn end_still(&self, now: Instant, theirs: &dyn Fn(u32) -> bool) -> bool {
        for _ in 0..LOOKS {
            let Some(at) = self.line.stillest(now, theirs) else { return false };
            let Some(session) = self.session(at) else { return false };
            self.line.note(at, session.unacknowledged(), now);
            if self.line.is_still(at, now) {
                self.end(at, &session);
                return true;
            }
        }
        false
    }

    /// Ends one of `theirs`, rather one that gets on slowly.
    fn end_any(&self, now: Instant, theirs: &dyn Fn(u32) -> bool) -> bool {
        let Some(at) = self.line.slowest(now, theirs) else { return false };
        let Some(session) = self.session(at) else { return false };
        self.end(at, &session);
        true
    }

    fn end(&self, at: u32, session: &N) {
        self.line.evict(at);
        self.empty(at);
        session.abort();
    }

    /// Nobody sits there; false, where nobody did.
    fn empty(&self, at: u32) -> bool {
        let session = self.sessions.borrow_mut()[at as usize].take();
        if let Some((_, client)) = &session {
            self.room.shared.census.leave(*client);
        }
        session.is_some()
    }
}

/// Held by a session's task, given up on drop.
pub struct Seat<N: Session> {
    seats: Rc<Seats<N>>,
    at: u32,
}

impl<N: Session> Seat<N> {
    /// Where its streams tell that a request is under way.
    pub fn spot(&self) -> Spot {
        Spot { line: self.seats.line.clone(), at: self.at }
    }
}

impl<N: Session> Drop for Seat<N> {
    fn drop(&mut self) {
        let had = self.seats.empty(self.at);
        self.seats.line.free(self.at);
        // Else another has its place.
        if had {
            self.seats.room.vacate();
        }
    }
}

/// A seat's place in the line of those that wait.
#[derive(Clone, Debug)]
pub struct Spot {
    line: Rc<Line>,
    at: u32,
}

impl Spot {
    /// A request is under way.
    pub fn busy(&self) {
        self.line.begins(self.at);
    }

    /// So many bytes have come from the client, or gone to its session.
    pub fn carried(&self, bytes: usize) {
        self.line.links.borrow_mut()[self.at as usize].carried += bytes as u64;
    }

    /// Bytes that were carried, without the `left` that the client has not acknowledged.
    pub fn far(&self, left: u64) -> u64 {
        self.line.links.borrow()[self.at as usize].carried.saturating_sub(left)
    }

    /// The next step is ours, not the client's, in one more exchange.
    pub fn owes(&self) {
        self.line.links.borrow_mut()[self.at as usize].owed += 1;
    }

    /// The same, as long as this lives.
    pub fn owe(&self) -> impl Drop + use<> {
        struct Owed(Spot);
        impl Drop for Owed {
            fn drop(&mut self) {
                self.0.owes_no_more();
            }
        }
        self.owes();
        Owed(self.clone())
    }

    /// In one fewer.
    pub fn owes_no_more(&self) {
        self.line.links.borrow_mut()[self.at as usize].owed -= 1;
    }

    /// None is any more.
    pub fn waits(&self) {
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
    /// Bytes, both ways.
    carried: u64,
    /// Exchanges in which the next step is ours.
    owed: u32,
    /// How far it was, and since when it is not much further.
    mark: Option<(u64, Instant)>,
}

impl Link {
    const FREE: Self = Self { previous: AWAY, next: 0, carried: 0, owed: 0, mark: None };

    fn is_still(&self, now: Instant) -> bool {
        self.owed == 0 && self.mark.is_some_and(|(_, since)| since + GRACE <= now)
    }
}

/// Not in the line: busy, or free.
const AWAY: u32 = u32::MAX;
/// Ended in favour of another.
const GONE: u32 = u32::MAX - 1;
/// Sessions whose answer is still on its way are passed over, so many for a newcomer.
const LOOKS: usize = 64;

impl Default for Line {
    fn default() -> Self {
        Self { links: RefCell::new(vec![Link { previous: 0, ..Link::FREE }]), free: Cell::new(0) }
    }
}

impl Line {
    /// A seat, at the end of the line.
    fn join(&self) -> u32 {
        let mut links = self.links.borrow_mut();
        let mut at = self.free.get();
        if at == 0 {
            at = links.len() as u32;
            links.push(Link::FREE);
        } else {
            self.free.set(links[at as usize].next);
            links[at as usize] = Link::FREE;
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
        (links[at as usize].previous, links[at as usize].next) = (last, 0);
        links[last as usize].next = at;
        links[0].previous = at;
    }

    /// Out of the line.
    fn leaves(&self, at: u32) {
        let mut links = self.links.borrow_mut();
        let Link { previous, next, .. } = links[at as usize];
        if previous == AWAY || previous == GONE {
            return;
        }
        links[previous as usize].next = next;
        links[next as usize].previous = previous;
        links[at as usize].previous = AWAY;
    }

    /// Out of the line, with a request.
    fn begins(&self, at: u32) {
        self.leaves(at);
        self.links.borrow_mut()[at as usize].mark = None;
    }

    /// `left` of what it was sent the client has not taken.
    fn note(&self, at: u32, left: u64, now: Instant) {
        let link = &mut self.links.borrow_mut()[at as usize];
        let far = link.carried.saturating_sub(left);
        if link.owed > 0 || link.mark.is_none_or(|(mark, _)| far >= mark + LEAST) {
            link.mark = Some((far, now));
        }
    }

    fn is_still(&self, at: u32, now: Instant) -> bool {
        self.links.borrow()[at as usize].is_still(now)
    }

    /// Those of `theirs` that wait, longest first.
    fn waiting(&self, theirs: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let links = self.links.borrow();
        let next = |at: &u32| Some(links[*at as usize].next).filter(|next| *next != 0);
        std::iter::successors(next(&0), next).filter(|at| theirs(*at)).take(LOOKS).collect()
    }

    /// The one of `theirs` that has not got on for longest; those in which the next step is ours come last.
    fn slowest(&self, now: Instant, theirs: &dyn Fn(u32) -> bool) -> Option<u32> {
        let links = self.links.borrow();
        let there = links.iter().zip(0..).filter(|(link, at)| link.previous != GONE && theirs(*at));
        let slowest =
            there.min_by_key(|(link, _)| (link.owed > 0, link.mark.map_or(now, |(_, since)| since)));
        slowest.map(|(_, at)| at)
    }

    /// Who of `theirs` has stood still longest, and long enough.
    fn stillest(&self, now: Instant, theirs: &dyn Fn(u32) -> bool) -> Option<u32> {
        let links = self.links.borrow();
        let still = links
            .iter()
            .zip(0..)
            .filter(|(link, at)| link.previous != GONE && link.is_still(now) && theirs(*at));
        still.min_by_key(|(link, _)| link.mark.map(|(_, since)| since)).map(|(_, at)| at)
    }

    /// Out of the line for good.
    fn evict(&self, at: u32) {
        self.leaves(at);
        self.links.borrow_mut()[at as usize].previous = GONE;
    }

    fn free(&self, at: u32) {
        self.leaves(at);
        self.links.borrow_mut()[at as usize] = Link { next: self.free.get(), ..Link::FREE };
        self.free.set(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;

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

    #[test]
    fn who_stands_still_by_his_own_doing_is_found() {
        let (line, at_second) = (Line::default(), |second| Instant::ZERO + Duration::from_secs(second));
        let seats = [line.join(), line.join(), line.join()];
        let [reads, stalls, waits] = seats;
        let add = |at: u32, bytes| line.links.borrow_mut()[at as usize].carried += bytes;
        for at in seats {
            line.begins(at);
            add(at, 1_000_000);
        }
        // The third waits for us; the first takes 300 bytes a second, and the second ten.
        line.links.borrow_mut()[waits as usize].owed = 1;
        for second in 0..20 {
            line.note(reads, 900_000 - 300 * second, at_second(second));
            line.note(stalls, 900_000 - 10 * second, at_second(second));
            line.note(waits, 0, at_second(second));
            let expected = (second >= 5).then_some(stalls);
            assert_eq!(line.stillest(at_second(second), &|_| true), expected, "{second}");
        }
        line.evict(stalls);
        assert_eq!(line.stillest(at_second(20), &|_| true), None);
        assert_eq!(
            line.stillest(at_second(30), &|_| true),
            Some(reads),
            "nothing is known of it for too long"
        );
        line.begins(reads);
        assert_eq!(line.stillest(at_second(30), &|_| true), None, "a new request, a new time");
    }
}
