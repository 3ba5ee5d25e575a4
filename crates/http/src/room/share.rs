//! What one session, or one client, may hold of a room that many share.
//!
//! The more are gone the less one may have (the dynamic threshold of Choudhury and Hahne, 1998): somebody who is alone has
//! nearly all of it, and some is left for who comes next. Where next to nothing is left nevertheless, who holds a place and
//! does nothing with it gives way to who has found none.

use super::{Place, Room};
use anabranch_base::time::{Duration, Instant};
use std::cell::Cell;
use std::rc::Rc;

/// One's share of a [`Room`].
#[derive(Debug)]
pub struct Share {
    room: Room,
    /// It may hold as often what is left.
    times: usize,
    held: Cell<usize>,
    /// That which it is a part of.
    of: Option<Rc<Share>>,
}

/// A place out of a share; given back on drop.
pub struct Portion(Rc<Share>, Option<Place>);

impl Share {
    /// At most `times` what is left is one's own.
    pub fn new(room: Room, times: usize) -> Rc<Self> {
        Rc::new(Self { room, times, held: Cell::new(0), of: None })
    }

    /// The same within another: what is held here is held there, too.
    pub fn within(of: Rc<Self>, times: usize) -> Rc<Self> {
        Rc::new(Self { room: of.room.clone(), times, held: Cell::new(0), of: Some(of) })
    }

    fn may_take(&self) -> bool {
        let has_room = self.held.get() < self.room.left().saturating_mul(self.times);
        has_room && self.of.as_ref().is_none_or(|of| of.may_take())
    }

    fn add(&self) {
        self.held.set(self.held.get() + 1);
        self.of.iter().for_each(|of| of.add());
    }

    fn remove(&self) {
        self.held.set(self.held.get() - 1);
        self.of.iter().for_each(|of| of.remove());
    }

    /// A place, while there is one for this one.
    pub fn take(self: &Rc<Self>) -> Option<Portion> {
        let room = &self.room;
        let place = self.may_take().then(|| room.take()).flatten();
        match &place {
            Some(_) if !room.is_scarce() => room.forget_wishes(),
            None if room.is_scarce() => room.wish(),
            _ => {}
        }
        let place = place?;
        self.add();
        Some(Portion(self.clone(), Some(place)))
    }

    /// Nothing is held.
    pub fn is_idle(&self) -> bool {
        self.held.get() == 0
    }

    /// Somebody has found no place, and who asks is to give up one of these for him.
    pub fn gives_way(&self) -> bool {
        self.room.is_scarce() && self.room.take_wish()
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.0.remove();
        drop(self.1.take());
    }
}

/// How fast an exchange gets on while the next step is its client's.
#[derive(Debug, Default)]
pub struct Pace {
    /// How far it was, and its session, and since when it is not much further.
    mark: Option<(u64, u64, Instant)>,
}

impl Pace {
    /// It has carried `own` bytes, and its session `whole` for `exchanges` of them; `owed`: the next step is ours.
    /// True: it has stood still for long enough.
    pub fn is_still(
        &mut self,
        own: u64,
        whole: u64,
        exchanges: u32,
        owed: bool,
        now: Instant,
    ) -> bool {
        let moved = self.mark.is_none_or(|(mark, session, _)| {
            own >= mark + LEAST || whole >= session.saturating_add(LEAST * u64::from(exchanges.max(1)))
        });
        if owed || moved {
            self.mark = Some((own, whole, now));
        }
        self.mark.is_some_and(|(.., since)| since + GRACE <= now)
    }
}

/// Who has stood still for so long may be ended for another.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Bytes that are no standing still, in that time.
pub(super) const LEAST: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_has_much_and_leaves_some() {
        let room = Room::new(100);
        let fill = |share: &Rc<Share>| std::iter::from_fn(|| share.take()).collect::<Vec<_>>();
        let greedy: Vec<Rc<Share>> = (0..3).map(|_| Share::new(room.clone(), 8)).collect();
        let first = fill(&greedy[0]);
        assert_eq!(first.len(), 89);
        let (second, third) = (fill(&greedy[1]), fill(&greedy[2]));
        assert_eq!((second.len(), third.len()), (10, 1));
        assert!(!greedy[0].is_idle());
        drop((first, second, third));
        assert!(greedy.iter().all(|share| share.is_idle()) && room.left() == 100);
        // Half at most, and a third each where two want more.
        let (one, two) = (Share::new(room.clone(), 1), Share::new(room.clone(), 1));
        let held = fill(&one);
        assert_eq!((held.len(), fill(&two).len()), (50, 25));
        // Few are for whoever comes.
        let (few, share) = (Room::new(2), |room: &Room| Share::new(room.clone(), 8));
        assert_eq!(fill(&share(&few)).len(), 2);
    }

    #[test]
    fn however_many_sessions_a_client_has_some_is_left() {
        let room = Room::new(4096);
        let fill = |share: &Rc<Share>| std::iter::from_fn(|| share.take()).collect::<Vec<_>>();
        let (greedy, modest) = (Share::new(room.clone(), 31), Share::new(room.clone(), 31));
        let sessions: Vec<_> = (0..300).map(|_| Share::within(greedy.clone(), 8)).collect();
        let held: Vec<_> = sessions.iter().map(fill).collect();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts[..3], [3641, 327, 0], "the second has some, too");
        assert_eq!(counts.iter().sum::<usize>(), 4096 - room.left());
        assert!(fill(&Share::within(modest.clone(), 8)).len() > 100, "another client's");
        drop(held);
        assert!(greedy.is_idle() && modest.is_idle() && room.left() == 4096);
    }

    #[test]
    fn who_holds_gives_way_once_for_each_who_found_nothing() {
        let room = Room::new(2);
        let (one, other) = (Share::new(room.clone(), 8), Share::new(room.clone(), 8));
        assert!(!one.gives_way());
        let (first, second) = (one.take(), one.take());
        assert!(first.is_some() && second.is_some() && !one.gives_way(), "nobody wants it");
        assert!(other.take().is_none() && one.gives_way() && !one.gives_way());
        for _ in 0..1000 {
            assert!(other.take().is_none());
        }
        drop(first);
        assert!(!one.gives_way(), "there is room");
        let again = other.take();
        assert!(again.is_some());
        let granted = (0..1000).filter(|_| one.gives_way()).count();
        assert!((1..=16).contains(&granted), "{granted}");
    }

    #[test]
    fn a_byte_now_and_then_is_standing_still() {
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        // A hundred exchanges of one session, which moves 260 bytes a second in all.
        let mut pace = Pace::default();
        let still = |pace: &mut Pace, whole: u64| {
            (0..20).find(|&second| pace.is_still(10, whole * second, 100, false, at(second)))
        };
        assert_eq!(still(&mut pace, 260), Some(5));
        // The same for one alone; and for each of a hundred.
        let mut pace = Pace::default();
        assert_eq!((0..20).find(|&s| pace.is_still(0, 260 * s, 1, false, at(s))), None);
        let mut pace = Pace::default();
        assert_eq!((0..20).find(|&s| pace.is_still(0, 26_000 * s, 100, false, at(s))), None);
        let mut pace = Pace::default();
        assert_eq!((0..20).find(|&s| pace.is_still(260 * s, 0, 100, false, at(s))), None);
        // Where the next step is ours nobody is to blame.
        let mut pace = Pace::default();
        assert_eq!((0..20).find(|&s| pace.is_still(0, 0, 1, s < 10, at(s))), Some(14));
    }
}
