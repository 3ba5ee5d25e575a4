//! One side of a session of a throughput test: sends data, receives data, and detects when the test is complete. Client
//! and server use the same code.
//!
//! Each stream has a task that reads it. A single task writes all frames, so that they are not mixed on a transport
//! without messages. The owner of the session waits for the end in [`MeasuredSession::run`].

use super::CpuClock;
use super::frame::{self, Control, HEADER, Hello, Parser, Received, SenderReport, Settings};
use super::paths::{PathReport, Reports};
use crate::idle_timer::IdleTimer;
use anabranch_base::time::{Duration, Instant, nanos};
use anabranch_transport::{CloseReason, Delivery, OpenError, Session, Stream};
use anabranch_world::{Tasks, Timer, World};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// The reason why a session failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SessionFailure {
    /// The session ended before the test was complete.
    #[error("{0}")]
    Closed(CloseReason),
    /// The session made no progress for this time.
    #[error("no progress for {} s", .0.as_secs_f32())]
    Stuck(Duration),
    /// The peer does not follow the protocol of throughput tests.
    #[error("{0}")]
    ProtocolViolation(&'static str),
}

/// One end of a session, with its counters.
pub(super) struct MeasuredSession<W: World, N: Session> {
    world: W,
    session: N,
    cpu_clock: CpuClock,
    /// The CPU time that the process had used when the session began, in user mode and in the kernel.
    cpu_at_start: (Duration, Duration),
    started_at: Cell<Instant>,
    /// The time at which the test stops sending; `None` before the test begins, and if it sends a number of bytes.
    ends_at: Cell<Option<Instant>>,
    /// The time of the last progress. At the client, a report that repeats the previous number of received bytes is not
    /// progress, because the server sends reports even if data stalls. At the server, every frame that it sends or
    /// receives is progress.
    last_progress: Cell<Instant>,
    /// The number of bytes that were acknowledged at the last check for progress.
    acknowledged_bytes: Cell<u64>,
    /// The client's request between its arrival and the start of the test; `None` otherwise.
    hello: Cell<Option<Hello>>,
    streams: RefCell<Vec<Rc<RefCell<N::Stream>>>>,
    /// The number of streams that the test uses.
    stream_count: Cell<u16>,
    /// Streams that arrived early: a stream with a lower number has not arrived yet. The key is the stream number.
    early: RefCell<BTreeMap<u64, N::Stream>>,
    /// The test that begins when all of its streams exist, and whether this side sends data in it. `None` before the
    /// test is requested, and after it has begun.
    ready: Cell<Option<(Hello, bool)>>,
    /// The read buffer that all streams share. One buffer per stream would need a gigabyte for 65,535 streams.
    buffer: RefCell<Vec<u8>>,
    pub(super) sent_bytes: Cell<u64>,
    sent_messages: Cell<u64>,
    /// This end's final report on the data that it has sent; `None` until the transport has accepted all data.
    sent: Cell<Option<SenderReport>>,
    /// The time at which sending ended, and the number of bytes that the peer had not acknowledged then.
    pub(super) finished: Cell<Option<(Instant, u64)>>,
    pub(super) received_bytes: Cell<u64>,
    received_messages: Cell<u64>,
    /// The number of bytes received on each stream.
    received: RefCell<Vec<u64>>,
    last_received: Cell<Instant>,
    /// The peer's report on the data that the peer has sent.
    peer_sent: Cell<Option<SenderReport>>,
    /// The peer's report on the data that the peer has received.
    peer_received: Cell<Option<Received>>,
    /// Whether this end's final report on the received data has been queued for the peer. `final_report_written` is set
    /// when that report has been written.
    final_report_queued: Cell<bool>,
    final_report_written: Cell<bool>,
    /// Whether the client's request is known at this end.
    request_known: Cell<bool>,
    /// The server's reports on its transport; `None` at the client.
    own_reports: Option<Reports<N>>,
    /// At the server: the client's request, if the client wants a path report that the server has not queued yet.
    /// Otherwise `None`.
    unsent_path_report: Cell<Option<Hello>>,
    /// Whether the path report is outstanding. At the server: it has not been written yet. At the client: it has not
    /// arrived yet.
    path_report_outstanding: Cell<bool>,
    /// The server's report on its paths; `None` until it has arrived.
    peer_paths: RefCell<Option<PathReport>>,
    /// The settings that the server has sent; `None` at the server.
    peer_settings: RefCell<Option<Settings>>,
    controls: RefCell<VecDeque<Control>>,
    failed: RefCell<Option<SessionFailure>>,
    writer: RefCell<Option<Waker>>,
    owner: RefCell<Option<Waker>>,
}

/// The counters of the sender and the receiver of each direction, as far as this end knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    /// Counters of the data that this end has sent. This end counts `sent`, and the peer counts `peer_received`.
    pub(super) sent: SenderReport,
    pub(super) peer_received: Received,
    /// Counters of the data that the peer has sent. The peer counts `peer_sent`, and this end counts `received`.
    pub(super) peer_sent: SenderReport,
    pub(super) received: Received,
    pub(super) streams: u16,
}

impl<W: World, N: Session> MeasuredSession<W, N> {
    /// Creates the server's or the client's end of a session. `reports` are the server's reports on its transport. If
    /// `reports` is `None`, this is the client's end.
    pub(super) fn new(world: &W, session: &N, cpu_clock: CpuClock, reports: Option<Reports<N>>) -> Rc<Self> {
        let now = world.now();
        Rc::new(Self {
            world: world.clone(),
            session: session.clone(),
            cpu_clock,
            cpu_at_start: cpu_clock(),
            started_at: Cell::new(now),
            ends_at: Cell::new(None),
            last_progress: Cell::new(now),
            acknowledged_bytes: Cell::new(0),
            hello: Cell::new(None),
            streams: RefCell::default(),
            stream_count: Cell::new(1),
            early: RefCell::default(),
            ready: Cell::new(None),
            buffer: RefCell::new(vec![0; READ_BYTES]),
            sent_bytes: Cell::new(0),
            sent_messages: Cell::new(0),
            sent: Cell::new(None),
            finished: Cell::new(None),
            received_bytes: Cell::new(0),
            received_messages: Cell::new(0),
            received: RefCell::default(),
            last_received: Cell::new(now),
            peer_sent: Cell::new(None),
            peer_received: Cell::new(None),
            final_report_queued: Cell::new(false),
            final_report_written: Cell::new(false),
            request_known: Cell::new(false),
            own_reports: reports,
            unsent_path_report: Cell::new(None),
            path_report_outstanding: Cell::new(false),
            peer_paths: RefCell::default(),
            peer_settings: RefCell::default(),
            controls: RefCell::default(),
            failed: RefCell::default(),
            writer: RefCell::default(),
            owner: RefCell::default(),
        })
    }

    /// Requests the test that `hello` describes, and runs the client's part of the test.
    ///
    /// # Errors
    /// [`SessionFailure`], after which the session cannot be used any more.
    pub(super) async fn ask(self: &Rc<Self>, hello: Hello, timeout: Duration) -> Result<(), SessionFailure> {
        let streams = hello.streams.min(self.max_streams());
        let hello = if self.session.fresh_streams() { Hello { streams, ..hello } } else { hello };
        self.controls.borrow_mut().push_back(Control::Hello(hello));
        self.run(Some(hello), timeout).await
    }

    /// Waits until the client requests a test, and runs the server's part of the test.
    ///
    /// # Errors
    /// [`SessionFailure`], after which the session cannot be used any more.
    pub(super) async fn answer(self: &Rc<Self>, timeout: Duration) -> Result<(), SessionFailure> {
        self.run(None, timeout).await
    }

    async fn run(self: &Rc<Self>, hello: Option<Hello>, timeout: Duration) -> Result<(), SessionFailure> {
        let tasks = Tasks::new(self.world.clone());
        let client = hello.is_some();
        if let Some(hello) = hello {
            self.begin(hello, true)?;
        }
        let mut idle = IdleTimer::new(&self.world, timeout);
        let mut report_timer = self.world.timer();
        report_timer.set(Some(self.world.now() + REPORTING));
        poll_fn(|cx| {
            store(&self.owner, cx);
            if let Some(hello) = self.hello.take() {
                self.begin(hello, false)?;
            }
            self.open_streams(&tasks, client, cx)?;
            // Check whether the test is complete before checking whether the session has ended. A peer whose test is
            // complete may have closed the session already.
            if self.is_done() {
                // The path report is sent last, because a test is complete even without it.
                if let Some(hello) = self.unsent_path_report.take() {
                    self.report_paths(&hello);
                }
                let ended = self.failed.borrow().is_some() || self.session.poll_closed(cx).is_ready();
                if ended || !self.path_report_outstanding.get() {
                    return Poll::Ready(Ok(()));
                }
            }
            if let Some(failed) = self.failed.borrow_mut().take() {
                return Poll::Ready(Err(failed));
            }
            match self.session.poll_closed(cx) {
                // A graceful end of the session does not count as a failure yet, because data that arrived before the
                // end may still have to be read.
                Poll::Pending | Poll::Ready(CloseReason::Finished) => {}
                Poll::Ready(reason) => return Poll::Ready(Err(SessionFailure::Closed(reason))),
            }
            while report_timer.poll(cx).is_ready() {
                self.report(false);
                self.check_acknowledged();
                report_timer.set(Some(self.world.now() + REPORTING));
            }
            while idle.poll(self.last_progress.get(), cx).is_ready() {
                if !self.check_acknowledged() {
                    return Poll::Ready(Err(SessionFailure::Stuck(timeout)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the maximum number of streams that a test can use on this session.
    fn max_streams(&self) -> u16 {
        u16::try_from(self.session.streams()).unwrap_or(u16::MAX).max(1)
    }

    /// Sets the parameters of the test. The test begins when all its streams exist.
    fn begin(&self, hello: Hello, client: bool) -> Result<(), SessionFailure> {
        self.request_known.set(true);
        // On transports that never reuse a stream number, the client opens the streams and chooses how many the test
        // uses.
        if self.session.fresh_streams() && hello.streams > self.max_streams() {
            return Err(SessionFailure::ProtocolViolation(
                "the peer asks for more streams than there may be",
            ));
        }
        self.stream_count.set(hello.streams.min(self.max_streams()).max(1));
        let sends = if client { hello.up } else { hello.down };
        // An end that sends no data has sent everything already, and an end that expects no data has received
        // everything already.
        let none = SenderReport::default();
        if !sends {
            self.sent.set(Some(none));
            self.peer_received.set(Some(Received { whole: true, ..Received::default() }));
        }
        if (client && !hello.down) || (!client && !hello.up) {
            self.peer_sent.set(Some(none));
            self.final_report_queued.set(true);
            self.final_report_written.set(true);
        }
        if let Some(reports) = &self.own_reports {
            reports.test_started(&self.session, hello.down, hello.up);
            let mut controls = self.controls.borrow_mut();
            if hello.paths {
                controls.push_front(Control::PathsFollow);
                self.unsent_path_report.set(Some(hello));
                self.path_report_outstanding.set(true);
            }
            if hello.settings {
                controls.push_front(Control::Settings(reports.settings(&self.session)));
            }
        }
        self.ready.set(Some((hello, sends)));
        Ok(())
    }

    /// At the client, opens the missing streams of the test. At the server, accepts them. Starts the test when all
    /// streams exist and this end knows the client's request.
    fn open_streams(
        self: &Rc<Self>,
        tasks: &Tasks<W>,
        client: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), SessionFailure> {
        loop {
            let number = self.streams.borrow().len();
            if number >= usize::from(self.stream_count.get()) {
                break;
            }
            let Poll::Ready(stream) = self.poll_stream(number as u64, client, cx)? else { return Ok(()) };
            let stream = Rc::new(RefCell::new(stream));
            self.streams.borrow_mut().push(stream.clone());
            self.received.borrow_mut().push(0);
            tasks.spawn("throughput reader", read(self.clone(), stream, number));
        }
        if let Some((hello, sends)) = self.ready.take() {
            self.started_at.set(self.world.now());
            self.ends_at.set((hello.bytes == 0).then(|| self.world.now() + hello.span));
            tasks.spawn("throughput writer", write(self.clone(), hello, sends, client));
        }
        Ok(())
    }

    /// Returns the stream with the index `number`. On most transports all streams exist from the start. On transports
    /// whose streams are opened during the session (`fresh_streams`), the client opens each stream and the server
    /// accepts it.
    fn poll_stream(
        &self,
        number: u64,
        client: bool,
        cx: &mut Context<'_>,
    ) -> Result<Poll<N::Stream>, SessionFailure> {
        let failed = |error| match error {
            OpenError::Closed(reason) => SessionFailure::Closed(reason),
            _ => SessionFailure::ProtocolViolation("a stream is not to be had"),
        };
        if !self.session.fresh_streams() {
            return self.session.open(number).map(Poll::Ready).map_err(failed);
        }
        if client {
            return match self.session.poll_begin(cx, false) {
                Poll::Ready(stream) => stream.map(Poll::Ready).map_err(failed),
                Poll::Pending => Ok(Poll::Pending),
            };
        }
        // Data on a stream with a higher number may arrive before data on this stream.
        let mut early = self.early.borrow_mut();
        while !early.contains_key(&number) {
            match self.session.poll_accept(cx) {
                Poll::Ready(Ok(stream)) => {
                    early.insert(stream.number(), stream);
                }
                Poll::Ready(Err(reason)) => return Err(SessionFailure::Closed(reason)),
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(early.remove(&number).map_or(Poll::Pending, Poll::Ready))
    }

    fn is_done(&self) -> bool {
        self.sent.get().is_some()
            && self.peer_received.get().is_some_and(|received| received.whole)
            && self.peer_sent.get().is_some()
            && self.final_report_written.get()
    }

    /// Queues a report to the peer on the received data, if any data has arrived. `whole` marks the final report, after
    /// which no other report follows.
    fn report(&self, whole: bool) {
        if self.received_bytes.get() > 0 && (whole || !self.final_report_queued.get()) {
            self.controls.borrow_mut().push_back(Control::Received(self.received_so_far(whole)));
            wake(&self.writer);
        }
    }

    /// Returns the number of written bytes that the peer has not acknowledged. Bytes that the peer has reported as
    /// received out of order count as acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        let ahead = self.session.figures().map_or(0, |figures| figures.gap_acknowledged);
        self.session.unacknowledged().saturating_sub(ahead)
    }

    /// Returns whether the peer has acknowledged more bytes since the last check. If so, also records progress.
    fn check_acknowledged(&self) -> bool {
        let acknowledged = self.sent_bytes.get().saturating_sub(self.unacknowledged());
        let more = acknowledged > self.acknowledged_bytes.get();
        if more {
            self.acknowledged_bytes.set(acknowledged);
            self.last_progress.set(self.world.now());
        }
        more
    }

    /// Returns whether the time for which the test sends is over.
    pub(super) fn is_time_over(&self) -> bool {
        self.ends_at.get().is_some_and(|ends| self.world.now() >= ends)
    }

    /// Returns whether the test has made progress within the time `span` before now.
    pub(super) fn has_progressed_within(&self, span: Duration) -> bool {
        self.check_acknowledged() || self.world.now().since(self.last_progress.get()) <= span
    }

    fn is_client(&self) -> bool {
        self.own_reports.is_none()
    }

    /// Queues the server's path report for the client.
    fn report_paths(&self, hello: &Hello) {
        let Some(reports) = &self.own_reports else { return };
        let report = reports.paths(&self.session, self.started_at.get());
        let report = report.only_tested_directions(hello.down, hello.up);
        self.controls.borrow_mut().push_back(Control::Paths(report));
        wake(&self.writer);
    }

    fn received_so_far(&self, whole: bool) -> Received {
        let (user, system) = self.spent();
        let streams = self.received.borrow();
        let used = streams.iter().filter(|bytes| **bytes > 0);
        Received {
            bytes: self.received_bytes.get(),
            messages: self.received_messages.get(),
            nanos: nanos(self.last_received.get().since(self.started_at.get())),
            user: nanos(user),
            system: nanos(system),
            streams: used.count() as u64,
            min_stream_bytes: streams.iter().copied().min().unwrap_or(0),
            max_stream_bytes: streams.iter().copied().max().unwrap_or(0),
            whole,
        }
    }

    fn sent_so_far(&self) -> SenderReport {
        let (user, system) = self.spent();
        SenderReport {
            bytes: self.sent_bytes.get(),
            messages: self.sent_messages.get(),
            nanos: nanos(self.world.now().since(self.started_at.get())),
            user: nanos(user),
            system: nanos(system),
            unacknowledged: Some(self.unacknowledged()),
        }
    }

    fn spent(&self) -> (Duration, Duration) {
        let (user, system) = (self.cpu_clock)();
        (user.saturating_sub(self.cpu_at_start.0), system.saturating_sub(self.cpu_at_start.1))
    }

    /// Waits until the peer has ended the session. On a transport with one stream, only a read detects the end.
    pub(super) async fn peer_ended(&self) {
        let stream = self.streams.borrow().first().cloned();
        let mut scratch = [0; 4096];
        poll_fn(|cx| {
            if self.session.poll_closed(cx).is_ready() {
                return Poll::Ready(());
            }
            let Some(stream) = &stream else { return Poll::Pending };
            match stream.borrow_mut().poll_read(cx, &mut scratch) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
                // Let other tasks run, because the peer may continue to send.
                Poll::Ready(Ok(_)) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })
        .await;
    }

    /// Returns the settings of the server's transport, if the server has sent them.
    pub(super) fn peer_settings(&self) -> Option<Settings> {
        self.peer_settings.borrow().clone()
    }

    /// Returns the server's report on its paths, if it has arrived.
    pub(super) fn peer_paths(&self) -> Option<PathReport> {
        self.peer_paths.borrow().clone()
    }

    pub(super) fn known(&self) -> Known {
        Known {
            sent: self.sent.get().unwrap_or_else(|| self.sent_so_far()),
            peer_received: self.peer_received.get().unwrap_or_default(),
            peer_sent: self.peer_sent.get().unwrap_or_default(),
            received: self.received_so_far(self.final_report_written.get()),
            streams: self.streams.borrow().len() as u16,
        }
    }

    /// Records that sending ends now. Of the last message, `rest` bytes are still to be written.
    fn finish(&self, rest: u64) {
        self.finished.set(Some((self.world.now(), self.unacknowledged() + rest)));
    }

    /// Queues the final report on the sent data, if sending has ended.
    fn report_sent(&self) {
        let Some((at, unacknowledged)) = self.finished.get() else { return };
        let nanos = nanos(at.since(self.started_at.get()));
        let sent = SenderReport { nanos, unacknowledged: Some(unacknowledged), ..self.sent_so_far() };
        self.sent.set(Some(sent));
        self.controls.borrow_mut().push_back(Control::Sent(sent));
    }

    fn fail(&self, failed: SessionFailure) {
        self.failed.borrow_mut().get_or_insert(failed);
        wake(&self.owner);
    }

    /// Handles bytes that were received on a stream.
    fn take(&self, parser: &mut Parser, number: usize, mut input: &[u8]) -> Result<(), &'static str> {
        while !input.is_empty() {
            let brought = parser.step(&mut input)?;
            let repeats = match &brought.control {
                None => brought.bytes == 0,
                Some(Control::Received(received)) => {
                    self.peer_received.get().is_some_and(|before| before.bytes == received.bytes)
                }
                Some(_) => false,
            };
            if !(repeats && self.is_client()) {
                self.last_progress.set(self.world.now());
            }
            self.received_bytes.set(self.received_bytes.get() + brought.bytes);
            self.received_messages.set(self.received_messages.get() + brought.messages);
            if let Some(bytes) = self.received.borrow_mut().get_mut(number) {
                *bytes += brought.bytes;
            }
            match brought.control {
                None => {}
                Some(Control::Hello(hello)) => {
                    if self.request_known.replace(true) {
                        return Err("the peer asks twice");
                    }
                    self.hello.set(Some(hello));
                    wake(&self.owner);
                }
                Some(Control::StreamStart) => {}
                Some(Control::PathsFollow) => {
                    self.path_report_outstanding.set(self.peer_paths.borrow().is_none())
                }
                Some(Control::Paths(report)) => {
                    *self.peer_paths.borrow_mut() = Some(report);
                    self.path_report_outstanding.set(false);
                    wake(&self.owner);
                }
                Some(Control::Settings(settings)) => *self.peer_settings.borrow_mut() = Some(settings),
                Some(Control::Sent(sent)) => self.peer_sent.set(Some(sent)),
                Some(Control::Received(received)) => {
                    self.peer_received.set(Some(received));
                    wake(&self.owner);
                }
            }
        }
        if let Some(sent) = self.peer_sent.get()
            && self.received_bytes.get() >= sent.bytes
            && !self.final_report_queued.replace(true)
        {
            self.report(true);
        }
        Ok(())
    }
}

async fn read<W: World, N: Session>(
    end: Rc<MeasuredSession<W, N>>,
    stream: Rc<RefCell<N::Stream>>,
    number: usize,
) {
    let mut parser = Parser::new(number == 0 && end.is_client());
    let room = if number == 0 { READ_BYTES } else { STREAM_READ_BYTES };
    loop {
        // Handle the bytes within the poll, before another stream reads into the same buffer.
        let progress = poll_fn(|cx| {
            let mut buffer = end.buffer.borrow_mut();
            Poll::Ready(match ready!(stream.borrow_mut().poll_read(cx, &mut buffer[..room])) {
                Ok(0) => Err(SessionFailure::Closed(CloseReason::Finished)),
                Err(reason) => Err(SessionFailure::Closed(reason)),
                Ok(read) => {
                    end.last_received.set(end.world.now());
                    end.take(&mut parser, number, &buffer[..read]).map_err(SessionFailure::ProtocolViolation)
                }
            })
        });
        if let Err(failed) = progress.await {
            return end.fail(failed);
        }
    }
}

/// Writes the frames of a test. Control frames are written as soon as they are queued, and data frames in between.
async fn write<W: World, N: Session>(
    end: Rc<MeasuredSession<W, N>>,
    hello: Hello,
    mut sends: bool,
    client: bool,
) {
    let streams: Vec<_> = end.streams.borrow().clone();
    if client && end.session.fresh_streams() {
        let frame = Control::StreamStart.encode();
        for stream in &streams[1..] {
            if let Err(reason) = write_frames(stream, &frame, frame.len()).await {
                return end.fail(SessionFailure::Closed(reason));
            }
            end.last_progress.set(end.world.now());
        }
    }
    let message = frame::data(hello.message as usize);
    // With a single stream, several small messages are written in one call.
    let most = if streams.len() == 1 { (MAX_AT_ONCE / message.len()).max(1) } else { 1 };
    let messages = message.repeat(most);
    let ends = end.started_at.get() + hello.span;
    let mut deadline = end.world.timer();
    deadline.set((hello.bytes == 0).then_some(ends));
    let mut turn = 0;
    let mut unordered = false;
    loop {
        let control = end.controls.borrow_mut().pop_front();
        let outcome = match control {
            Some(control) => {
                let frame = control.encode();
                let written = write_frames(&streams[0], &frame, frame.len()).await;
                if !end.is_client() {
                    end.last_progress.set(end.world.now());
                }
                match control {
                    Control::Received(Received { whole: true, .. }) => {
                        end.final_report_written.set(true);
                        wake(&end.owner);
                    }
                    Control::Paths(_) => {
                        end.path_report_outstanding.set(false);
                        wake(&end.owner);
                    }
                    _ => {}
                }
                written
            }
            None if sends => {
                if hello.unordered && !std::mem::replace(&mut unordered, true) {
                    for stream in &streams {
                        let delivery = Delivery { unordered: true, ..Delivery::default() };
                        stream.borrow_mut().set_delivery(delivery);
                    }
                }
                let size = message.len();
                let count = match hello.bytes {
                    0 => most,
                    bytes => {
                        let left = (bytes - end.sent_bytes.get()).div_ceil(size as u64);
                        usize::try_from(left).unwrap_or(most).min(most)
                    }
                };
                let batch = &messages[..count * size];
                let written = write_messages(&end, &streams[turn], batch, size, &mut deadline).await;
                turn = if turn + 1 == streams.len() { 0 } else { turn + 1 };
                let over = match hello.bytes {
                    0 => end.last_progress.get() >= ends,
                    bytes => end.sent_bytes.get() >= bytes,
                };
                if over && end.finished.get().is_none() {
                    end.finish(0);
                }
                sends = end.finished.get().is_none();
                end.report_sent();
                written
            }
            None => {
                poll_fn(|cx| {
                    if end.controls.borrow().is_empty() {
                        store(&end.writer, cx);
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                })
                .await;
                Ok(())
            }
        };
        if let Err(reason) = outcome {
            return end.fail(SessionFailure::Closed(reason));
        }
    }
}

/// Writes frames of `size` bytes each to a stream.
async fn write_frames<S: Stream>(
    stream: &RefCell<S>,
    mut frames: &[u8],
    size: usize,
) -> Result<(), CloseReason> {
    while !frames.is_empty() {
        let written = poll_fn(|cx| stream.borrow_mut().poll_write_messages(cx, frames, size)).await?;
        frames = &frames[written..];
    }
    Ok(())
}

/// Writes messages of `size` bytes each, and counts them. When `deadline` fires, sending ends: only the rest of a
/// message that was written in part is still written.
async fn write_messages<W: World, N: Session>(
    end: &MeasuredSession<W, N>,
    stream: &RefCell<N::Stream>,
    messages: &[u8],
    size: usize,
    deadline: &mut W::Timer,
) -> Result<(), CloseReason> {
    let (mut written, mut until) = (0, messages.len());
    while written < until {
        let taken = poll_fn(|cx| {
            let taken = stream.borrow_mut().poll_write_messages(cx, &messages[written..until], size);
            if taken.is_pending() && deadline.poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            taken.map(|taken| taken.map(Some))
        });
        match taken.await? {
            Some(taken) => {
                written += taken;
                end.sent_bytes.set(end.sent_bytes.get() + taken as u64);
                end.last_progress.set(end.world.now());
            }
            None => {
                until = written.next_multiple_of(size);
                end.finish((until - written) as u64);
            }
        }
    }
    end.sent_messages.set(end.sent_messages.get() + (until / size) as u64);
    Ok(())
}

fn store(slot: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    let mut slot = slot.borrow_mut();
    match &mut *slot {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}

fn wake(slot: &RefCell<Option<Waker>>) {
    if let Some(waker) = &*slot.borrow() {
        waker.wake_by_ref();
    }
}

/// The time between two reports of the receiving end.
const REPORTING: Duration = Duration::from_millis(500);
const READ_BYTES: usize = 64 * 1024;
/// The maximum number of bytes of messages that are written in one call, unless a single message is larger.
const MAX_AT_ONCE: usize = 4096;
/// The maximum number of bytes that one call reads from a stream other than the first. The maximum is lower than for
/// the first stream, because there may be many other streams.
const STREAM_READ_BYTES: usize = 16 * 1024;

const _: () = assert!(HEADER <= STREAM_READ_BYTES && STREAM_READ_BYTES <= READ_BYTES);
