//! Requests over HTTP/2. All requests share a connection, and each has a stream of its own.

use super::Conversation;
use super::reply::{Reply, RequestError, ResponseReader};
use crate::http2::Windows;
use crate::http2::client::{builder, close_reason};
use crate::http2::io::{Io, OnFrame, Scratch, Traffic};
use crate::http2::response::{Failure, Response};
use crate::message::ResponseEvent;
use anabranch_transport::{CloseReason, OpenError, Session};
use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::Request;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The handle that sends requests on an HTTP/2 connection.
pub(super) type Requests = SendRequest<Bytes>;

/// Starts HTTP/2 as a client on the single stream of a session. Calls `on_frame` for each frame that is sent.
pub(super) async fn begin<S: Session>(
    session: S,
    windows: &Windows,
    on_frame: OnFrame,
) -> Result<(Requests, Conversation, Rc<Cell<Traffic>>), OpenError> {
    let stream = session.open(0)?;
    let (mut io, out) = Io::new(stream, true, Bytes::new(), Scratch::default(), on_frame);
    let traffic = io.count();
    let handshake = builder(windows).handshake(io).await;
    let (requests, mut connection) = handshake.map_err(|error| close_reason(&error))?;
    let conversation = async move {
        let ended = poll_fn(|cx| {
            let ended = Pin::new(&mut connection).poll(cx);
            // If the stream has failed, the next read reports the error.
            let _ = out.poll_flush(cx);
            ended
        });
        let ended = ended.await;
        session.close();
        ended.map_err(|error| close_reason(&error))
    };
    Ok((requests, Box::pin(conversation), traffic))
}

/// Completes when the server accepts another request.
pub(super) fn poll_ready(requests: &mut Requests, cx: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
    requests.poll_ready(cx).map_err(|error| request_error(&error))
}

/// Sends a request.
pub(super) fn send(requests: &mut Requests, request: Request<()>) -> Result<Reply, RequestError> {
    let sent = requests.send_request(request, true).map_err(|error| request_error(&error))?;
    Ok(Reply(Box::new(Response::new(sent))))
}

fn request_error(error: &h2::Error) -> RequestError {
    // RFC 9113 §6.8: GOAWAY with NO_ERROR means a graceful shutdown. If a request fails because of this GOAWAY, the
    // server has not processed that request.
    let is_graceful = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    let over = error.reason().is_none() || error.is_go_away() || error.is_io();
    RequestError { reason: close_reason(error), unprocessed: is_graceful || refused, over }
}

impl ResponseReader for Response {
    fn poll_sent(&mut self, _: &mut Context<'_>) -> Poll<Result<u64, RequestError>> {
        Poll::Ready(Ok(self.stream()))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseEvent>, RequestError>> {
        self.poll(cx).map_err(|failure| match &failure {
            Failure::Failed(error) => request_error(error),
            malformed => RequestError {
                reason: CloseReason::Protocol(malformed.to_string()),
                unprocessed: false,
                over: false,
            },
        })
    }

    /// The range covers all bytes of the stream, because the stream carries only one exchange.
    fn bytes(&self, _: bool) -> Range<u64> {
        0..u64::MAX
    }
}
