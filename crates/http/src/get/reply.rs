//! The response to a request that has a stream of its own, over HTTP/2 or HTTP/3.

use crate::message::ResponseEvent;
use anabranch_transport::CloseReason;
use std::ops::Range;
use std::task::{Context, Poll};

/// The reason why a request has no response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestError {
    /// The error that ended the request.
    pub reason: CloseReason,
    /// True if the server has certainly not processed the request. The request can then be sent again on another
    /// connection (RFC 9113 §8.7, RFC 9114 §4.1.1).
    pub unprocessed: bool,
    /// True if the connection has ended. Its outstanding requests then get no response.
    pub over: bool,
}

/// The response to a request, received piece by piece. Dropping this value before the response is complete cancels the
/// request.
pub struct Reply(pub(super) Box<dyn ResponseReader>);

/// The interface to a response that is being received. Each HTTP version implements this trait, which hides the type of
/// the session.
pub(super) trait ResponseReader {
    /// Completes when the whole request has been passed to the transport. Returns the number of its stream.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, RequestError>>;

    /// Completes with the next event of the response, or with `None` when the response is complete.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseEvent>, RequestError>>;

    /// Returns the byte range of the data read from the stream so far if `read` is set, otherwise of the data written.
    fn bytes(&self, read: bool) -> Range<u64>;
}

/// A received part of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The head, with the status code.
    Head(u16),
    /// A piece of the body with this number of bytes.
    Body(u64),
    /// The end of the response.
    End,
}

impl Reply {
    /// Completes when the whole request has been passed to the transport. Returns the number of its stream.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, RequestError>> {
        self.0.poll_sent(cx)
    }

    /// Returns the next part of the response.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, RequestError>> {
        self.0.poll(cx).map_ok(|event| match event {
            Some(ResponseEvent::Head(head)) => Part::Head(head.status.as_u16()),
            Some(ResponseEvent::Data(bytes)) => Part::Body(bytes.len() as u64),
            None => Part::End,
        })
    }

    /// Returns the byte range of the request on its stream or, with `response`, the byte range of the response.
    pub(crate) fn bytes(&self, response: bool) -> Range<u64> {
        self.0.bytes(response)
    }

    /// Returns the next event of the response; `None` when the response is complete.
    pub(crate) fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<ResponseEvent>, RequestError>> {
        self.0.poll(cx)
    }
}
