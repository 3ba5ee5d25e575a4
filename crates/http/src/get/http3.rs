//! Objects over HTTP/3: a stream each of one connection.

use super::requests::{Piece, Unanswered};
use crate::http2::io::Traffic;
use crate::http3::client::{self, Exchanged, Requests, response, send};
use crate::http3::streams::Pipe;
use crate::http3::{once, told, wrong};
use anabranch_transport::{CloseReason, Session};
use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use http::Request;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Asks on a connection, whatever its sessions are.
pub(super) trait Asking {
    /// Sends a request as soon as there is a stream for it.
    fn ask(&self, request: Request<()>) -> Box<dyn Coming>;
}

/// An answer as it comes.
pub(super) trait Coming {
    /// Ready when the request has a stream and is with the transport: the stream's number.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Unanswered>>;

    /// What comes next.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Unanswered>>;
}

/// Begins on a session, as the client, and counts what passes on the streams of requests.
pub(super) async fn begin<S: Session>(
    session: S,
) -> Result<
    (Rc<dyn Asking>, impl Future<Output = Result<(), CloseReason>> + 'static, Rc<Cell<Traffic>>),
    CloseReason,
> {
    let (mut connection, requests) = client::begin(session.clone()).await?;
    let traffic = requests.count();
    let conversation = async move {
        let reason = told(&poll_fn(|cx| connection.poll_close(cx)).await);
        session.close();
        if reason.is_graceful() { Ok(()) } else { Err(reason) }
    };
    Ok((Rc::new(requests), conversation, traffic))
}

impl<S: Session> Asking for Requests<S> {
    fn ask(&self, request: Request<()>) -> Box<dyn Coming> {
        let mut requests = self.clone();
        let sending = Box::pin(async move {
            let stream = send(&mut requests, request).await?;
            let pipe = requests.pipe(&stream);
            Ok((stream, pipe))
        });
        Box::new(Reply::<S>::Sending(sending))
    }
}

/// A stream of h3, and what is beneath it.
type Sent<S> = (Exchanged<S>, Option<Rc<RefCell<Pipe<<S as Session>::Stream>>>>);
type Sending<S> = Pin<Box<dyn Future<Output = Result<Sent<S>, StreamError>>>>;

enum Reply<S: Session> {
    Sending(Sending<S>),
    Head(Sent<S>),
    Body(Sent<S>),
    Over,
}

impl<S: Session> Coming for Reply<S> {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Unanswered>> {
        if let Self::Sending(sending) = self {
            match ready!(sending.as_mut().poll(cx)) {
                Ok(sent) => *self = Self::Head(sent),
                Err(error) => {
                    *self = Self::Over;
                    return Poll::Ready(Err(unanswered(&error)));
                }
            }
        }
        Poll::Ready(match self {
            Self::Head((stream, _)) | Self::Body((stream, _)) => Ok(stream.id().index()),
            _ => Err(Unanswered { reason: CloseReason::Aborted, unprocessed: false }),
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Unanswered>> {
        ready!(self.poll_sent(cx))?;
        match self {
            Self::Head((stream, _)) => {
                // What has come of the head is kept by the stream.
                let Some(head) = once(response::<S>(stream), cx) else { return Poll::Pending };
                let (head, ()) = head.map_err(|error| unanswered(&error))?.into_parts();
                if let Self::Head(sent) = std::mem::replace(self, Self::Over) {
                    *self = Self::Body(sent);
                }
                Poll::Ready(Ok(Piece::Head(head.status, head.headers)))
            }
            Self::Body((stream, pipe)) => {
                let piece = match ready!(stream.poll_recv_data(cx)).map_err(|error| unanswered(&error))? {
                    None => return Poll::Ready(Ok(Piece::End)),
                    Some(mut piece) => piece.copy_to_bytes(piece.remaining()),
                };
                if let Some(pipe) = pipe {
                    pipe.borrow_mut().took(piece.len());
                }
                Poll::Ready(Ok(Piece::Body(piece)))
            }
            Self::Sending(_) | Self::Over => Poll::Ready(Ok(Piece::Body(Bytes::new()))),
        }
    }
}

fn unanswered(error: &StreamError) -> Unanswered {
    // RFC 9114 §4.1.1, §5.2: nothing was done with it.
    let rejected =
        matches!(error, StreamError::RemoteTerminate { code } if *code == Code::H3_REQUEST_REJECTED);
    let unprocessed = rejected || matches!(error, StreamError::RemoteClosing);
    let reason = match error {
        StreamError::ConnectionError(error) => told(error),
        StreamError::RemoteClosing => {
            CloseReason::Protocol("HTTP/3: the server takes nothing more (GOAWAY)".to_owned())
        }
        error => CloseReason::Protocol(wrong(error)),
    };
    Unanswered { reason, unprocessed }
}
