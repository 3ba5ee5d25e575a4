//! The executor: runs tasks in first-in, first-out order on one thread.
//!
//! A task is a boxed future with a name. Waking a task appends it to the run queue, unless it is already there. A
//! *round* runs all tasks that were runnable when the round began. Dropping a [`Task`] cancels the task; [`Detach`]
//! lets it continue without its handle.
//!
//! No state of the executor is borrowed while a future is polled or dropped. A future may therefore spawn, cancel and
//! wake tasks.

use crate::programs::Programs;
use anabranch_world::Detach;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Identifies a task: its index, and the number of tasks that have used this index before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

/// The run queue, as a linked list of wakers: `last` is the task that was woken last, and each waker refers to the task
/// woken before it. `Waker` requires `Sync`. A lock, or even one locked instruction per packet, costs more than moving
/// the packet. The atomics are therefore only loaded and stored, without atomic read-modify-write operations. This is
/// sound because everything in a simulation happens on one thread.
struct RunQueue {
    /// The index of the task that was woken last, or [`NOBODY`].
    last: AtomicU32,
    /// True if more than one task is runnable. Also true if tasks remain from a round that ended early because the main
    /// future finished.
    several: AtomicBool,
}

struct TaskWaker {
    queue: Arc<RunQueue>,
    index: u32,
    /// If the task is queued: the index of the task woken before it, or [`NOBODY`]. Otherwise [`NOT_QUEUED`], or
    /// [`GONE`] if the task no longer exists.
    before: AtomicU32,
}

impl TaskWaker {
    fn new(queue: &Arc<RunQueue>, index: u32) -> Arc<Self> {
        Arc::new(Self { queue: queue.clone(), index, before: AtomicU32::new(NOT_QUEUED) })
    }

    #[inline]
    fn is_queued(&self) -> bool {
        self.before.load(Ordering::Relaxed) < GONE
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        if self.before.load(Ordering::Relaxed) == NOT_QUEUED {
            let last = self.queue.last.load(Ordering::Relaxed);
            self.before.store(last, Ordering::Relaxed);
            self.queue.last.store(self.index, Ordering::Relaxed);
            if last != NOBODY {
                self.queue.several.store(true, Ordering::Relaxed);
            }
        }
    }
}

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

struct TaskSlot {
    generation: u32,
    /// The task in this slot. `None` if the slot is free, or if its task ended while it was queued. In the second case
    /// the slot is freed when its turn in the queue comes.
    task: Option<TaskEntry>,
    /// The waker of the task in this slot or, if the slot is free, of the last task that used it.
    task_waker: Arc<TaskWaker>,
}

struct TaskEntry {
    owner: u32,
    name: &'static str,
    /// Whether the task has received from a socket, and thus belongs to the network stack of its host. Used only if
    /// hosts share a processor.
    is_stack: Cell<bool>,
    running: Rc<Running>,
}

/// The future of a task with its waker. This value is reference-counted, so that the executor can poll it without
/// moving it out of the slot.
struct Running {
    /// The future, which is borrowed while it is polled.
    future: RefCell<BoxedTask>,
    /// The task's waker, kept for all polls of the future. Cloning the waker for each poll would change its reference
    /// count.
    waker: Waker,
}

/// All tasks of one network.
pub(crate) struct Executor {
    queue: Arc<RunQueue>,
    slots: RefCell<Vec<TaskSlot>>,
    free: RefCell<Vec<u32>>,
    /// The waker of the main future. The main future itself is on the caller's stack.
    main: Arc<TaskWaker>,
    main_waker: Waker,
    /// Tasks that the last round did not poll, because the main future finished first. They run first in the next
    /// round.
    ahead: Cell<Vec<u32>>,
    /// The programs of hosts that share a processor.
    pub(crate) programs: Programs,
}

impl Executor {
    pub(crate) fn new() -> Self {
        let queue = Arc::new(RunQueue { last: AtomicU32::new(NOBODY), several: AtomicBool::new(false) });
        let main = TaskWaker::new(&queue, MAIN);
        let main_waker = Waker::from(main.clone());
        Self {
            queue,
            slots: RefCell::new(Vec::new()),
            free: RefCell::new(Vec::new()),
            main,
            main_waker,
            ahead: Cell::new(Vec::new()),
            programs: Programs::default(),
        }
    }

    /// Returns whether any task is runnable.
    #[inline]
    pub(crate) fn any_runnable(&self) -> bool {
        self.queue.last.load(Ordering::Relaxed) != NOBODY || self.queue.several.load(Ordering::Relaxed)
    }

    /// Makes the main future of the run runnable.
    pub(crate) fn wake_main(&self) {
        self.main.wake_by_ref();
    }

    /// Runs every task that is runnable now. If the main future finishes, returns true immediately.
    #[inline]
    pub(crate) fn run_round(&self, main: &mut Pin<&mut dyn Future<Output = ()>>) -> bool {
        if let Some(index) = self.take_only() {
            if index == MAIN {
                return self.poll_main(main);
            }
            self.poll_task(index);
            return false;
        }
        self.run_many(main)
    }

    /// Takes the only runnable task out of the queue. Returns `None` if no task or more than one is runnable.
    #[inline]
    fn take_only(&self) -> Option<u32> {
        if self.queue.several.load(Ordering::Relaxed) {
            return None;
        }
        let last = self.queue.last.load(Ordering::Relaxed);
        self.queue.last.store(NOBODY, Ordering::Relaxed);
        (last != NOBODY).then_some(last)
    }

    #[inline(never)]
    fn poll_main(&self, main: &mut Pin<&mut dyn Future<Output = ()>>) -> bool {
        self.main.before.store(NOT_QUEUED, Ordering::Relaxed);
        self.programs.begin_poll(None);
        main.as_mut().poll(&mut Context::from_waker(&self.main_waker)).is_ready()
    }

    #[inline(never)]
    fn run_many(&self, main: &mut Pin<&mut dyn Future<Output = ()>>) -> bool {
        let mut round = self.ahead.take();
        self.queue.several.store(false, Ordering::Relaxed);
        self.take_queue(&mut round);
        let mut finished = None;
        for (turn, &index) in round.iter().enumerate() {
            if index != MAIN {
                self.poll_task(index);
                continue;
            }
            if self.poll_main(main) {
                finished = Some(turn);
                break;
            }
        }
        let Some(turn) = finished else {
            round.clear();
            self.ahead.set(round);
            return false;
        };
        round.drain(..=turn);
        if !round.is_empty() {
            self.queue.several.store(true, Ordering::Relaxed);
        }
        self.ahead.set(round);
        true
    }

    /// Moves the tasks of the run queue to the end of `round`, in the order in which they were woken.
    #[inline]
    fn take_queue(&self, round: &mut Vec<u32>) {
        let slots = self.slots.borrow();
        let first = round.len();
        let mut index = self.queue.last.load(Ordering::Relaxed);
        self.queue.last.store(NOBODY, Ordering::Relaxed);
        while index != NOBODY {
            assert!(round.len() <= first + slots.len(), "a waker was used on another thread");
            round.push(index);
            let waker = if index == MAIN { &self.main } else { &slots[index as usize].task_waker };
            index = waker.before.load(Ordering::Relaxed);
        }
        round[first..].reverse();
    }

    #[inline(always)]
    fn poll_task(&self, index: u32) {
        if !self.programs.is_enabled() || !self.defer(index) {
            self.poll_now(index);
        }
    }

    /// If the task belongs to a program that shares a processor, makes the task wait for its turn and returns true.
    #[cold]
    fn defer(&self, index: u32) -> bool {
        let slots = self.slots.borrow();
        let program = slots[index as usize].task.as_ref();
        let program = program.filter(|task| !task.is_stack.get() && self.programs.includes(task.owner));
        let Some(task) = program else {
            self.programs.begin_poll(Some(index));
            return false;
        };
        self.programs.add(task.owner, index);
        true
    }

    /// Runs the next task of a program that shares a processor.
    #[cold]
    pub(crate) fn run_program(&self) {
        if let Some(index) = self.programs.take() {
            self.programs.begin_poll(Some(index));
            self.poll_now(index);
        }
    }

    /// Records that the task that is being polled belongs to the network stack of its host.
    #[cold]
    pub(crate) fn mark_stack(&self) {
        let slots = self.slots.borrow();
        let polled = self.programs.polled().and_then(|index| slots.get(index as usize));
        if let Some(task) = polled.and_then(|slot| slot.task.as_ref()) {
            task.is_stack.set(true);
        }
    }

    #[inline(always)]
    fn poll_now(&self, index: u32) {
        let slots = self.slots.borrow();
        let slot = &slots[index as usize];
        let Some(task) = &slot.task else {
            return self.free_slot(slot);
        };
        slot.task_waker.before.store(NOT_QUEUED, Ordering::Relaxed);
        let generation = slot.generation;
        let running = task.running.clone();
        drop(slots);
        // A future that is being polled cannot be polled again from within its own poll.
        let Ok(mut future) = running.future.try_borrow_mut() else { return };
        if future.as_mut().poll(&mut Context::from_waker(&running.waker)).is_ready() {
            drop(future);
            self.cancel(Key { index, generation });
        }
        // If the task has cancelled itself, its future is dropped when this function returns.
    }

    /// Frees the slot of an ended task when the task's turn in the queue comes.
    #[cold]
    fn free_slot(&self, slot: &TaskSlot) {
        slot.task_waker.before.store(GONE, Ordering::Relaxed);
        self.free.borrow_mut().push(slot.task_waker.index);
    }

    fn vacate(&self, slot: &mut TaskSlot) -> Option<TaskEntry> {
        slot.generation = slot.generation.wrapping_add(1);
        if !slot.task_waker.is_queued() {
            slot.task_waker.before.store(GONE, Ordering::Relaxed);
            self.free.borrow_mut().push(slot.task_waker.index);
        }
        slot.task.take()
    }

    /// Starts a task of the host `owner`; it first runs in the next round.
    fn spawn(&self, owner: u32, name: &'static str, future: BoxedTask) -> Key {
        let mut slots = self.slots.borrow_mut();
        let reused = self.free.borrow_mut().pop();
        let index = reused.unwrap_or_else(|| u32::try_from(slots.len()).unwrap_or(GONE));
        assert!(index < MAIN, "four thousand million tasks");
        let task_waker = TaskWaker::new(&self.queue, index);
        let waker = Waker::from(task_waker.clone());
        let running = Rc::new(Running { future: RefCell::new(future), waker });
        let task = Some(TaskEntry { owner, name, is_stack: Cell::new(false), running });
        task_waker.wake_by_ref();
        let generation = match slots.get_mut(index as usize) {
            Some(slot) => {
                slot.task = task;
                slot.task_waker = task_waker;
                slot.generation
            }
            None => {
                slots.push(TaskSlot { generation: 0, task, task_waker });
                0
            }
        };
        Key { index, generation }
    }

    fn cancel(&self, key: Key) {
        let mut slots = self.slots.borrow_mut();
        if occupant_at(&mut slots, key).is_some() {
            let gone = self.vacate(&mut slots[key.index as usize]);
            drop(slots);
            drop(gone);
        }
    }

    /// Cancels every task.
    pub(crate) fn clear(&self) {
        // Dropping a future may spawn another task, so the loop repeats until no task is left.
        loop {
            let mut slots = self.slots.borrow_mut();
            let alive = slots.iter_mut().filter(|slot| slot.task.is_some());
            let gone: Vec<_> = alive.map(|slot| self.vacate(slot)).collect();
            if gone.is_empty() {
                return;
            }
            drop(slots);
            drop(gone);
        }
    }

    /// Returns the host and the name of each task that has not ended.
    pub(crate) fn alive(&self) -> Vec<(u32, &'static str)> {
        let slots = self.slots.borrow();
        slots.iter().filter_map(|slot| slot.task.as_ref()).map(|o| (o.owner, o.name)).collect()
    }
}

fn occupant_at(slots: &mut [TaskSlot], key: Key) -> Option<&mut TaskEntry> {
    let slot = slots.get_mut(key.index as usize)?;
    if slot.generation == key.generation { slot.task.as_mut() } else { None }
}

/// The task index of the main future. Every other task has the index of its slot, but the main future is in no slot.
const MAIN: u32 = u32::MAX - 3;
/// The index that stands for no task.
const NOBODY: u32 = u32::MAX - 2;
/// The value of [`TaskWaker::before`] for a task that is not queued and no longer exists.
const GONE: u32 = u32::MAX - 1;
/// The value of [`TaskWaker::before`] for a task that is not queued.
const NOT_QUEUED: u32 = u32::MAX;

/// The handle of a running task of a [`SimWorld`](crate::SimWorld). Awaiting the handle returns the task's result;
/// dropping it cancels the task.
pub struct Task<T> {
    join: Rc<Join<T>>,
    executor: Weak<Executor>,
    /// `None` once the task has been detached.
    key: Option<Key>,
}

struct Join<T> {
    result: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

impl<T: 'static> Task<T> {
    pub(crate) fn start(
        executor: &Rc<Executor>,
        owner: u32,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> Self {
        let join = Rc::new(Join { result: Cell::new(None), waker: Cell::new(None) });
        let shared = join.clone();
        let whole = async move {
            let result = future.await;
            shared.result.set(Some(result));
            if let Some(waker) = shared.waker.take() {
                waker.wake();
            }
        };
        let key = executor.spawn(owner, name, Box::pin(whole));
        Self { join, executor: Rc::downgrade(executor), key: Some(key) }
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(result) = self.join.result.take() {
            return Poll::Ready(result);
        }
        self.join.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl<T> Detach for Task<T> {
    fn detach(mut self) {
        self.key = None;
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let (Some(key), Some(executor)) = (self.key, self.executor.upgrade()) {
            executor.cancel(key);
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("key", &self.key).finish_non_exhaustive()
    }
}
