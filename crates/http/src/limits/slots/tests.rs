//! Compares the tested code, which decides about the sessions of a server, with a naive model. Whatever the sessions
//! report, in any order, both must end the same sessions.

use super::super::share::{MIN_PROGRESS, STALL_TIME};
use super::super::testing::FakeSession;
use super::*;
use anabranch_base::Rng;
use anabranch_base::time::Duration;

fn at(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}

#[test]
fn reports_of_a_session_whose_slot_was_released_change_nothing() {
    let slots = SessionSlots::new(ConcurrencyLimit::new(2));
    let first = slots.acquire(&FakeSession::of(1), at(0)).expect("a slot");
    let late = first.handle();
    late.set_busy();
    late.begin_server_turn();
    drop(first);
    // The session's streams end one by one, after the session's slot was released.
    late.set_waiting();
    assert_eq!(slots.order.first(), None, "nobody waits");
    let next = FakeSession::of(1);
    let slot = slots.acquire(&next, at(1)).expect("the slot is free again");
    late.set_busy();
    assert_eq!(slots.order.first(), Some(slot.key), "the next one waits, whatever the last one says");
    late.set_waiting();
    late.end_server_turn();
    late.add_bytes(1000);
    assert_eq!((slot.handle().progress(0), late.progress(0)), (0, 0));
    // With more sessions than slots, new sessions take the slots of waiting sessions. The iteration over the waiting
    // sessions must end.
    let all: Vec<_> = (0..4).map(|_| slots.acquire(&FakeSession::of(1), at(2))).collect();
    assert!(all.iter().all(Option::is_some) && next.aborted.get() == 1);
    assert_eq!(slots.order.waiting(&|_| true, usize::MAX).len(), 2);
    drop((slot, all));
    assert!(slots.taken() == 0 && slots.limit.available() == 2);
}

#[test]
fn the_session_that_has_waited_longest_is_first() {
    let order = WaitOrder::default();
    let client = Client::at(None);
    assert_eq!(order.first(), None);
    let [one, two, three] = [(); 3].map(|()| order.join(client));
    assert_eq!(order.first(), Some(one));
    order.set_busy(one);
    order.set_busy(one);
    assert_eq!(order.first(), Some(two), "a busy session does not wait");
    order.set_waiting(one);
    order.set_waiting(one);
    order.preempt(two);
    order.set_waiting(two);
    order.set_busy(two);
    order.set_waiting(two);
    assert_eq!(order.first(), Some(three), "a session that was ended does not wait again");
    order.remove(three);
    order.remove(three);
    assert_eq!(order.first(), Some(one), "one that was busy waits anew");
    let four = order.join(client);
    assert_eq!((four.index, four == three), (three.index, false), "memory is used again, keys are not");
    order.remove(one);
    assert_eq!(order.first(), Some(four));
    order.wait_anew(four);
    assert_eq!(order.waiting(&|_| true, 9), [four]);
    order.remove(four);
    order.remove(two);
    assert_eq!((order.first(), order.waiting(&|_| true, 9).len()), (None, 0));
}

#[test]
fn a_session_that_its_client_stalls_is_found() {
    let order = WaitOrder::default();
    let keys = [(); 3].map(|()| order.join(Client::at(None)));
    let [reads, stalls, waits] = keys;
    for key in keys {
        order.set_busy(key);
        order.add_bytes(key, 1_000_000);
    }
    // In the session `reads`, the client accepts 300 bytes per second. In the session `stalls`, the client accepts 10
    // bytes per second. In the session `waits`, the client waits for data of the server.
    order.begin_server_turn(waits);
    for second in 0..20 {
        order.note(reads, 900_000 - 300 * second, at(second));
        order.note(stalls, 900_000 - 10 * second, at(second));
        order.note(waits, 0, at(second));
        let expected = (second >= 5).then_some(stalls);
        assert_eq!(order.longest_stalled(at(second), &|_| true), expected, "{second}");
    }
    order.preempt(stalls);
    assert_eq!(order.longest_stalled(at(20), &|_| true), None);
    let stalled = order.longest_stalled(at(30), &|_| true);
    assert_eq!(stalled, Some(reads), "nothing is known of it for too long");
    order.set_busy(reads);
    assert_eq!(
        order.longest_stalled(at(30), &|_| true),
        Some(reads),
        "one more request moves none before it"
    );
    order.set_waiting(reads);
    order.set_busy(reads);
    assert_eq!(order.longest_stalled(at(30), &|_| true), None, "a new request, a new time");
}

#[test]
fn progress_that_is_forgotten_counts_for_nothing() {
    let order = WaitOrder::default();
    let key = order.join(Client::at(None));
    order.set_busy(key);
    order.note(key, 0, at(0));
    assert!(order.is_stalled(key, at(5)));
    order.forget_progress();
    assert_eq!((order.is_stalled(key, at(5)), order.longest_stalled(at(9), &|_| true)), (false, None));
    // The next call of `note` starts a new measurement: the session counts as stalled 5 s later.
    order.note(key, 0, at(6));
    assert_eq!([10, 11].map(|second| order.is_stalled(key, at(second))), [false, true]);
}

/// A session in the model, and the slot that the tested code gave it.
struct Modelled {
    number: u64,
    session: FakeSession,
    /// The slot; `None` once it was released.
    slot: Option<Slot<FakeSession>>,
    handle: SlotHandle,
    busy: bool,
    preempted: bool,
    transferred: u64,
    turns: u32,
    mark: Option<(u64, Instant)>,
}

impl Modelled {
    /// Whether the session holds a slot of the limit.
    fn holds(&self) -> bool {
        self.slot.is_some() && !self.preempted
    }

    fn note(&mut self, now: Instant) {
        let acknowledged = self.transferred.saturating_sub(self.session.unacknowledged());
        if self.turns > 0 || self.mark.is_none_or(|(mark, _)| acknowledged >= mark + MIN_PROGRESS) {
            self.mark = Some((acknowledged, now));
        }
    }

    fn is_stalled(&self, now: Instant) -> bool {
        self.turns == 0 && self.mark.is_some_and(|(_, since)| since + STALL_TIME <= now)
    }
}

const CLIENTS: std::ops::RangeInclusive<u8> = 1..=6;

/// Implements the same rules naively, with lists that are searched from one end to the other.
struct Model {
    max: usize,
    sessions: Vec<Modelled>,
    /// The numbers of the waiting sessions. The session that has waited longest is first.
    waiting: Vec<u64>,
    next: u64,
}

impl Model {
    fn session(&mut self, number: u64) -> &mut Modelled {
        self.sessions.iter_mut().find(|one| one.number == number).expect("known")
    }

    fn slots_of(&self, client: u8) -> usize {
        self.sessions.iter().filter(|one| one.holds() && one.session.client == client).count()
    }

    fn slots_held(&self) -> usize {
        self.sessions.iter().filter(|one| one.holds()).count()
    }

    /// Returns the session that must be ended to free a slot for `newcomer`.
    fn preempt(&mut self, now: Instant, newcomer: u8) -> Option<u64> {
        let needed = self.slots_of(newcomer) + 1;
        let (most, greedy) = CLIENTS.map(|client| (self.slots_of(client), client)).max()?;
        let is_greedy = most * 8 > self.max && most >= needed * 2;
        let any_client = !is_greedy && needed * 8 <= self.max.max(8);
        let candidates = CLIENTS.filter(|client| match is_greedy {
            true => *client == greedy,
            false => any_client || *client == newcomer || self.slots_of(*client) >= needed,
        });
        let candidates: Vec<u8> = candidates.collect();
        // The first choice is a session that waits for a request. Among these sessions, the one that has waited longest
        // comes first.
        let mut line = self.waiting.clone();
        line.retain(|number| candidates.contains(&self.session(*number).session.client));
        for at in 0..LOOKS {
            let waiting_session =
                if any_client && !line.is_empty() { line.get(at % line.len()) } else { line.get(at) };
            let Some(number) = waiting_session.copied() else { break };
            if self.session(number).session.unacknowledged() == 0 {
                return Some(number);
            }
            self.waiting.retain(|other| *other != number);
            self.waiting.push(number);
        }
        // If no session waits, choose the session that has been stalled longest.
        let index = |one: &Modelled| one.slot.as_ref().map(|slot| slot.key.index);
        for _ in 0..LOOKS {
            let stalled = self
                .sessions
                .iter_mut()
                .filter(|one| one.holds() && one.is_stalled(now) && candidates.contains(&one.session.client));
            let longest = stalled.min_by_key(|one| (one.mark.map(|(_, since)| since), index(one)));
            let Some(longest) = longest else { break };
            longest.note(now);
            if longest.is_stalled(now) {
                return Some(longest.number);
            }
        }
        // If neither a waiting nor a stalled session is found, ends a session of a client that holds far more slots
        // than its share.
        let greedy_sessions =
            self.sessions.iter().filter(|one| is_greedy && one.holds() && one.session.client == greedy);
        let since = |one: &Modelled| one.mark.map_or(now, |(_, since)| since);
        greedy_sessions.min_by_key(|one| (one.turns > 0, since(one), index(one))).map(|one| one.number)
    }

    /// Checks that only the session `expected` was ended for a new session, or no session if `expected` is `None`.
    /// Returns how many sessions were ended: 0 or 1.
    fn ended(&mut self, expected: Option<u64>) -> u64 {
        let ended = self.sessions.iter().filter(|one| one.session.aborted.get() > u32::from(one.preempted));
        let ended: Vec<u64> = ended.map(|one| one.number).collect();
        assert_eq!(ended, Vec::from_iter(expected));
        for number in &ended {
            self.session(*number).preempted = true;
            self.waiting.retain(|other| other != number);
        }
        ended.len() as u64
    }

    fn set_busy(&mut self, number: u64) {
        let one = self.session(number);
        one.handle.set_busy();
        if one.holds() && !std::mem::replace(&mut one.busy, true) {
            one.mark = None;
            self.waiting.retain(|other| *other != number);
        }
    }

    fn set_waiting(&mut self, number: u64) {
        let one = self.session(number);
        one.handle.set_waiting();
        if one.holds() && std::mem::replace(&mut one.busy, false) {
            self.waiting.push(number);
        }
    }
}

#[test]
fn a_million_random_reports_end_the_sessions_that_a_naive_model_ends() {
    let mut rng = Rng::new(39);
    for max in [1, 3, 12, 80] {
        let slots = SessionSlots::new(ConcurrencyLimit::new(max));
        let mut model = Model { max, sessions: Vec::new(), waiting: Vec::new(), next: 0 };
        let (mut ended, mut rejected) = (0, 0);
        for step in 0..250_000_u64 {
            // No two steps happen at the same time, so the session that has been stalled longest is unique.
            let now = Instant::ZERO + Duration::from_millis(20 * step);
            let client = [1, 1, 1, 1, 2, 2, 3, 4, 5, 6][rng.below(10) as usize];
            let any = rng.below(model.sessions.len() as u64) as usize;
            let number = model.sessions.get(any).map(|one| one.number);
            // If the model has many sessions, only steps that end sessions are chosen.
            let drawn = if model.sessions.len() < 3 * max + 8 { rng.below(100) } else { 90 + rng.below(10) };
            match (drawn, number) {
                // A new session asks for a slot.
                (0..14, _) | (_, None) => {
                    let free = model.slots_held() < max;
                    let expected = if free { None } else { model.preempt(now, client) };
                    let session = FakeSession::of(client);
                    let slot = slots.acquire(&session, now);
                    ended += model.ended(expected);
                    assert_eq!(slot.is_some(), free || expected.is_some(), "{max}, {step}");
                    rejected += u64::from(slot.is_none());
                    if let Some(slot) = slot {
                        let (number, handle) = (model.next, slot.handle());
                        model.next += 1;
                        model.waiting.push(number);
                        let slot = Some(slot);
                        let new = Modelled {
                            number,
                            session,
                            slot,
                            handle,
                            busy: false,
                            preempted: false,
                            transferred: 0,
                            turns: 0,
                            mark: None,
                        };
                        model.sessions.push(new);
                    }
                }
                // A new session of another thread gets a slot from this thread. The new session ends at once, which
                // releases the slot.
                (14..16, _) if model.slots_held() == max => {
                    let expected = model.preempt(now, client);
                    if slots.preempt(now, Client::of(&FakeSession::of(client))) {
                        slots.limit.release_slot();
                    }
                    ended += model.ended(expected);
                }
                (16..36, Some(number)) => model.set_busy(number),
                (36..52, Some(number)) => model.set_waiting(number),
                (52..64, Some(number)) => {
                    let (bytes, one) = (rng.below(2000), model.session(number));
                    one.handle.add_bytes(bytes as usize);
                    one.transferred += bytes;
                    one.session.unacknowledged.set(if rng.below(2) == 0 { 0 } else { rng.below(3000) });
                }
                (64..80, Some(number)) => {
                    let one = model.session(number);
                    if let Some(slot) = one.slot.as_ref() {
                        slots.order.note(slot.key, one.session.unacknowledged(), now);
                        one.note(now);
                    }
                }
                (80..84, Some(number)) => {
                    let one = model.session(number);
                    one.handle.begin_server_turn();
                    one.turns += 1;
                }
                (84..90, Some(number)) => {
                    let one = model.session(number);
                    if one.turns > 0 {
                        one.handle.end_server_turn();
                        one.turns -= 1;
                    }
                }
                // The task of the session ends, which releases the slot. The streams of the session still use the
                // session's handle.
                (90..96, Some(number)) => {
                    model.session(number).slot = None;
                    model.waiting.retain(|other| *other != number);
                }
                // The streams of the session have also ended.
                (_, Some(number)) => {
                    if model.session(number).slot.is_none() {
                        model.sessions.swap_remove(any);
                    }
                }
            }
            let first = slots.order.first();
            let expected = model.waiting.first().copied();
            let expected =
                expected.and_then(|number| model.session(number).slot.as_ref()).map(|slot| slot.key);
            assert_eq!(first, expected, "{max}, {step}");
            assert_eq!(slots.limit.available(), max - model.slots_held(), "{max}, {step}");
            if step % 64 == 0 {
                let line = slots.order.waiting(&|_| true, usize::MAX);
                let keys = model.waiting.clone().into_iter().map(|number| {
                    let slot = model.session(number).slot.as_ref();
                    slot.expect("it waits").key
                });
                assert_eq!(line, keys.collect::<Vec<_>>(), "{max}, {step}");
                assert_eq!(slots.sessions.borrow().len(), model.slots_held());
                for client in CLIENTS {
                    let known = slots.limit.shared.clients.slots_of(Client::of(&FakeSession::of(client)));
                    assert_eq!(known, model.slots_of(client), "{max}, {step}: client {client}");
                }
            }
        }
        println!("{max} slots: {ended} ended for newcomers, {rejected} newcomers turned away");
        assert!(ended > 1000 && (max == 80 || rejected > 100));
        model.sessions.clear();
        assert!(slots.taken() == 0 && slots.limit.available() == max && slots.order.first().is_none());
    }
}
