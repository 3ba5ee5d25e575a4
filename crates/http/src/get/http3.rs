//! Requests over HTTP/3. All requests share a connection, and each has a stream of its own.

use super::Conversation;
use super::reply::{Reply, RequestError, ResponseReader};
use crate::http2::io::Traffic;
use crate::http3::client::{self, Exchange, is_unprocessed, line};
use crate::http3::connection::Failure;
use crate::http3::streams::StreamError;
use crate::message::ResponseEvent;
use anabranch_transport::{CloseReason, Session};
use http::Request;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A function that sends a request on an HTTP/3 connection as soon as a stream is available for the request. Its type
/// does not depend on the type of the session.
pub(super) type Requests = Rc<dyn Fn(Request<()>) -> Reply>;

/// Starts HTTP/3 as a client on a session that opens a new stream for each exchange.
pub(super) async fn begin<S: Session>(
    session: S,
) -> Result<(Requests, Conversation, Rc<Cell<Traffic>>), CloseReason> {
    let (mut driver, requests) = client::begin(session.clone()).await?;
    let traffic = requests.count();
    let conversation = async move {
        let reason = poll_fn(|cx| driver.poll(cx)).await;
        session.close();
        if reason.is_graceful() { Ok(()) } else { Err(reason) }
    };
    let send = move |request| {
        let requests = requests.clone();
        Reply(Box::new(Http3Reply::<S>::Sending(Box::pin(async move { requests.send(&request).await }))))
    };
    Ok((Rc::new(send), Box::pin(conversation), traffic))
}

/// A request that is being sent, or was sent.
enum Http3Reply<S: Session> {
    Sending(Pin<Box<dyn Future<Output = Result<Exchange<S>, Failure>>>>),
    Sent(Exchange<S>),
    Failed,
}

impl<S: Session> Http3Reply<S> {
    /// Waits until the whole request has been passed to the transport, and then returns the exchange.
    fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<Result<&mut Exchange<S>, RequestError>> {
        if let Self::Sending(sending) = self {
            match ready!(sending.as_mut().poll(cx)) {
                Ok(sent) => *self = Self::Sent(sent),
                Err(failure) => {
                    *self = Self::Failed;
                    return Poll::Ready(Err(request_error(&failure)));
                }
            }
        }
        Poll::Ready(match self {
            Self::Sent(exchange) => Ok(exchange),
            _ => Err(RequestError { reason: CloseReason::Aborted, unprocessed: false, over: true }),
        })
    }
}

impl<S: Session> ResponseReader for Http3Reply<S> {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, RequestError>> {
        self.poll_exchange(cx).map_ok(|exchange| exchange.pipe().borrow().number())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseEvent>, RequestError>> {
        ready!(self.poll_exchange(cx))?.poll(cx).map_err(|failure| request_error(&failure))
    }

    fn bytes(&self, read: bool) -> Range<u64> {
        match self {
            Self::Sent(exchange) => exchange.pipe().borrow().bytes(read),
            _ => 0..0,
        }
    }
}

fn request_error(failure: &Failure) -> RequestError {
    let (reason, over) = match failure {
        Failure::Stream(StreamError::Closed(reason)) => (reason.clone(), true),
        failure => (CloseReason::Protocol(line(failure)), false),
    };
    RequestError { reason, unprocessed: is_unprocessed(failure), over }
}
