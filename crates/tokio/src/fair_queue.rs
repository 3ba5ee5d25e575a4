//! The queue of messages that wait for room in the send buffer of an association. The queue is first come, first
//! served, so that small messages cannot overtake a large message again and again.
//!
//! Implements no protocol rule.

use std::task::{Context, Waker};

/// The waiting messages in order. Each has a ticket, which is a number that identifies it, and the waker of its task.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    next: u32,
    waiting: Vec<(u32, Waker)>,
}

impl FairQueue {
    /// Returns true if the message with this ticket is the first in the queue, or if the queue is empty.
    pub(crate) fn is_next(&self, ticket: Option<u32>) -> bool {
        self.waiting.first().is_none_or(|&(first, _)| Some(first) == ticket)
    }

    /// Returns whether no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a message to the queue, unless `ticket` is already in the queue. Stores the waker of the calling task, and
    /// returns the message's ticket.
    pub(crate) fn wait(&mut self, ticket: Option<u32>, cx: &Context<'_>) -> u32 {
        let entry = self.waiting.iter_mut().find(|(other, _)| Some(*other) == ticket);
        if let Some((queued, waker)) = entry {
            waker.clone_from(cx.waker());
            return *queued;
        }
        let ticket = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.push((ticket, cx.waker().clone()));
        ticket
    }

    /// Removes a ticket from the queue, because its message was accepted or its task gave up. If it was the first
    /// ticket, wakes the next task.
    pub(crate) fn leave(&mut self, ticket: u32) {
        let was_first = self.is_next(Some(ticket));
        self.waiting.retain(|(other, _)| *other != ticket);
        if was_first {
            self.wake_first();
        }
    }

    /// Wakes the first waiting task, because the send buffer has room.
    pub(crate) fn wake_first(&self) {
        if let Some((_, waker)) = self.waiting.first() {
            waker.wake_by_ref();
        }
    }

    /// Wakes all waiting tasks, because nothing more can be sent.
    pub(crate) fn wake_all(&self) {
        for (_, waker) in &self.waiting {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_queue_is_first_in_first_out_and_leaving_wakes_the_next() {
        let counts: [Arc<Count>; 3] = Default::default();
        let wakers = counts.clone().map(Waker::from);
        let mut queue = FairQueue::default();
        assert!(queue.is_next(None), "nobody is before");
        let tickets: Vec<u32> =
            wakers.iter().map(|waker| queue.wait(None, &Context::from_waker(waker))).collect();
        assert!(!queue.is_next(None) && queue.is_next(Some(tickets[0])) && !queue.is_next(Some(tickets[1])));
        assert_eq!(
            queue.wait(Some(tickets[1]), &Context::from_waker(&wakers[1])),
            tickets[1],
            "no second place"
        );
        // Removing a ticket from the middle of the queue does not wake another task.
        queue.leave(tickets[1]);
        queue.leave(tickets[0]);
        let woken = counts.map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 0, 1]);
        queue.leave(tickets[2]);
        assert!(queue.is_empty());
    }
}
