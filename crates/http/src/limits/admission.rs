//! Admits sessions to a server. A new session gets a slot, waits for one, or is refused.
//!
//! The sessions that could be ended to free a slot may belong to another thread, which accepted them from the same
//! listener. Therefore a new session waits up to [`PATIENCE`]. In the meantime, any thread can end a session that it
//! serves, and grant the slot to the waiting client. Without the grant, the thread that freed the slot would give it to
//! its own next session.

use super::slots::{SessionSlots, Slot};
use super::{Client, ConcurrencyLimit};
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Listener, Session};
use anabranch_world::{Timer, World};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

/// Admits the sessions of one server.
pub struct Admission<W: World, N: Session> {
    world: W,
    limit: ConcurrencyLimit,
    slots: Rc<SessionSlots<N>>,
    timer: W::Timer,
    armed: bool,
    last_check: Instant,
    /// New sessions that have no slot yet, each with the time until which it waits.
    waiting: VecDeque<(N, Instant)>,
}

impl<W: World, N: Session> Admission<W, N> {
    /// Returns an `Admission` under `limit`, which other servers may share.
    pub fn new(world: &W, limit: ConcurrencyLimit) -> Self {
        limit.shared.servers.fetch_add(1, Ordering::Relaxed);
        Self {
            world: world.clone(),
            slots: SessionSlots::new(limit.clone()),
            limit,
            timer: world.timer(),
            armed: false,
            last_check: world.now(),
            waiting: VecDeque::new(),
        }
    }

    /// Completes with the next session of `listener` that gets a slot, or with `None` when `stop` completes.
    ///
    /// # Errors
    /// The reason why the listener failed.
    pub async fn next<L: Listener<Session = N>>(
        &mut self,
        listener: &mut L,
        stop: impl Fn(&Context<'_>) -> Poll<()>,
    ) -> Result<Option<(N, Slot<N>)>, CloseReason> {
        poll_fn(|cx| {
            loop {
                if stop(cx).is_ready() {
                    return Poll::Ready(Ok(None));
                }
                // If the last call of `admit` made a session wait, it also set a timer. `poll` then registers this task
                // for the timer.
                if let Poll::Ready(admitted) = self.poll(cx) {
                    return Poll::Ready(Ok(Some(admitted)));
                }
                let session = ready!(listener.poll_accept(cx))?;
                if let Some(admitted) = self.admit(session) {
                    return Poll::Ready(Ok(Some(admitted)));
                }
            }
        })
        .await
    }

    /// Returns `session` with a slot, if a slot is free or another session can be ended to free one. Returns `None` if
    /// `session` has to wait or is refused.
    fn admit(&mut self, session: N) -> Option<(N, Slot<N>)> {
        let now = self.world.now();
        let slot = self.slots.acquire(&session, now);
        if slot.is_none() {
            if self.limit.shared.servers.load(Ordering::Relaxed) < 2 {
                session.abort();
                return None;
            }
            self.limit.shared.clients.request_slot(Client::of(&session));
            self.waiting.push_back((session, now + PATIENCE));
            if self.waiting.len() > MAX_WAITING {
                self.refuse_one();
            }
            self.arm(now + RETRY);
            return None;
        }
        if !self.armed {
            self.arm(now + TICK);
        }
        slot.map(|slot| (session, slot))
    }

    /// Completes with a session that has waited and now has a slot. Also records the progress of the sessions that have
    /// slots.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(N, Slot<N>)> {
        while self.armed && self.timer.poll(cx).is_ready() {
            self.armed = false;
            let now = self.world.now();
            self.record_progress(now);
            if let Some(admitted) = self.retry(now) {
                self.arm(now);
                return Poll::Ready(admitted);
            }
            if !self.waiting.is_empty() {
                self.arm(now + RETRY);
            } else if self.slots.taken() > 0 {
                self.arm(now + TICK);
            }
        }
        Poll::Pending
    }

    fn arm(&mut self, at: Instant) {
        self.armed = true;
        self.timer.set(Some(at));
    }

    /// If no slot is free, records how many bytes each session of this thread has transferred. Then ends some of these
    /// sessions, so that their slots go to new sessions that wait in any thread.
    fn record_progress(&mut self, now: Instant) {
        if !self.limit.is_full() {
            return;
        }
        if self.last_check + TICK <= now {
            // While a slot is free, neither this check nor the recording of progress takes place. If the last check was
            // more than three ticks ago, the recorded progress is therefore stale.
            let stale = self.last_check + TICK + TICK + TICK < now;
            self.last_check = now;
            self.slots.record_progress(now, stale);
        }
        let _alone = self.limit.shared.preempting.lock().unwrap_or_else(PoisonError::into_inner);
        // Requests for slots that this thread cannot grant are left to other threads.
        let clients = &self.limit.shared.clients;
        let mut ungranted = BTreeSet::new();
        for client in clients.requests() {
            if ungranted.contains(&client) {
                continue;
            }
            if !self.slots.preempt(now, client) {
                ungranted.insert(client);
            } else if !clients.grant(client) {
                // The session that requested the slot has meanwhile got a free slot, or was refused. So the slot becomes
                // free.
                self.limit.release_slot();
            }
        }
    }

    /// Refuses the newest waiting session of the client that has the most waiting sessions.
    fn refuse_one(&mut self) {
        let mut counts = BTreeMap::new();
        for (session, _) in &self.waiting {
            *counts.entry(Client::of(session)).or_insert(0_usize) += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client);
        if let Some(at) = self.waiting.iter().rposition(|(session, _)| Some(Client::of(session)) == most) {
            self.refuse(at);
        }
    }

    fn refuse(&mut self, at: usize) {
        if let Some((session, _)) = self.waiting.remove(at) {
            self.cancel_request(Client::of(&session));
            session.abort();
        }
    }

    /// Cancels the request for a slot that was registered for a session of `client`. If the request was already
    /// granted, the granted slot becomes free.
    fn cancel_request(&self, client: Client) {
        let clients = &self.limit.shared.clients;
        if !clients.withdraw(client) && clients.take_grant(client) {
            clients.leave(client);
            self.limit.release_slot();
        }
    }

    /// Gives a slot to the first waiting session whose client may have a slot. Refuses sessions that have waited too
    /// long.
    fn retry(&mut self, now: Instant) -> Option<(N, Slot<N>)> {
        let mut at = 0;
        while let Some((session, until)) = self.waiting.get(at) {
            if let Some(slot) = self.slots.take_grant(session) {
                let (session, _) = self.waiting.remove(at)?;
                return Some((session, slot));
            }
            if let Some(slot) = self.slots.acquire(session, now) {
                let (session, _) = self.waiting.remove(at)?;
                self.cancel_request(Client::of(&session));
                return Some((session, slot));
            }
            if now < *until {
                at += 1;
            } else {
                self.refuse(at);
            }
        }
        None
    }
}

impl<W: World, N: Session> Drop for Admission<W, N> {
    fn drop(&mut self) {
        self.limit.shared.servers.fetch_sub(1, Ordering::Relaxed);
        while !self.waiting.is_empty() {
            self.refuse(0);
        }
    }
}

/// The interval at which the progress of sessions is recorded while no slot is free.
const TICK: Duration = Duration::from_secs(1);
/// How long a new session waits for a slot. It is long enough for every thread to check its sessions.
const PATIENCE: Duration = Duration::from_millis(2500);
/// The interval at which a waiting session tries again to get a slot.
const RETRY: Duration = Duration::from_millis(100);
/// The maximum number of new sessions of one thread that wait at the same time.
const MAX_WAITING: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::testing::FakeSession;
    use super::*;
    use anabranch_base::Rng;
    use anabranch_sim::{Network, SimWorld};

    /// Returns a simulated network and the `SimWorld` of a host in it.
    fn world() -> (Network, SimWorld) {
        let network = Network::new(1);
        let host = network.host("server", &[[10, 0, 0, 1].into()]);
        let world = network.world(host);
        (network, world)
    }

    #[test]
    fn a_new_session_waits_for_another_server_to_free_a_slot_until_its_deadline() {
        let (_network, world) = world();
        let limit = ConcurrencyLimit::new(1);
        let mut one = Admission::new(&world, limit.clone());
        let (_, slot) = one.admit(FakeSession::of(1)).expect("a free slot");
        slot.handle().set_busy();
        // So far, `one` is the only server that uses the limit. The only session of `one` is busy and must not be
        // ended. Therefore the server must refuse a new session at once.
        let newcomer = FakeSession::of(2);
        assert!(one.admit(newcomer.clone()).is_none());
        assert_eq!(newcomer.aborted.get(), 1);
        let mut other_server = Admission::new(&world, limit);
        let (newcomer, until) = (FakeSession::of(2), world.now() + PATIENCE);
        assert!(other_server.admit(newcomer.clone()).is_none());
        assert!(other_server.retry(Instant::from_nanos(until.as_nanos() - 1)).is_none());
        assert_eq!((newcomer.aborted.get(), other_server.waiting.len()), (0, 1));
        assert!(other_server.retry(until).is_none());
        assert_eq!((newcomer.aborted.get(), other_server.waiting.len()), (1, 0));
    }

    #[test]
    fn a_request_for_a_slot_waits_until_a_server_can_grant_it() {
        let (_network, world) = world();
        let limit = ConcurrencyLimit::new(1);
        let [mut first, mut second, mut third] = [(); 3].map(|()| Admission::new(&world, limit.clone()));
        let session = FakeSession::of(1);
        let (_, slot) = first.admit(session.clone()).expect("a free slot");
        slot.handle().set_busy();
        let newcomer = FakeSession::of(2);
        assert!(second.admit(newcomer.clone()).is_none());
        // The third server has no session, and the session of the first server is busy and may not be ended. The second
        // server's request for a slot must stay registered.
        third.record_progress(world.now());
        first.record_progress(world.now());
        assert_eq!(session.aborted.get(), 0);
        slot.handle().set_waiting();
        first.record_progress(world.now());
        assert_eq!(session.aborted.get(), 1);
        let (admitted, _slot) = second.retry(world.now()).expect("admitted");
        assert!(Rc::ptr_eq(&admitted.aborted, &newcomer.aborted) && newcomer.aborted.get() == 0);
    }

    /// All slots belong to sessions of server `one`. For a new session of server `other`, server `one` ends one of its
    /// own sessions. The freed slot must go to the session of `other`, and not to the next session of `one`.
    #[test]
    fn a_freed_slot_goes_to_the_session_for_which_it_was_freed() {
        let (_network, world) = world();
        let limit = ConcurrencyLimit::new(8);
        let [mut one, mut other] = [(); 2].map(|()| Admission::new(&world, limit.clone()));
        let sessions = [(); 8].map(|()| FakeSession::of(1));
        let _slots = sessions.each_ref().map(|session| one.admit(session.clone()).expect("a free slot"));
        assert!(other.admit(FakeSession::of(2)).is_none(), "the other server can end no session");
        one.record_progress(world.now());
        let _next = one.admit(FakeSession::of(3)).expect("the slot of another session");
        assert_eq!(sessions.iter().map(|session| session.aborted.get()).sum::<u32>(), 2);
        let _granted = other.retry(world.now()).expect("the slot that was freed for it");
        assert_eq!((limit.available(), limit.shared.clients.outstanding()), (0, [0, 0]));
    }

    #[test]
    fn a_full_queue_refuses_a_session_of_the_client_with_the_most_waiting_sessions() {
        let (_network, world) = world();
        let limit = ConcurrencyLimit::new(1);
        let [mut one, mut other] = [(); 2].map(|()| Admission::new(&world, limit.clone()));
        let (_, slot) = one.admit(FakeSession::of(1)).expect("a free slot");
        slot.handle().set_busy();
        let crowd: Vec<_> = (0..MAX_WAITING).map(|_| FakeSession::of(3)).collect();
        crowd.iter().for_each(|session| assert!(other.admit(session.clone()).is_none()));
        let newcomer = FakeSession::of(2);
        assert!(other.admit(newcomer.clone()).is_none());
        let refused: u32 = crowd.iter().map(|session| session.aborted.get()).sum();
        assert_eq!((newcomer.aborted.get(), refused, other.waiting.len()), (0, 1, MAX_WAITING));
    }

    /// Sessions of five clients begin and end at random at three servers that share ten slots. At any time, each slot
    /// is free, taken or granted, and each waiting session has either a request or a grant.
    #[test]
    fn no_slot_is_lost_or_given_twice() {
        const MAX: usize = 10;
        let (_network, world) = world();
        let mut rng = Rng::new(1);
        let limit = ConcurrencyLimit::new(MAX);
        let mut servers =
            [(); 3].map(|()| (Admission::new(&world, limit.clone()), Vec::<Slot<FakeSession>>::new()));
        let mut now = world.now();
        for _ in 0..100_000 {
            let (server, held) = &mut servers[rng.below(3) as usize];
            let at = rng.below(held.len().max(1) as u64) as usize;
            match rng.below(6) {
                0 | 1 => held.extend(server.admit(FakeSession::of(rng.below(5) as u8)).map(|(_, slot)| slot)),
                2 => held.extend(server.retry(now).map(|(_, slot)| slot)),
                3 => server.record_progress(now),
                4 if !held.is_empty() => drop(held.swap_remove(at)),
                5 if !held.is_empty() && rng.below(2) == 0 => held[at].handle().set_busy(),
                5 if !held.is_empty() => held[at].handle().set_waiting(),
                _ => now += Duration::from_millis(50),
            }
            let taken: usize = servers.iter().map(|(server, _)| server.slots.taken()).sum();
            let waiting: usize = servers.iter().map(|(server, _)| server.waiting.len()).sum();
            let [requests, grants] = limit.shared.clients.outstanding();
            assert_eq!((limit.available() + taken + grants, requests + grants), (MAX, waiting));
        }
        drop(servers);
        assert_eq!((limit.available(), limit.shared.clients.outstanding()), (MAX, [0, 0]));
    }
}
