//! Limits how much of a [`ConcurrencyLimit`] one session or one client may hold.
//!
//! The share of a session or client is the number of slots that it may hold: a fixed multiple of the number of free
//! slots (the dynamic threshold of Choudhury and Hahne, 1998). Therefore a client that is alone gets nearly all slots,
//! and a few slots are left for the next client. If almost no slots are free nevertheless, an exchange without progress
//! is ended to free a slot for a new exchange.

use super::{ConcurrencyLimit, Permit};
use anabranch_base::time::{Duration, Instant};
use std::cell::Cell;
use std::rc::Rc;

/// The share of one client or session in a [`ConcurrencyLimit`].
#[derive(Debug)]
pub struct Share {
    limit: ConcurrencyLimit,
    /// The maximum number of slots that the share may hold, as a multiple of the number of free slots.
    times: usize,
    held: Cell<usize>,
    /// The enclosing share, if any. Slots of this share also count as held by the enclosing one.
    parent: Option<Rc<Share>>,
}

/// A permit for one slot of a [`ConcurrencyLimit`]. The slot belongs to the share of one client or session. Dropping
/// the permit releases the slot.
pub struct SharePermit(Rc<Share>, Option<Permit>);

impl Share {
    /// Returns a share of `limit`. The share may take another slot only while its number of slots is less than `times`
    /// multiplied by the number of free slots.
    pub fn new(limit: ConcurrencyLimit, times: usize) -> Rc<Self> {
        Rc::new(Self { limit, times, held: Cell::new(0), parent: None })
    }

    /// Returns a new share within the share `parent`. [`new`](Self::new) explains `times`. A slot that the new share
    /// holds also counts as held by `parent`.
    pub fn within(parent: Rc<Self>, times: usize) -> Rc<Self> {
        Rc::new(Self { limit: parent.limit.clone(), times, held: Cell::new(0), parent: Some(parent) })
    }

    fn may_take(&self) -> bool {
        let has_room = self.held.get() < self.limit.available().saturating_mul(self.times);
        has_room && self.parent.as_ref().is_none_or(|parent| parent.may_take())
    }

    fn add(&self) {
        self.held.set(self.held.get() + 1);
        self.parent.iter().for_each(|parent| parent.add());
    }

    fn remove(&self) {
        self.held.set(self.held.get() - 1);
        self.parent.iter().for_each(|parent| parent.remove());
    }

    /// Returns a permit if a slot is available and this share may hold another slot.
    pub fn try_acquire(self: &Rc<Self>) -> Option<SharePermit> {
        let limit = &self.limit;
        let permit = self.may_take().then(|| limit.try_acquire()).flatten();
        match &permit {
            Some(_) if !limit.is_scarce() => limit.clear_requests(),
            None if limit.is_scarce() => limit.request_slot(),
            _ => {}
        }
        let permit = permit?;
        self.add();
        Some(SharePermit(self.clone(), Some(permit)))
    }

    /// Whether the share holds no slot.
    pub fn is_idle(&self) -> bool {
        self.held.get() == 0
    }

    /// Returns whether the caller must end one exchange of this share, to free a slot for an exchange that was refused.
    /// For each refused exchange, only one call returns true.
    pub fn preempt(&self) -> bool {
        self.limit.is_scarce() && self.limit.take_request()
    }
}

impl Drop for SharePermit {
    fn drop(&mut self) {
        self.0.remove();
        drop(self.1.take());
    }
}

/// Detects an exchange that makes no progress because of its client. The time in which the exchange waits for the
/// server does not count.
#[derive(Debug, Default)]
pub struct ProgressMonitor {
    /// The state at the last progress: the bytes that the exchange had transferred, the bytes that its session had
    /// transferred, and the time. `None` before the first measurement.
    mark: Option<(u64, u64, Instant)>,
}

impl ProgressMonitor {
    /// Returns whether the exchange has made no progress for [`STALL_TIME`]. So far, the exchange has transferred `own`
    /// bytes. The session has `exchanges` exchanges, which together have transferred `whole` bytes. If `server_turn` is
    /// true, the exchange waits for the server, which is not a stall.
    pub fn is_stalled(
        &mut self,
        own: u64,
        whole: u64,
        exchanges: u32,
        server_turn: bool,
        now: Instant,
    ) -> bool {
        let moved = self.mark.is_none_or(|(mark, session, _)| {
            own >= mark + MIN_PROGRESS
                || whole >= session.saturating_add(MIN_PROGRESS * u64::from(exchanges.max(1)))
        });
        if server_turn || moved {
            self.mark = Some((own, whole, now));
        }
        self.mark.is_some_and(|(.., since)| since + STALL_TIME <= now)
    }
}

/// How long a session or an exchange must be stalled before it may be ended so that a new one gets its slot.
pub(super) const STALL_TIME: Duration = Duration::from_secs(5);
/// The number of bytes within [`STALL_TIME`] that count as progress.
pub(super) const MIN_PROGRESS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_gets_most_slots_and_leaves_some() {
        let limit = ConcurrencyLimit::new(100);
        let fill = |share: &Rc<Share>| std::iter::from_fn(|| share.try_acquire()).collect::<Vec<_>>();
        let greedy: Vec<Rc<Share>> = (0..3).map(|_| Share::new(limit.clone(), 8)).collect();
        let first = fill(&greedy[0]);
        assert_eq!(first.len(), 89);
        let (second, third) = (fill(&greedy[1]), fill(&greedy[2]));
        assert_eq!((second.len(), third.len()), (10, 1));
        assert!(!greedy[0].is_idle());
        drop((first, second, third));
        assert!(greedy.iter().all(|share| share.is_idle()) && limit.available() == 100);
        // The first share must get at most half of the slots. The second share must get at most half of the rest.
        let (one, two) = (Share::new(limit.clone(), 1), Share::new(limit.clone(), 1));
        let permits = fill(&one);
        assert_eq!((permits.len(), fill(&two).len()), (50, 25));
        // If the limit is small, a single share must be able to take all slots.
        let (few, share) =
            (ConcurrencyLimit::new(2), |limit: &ConcurrencyLimit| Share::new(limit.clone(), 8));
        assert_eq!(fill(&share(&few)).len(), 2);
    }

    #[test]
    fn however_many_sessions_a_client_has_some_is_left() {
        let limit = ConcurrencyLimit::new(4096);
        let fill = |share: &Rc<Share>| std::iter::from_fn(|| share.try_acquire()).collect::<Vec<_>>();
        let (greedy, modest) = (Share::new(limit.clone(), 31), Share::new(limit.clone(), 31));
        let sessions: Vec<_> = (0..300).map(|_| Share::within(greedy.clone(), 8)).collect();
        let permits: Vec<_> = sessions.iter().map(fill).collect();
        let counts: Vec<usize> = permits.iter().map(Vec::len).collect();
        assert_eq!(counts[..3], [3641, 327, 0], "the second has some, too");
        assert_eq!(counts.iter().sum::<usize>(), 4096 - limit.available());
        assert!(fill(&Share::within(modest.clone(), 8)).len() > 100, "another client's");
        drop(permits);
        assert!(greedy.is_idle() && modest.is_idle() && limit.available() == 4096);
    }

    #[test]
    fn each_unmet_request_preempts_one_exchange() {
        let limit = ConcurrencyLimit::new(2);
        let (one, other) = (Share::new(limit.clone(), 8), Share::new(limit.clone(), 8));
        assert!(!one.preempt());
        let (first, second) = (one.try_acquire(), one.try_acquire());
        assert!(first.is_some() && second.is_some() && !one.preempt(), "nobody wants it");
        assert!(other.try_acquire().is_none() && one.preempt() && !one.preempt());
        for _ in 0..1000 {
            assert!(other.try_acquire().is_none());
        }
        drop(first);
        assert!(!one.preempt(), "there is room");
        let again = other.try_acquire();
        assert!(again.is_some());
        let granted = (0..1000).filter(|_| one.preempt()).count();
        assert!((1..=16).contains(&granted), "{granted}");
    }

    #[test]
    fn a_trickle_of_bytes_counts_as_stalled() {
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        // A hundred exchanges of one session. The session transfers 260 bytes per second in total.
        let mut pace = ProgressMonitor::default();
        let still = |pace: &mut ProgressMonitor, whole: u64| {
            (0..20).find(|&second| pace.is_stalled(10, whole * second, 100, false, at(second)))
        };
        assert_eq!(still(&mut pace, 260), Some(5));
        // The minimum rate of a session is proportional to its number of exchanges. 260 bytes per second suffice for
        // one exchange, and 26,000 for a hundred. An exchange that transfers 260 bytes per second makes progress even
        // if its session as a whole is too slow.
        let mut pace = ProgressMonitor::default();
        assert_eq!((0..20).find(|&s| pace.is_stalled(0, 260 * s, 1, false, at(s))), None);
        let mut pace = ProgressMonitor::default();
        assert_eq!((0..20).find(|&s| pace.is_stalled(0, 26_000 * s, 100, false, at(s))), None);
        let mut pace = ProgressMonitor::default();
        assert_eq!((0..20).find(|&s| pace.is_stalled(260 * s, 0, 100, false, at(s))), None);
        // For the first 10 seconds, the exchange waits for the server. Only the time after that counts as a stall.
        let mut pace = ProgressMonitor::default();
        assert_eq!((0..20).find(|&s| pace.is_stalled(0, 0, 1, s < 10, at(s))), Some(14));
    }
}
