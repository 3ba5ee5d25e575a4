//! The streams of a session as h3 uses them.
//!
//! h3 hands a stream one frame at a time and waits until the transport has it; it takes what it is given, and holds it until a
//! frame is whole. Neither has a bound of its own, so what h3 may hold of a stream is bounded here.

use crate::http2::io::Traffic;
use anabranch_transport::{CloseReason, ONE_WAY, OpenError, Session, Stream};
use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::proto::varint::VarInt;
use h3::quic::{
    self, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming, StreamId,
    WriteBuf,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A session's streams. A clone has the same ones.
pub(crate) struct Streams<S: Session> {
    session: S,
    /// Those both ways that h3 holds, by number.
    pipes: Rc<RefCell<Pipes<S::Stream>>>,
    /// What has passed on those, if that is counted.
    traffic: Rc<OnceCell<Rc<Cell<Traffic>>>>,
}

type Pipes<T> = BTreeMap<u64, Weak<RefCell<Pipe<T>>>>;

impl<S: Session> Clone for Streams<S> {
    fn clone(&self) -> Self {
        Self { session: self.session.clone(), pipes: self.pipes.clone(), traffic: self.traffic.clone() }
    }
}

impl<S: Session> Streams<S> {
    pub(crate) fn new(session: S) -> Self {
        Self { session, pipes: Rc::default(), traffic: Rc::default() }
    }

    /// The stream both ways of this name, as long as h3 holds it.
    pub(crate) fn pipe(&self, name: StreamId) -> Option<Rc<RefCell<Pipe<S::Stream>>>> {
        self.pipes.borrow().get(&name.index()).and_then(Weak::upgrade)
    }

    /// Counts from now on what passes on streams both ways that begin.
    pub(crate) fn count(&self) -> Rc<Cell<Traffic>> {
        self.traffic.get_or_init(Rc::default).clone()
    }

    /// The handshake of the session is not done.
    pub(crate) fn is_early(&self) -> bool {
        self.session.early_data()
    }

    fn hold(&self, stream: S::Stream) -> Held<S::Stream> {
        let number = stream.number();
        let traffic = self.traffic.get().filter(|_| number & ONE_WAY == 0).cloned();
        let pipe = Rc::new(RefCell::new(Pipe::new(stream, traffic)));
        if number & ONE_WAY == 0 {
            let mut pipes = self.pipes.borrow_mut();
            pipes.retain(|_, pipe| pipe.strong_count() > 0);
            pipes.insert(number, Rc::downgrade(&pipe));
        }
        Held(pipe)
    }

    fn begun(
        &self,
        cx: &mut Context<'_>,
        one_way: bool,
    ) -> Poll<Result<Held<S::Stream>, StreamErrorIncoming>> {
        let begun = ready!(self.session.poll_begin(cx, one_way));
        Poll::Ready(match begun {
            Ok(stream) => Ok(self.hold(stream)),
            Err(OpenError::Closed(reason)) => Err(of_connection(reason)),
            Err(error) => {
                let error = ConnectionErrorIncoming::InternalError(error.to_string());
                Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error: error })
            }
        })
    }
}

impl<S: Session> OpenStreams<Bytes> for Streams<S> {
    type BidiStream = Held<S::Stream>;
    type SendStream = Held<S::Stream>;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Held<S::Stream>, StreamErrorIncoming>> {
        self.begun(cx, false)
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Held<S::Stream>, StreamErrorIncoming>> {
        self.begun(cx, true)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        // What was written is delivered first, unless something is wrong.
        if code == Code::H3_NO_ERROR {
            self.session.close();
        } else {
            self.session.close_with(code.value(), &String::from_utf8_lossy(reason));
        }
    }
}

impl<S: Session> quic::Connection<Bytes> for Streams<S> {
    type RecvStream = Held<S::Stream>;
    type OpenStreams = Self;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Held<S::Stream>, ConnectionErrorIncoming>> {
        self.session.poll_accept_one_way(cx).map_ok(|stream| self.hold(stream)).map_err(incoming)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Held<S::Stream>, ConnectionErrorIncoming>> {
        self.session.poll_accept(cx).map_ok(|stream| self.hold(stream)).map_err(incoming)
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

/// A stream, and what is between h3 and it.
pub(crate) struct Pipe<T: Stream> {
    stream: T,
    /// A frame that the transport has not whole.
    waiting: Option<WriteBuf<Bytes>>,
    /// Nothing more is written.
    finished: bool,
    /// The end has been read.
    ended: bool,
    /// Bytes that h3 was given, and that were taken out of it as bodies.
    given: u64,
    taken: u64,
    /// How often in a row h3 was told to use what it holds.
    put_off: u32,
    traffic: Option<Rc<Cell<Traffic>>>,
}

impl<T: Stream> Pipe<T> {
    fn new(stream: T, traffic: Option<Rc<Cell<Traffic>>>) -> Self {
        Self { stream, waiting: None, finished: false, ended: false, given: 0, taken: 0, put_off: 0, traffic }
    }

    /// Ready when the transport has all that h3 has written.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(frame) = self.waiting.as_mut().filter(|frame| frame.has_remaining()) {
            match ready!(self.stream.poll_write(cx, frame.chunk())) {
                Ok(taken) => {
                    frame.advance(taken);
                    count(self.traffic.as_ref(), |traffic| traffic.sent += taken as u64);
                }
                Err(reason) => return Poll::Ready(Err(self.failed(reason, false))),
            }
        }
        self.waiting = None;
        Poll::Ready(Ok(()))
    }

    /// Nothing more is written: what is waiting still is lost.
    fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            self.stream.finish();
        }
    }

    /// When what it writes leaves, among others.
    pub(crate) fn set_rank(&mut self, rank: u32) {
        self.stream.set_rank(rank);
    }

    /// All has been written that answers what was read.
    pub(crate) fn answered(&mut self) {
        self.finish();
        if !std::mem::replace(&mut self.ended, true) {
            // RFC 9114 §4.1: the rest of a request that is answered is not needed.
            self.stream.cancel_reading(Code::H3_NO_ERROR.value());
        }
    }

    /// So much of what h3 was given has been taken out of it.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        count(self.traffic.as_ref(), |traffic| traffic.data += bytes as u64);
    }

    /// Cancels what has not been read or written.
    pub(crate) fn cancel(&mut self, code: Code) {
        if !std::mem::replace(&mut self.ended, true) {
            self.stream.cancel_reading(code.value());
        }
        if !std::mem::replace(&mut self.finished, true) {
            self.stream.cancel_writing(code.value());
        }
    }

    /// Where all that was read, or written, lies on the stream.
    pub(crate) fn bytes(&self, read: bool) -> Range<u64> {
        0..if read { self.stream.bytes_read() } else { self.stream.bytes_written() }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        // h3 reads once for each piece of a body that it hands out, and a piece ends with its frame: what comes fast would pile
        // up there. So it is to use what it holds, and is asked again at once, in case that is no whole frame.
        if self.given - self.taken > 2 * READ as u64 && self.put_off < MOST_PUT_OFF {
            self.put_off += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.put_off = 0;
        // Heads, and of bodies what is no payload; more than what honest peers need.
        let most = if self.stream.number() & ONE_WAY == 0 { MOST_HELD } else { MOST_SAID };
        if self.given - self.taken > most + self.taken / 16 {
            self.cancel(Code::H3_EXCESSIVE_LOAD);
            let line = format!("more than {most} bytes of heads, or of frames that are to be ignored");
            return Poll::Ready(Err(StreamErrorIncoming::Unknown(line.into())));
        }
        let (mut buffer, mut read) = ([0; READ], 0);
        // The end mostly comes with the last bytes, and is taken note of although nobody may ask for it.
        while read < READ && !self.ended {
            match self.stream.poll_read(cx, &mut buffer[read..]) {
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(more)) => read += more,
                // What was read comes first.
                _ if read > 0 => break,
                Poll::Ready(Err(reason)) => return Poll::Ready(Err(self.failed(reason, true))),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.given += read as u64;
        count(self.traffic.as_ref(), |traffic| traffic.received += read as u64);
        Poll::Ready(Ok((read > 0).then(|| Bytes::copy_from_slice(&buffer[..read]))))
    }

    fn failed(&mut self, reason: CloseReason, reading: bool) -> StreamErrorIncoming {
        if reading {
            self.ended = true;
        } else {
            self.finished = true;
        }
        match reason {
            CloseReason::Cancelled => StreamErrorIncoming::StreamTerminated {
                error_code: self.stream.cancel_code(reading).unwrap_or(0),
            },
            reason => of_connection(reason),
        }
    }
}

impl<T: Stream> Drop for Pipe<T> {
    fn drop(&mut self) {
        // Those of one way live as long as their connection, and end with it.
        if self.stream.number() & ONE_WAY == 0 {
            self.cancel(Code::H3_REQUEST_CANCELLED);
        }
    }
}

/// A stream in the hands of h3.
pub(crate) struct Held<T: Stream>(Rc<RefCell<Pipe<T>>>);

impl<T: Stream> SendStream<Bytes> for Held<T> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.0.borrow_mut().poll_flush(cx)
    }

    fn send_data<D: Into<WriteBuf<Bytes>>>(&mut self, data: D) -> Result<(), StreamErrorIncoming> {
        let waiting = &mut self.0.borrow_mut().waiting;
        if waiting.is_some() {
            let error =
                ConnectionErrorIncoming::InternalError("a frame before the last one was sent".to_owned());
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error: error });
        }
        *waiting = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let mut pipe = self.0.borrow_mut();
        ready!(pipe.poll_flush(cx))?;
        pipe.finish();
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, code: u64) {
        let pipe = &mut *self.0.borrow_mut();
        if !std::mem::replace(&mut pipe.finished, true) {
            pipe.stream.cancel_writing(code);
        }
    }

    fn send_id(&self) -> StreamId {
        name(self.0.borrow().stream.number())
    }
}

impl<T: Stream> RecvStream for Held<T> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.borrow_mut().poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        let pipe = &mut *self.0.borrow_mut();
        if !std::mem::replace(&mut pipe.ended, true) {
            pipe.stream.cancel_reading(code);
        }
    }

    fn recv_id(&self) -> StreamId {
        self.send_id()
    }
}

fn count(traffic: Option<&Rc<Cell<Traffic>>>, count: impl FnOnce(&mut Traffic)) {
    if let Some(traffic) = traffic {
        let mut counted = traffic.get();
        count(&mut counted);
        traffic.set(counted);
    }
}

/// QUIC's name of a stream (RFC 9000 §2.1): those both ways are the client's.
fn name(number: u64) -> StreamId {
    let name = if number & ONE_WAY == 0 { number << 2 } else { (number & !ONE_WAY) << 1 | 2 };
    // h3 looks at the names of requests alone; 2^60 streams are not begun.
    StreamId::try_from(name).unwrap_or_else(|_| StreamId::from(VarInt::from(0_u32)))
}

/// What h3 is told of the end of a session.
fn incoming(reason: CloseReason) -> ConnectionErrorIncoming {
    match reason {
        CloseReason::Finished => {
            ConnectionErrorIncoming::ApplicationClose { error_code: Code::H3_NO_ERROR.value() }
        }
        CloseReason::TimedOut(_) => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn of_connection(reason: CloseReason) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: incoming(reason) }
}

/// The most that is read at once, bytes.
const READ: usize = 8 * 1024;
/// How often h3 is told to use what it holds before it is given more.
const MOST_PUT_OFF: u32 = 8;
/// What h3 may hold of a stream both ways beyond bodies, bytes: a head that is taken, and its frame.
const MOST_HELD: u64 = 2 * super::MAX_HEAD;
/// What may come on a stream of one way: settings, and what is to be ignored.
const MOST_SAID: u64 = 1 << 20;
