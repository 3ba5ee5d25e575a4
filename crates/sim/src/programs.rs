//! Programs of hosts that share one processor: they run one at a time, and only while the network stack is idle.
//!
//! All tasks of a host are one program, except the tasks that receive from a socket, which are the host's network
//! stack. The stack runs as soon as it has something to do, as the kernel does in interrupts and system calls. A
//! program runs until all its tasks wait ("run to block"). After that, the program that was woken first runs. If a
//! program writes data and then closes, the program at the other end therefore runs only after both.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The programs that share a processor, and their runnable tasks.
#[derive(Default)]
pub(crate) struct Programs {
    /// Whether some hosts of the network share a processor.
    is_enabled: Cell<bool>,
    hosts: RefCell<Vec<u32>>,
    /// The runnable tasks, each with its host, in the order in which they were woken.
    runnable: RefCell<VecDeque<(u32, u32)>>,
    /// The host whose program ran last.
    current: Cell<Option<u32>>,
    /// The task that is being polled.
    polled: Cell<Option<u32>>,
}

impl Programs {
    /// Makes the programs of these hosts share a processor.
    pub(crate) fn share(&self, hosts: impl Iterator<Item = u32>) {
        self.hosts.borrow_mut().extend(hosts);
        self.is_enabled.set(true);
    }

    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.get()
    }

    /// Returns whether the program of `host` shares the processor.
    pub(crate) fn includes(&self, host: u32) -> bool {
        self.hosts.borrow().contains(&host)
    }

    /// Adds a runnable task of the program of `host`.
    pub(crate) fn add(&self, host: u32, task: u32) {
        self.runnable.borrow_mut().push_back((host, task));
    }

    /// Returns whether a program has a runnable task.
    #[inline]
    pub(crate) fn any_runnable(&self) -> bool {
        self.is_enabled() && !self.runnable.borrow().is_empty()
    }

    /// Removes and returns the task that runs next. This is a task of the program that ran last, if that program has a
    /// runnable task.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut runnable = self.runnable.borrow_mut();
        let goes_on = runnable.iter().position(|(host, _)| Some(*host) == self.current.get());
        let (host, task) = runnable.remove(goes_on.unwrap_or(0))?;
        self.current.set(Some(host));
        Some(task)
    }

    /// Records which task is being polled; `None` for the main future.
    pub(crate) fn begin_poll(&self, task: Option<u32>) {
        self.polled.set(task);
    }

    /// Returns the task that is being polled.
    pub(crate) fn polled(&self) -> Option<u32> {
        self.polled.get()
    }
}
