//! Reads and discards data on a stream on which no further request is served.
//!
//! Data after a refused head is not a request, even if it looks like one. The unread rest of a body is not a request
//! either. Closing a connection with unread bytes could cost the client the response (RFC 9112 §9.6). Therefore such
//! data is read and discarded. If the body has a declared end, an SCTP stream then serves the next request. Otherwise
//! the stream is released when the client resets it (RFC 6525) or the association ends.
//!
//! Data without a declared end is read for at most as long as the server waits for the head of a request.

use super::Activity;
use super::smuggling_guard::SmugglingGuard;
use anabranch_base::time::Instant;
use anabranch_transport::Stream;
use anabranch_world::World;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

/// Reads and discards data until the next request can begin, or until the client or the server ends the stream. Data
/// without a declared end is discarded only until the time `limit`. Data that arrives later counts as an incomplete
/// head, so the head timeout closes the session.
pub(super) async fn drain<W: World, T: Stream>(
    world: &W,
    stream: &mut T,
    guard: &mut SmugglingGuard,
    activity: &Activity,
    limit: Option<Instant>,
) {
    let (number, began) = (stream.number(), world.now());
    let mut overdue = false;
    poll_fn(|cx| {
        if activity.poll_stopping(number, cx).is_ready() {
            return Poll::Ready(());
        }
        if !overdue {
            let late = limit.is_some_and(|limit| world.now() > limit);
            if ready!(poll_drain(cx, stream, guard, late)) {
                return Poll::Ready(());
            }
            overdue = true;
            // From now on, the drained data counts as an incomplete head that began at `began`, so the head timeout
            // applies.
            activity.head_begins(number, began);
        }
        Poll::Pending
    })
    .await;
    activity.forget(number);
}

/// Completes with true when draining is finished, and with false when it has exceeded its time limit.
fn poll_drain<T: Stream>(
    cx: &mut Context<'_>,
    stream: &mut T,
    guard: &mut SmugglingGuard,
    late: bool,
) -> Poll<bool> {
    let mut buffer = [0; 4096];
    for _ in 0..TURNS {
        // Read no byte beyond the end of the body, because the next request begins there.
        let most = guard.left().map_or(buffer.len(), |left| buffer.len().min(left.max(1) as usize));
        match stream.poll_read(cx, &mut buffer[..most]) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(true),
            Poll::Ready(Ok(read)) if guard.left().is_some() => {
                guard.pass(&buffer[..read], |_| {});
                if guard.is_between() {
                    return Poll::Ready(true);
                }
            }
            Poll::Ready(Ok(_)) if late => return Poll::Ready(false),
            Poll::Ready(Ok(_)) => {}
        }
    }
    // Let other tasks run before the next read.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The maximum number of reads before other tasks run.
const TURNS: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeStream, activity, world};
    use super::*;
    use crate::head::Strictness;
    use anabranch_base::Budget;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn a_drained_stream_is_removed() {
        let (_network, world) = world();
        let mut stream = FakeStream::default();
        let ended = stream.ended.clone();
        let mut guard = SmugglingGuard::new(8_192, Strictness::Strictly);
        guard.refuse();
        let activity = activity(&Budget::new(1 << 20, 1));
        let mut draining = pin!(drain(&world, &mut stream, &mut guard, &activity, None));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(draining.as_mut().poll(&mut cx).is_pending());
        assert_eq!(activity.streams.borrow().len(), 1);
        ended.set(true);
        assert!(draining.as_mut().poll(&mut cx).is_ready());
        assert!(activity.streams.borrow().is_empty());
    }
}
