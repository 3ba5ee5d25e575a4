//! An HTTP/2 or HTTP/3 exchange that has a stream of its own: reads the response, and reports how the exchange ended.

use super::Fetch;
use super::pipeline::{Exchange, Pipeline, check_length, check_status};
use super::request::least_head;
use crate::http2::client as http2;
use crate::http2::heads::fill;
use crate::http2::priority::Priority;
use crate::http3::client as http3;
use crate::message::ResponseEvent;
use crate::observe::{Delivered, FetchError};
use crate::page::{self, bounded_head};
use anabranch_base::time::Instant;
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::World;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

/// A handle that sends requests over HTTP/2 or HTTP/3. Each request has a stream of its own.
#[derive(Clone)]
pub(super) enum Requests<S: Session> {
    Http2(http2::Requests),
    Http3(http3::Requests<S>),
}

/// Returns the HTTP request for an object of a page.
pub(super) fn request(
    object: &page::Object,
    host: &str,
    version: Version,
    priority: Option<Priority>,
) -> Result<Request<()>, String> {
    let uri = http::Uri::builder().scheme("https").authority(host).path_and_query(object.name.as_str());
    let request = Request::builder().method(Method::GET).version(version);
    let uri = uri.build().map_err(|error| error.to_string())?;
    let mut request = request.uri(uri);
    if let Some(priority) = priority {
        request = request.header("priority", priority.to_string());
    }
    let mut request = request.body(()).map_err(|error| error.to_string())?;
    let necessary = least_head(&object.name, host, false);
    fill(request.headers_mut(), (bounded_head(object.request_head) as usize).saturating_sub(necessary));
    Ok(request)
}

/// How an exchange ended.
pub(super) enum Ended {
    /// The exchange completed, or failed by itself.
    Whole(Result<Delivered, FetchError>),
    /// The client gave up the object.
    Cancelled,
    /// The server accepts no more requests on this connection and has not processed this request. The request is sent
    /// again on another connection.
    Refused(CloseReason),
    /// The connection ended. All its unfinished objects are requested again.
    Connection(CloseReason),
}

/// Processes the response to the only exchange of a pipeline.
pub(super) struct Response<W: World, C: Connector> {
    fetch: Weak<RefCell<Fetch<W, C>>>,
    pipeline: Rc<RefCell<Pipeline>>,
    /// The number of body bytes received. `length` is the length that the head declares.
    body: u64,
    length: Option<u64>,
}

impl<W: World, C: Connector> Response<W, C> {
    pub(super) fn new(fetch: Weak<RefCell<Fetch<W, C>>>, pipeline: Rc<RefCell<Pipeline>>) -> Self {
        Self { fetch, pipeline, body: 0, length: None }
    }

    /// Reads the response by `poll`. On success, `range` returns the range that the response occupies of its stream.
    pub(super) async fn read(
        mut self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<Option<ResponseEvent>, Ended>>,
        range: impl FnOnce() -> Range<u64>,
    ) -> Ended {
        loop {
            let taken = match poll_fn(&mut poll).await {
                Err(ended) => return ended,
                Ok(None) => return Ended::Whole(self.whole(range())),
                Ok(Some(ResponseEvent::Head(head))) => self.head(head.status, &head.fields),
                Ok(Some(ResponseEvent::Data(bytes))) => self.take(&bytes),
            };
            if let Err(wrong) = taken {
                return Ended::Whole(Err(wrong));
            }
        }
    }

    /// Records that data was read, and calls `of` unless the object was given up. Returns the current time.
    fn moved(&self, of: impl FnOnce(&mut Fetch<W, C>, &Exchange)) -> Instant {
        let Some(fetch) = self.fetch.upgrade() else { return Instant::ZERO };
        let now = fetch.borrow_mut().moved();
        let mut pipeline = self.pipeline.borrow_mut();
        pipeline.moved = now;
        if let Some(exchange) = pipeline.in_flight.front().filter(|exchange| !exchange.abandoned) {
            of(&mut fetch.borrow_mut(), exchange);
        }
        now
    }

    /// Processes the head of the response.
    fn head(&mut self, status: StatusCode, fields: &HeaderMap) -> Result<(), FetchError> {
        self.moved(|fetch, exchange| fetch.first_byte(exchange.object));
        check_status(status.as_u16())?;
        let length = fields.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        self.length = length.and_then(|length| length.parse().ok());
        Ok(())
    }

    /// Processes a piece of the response body.
    fn take(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        self.pipeline
            .borrow()
            .in_flight
            .front()
            .map_or(Ok(()), |exchange| exchange.check(self.body, bytes))?;
        self.body += bytes.len() as u64;
        self.moved(|fetch, exchange| fetch.read(exchange.object, bytes.len() as u64));
        if let Some(fetch) = self.fetch.upgrade() {
            fetch.borrow_mut().discover();
        }
        Ok(())
    }

    /// Processes the end of the response, which occupies the range `response` of its stream.
    fn whole(&self, response: Range<u64>) -> Result<Delivered, FetchError> {
        let at = self.moved(|_, _| ());
        let pipeline = self.pipeline.borrow();
        let known = pipeline.in_flight.front().and_then(Exchange::length);
        check_length(self.body, known.or(self.length))?;
        Ok(Delivered { at, response, body: self.body })
    }
}

/// Runs `exchange`, the only exchange in `pipeline`, in slot `slot` of the connection `name`. Reports to `fetch` how the
/// exchange ended.
pub(super) async fn run<W: World, C: Connector>(
    fetch: Weak<RefCell<Fetch<W, C>>>,
    (name, slot): (usize, u64),
    pipeline: Rc<RefCell<Pipeline>>,
    exchange: impl Future<Output = Ended>,
) {
    let ended = {
        let mut exchange = pin!(exchange);
        // Dropping an unfinished exchange cancels it by resetting its stream.
        poll_fn(|cx| {
            if pipeline.borrow().cancelled.is_some() {
                return Poll::Ready(Ended::Cancelled);
            }
            pipeline.borrow_mut().watch(cx);
            exchange.as_mut().poll(cx)
        })
        .await
    };
    let Some(fetch) = fetch.upgrade() else { return };
    let mut this = fetch.borrow_mut();
    let exchange = {
        let mut pipeline = pipeline.borrow_mut();
        pipeline.cancelled = None;
        pipeline.in_flight.pop_front()
    };
    let Some(exchange) = exchange else { return };
    match ended {
        Ended::Whole(result) => this.completed(name, slot, &exchange, result, false),
        Ended::Cancelled => this.completed(name, slot, &exchange, Err(FetchError::Timeout), false),
        Ended::Refused(reason) => this.refused(name, slot, &exchange, &reason),
        Ended::Connection(reason) => this.closed(name, &reason),
    }
}
