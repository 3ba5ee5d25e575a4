//! The slots of a server's sessions. Decides which session is ended if no slot is free for a new session.
//!
//! A session waits while it has no request in progress, or has received only part of a head. The session that has
//! waited longest is ended at once. If all sessions have requests in progress, the session that has been stalled
//! longest is ended, provided it was stalled for at least [`STALL_TIME`]. A session is stalled while its client neither
//! accepts response data nor sends request data. Fewer than [`MIN_PROGRESS`] bytes do not count, so that an occasional
//! byte does not keep a slot forever. A session is not stalled while one of its exchanges waits for the server's own
//! work.
//!
//! These rules apply among clients that have about the same number of slots. A client has too many slots if two
//! conditions are both met. First, the client has more than an eighth of all slots. Second, it has at least twice as
//! many slots as the client of the new session will have after the new session gets a slot. To free a slot for a new
//! session, the server ends one session of a client with too many slots, whatever the state of that session. New
//! sessions of such a client take no slot from clients that have fewer slots (`clients`). Therefore the slow downloads
//! of one client do not end idle sessions of other clients.
//!
//! [`STALL_TIME`]: super::share::STALL_TIME
//! [`MIN_PROGRESS`]: super::share::MIN_PROGRESS

use super::clients::Preemptable;
use super::wait_order::{SlotKey, WaitOrder};
use super::{Client, ConcurrencyLimit};
use anabranch_base::time::Instant;
use anabranch_transport::Session;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The sessions of one server that hold slots of its [`ConcurrencyLimit`].
pub(super) struct SessionSlots<N> {
    limit: ConcurrencyLimit,
    order: Rc<WaitOrder>,
    /// The sessions that were not preempted, and their clients.
    sessions: RefCell<BTreeMap<SlotKey, (N, Client)>>,
}

impl<N: Session> SessionSlots<N> {
    pub(super) fn new(limit: ConcurrencyLimit) -> Rc<Self> {
        Rc::new(Self { limit, order: Rc::default(), sessions: RefCell::default() })
    }

    /// Returns a slot for `session`, which waits for its first request. If no slot is free, ends another session to
    /// free a slot. Returns `None` if no session may be ended.
    pub(super) fn acquire(self: &Rc<Self>, session: &N, now: Instant) -> Option<Slot<N>> {
        let client = Client::of(session);
        if !self.limit.take_slot() && !self.preempt(now, client) {
            return None;
        }
        self.limit.shared.clients.join(client);
        Some(self.occupy(session, client))
    }

    /// Returns a slot for `session`, if another thread has granted a slot to the client of `session`.
    pub(super) fn take_grant(self: &Rc<Self>, session: &N) -> Option<Slot<N>> {
        let client = Client::of(session);
        self.limit.shared.clients.take_grant(client).then(|| self.occupy(session, client))
    }

    fn occupy(self: &Rc<Self>, session: &N, client: Client) -> Slot<N> {
        let key = self.order.join(client);
        self.sessions.borrow_mut().insert(key, (session.clone(), client));
        Slot { slots: self.clone(), key }
    }

    /// Returns the number of slots that this server's sessions have.
    pub(super) fn taken(&self) -> usize {
        self.sessions.borrow().len()
    }

    /// Records the progress of each session. If `stale` is true, the earlier records are too old and are discarded
    /// first.
    pub(super) fn record_progress(&self, now: Instant, stale: bool) {
        if stale {
            self.order.forget_progress();
        }
        for (key, (session, _)) in &*self.sessions.borrow() {
            self.order.note(*key, session.unacknowledged(), now);
        }
    }

    /// Ends a session, so that the caller can give its slot to a session of `newcomer`. Returns false if no session may
    /// be ended.
    pub(super) fn preempt(&self, now: Instant, newcomer: Client) -> bool {
        match self.limit.shared.clients.preemptable(newcomer, self.limit.shared.max) {
            Preemptable::Anyone => self.end_longest() || self.end_stalled(now, &|_| true),
            Preemptable::Among(clients) => {
                let is_candidate = |client| clients.contains(&client);
                self.end_waiting(&is_candidate) || self.end_stalled(now, &is_candidate)
            }
            Preemptable::From(clients) => {
                let is_candidate = |client| clients.contains(&client);
                self.end_waiting(&is_candidate)
                    || self.end_stalled(now, &is_candidate)
                    || self.end_any(now, &is_candidate)
            }
        }
    }

    fn session(&self, key: SlotKey) -> Option<N> {
        self.sessions.borrow().get(&key).map(|(session, _)| session.clone())
    }

    /// Ends the session that has waited longest for a request. Returns false if no waiting session can be ended.
    fn end_longest(&self) -> bool {
        (0..LOOKS).map_while(|_| self.order.first()).any(|key| self.end_if_arrived(key))
    }

    /// Among the sessions of the given clients, ends the session that has waited longest for a request. Returns false
    /// if none can be ended.
    fn end_waiting(&self, clients: &dyn Fn(Client) -> bool) -> bool {
        self.order.waiting(clients, LOOKS).into_iter().any(|key| self.end_if_arrived(key))
    }

    /// Ends a session that waits for a request. If its last response is still in flight, moves the session to the end
    /// of the order instead and returns false.
    fn end_if_arrived(&self, key: SlotKey) -> bool {
        let Some(session) = self.session(key) else { return false };
        // Even if the whole response was written, a part may still be in the send buffer.
        if session.unacknowledged() > 0 {
            self.order.wait_anew(key);
            return false;
        }
        self.end(key, &session);
        true
    }

    /// Among the sessions of the given clients, ends the session that has been stalled longest. Returns false if no
    /// session has been stalled long enough.
    fn end_stalled(&self, now: Instant, clients: &dyn Fn(Client) -> bool) -> bool {
        for _ in 0..LOOKS {
            let Some(key) = self.order.longest_stalled(now, clients) else { return false };
            let Some(session) = self.session(key) else { return false };
            self.order.note(key, session.unacknowledged(), now);
            if self.order.is_stalled(key, now) {
                self.end(key, &session);
                return true;
            }
        }
        false
    }

    /// Ends a session of the given clients, preferably a slow one. Returns false if these clients have no session.
    fn end_any(&self, now: Instant, clients: &dyn Fn(Client) -> bool) -> bool {
        let Some(key) = self.order.slowest(now, clients) else { return false };
        let Some(session) = self.session(key) else { return false };
        self.end(key, &session);
        true
    }

    fn end(&self, key: SlotKey, session: &N) {
        self.order.preempt(key);
        self.forget(key);
        session.abort();
    }

    /// Forgets the session of a slot. Returns false if the session was preempted before.
    fn forget(&self, key: SlotKey) -> bool {
        let session = self.sessions.borrow_mut().remove(&key);
        if let Some((_, client)) = &session {
            self.limit.shared.clients.leave(*client);
        }
        session.is_some()
    }
}

/// The slot of one session. The task of the session holds this value, and releases the slot by dropping the value.
pub struct Slot<N: Session> {
    slots: Rc<SessionSlots<N>>,
    key: SlotKey,
}

impl<N: Session> Slot<N> {
    /// Returns the handle through which the session's streams report their requests and bytes.
    pub fn handle(&self) -> SlotHandle {
        SlotHandle { order: self.slots.order.clone(), key: self.key }
    }
}

impl<N: Session> Drop for Slot<N> {
    fn drop(&mut self) {
        let was_held = self.slots.forget(self.key);
        self.slots.order.remove(self.key);
        // If the session was preempted, its slot already belongs to a new session.
        if was_held {
            self.slots.limit.release_slot();
        }
    }
}

/// A handle through which the streams of a session report about the session: requests in progress, bytes transferred,
/// and whether an exchange waits for the server's own work. The streams of an aborted session may outlive the session's
/// task, which releases the [`Slot`]. Reports after this release have no effect.
#[derive(Clone, Debug)]
pub struct SlotHandle {
    order: Rc<WaitOrder>,
    key: SlotKey,
}

impl SlotHandle {
    /// Records that the session has a request in progress.
    pub fn set_busy(&self) {
        self.order.set_busy(self.key);
    }

    /// Counts bytes that were received from the client or written to its session.
    pub fn add_bytes(&self, bytes: usize) {
        self.order.add_bytes(self.key, bytes);
    }

    /// Returns the session's progress in bytes: all bytes received from the client or written to it, minus `left`.
    /// `left` is the number of written bytes that the client has not acknowledged.
    pub fn progress(&self, left: u64) -> u64 {
        self.order.progress(self.key, left)
    }

    /// Records that one more exchange of the session waits for the server's own work, for example for its service time.
    pub fn begin_server_turn(&self) {
        self.order.begin_server_turn(self.key);
    }

    /// Calls [`begin_server_turn`](Self::begin_server_turn). Dropping the returned value calls
    /// [`end_server_turn`](Self::end_server_turn).
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

    /// Records that one exchange of the session no longer waits for the server's own work.
    pub fn end_server_turn(&self) {
        self.order.end_server_turn(self.key);
    }

    /// Records that the session no longer has a request in progress.
    pub fn set_waiting(&self) {
        self.order.set_waiting(self.key);
    }
}

/// The maximum number of sessions that are checked to find a slot for one new session.
const LOOKS: usize = 64;

#[cfg(test)]
mod tests;
