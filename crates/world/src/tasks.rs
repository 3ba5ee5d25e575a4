//! Sets of tasks that end with their owner, for example the sessions of a server or the streams of a session.

use crate::World;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// A set of tasks. Finished tasks leave the set; dropping the set cancels the tasks that still run.
pub struct Tasks<W: World> {
    world: W,
    running: RefCell<BTreeMap<u64, W::Task<()>>>,
    /// The list of finished tasks. It is created with the first task, to save memory: a server may have a set of tasks
    /// for each of thousands of sessions, and many sessions never start a task.
    finished: OnceCell<Rc<Finished>>,
    next: Cell<u64>,
}

/// The ids of finished tasks that have not been removed from the set [`Tasks`] yet.
#[derive(Debug, Default)]
struct Finished {
    tasks: RefCell<Vec<u64>>,
    waiting: RefCell<Option<Waker>>,
}

/// A task that reports when it has finished. The future is boxed for two reasons. Executors allocate tasks in steps of
/// 128 bytes, and a boxed future fits the smallest step. The executor's code is also compiled only once, and not once
/// for each type of future.
struct CountedTask {
    task: Pin<Box<dyn Future<Output = ()>>>,
    finished: Rc<Finished>,
    id: u64,
}

impl Future for CountedTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.task.as_mut().poll(cx));
        self.finished.tasks.borrow_mut().push(self.id);
        if let Some(waker) = self.finished.waiting.take() {
            waker.wake();
        }
        Poll::Ready(())
    }
}

impl<W: World> Tasks<W> {
    /// Creates an empty set, whose tasks run in `world`.
    pub fn new(world: W) -> Self {
        Self { world, running: RefCell::default(), finished: OnceCell::new(), next: Cell::new(0) }
    }

    /// Starts a task of the set. `name` appears in reports that list what each task waits for.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let id = self.next.replace(self.next.get() + 1);
        let finished = self.finished.get_or_init(Rc::default).clone();
        let handle = self.world.spawn(name, CountedTask { task: Box::pin(task), finished, id });
        self.count();
        self.running.borrow_mut().insert(id, handle);
    }

    /// Returns the number of tasks that still run.
    pub fn count(&self) -> usize {
        let mut running = self.running.borrow_mut();
        if let Some(finished) = self.finished.get() {
            for done in finished.tasks.take() {
                running.remove(&done);
            }
            // A `BTreeMap` keeps its root node when it becomes empty. Replacing the map frees this node. Otherwise each
            // of thousands of sessions would keep a node.
            if running.is_empty() {
                *running = BTreeMap::new();
            }
        }
        running.len()
    }

    /// Waits until all tasks of the set have finished.
    pub async fn wait_idle(&self) {
        poll_fn(|cx| self.poll_idle(cx)).await;
    }

    /// Ready when all tasks of the set have finished. Otherwise the caller is woken when the next task finishes.
    pub fn poll_idle(&self, cx: &Context<'_>) -> Poll<()> {
        if self.count() == 0 {
            return Poll::Ready(());
        }
        // A task is running, so `finished` exists already.
        let finished = self.finished.get_or_init(Rc::default);
        *finished.waiting.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}
