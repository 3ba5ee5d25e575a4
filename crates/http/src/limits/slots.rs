//! The sessions of a server, and which of them ends when a newcomer finds no slot free.
//!
//! A session waits while it has no request under way, or only part of a head: of these the one that has waited longest ends
//! at once. Where all have requests under way, the session ends that has been stalled longest by its own client, for at
//! least [`STALL_TIME`]: the client takes nothing of an answer, or sends nothing of a request. Less than [`MIN_PROGRESS`]
//! bytes count as nothing, or a byte now and then would keep a slot for ever. While the next step is the server's, no
//! session is stalled.
//!
//! This holds among clients that have about as many slots. If one client has more than an eighth of all slots, and twice as
//! many as the newcomer's client would have, one of its sessions ends, whatever it is doing; and its own newcomers get no
//! slot from clients that have fewer (`clients`): many slow downloads of one client do not end quiet sessions of others.

use super::clients::Preemptable;
use super::share::{MIN_PROGRESS, STALL_TIME};
use super::{Client, ConcurrencyLimit};
use anabranch_base::time::Instant;
use anabranch_transport::Session;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The sessions of one server that hold slots of its [`ConcurrencyLimit`].
pub(super) struct SessionSlots<N> {
    limit: ConcurrencyLimit,
    wait_list: Rc<WaitList>,
    /// By slot; `None` where the slot is free, or its session was ended for a newcomer.
    sessions: RefCell<Vec<Option<(N, Client)>>>,
}

impl<N: Session> SessionSlots<N> {
    pub(super) fn new(limit: ConcurrencyLimit) -> Rc<Self> {
        Rc::new(Self { limit, wait_list: Rc::default(), sessions: RefCell::default() })
    }

    /// A slot for `session`, which waits for a request: a free slot, or the slot of a session that ends for it.
    pub(super) fn acquire(self: &Rc<Self>, session: &N, now: Instant) -> Option<Slot<N>> {
        let client = Client::of(session);
        if !self.limit.take_slot() && !self.preempt(now, client) {
            return None;
        }
        self.limit.shared.clients.join(client);
        let at = self.wait_list.join();
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() <= at as usize {
            sessions.resize_with(at as usize + 1, || None);
        }
        sessions[at as usize] = Some((session.clone(), client));
        Some(Slot { slots: self.clone(), at })
    }

    /// Whether any slot is taken.
    pub(super) fn any_taken(&self) -> bool {
        self.sessions.borrow().iter().any(Option::is_some)
    }

    /// Records the progress of each session; `stale`: earlier records count no more.
    pub(super) fn look(&self, now: Instant, stale: bool) {
        if stale {
            self.wait_list.links.borrow_mut().iter_mut().for_each(|link| link.mark = None);
        }
        for (session, at) in self.sessions.borrow().iter().zip(0..) {
            if let Some((session, _)) = session {
                self.wait_list.note(at, session.unacknowledged(), now);
            }
        }
    }

    /// Ends a session for one of `newcomer`; the caller gets its slot. False, if none may end.
    pub(super) fn preempt(&self, now: Instant, newcomer: Client) -> bool {
        match self.limit.shared.clients.preemptable(newcomer, self.limit.shared.max) {
            Preemptable::Anybody => self.end_longest() || self.end_stalled(now, &|_| true),
            Preemptable::Among(clients) => {
                let theirs = |at| self.is_of(at, &clients);
                self.end_waiting(&theirs) || self.end_stalled(now, &theirs)
            }
            Preemptable::From(clients) => {
                let theirs = |at| self.is_of(at, &clients);
                self.end_waiting(&theirs) || self.end_stalled(now, &theirs) || self.end_any(now, &theirs)
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

    /// Ends the session that has waited longest for a request.
    fn end_longest(&self) -> bool {
        for _ in 0..LOOKS {
            let Some(at) = self.wait_list.first() else { return false };
            if self.end_if_arrived(at) {
                return true;
            }
        }
        false
    }

    /// Ends the session of `theirs` that has waited longest for a request.
    fn end_waiting(&self, theirs: &dyn Fn(u32) -> bool) -> bool {
        self.wait_list.waiting(theirs).into_iter().take(LOOKS).any(|at| self.end_if_arrived(at))
    }

    /// Ends a session that waits for a request, unless its last answer is still on its way: it waits from its arrival on.
    fn end_if_arrived(&self, at: u32) -> bool {
        let Some(session) = self.session(at) else { return false };
        // All of an answer may be in the send buffer.
        if session.unacknowledged() > 0 {
            self.wait_list.leaves(at);
            self.wait_list.waits(at);
            return false;
        }
        self.end(at, &session);
        true
    }

    /// Ends the session of `theirs` that has been stalled longest, and for at least [`STALL_TIME`].
    fn end_stalled(&self, now: Instant, theirs: &dyn Fn(u32) -> bool) -> bool {
        for _ in 0..LOOKS {
            let Some(at) = self.wait_list.longest_stalled(now, theirs) else { return false };
            let Some(session) = self.session(at) else { return false };
            self.wait_list.note(at, session.unacknowledged(), now);
            if self.wait_list.is_stalled(at, now) {
                self.end(at, &session);
                return true;
            }
        }
        false
    }

    /// Ends a session of `theirs`, preferably a slow one.
    fn end_any(&self, now: Instant, theirs: &dyn Fn(u32) -> bool) -> bool {
        let Some(at) = self.wait_list.slowest(now, theirs) else { return false };
        let Some(session) = self.session(at) else { return false };
        self.end(at, &session);
        true
    }

    fn end(&self, at: u32, session: &N) {
        self.wait_list.evict(at);
        self.empty(at);
        session.abort();
    }

    /// Empties the slot; false, if it was empty already.
    fn empty(&self, at: u32) -> bool {
        let session = self.sessions.borrow_mut()[at as usize].take();
        if let Some((_, client)) = &session {
            self.limit.shared.clients.leave(*client);
        }
        session.is_some()
    }
}

/// The slot of one session, held by its task and released on drop.
pub struct Slot<N: Session> {
    slots: Rc<SessionSlots<N>>,
    at: u32,
}

impl<N: Session> Slot<N> {
    /// Where the session's streams report their requests and bytes.
    pub fn handle(&self) -> SlotHandle {
        SlotHandle { wait_list: self.slots.wait_list.clone(), at: self.at }
    }
}

impl<N: Session> Drop for Slot<N> {
    fn drop(&mut self) {
        let had = self.slots.empty(self.at);
        self.slots.wait_list.free(self.at);
        // Else the slot went to a newcomer.
        if had {
            self.slots.limit.release_slot();
        }
    }
}

/// Reports of a session's streams about its slot: requests under way, bytes carried, whose step is next.
#[derive(Clone, Debug)]
pub struct SlotHandle {
    wait_list: Rc<WaitList>,
    at: u32,
}

impl SlotHandle {
    /// The session has a request under way.
    pub fn set_busy(&self) {
        self.wait_list.begins(self.at);
    }

    /// Counts bytes received from the client or written to its session.
    pub fn add_bytes(&self, bytes: usize) {
        self.wait_list.links.borrow_mut()[self.at as usize].carried += bytes as u64;
    }

    /// Bytes carried, without the `left` bytes that the client has not acknowledged.
    pub fn progress(&self, left: u64) -> u64 {
        self.wait_list.links.borrow()[self.at as usize].carried.saturating_sub(left)
    }

    /// In one more exchange the next step is the server's.
    pub fn begin_server_turn(&self) {
        self.wait_list.links.borrow_mut()[self.at as usize].server_turns += 1;
    }

    /// The same, until the result is dropped.
    pub fn server_turn(&self) -> impl Drop + use<> {
        struct ServerTurn(SlotHandle);
        impl Drop for ServerTurn {
            fn drop(&mut self) {
                self.0.end_server_turn();
            }
        }
        self.begin_server_turn();
        ServerTurn(self.clone())
    }

    /// In one exchange fewer the next step is the server's.
    pub fn end_server_turn(&self) {
        self.wait_list.links.borrow_mut()[self.at as usize].server_turns -= 1;
    }

    /// The session has no request under way any more.
    pub fn set_waiting(&self) {
        self.wait_list.waits(self.at);
    }
}

/// Sessions that wait for a request, longest first: a linked list by slot. Link 0 is both its ends.
#[derive(Debug)]
struct WaitList {
    links: RefCell<Vec<Link>>,
    /// The first free slot; the next one is its `next`. 0: there is none.
    free: Cell<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Or [`BUSY`], or [`PREEMPTED`].
    previous: u32,
    next: u32,
    /// Bytes, both ways.
    carried: u64,
    /// Exchanges in which the next step is the server's.
    server_turns: u32,
    /// Progress at some instant, since when it grew by less than [`MIN_PROGRESS`].
    mark: Option<(u64, Instant)>,
}

impl Link {
    const FREE: Self = Self { previous: BUSY, next: 0, carried: 0, server_turns: 0, mark: None };

    fn is_stalled(&self, now: Instant) -> bool {
        self.server_turns == 0 && self.mark.is_some_and(|(_, since)| since + STALL_TIME <= now)
    }
}

/// Not in the list: the session is busy, or the slot is free.
const BUSY: u32 = u32::MAX;
/// The session was ended for a newcomer.
const PREEMPTED: u32 = u32::MAX - 1;
/// Sessions that are looked at for one newcomer.
const LOOKS: usize = 64;

impl Default for WaitList {
    fn default() -> Self {
        Self { links: RefCell::new(vec![Link { previous: 0, ..Link::FREE }]), free: Cell::new(0) }
    }
}

impl WaitList {
    /// A slot, at the end of the wait_list.
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

    /// To the end of the wait_list.
    fn waits(&self, at: u32) {
        let mut links = self.links.borrow_mut();
        if links[at as usize].previous != BUSY {
            return;
        }
        let last = links[0].previous;
        (links[at as usize].previous, links[at as usize].next) = (last, 0);
        links[last as usize].next = at;
        links[0].previous = at;
    }

    /// Out of the wait_list.
    fn leaves(&self, at: u32) {
        let mut links = self.links.borrow_mut();
        let Link { previous, next, .. } = links[at as usize];
        if previous == BUSY || previous == PREEMPTED {
            return;
        }
        links[previous as usize].next = next;
        links[next as usize].previous = previous;
        links[at as usize].previous = BUSY;
    }

    /// Out of the wait_list, with a request.
    fn begins(&self, at: u32) {
        self.leaves(at);
        self.links.borrow_mut()[at as usize].mark = None;
    }

    /// `left` of what it was sent the client has not taken.
    fn note(&self, at: u32, left: u64, now: Instant) {
        let link = &mut self.links.borrow_mut()[at as usize];
        let far = link.carried.saturating_sub(left);
        if link.server_turns > 0 || link.mark.is_none_or(|(mark, _)| far >= mark + MIN_PROGRESS) {
            link.mark = Some((far, now));
        }
    }

    fn is_stalled(&self, at: u32, now: Instant) -> bool {
        self.links.borrow()[at as usize].is_stalled(now)
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
        let there = links.iter().zip(0..).filter(|(link, at)| link.previous != PREEMPTED && theirs(*at));
        let slowest =
            there.min_by_key(|(link, _)| (link.server_turns > 0, link.mark.map_or(now, |(_, since)| since)));
        slowest.map(|(_, at)| at)
    }

    /// Who of `theirs` has stood still longest, and long enough.
    fn longest_stalled(&self, now: Instant, theirs: &dyn Fn(u32) -> bool) -> Option<u32> {
        let links = self.links.borrow();
        let still = links
            .iter()
            .zip(0..)
            .filter(|(link, at)| link.previous != PREEMPTED && link.is_stalled(now) && theirs(*at));
        still.min_by_key(|(link, _)| link.mark.map(|(_, since)| since)).map(|(_, at)| at)
    }

    /// Out of the wait_list for good.
    fn evict(&self, at: u32) {
        self.leaves(at);
        self.links.borrow_mut()[at as usize].previous = PREEMPTED;
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
        let wait_list = WaitList::default();
        assert_eq!(wait_list.first(), None);
        let (one, two, three) = (wait_list.join(), wait_list.join(), wait_list.join());
        assert_eq!(wait_list.first(), Some(one));
        wait_list.leaves(one);
        wait_list.leaves(one);
        assert_eq!(wait_list.first(), Some(two), "who is busy is not in it");
        wait_list.waits(one);
        wait_list.waits(one);
        wait_list.evict(two);
        wait_list.waits(two);
        assert_eq!(wait_list.first(), Some(three), "who was ended does not come back");
        wait_list.free(three);
        assert_eq!(wait_list.first(), Some(one), "who was busy waits anew");
        assert_eq!(wait_list.join(), three, "a free slot is taken again");
        wait_list.free(one);
        assert_eq!(wait_list.first(), Some(three));
        wait_list.free(three);
        wait_list.free(two);
        assert_eq!(wait_list.first(), None);
        assert_eq!([wait_list.join(), wait_list.join(), wait_list.join()], [two, three, one]);
    }

    #[test]
    fn who_stands_still_by_his_own_doing_is_found() {
        let (wait_list, at_second) =
            (WaitList::default(), |second| Instant::ZERO + Duration::from_secs(second));
        let slots = [wait_list.join(), wait_list.join(), wait_list.join()];
        let [reads, stalls, waits] = slots;
        let add = |at: u32, bytes| wait_list.links.borrow_mut()[at as usize].carried += bytes;
        for at in slots {
            wait_list.begins(at);
            add(at, 1_000_000);
        }
        // The third waits for us; the first takes 300 bytes a second, and the second ten.
        wait_list.links.borrow_mut()[waits as usize].server_turns = 1;
        for second in 0..20 {
            wait_list.note(reads, 900_000 - 300 * second, at_second(second));
            wait_list.note(stalls, 900_000 - 10 * second, at_second(second));
            wait_list.note(waits, 0, at_second(second));
            let expected = (second >= 5).then_some(stalls);
            assert_eq!(wait_list.longest_stalled(at_second(second), &|_| true), expected, "{second}");
        }
        wait_list.evict(stalls);
        assert_eq!(wait_list.longest_stalled(at_second(20), &|_| true), None);
        assert_eq!(
            wait_list.longest_stalled(at_second(30), &|_| true),
            Some(reads),
            "nothing is known of it for too long"
        );
        wait_list.begins(reads);
        assert_eq!(wait_list.longest_stalled(at_second(30), &|_| true), None, "a new request, a new time");
    }
}
