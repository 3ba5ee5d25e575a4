//! The rest of a request body after the response, which is read and discarded.
//!
//! hyper closes a connection if a request body is dropped before its end. By then, the response may already have told
//! the client that the connection persists. A client, or a gateway with idle connections, then loses its next request,
//! and must not repeat that request if it is a POST (RFC 9112 §9.3.1, RFC 9110 §9.2.2). Therefore the body is kept and
//! read to its end, and the connection serves the next request.
//!
//! Implements RFC 9112 §9.3, the paragraph about a server that does not read an entire request body.

use anabranch_base::time::Instant;
use hyper::body::{Body, Incoming};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A request body whose response is complete or under way.
#[derive(Debug)]
pub(super) struct UnreadBody {
    body: Incoming,
    /// The time after which data of a body without a declared length is no longer discarded.
    limit: Option<Instant>,
    /// Whether hyper has reported the end of the body, or an error.
    ended: bool,
}

impl UnreadBody {
    /// Returns the unread rest of `body`. Data of a body without a declared length is discarded only until `limit`.
    pub(super) fn new(body: Incoming, limit: Option<Instant>) -> Self {
        let is_endless = body.size_hint().exact().is_none();
        Self { body, limit: limit.filter(|_| is_endless), ended: false }
    }

    /// Returns whether the whole body has been read.
    pub(super) fn is_complete(&self) -> bool {
        self.body.is_end_stream() || self.ended
    }

    /// Discards the data that has arrived. Completes at the end of the body, after an error, and when data arrives after
    /// the limit.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(_)) if self.limit.is_none_or(|limit| now <= limit) => {}
                frame => {
                    self.ended = !matches!(frame, Some(Ok(_)));
                    return Poll::Ready(());
                }
            }
        }
    }
}
