//! Sessions without a network: lossless pipes in memory, with faults on request.

use anabranch_transport::{CloseReason, ConnectError, Connector, Listener, OpenError, Session, Stream};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// An in-memory transport that connects a client and a server.
#[derive(Clone)]
pub struct Meeting {
    inner: Rc<RefCell<MeetingInner>>,
}

struct MeetingInner {
    streams: u64,
    early: bool,
    opened: u64,
    backlog: VecDeque<Pipe>,
    acceptor: Option<Waker>,
    refuse: bool,
    /// The sessions that break, by session number (from 1), and the number of bytes to the client after which each
    /// breaks.
    break_after: BTreeMap<u64, u64>,
}

impl Meeting {
    pub fn new(streams: u64, early: bool) -> Self {
        let (backlog, break_after) = (VecDeque::new(), BTreeMap::new());
        let inner =
            MeetingInner { streams, early, opened: 0, backlog, acceptor: None, refuse: false, break_after };
        Self { inner: Rc::new(RefCell::new(inner)) }
    }

    pub fn refuse(&self) {
        self.inner.borrow_mut().refuse = true;
    }

    /// Resets the session with this `number`, counted from 1, once the server has written `bytes` bytes to the session.
    pub fn break_after(&self, number: u64, bytes: u64) {
        self.inner.borrow_mut().break_after.insert(number, bytes);
    }
}

impl Connector for Meeting {
    type Session = Pipe;

    fn connect(&self, _server: usize) -> Result<Pipe, ConnectError> {
        let mut inner = self.inner.borrow_mut();
        inner.opened += 1;
        let number = inner.opened;
        let state = Rc::new(RefCell::new(PipeState {
            streams: inner.streams,
            early: inner.early,
            closed: inner.refuse.then_some(CloseReason::Refused),
            established: false,
            waiting: Vec::new(),
            streams_open: BTreeMap::new(),
            budget: inner.break_after.get(&number).copied(),
        }));
        let client = Pipe { number, client: true, state: state.clone() };
        if !inner.refuse {
            inner.backlog.push_back(Pipe { number, client: false, state });
            if let Some(waker) = inner.acceptor.take() {
                waker.wake();
            }
        }
        Ok(client)
    }

    fn streams(&self) -> u64 {
        self.inner.borrow().streams
    }
}

impl Listener for Meeting {
    type Session = Pipe;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Pipe, CloseReason>> {
        let mut inner = self.inner.borrow_mut();
        if let Some(pipe) = inner.backlog.pop_front() {
            pipe.state.borrow_mut().established = true;
            pipe.state.borrow_mut().wake();
            return Poll::Ready(Ok(pipe));
        }
        inner.acceptor = Some(cx.waker().clone());
        Poll::Pending
    }

    fn port(&self) -> u16 {
        80
    }
}

#[derive(Clone)]
pub struct Pipe {
    number: u64,
    client: bool,
    state: Rc<RefCell<PipeState>>,
}

struct PipeState {
    streams: u64,
    early: bool,
    closed: Option<CloseReason>,
    established: bool,
    waiting: Vec<Waker>,
    streams_open: BTreeMap<u64, StreamState>,
    /// The number of bytes that can still be written to the client before the session breaks; `None` if the session
    /// does not break.
    budget: Option<u64>,
}

#[derive(Default)]
struct StreamState {
    /// The direction towards the server and the direction towards the client.
    directions: [Direction; 2],
    server_holds: bool,
}

#[derive(Default)]
struct Direction {
    bytes: VecDeque<u8>,
    read: u64,
    written: u64,
    finished: bool,
}

impl PipeState {
    fn wake(&mut self) {
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }

    fn end(&mut self, reason: CloseReason) {
        self.closed.get_or_insert(reason);
        self.wake();
    }

    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Pipe {
    fn take(&self, number: u64) -> PipeStream {
        PipeStream { pipe: self.clone(), number }
    }
}

impl Session for Pipe {
    type Stream = PipeStream;

    fn id(&self) -> u64 {
        self.number
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        let mut state = self.state.borrow_mut();
        match &state.closed {
            Some(reason) => Poll::Ready(Err(reason.clone())),
            None if state.established => Poll::Ready(Ok(())),
            None => state.wait(cx),
        }
    }

    fn unacknowledged(&self) -> u64 {
        0
    }

    fn early_data(&self) -> bool {
        self.state.borrow().early
    }

    fn streams(&self) -> u64 {
        self.state.borrow().streams
    }

    fn open(&self, number: u64) -> Result<PipeStream, OpenError> {
        let streams = self.streams();
        if number >= streams {
            return Err(OpenError::NoSuchStream { number, streams });
        }
        Ok(self.take(number))
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<PipeStream, CloseReason>> {
        let mut state = self.state.borrow_mut();
        let unaccepted = state
            .streams_open
            .iter_mut()
            .find(|(_, stream)| !stream.server_holds && !stream.directions[0].bytes.is_empty());
        if let Some((&number, stream)) = unaccepted {
            stream.server_holds = true;
            drop(state);
            return Poll::Ready(Ok(self.take(number)));
        }
        match &state.closed {
            Some(reason) => Poll::Ready(Err(reason.clone())),
            None => state.wait(cx),
        }
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let mut state = self.state.borrow_mut();
        match &state.closed {
            Some(reason) => Poll::Ready(reason.clone()),
            None => state.wait(cx),
        }
    }

    fn close(&self) {
        self.state.borrow_mut().end(CloseReason::Finished);
    }

    fn abort(&self) {
        self.state.borrow_mut().end(CloseReason::Aborted);
    }
}

pub struct PipeStream {
    pipe: Pipe,
    number: u64,
}

impl Drop for PipeStream {
    fn drop(&mut self) {
        if !self.pipe.client
            && let Some(stream) = self.pipe.state.borrow_mut().streams_open.get_mut(&self.number)
        {
            stream.server_holds = false;
        }
    }
}

impl PipeStream {
    fn with_direction<R>(&self, outward: bool, read: impl FnOnce(&mut Direction) -> R) -> R {
        let to_client = self.pipe.client != outward;
        let mut state = self.pipe.state.borrow_mut();
        read(&mut state.streams_open.entry(self.number).or_default().directions[usize::from(to_client)])
    }
}

impl Stream for PipeStream {
    fn number(&self) -> u64 {
        self.number
    }

    fn bytes_read(&self) -> u64 {
        self.with_direction(false, |direction| direction.read)
    }

    fn bytes_written(&self) -> u64 {
        self.with_direction(true, |direction| direction.written)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        let (read, finished) = self.with_direction(false, |direction| {
            let count = into.len().min(direction.bytes.len());
            for (slot, byte) in into.iter_mut().zip(direction.bytes.drain(..count)) {
                *slot = byte;
            }
            direction.read += count as u64;
            (count, direction.finished)
        });
        let mut state = self.pipe.state.borrow_mut();
        if read > 0 {
            state.wake();
            return Poll::Ready(Ok(read));
        }
        match &state.closed {
            Some(CloseReason::Finished) => Poll::Ready(Ok(0)),
            Some(reason) => Poll::Ready(Err(reason.clone())),
            None if finished => Poll::Ready(Ok(0)),
            None => state.wait(cx),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        if let Some(reason) = self.pipe.state.borrow().closed.clone() {
            return Poll::Ready(Err(reason));
        }
        let written = self.with_direction(true, |direction| {
            let count = from.len().min(CAPACITY - direction.bytes.len());
            direction.bytes.extend(&from[..count]);
            direction.written += count as u64;
            count
        });
        let mut state = self.pipe.state.borrow_mut();
        if written == 0 {
            return state.wait(cx);
        }
        if !self.pipe.client
            && let Some(budget) = &mut state.budget
        {
            *budget = budget.saturating_sub(written as u64);
            if *budget == 0 {
                state.end(CloseReason::Reset("broken on purpose".into()));
            }
        }
        state.wake();
        Poll::Ready(Ok(written))
    }

    fn finish(&mut self) {
        if self.pipe.streams() == 1 {
            self.with_direction(true, |direction| direction.finished = true);
            self.pipe.state.borrow_mut().wake();
        }
    }
}

const CAPACITY: usize = 3000;
