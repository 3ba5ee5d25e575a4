//! A TLS session and its one stream: the handshake, records in both directions, and closing.
//!
//! `rustls` implements RFC 8446 §5 (records) and §6.1 (closure alerts). This module decides when records are read and
//! written, and buffers data for which the transport has no room. It reports an error if data ends without a closure
//! alert.
//!
//! A background task ([`SessionDriver`]) drives the handshake, and writes data for which the transport had no room. The
//! session therefore makes progress even if the program does not poll. After the handshake, only the program's reads
//! take records from the transport, one at a time, so at most one decrypted record waits for the program. A write is
//! accepted only after the transport has accepted all earlier records.

use crate::fault;
use crate::host::RecordLog;
use crate::simulation::Surroundings;
use anabranch_transport::network::Figures;
use anabranch_transport::{CloseReason, OpenError, RecordPosition, Session, Stream, StreamId};
use rustls::Connection;
use std::cell::RefCell;
use std::io::{IoSlice, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The length of a record's header in bytes (RFC 8446 §5.1): type, version, length.
const HEADER: usize = 5;
/// The maximum payload of a record in bytes (RFC 8446 §5.2). One write accepts at most this number of bytes.
const LARGEST: usize = 16 * 1024;
/// The maximum number of bytes by which encryption expands a record. This is the limit of TLS 1.2 (RFC 5246 §6.2.3),
/// which is higher than that of TLS 1.3.
const EXPANSION: usize = 2048;
/// The number of empty records that one poll reads before other tasks get their turn.
const MOST_EMPTY: u32 = 64;
/// The maximum number of bytes that one call reads from the transport.
const READ: usize = 32 * 1024;
/// The maximum number of empty buffers that the sessions of a connector or listener keep.
const MOST_SPARE: usize = 4;

/// A session over TLS. A clone is another handle of the same session. Dropping the last handle closes the session
/// gracefully.
pub struct TlsSession<S: Session>(Rc<Handle<S>>);

impl<S: Session> Clone for TlsSession<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Session> TlsSession<S> {
    /// Calls the function `ask` with the transport's session below TLS, and returns the result.
    pub fn transport<R>(&self, ask: impl FnOnce(&S) -> R) -> R {
        self.with(|inner| ask(&inner.transport))
    }
}

/// A handle shared by all clones of a session and by the session's stream. When the user has dropped all of them, the
/// session closes.
struct Handle<S: Session>(Rc<RefCell<Inner<S>>>);

impl<S: Session> Drop for Handle<S> {
    fn drop(&mut self) {
        self.0.borrow_mut().begin_close();
    }
}

/// The buffers that all sessions of a connector or listener share, so that an idle session holds none.
#[derive(Clone, Debug)]
pub(crate) struct Scratch(Rc<Buffers>);

#[derive(Debug)]
struct Buffers {
    /// The buffer into which sessions read from the transport.
    read: RefCell<Vec<u8>>,
    /// Empty buffers that records have left.
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Buffers { read: RefCell::new(vec![0; READ]), spare: RefCell::default() }))
    }

    /// Returns an empty buffer.
    fn take(&self) -> Vec<u8> {
        self.0.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps a buffer that is no longer needed, unless it is large or enough buffers are kept.
    fn give(&self, mut buffer: Vec<u8>) {
        let mut spare = self.0.spare.borrow_mut();
        if (1..=READ).contains(&buffer.capacity()) && spare.len() < MOST_SPARE {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// The stage of a TLS session.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// The transport's handshake or the TLS handshake is under way.
    Handshake,
    /// The handshake is done, and bytes can be exchanged.
    Open,
    /// The session has failed, and no more bytes can be exchanged.
    Failed(CloseReason),
}

/// How the peer ended its data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerClose {
    /// The data ended with a closure alert.
    Closed,
    /// The data ended without a closure alert, so an attacker may have truncated it.
    Cut,
}

/// The state of a session that its handles share.
struct Inner<S: Session> {
    transport: S,
    stream: Option<S::Stream>,
    tls: Connection,
    surroundings: Surroundings,
    stage: Stage,
    /// Bytes from the transport that are not decrypted yet.
    input: Vec<u8>,
    /// The number of decrypted bytes that TLS holds until the program reads them.
    plain: usize,
    /// Encrypted records that the transport has not accepted yet.
    output: Vec<u8>,
    /// The number of bytes of `output` that the transport has accepted.
    sent: usize,
    /// The number of bytes encrypted since the session began, which is the position of the next record on the
    /// transport's stream.
    sealed: u64,
    /// The log of the positions of TLS records on the transport's stream.
    record_log: RecordLog,
    scratch: Scratch,
    peer_close: Option<PeerClose>,
    read: u64,
    written: u64,
    /// Whether the program has a handle of the stream.
    has_handle: bool,
    /// Whether an accept call has returned the stream.
    accepted: bool,
    /// Whether the program has finished its data and will write no more.
    finishing: bool,
    finished: bool,
    closing: bool,
    /// The reason why the transport's session has ended; `None` while it lasts.
    closed: Option<CloseReason>,
    /// The waker of the background task.
    driver_waker: Option<Waker>,
    waiting: Vec<Waker>,
    readers: Vec<Waker>,
    writers: Vec<Waker>,
}

fn wait(list: &mut Vec<Waker>, cx: &Context<'_>) {
    if !list.iter().any(|waker| waker.will_wake(cx.waker())) {
        list.push(cx.waker().clone());
    }
}

fn wake(list: &mut Vec<Waker>) {
    for waker in list.drain(..) {
        waker.wake();
    }
}

impl<S: Session> Inner<S> {
    /// Does all work that needs no call by the application: the handshake, output and closing.
    fn go_on(&mut self) {
        // Fast path: usually the session is open, has no output, and is not closing. Then there is no work.
        let idle = self.stage == Stage::Open && self.output.is_empty();
        if idle && !self.finishing && !self.closing {
            return;
        }
        let Some(waker) = self.driver_waker.clone() else { return };
        let cx = &mut Context::from_waker(&waker);
        if self.stage == Stage::Handshake {
            self.shake_hands(cx);
        }
        self.flush(cx);
    }

    fn shake_hands(&mut self, cx: &mut Context<'_>) {
        if self.stream.is_none() {
            match self.transport.poll_established(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(reason)) => return self.fail(reason),
                Poll::Pending => return,
            }
            match self.transport.open(0) {
                Ok(stream) => self.stream = Some(stream),
                Err(OpenError::Closed(reason)) => return self.fail(reason),
                Err(other) => return self.fail(CloseReason::Protocol(other.to_string())),
            }
        }
        loop {
            self.seal();
            self.flush(cx);
            if !self.tls.is_handshaking() {
                self.stage = Stage::Open;
                wake(&mut self.waiting);
                wake(&mut self.readers);
                wake(&mut self.writers);
                return;
            }
            match self.take_record(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => {
                    return self
                        .fail(CloseReason::Protocol("the peer ended the handshake of TLS".to_owned()));
                }
                Poll::Ready(Err(reason)) => return self.fail(reason),
                Poll::Pending => return,
            }
        }
    }

    /// Reads one record from the transport and processes it. Returns false if no more records follow.
    fn take_record(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, CloseReason>> {
        loop {
            if let Some(length) = whole_record(&self.input)? {
                // The buffer is given away, so that an idle session holds no memory for records.
                let input = std::mem::take(&mut self.input);
                let opened = self.open_record(&input[..length]);
                if input.len() > length {
                    self.input = self.scratch.take();
                    self.input.extend_from_slice(&input[length..]);
                }
                self.scratch.give(input);
                return Poll::Ready(opened.map(|()| true));
            }
            if self.peer_close.is_some() {
                return Poll::Ready(Ok(false));
            }
            let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(false)) };
            let shared = self.scratch.clone();
            let mut scratch = shared.0.read.borrow_mut();
            match stream.poll_read(cx, &mut scratch) {
                Poll::Ready(Ok(0)) => self.peer_close = Some(PeerClose::Cut),
                // Usually exactly one complete record has arrived, which need not be buffered.
                Poll::Ready(Ok(read))
                    if self.input.is_empty() && whole_record(&scratch[..read])? == Some(read) =>
                {
                    return Poll::Ready(self.open_record(&scratch[..read]).map(|()| true));
                }
                Poll::Ready(Ok(read)) => {
                    if self.input.capacity() == 0 {
                        self.input = shared.take();
                    }
                    self.input.extend_from_slice(&scratch[..read]);
                }
                Poll::Ready(Err(reason)) => return Poll::Ready(Err(reason)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Passes a record to TLS, which decrypts it.
    fn open_record(&mut self, mut record: &[u8]) -> Result<(), CloseReason> {
        let (tls, plain) = (&mut self.tls, &mut self.plain);
        let opened = self.surroundings.within(|| {
            let mut closed = false;
            while !record.is_empty() {
                // Reading from memory fails only if TLS has not processed earlier data.
                tls.read_tls(&mut record).map_err(|error| rustls::Error::General(error.to_string()))?;
                let state = tls.process_new_packets()?;
                closed |= state.peer_has_closed();
                *plain = state.plaintext_bytes_to_read();
            }
            Ok(closed)
        });
        // The record may have caused rustls to queue an alert or a key update for the peer, which is sent now.
        self.seal();
        match opened {
            Ok(closed) => {
                if closed {
                    self.peer_close = Some(PeerClose::Closed);
                }
                Ok(())
            }
            Err(error) => {
                let reason = fault::reason(&error);
                self.fail(reason.clone());
                Err(reason)
            }
        }
    }

    /// Appends to `output` the records that TLS wants to send.
    fn seal(&mut self) {
        if !self.tls.wants_write() {
            return;
        }
        if self.output.capacity() == 0 {
            self.output = self.scratch.take();
        }
        let (tls, output) = (&mut self.tls, &mut self.output);
        let before = output.len();
        self.surroundings.within(|| while tls.wants_write() && tls.write_tls(output).is_ok() {});
        self.sealed += (self.output.len() - before) as u64;
    }

    /// Writes `output` to the transport until all is written or the transport has no more room. `cx` is the context of
    /// the background task.
    fn flush(&mut self, cx: &mut Context<'_>) {
        let Some(stream) = &mut self.stream else {
            if self.closing {
                self.transport.close();
            }
            return;
        };
        while self.sent < self.output.len() {
            match stream.poll_write(cx, &self.output[self.sent..]) {
                Poll::Ready(Ok(taken)) => self.sent += taken,
                Poll::Ready(Err(reason)) => {
                    (self.output, self.sent) = (Vec::new(), 0);
                    return self.fail(reason);
                }
                Poll::Pending => return,
            }
        }
        if self.sent > 0 {
            self.scratch.give(std::mem::take(&mut self.output));
            self.sent = 0;
            wake(&mut self.writers);
        }
        if self.finishing && !self.finished {
            self.finished = true;
            stream.finish();
        }
        // Once this side has finished writing, the transport's stream is dropped in two cases: the peer has closed, or
        // the program will read no more. In the second case, the transport discards data that still arrives.
        if self.finished && (self.peer_close.is_some() || self.closing && !self.has_handle) {
            self.stream = None;
        }
        if self.closing {
            self.transport.close();
        }
    }

    fn fail(&mut self, reason: CloseReason) {
        if matches!(self.stage, Stage::Failed(_)) {
            return;
        }
        self.stage = Stage::Failed(reason);
        // From now on nothing is sent except a TLS alert, so the session counts as finished and closing.
        (self.finishing, self.closing) = (true, true);
        wake(&mut self.waiting);
        wake(&mut self.readers);
        wake(&mut self.writers);
        if let Some(waker) = &self.driver_waker {
            waker.wake_by_ref();
        }
    }

    /// Sends the closure alert after the last data. RFC 8446 §6.1: close_notify ends one direction.
    fn begin_finish(&mut self) {
        if !self.finishing {
            self.finishing = true;
            if self.stage == Stage::Open {
                self.surroundings.within(|| self.tls.send_close_notify());
                self.seal();
            }
            self.go_on();
        }
    }

    fn begin_close(&mut self) {
        if self.stage == Stage::Handshake {
            self.fail(CloseReason::Aborted);
        }
        self.begin_finish();
        self.closing = true;
        self.go_on();
        if let Some(waker) = &self.driver_waker {
            waker.wake_by_ref();
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        let mut empty = 0;
        loop {
            if self.plain > 0 || into.is_empty() {
                // This read cannot fail, because TLS has reported that this number of bytes can be read.
                let taken = self.tls.reader().read(into).unwrap_or(0);
                self.plain -= taken;
                self.read += taken as u64;
                return Poll::Ready(Ok(taken));
            }
            match (&self.stage, self.peer_close) {
                (Stage::Failed(reason), _) => return Poll::Ready(Err(reason.clone())),
                (_, Some(PeerClose::Closed)) => return Poll::Ready(Ok(0)),
                (Stage::Handshake, _) => {
                    wait(&mut self.readers, cx);
                    return Poll::Pending;
                }
                (Stage::Open, _) => {}
            }
            match self.take_record(cx) {
                Poll::Ready(Ok(true)) => {
                    self.go_on();
                    empty += u32::from(self.plain == 0);
                    // Lets other tasks run, because a peer may send empty records without end.
                    if empty == MOST_EMPTY {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Poll::Ready(Ok(false)) => {
                    // RFC 8446 §6.1: data that ends without a closure alert may have been truncated.
                    let cut = "the peer's bytes end without its closure alert: they may have been cut";
                    return Poll::Ready(Err(CloseReason::Protocol(cut.to_owned())));
                }
                Poll::Ready(Err(reason)) => return Poll::Ready(Err(reason)),
                Poll::Pending => {
                    wait(&mut self.readers, cx);
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[&[u8]]) -> Poll<Result<usize, CloseReason>> {
        match &self.stage {
            Stage::Failed(reason) => return Poll::Ready(Err(reason.clone())),
            _ if self.finishing => return Poll::Ready(Err(CloseReason::Finished)),
            Stage::Open if self.output.is_empty() => {}
            _ => {
                wait(&mut self.writers, cx);
                return Poll::Pending;
            }
        }
        let tls = &mut self.tls;
        let taken = match slices {
            [slice] => {
                let fitting = &slice[..slice.len().min(LARGEST)];
                self.surroundings.within(|| tls.writer().write(fitting))
            }
            _ => {
                let mut room = LARGEST;
                let fitting: Vec<IoSlice<'_>> = slices
                    .iter()
                    .map(|slice| {
                        let taken = slice.len().min(room);
                        room -= taken;
                        IoSlice::new(&slice[..taken])
                    })
                    .collect();
                self.surroundings.within(|| tls.writer().write_vectored(&fitting))
            }
        };
        let taken = taken.map_err(|error| CloseReason::Protocol(format!("TLS: {error}")))?;
        let (upper, lower) = (self.written, self.sealed);
        self.written += taken as u64;
        self.seal();
        self.record_log.add(
            self.transport.id(),
            RecordPosition { upper: upper..self.written, lower: lower..self.sealed },
        );
        self.go_on();
        match &self.stage {
            Stage::Failed(reason) => Poll::Ready(Err(reason.clone())),
            _ => Poll::Ready(Ok(taken)),
        }
    }
}

/// Returns the length of the first record in `input`; `None` if the record is not complete.
fn whole_record(input: &[u8]) -> Result<Option<usize>, CloseReason> {
    let Some(header) = input.first_chunk::<HEADER>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    // RFC 8446 §5.1: the types are 20 (change_cipher_spec) to 24 (heartbeat), and the major version is 3.
    if !(20..=24).contains(&header[0]) || header[1] != 3 {
        return Err(CloseReason::Protocol("what the peer sent is not TLS".to_owned()));
    }
    if length > LARGEST + EXPANSION {
        return Err(CloseReason::Protocol("the peer's record is longer than TLS allows".to_owned()));
    }
    Ok(Some(HEADER + length).filter(|whole| *whole <= input.len()))
}

impl<S: Session> TlsSession<S> {
    /// Creates a session over the transport's session `transport`. `tls` is the initial TLS state. The caller must
    /// spawn the returned task ([`SessionDriver`]).
    pub(crate) fn over(
        transport: S,
        tls: Connection,
        surroundings: Surroundings,
        record_log: RecordLog,
        scratch: Scratch,
    ) -> (Self, SessionDriver<S>) {
        let inner = Rc::new(RefCell::new(Inner {
            transport,
            stream: None,
            tls,
            surroundings,
            stage: Stage::Handshake,
            input: Vec::new(),
            plain: 0,
            output: Vec::new(),
            sent: 0,
            sealed: 0,
            record_log,
            scratch,
            peer_close: None,
            read: 0,
            written: 0,
            has_handle: false,
            accepted: false,
            finishing: false,
            finished: false,
            closing: false,
            closed: None,
            driver_waker: None,
            waiting: Vec::new(),
            readers: Vec::new(),
            writers: Vec::new(),
        }));
        (Self(Rc::new(Handle(inner.clone()))), SessionDriver(inner))
    }

    fn with<T>(&self, what: impl FnOnce(&mut Inner<S>) -> T) -> T {
        what(&mut self.0.0.borrow_mut())
    }
}

/// The background task of a session. It makes progress even if the program does not poll, and ends with the transport's
/// session.
pub(crate) struct SessionDriver<S: Session>(Rc<RefCell<Inner<S>>>);

impl<S: Session> Future for SessionDriver<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.borrow_mut();
        if inner.driver_waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            inner.driver_waker = Some(cx.waker().clone());
        }
        inner.go_on();
        match inner.transport.poll_closed(cx) {
            Poll::Ready(reason) => {
                inner.closed = Some(reason.clone());
                if inner.stage == Stage::Handshake {
                    inner.fail(reason);
                }
                // All waiting tasks are woken. Their reads still return data that arrived before the end.
                wake(&mut inner.waiting);
                wake(&mut inner.readers);
                wake(&mut inner.writers);
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: Session> Session for TlsSession<S> {
    type Stream = TlsStream<S>;

    fn id(&self) -> u64 {
        self.with(|inner| inner.transport.id())
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.with(|inner| inner.transport.peer())
    }

    fn figures(&self) -> Option<Figures> {
        self.with(|inner| inner.transport.figures())
    }

    fn congestion(&self) -> Option<String> {
        self.with(|inner| inner.transport.congestion())
    }

    fn is_multipath(&self) -> Option<bool> {
        self.with(|inner| inner.transport.is_multipath())
    }

    fn protocol(&self) -> Option<Vec<u8>> {
        self.with(|inner| inner.tls.alpn_protocol().map(<[u8]>::to_vec))
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.with(|inner| match &inner.stage {
            Stage::Open => Poll::Ready(Ok(())),
            Stage::Failed(reason) => Poll::Ready(Err(reason.clone())),
            Stage::Handshake => {
                wait(&mut inner.waiting, cx);
                Poll::Pending
            }
        })
    }

    fn is_transport_established(&self) -> bool {
        self.with(|inner| inner.stream.is_some())
    }

    fn open(&self, number: StreamId) -> Result<TlsStream<S>, OpenError> {
        self.with(|inner| match &inner.stage {
            Stage::Failed(reason) => Err(OpenError::Closed(reason.clone())),
            _ if number != 0 => Err(OpenError::NoSuchStream { number, streams: 1 }),
            _ if inner.has_handle => Err(OpenError::AlreadyOpen(0)),
            _ => {
                inner.has_handle = true;
                Ok(())
            }
        })?;
        Ok(TlsStream(self.0.clone()))
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<TlsStream<S>, CloseReason>> {
        match self.poll_established(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(reason)) => return Poll::Ready(Err(reason)),
            Poll::Pending => return Poll::Pending,
        }
        // A TLS session has only one stream. After that stream was accepted, the next accept call waits for the end of
        // the session.
        if !self.with(|inner| std::mem::replace(&mut inner.accepted, true))
            && let Ok(stream) = self.open(0)
        {
            return Poll::Ready(Ok(stream));
        }
        self.poll_closed(cx).map(Err)
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.with(|inner| match (&inner.stage, &inner.closed) {
            (Stage::Failed(reason), _) | (_, Some(reason)) => Poll::Ready(reason.clone()),
            _ => {
                wait(&mut inner.waiting, cx);
                Poll::Pending
            }
        })
    }

    fn unacknowledged(&self) -> u64 {
        self.with(|inner| inner.transport.unacknowledged() + (inner.output.len() - inner.sent) as u64)
    }

    fn limit_unsent(&self, bytes: u64) {
        self.with(|inner| inner.transport.limit_unsent(bytes));
    }

    fn close(&self) {
        self.with(Inner::begin_close);
    }

    fn abort(&self) {
        self.with(|inner| {
            inner.transport.abort();
            inner.fail(CloseReason::Aborted);
        });
    }
}

/// The only stream of a session over TLS.
pub struct TlsStream<S: Session>(Rc<Handle<S>>);

impl<S: Session> TlsStream<S> {
    fn with<T>(&self, what: impl FnOnce(&mut Inner<S>) -> T) -> T {
        what(&mut self.0.0.borrow_mut())
    }
}

impl<S: Session> Drop for TlsStream<S> {
    fn drop(&mut self) {
        self.with(|inner| {
            inner.has_handle = false;
            inner.go_on();
        });
    }
}

impl<S: Session> Stream for TlsStream<S> {
    fn number(&self) -> StreamId {
        0
    }

    fn bytes_read(&self) -> u64 {
        self.with(|inner| inner.read)
    }

    fn bytes_written(&self) -> u64 {
        self.with(|inner| inner.written)
    }

    fn unacknowledged(&self) -> u64 {
        self.with(|inner| inner.transport.unacknowledged() + (inner.output.len() - inner.sent) as u64)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        self.with(|inner| inner.poll_read(cx, into))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        self.with(|inner| inner.poll_write(cx, &[from]))
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, CloseReason>> {
        let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        self.with(|inner| inner.poll_write(cx, &slices))
    }

    fn finish(&mut self) {
        self.with(Inner::begin_finish);
    }

    fn supports_half_close(&self) -> bool {
        true
    }
}
