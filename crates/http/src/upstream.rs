//! Provides streams for a client or a gateway. Each exchange leases one stream.
//!
//! - `one_server`: streams to one server through any connector

mod one_server;

pub use one_server::OneServer;

use crate::authority::Origin;
use anabranch_base::time::Duration;
use anabranch_transport::{CloseReason, ConnectError, Connector, Delivery, OpenError, Session, Stream};
use anabranch_world::{Timer, World};
use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Provides streams on which requests are sent to origins, or to the next gateway.
pub trait Upstream: 'static {
    /// The type of the streams.
    type Stream: Stream;

    /// Whether each side can close its direction of a stream ([`Stream::finish`]).
    fn half_close(&self) -> bool;

    /// Whether the peer is another gateway, which accepts requests for any origin.
    fn is_gateway(&self) -> bool;

    /// Returns a stream for an exchange of `client` with `to`. If `fresh` is true, the stream belongs to a connection
    /// without earlier exchanges.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn reach(
        &self,
        to: &Origin,
        fresh: bool,
        client: Option<IpAddr>,
    ) -> Result<Lease<Self::Stream>, ReachError>;
}

/// The reason why no stream is available.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReachError {
    /// The gateway's rules do not allow the target.
    #[error("the target is not allowed")]
    Forbidden,
    /// The target is the gateway itself.
    #[error("the target is this gateway")]
    Loop,
    /// The host name of the target does not resolve.
    #[error("the target's name does not resolve")]
    Unresolved,
    /// No connection could be started.
    #[error("no connection: {0}")]
    Connect(#[from] ConnectError),
    /// A connection was started, but failed.
    #[error("no connection: {0}")]
    Closed(CloseReason),
    /// The server cannot be authenticated, because there are no certificate authorities.
    #[error("{0}")]
    NoTrust(String),
    /// The connection was not established in time.
    #[error("no connection in time")]
    Timeout,
}

impl From<OpenError> for ReachError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Closed(reason) => Self::Closed(reason),
            _ => Self::Timeout,
        }
    }
}

/// Returns whether a stream that serves no exchange is open and has no data. A response read from leftover data would
/// answer the wrong request.
pub fn is_idle<T: Stream>(stream: &mut T) -> bool {
    stream.poll_read(&mut Context::from_waker(Waker::noop()), &mut [0]).is_pending()
}

/// The state in which an exchange leaves its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamOutcome {
    /// Another exchange can follow on the stream.
    Reusable,
    /// Both sides have finished the stream, so no other exchange can follow.
    Over,
    /// The exchange ended before it was complete.
    Torn,
    /// The peer has cancelled the exchange ([`CloseReason::Cancelled`]).
    Cancelled,
}

/// The receive window that all leased streams of a session share.
#[derive(Debug, Default)]
pub struct SharedWindow {
    /// The number of streams of the session that exchanges have leased now.
    pub leased: Cell<u32>,
    /// The number of streams with unread data, which fills the window and blocks the other streams.
    pub blocking: Cell<u32>,
    /// The number of streams that are blocked by another stream and whose exchange cannot be restarted on another
    /// session.
    pub starved: Cell<u32>,
}

/// A leased stream. If the lease is dropped without [`end`](Self::end), its exchange counts as [`StreamOutcome::Torn`].
pub struct Lease<T: Stream> {
    /// The stream, and the function that takes it back; `None` only while the stream is given back.
    leased: Option<(T, ReturnCallback<T>)>,
    /// The identifier of the stream's session ([`Session::id`]).
    pub connection: u64,
    /// Whether the session has carried exchanges before.
    pub reused: bool,
    /// The receive window that the stream shares with other streams, if any.
    pub shared_window: Option<Rc<SharedWindow>>,
    /// The function that is called when the first read completes.
    first_read_callback: Option<FirstReadCallback>,
}

/// A function that is called when the first read from the stream completes.
pub type FirstReadCallback = Box<dyn FnOnce()>;

/// A function that receives the stream at the end of a lease. The flag is true if the lease was ended by
/// [`Lease::end`], so that the function may wait. If the lease was dropped, the function must not wait.
type ReturnCallback<T> = Box<dyn FnOnce(T, StreamOutcome, bool)>;

impl<T: Stream> Lease<T> {
    /// Creates a lease of `stream`. `return_callback` receives the stream at the end of the lease.
    pub fn new(
        stream: T,
        connection: u64,
        reused: bool,
        shared_window: Option<Rc<SharedWindow>>,
        return_callback: ReturnCallback<T>,
    ) -> Self {
        Self {
            leased: Some((stream, return_callback)),
            connection,
            reused,
            shared_window,
            first_read_callback: None,
        }
    }

    /// Sets the function that is called when the first data from the peer is read.
    pub fn with_first_read_callback(mut self, callback: FirstReadCallback) -> Self {
        self.first_read_callback = Some(callback);
        self
    }

    /// Ends the lease and gives the stream back. `how` is the state in which the exchange leaves the stream.
    pub fn end(mut self, how: StreamOutcome) {
        self.give_back(how, true);
    }

    fn give_back(&mut self, how: StreamOutcome, waits: bool) {
        if let Some((stream, return_callback)) = self.leased.take() {
            return_callback(stream, how, waits);
        }
    }
}

impl<T: Stream> Lease<T> {
    /// Returns the result of the function `of` for the stream, or `default` if the stream has been given back.
    fn get<R>(&self, default: R, of: impl FnOnce(&T) -> R) -> R {
        self.leased.as_ref().map_or(default, |(stream, _)| of(stream))
    }

    fn poll(
        &mut self,
        poll: impl FnOnce(&mut T) -> Poll<Result<usize, CloseReason>>,
    ) -> Poll<Result<usize, CloseReason>> {
        self.leased.as_mut().map_or(Poll::Ready(Err(CloseReason::Aborted)), |(stream, _)| poll(stream))
    }
}

impl<T: Stream> Drop for Lease<T> {
    fn drop(&mut self) {
        self.give_back(StreamOutcome::Torn, false);
    }
}

impl<T: Stream> fmt::Debug for Lease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("reused", &self.reused).finish_non_exhaustive()
    }
}

impl<T: Stream> Stream for Lease<T> {
    fn number(&self) -> u64 {
        self.get(0, Stream::number)
    }

    fn bytes_read(&self) -> u64 {
        self.get(0, Stream::bytes_read)
    }

    fn bytes_written(&self) -> u64 {
        self.get(0, Stream::bytes_written)
    }

    fn unacknowledged(&self) -> u64 {
        self.get(0, Stream::unacknowledged)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        let read = self.poll(|stream| stream.poll_read(cx, into));
        if read.is_ready()
            && let Some(callback) = self.first_read_callback.take()
        {
            callback();
        }
        read
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        self.poll(|stream| stream.poll_write(cx, from))
    }

    fn poll_write_message(&mut self, cx: &mut Context<'_>, whole: &[u8]) -> Poll<Result<usize, CloseReason>> {
        self.poll(|stream| stream.poll_write_message(cx, whole))
    }

    fn set_delivery(&mut self, delivery: Delivery) {
        if let Some((stream, _)) = &mut self.leased {
            stream.set_delivery(delivery);
        }
    }

    fn finish(&mut self) {
        if let Some((stream, _)) = &mut self.leased {
            stream.finish();
        }
    }

    fn supports_half_close(&self) -> bool {
        self.get(false, Stream::supports_half_close)
    }
}

/// Returns a session with the first of `count` servers that answers. The next server is tried if the previous one has
/// failed, or has not answered for 250 ms (RFC 8305 §5).
///
/// # Errors
/// The reason why no server answered.
pub async fn connect_any<W: World, C: Connector>(
    world: &W,
    connector: &C,
    count: usize,
    timeout: Duration,
) -> Result<C::Session, ReachError> {
    let (mut timer, mut next, mut due) = (world.timer(), 0, world.now());
    let mut sessions: Vec<C::Session> = Vec::new();
    let mut failed = ReachError::Timeout;
    let any = poll_fn(|cx| {
        loop {
            let mut at = 0;
            while at < sessions.len() {
                match sessions[at].poll_established(cx) {
                    Poll::Pending => at += 1,
                    Poll::Ready(Ok(())) => return Poll::Ready(Ok(sessions.swap_remove(at))),
                    Poll::Ready(Err(why)) => {
                        sessions.remove(at);
                        failed = ReachError::Closed(why);
                        due = world.now();
                    }
                }
            }
            if next == count {
                return if sessions.is_empty() { Poll::Ready(Err(failed.clone())) } else { Poll::Pending };
            }
            let now = world.now();
            if now >= due {
                match connector.connect(next) {
                    Ok(session) => {
                        sessions.push(session);
                        due = now + STAGGER;
                    }
                    Err(error) => failed = ReachError::Connect(error),
                }
                next += 1;
                continue;
            }
            timer.set(Some(due));
            if timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    });
    let found = world.timeout(timeout, any).await;
    for session in sessions {
        session.abort();
    }
    found.unwrap_or(Err(ReachError::Timeout))
}

/// Returns a session with the first of `count` servers that answers. A server is tried only after the previous server
/// has failed. Use this for transports whose handshake tries all addresses of a server (RFC 9260 §5.1), so that
/// parallel attempts gain nothing. Such a handshake fails as soon as one address refuses it. The `count` servers may be
/// one server with its addresses in different orders.
///
/// # Errors
/// The reasons why the servers failed: one reason for each server that was tried. There is at least one.
pub async fn connect_in_turn<W: World, C: Connector>(
    world: &W,
    connector: &C,
    count: usize,
    timeout: Duration,
) -> Result<C::Session, Vec<ReachError>> {
    let deadline = world.now() + timeout;
    let mut failed = Vec::new();
    for server in 0..count.max(1) {
        let session = match connector.connect(server) {
            Ok(session) => session,
            Err(why) => {
                failed.push(ReachError::Connect(why));
                continue;
            }
        };
        let now = world.now();
        let left = if deadline > now { deadline - now } else { Duration::ZERO };
        match world.timeout(left, session.established()).await {
            Some(Ok(())) => return Ok(session),
            Some(Err(why)) => failed.push(ReachError::Closed(why)),
            None => {
                session.abort();
                failed.push(ReachError::Timeout);
                break;
            }
        }
    }
    Err(failed)
}

/// The connection attempt delay of RFC 8305 §5.
const STAGGER: Duration = Duration::from_millis(250);
