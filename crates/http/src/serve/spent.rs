//! A stream on which nothing more is served, while the client may still be sending.
//!
//! What comes after a head that was refused, or is left of a body that nobody read, is no request, whatever it looks like;
//! and closing with bytes unread takes the answer from the client (RFC 9112 §9.6). So it is read and thrown away. A stream
//! of an association is given back where a body ends as it said, else when the client lets it begin anew (RFC 6525), or
//! with its association.

use super::Activity;
use super::screen::Screen;
use anabranch_transport::Stream;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Reads until the next request can begin, or the client or the server ends.
pub(super) async fn spend<T: Stream>(stream: &mut T, screen: &mut Screen, activity: &Activity) {
    let number = stream.number();
    poll_fn(|cx| {
        if activity.poll_ending(number, cx).is_ready() {
            return Poll::Ready(());
        }
        poll_spend(cx, stream, screen)
    })
    .await;
    activity.forget(number);
}

fn poll_spend<T: Stream>(cx: &mut Context<'_>, stream: &mut T, screen: &mut Screen) -> Poll<()> {
    let mut buffer = [0; 4096];
    for _ in 0..TURNS {
        // Not a byte of what follows a body.
        let most = screen.left().map_or(buffer.len(), |left| buffer.len().min(left.max(1) as usize));
        match stream.poll_read(cx, &mut buffer[..most]) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
            Poll::Ready(Ok(read)) => {
                if screen.left().is_some() && screen.pass(&buffer[..read]).is_ok() && screen.is_between() {
                    return Poll::Ready(());
                }
            }
        }
    }
    // Others have waited long enough.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Reads before others have their turn.
const TURNS: usize = 16;
