//! A fetch's exchanges over HTTP/2: one connection, a stream of it each.

use super::heads::fill;
use super::io::{Frame, Io};
use super::priority::Priority;
use super::{FOR_EVER, MAX_HEAD, RESETS, Windows};
use crate::fetch::pipeline::{Exchange, Pipeline};
use crate::fetch::request::least_head;
use crate::fetch::state::Fetch;
use crate::observe::{Delivered, FetchError, Observer};
use crate::page::{self, bounded_head};
use anabranch_base::time::Instant;
use anabranch_transport::{CloseReason, Connector, Piece, Session};
use anabranch_world::World;
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{Method, Request, StatusCode, Version};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

/// Asks for objects on a connection.
pub(crate) type Requests = SendRequest<Bytes>;

/// Where a client's end of a connection is set.
pub(crate) fn builder(windows: &Windows) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_frame_size(windows.frame)
        .max_header_list_size(MAX_HEAD)
        .initial_max_send_streams(windows.concurrent as usize)
        .enable_push(false)
        .max_concurrent_reset_streams(RESETS)
        .reset_stream_duration(FOR_EVER);
    builder
}

/// Tells an observer where the frames of each stream lie; says when a stream's first frame passes.
pub(crate) fn noting(mut note: impl FnMut(u64, Piece, bool) + 'static) -> impl FnMut(&Frame) + 'static {
    // Bytes of frames that each stream has had.
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    move |frame| {
        let first = !ends.contains_key(&frame.stream);
        let end = ends.entry(frame.stream).or_default();
        let above = *end..*end + (frame.span.end - frame.span.start);
        *end = above.end;
        if frame.last {
            ends.remove(&frame.stream);
        }
        // Streams that were reset have no last frame.
        if ends.len() > MOST_STREAMS {
            ends.pop_first();
        }
        note(frame.stream, Piece { above, below: frame.span.clone() }, first);
    }
}

/// Drives a connection of a fetch to its end; `on_frame` is told of what it sends.
pub(crate) async fn drive<W: World, C: Connector, O: Observer + 'static>(
    fetch: Weak<RefCell<Fetch<W, C, O>>>,
    name: usize,
    session: C::Session,
    windows: Windows,
    on_frame: impl FnMut(&Frame) + 'static,
) {
    let reason = match run(&fetch, name, &session, windows, on_frame).await {
        Ok(()) => CloseReason::Finished,
        Err(reason) => reason,
    };
    session.close();
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().closed(name, &reason);
    }
}

async fn run<W: World, C: Connector, O: Observer + 'static>(
    fetch: &Weak<RefCell<Fetch<W, C, O>>>,
    name: usize,
    session: &C::Session,
    windows: Windows,
    mut on_frame: impl FnMut(&Frame) + 'static,
) -> Result<(), CloseReason> {
    let stream = session.open(0).map_err(|error| CloseReason::Protocol(error.to_string()))?;
    let (io, out) = Io::new(stream, true, Bytes::new(), Box::new(move |frame| on_frame(&frame)));
    let (requests, mut connection) = builder(&windows).handshake(io).await.map_err(|error| told(&error))?;
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().speaks_http2(name, requests);
    }
    let ended = poll_fn(|cx| {
        let ended = Pin::new(&mut connection).poll(cx);
        // What goes wrong with it the next read tells.
        let _ = out.poll_flush(cx);
        ended
    });
    ended.await.map_err(|error| told(&error))
}

/// Why a connection ended.
pub(crate) fn told(error: &h2::Error) -> CloseReason {
    let text = format!("HTTP/2: {error}");
    match error.get_io().map(io::Error::kind) {
        // The session ended with requests under way.
        Some(io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => CloseReason::Finished,
        Some(io::ErrorKind::ConnectionReset) => CloseReason::Reset(text),
        Some(io::ErrorKind::TimedOut) => CloseReason::TimedOut(text),
        _ => CloseReason::Protocol(text),
    }
}

/// The request for an object of a page.
pub(crate) fn request(object: &page::Object, host: &str) -> Result<Request<()>, String> {
    let uri = http::Uri::builder().scheme("https").authority(host).path_and_query(object.name.as_str());
    let request = Request::builder().method(Method::GET).version(Version::HTTP_2);
    let uri = uri.build().map_err(|error| error.to_string())?;
    let priority = Priority::of_type(&object.content_type).to_string();
    let mut request =
        request.uri(uri).header("priority", priority).body(()).map_err(|error| error.to_string())?;
    let necessary = least_head(&object.name, host, false);
    fill(request.headers_mut(), (bounded_head(object.request_head) as usize).saturating_sub(necessary));
    Ok(request)
}

/// Takes in the response to the one exchange of `pipeline`.
pub(crate) async fn exchange<W: World, C: Connector, O: Observer + 'static>(
    fetch: Weak<RefCell<Fetch<W, C, O>>>,
    (name, slot): (usize, u64),
    pipeline: Rc<RefCell<Pipeline>>,
    response: ResponseFuture,
) {
    let mut reader =
        Reader { fetch: fetch.clone(), pipeline: pipeline.clone(), state: State::Head(response), body: 0 };
    let result = poll_fn(|cx| reader.poll(cx)).await;
    // What is dropped before its end is cancelled: h2 resets the stream.
    drop(reader);
    let Some(fetch) = fetch.upgrade() else { return };
    let mut this = fetch.borrow_mut();
    let exchange = {
        let mut pipeline = pipeline.borrow_mut();
        pipeline.cancelled = None;
        pipeline.in_flight.pop_front()
    };
    let Some(exchange) = exchange else { return };
    match result {
        Ended::Whole(result) => this.completed(name, slot, &exchange, result, false),
        Ended::Cancelled => this.completed(name, slot, &exchange, Err(FetchError::Timeout), false),
        // What rode on it rides again.
        Ended::Connection(reason) => this.closed(name, &reason),
    }
}

/// How an exchange ended.
enum Ended {
    Whole(Result<Delivered, FetchError>),
    Cancelled,
    Connection(CloseReason),
}

enum State {
    Head(ResponseFuture),
    Body(RecvStream),
}

struct Reader<W: World, C: Connector, O> {
    fetch: Weak<RefCell<Fetch<W, C, O>>>,
    pipeline: Rc<RefCell<Pipeline>>,
    state: State,
    body: u64,
}

impl<W: World, C: Connector, O: Observer + 'static> Reader<W, C, O> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        if self.pipeline.borrow().cancelled.is_some() {
            return Poll::Ready(Ended::Cancelled);
        }
        self.pipeline.borrow_mut().watch(cx);
        loop {
            match &mut self.state {
                State::Head(response) => match ready!(Pin::new(response).poll(cx)) {
                    Err(error) => return Poll::Ready(ended(&error)),
                    Ok(response) => {
                        self.moved(|fetch, exchange| fetch.first_byte(exchange.object));
                        let (head, body) = response.into_parts();
                        if head.status != StatusCode::OK {
                            let what = format!("status {}", head.status.as_u16());
                            return Poll::Ready(Ended::Whole(Err(FetchError::BadResponse(what))));
                        }
                        self.state = State::Body(body);
                    }
                },
                State::Body(body) => match ready!(body.poll_data(cx)) {
                    Some(Err(error)) => return Poll::Ready(ended(&error)),
                    Some(Ok(bytes)) => {
                        // An error is the connection's, which tells of it by itself.
                        let _ = body.flow_control().release_capacity(bytes.len());
                        if let Err(wrong) = self.take(&bytes) {
                            return Poll::Ready(Ended::Whole(Err(wrong)));
                        }
                    }
                    None => return Poll::Ready(Ended::Whole(self.whole())),
                },
            }
        }
    }

    /// Something was read; calls `of` where the object is wanted still. When that was.
    fn moved(&self, of: impl FnOnce(&mut Fetch<W, C, O>, &Exchange)) -> Instant {
        let Some(fetch) = self.fetch.upgrade() else { return Instant::ZERO };
        let now = fetch.borrow_mut().moved();
        let mut pipeline = self.pipeline.borrow_mut();
        pipeline.moved = now;
        if let Some(exchange) = pipeline.in_flight.front().filter(|exchange| !exchange.abandoned) {
            of(&mut fetch.borrow_mut(), exchange);
        }
        now
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let pattern = self.pipeline.borrow().in_flight.front().and_then(|exchange| exchange.pattern);
        if let Some(Err(at)) = pattern.map(|pattern| pattern.check(self.body, bytes)) {
            return Err(FetchError::Corrupt(format!("byte {at} is wrong")));
        }
        self.body += bytes.len() as u64;
        self.moved(|fetch, exchange| fetch.read(exchange.object, bytes.len() as u64));
        Ok(())
    }

    fn whole(&self) -> Result<Delivered, FetchError> {
        let at = self.moved(|_, _| ());
        let pipeline = self.pipeline.borrow();
        let expected = pipeline.in_flight.front().filter(|exchange| exchange.pattern.is_some());
        match expected.map(|exchange| exchange.expected).filter(|expected| *expected != self.body) {
            Some(expected) => Err(FetchError::Corrupt(format!("{} bytes instead of {expected}", self.body))),
            None => Ok(Delivered { at, response: ALL, body: self.body }),
        }
    }
}

/// Streams whose frames are counted at a time: more than may be open.
const MOST_STREAMS: usize = 1_024;

/// What an error means for the exchange.
fn ended(error: &h2::Error) -> Ended {
    match error.reason() {
        // The connection is over: it can be asked for again on another.
        None => Ended::Connection(told(error)),
        Some(_) if error.is_go_away() || error.is_io() => Ended::Connection(told(error)),
        Some(_) => Ended::Whole(Err(FetchError::BadResponse(format!("HTTP/2: {error}")))),
    }
}

/// All bytes of a stream of HTTP/2: it has one exchange.
pub(crate) const ALL: std::ops::Range<u64> = 0..u64::MAX;
