//! One endpoint of an HTTP/3 connection: the control and QPACK streams in both directions, and connection errors.
//!
//! Implements those parts of RFC 9114 §3.2, §5.2, §6.2 and §8 that need a session.

use super::MAX_HEAD;
use super::code::{Code, Error};
use super::frame::{kind, put_frame, put_varint};
use super::message_reader::{Event, MessageReader};
use super::peer_streams::{MAX_FIELD_SECTION_SIZE, Peer, PeerStream};
use super::streams::{Pipe, StreamError};
use crate::http2::io::Traffic;
use anabranch_transport::{CloseReason, OpenError, Session, Stream};
use bytes::Bytes;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};

/// An HTTP/3 connection. Clones are handles to the same connection.
pub(crate) struct Connection<S: Session>(Rc<Inner<S>>);

struct Inner<S: Session> {
    session: S,
    is_client: bool,
    peer: RefCell<Peer>,
    /// The connection error that this endpoint raised, if any.
    error: RefCell<Option<Error>>,
    /// The request streams of a client, by number.
    pipes: RefCell<Pipes<S::Stream>>,
    /// The counter of the traffic on request streams, if the traffic is counted.
    traffic: OnceCell<Rc<Cell<Traffic>>>,
    /// The task that polls the driver.
    driver: RefCell<Option<Waker>>,
}

type Pipes<T> = BTreeMap<u64, Weak<RefCell<Pipe<T>>>>;

impl<S: Session> Clone for Connection<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Session> Connection<S> {
    /// Returns a counter of the traffic on request streams that are opened from now on.
    pub(super) fn traffic(&self) -> Rc<Cell<Traffic>> {
        self.0.traffic.get_or_init(Rc::default).clone()
    }

    /// Returns the session that carries the connection.
    pub(crate) fn session(&self) -> &S {
        &self.0.session
    }

    /// Returns the maximum size of a header section that the peer accepts.
    pub(super) fn max_field_section_size(&self) -> u64 {
        self.0.peer.borrow().max_field_section_size()
    }

    /// Returns whether the peer has announced that it accepts no more requests (RFC 9114 §5.2).
    pub(super) fn is_going_away(&self) -> bool {
        self.0.peer.borrow().goaway().is_some()
    }

    /// Wraps a request stream.
    pub(crate) fn pipe(&self, stream: S::Stream) -> Rc<RefCell<Pipe<S::Stream>>> {
        let number = stream.number();
        let pipe = Rc::new(RefCell::new(Pipe::new(stream, self.0.traffic.get().cloned())));
        // Only a client registers its streams, because only the GOAWAY of a server refers to request streams.
        if self.0.is_client {
            let mut pipes = self.0.pipes.borrow_mut();
            pipes.retain(|_, pipe| pipe.strong_count() > 0);
            pipes.insert(number, Rc::downgrade(&pipe));
        }
        pipe
    }

    /// Closes the connection because of `error` (RFC 9114 §8), unless an earlier error has closed it.
    pub(crate) fn fail(&self, error: Error) {
        let mut raised = self.0.error.borrow_mut();
        if raised.is_some() {
            return;
        }
        let (Error::Connection(code, reason) | Error::Stream(code, reason)) = &error;
        self.0.session.close_with(code.0, reason);
        *raised = Some(error);
        self.wake_driver();
    }

    /// Returns the reason why the connection has ended: the HTTP/3 error that this endpoint raised, or `of_session`,
    /// the reason that the transport session gives.
    pub(super) fn reason(&self, of_session: CloseReason) -> CloseReason {
        match &*self.0.error.borrow() {
            Some(error) => CloseReason::Protocol(format!("HTTP/3: {error}")),
            None => of_session,
        }
    }

    /// Wakes the task that polls the driver.
    pub(super) fn wake_driver(&self) {
        if let Some(driver) = self.0.driver.borrow_mut().take() {
            driver.wake();
        }
    }

    /// RFC 9114 §5.2: the server has not processed requests whose identifier is `id` or higher, and will not process
    /// them.
    fn refuse_from(&self, id: u64) {
        let refused: Vec<_> = {
            let pipes = self.0.pipes.borrow();
            pipes.range(id.div_ceil(4)..).filter_map(|(_, pipe)| pipe.upgrade()).collect()
        };
        refused.iter().for_each(|pipe| pipe.borrow_mut().refuse());
    }
}

/// Drives an HTTP/3 connection. The driver must be polled as long as the connection is used.
pub(crate) struct Driver<S: Session> {
    connection: Connection<S>,
    control: CriticalStream<S::Stream>,
    /// The QPACK streams of this endpoint. Only the type of each stream is sent, and no instructions.
    qpack: [CriticalStream<S::Stream>; 2],
    peer_streams: Vec<(PeerStream, S::Stream)>,
}

/// A stream that this endpoint opened and that lives as long as the connection.
struct CriticalStream<T> {
    stream: T,
    unsent: Bytes,
}

/// Starts HTTP/3 on a session. The endpoint accepts heads of up to `max_head` bytes.
pub(crate) async fn begin<S: Session>(
    session: S,
    is_client: bool,
    max_head: u64,
) -> Result<(Connection<S>, Driver<S>), CloseReason> {
    let inner = Inner {
        session,
        is_client,
        peer: RefCell::new(Peer::new(!is_client)),
        error: RefCell::default(),
        pipes: RefCell::default(),
        traffic: OnceCell::new(),
        driver: RefCell::default(),
    };
    let connection = Connection(Rc::new(inner));
    let begin = async || {
        let stream = poll_fn(|cx| connection.0.session.poll_begin(cx, true)).await;
        let stream = stream.map_err(|error| match error {
            OpenError::Closed(reason) => reason,
            other => CloseReason::Protocol(other.to_string()),
        })?;
        Ok(CriticalStream { stream, unsent: Bytes::new() })
    };
    // RFC 9114 §6.2: the control stream and the QPACK streams are opened before requests.
    let (mut control, mut encoder, mut decoder) = (begin().await?, begin().await?, begin().await?);
    // RFC 9114 §6.2.1: SETTINGS is the first frame on the control stream.
    let mut first = vec![0x00];
    put_frame(&mut first, kind::SETTINGS, &settings(max_head));
    control.stream.write_all(&first).await?;
    // RFC 9204 §4.2: the types of the QPACK decoder and encoder streams.
    decoder.stream.write_all(&[0x03]).await?;
    encoder.stream.write_all(&[0x02]).await?;
    let driver = Driver {
        connection: connection.clone(),
        control,
        qpack: [decoder, encoder],
        peer_streams: Vec::new(),
    };
    Ok((connection, driver))
}

/// Returns the payload of this endpoint's SETTINGS frame.
fn settings(max_head: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    // RFC 9114 §7.2.4.1: reserved settings test whether the peer ignores unknown settings. Their identifiers are fixed,
    // so that a seed always gives the same bytes.
    let reserved = |n: u64| 0x1f * n + 0x21;
    for (id, value) in [(MAX_FIELD_SECTION_SIZE, max_head), (reserved(1 << 20), 0), (reserved(1 << 40), 0)] {
        put_varint(&mut payload, id);
        put_varint(&mut payload, value);
    }
    payload
}

impl<S: Session> Driver<S> {
    /// Reads and writes the available data. Completes with a reason when the connection has ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        *self.connection.0.driver.borrow_mut() = Some(cx.waker().clone());
        let goaway = self.connection.0.peer.borrow().goaway();
        let ended = match self.drive(cx) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(reason)) => Poll::Ready(reason),
            Err(error) => {
                self.connection.fail(error);
                Poll::Ready(CloseReason::Aborted)
            }
        };
        let now = self.connection.0.peer.borrow().goaway();
        if self.connection.0.is_client && now != goaway {
            now.into_iter().for_each(|id| self.connection.refuse_from(id));
        }
        if self.connection.0.error.borrow().is_some() {
            return Poll::Ready(self.connection.reason(CloseReason::Aborted));
        }
        ended
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Result<Poll<CloseReason>, Error> {
        let session = &self.connection.0.session;
        if let Poll::Ready(reason) = session.poll_closed(cx) {
            return Ok(Poll::Ready(reason));
        }
        for critical in std::iter::once(&mut self.control).chain(&mut self.qpack) {
            if let Some(reason) = critical.poll(cx)? {
                return Ok(Poll::Ready(reason));
            }
        }
        while let Poll::Ready(stream) = session.poll_accept_one_way(cx) {
            match stream {
                Ok(stream) => self.peer_streams.push((PeerStream::default(), stream)),
                Err(reason) => return Ok(Poll::Ready(reason)),
            }
        }
        let mut at = 0;
        while let Some((state, stream)) = self.peer_streams.get_mut(at) {
            let mut peer = self.connection.0.peer.borrow_mut();
            match read_peer_stream(&mut peer, state, stream, cx)? {
                Next::More => at += 1,
                Next::Over => drop(self.peer_streams.swap_remove(at)),
                Next::SessionEnded(reason) => return Ok(Poll::Ready(reason)),
            }
        }
        Ok(Poll::Pending)
    }

    /// Queues a GOAWAY frame: this endpoint will not process requests whose stream number is `stream` or higher
    /// (RFC 9114 §5.2).
    pub(crate) fn go_away(&mut self, stream: u64) {
        let (mut id, mut frames) = (Vec::new(), self.control.unsent.to_vec());
        // RFC 9000 §2.1: the identifiers of client-initiated bidirectional streams are the multiples of 4.
        put_varint(&mut id, stream << 2);
        put_frame(&mut frames, kind::GOAWAY, &id);
        self.control.unsent = frames.into();
    }
}

impl<T: Stream> CriticalStream<T> {
    /// Writes `unsent` to this control or QPACK stream. If the session has ended, returns the reason.
    fn poll(&mut self, cx: &mut Context<'_>) -> Result<Option<CloseReason>, Error> {
        let stopped = || {
            // RFC 9114 §6.2.1: a receiver must not ask the sender to close the control stream.
            let reason = "the peer stopped a control or QPACK stream";
            Error::connection(Code::H3_CLOSED_CRITICAL_STREAM, reason)
        };
        if self.stream.poll_stopped(cx).is_ready() {
            return Err(stopped());
        }
        while !self.unsent.is_empty() {
            match self.stream.poll_write(cx, &self.unsent) {
                Poll::Pending => break,
                Poll::Ready(Ok(taken)) => drop(self.unsent.split_to(taken)),
                Poll::Ready(Err(CloseReason::Cancelled)) => return Err(stopped()),
                Poll::Ready(Err(reason)) => return Ok(Some(reason)),
            }
        }
        Ok(None)
    }
}

/// What to do next after reading from a stream that the peer opened.
enum Next {
    More,
    Over,
    SessionEnded(CloseReason),
}

fn read_peer_stream<T: Stream>(
    peer: &mut Peer,
    state: &mut PeerStream,
    stream: &mut T,
    cx: &mut Context<'_>,
) -> Result<Next, Error> {
    let mut buffer = [0; 1024];
    loop {
        match stream.poll_read(cx, &mut buffer) {
            Poll::Pending => return Ok(Next::More),
            Poll::Ready(Ok(0) | Err(CloseReason::Cancelled)) => {
                peer.end(state)?;
                return Ok(Next::Over);
            }
            Poll::Ready(Ok(read)) => peer.read(state, Bytes::copy_from_slice(&buffer[..read]))?,
            Poll::Ready(Err(reason)) => return Ok(Next::SessionEnded(reason)),
        }
        if matches!(state, PeerStream::Unknown) {
            // RFC 9114 §6.2.3, §9: an unknown stream type is no error. The rest of the stream is not read.
            stream.cancel_reading(Code::H3_STREAM_CREATION_ERROR.0);
            return Ok(Next::Over);
        }
    }
}

/// The message that arrives on a request stream.
pub(crate) struct Incoming<S: Session> {
    connection: Connection<S>,
    pipe: Rc<RefCell<Pipe<S::Stream>>>,
    reader: MessageReader,
    /// Bytes that were read from the stream and not yet parsed.
    input: Bytes,
    ended: bool,
}

/// The reason why a message is incomplete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The message violates the protocol, and its stream was cancelled.
    Malformed(Error),
    /// The stream of the message cannot be used any more.
    Stream(StreamError),
}

impl<S: Session> Incoming<S> {
    /// Creates a reader for the request or response on a stream. It accepts a head of up to `max_head` bytes.
    pub(crate) fn new(connection: Connection<S>, pipe: Rc<RefCell<Pipe<S::Stream>>>, max_head: u64) -> Self {
        let reader = MessageReader::new(!connection.0.is_client, max_head);
        Self { connection, pipe, reader, input: Bytes::new(), ended: false }
    }

    /// Returns the stream that carries the message.
    pub(crate) fn pipe(&self) -> &Rc<RefCell<Pipe<S::Stream>>> {
        &self.pipe
    }

    /// Returns the length of the content, if the head declares it.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.reader.content_length()
    }

    /// Returns whether the whole message has been received.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Completes with the next event of the message, or with `None` at the end of the message.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Event>, Failure>> {
        while !self.ended {
            match self.reader.read(&mut self.input) {
                Err(error) => return Poll::Ready(Err(self.violated(error))),
                Ok(Some(event)) => {
                    if let Event::Data(data) = &event {
                        self.pipe.borrow().count_data(data.len());
                    }
                    return Poll::Ready(Ok(Some(event)));
                }
                Ok(None) => {}
            }
            let read = ready!(self.pipe.borrow_mut().poll_read(cx));
            match read {
                Ok(Some(bytes)) => self.input = bytes,
                Ok(None) => match self.reader.end() {
                    Ok(()) => self.ended = true,
                    Err(error) => return Poll::Ready(Err(self.violated(error))),
                },
                Err(StreamError::Closed(reason)) => {
                    let reason = self.connection.reason(reason);
                    return Poll::Ready(Err(Failure::Stream(StreamError::Closed(reason))));
                }
                Err(error) => return Poll::Ready(Err(Failure::Stream(error))),
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Closes the connection or cancels the stream, depending on the scope of `error`. Returns the corresponding
    /// failure.
    fn violated(&self, error: Error) -> Failure {
        match &error {
            Error::Connection(..) => {
                self.connection.fail(error.clone());
                let reason = self.connection.reason(CloseReason::Aborted);
                Failure::Stream(StreamError::Closed(reason))
            }
            Error::Stream(code, _) => {
                // RFC 9114 §4.1.2: a malformed message is a stream error. This holds for a request even if the server
                // has already begun to respond. Once the whole request has arrived, STOP_SENDING has no effect, so the
                // response is reset, too.
                self.pipe.borrow_mut().abort(*code);
                Failure::Malformed(error)
            }
        }
    }
}

/// Returns the maximum size of a head that a server accepts: the limit in its options, but at most [`MAX_HEAD`].
pub(crate) const fn max_head_size(max_head: Option<usize>) -> u64 {
    match max_head {
        Some(most) if (most as u64) < MAX_HEAD => most as u64,
        _ => MAX_HEAD,
    }
}
