//! HTTP/2 and HTTP/3 in a fetch: drives the connections, reads the response of each exchange, and reports how the
//! exchange ended. Each exchange has a stream of its own.

use super::Fetch;
use super::pipeline::{Exchange, Pipeline, check_length, check_status};
use super::request::min_head_size;
use crate::get::{Query, Reply, RequestError, Requests};
use crate::http2::client::noting;
use crate::http2::heads::fill;
use crate::http2::priority::Priority;
use crate::mapping::Version;
use crate::message::ResponseEvent;
use crate::observe::{Delivered, FetchError};
use crate::page::{self, bounded_head};
use anabranch_base::time::Instant;
use anabranch_transport::{CloseReason, Connector, OpenError, Session};
use anabranch_world::World;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Request, StatusCode};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

/// Drives a connection of a fetch until it ends.
pub(super) async fn drive<W: World, C: Connector>(
    fetch: Weak<RefCell<Fetch<W, C>>>,
    connection_index: usize,
    session: C::Session,
    version: Version,
) {
    let (me, id) = (fetch.clone(), session.id());
    let mut note = noting(move |stream, piece, _| {
        if let Some(fetch) = me.upgrade() {
            fetch.borrow().recorder.requested(id, stream, piece);
        }
    });
    let on_frame = Box::new(move |frame| note(&frame));
    let begun = Requests::begin_watched(session.clone(), version, true, on_frame).await;
    let reason = match begun {
        Err(OpenError::Closed(reason)) => reason,
        Err(error) => CloseReason::Protocol(error.to_string()),
        Ok((requests, conversation, _)) => {
            match fetch.upgrade() {
                Some(fetch) => fetch.borrow_mut().set_requests(connection_index, requests),
                None => drop(requests),
            }
            conversation.await.err().unwrap_or(CloseReason::Finished)
        }
    };
    session.close();
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().closed(connection_index, &reason);
    }
}

/// Returns the HTTP request for an object of a page.
pub(super) fn request(
    object: &page::Object,
    host: &str,
    version: http::Version,
    priority: Option<Priority>,
) -> Result<Query, http::Error> {
    let uri = http::Uri::builder().scheme("https").authority(host).path_and_query(object.name.as_str());
    let request = Request::builder().method(Method::GET).version(version);
    let mut request = request.uri(uri.build()?);
    if let Some(priority) = priority {
        request = request.header("priority", priority.to_string());
    }
    let mut request = request.body(())?;
    let necessary = min_head_size(&object.name, host, false);
    fill(request.headers_mut(), (bounded_head(object.request_head) as usize).saturating_sub(necessary));
    Ok(Query(request))
}

/// How an exchange ended.
pub(super) enum ExchangeEnd {
    /// The exchange completed, or failed without affecting the connection.
    Completed(Result<Delivered, FetchError>),
    /// The client gave up the object.
    Cancelled,
    /// The server accepts no more requests on this connection and has not processed this request. The request is sent
    /// again on another connection.
    Refused(CloseReason),
    /// The connection ended. All its unfinished objects are requested again.
    Connection(CloseReason),
}

/// Converts the error of a failed request to an [`ExchangeEnd`].
fn ended(why: RequestError) -> ExchangeEnd {
    match why {
        RequestError { over: true, reason, .. } => ExchangeEnd::Connection(reason),
        RequestError { unprocessed: true, reason, .. } => ExchangeEnd::Refused(reason),
        RequestError { reason: CloseReason::Protocol(text), .. } => {
            ExchangeEnd::Completed(Err(FetchError::BadResponse(text)))
        }
        RequestError { reason, .. } => {
            ExchangeEnd::Completed(Err(FetchError::BadResponse(reason.to_string())))
        }
    }
}

/// A response while it is being read. Its exchange is the only one of `pipeline`.
pub(super) struct Response<W: World, C: Connector> {
    fetch: Weak<RefCell<Fetch<W, C>>>,
    pipeline: Rc<RefCell<Pipeline>>,
    /// The number of body bytes received so far.
    body: u64,
    /// The length of the body that the head declares.
    length: Option<u64>,
}

impl<W: World, C: Connector> Response<W, C> {
    pub(super) fn new(fetch: Weak<RefCell<Fetch<W, C>>>, pipeline: Rc<RefCell<Pipeline>>) -> Self {
        Self { fetch, pipeline, body: 0, length: None }
    }

    /// Waits until the request is sent, and calls `on_sent` with the number of its stream and its byte range on that
    /// stream. Then reads the response.
    pub(super) async fn read(
        mut self,
        mut reply: Reply,
        on_sent: impl FnOnce(u64, Range<u64>),
    ) -> ExchangeEnd {
        match poll_fn(|cx| reply.poll_sent(cx)).await {
            Err(why) => return ended(why),
            Ok(stream) => on_sent(stream, reply.bytes(false)),
        }
        loop {
            let taken = match poll_fn(|cx| reply.poll_event(cx)).await {
                Err(why) => return ended(why),
                Ok(None) => return ExchangeEnd::Completed(self.complete(reply.bytes(true))),
                Ok(Some(ResponseEvent::Head(head))) => self.head(head.status, &head.fields),
                Ok(Some(ResponseEvent::Data(bytes))) => self.take(&bytes),
            };
            if let Err(wrong) = taken {
                return ExchangeEnd::Completed(Err(wrong));
            }
        }
    }

    /// Records that data was read. Calls the function `of` with the exchange to which the data belongs, unless the
    /// client gave up the object of that exchange. Returns the current time.
    fn record_read(&self, of: impl FnOnce(&mut Fetch<W, C>, &Exchange)) -> Instant {
        let Some(fetch) = self.fetch.upgrade() else { return Instant::ZERO };
        let now = fetch.borrow_mut().record_read();
        let mut pipeline = self.pipeline.borrow_mut();
        pipeline.last_read = now;
        if let Some(exchange) = pipeline.in_flight.front().filter(|exchange| !exchange.abandoned) {
            of(&mut fetch.borrow_mut(), exchange);
        }
        now
    }

    /// Processes the head of the response.
    fn head(&mut self, status: StatusCode, fields: &HeaderMap) -> Result<(), FetchError> {
        self.record_read(|fetch, exchange| fetch.first_byte(exchange.object));
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
        self.record_read(|fetch, exchange| fetch.read(exchange.object, bytes.len() as u64));
        if let Some(fetch) = self.fetch.upgrade() {
            fetch.borrow_mut().discover();
        }
        Ok(())
    }

    /// Processes the end of the response. `response` is the byte range that the response occupies on its stream.
    fn complete(&self, response: Range<u64>) -> Result<Delivered, FetchError> {
        let at = self.record_read(|_, _| ());
        let pipeline = self.pipeline.borrow();
        let known = pipeline.in_flight.front().and_then(Exchange::length);
        check_length(self.body, known.or(self.length))?;
        Ok(Delivered { at, response, body: self.body })
    }
}

/// Runs `exchange`, the only exchange in `pipeline`, until it ends, and reports to `fetch` how it ended. The exchange
/// occupies slot `slot` of the connection `connection_index`.
pub(super) async fn run<W: World, C: Connector>(
    fetch: Weak<RefCell<Fetch<W, C>>>,
    (connection_index, slot): (usize, u64),
    pipeline: Rc<RefCell<Pipeline>>,
    exchange: impl Future<Output = ExchangeEnd>,
) {
    let ended = {
        let mut exchange = pin!(exchange);
        // Dropping an unfinished exchange cancels it by resetting its stream.
        poll_fn(|cx| {
            if pipeline.borrow().cancelled.is_some() {
                return Poll::Ready(ExchangeEnd::Cancelled);
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
        ExchangeEnd::Completed(result) => this.completed(connection_index, slot, exchange, result, false),
        ExchangeEnd::Cancelled => {
            this.completed(connection_index, slot, exchange, Err(FetchError::Timeout), false)
        }
        ExchangeEnd::Refused(reason) => this.refused(connection_index, slot, &exchange, &reason),
        ExchangeEnd::Connection(reason) => this.closed(connection_index, &reason),
    }
}
