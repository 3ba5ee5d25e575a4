//! Reads the response on an HTTP/2 stream, and refuses it if it is malformed.
//!
//! Implements the checks of RFC 9113 §8.1.1 that a client makes on a response. h2 checks the order of frames.
//! [`message`](crate::message) makes the other checks, which are the same over HTTP/3. h2 drops pseudo-header fields
//! that are not allowed in a response or in trailers, so this module cannot detect them.

use crate::message::{ContentLength, Malformed, ResponseEvent, ResponseHead, check_fields};
use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The response to a request, received piece by piece. Dropping this value before the end of the response cancels the
/// request.
pub(crate) struct Response {
    part: Part,
    /// The sending direction of the stream, through which the stream is reset.
    send: SendStream<Bytes>,
}

enum Part {
    Head(ResponseFuture),
    Body(RecvStream, ContentLength),
}

/// The reason why a response is incomplete.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The response is malformed, and its stream was reset.
    Malformed(Malformed),
    /// The stream or the connection has failed.
    Failed(h2::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "HTTP/2: {why} (PROTOCOL_ERROR)"),
            Self::Failed(error) => write!(f, "HTTP/2: {error}"),
        }
    }
}

impl Response {
    /// Creates a reader from the two handles that h2 returns for a request.
    pub(crate) fn new((response, send): (ResponseFuture, SendStream<Bytes>)) -> Self {
        Self { part: Part::Head(response), send }
    }

    /// Returns the number of the stream.
    pub(crate) fn stream(&self) -> u64 {
        self.send.stream_id().as_u32().into()
    }

    /// Completes with the next event of the response, or with `None` when the response is complete.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseEvent>, Failure>> {
        let event = match &mut self.part {
            Part::Head(response) => match ready!(poll_head(response, cx))? {
                Ok((head, body)) => {
                    self.part = Part::Body(body, head.content);
                    Ok(Some(ResponseEvent::Head(head)))
                }
                Err(reason) => Err(reason),
            },
            Part::Body(body, content) => {
                ready!(poll_data(body, content, cx))?.map(|data| data.map(ResponseEvent::Data))
            }
        };
        Poll::Ready(event.map_err(|reason| self.refuse(reason)))
    }

    /// RFC 9113 §8.1.1: a malformed response is a stream error of type PROTOCOL_ERROR.
    fn refuse(&mut self, reason: Malformed) -> Failure {
        self.send.send_reset(Reason::PROTOCOL_ERROR);
        Failure::Malformed(reason)
    }
}

/// A result of reading a response. The outer error is a failure that h2 reports; the inner error is a violation that h2
/// does not detect.
type Checked<T> = Result<Result<T, Malformed>, Failure>;

/// Completes with the head of the final response.
fn poll_head(
    response: &mut ResponseFuture,
    cx: &mut Context<'_>,
) -> Poll<Checked<(ResponseHead, RecvStream)>> {
    // Check interim responses, too, because the rules for heads also hold for them.
    while let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
        let (head, ()) = interim.map_err(Failure::Failed)?.into_parts();
        if let Err(reason) = ResponseHead::new(head.status, head.headers) {
            return Poll::Ready(Ok(Err(reason)));
        }
    }
    let (head, body) = ready!(Pin::new(response).poll(cx)).map_err(Failure::Failed)?.into_parts();
    Poll::Ready(Ok(ResponseHead::new(head.status, head.headers).map(|head| (head, body))))
}

/// Completes with the next piece of the content, or with `None` when the response is complete.
fn poll_data(
    body: &mut RecvStream,
    content: &mut ContentLength,
    cx: &mut Context<'_>,
) -> Poll<Checked<Option<Bytes>>> {
    let data = ready!(body.poll_data(cx)).transpose().map_err(Failure::Failed)?;
    if let Some(data) = data {
        // Releasing capacity fails only if the connection has failed. The next read then reports the error.
        let _ = body.flow_control().release_capacity(data.len());
        return Poll::Ready(Ok(content.add(data.len() as u64).map(|()| Some(data))));
    }
    let trailers = ready!(body.poll_trailers(cx)).map_err(Failure::Failed)?;
    let checked = trailers.map_or(Ok(None), |trailers| check_fields(&trailers));
    Poll::Ready(Ok(checked.and_then(|_| content.end()).map(|()| None)))
}
