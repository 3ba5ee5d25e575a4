//! The exchanges of an HTTP/3 client. Each exchange has a stream of its own.

use super::connection::{Connection, Driver, Failure, Incoming};
use super::streams::{Pipe, StreamError};
use super::{Code, Event, MAX_HEAD, encode_request, kind};
use crate::http2::io::Traffic;
use crate::message::ResponseEvent;
use anabranch_transport::{CloseReason, OpenError, Session};
use http::Request;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

/// Sends requests on a connection. The connection ends when the last clone of this handle and the last exchange are
/// dropped.
pub(crate) struct Requests<S: Session>(Rc<ConnectionKeepAlive<S>>);

/// Keeps an HTTP/3 connection alive until this value is dropped.
struct ConnectionKeepAlive<S: Session>(Connection<S>);

impl<S: Session> Clone for Requests<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Session> Drop for ConnectionKeepAlive<S> {
    fn drop(&mut self) {
        self.0.wake_driver();
    }
}

/// Drives the connection of a client. The driver must be polled as long as requests are made.
pub(crate) struct ClientDriver<S: Session> {
    driver: Driver<S>,
    user: Weak<ConnectionKeepAlive<S>>,
}

impl<S: Session> ClientDriver<S> {
    /// Drives the connection. Returns a reason once the connection has ended, or once no handle uses the connection any
    /// more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        match self.driver.poll(cx) {
            Poll::Pending if self.user.strong_count() == 0 => Poll::Ready(CloseReason::Finished),
            polled => polled,
        }
    }
}

/// Starts HTTP/3 as a client on an established session.
pub(crate) async fn begin<S: Session>(session: S) -> Result<(ClientDriver<S>, Requests<S>), CloseReason> {
    let (connection, driver) = super::connection::begin(session, true, MAX_HEAD).await?;
    let user = Rc::new(ConnectionKeepAlive(connection));
    Ok((ClientDriver { driver, user: Rc::downgrade(&user) }, Requests(user)))
}

impl<S: Session> Requests<S> {
    /// Starts to count the traffic on streams that are opened from now on, and returns the counter.
    pub(crate) fn count(&self) -> Rc<Cell<Traffic>> {
        self.0.0.traffic()
    }

    /// Sends a request that has no content, as soon as a stream is available.
    pub(crate) async fn send(&self, request: &Request<()>) -> Result<Exchange<S>, Failure> {
        let connection = &self.0.0;
        let (head, size) = encode_request(request);
        // RFC 9114 §4.2.2: a head that is larger than the server accepts is not sent.
        let most = connection.max_field_section_size();
        if size > most {
            let reason = format!("the request has a head of {size} bytes, where the server accepts {most}");
            return Err(Failure::Malformed(super::Error::Stream(Code::H3_INTERNAL_ERROR, reason)));
        }
        let started = poll_fn(|cx| match connection.is_going_away() {
            true => Poll::Ready(Err(StreamError::Refused)),
            false => connection.session().poll_begin(cx, false).map_err(|error| match error {
                OpenError::Closed(reason) => StreamError::Closed(connection.reason(reason)),
                other => StreamError::Closed(CloseReason::Protocol(other.to_string())),
            }),
        });
        let pipe = connection.pipe(started.await.map_err(Failure::Stream)?);
        pipe.borrow_mut().put_frame(kind::HEADERS, head);
        let written = poll_fn(|cx| pipe.borrow_mut().poll_flush(cx)).await;
        match written {
            Ok(()) => pipe.borrow_mut().finish(),
            // RFC 9114 §4.1: a server may respond before it has read the whole request, and then stop reading the rest.
            // This is not an error.
            Err(StreamError::Cancelled(_)) => {}
            Err(StreamError::Closed(reason)) => {
                return Err(Failure::Stream(StreamError::Closed(connection.reason(reason))));
            }
            Err(error) => return Err(Failure::Stream(error)),
        }
        Ok(Exchange { incoming: Incoming::new(connection.clone(), pipe, MAX_HEAD), _user: self.0.clone() })
    }
}

/// A request that was sent, and the response to it, received piece by piece. Dropping this value before the end of the
/// response cancels the request.
pub(crate) struct Exchange<S: Session> {
    incoming: Incoming<S>,
    _user: Rc<ConnectionKeepAlive<S>>,
}

impl<S: Session> Exchange<S> {
    /// Returns the stream of the exchange.
    pub(crate) fn pipe(&self) -> &Rc<RefCell<Pipe<S::Stream>>> {
        self.incoming.pipe()
    }

    /// Completes with the next event of the response, or with `None` when the response is complete.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseEvent>, Failure>> {
        Poll::Ready(match ready!(self.incoming.poll(cx))? {
            Some(Event::Response(head)) => Ok(Some(ResponseEvent::Head(head))),
            Some(Event::Data(data)) => Ok(Some(ResponseEvent::Data(data))),
            None => Ok(None),
            Some(Event::HeadTooLarge(size)) => {
                self.pipe().borrow_mut().cancel(Code::H3_EXCESSIVE_LOAD);
                let reason = format!("a head of {size} bytes, where at most {MAX_HEAD} are accepted");
                Err(Failure::Malformed(super::Error::Stream(Code::H3_EXCESSIVE_LOAD, reason)))
            }
            // This arm is never reached, because the reader of a client returns no requests.
            Some(Event::Request(_)) => Err(Failure::Stream(StreamError::CancelledHere)),
        })
    }
}

/// Formats a failure as one line.
pub(crate) fn line(failure: &Failure) -> String {
    match failure {
        Failure::Malformed(error) => format!("HTTP/3: {error}"),
        Failure::Stream(StreamError::Cancelled(code)) => format!("HTTP/3: cancelled by the peer ({code})"),
        Failure::Stream(StreamError::CancelledHere) => "HTTP/3: cancelled".to_owned(),
        Failure::Stream(StreamError::Refused) => {
            "HTTP/3: the server accepts no more requests (GOAWAY)".to_owned()
        }
        Failure::Stream(StreamError::Closed(reason)) => reason.to_string(),
    }
}

/// Returns whether the server has not processed the request that failed (RFC 9114 §4.1.1, §5.2).
pub(crate) fn is_unprocessed(failure: &Failure) -> bool {
    let rejected = StreamError::Cancelled(Code::H3_REQUEST_REJECTED);
    matches!(failure, Failure::Stream(error) if *error == rejected || *error == StreamError::Refused)
}
