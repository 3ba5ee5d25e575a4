//! The HTTP/3 exchanges of a fetch. Each exchange has a stream of its own.

use super::Fetch;
use super::own_stream::{ExchangeEnd, Requests, Response};
use crate::http3::client::{self, begin, is_unprocessed, line};
use crate::http3::connection::Failure;
use crate::http3::streams::StreamError;
use crate::observe::FetchError;
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::World;
use http::Request;
use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Weak;
use std::task::Context;

/// Drives a connection of a fetch until it ends.
pub(super) async fn drive<W: World, C: Connector>(
    fetch: Weak<RefCell<Fetch<W, C>>>,
    name: usize,
    session: C::Session,
) {
    let reason = match begin(session.clone()).await {
        Err(reason) => reason,
        Ok((mut driver, requests)) => {
            if let Some(fetch) = fetch.upgrade() {
                fetch.borrow_mut().set_requests(name, Requests::Http3(requests));
            }
            poll_fn(|cx| driver.poll(cx)).await
        }
    };
    session.close();
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().closed(name, &reason);
    }
}

/// Requests an object and reads the response. Calls `on_sent` with the number of the stream and the byte range of the
/// request on that stream.
pub(super) async fn exchange<W: World, C: Connector>(
    requests: client::Requests<C::Session>,
    request: Request<()>,
    on_sent: impl FnOnce(u64, Range<u64>),
    taker: Response<W, C>,
) -> ExchangeEnd {
    let mut exchange = match requests.send(&request).await {
        Ok(exchange) => exchange,
        Err(failure) => return ended(&failure),
    };
    let pipe = exchange.pipe().clone();
    let (number, sent) = (pipe.borrow().number(), pipe.borrow().bytes(false));
    on_sent(number, sent);
    let poll = |cx: &mut Context<'_>| exchange.poll(cx).map_err(|failure| ended(&failure));
    taker.read(poll, || pipe.borrow().bytes(true)).await
}

/// Converts a failure to the end of an exchange.
fn ended(failure: &Failure) -> ExchangeEnd {
    match failure {
        Failure::Stream(StreamError::Closed(reason)) => ExchangeEnd::Connection(reason.clone()),
        failure if is_unprocessed(failure) => ExchangeEnd::Refused(CloseReason::Protocol(line(failure))),
        failure => ExchangeEnd::Completed(Err(FetchError::BadResponse(line(failure)))),
    }
}
