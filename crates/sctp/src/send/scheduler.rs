//! Which message is cut next.
//!
//! Without interleaving (RFC 8260) a message that has been begun is finished
//! first: its fragments carry consecutive TSNs. Streams take turns between
//! messages only.

use crate::config::SchedulerKind;
use crate::streams::Streams;
use std::collections::VecDeque;

/// Messages waiting to be sent, by their number in the queue.
#[derive(Debug)]
pub(crate) enum Scheduler {
    /// In the order of `send`.
    Fcfs(VecDeque<u32>),
    /// A message of each stream in turn.
    RoundRobin {
        /// Streams with something waiting; the first is being served.
        ready: VecDeque<u16>,
        /// Their messages.
        waiting: Streams<VecDeque<u32>>,
    },
}

impl Scheduler {
    pub(crate) fn new(kind: SchedulerKind) -> Self {
        match kind {
            SchedulerKind::Fcfs => Self::Fcfs(VecDeque::new()),
            SchedulerKind::RoundRobin => Self::RoundRobin { ready: VecDeque::new(), waiting: Streams::new() },
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, stream: u16, message: u32) {
        match self {
            Self::Fcfs(queue) => queue.push_back(message),
            Self::RoundRobin { ready, waiting } => {
                let slot = waiting.slot(stream, VecDeque::new);
                let queue = waiting.at(slot);
                if queue.is_empty() {
                    ready.push_back(stream);
                }
                queue.push_back(message);
            }
        }
    }

    /// The message that is being cut.
    #[inline]
    pub(crate) fn head(&self) -> Option<u32> {
        match self {
            Self::Fcfs(queue) => queue.front().copied(),
            Self::RoundRobin { ready, waiting } => {
                waiting.get(*ready.front()?).and_then(|queue| queue.front().copied())
            }
        }
    }

    /// The head has been cut to its end.
    #[inline]
    pub(crate) fn pop(&mut self) {
        match self {
            Self::Fcfs(queue) => {
                queue.pop_front();
            }
            Self::RoundRobin { ready, waiting } => {
                let Some(stream) = ready.pop_front() else {
                    return;
                };
                if let Some(slot) = waiting.find(stream) {
                    let queue = waiting.at(slot);
                    queue.pop_front();
                    if !queue.is_empty() {
                        ready.push_back(stream);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_take_turns_or_do_not() {
        for (kind, want) in
            [(SchedulerKind::Fcfs, [1, 2, 3, 4, 5]), (SchedulerKind::RoundRobin, [1, 3, 5, 2, 4])]
        {
            let mut scheduler = Scheduler::new(kind);
            for (stream, message) in [(7, 1), (7, 2), (9, 3), (9, 4), (400, 5)] {
                scheduler.push(stream, message);
            }
            let order: Vec<_> = std::iter::from_fn(|| {
                let head = scheduler.head()?;
                scheduler.pop();
                Some(head)
            })
            .collect();
            assert_eq!(order, want);
        }
    }
}
