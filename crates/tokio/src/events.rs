//! `Events`: the sequence of an association's events, for a program to read.

use crate::event::Event;
use crate::handle::Handle;
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A [`Stream`] of the events of an association from its start, in the order in which they occurred. An association has
/// one queue of events, and each event goes to the first task that takes it.
///
/// The queue holds at most 256 events. Until [`Association::events`](crate::Association::events) is called, it holds at
/// most 16. The undelivered messages in these events together have at most as many bytes as the send buffer. If more
/// events occur, the oldest events are lost, and [`Event::Lagged`] reports how many.
#[derive(Debug)]
pub struct Events {
    pub(crate) handle: Arc<Handle>,
}

impl Events {
    /// Waits for the next event. Returns `None` after [`Event::Closed`].
    ///
    /// Cancel-safe: if the future is dropped before it is ready, no event has been taken.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&self, cx: &Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.handle.shared().lock();
        match state.events(self.handle.id()) {
            Some(events) => events.poll(cx),
            None => Poll::Ready(None),
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        Poll::Ready(ready!(self.poll_event(cx)))
    }
}
