//! Looking for packets once more before sleep.
//!
//! Where messages go there and back, the next packet comes sooner than a
//! processor that has been put to sleep can be woken: a virtual one leaves its
//! host and must be brought back for each. So a world whose last pauses were
//! all short, and which moved little between them, keeps looking for a moment
//! instead. One longer pause and it sleeps at once again; so does a world that
//! moves much, for which a pause is no matter, and one beside which others want
//! the processor. A world with nothing to do never looks.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// What a world knows of its pauses.
#[derive(Debug, Default)]
pub(super) struct BusyPoll {
    /// Has the event loop go round once more.
    waker: OnceLock<Waker>,
    state: Mutex<PauseState>,
}

#[derive(Debug, Default)]
struct PauseState {
    /// When the pause began, while there is one.
    since: Option<Instant>,
    /// Whether the pause is slept through.
    sleeps: bool,
    /// Bytes sent and received since the last one.
    moved: usize,
    /// Pauses in a row that were short.
    short: u32,
    /// Others want the processor: until then there is no looking, and the next time for twice as long.
    yields_until: Option<Instant>,
    yields_for: Duration,
}

/// What to do where there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Sleep,
    Look,
}

impl BusyPoll {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From here on the event loop can be told to go round once more.
    pub(super) fn begin(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    fn state(&self) -> MutexGuard<'_, PauseState> {
        // Nobody panics with it in hand.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `bytes` that have come in one call.
    pub(super) fn received(&self, bytes: usize) {
        if self.waker.get().is_some() {
            self.state().received(now(), bytes);
        }
    }

    /// Counts `bytes` that have been sent in one call.
    pub(super) fn sent(&self, bytes: usize) {
        if self.waker.get().is_some() {
            self.state().moved += bytes;
        }
    }

    /// The event loop is about to sleep: nothing is to be done.
    pub(super) fn about_to_sleep(&self) {
        let Some(waker) = self.waker.get() else { return };
        let before = now();
        if self.state().next(before) == Next::Look {
            // Whoever is to answer may be waiting for this very processor.
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
                // Whoever it was has gone.
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

    /// The processor was given away for `span`.
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

/// A pause that is looked through. Two virtual processors that sleep take some 70 us for a message there and back.
const LONGEST: Duration = Duration::from_micros(100);
/// Pauses in a row that are no chance.
const ENOUGH: u32 = 8;
/// More than an answer and what acknowledges it: those who move files are in no such hurry.
const LITTLE: usize = 1024;
/// What a peer on the same processor takes for an answer.
const BRIEF: Duration = Duration::from_micros(50);
const FIRST_YIELD: Duration = Duration::from_millis(10);
const LAST_YIELD: Duration = Duration::from_secs(1);
/// Pauses in a row after which others are forgotten.
const MANY: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs pauses of these lengths, each looked at every 5 us, with so many bytes between; how long it looked.
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
                // Another has had its slice.
                now += Duration::from_millis(3);
                state.yielded(now, Duration::from_millis(3));
            }
            now += Duration::from_micros(20);
            state.received(now, 100);
        }
        // 0.2 s: after 10, 30, 70, 150 ms.
        assert!((1..=5).contains(&looks), "{looks}");
    }
}
