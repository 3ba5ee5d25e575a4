//! Tasks, first in first out, on one thread.
//!
//! A task is a boxed future with a name. Waking one puts its key at the end of
//! the run queue, once; a *round* runs everything that was runnable when it
//! began. Dropping a [`Task`] cancels it; [`Detach`] lets it run on.
//!
//! Futures are polled and dropped while nothing of the executor is borrowed,
//! so they may spawn, cancel and wake as they like.

use anabranch_world::Detach;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Which task: a place and how many tasks have lived there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

/// The main future has a key but no place: it lives in the caller's frame.
const MAIN: Key = Key { index: u32::MAX, generation: 0 };

/// What the wakers of an executor know of it. The keys of runnable tasks lie in
/// a list of this thread ([`RUNNABLE`]): `Waker` wants `Send`, but a lock, or
/// just a locked instruction, for each packet costs more than moving the packet.
struct RunQueue {
    /// Never used twice in a process.
    number: u64,
    any: AtomicBool,
}

thread_local! {
    /// The runnable tasks of each executor of this thread: its number, their keys.
    static RUNNABLE: RefCell<Vec<(u64, Vec<Key>)>> = const { RefCell::new(Vec::new()) };
}

impl RunQueue {
    fn new() -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        RUNNABLE.with_borrow_mut(|queues| queues.push((number, Vec::new())));
        Self { number, any: AtomicBool::new(false) }
    }

    /// Does `change` to the runnable keys. A waker that outlived its executor,
    /// or was carried to another thread against all custom, finds none.
    #[inline]
    fn change(&self, change: impl FnOnce(&mut Vec<Key>)) {
        RUNNABLE.with_borrow_mut(|queues| {
            if let Some((_, keys)) = queues.iter_mut().find(|(number, _)| *number == self.number) {
                change(keys);
            }
        });
    }
}

struct TaskWaker {
    queue: Arc<RunQueue>,
    key: Key,
    /// Already in the queue. Loaded and stored, never exchanged: one thread.
    queued: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.load(Ordering::Relaxed) {
            self.queued.store(true, Ordering::Relaxed);
            self.queue.change(|keys| keys.push(self.key));
            self.queue.any.store(true, Ordering::Relaxed);
        }
    }
}

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

struct Place {
    generation: u32,
    /// `None` while the place is free.
    occupant: Option<Occupant>,
}

struct Occupant {
    owner: u32,
    name: &'static str,
    task_waker: Arc<TaskWaker>,
    /// The future, and the same waker for its context; `None` while it is being
    /// polled. Moved out and back, for a clone would count references.
    running: Option<(BoxedTask, Waker)>,
}

/// The tasks of one network.
pub(crate) struct Executor {
    queue: Arc<RunQueue>,
    places: RefCell<Vec<Place>>,
    free: RefCell<Vec<u32>>,
    main: Arc<TaskWaker>,
    main_waker: Waker,
    spare: Cell<Vec<Key>>,
}

impl Executor {
    pub(crate) fn new() -> Self {
        let queue = Arc::new(RunQueue::new());
        let main = Arc::new(TaskWaker { queue: queue.clone(), key: MAIN, queued: AtomicBool::new(false) });
        let main_waker = Waker::from(main.clone());
        Self {
            queue,
            places: RefCell::new(Vec::new()),
            free: RefCell::new(Vec::new()),
            main,
            main_waker,
            spare: Cell::new(Vec::new()),
        }
    }

    /// Something is runnable.
    #[inline]
    pub(crate) fn any_runnable(&self) -> bool {
        self.queue.any.load(Ordering::Relaxed)
    }

    /// Makes the main future runnable.
    pub(crate) fn wake_main(&self) {
        self.main.wake_by_ref();
    }

    /// Runs every task that is runnable now. Returns what the main future
    /// returned, at once when it does.
    pub(crate) fn run_round<T>(&self, main: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut round = self.spare.take();
        self.queue.change(|keys| std::mem::swap(&mut round, keys));
        self.queue.any.store(false, Ordering::Relaxed);
        let mut result = None;
        for (done, &key) in round.iter().enumerate() {
            if key != MAIN {
                self.poll_task(key);
                continue;
            }
            self.main.queued.store(false, Ordering::Relaxed);
            if let Poll::Ready(value) = main.as_mut().poll(&mut Context::from_waker(&self.main_waker)) {
                self.requeue(&round[done + 1..]);
                result = Some(value);
                break;
            }
        }
        round.clear();
        self.spare.set(round);
        result
    }

    /// Puts keys whose turn did not come back at the head of the queue.
    fn requeue(&self, rest: &[Key]) {
        if !rest.is_empty() {
            self.queue.change(|keys| drop(keys.splice(0..0, rest.iter().copied())));
            self.queue.any.store(true, Ordering::Relaxed);
        }
    }

    fn poll_task(&self, key: Key) {
        let taken = {
            let mut places = self.places.borrow_mut();
            let Some(occupant) = occupant(&mut places, key) else { return };
            occupant.task_waker.queued.store(false, Ordering::Relaxed);
            occupant.running.take()
        };
        // A task that is being polled cannot be polled again from inside.
        let Some((mut future, waker)) = taken else { return };
        let finished = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut places = self.places.borrow_mut();
        match occupant(&mut places, key) {
            Some(occupant) if !finished => occupant.running = Some((future, waker)),
            Some(_) => {
                let gone = self.vacate(&mut places, key);
                drop(places);
                drop((gone, future));
            }
            // It cancelled itself.
            None => {
                drop(places);
                drop(future);
            }
        }
    }

    fn vacate(&self, places: &mut [Place], key: Key) -> Option<Occupant> {
        let place = &mut places[key.index as usize];
        place.generation = place.generation.wrapping_add(1);
        self.free.borrow_mut().push(key.index);
        place.occupant.take()
    }

    /// Starts a task; it first runs in the next round.
    fn spawn(&self, owner: u32, name: &'static str, future: BoxedTask) -> Key {
        let mut places = self.places.borrow_mut();
        let reused = self.free.borrow_mut().pop();
        let index = reused.unwrap_or_else(|| {
            places.push(Place { generation: 0, occupant: None });
            u32::try_from(places.len() - 1).unwrap_or_else(|_| panic!("four thousand million tasks"))
        });
        let place = &mut places[index as usize];
        let key = Key { index, generation: place.generation };
        let task_waker =
            Arc::new(TaskWaker { queue: self.queue.clone(), key, queued: AtomicBool::new(false) });
        let running = Some((future, Waker::from(task_waker.clone())));
        place.occupant = Some(Occupant { owner, name, task_waker: task_waker.clone(), running });
        task_waker.wake();
        key
    }

    fn cancel(&self, key: Key) {
        let mut places = self.places.borrow_mut();
        if occupant(&mut places, key).is_some() {
            let gone = self.vacate(&mut places, key);
            drop(places);
            drop(gone);
        }
    }

    /// Cancels every task.
    pub(crate) fn clear(&self) {
        // A future that is dropped may spawn another.
        loop {
            let mut places = self.places.borrow_mut();
            let keys: Vec<_> = (0_u32..)
                .zip(places.iter())
                .filter(|(_, place)| place.occupant.is_some())
                .map(|(index, place)| Key { index, generation: place.generation })
                .collect();
            if keys.is_empty() {
                return;
            }
            let gone: Vec<_> = keys.into_iter().map(|key| self.vacate(&mut places, key)).collect();
            drop(places);
            drop(gone);
        }
    }

    /// The tasks that are alive: the host they belong to, and their names.
    pub(crate) fn alive(&self) -> Vec<(u32, &'static str)> {
        let places = self.places.borrow();
        places.iter().filter_map(|place| place.occupant.as_ref()).map(|o| (o.owner, o.name)).collect()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let number = self.queue.number;
        // Where the thread is ending the list may be gone before us.
        let _gone = RUNNABLE.try_with(|queues| queues.borrow_mut().retain(|(other, _)| *other != number));
    }
}

fn occupant(places: &mut [Place], key: Key) -> Option<&mut Occupant> {
    let place = places.get_mut(key.index as usize)?;
    if place.generation == key.generation { place.occupant.as_mut() } else { None }
}

/// A running task of a [`SimWorld`](crate::SimWorld). Awaiting it gives its
/// result; dropping it cancels it.
pub struct Task<T> {
    join: Rc<Join<T>>,
    executor: Weak<Executor>,
    /// `None` once detached.
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
        let told = join.clone();
        let whole = async move {
            let result = future.await;
            told.result.set(Some(result));
            if let Some(waker) = told.waker.take() {
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
