//! Requests over HTTP/2. Each request has a stream of the same connection.

use super::reply::{Reply, RequestError, ResponseReader};
use crate::http2::Windows;
use crate::http2::client::{builder, close_reason};
use crate::http2::io::{Io, Out, Scratch, Traffic};
use crate::http2::response::{Failure, Response};
use crate::message::ResponseEvent;
use anabranch_transport::{CloseReason, Stream};
use bytes::Bytes;
use h2::Reason;
use h2::client::{Connection, SendRequest};
use http::Request;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A running HTTP/2 connection. It must be polled as long as requests are made on it.
pub struct Conversation<T: Stream>(Connection<Io<T>, Bytes>, Out<T>);

impl<T: Stream> Future for Conversation<T> {
    type Output = Result<(), CloseReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.0).poll(cx);
        // If the stream has failed, the next read reports the error.
        let _ = self.1.poll_flush(cx);
        ended.map_err(|error| close_reason(&error))
    }
}

/// Sends requests on an HTTP/2 connection.
pub(super) type Requests = SendRequest<Bytes>;

/// Starts HTTP/2 as a client on the single stream of a session. Also returns a counter of the traffic.
pub(super) async fn begin<T: Stream>(
    stream: T,
) -> Result<(Requests, Conversation<T>, Rc<Cell<Traffic>>), CloseReason> {
    let (mut io, out) = Io::new(stream, true, Bytes::new(), Scratch::default(), Box::new(|_| ()));
    let traffic = io.count();
    let begun = builder(&Windows::default()).handshake(io).await;
    let (requests, connection) = begun.map_err(|error| close_reason(&error))?;
    Ok((requests, Conversation(connection, out), traffic))
}

/// Completes when the server accepts another request.
pub(super) fn poll_ready(requests: &mut Requests, cx: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
    requests.poll_ready(cx).map_err(|error| unanswered(&error))
}

/// Sends a request.
pub(super) fn send(requests: &mut Requests, request: Request<()>) -> Result<Reply, RequestError> {
    let sent = requests.send_request(request, true).map_err(|error| unanswered(&error))?;
    Ok(Reply(Box::new(Response::new(sent))))
}

fn unanswered(error: &h2::Error) -> RequestError {
    // RFC 9113 §6.8: a server that shuts down gracefully accepts no more streams, and has not processed later requests.
    let gone = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    RequestError { reason: close_reason(error), unprocessed: gone || refused }
}

impl ResponseReader for Response {
    fn poll_sent(&mut self, _: &mut Context<'_>) -> Poll<Result<u64, RequestError>> {
        Poll::Ready(Ok(self.stream()))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseEvent>, RequestError>> {
        self.poll(cx).map_err(|failure| match &failure {
            Failure::Failed(error) => unanswered(error),
            malformed => {
                RequestError { reason: CloseReason::Protocol(malformed.to_string()), unprocessed: false }
            }
        })
    }
}
