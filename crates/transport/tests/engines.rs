//! Tests which engine methods a host calls, and how sessions end when the socket fails. The engine only records the
//! calls.

use anabranch_base::trace::TraceRecord;
use anabranch_base::{Engine, Instant, Packet, RecvBatch, SendBatch};
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::engine::{BoundHost, EngineHost, SessionEngine, Write, WriteRefusal};
use anabranch_transport::protocol::Totals;
use anabranch_transport::session::Delivery;
use anabranch_transport::tcp;
use anabranch_transport::{
    AnySession, AnyStream, CloseReason, ConnectError, ListenError, Listener, Server, Session, Settings,
    Stream, StreamId,
};
use anabranch_world::{DatagramSocket, Local, World};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// An engine that records the calls that it receives. `unread` is the number of unread bytes that it reports for each
/// stream.
#[derive(Default)]
struct Noted {
    notes: Vec<String>,
    unread: usize,
    events: VecDeque<TestEvent>,
}

#[derive(Clone, Copy)]
enum TestEvent {
    Established(u8),
    Closed(u8),
}

impl Engine for Noted {
    type Event = TestEvent;

    fn handle_packet(&mut self, _: Instant, _: Packet<'_>) {}

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant, _: &mut SendBatch) -> bool {
        false
    }

    fn poll_event(&mut self) -> Option<TestEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn set_tracing(&mut self, _: bool) {}

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        Vec::new()
    }
}

impl SessionEngine for Noted {
    type Id = u8;
    type Marks = ();

    const ONE_STREAM: bool = false;
    const HALF_CLOSE: bool = true;
    const NAME: &'static str = "noted";

    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: TestEvent) {
        match event {
            TestEvent::Established(id) => host.established(id, 4),
            TestEvent::Closed(id) => host.closed(now, id, CloseReason::Finished),
        }
    }

    fn connect(&mut self, _: Instant, server: &Server) -> Result<u8, ConnectError> {
        Ok(server.port as u8)
    }

    fn listen(&mut self, port: u16, _: u32) -> Result<(), ListenError> {
        self.notes.push(format!("listen {port}"));
        Ok(())
    }

    fn close_listener(&mut self, port: u16) {
        self.notes.push(format!("close listener {port}"));
    }

    fn trace_key(&self, id: u8) -> u64 {
        id.into()
    }

    fn peer(&self, _: u8) -> Option<SocketAddr> {
        None
    }

    fn unacknowledged(&self, _: u8) -> u64 {
        0
    }

    fn recv(&mut self, _: Instant, _: u8, _: StreamId, into: &mut [u8]) -> (usize, bool) {
        let read = self.unread.min(into.len());
        self.unread -= read;
        (read, false)
    }

    fn send(&mut self, _: Instant, _: u8, write: Write<()>, from: &[u8]) -> Result<usize, WriteRefusal> {
        self.notes.push(format!("send {} on {} {:?}", from.len(), write.stream, write.message));
        Ok(from.len())
    }

    fn finish(&mut self, _: Instant, _: u8, stream: StreamId) {
        self.notes.push(format!("finish {stream}"));
    }

    fn set_delivery(&mut self, _: Instant, _: u8, stream: StreamId, delivery: Delivery) {
        self.notes.push(format!("background {} on {stream}", delivery.background));
    }

    fn set_rank(&mut self, _: Instant, _: u8, stream: StreamId, rank: u32) {
        self.notes.push(format!("rank {rank} on {stream}"));
    }

    fn cancel_direction(&mut self, _: Instant, _: u8, stream: StreamId, reading: bool, code: u64) {
        self.notes.push(format!("cancel {stream} reading {reading} code {code}"));
    }

    fn cancel_code(&self, _: u8, _: StreamId, reading: bool) -> Option<u64> {
        reading.then_some(9)
    }

    fn close(&mut self, _: Instant, id: u8) {
        self.notes.push(format!("close {id}"));
    }

    fn abort(&mut self, _: Instant, id: u8) {
        self.notes.push(format!("abort {id}"));
    }

    fn limit_unsent(&mut self, _: Instant, id: u8, bytes: u64) {
        self.notes.push(format!("limit {id} to {bytes}"));
    }

    fn release(&mut self, _: Instant, id: u8) {
        self.notes.push(format!("release {id}"));
    }

    fn settings(&self) -> Box<dyn Settings> {
        Box::new(tcp::Config::default())
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}

/// A socket that fails on request.
struct Failing {
    socket: <SimWorld as World>::Socket,
    fault: Rc<Fault>,
}

#[derive(Default)]
struct Fault {
    failed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Fault {
    fn fail(&self) {
        self.failed.set(true);
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl DatagramSocket for Failing {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        self.socket.poll_send(cx, batch)
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        if self.fault.failed.get() {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        }
        *self.fault.waker.borrow_mut() = Some(cx.waker().clone());
        self.socket.poll_recv(cx, batch)
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.socket.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        self.socket.mtu(source)
    }

    fn max_segments(&self) -> usize {
        self.socket.max_segments()
    }
}

/// Runs `program` with a host whose engine is a [`Noted`].
fn run<T, F: Future<Output = T>>(
    program: impl FnOnce(BoundHost<SimWorld, Noted>, Rc<Fault>, SimWorld) -> F,
) -> T {
    let network = Network::new(1);
    let world = network.world(network.host("host", &[IpAddr::from([10, 0, 0, 1])]));
    let whole = async {
        let socket = world.bind(Local::Udp { port: 0 }).await.expect("a socket");
        let fault = Rc::new(Fault::default());
        let socket = Failing { socket, fault: fault.clone() };
        let host = BoundHost::over(world.clone(), Noted::default(), socket, None);
        program(host, fault, world.clone()).await
    };
    network.run(whole, Instant::from_millis(1_000)).expect_done()
}

/// Starts session `id` and completes its handshake.
async fn session(
    host: &BoundHost<SimWorld, Noted>,
    id: u8,
) -> anabranch_transport::engine::EngineSession<SimWorld, Noted> {
    let session = host.connect_to(&SocketAddr::from(([10, 0, 0, 2], id.into())).into()).expect("begun");
    session.with_engine(|engine, id| engine.events.push_back(TestEvent::Established(id)));
    session.limit_unsent(0);
    session.established().await.expect("established");
    session.with_engine(|engine, _| engine.notes.clear());
    session
}

#[test]
fn stream_calls_reach_the_engine() {
    run(|host, _, _| async move {
        let concrete = session(&host, 7).await;
        let erased = AnySession::new(concrete.clone());
        let notes = || concrete.with_engine(|engine, _| std::mem::take(&mut engine.notes));
        let mut stream: AnyStream = erased.open(3).expect("a stream");
        stream.set_delivery(Delivery { background: true, ..Delivery::default() });
        stream.set_rank(5);
        assert_eq!(notes(), ["background true on 3", "rank 5 on 3"]);
        stream.write_all(b"bytes").await.expect("taken");
        stream.write_message(b"message").await.expect("taken");
        let written = poll_fn(|cx| stream.poll_write_messages(cx, &[0; 20], 10)).await;
        assert_eq!((written, stream.bytes_written()), (Ok(20), 32));
        assert_eq!(notes(), ["send 5 on 3 None", "send 7 on 3 Some(7)", "send 20 on 3 Some(10)"]);
        stream.cancel_writing(8);
        stream.cancel_reading(9);
        assert_eq!([stream.cancel_code(true), stream.cancel_code(false)], [Some(9), None]);
        stream.finish();
        assert_eq!(notes(), ["cancel 3 reading false code 8", "cancel 3 reading true code 9", "finish 3"]);
        assert!(!stream.reset(), "this engine cannot");
        assert_eq!(stream.read(&mut [0; 4]).await, Err(CloseReason::Cancelled));
        drop(stream);
        erased.limit_unsent(1_000);
        erased.close();
        // The engine cannot send a close code, so it aborts the session.
        erased.close_with(1, "bye");
        assert_eq!(notes(), ["limit 7 to 1000", "close 7", "abort 7"]);
    });
}

#[test]
fn all_that_has_arrived_on_a_stream_is_thrown_away_with_it() {
    let mut engine = Noted { unread: 10_000, ..Noted::default() };
    engine.discard(Instant::ZERO, 7, 3);
    assert_eq!(engine.unread, 0);
}

#[test]
fn a_session_is_closed_when_its_last_handle_is_gone_and_released_when_it_has_ended() {
    run(|host, _, world| async move {
        let first = session(&host, 7).await;
        let second = first.clone();
        let stream = first.open(0).expect("a stream");
        drop((first, second));
        let notes = || host.engine(|engine| engine.notes.clone());
        assert_eq!(notes(), [""; 0], "its stream holds it");
        drop(stream);
        assert_eq!(notes(), ["close 7"]);
        assert!(
            poll_fn(|cx| Poll::Ready(anabranch_transport::Host::poll_idle(&host, cx))).await.is_pending()
        );
        let other = session(&host, 8).await;
        other.with_engine(|engine, _| engine.events.push_back(TestEvent::Closed(7)));
        other.limit_unsent(0);
        world.sleep_until(world.now() + anabranch_base::time::Duration::from_millis(1)).await;
        assert_eq!(notes(), ["limit 8 to 0", "release 7"]);
    });
}

#[test]
fn a_socket_that_fails_ends_all_sessions_but_those_that_have_ended() {
    run(|host, fault, world| async move {
        let [ended, alive] = [session(&host, 7).await, session(&host, 8).await];
        ended.with_engine(|engine, _| engine.events.push_back(TestEvent::Closed(7)));
        ended.limit_unsent(0);
        assert_eq!(ended.closed().await, CloseReason::Finished);
        let mut listener = host.listen_with(80, 0).expect("listening");
        let accepting = world.spawn("accept", async move { listener.accept().await.map(|_| ()) });
        let mut stream = alive.open(0).expect("a stream");
        stream.cancel_reading(0);
        let opener = alive.clone();
        let beginning = world.spawn("take", async move { opener.accept().await.map(|_| ()) });
        let idle = host.clone();
        let idling = world.spawn("idle", async move { idle.wait_idle().await });
        let breaker = world.clone();
        let _failing = world.spawn("fail", async move {
            breaker.sleep_until(breaker.now() + anabranch_base::time::Duration::from_millis(1)).await;
            fault.fail();
        });
        let reason = alive.closed().await;
        assert!(matches!(&reason, CloseReason::Network(_)), "{reason:?}");
        assert_eq!([accepting.await, beginning.await], [Err(reason.clone()), Err(reason.clone())]);
        idling.await;
        assert_eq!(ended.closed().await, CloseReason::Finished);
        let next = host.connect_to(&SocketAddr::from(([10, 0, 0, 2], 9)).into()).map(|_| ());
        assert_eq!(next, Err(ConnectError::Refused(reason.to_string())));
    });
}
