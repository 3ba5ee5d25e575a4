//! The server: hyper on each stream of each session.
//!
//! Every stream is an HTTP/1.1 connection of its own to hyper, so pipelining,
//! heads and framing are hyper's; ours is what hyper cannot know: which stream
//! and which exchange it is, how large the page says a head must be, when the
//! server starts on a request, and when the first byte of an answer leaves.
//! Clocks are the world's: hyper's own timers and its Date are off.
//!
//! - `site`: what there is to serve
//! - `turn`: one request at a time
//! - `stream`: hyper's view of a stream, and the answer to one request

mod site;
mod stream;
mod turn;

pub use site::{Content, PageSite, Resource, Site};

use crate::observe::Observer;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Listener, Session};
use anabranch_world::World;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How a server behaves.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// From the start on a request until its answer is ready.
    pub service_time: Duration,
    /// Work on one request of a session at a time, in the order of their arrival, until its answer has been written.
    pub serial: bool,
    /// A session on which nothing moves and nothing is being served for so long is closed.
    pub idle_timeout: Option<Duration>,
    /// A session on which a request began and is not complete after so long is aborted.
    pub head_timeout: Option<Duration>,
    /// Unix time in seconds at the beginning of the world: answers then carry a Date.
    pub date_from: Option<u64>,
}

/// Serves `site` to every session that `listener` takes in, until the listener
/// fails. Dropping the future drops all sessions.
///
/// # Errors
/// Why the listener failed.
pub async fn run<W, L, S, O>(
    world: W,
    mut listener: L,
    site: Rc<S>,
    options: Options,
    observer: O,
) -> Result<(), CloseReason>
where
    W: World,
    L: Listener,
    S: Site,
    O: Observer + 'static,
{
    let service = Rc::new(Service { world: world.clone(), site, options, observer });
    let tasks = Tasks::new(world);
    loop {
        let session = listener.accept().await?;
        tasks.spawn("http session", serve_session(service.clone(), session));
    }
}

/// What all sessions of a server share.
struct Service<W, S, O> {
    world: W,
    site: Rc<S>,
    options: Options,
    observer: O,
}

/// What the streams of a session tell its watch.
#[derive(Debug, Default)]
struct Activity {
    /// When something was last read or written.
    moved: Cell<Instant>,
    /// Requests being served.
    serving: Cell<u32>,
    /// Since when a request is incomplete on some stream.
    head_since: Cell<Option<Instant>>,
    /// Whose turn it is, where requests are worked on one at a time.
    turns: turn::Turns,
}

async fn serve_session<W, S, O, N>(service: Rc<Service<W, S, O>>, session: N)
where
    W: World,
    S: Site,
    O: Observer + 'static,
    N: Session,
{
    let tasks = Tasks::new(service.world.clone());
    let activity = Rc::new(Activity::default());
    activity.moved.set(service.world.now());
    if service.options.idle_timeout.is_some() || service.options.head_timeout.is_some() {
        let (world, options) = (service.world.clone(), service.options.clone());
        tasks.spawn("http idle watch", watch(world, options, session.clone(), activity.clone()));
    }
    // A stream number can come again: its exchanges are counted on.
    let mut logs = BTreeMap::new();
    while let Ok(stream) = session.accept().await {
        let log = stream::Log::of(&mut logs, session.id(), &stream);
        let task = stream::serve(service.clone(), log, stream, activity.clone());
        tasks.spawn("http served stream", task);
    }
}

/// Ends a session that stands still.
async fn watch<W: World, N: Session>(world: W, options: Options, session: N, activity: Rc<Activity>) {
    let far = Duration::from_secs(3600);
    let (idle, head) = (options.idle_timeout.unwrap_or(far), options.head_timeout.unwrap_or(far));
    loop {
        let now = world.now();
        let busy = activity.serving.get() > 0;
        if let Some(since) = activity.head_since.get()
            && options.head_timeout.is_some()
            && since + head <= now
        {
            return session.abort();
        }
        if options.idle_timeout.is_some() && !busy && activity.moved.get() + idle <= now {
            return session.close();
        }
        let idle_due = if busy { now + idle } else { activity.moved.get() + idle };
        let head_due = activity.head_since.get().unwrap_or(now) + head;
        world.sleep_until(idle_due.min(head_due).max(now.plus_nanos(1))).await;
    }
}

/// Tasks that live at most as long as this: each is forgotten when it is done,
/// and what still runs is cancelled on drop.
pub(crate) struct Tasks<W: World> {
    world: W,
    running: RefCell<BTreeMap<u64, W::Task<()>>>,
    finished: Rc<RefCell<Vec<u64>>>,
    next: Cell<u64>,
}

impl<W: World> Tasks<W> {
    pub(crate) fn new(world: W) -> Self {
        Self { world, running: RefCell::default(), finished: Rc::default(), next: Cell::new(0) }
    }

    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let id = self.next.replace(self.next.get() + 1);
        let finished = self.finished.clone();
        let handle = self.world.spawn(name, async move {
            task.await;
            finished.borrow_mut().push(id);
        });
        let mut running = self.running.borrow_mut();
        for done in self.finished.borrow_mut().drain(..) {
            running.remove(&done);
        }
        running.insert(id, handle);
    }
}
