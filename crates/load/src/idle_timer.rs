//! A timeout for waits without progress.

use anabranch_base::time::{Duration, Instant};
use anabranch_world::{Timer, World};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// A timer that fires after `span` without progress; without a `span`, it never fires.
///
/// Progress does not reset the timer, because setting a timer costs more than reading data from a stream. When the
/// timer fires, it is set again if there was progress meanwhile.
pub(crate) struct IdleTimer<W: World> {
    world: W,
    timer: W::Timer,
    armed: bool,
    span: Option<Duration>,
}

impl<W: World> IdleTimer<W> {
    pub(crate) fn new(world: &W, span: impl Into<Option<Duration>>) -> Self {
        Self { world: world.clone(), timer: world.timer(), armed: false, span: span.into() }
    }

    /// Waits for the result of `poll`, and returns it. Returns `None` when `span` has passed since the last progress.
    /// `last_progress` is the time of the last progress.
    pub(crate) async fn wait<T>(
        &mut self,
        last_progress: Instant,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        poll_fn(|cx| match poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll(last_progress, cx).map(|()| None),
        })
        .await
    }

    /// Returns `Ready` when `span` has passed since `last_progress`, the time of the last progress.
    pub(crate) fn poll(&mut self, last_progress: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Some(span) = self.span else { return Poll::Pending };
        loop {
            if !self.armed {
                if last_progress + span <= self.world.now() {
                    return Poll::Ready(());
                }
                self.timer.set(Some(last_progress + span));
                self.armed = true;
            }
            if self.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.armed = false;
        }
    }
}
