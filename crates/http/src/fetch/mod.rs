//! The client: loads a page over connections it opens by a policy.
//!
//! Objects are issued when what causes them has been delivered (or at given
//! instants), queue for a place that [`crate::mapping`] chooses, ride as one
//! HTTP exchange, and are checked byte for byte. What goes wrong is tried again
//! within reason and then counted, never hidden.
//!
//! - `state`: the page, the queues, the connections, and objects without progress
//! - `pipeline`: one stream of a connection: requests out, responses in
//! - `own_stream`: an exchange that has a stream of its own, over HTTP/2 and HTTP/3
//! - [`request`], [`response`]: the bytes

pub(crate) mod own_stream;
pub(crate) mod pipeline;
pub mod request;
pub mod response;
pub(crate) mod state;

use crate::mapping::Policy;
use crate::observe::{FetchError, Observer};
use crate::page::Page;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::Connector;
use anabranch_world::World;
use std::future::poll_fn;
use std::rc::Rc;

/// How a fetch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Every object was delivered.
    Done,
    /// Every object is over, and some were not delivered.
    Failed,
    /// The deadline came first.
    Deadline,
}

/// What became of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// When it was started.
    pub started: Instant,
    /// When the last object was over, or the deadline.
    pub finished: Instant,
    /// By object.
    pub objects: Vec<Result<(), FetchError>>,
    /// Bytes of all bodies delivered.
    pub body_bytes: u64,
    /// Connections that were begun.
    pub connections: usize,
}

impl Outcome {
    /// From the start until all was over.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.finished - self.started
    }

    /// How many objects were not delivered.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.objects.iter().filter(|object| object.is_err()).count()
    }
}

/// Fetches all objects of `page` from the servers `connector` reaches. On
/// return all sessions are closing in good order (or aborted, at the deadline);
/// the connector's host says when they are gone.
pub async fn run<W, C, O>(world: W, connector: C, page: Rc<Page>, policy: Policy, observer: O) -> Outcome
where
    W: World,
    C: Connector,
    O: Observer + 'static,
{
    let started = world.now();
    let (deadline, timeout) = (policy.deadline, policy.timeout);
    let fetch = state::start(world.clone(), connector, page, policy, observer);
    let watch = timeout.map(|timeout| world.spawn("http timeouts", state::watch(fetch.clone(), timeout)));

    let done = poll_fn(|cx| fetch.borrow_mut().poll_done(cx));
    let in_time = world.timeout(deadline, done).await.is_some();

    drop(watch);
    // Tasks are dropped only after the borrow has ended: they may hold the last handles of sessions.
    let (outcome, tasks) = fetch.borrow_mut().end(started, in_time);
    drop(tasks);
    outcome
}
