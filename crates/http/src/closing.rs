//! The end of a session whose peer is slow.
//!
//! A send buffer takes all of a large answer at once, and the answer may then
//! be on its way for minutes. That nothing more is written does not mean that
//! nothing moves, and an end that does not wait takes from the peer what it was
//! promised. Who takes nothing of what was sent is not waited for.

use anabranch_base::time::Duration;
use anabranch_transport::Session;
use anabranch_world::{Timer, World};
use std::future::poll_fn;
use std::task::Poll;

/// What the peer has taken of what was sent, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Uptake {
    /// What it had not acknowledged at the last look.
    left: u64,
}

impl Uptake {
    /// Whether something has been taken since the last look. What was written in between counts as well: it moves, too.
    pub(crate) fn goes_on<N: Session>(&mut self, session: &N) -> bool {
        let left = session.unacknowledged();
        left != std::mem::replace(&mut self.left, left)
    }
}

/// Closes `session` in good order, as long as the peer takes what is left; else at once.
pub(crate) async fn close<W: World, N: Session>(world: &W, session: &N) {
    session.close();
    let mut uptake = Uptake::default();
    uptake.goes_on(session);
    let mut timer = world.timer();
    timer.set(Some(world.now() + CLOSING));
    poll_fn(|cx| {
        while session.poll_closed(cx).is_pending() {
            if timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if !uptake.goes_on(session) {
                session.abort();
                return Poll::Ready(());
            }
            timer.set(Some(world.now() + CLOSING));
        }
        Poll::Ready(())
    })
    .await;
}

/// How long a peer that takes nothing may take for the end of a session.
pub(crate) const CLOSING: Duration = Duration::from_secs(5);
