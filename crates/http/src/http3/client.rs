//! A fetch's exchanges over HTTP/3: each on a stream of its own.

use super::streams::{Pipe, Streams};
use super::{MAX_HEAD, told, wrong};
use crate::fetch::own_stream::{Ended, Response};
use crate::fetch::state::{self, Fetch};
use crate::http2::io::Traffic;
use crate::observe::{FetchError, Observer};
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::World;
use bytes::{Buf, Bytes};
use h3::client::{Connection, RequestStream, SendRequest, builder};
use h3::error::{Code, StreamError};
use h3::quic::OpenStreams;
use http::Request;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::{Rc, Weak};

/// Asks for objects on a connection.
pub(crate) struct Requests<S: Session> {
    requests: SendRequest<Streams<S>, Bytes>,
    streams: Streams<S>,
}

impl<S: Session> Clone for Requests<S> {
    fn clone(&self) -> Self {
        Self { requests: self.requests.clone(), streams: self.streams.clone() }
    }
}

impl<S: Session> Requests<S> {
    /// What is beneath a stream of these, as long as it is held.
    pub(crate) fn pipe(&self, stream: &Exchanged<S>) -> Option<Rc<RefCell<Pipe<S::Stream>>>> {
        self.streams.pipe(stream.id())
    }

    /// Counts from now on what passes on streams to come.
    pub(crate) fn count(&self) -> Rc<Cell<Traffic>> {
        self.streams.count()
    }
}

/// One exchange's stream.
pub(crate) type Exchanged<S> = RequestStream<<Streams<S> as OpenStreams<Bytes>>::BidiStream, Bytes>;

/// Begins HTTP/3 on a session that is established, as the client.
pub(crate) async fn begin<S: Session>(
    session: S,
) -> Result<(Connection<Streams<S>, Bytes>, Requests<S>), CloseReason> {
    let streams = Streams::new(session);
    let begun = builder().max_field_section_size(MAX_HEAD).send_grease(false).build(streams.clone()).await;
    let (connection, requests) = begun.map_err(|error| told(&error))?;
    Ok((connection, Requests { requests, streams }))
}

/// Drives a connection of a fetch to its end.
pub(crate) async fn drive<W: World, C: Connector, O: Observer + 'static>(
    fetch: Weak<RefCell<Fetch<W, C, O>>>,
    name: usize,
    session: C::Session,
) {
    let reason = match begin(session.clone()).await {
        Err(reason) => reason,
        Ok((mut connection, requests)) => {
            if let Some(fetch) = fetch.upgrade() {
                fetch.borrow_mut().speaks(name, state::Requests::Http3(requests));
            }
            told(&poll_fn(|cx| connection.poll_close(cx)).await)
        }
    };
    session.close();
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().closed(name, &reason);
    }
}

/// Asks for an object and reads the response; `on_sent` is told the stream, and where on it the request lies.
pub(crate) async fn exchange<W: World, C: Connector, O: Observer + 'static>(
    mut requests: Requests<C::Session>,
    request: Request<()>,
    on_sent: impl FnOnce(u64, Range<u64>),
    mut taker: Response<W, C, O>,
) -> Ended {
    let sent = send(&mut requests, request).await;
    let mut stream = match sent {
        Ok(stream) => stream,
        Err(error) => return ended(&error),
    };
    let Some(pipe) = requests.pipe(&stream) else {
        return Ended::Connection(CloseReason::Aborted);
    };
    on_sent(stream.id().index(), pipe.borrow().bytes(false));
    let head = match response::<C::Session>(&mut stream).await {
        Ok(head) => head,
        Err(error) => return ended(&error),
    };
    if let Err(wrong) = taker.head(head.status(), head.headers()) {
        return Ended::Whole(Err(wrong));
    }
    loop {
        match stream.recv_data().await {
            Err(error) => return ended(&error),
            Ok(None) => return Ended::Whole(taker.whole(pipe.borrow().bytes(true))),
            Ok(Some(mut piece)) => {
                while piece.has_remaining() {
                    let bytes = piece.chunk().len();
                    if let Err(wrong) = taker.take(piece.chunk()) {
                        return Ended::Whole(Err(wrong));
                    }
                    piece.advance(bytes);
                    pipe.borrow_mut().took(bytes);
                }
            }
        }
    }
}

/// Sends a request without a body.
pub(crate) async fn send<S: Session>(
    requests: &mut Requests<S>,
    request: Request<()>,
) -> Result<Exchanged<S>, StreamError> {
    let mut stream = requests.requests.send_request(request).await?;
    stream.finish().await?;
    Ok(stream)
}

/// The head of the final response (RFC 9110 §15.2).
pub(crate) async fn response<S: Session>(
    stream: &mut Exchanged<S>,
) -> Result<http::Response<()>, StreamError> {
    loop {
        let head = stream.recv_response().await?;
        // How many there may be is bounded with what may come beside bodies.
        if !head.status().is_informational() {
            return Ok(head);
        }
    }
}

/// What an error means for the exchange.
fn ended(error: &StreamError) -> Ended {
    match error {
        StreamError::ConnectionError(error) => Ended::Connection(told(error)),
        StreamError::RemoteClosing => {
            Ended::Refused(CloseReason::Protocol("HTTP/3: the server takes nothing more (GOAWAY)".to_owned()))
        }
        StreamError::RemoteTerminate { code } if *code == Code::H3_REQUEST_REJECTED => {
            Ended::Refused(CloseReason::Protocol(wrong(error)))
        }
        _ => Ended::Whole(Err(FetchError::BadResponse(wrong(error)))),
    }
}
