//! Polls for packets for a short time before the thread sleeps.
//!
//! In a request-response exchange, the next packet often arrives before a sleeping processor could wake up. A virtual
//! processor takes even longer, because it leaves its host processor while it sleeps. A world therefore polls for a
//! moment if its last pauses were all short and it transferred little data between them. After one longer pause it
//! sleeps at once again. So does a world that transfers much data, for which pauses do not matter, and one that
//! competes with others for the processor. An idle world never polls.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// The state from which a world decides whether to poll or to sleep.
#[derive(Debug, Default)]
pub(super) struct BusyPoll {
    /// Wakes the event loop for another iteration.
    waker: OnceLock<Waker>,
    state: Mutex<PauseState>,
}

#[derive(Debug, Default)]
struct PauseState {
    /// The start of the current pause, if there is one.
    since: Option<Instant>,
    /// Whether the thread sleeps for the rest of this pause.
    sleeps: bool,
    /// Bytes sent and received since the last pause.
    moved: usize,
    /// The number of consecutive short pauses.
    short: u32,
    /// Other threads need the processor: no polling until then. The next such period is twice as long.
    yields_until: Option<Instant>,
    yields_for: Duration,
}

/// The action when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Sleep,
    Look,
}

impl BusyPoll {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on, `waker` can be used to run the event loop again.
    pub(super) fn begin(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    fn state(&self) -> MutexGuard<'_, PauseState> {
        // No thread panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records `bytes` received by one call.
    pub(super) fn received(&self, bytes: usize) {
        if self.waker.get().is_some() {
            self.state().received(now(), bytes);
        }
    }

    /// Records `bytes` sent by one call.
    pub(super) fn sent(&self, bytes: usize) {
        if self.waker.get().is_some() {
            self.state().moved += bytes;
        }
    }

    /// Called when the event loop is about to sleep, because there is nothing to do.
    pub(super) fn about_to_sleep(&self) {
        let Some(waker) = self.waker.get() else { return };
        let before = now();
        if self.state().next(before) == Next::Look {
            // The program that will send the next packet may need this processor.
            rustix::thread::sched_yield();
            let after = now();
            self.state().yielded(after, after.duration_since(before));
            waker.wake_by_ref();
        }
    }
}

impl PauseState {
    fn received(&mut self, now: Instant, bytes: usize) {
        if let Some(since) = self.since.take() {
            let short = now.duration_since(since) <= LONGEST;
            self.short = if short { self.short.saturating_add(1) } else { 0 };
            self.moved = 0;
            if self.short >= MANY {
                // The competing threads are gone.
                self.yields_for = Duration::ZERO;
            }
        }
        self.moved += bytes;
    }

    fn next(&mut self, now: Instant) -> Next {
        match self.since {
            Some(_) if self.sleeps => {}
            Some(since) => self.sleeps = now.duration_since(since) > LONGEST,
            None => {
                self.since = Some(now);
                let alone = self.yields_until.is_none_or(|until| until <= now);
                self.sleeps = !alone || self.short < ENOUGH || self.moved > LITTLE;
            }
        }
        if self.sleeps { Next::Sleep } else { Next::Look }
    }

    /// Records that other threads ran for `span` during a yield.
    fn yielded(&mut self, now: Instant, span: Duration) {
        if span > BRIEF {
            self.sleeps = true;
            self.yields_for = (2 * self.yields_for).clamp(FIRST_YIELD, LAST_YIELD);
            self.yields_until = Some(now + self.yields_for);
        }
    }
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long the operating system took is its world's business"
    )]
    Instant::now()
}

/// The longest pause that is spent polling. A round trip between two sleeping virtual processors takes about 70 us.
const LONGEST: Duration = Duration::from_micros(100);
/// The number of consecutive short pauses after which polling starts.
const ENOUGH: u32 = 8;
/// The bytes per pause of an answer and its acknowledgement. Bulk transfers move more, and gain nothing from polling.
const LITTLE: usize = 1024;
/// The time in which a peer on the same processor answers.
const BRIEF: Duration = Duration::from_micros(50);
const FIRST_YIELD: Duration = Duration::from_millis(10);
const LAST_YIELD: Duration = Duration::from_secs(1);
/// The number of consecutive short pauses after which earlier competition is forgotten.
const MANY: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs pauses of these lengths, polled every 5 us, with `bytes` received after each. Returns the time spent
    /// polling in each.
    fn looked(pauses: &[Duration], bytes: usize) -> Vec<Duration> {
        let (mut state, mut now, step) = (PauseState::default(), super::now(), Duration::from_micros(5));
        let mut all = Vec::new();
        for &pause in pauses {
            let end = now + pause;
            let mut looked = Duration::ZERO;
            while now < end && state.next(now) == Next::Look {
                now += step;
                looked += step;
            }
            now = end.max(now);
            state.received(now, bytes);
            all.push(looked);
        }
        all
    }

    #[test]
    fn only_a_row_of_short_pauses_is_looked_through() {
        let (short, long) = (Duration::from_micros(60), Duration::from_millis(3));
        let mut pauses = vec![short; 12];
        pauses.extend([long, short, short]);
        let looked = looked(&pauses, 100);
        assert!(looked[..8].iter().all(Duration::is_zero), "{looked:?}");
        assert!(looked[8..12].iter().all(|&span| span == short), "{looked:?}");
        assert!(looked[12] > LONGEST && looked[12] < LONGEST + Duration::from_micros(11), "{looked:?}");
        assert!(looked[13..].iter().all(Duration::is_zero), "{looked:?}");
    }

    #[test]
    fn who_moves_much_sleeps() {
        let pauses = [Duration::from_micros(20); 40];
        assert!(looked(&pauses, LITTLE + 1).iter().all(Duration::is_zero));
        assert!(looked(&pauses, LITTLE).iter().any(|span| !span.is_zero()));
    }

    #[test]
    fn who_is_kept_from_the_processor_looks_ever_less() {
        let (mut state, mut now) = (PauseState::default(), super::now());
        let mut looks = 0;
        for _ in 0..10_000 {
            if state.next(now) == Next::Look {
                looks += 1;
                // Another thread has used its time slice.
                now += Duration::from_millis(3);
                state.yielded(now, Duration::from_millis(3));
            }
            now += Duration::from_micros(20);
            state.received(now, 100);
        }
        // 0.2 s: polls after 10, 30, 70 and 150 ms.
        assert!((1..=5).contains(&looks), "{looks}");
    }
}
