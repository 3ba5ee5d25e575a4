//! A lock that waiting tasks acquire in the order in which they requested it.
//!
//! A server with one process per client (thttpd, or Apache's child processes) works on only one request of a connection
//! at a time. This lock reproduces that behaviour.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A fair lock between the tasks of a session.
#[derive(Debug, Default)]
pub(super) struct FifoLock {
    /// The tickets of the tasks that hold the lock or wait for it, in the order in which the tasks drew them. The first
    /// ticket holds the lock. The queue is created with the first ticket, because most sessions never draw one.
    queue: OnceCell<Rc<RefCell<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    tickets: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

/// A ticket in the queue of the lock. Its owner holds the lock once [`FifoLock::lock`] has returned the ticket.
/// Dropping the ticket releases the lock.
#[derive(Debug)]
pub(super) struct FifoGuard {
    ticket: u64,
    queue: Rc<RefCell<Queue>>,
}

impl FifoLock {
    /// Waits for the lock.
    pub(super) async fn lock(&self) -> FifoGuard {
        let shared = self.queue.get_or_init(Rc::default);
        let turn = {
            let mut queue = shared.borrow_mut();
            let ticket = queue.next;
            queue.next += 1;
            queue.tickets.insert(ticket, None);
            FifoGuard { ticket, queue: shared.clone() }
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

impl Drop for FifoGuard {
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
