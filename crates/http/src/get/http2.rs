//! Requests over HTTP/2. Each request has a stream of the same connection.

use super::requests::{Piece, Unanswered};
use crate::http2::Windows;
use crate::http2::client::{builder, told};
use crate::http2::io::{Io, Out, Scratch, Traffic};
use anabranch_transport::{CloseReason, Stream};
use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::Request;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A running HTTP/2 connection. It must be polled as long as requests are made on it.
pub struct Conversation<T: Stream>(Connection<Io<T>, Bytes>, Out<T>);

impl<T: Stream> Future for Conversation<T> {
    type Output = Result<(), CloseReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.0).poll(cx);
        // If the stream has failed, the next read reports the error.
        let _ = self.1.poll_flush(cx);
        ended.map_err(|error| told(&error))
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
    let (requests, connection) = begun.map_err(|error| told(&error))?;
    Ok((requests, Conversation(connection, out), traffic))
}

/// Completes when the server accepts another request.
pub(super) fn poll_ready(requests: &mut Requests, cx: &mut Context<'_>) -> Poll<Result<(), Unanswered>> {
    requests.poll_ready(cx).map_err(|error| unanswered(&error))
}

/// Sends a request.
pub(super) fn send(requests: &mut Requests, request: Request<()>) -> Result<Reply, Unanswered> {
    let (response, _) = requests.send_request(request, true).map_err(|error| unanswered(&error))?;
    Ok(Reply { stream: response.stream_id().as_u32().into(), state: State::Head(response) })
}

fn unanswered(error: &h2::Error) -> Unanswered {
    // RFC 9113 §6.8: a server that shuts down gracefully accepts no more streams, and has not processed later requests.
    let gone = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    Unanswered { reason: told(error), unprocessed: gone || refused }
}

/// A response, received piece by piece.
pub(super) struct Reply {
    stream: u64,
    state: State,
}

enum State {
    Head(ResponseFuture),
    Body(RecvStream),
}

impl Reply {
    /// Returns the number of the response's stream.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// Returns the next piece of the response.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Unanswered>> {
        match &mut self.state {
            State::Head(response) => {
                let response = ready!(Pin::new(response).poll(cx)).map_err(|error| unanswered(&error))?;
                let (head, body) = response.into_parts();
                self.state = State::Body(body);
                Poll::Ready(Ok(Piece::Head(head.status, head.headers)))
            }
            State::Body(body) => match ready!(body.poll_data(cx)) {
                None => Poll::Ready(Ok(Piece::End)),
                Some(Err(error)) => Poll::Ready(Err(unanswered(&error))),
                Some(Ok(bytes)) => {
                    // This fails only if the connection has failed, and then the next piece reports the error.
                    let _ = body.flow_control().release_capacity(bytes.len());
                    Poll::Ready(Ok(Piece::Body(bytes)))
                }
            },
        }
    }
}
