//! The way in: where a server's sessions get their seats, and wait for them.
//!
//! The sessions that could end for a newcomer may be another thread's, which took them from the same listener. So the
//! newcomer waits for a moment, and whichever thread has one ends it.

use super::seats::{Seat, Seats};
use super::{Client, Room};
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::Session;
use anabranch_world::{Timer, World};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// The entrance of one server.
pub struct Entrance<W: World, N: Session> {
    world: W,
    room: Room,
    seats: Rc<Seats<N>>,
    timer: W::Timer,
    armed: bool,
    looked: Instant,
    /// Newcomers without a seat, and until when they wait for one.
    waiting: VecDeque<(N, Instant)>,
}

impl<W: World, N: Session> Entrance<W, N> {
    pub fn new(world: &W, room: Room) -> Self {
        room.shared.servers.fetch_add(1, Ordering::Relaxed);
        Self {
            world: world.clone(),
            seats: Seats::new(room.clone()),
            room,
            timer: world.timer(),
            armed: false,
            looked: world.now(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes in `session`, if there is a seat for it. Else it waits for a moment, or is turned away.
    pub fn admit(&mut self, session: N) -> Option<(N, Seat<N>)> {
        let now = self.world.now();
        let seat = self.seats.take(&session, now);
        if seat.is_none() {
            if self.room.shared.servers.load(Ordering::Relaxed) < 2 || self.waiting.len() >= MOST_WAITING {
                session.abort();
                return None;
            }
            self.room.shared.census.wish(Client::of(&session));
            self.waiting.push_back((session, now + PATIENCE));
            self.arm(now + RETRY);
            return None;
        }
        if !self.armed {
            self.arm(now + TICK);
        }
        seat.map(|seat| (session, seat))
    }

    /// Ready with a session that has waited and has a seat now. Looks after those that have one.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(N, Seat<N>)> {
        while self.armed && self.timer.poll(cx).is_ready() {
            self.armed = false;
            let now = self.world.now();
            self.look(now);
            if let Some(admitted) = self.retry(now) {
                self.arm(now);
                return Poll::Ready(admitted);
            }
            if !self.waiting.is_empty() {
                self.arm(now + RETRY);
            } else if self.seats.are_taken() {
                self.arm(now + TICK);
            }
        }
        Poll::Pending
    }

    fn arm(&mut self, at: Instant) {
        self.armed = true;
        self.timer.set(Some(at));
    }

    /// What is seen of sessions only by looking again, and what other threads would like.
    fn look(&mut self, now: Instant) {
        if !self.room.is_full() {
            return;
        }
        if self.looked + TICK <= now {
            // Nobody has looked while there was room.
            let anew = self.looked + TICK + TICK + TICK < now;
            self.looked = now;
            self.seats.look(now, anew);
        }
        // What cannot be granted here may be granted by another thread.
        let mut left = Vec::new();
        while self.room.is_full()
            && left.len() < MOST_WAITING
            && let Some(client) = self.room.shared.census.next_wish()
        {
            match self.seats.end_one(now, client) {
                true => self.room.vacate(),
                false => left.push(client),
            }
        }
        left.into_iter().for_each(|client| self.room.shared.census.wish(client));
    }

    /// Seats the first that waits; who has waited too long is turned away.
    fn retry(&mut self, now: Instant) -> Option<(N, Seat<N>)> {
        while let Some((session, until)) = self.waiting.pop_front() {
            let client = Client::of(&session);
            if let Some(seat) = self.seats.take(&session, now) {
                self.room.shared.census.forget(client);
                return Some((session, seat));
            }
            if now < until {
                self.waiting.push_front((session, until));
                return None;
            }
            self.room.shared.census.forget(client);
            session.abort();
        }
        None
    }
}

impl<W: World, N: Session> Drop for Entrance<W, N> {
    fn drop(&mut self) {
        self.room.shared.servers.fetch_sub(1, Ordering::Relaxed);
        for (session, _) in self.waiting.drain(..) {
            self.room.shared.census.forget(Client::of(&session));
            session.abort();
        }
    }
}

/// How often sessions are looked at while there is no room.
const TICK: Duration = Duration::from_secs(1);
/// How long a newcomer waits for a seat: until every thread has looked.
const PATIENCE: Duration = Duration::from_millis(2500);
/// And how often it tries.
const RETRY: Duration = Duration::from_millis(100);
/// How many wait, in a thread.
const MOST_WAITING: usize = 64;
