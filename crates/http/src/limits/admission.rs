//! Admits sessions to a server. A new session gets a slot, waits for one, or is refused.
//!
//! The sessions that could be ended to free a slot may belong to another thread, which accepted them from the same
//! listener. Therefore a new session waits up to [`PATIENCE`]. In the meantime any thread that has such a session ends
//! it.

use super::slots::{SessionSlots, Slot};
use super::{Client, ConcurrencyLimit};
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Listener, Session};
use anabranch_world::{Timer, World};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
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
                // Poll again after every session that got no slot, because the session has set the timer.
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

    /// Gives `session` a slot if one is free or another session can be ended to free one. Otherwise `session` waits or is
    /// refused.
    fn admit(&mut self, session: N) -> Option<(N, Slot<N>)> {
        let now = self.world.now();
        let slot = self.slots.acquire(&session, now);
        if slot.is_none() {
            if self.limit.shared.servers.load(Ordering::Relaxed) < 2 || self.waiting.len() >= MAX_WAITING {
                session.abort();
                return None;
            }
            self.limit.shared.clients.request_slot(Client::of(&session));
            self.waiting.push_back((session, now + PATIENCE));
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
            } else if self.slots.has_taken_slots() {
                self.arm(now + TICK);
            }
        }
        Poll::Pending
    }

    fn arm(&mut self, at: Instant) {
        self.armed = true;
        self.timer.set(Some(at));
    }

    /// If no slot is free, records the progress of this thread's sessions. Also ends some of them to free slots for new
    /// sessions of other threads.
    fn record_progress(&mut self, now: Instant) {
        if !self.limit.is_full() {
            return;
        }
        if self.last_check + TICK <= now {
            // While slots were free, no progress was recorded, so older records are stale.
            let stale = self.last_check + TICK + TICK + TICK < now;
            self.last_check = now;
            self.slots.record_progress(now, stale);
        }
        // Requests for a slot that this thread cannot grant are registered again, because another thread may grant
        // them.
        let mut left = Vec::new();
        while self.limit.is_full()
            && left.len() < MAX_WAITING
            && let Some(client) = self.limit.shared.clients.next_request()
        {
            match self.slots.preempt(now, client) {
                true => self.limit.release_slot(),
                false => left.push(client),
            }
        }
        left.into_iter().for_each(|client| self.limit.shared.clients.request_slot(client));
    }

    /// Gives a slot to the session that has waited longest. Refuses sessions that have waited too long.
    fn retry(&mut self, now: Instant) -> Option<(N, Slot<N>)> {
        while let Some((session, until)) = self.waiting.pop_front() {
            let client = Client::of(&session);
            if let Some(slot) = self.slots.acquire(&session, now) {
                self.limit.shared.clients.withdraw(client);
                return Some((session, slot));
            }
            if now < until {
                self.waiting.push_front((session, until));
                return None;
            }
            self.limit.shared.clients.withdraw(client);
            session.abort();
        }
        None
    }
}

impl<W: World, N: Session> Drop for Admission<W, N> {
    fn drop(&mut self) {
        self.limit.shared.servers.fetch_sub(1, Ordering::Relaxed);
        for (session, _) in self.waiting.drain(..) {
            self.limit.shared.clients.withdraw(Client::of(&session));
            session.abort();
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
        // A server that shares its limit with no other server and can end no session must refuse a new session at once.
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
        // Neither server has a session that may be ended. The request for a slot must stay registered for other
        // servers.
        third.record_progress(world.now());
        first.record_progress(world.now());
        assert_eq!(session.aborted.get(), 0);
        slot.handle().set_waiting();
        first.record_progress(world.now());
        assert_eq!(session.aborted.get(), 1);
        let (admitted, _slot) = second.retry(world.now()).expect("admitted");
        assert!(Rc::ptr_eq(&admitted.aborted, &newcomer.aborted) && newcomer.aborted.get() == 0);
    }
}
