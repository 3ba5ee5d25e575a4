//! Calls that are dropped after a few polls and made anew, as a loop around `select!` does.

use anabranch_base::Rng;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep;

/// Whether calls are dropped, and what was counted.
#[derive(Clone, Debug)]
pub(super) struct Storm {
    on: bool,
    dropped: Arc<AtomicU64>,
    paths: Arc<AtomicU64>,
}

impl Storm {
    pub(super) fn new(on: bool) -> Self {
        Self { on, dropped: Arc::default(), paths: Arc::default() }
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

    /// What a call comes to that is dropped at random points and made anew.
    pub(super) async fn call<F: Future>(&self, rng: &mut Rng, mut make: impl FnMut() -> F) -> F::Output {
        loop {
            let polls = rng.below(5).saturating_sub(2);
            if let Some(done) = self.some(make(), polls).await {
                return done;
            }
            self.pause(rng).await;
        }
    }

    /// The same of a call that borrows what it is a call of.
    pub(super) async fn call_mut<O, T>(
        &self,
        rng: &mut Rng,
        of: &mut O,
        mut make: impl AsyncFnMut(&mut O) -> T,
    ) -> T {
        loop {
            let polls = rng.below(5).saturating_sub(2);
            if let Some(done) = self.some(make(of), polls).await {
                return done;
            }
            self.pause(rng).await;
        }
    }

    /// `None` when it was pending after `polls` more polls than the first.
    async fn some<T>(&self, future: impl Future<Output = T>, mut polls: u64) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.on && polls == 0 => Poll::Ready(None),
            Poll::Pending => {
                polls = polls.saturating_sub(1);
                Poll::Pending
            }
        })
        .await
    }

    async fn pause(&self, rng: &mut Rng) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        match rng.below(3) {
            0 => tokio::task::yield_now().await,
            _ => sleep(Duration::from_micros(rng.below(8_000))).await,
        }
    }
}
