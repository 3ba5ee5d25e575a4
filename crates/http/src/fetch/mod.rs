//! The measuring client: loads a page over connections that it opens under a policy.
//!
//! An object is requested when the object that causes it has been delivered, or at a given time. It waits for a stream
//! that [`crate::mapping`] assigns, is transferred in one HTTP exchange, and is checked byte for byte. Failed requests are
//! retried a limited number of times. Remaining failures are counted, never hidden.
//!
//! - `state`: the page, the queues, the connections, and timeouts
//! - `pipeline`: one stream of a connection; sends requests and receives responses
//! - `own_stream`: an exchange on a stream of its own, over HTTP/2 and HTTP/3
//! - [`request`], [`response`]: encode and parse messages

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
    /// Every object is delivered or failed, and some failed.
    Failed,
    /// The deadline expired before every object was delivered or failed.
    Deadline,
}

/// The result of fetching a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How the fetch ended.
    pub end: End,
    /// When the fetch started.
    pub started: Instant,
    /// When the last object was delivered or failed, or when the deadline expired.
    pub finished: Instant,
    /// The result of each object.
    pub objects: Vec<Result<(), FetchError>>,
    /// The total number of body bytes delivered.
    pub body_bytes: u64,
    /// The number of connections opened, including failed ones.
    pub connections: usize,
}

impl Outcome {
    /// Returns the time from the start to the end of the fetch.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.finished - self.started
    }

    /// Returns the number of objects that were not delivered.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.objects.iter().filter(|object| object.is_err()).count()
    }
}

/// Fetches all objects of `page` from the servers that `connector` reaches. On return, all sessions are closing
/// gracefully; if the deadline expired, they are aborted. The host behind `connector` reports when they are closed.
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
    // `end` returns the tasks, because they may be dropped only after the borrow has ended: they may hold the last handles
    // of sessions.
    let (outcome, tasks) = fetch.borrow_mut().end(started, in_time);
    drop(tasks);
    outcome
}
