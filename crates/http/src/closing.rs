//! The end of a session whose peer is slow, and of what was on a stream.
//!
//! A send buffer takes all of a large answer at once, and the answer may then
//! be on its way for minutes. That nothing more is written does not mean that
//! nothing moves, and an end that does not wait takes from the peer what it was
//! promised. Who takes nothing of what was sent is not waited for.

use anabranch_base::time::Duration;
use anabranch_transport::{Session, Stream};
use anabranch_world::{Timer, World};
use std::future::poll_fn;
use std::task::Poll;

/// Whether the peer acknowledges what was sent, from one look to the next.
#[derive(Debug, Default)]
pub struct AckProgress {
    /// Bytes that it had not acknowledged at the last look.
    unacknowledged: u64,
}

impl AckProgress {
    /// Whether something has been acknowledged since the last look. What was written in between counts as well.
    pub fn is_made<N: Session>(&mut self, session: &N) -> bool {
        let unacknowledged = session.unacknowledged();
        unacknowledged != std::mem::replace(&mut self.unacknowledged, unacknowledged)
    }
}

/// Closes `session` in good order, as long as the peer takes what is left; else at once.
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

/// Whether a reset of the stream (RFC 6525) is done within `span`. What is unread would keep the peer from
/// coming to an end with it, so it is read.
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

/// How long a peer that takes nothing may take for the end of a session.
pub const CLOSING: Duration = Duration::from_secs(5);
