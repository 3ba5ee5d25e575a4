//! A turn that passes from one waiting task to the next, first come first served.
//!
//! A server with one process for each client (thttpd, Apache's children of
//! old) works on one request of a connection at a time; so does one with this.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Hands out turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Tickets in the order they were drawn; the first has the turn. Most sessions never ask for one.
    queue: OnceCell<Rc<RefCell<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    tickets: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

/// A place in the queue, and the turn once [`Turns::take`] has returned it.
/// Dropping it passes the turn on.
#[derive(Debug)]
pub(super) struct Turn {
    ticket: u64,
    queue: Rc<RefCell<Queue>>,
}

impl Turns {
    /// Waits for the turn.
    pub(super) async fn take(&self) -> Turn {
        let shared = self.queue.get_or_init(Rc::default);
        let turn = {
            let mut queue = shared.borrow_mut();
            let ticket = queue.next;
            queue.next += 1;
            queue.tickets.insert(ticket, None);
            Turn { ticket, queue: shared.clone() }
        };
        std::future::poll_fn(|cx| {
            let mut queue = shared.borrow_mut();
            if queue.tickets.keys().next() == Some(&turn.ticket) {
                return Poll::Ready(());
            }
            queue.tickets.insert(turn.ticket, Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.queue.borrow_mut();
        queue.tickets.remove(&self.ticket);
        let first = queue.tickets.values_mut().next().and_then(Option::take);
        drop(queue);
        if let Some(waker) = first {
            waker.wake();
        }
    }
}
