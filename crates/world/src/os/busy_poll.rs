//! Polls for packets for a short time before the thread sleeps.
//!
//! In a request-response exchange, the next packet often arrives before a sleeping processor could wake up. The
//! processor of a virtual machine takes even longer, because it gives up its physical processor while it sleeps.
//!
//! A pause is a time in which no task of the thread can run. In a pause, the thread polls for a moment if several
//! pauses in a row were short and little data was transferred since the last of them. After a long pause, or if other
//! threads need the processor, the thread sleeps without polling. A thread that transfers much data also sleeps without
//! polling, because pauses do not slow it down. A thread whose pauses are all long never polls.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// The state from which the event loop decides whether to poll or to sleep.
#[derive(Debug, Default)]
pub(super) struct BusyPoll {
    /// The waker that makes the event loop run another iteration instead of sleeping.
    waker: OnceLock<Waker>,
    state: Mutex<PauseState>,
}

#[derive(Debug, Default)]
struct PauseState {
    /// The start of the current pause, a time in which no task can run; `None` outside a pause.
    since: Option<Instant>,
    /// Whether the thread sleeps for the rest of the current pause.
    sleeps: bool,
    /// The number of bytes sent and received since the last pause ended.
    bytes: usize,
    /// The number of consecutive pauses that were short.
    short_pauses: u32,
    /// Until this instant, the thread does not poll, because other threads needed the processor. If they need it again,
    /// the next period without polling is twice as long, up to a limit.
    yields_until: Option<Instant>,
    yields_for: Duration,
}

/// The action of the event loop when no task can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Sleep,
    Poll,
}

impl BusyPoll {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Stores `waker`, which makes the event loop run another iteration. Before this call, polling is disabled.
    pub(super) fn begin(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    fn state(&self) -> MutexGuard<'_, PauseState> {
        // No thread panics while it holds the lock, so the lock is never poisoned with inconsistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that one call received `bytes` bytes.
    pub(super) fn received(&self, bytes: usize) {
        if self.waker.get().is_some() {
            self.state().received(now(), bytes);
        }
    }

    /// Records that one call sent `bytes` bytes.
    pub(super) fn sent(&self, bytes: usize) {
        if self.waker.get().is_some() {
            self.state().bytes += bytes;
        }
    }

    /// Called when the event loop is about to sleep because no task can run.
    pub(super) fn about_to_sleep(&self) {
        let Some(waker) = self.waker.get() else { return };
        let before = now();
        if self.state().next(before) == Next::Poll {
            // The program that will send the next packet may need this processor, so this thread yields to it.
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
            self.short_pauses = if short { self.short_pauses.saturating_add(1) } else { 0 };
            self.bytes = 0;
            if self.short_pauses >= MANY {
                // The next period without polling is short again: it lasts `FIRST_YIELD`.
                self.yields_for = Duration::ZERO;
            }
        }
        self.bytes += bytes;
    }

    fn next(&mut self, now: Instant) -> Next {
        match self.since {
            Some(_) if self.sleeps => {}
            Some(since) => self.sleeps = now.duration_since(since) > LONGEST,
            None => {
                self.since = Some(now);
                let alone = self.yields_until.is_none_or(|until| until <= now);
                self.sleeps = !alone || self.short_pauses < ENOUGH || self.bytes > LITTLE;
            }
        }
        if self.sleeps { Next::Sleep } else { Next::Poll }
    }

    /// Records that the call that yielded the processor to other threads took `span`.
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

/// The longest pause for which the thread polls. A round trip between two sleeping virtual processors takes about 70
/// us.
const LONGEST: Duration = Duration::from_micros(100);
/// The number of consecutive short pauses after which polling starts.
const ENOUGH: u32 = 8;
/// Polling starts only if at most this many bytes were transferred between two pauses. An answer and its
/// acknowledgement have fewer bytes. Bulk transfers have more bytes, and gain nothing from polling.
const LITTLE: usize = 1024;
/// A yield of at most this length does not count as competition for the processor. A peer on the same processor needs
/// about this time to send its answer.
const BRIEF: Duration = Duration::from_micros(50);
const FIRST_YIELD: Duration = Duration::from_millis(10);
const LAST_YIELD: Duration = Duration::from_secs(1);
/// After this many consecutive short pauses, the next period without polling lasts only `FIRST_YIELD` again.
const MANY: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates pauses of the lengths `pauses`. In a pause, the thread polls every 5 us; after each pause, `bytes`
    /// bytes are received. Returns the time spent polling in each pause.
    fn polled(pauses: &[Duration], bytes: usize) -> Vec<Duration> {
        let (mut state, mut now, step) = (PauseState::default(), super::now(), Duration::from_micros(5));
        let mut all = Vec::new();
        for &pause in pauses {
            let end = now + pause;
            let mut polled = Duration::ZERO;
            while now < end && state.next(now) == Next::Poll {
                now += step;
                polled += step;
            }
            now = end.max(now);
            state.received(now, bytes);
            all.push(polled);
        }
        all
    }

    #[test]
    fn polling_starts_after_consecutive_short_pauses() {
        let (short, long) = (Duration::from_micros(60), Duration::from_millis(3));
        let mut pauses = vec![short; 12];
        pauses.extend([long, short, short]);
        let polled = polled(&pauses, 100);
        assert!(polled[..8].iter().all(Duration::is_zero), "{polled:?}");
        assert!(polled[8..12].iter().all(|&span| span == short), "{polled:?}");
        assert!(polled[12] > LONGEST && polled[12] < LONGEST + Duration::from_micros(11), "{polled:?}");
        assert!(polled[13..].iter().all(Duration::is_zero), "{polled:?}");
    }

    #[test]
    fn a_busy_sender_sleeps() {
        let pauses = [Duration::from_micros(20); 40];
        assert!(polled(&pauses, LITTLE + 1).iter().all(Duration::is_zero));
        assert!(polled(&pauses, LITTLE).iter().any(|span| !span.is_zero()));
    }

    #[test]
    fn polling_backs_off_while_others_need_the_processor() {
        let (mut state, mut now) = (PauseState::default(), super::now());
        let mut looks = 0;
        for _ in 0..10_000 {
            if state.next(now) == Next::Poll {
                looks += 1;
                // During the yield, another thread ran for its whole time slice.
                now += Duration::from_millis(3);
                state.yielded(now, Duration::from_millis(3));
            }
            now += Duration::from_micros(20);
            state.received(now, 100);
        }
        // The test lasts 0.2 s. Because of the back-off, the thread polls only at 10, 30, 70 and 150 ms.
        assert!((1..=5).contains(&looks), "{looks}");
    }
}
