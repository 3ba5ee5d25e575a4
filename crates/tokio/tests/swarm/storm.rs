//! Drops the futures of calls after a few polls and repeats the calls, as a loop around `select!` does.

use crate::wait::pace;
use anabranch_base::Rng;
use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// Decides which futures are dropped before they complete, and counts the dropped futures. Also counts the secondary
/// network paths that SCTP has verified (RFC 9260 §5.4).
#[derive(Clone, Debug)]
pub(super) struct Storm {
    /// The seed of the random decisions to drop a pending call; `None` if no call is dropped.
    seed: Option<u64>,
    dropped: Arc<AtomicU64>,
    paths: Arc<AtomicU64>,
}

/// The source of random numbers by which a task decides when to drop a future; `None` if no futures are dropped. It
/// stores only the seed of the next draw, so that it adds little to the measured memory.
#[derive(Debug)]
pub(super) struct Chances(Option<NonZeroU64>);

impl Chances {
    pub(super) fn fork(&self, name: &str) -> Self {
        Self(self.0.and_then(|seed| NonZeroU64::new(Rng::new(seed.get()).fork(name).next_u64())))
    }

    fn draw(&mut self) -> Option<Rng> {
        let mut rng = Rng::new(self.0?.get());
        self.0 = Some(NonZeroU64::new(rng.next_u64()).unwrap_or(NonZeroU64::MIN));
        Some(rng)
    }

    /// Draws how often the next call may be polled again after its first poll; `None` if there is no limit.
    fn polls(&mut self) -> Option<u64> {
        self.draw().map(|mut rng| rng.below(5).saturating_sub(2))
    }
}

impl Storm {
    pub(super) fn new(seed: Option<u64>) -> Self {
        Self { seed, dropped: Arc::default(), paths: Arc::default() }
    }

    /// Returns the source of random numbers for the task with this name.
    pub(super) fn chances(&self, name: &str) -> Chances {
        Chances(self.seed.and_then(NonZeroU64::new)).fork(name)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn count_paths(&self, up: bool) {
        self.paths.fetch_add(u64::from(up), Ordering::Relaxed);
    }

    pub(super) fn paths(&self) -> u64 {
        self.paths.load(Ordering::Relaxed)
    }

    /// Returns the result of a call that is dropped at random points and repeated.
    pub(super) async fn call<F: Future>(
        &self,
        chances: &mut Chances,
        mut make: impl FnMut() -> F,
    ) -> F::Output {
        loop {
            let mut polls = chances.polls();
            {
                let mut future = pin!(make());
                if let Some(done) = poll_fn(|cx| poll(future.as_mut(), cx, &mut polls)).await {
                    return done;
                }
            }
            Box::pin(self.pause(chances)).await;
        }
    }

    /// Like [`call`](Self::call), but `make` gets a mutable reference to `of`.
    pub(super) async fn call_mut<O, T>(
        &self,
        chances: &mut Chances,
        of: &mut O,
        mut make: impl AsyncFnMut(&mut O) -> T,
    ) -> T {
        loop {
            let mut polls = chances.polls();
            {
                let mut future = pin!(make(of));
                if let Some(done) = poll_fn(|cx| poll(future.as_mut(), cx, &mut polls)).await {
                    return done;
                }
            }
            Box::pin(self.pause(chances)).await;
        }
    }

    async fn pause(&self, chances: &mut Chances) {
        let Some(mut rng) = chances.draw() else { return };
        self.dropped.fetch_add(1, Ordering::Relaxed);
        match rng.below(3) {
            0 => tokio::task::yield_now().await,
            _ => pace(Duration::from_micros(rng.below(8_000))).await,
        }
    }
}

/// Polls the future. Returns `None` if the future is still pending when its allowed number of polls is used up.
fn poll<F: Future>(
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
    polls: &mut Option<u64>,
) -> Poll<Option<F::Output>> {
    match (future.poll(cx), polls) {
        (Poll::Ready(done), _) => Poll::Ready(Some(done)),
        (Poll::Pending, Some(0)) => Poll::Ready(None),
        (Poll::Pending, Some(left)) => {
            *left -= 1;
            Poll::Pending
        }
        (Poll::Pending, None) => Poll::Pending,
    }
}
