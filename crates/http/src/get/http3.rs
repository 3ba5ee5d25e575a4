//! Requests over HTTP/3. Each request has a stream of the same connection.

use super::requests::{Piece, Unanswered};
use crate::http2::io::Traffic;
use crate::http3::client::{self, Exchange, Requests, is_unprocessed, line};
use crate::http3::connection::Failure;
use crate::http3::streams::StreamError;
use anabranch_transport::{CloseReason, Session};
use bytes::Bytes;
use http::Request;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Sends requests on an HTTP/3 connection. The trait erases the type of the session.
pub(super) trait Asking {
    /// Sends a request as soon as a stream is available for it.
    fn ask(&self, request: Request<()>) -> Box<dyn Coming>;
}

/// A response, received piece by piece.
pub(super) trait Coming {
    /// Completes when the whole request was passed to the transport. Returns the number of its stream.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Unanswered>>;

    /// Returns the next piece of the response.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Unanswered>>;
}

/// Starts HTTP/3 as a client on a session. Also returns a counter of the traffic on request streams.
pub(super) async fn begin<S: Session>(
    session: S,
) -> Result<
    (Rc<dyn Asking>, impl Future<Output = Result<(), CloseReason>> + 'static, Rc<Cell<Traffic>>),
    CloseReason,
> {
    let (mut driver, requests) = client::begin(session.clone()).await?;
    let traffic = requests.count();
    let conversation = async move {
        let reason = poll_fn(|cx| driver.poll(cx)).await;
        session.close();
        if reason.is_graceful() { Ok(()) } else { Err(reason) }
    };
    Ok((Rc::new(requests), conversation, traffic))
}

impl<S: Session> Asking for Requests<S> {
    fn ask(&self, request: Request<()>) -> Box<dyn Coming> {
        let requests = self.clone();
        Box::new(Reply::<S>::Sending(Box::pin(async move { requests.send(&request).await })))
    }
}

type Sending<S> = Pin<Box<dyn Future<Output = Result<Exchange<S>, Failure>>>>;

enum Reply<S: Session> {
    Sending(Sending<S>),
    Head(Exchange<S>),
    Body(Exchange<S>),
    Over,
}

impl<S: Session> Coming for Reply<S> {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Unanswered>> {
        if let Self::Sending(sending) = self {
            match ready!(sending.as_mut().poll(cx)) {
                Ok(sent) => *self = Self::Head(sent),
                Err(failure) => {
                    *self = Self::Over;
                    return Poll::Ready(Err(unanswered(&failure)));
                }
            }
        }
        Poll::Ready(match self {
            Self::Head(exchange) | Self::Body(exchange) => Ok(exchange.pipe().borrow().number()),
            _ => Err(Unanswered { reason: CloseReason::Aborted, unprocessed: false }),
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Unanswered>> {
        ready!(self.poll_sent(cx))?;
        match self {
            Self::Head(exchange) => {
                let head = ready!(exchange.poll_head(cx)).map_err(|failure| unanswered(&failure))?;
                if let Self::Head(exchange) = std::mem::replace(self, Self::Over) {
                    *self = Self::Body(exchange);
                }
                Poll::Ready(Ok(Piece::Head(head.status, head.fields)))
            }
            Self::Body(exchange) => {
                let piece = ready!(exchange.poll_data(cx)).map_err(|failure| unanswered(&failure))?;
                Poll::Ready(Ok(piece.map_or(Piece::End, Piece::Body)))
            }
            Self::Sending(_) | Self::Over => Poll::Ready(Ok(Piece::Body(Bytes::new()))),
        }
    }
}

fn unanswered(failure: &Failure) -> Unanswered {
    let reason = match failure {
        Failure::Stream(StreamError::Closed(reason)) => reason.clone(),
        failure => CloseReason::Protocol(line(failure)),
    };
    Unanswered { reason, unprocessed: is_unprocessed(failure) }
}
