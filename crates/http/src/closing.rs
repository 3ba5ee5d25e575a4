//! Closes a session without truncating data that a slow peer has not acknowledged yet. Also waits until the reset of a
//! stream completes.
//!
//! A send buffer accepts all of a large response at once, and the response may then be in flight for minutes. Therefore
//! data may still be in flight after the application's last write. Closing the session without waiting would truncate
//! the response. If the peer acknowledges nothing for a while, the session is aborted.

use anabranch_base::time::Duration;
use anabranch_transport::{Session, Stream};
use anabranch_world::{Timer, World};
use std::future::poll_fn;
use std::task::Poll;

/// Detects whether the number of unacknowledged bytes changes between two checks.
#[derive(Debug, Default)]
pub struct AckProgress {
    /// The number of unacknowledged bytes at the last check.
    unacknowledged: u64,
}

impl AckProgress {
    /// Returns whether the number of unacknowledged bytes has changed since the last call. The number changes when the
    /// peer acknowledges data, and also when data is written.
    pub fn is_made<N: Session>(&mut self, session: &N) -> bool {
        let unacknowledged = session.unacknowledged();
        unacknowledged != std::mem::replace(&mut self.unacknowledged, unacknowledged)
    }
}

/// Closes `session` gracefully as long as the peer keeps acknowledging the remaining data. Otherwise aborts `session`.
pub async fn close<W: World, N: Session>(world: &W, session: &N) {
    session.close();
    let mut ack_progress = AckProgress::default();
    ack_progress.is_made(session);
    let mut timer = world.timer();
    timer.set(Some(world.now() + CLOSING));
    poll_fn(|cx| {
        while session.poll_closed(cx).is_pending() {
            if timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if !ack_progress.is_made(session) {
                session.abort();
                return Poll::Ready(());
            }
            timer.set(Some(world.now() + CLOSING));
        }
        Poll::Ready(())
    })
    .await;
}

/// Returns whether a reset of the stream (RFC 6525) completes within `span`. Reads and discards unread data, which
/// would otherwise keep the peer from completing the reset.
pub async fn reset_done<W: World, T: Stream>(world: &W, stream: &mut T, span: Duration) -> bool {
    let done = poll_fn(|cx| {
        let mut buffer = [0; 4096];
        loop {
            if let Poll::Ready(done) = stream.poll_reset(cx) {
                return Poll::Ready(done);
            }
            match stream.poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(1..)) => {}
                _ => return Poll::Pending,
            }
        }
    });
    world.timeout(span, done).await == Some(true)
}

/// A closing session is aborted if its peer acknowledges nothing for this time. Also the maximum time to wait until a
/// stream reset completes.
pub const CLOSING: Duration = Duration::from_secs(5);
