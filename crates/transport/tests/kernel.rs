//! Sessions over the kernel's TCP. The kernel is simulated: each test determines what its connections return. Time is
//! virtual.

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::kernel::{Kernel, KernelConnector, KernelListener, KernelSession, KernelSettings};
use anabranch_transport::settings::Settings;
use anabranch_transport::{
    CloseReason, ConnectError, Connector, Listener, OpenError, Protocol, Session, Stream,
};
use anabranch_world::World;
use anabranch_world::kernel::{
    Connection, Counters, KernelOptions, KernelProtocol, KernelTcp, ListeningSocket,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A virtual host with a kernel. The test supplies the connections that the kernel opens and accepts.
#[derive(Clone)]
struct Host {
    world: SimWorld,
    connecting: Rc<RefCell<VecDeque<io::Result<FakeConnection>>>>,
    accepted: Rc<RefCell<VecDeque<io::Result<FakeConnection>>>>,
}

/// A connection of the simulated kernel: the results that its methods will return, and a record of the calls.
#[derive(Clone, Default)]
struct FakeConnection(Rc<RefCell<FakeConnectionState>>);

#[derive(Default)]
struct FakeConnectionState {
    /// The result of the handshake.
    connected: Option<Result<(), ErrorKind>>,
    /// The results of the next reads; an empty vector is the end of the stream.
    incoming: VecDeque<Result<Vec<u8>, ErrorKind>>,
    /// The error that the next write returns.
    broken: Option<ErrorKind>,
    written: Vec<u8>,
    unacknowledged: u64,
    finished: bool,
    aborted: bool,
    waiting: Vec<Waker>,
}

impl FakeConnection {
    fn established() -> Self {
        let connection = Self::default();
        connection.connect(Ok(()));
        connection
    }

    fn change(&self, change: impl FnOnce(&mut FakeConnectionState)) {
        let mut state = self.0.borrow_mut();
        change(&mut state);
        state.waiting.drain(..).for_each(Waker::wake);
    }

    fn connect(&self, how: Result<(), ErrorKind>) {
        self.change(|state| state.connected = Some(how));
    }

    fn arrive(&self, result: Result<&[u8], ErrorKind>) {
        self.change(|state| state.incoming.push_back(result.map(<[u8]>::to_vec)));
    }
}

impl Connection for FakeConnection {
    fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        match state.connected {
            Some(how) => Poll::Ready(how.map_err(Into::into)),
            None => {
                state.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        match state.incoming.pop_front() {
            Some(Ok(bytes)) => {
                into[..bytes.len()].copy_from_slice(&bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            Some(Err(kind)) => Poll::Ready(Err(kind.into())),
            None => {
                state.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_write(&self, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        if let Some(kind) = state.broken {
            return Poll::Ready(Err(kind.into()));
        }
        state.written.extend_from_slice(from);
        Poll::Ready(Ok(from.len()))
    }

    fn poll_write_vectored(&self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let bytes: Vec<u8> = from.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.poll_write(cx, &bytes)
    }

    fn unacknowledged(&self) -> Option<u64> {
        Some(self.0.borrow().unacknowledged)
    }

    fn is_multipath(&self) -> Option<bool> {
        None
    }

    fn counters(&self) -> Option<Counters> {
        None
    }

    fn congestion(&self) -> Option<String> {
        None
    }

    fn finish(&self) {
        self.0.borrow_mut().finished = true;
    }

    fn abort(&self) {
        self.0.borrow_mut().aborted = true;
    }

    fn local(&self) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 40_001))
    }

    fn remote(&self) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 2], 50_002))
    }
}

struct FakeListener(Rc<RefCell<VecDeque<io::Result<FakeConnection>>>>);

impl ListeningSocket for FakeListener {
    type Connection = FakeConnection;

    fn poll_accept(&self, _: &mut Context<'_>) -> Poll<io::Result<FakeConnection>> {
        self.0.borrow_mut().pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn local(&self) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 80))
    }
}

anabranch_sim::world_of_field!(Host);

impl KernelTcp for Host {
    type Listening = FakeListener;
    type Connection = FakeConnection;

    fn listen_tcp(&self, _: SocketAddr, _: u32) -> io::Result<FakeListener> {
        Ok(FakeListener(self.accepted.clone()))
    }

    fn connect_tcp(&self, _: SocketAddr) -> io::Result<FakeConnection> {
        self.connecting.borrow_mut().pop_front().expect("a connection to begin")
    }

    fn with_kernel(&self, _: KernelOptions) -> Self {
        self.clone()
    }
}

/// Runs `program` on a virtual host with the simulated kernel.
fn run<T, F: Future<Output = T>>(program: impl FnOnce(Host) -> F) -> T {
    let network = Network::new(1);
    let node = network.host("host", &[IpAddr::from([10, 0, 0, 1])]);
    let host = Host { world: network.world(node), connecting: Rc::default(), accepted: Rc::default() };
    network.run(program(host), Instant::from_millis(600_000)).expect_done()
}

impl Host {
    /// Starts a session over `connection`.
    fn begin(&self, connection: &FakeConnection) -> KernelSession<Self> {
        self.connect(Ok(connection.clone())).expect("begun")
    }

    fn connect(&self, how: io::Result<FakeConnection>) -> Result<KernelSession<Self>, ConnectError> {
        self.connecting.borrow_mut().push_back(how);
        KernelConnector::new(self.clone(), vec![SocketAddr::from(([10, 0, 0, 2], 80))]).connect(0)
    }
}

/// Returns the result of a poll, or `None` if it is pending.
async fn once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    poll_fn(|cx| match poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[test]
fn both_ends_name_a_connection_by_the_initiators_port() {
    run(|host| async move {
        assert_eq!(host.begin(&FakeConnection::established()).id(), 40_001);
        host.accepted.borrow_mut().push_back(Ok(FakeConnection::established()));
        let mut listener = KernelListener::new(host, SocketAddr::from(([0; 4], 80)), 0).expect("listening");
        let session = listener.accept().await.expect("a connection");
        assert_eq!((session.id(), session.peer()), (50_002, Some(SocketAddr::from(([10, 0, 0, 2], 50_002)))));
        session.established().await.expect("what was taken in is established");
    });
}

#[test]
fn a_listener_that_cannot_take_in_a_connection_tries_again() {
    run(|host| async move {
        host.accepted
            .borrow_mut()
            .extend([Err(ErrorKind::OutOfMemory.into()), Ok(FakeConnection::established())]);
        let mut listener =
            KernelListener::new(host.clone(), SocketAddr::from(([0; 4], 80)), 0).expect("listening");
        let begin = host.now();
        listener.accept().await.expect("the next connection");
        assert_eq!(host.now().since(begin), Duration::from_millis(50), "it pauses, and does not spin");
    });
}

#[test]
fn connect_errors_are_distinguished() {
    run(|host| async move {
        let why = |error: io::Error| host.connect(Err(error)).map(|_| ()).expect_err("nothing begun");
        assert_eq!(
            why(ErrorKind::NetworkUnreachable.into()),
            ConnectError::NoRoute("10.0.0.2:80".to_owned())
        );
        assert_eq!(why(ErrorKind::AddrInUse.into()), ConnectError::NoPort);
        assert_eq!(why(ErrorKind::AddrNotAvailable.into()), ConnectError::NoPort);
        // ENFILE is error 23, and EMFILE is error 24.
        assert_eq!(why(io::Error::from_raw_os_error(23)), ConnectError::NoDescriptor);
        assert_eq!(why(io::Error::from_raw_os_error(24)), ConnectError::NoDescriptor);
        assert!(matches!(why(ErrorKind::PermissionDenied.into()), ConnectError::Refused(_)));
    });
}

#[test]
fn close_reasons_are_distinguished() {
    run(|host| async move {
        for (kind, reason) in [
            (ErrorKind::ConnectionRefused, CloseReason::Refused),
            (ErrorKind::ConnectionReset, CloseReason::Reset(String::new())),
            (ErrorKind::ConnectionAborted, CloseReason::Reset(String::new())),
            (ErrorKind::BrokenPipe, CloseReason::Reset(String::new())),
            (ErrorKind::TimedOut, CloseReason::TimedOut(String::new())),
        ] {
            let connection = FakeConnection::default();
            let session = host.begin(&connection);
            connection.connect(Err(kind));
            assert_eq!(session.established().await, Err(reason.clone()));
            assert_eq!(session.closed().await, reason);
            assert_eq!(session.open(0).map(|_| ()), Err(OpenError::Closed(reason)));
        }
        let connection = FakeConnection::established();
        let session = host.begin(&connection);
        session.established().await.expect("established");
        let mut stream = session.open(0).expect("a stream");
        connection.change(|state| state.broken = Some(ErrorKind::HostUnreachable));
        assert!(matches!(stream.write(b"x").await, Err(CloseReason::Network(_))));
        assert!(matches!(session.closed().await, CloseReason::Network(_)));
    });
}

#[test]
fn the_handshake_wakes_waiters_for_the_stream_and_its_holder() {
    run(|host| async move {
        let connection = FakeConnection::default();
        let session = host.begin(&connection);
        let waiting = session.clone();
        let accepted =
            host.spawn("accept", async move { waiting.accept().await.map(|stream| stream.number()) });
        let connecting = connection.clone();
        host.spawn("peer", async move { connecting.connect(Ok(())) }).await;
        session.established().await.expect("established");
        assert_eq!(accepted.await, Ok(0));
        assert!(once(|cx| session.poll_accept(cx)).await.is_none(), "a connection has one stream");

        let connection = FakeConnection::default();
        let session = host.begin(&connection);
        let mut stream = session.open(0).expect("before the handshake is done");
        assert_eq!(session.open(0).map(|_| ()), Err(OpenError::AlreadyOpen(0)));
        connection.arrive(Ok(b"hello"));
        let reading = host.spawn("read", async move {
            let mut buffer = [0; 10];
            let read = stream.read(&mut buffer).await.expect("bytes");
            (buffer[..read].to_vec(), stream.bytes_read())
        });
        let connecting = connection.clone();
        host.spawn("peer", async move { connecting.connect(Ok(())) }).await;
        session.established().await.expect("established");
        assert_eq!(reading.await, (b"hello".to_vec(), 5));
    });
}

#[test]
fn bytes_are_counted_both_ways_and_the_end_of_both_is_the_end_of_the_session() {
    run(|host| async move {
        let connection = FakeConnection::established();
        let session = host.begin(&connection);
        session.established().await.expect("established");
        let mut stream = session.accept().await.expect("a stream");
        stream.write_all(b"request").await.expect("written");
        connection.arrive(Ok(b"ans"));
        connection.arrive(Ok(b"wer"));
        connection.arrive(Ok(b""));
        let mut buffer = [0; 10];
        let mut read = Vec::new();
        while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
            read.extend_from_slice(&buffer[..bytes]);
        }
        assert_eq!((&*read, stream.bytes_read(), stream.bytes_written()), (&b"answer"[..], 6, 7));
        assert_eq!(stream.read(&mut buffer).await, Ok(0), "the end stays");
        assert!(once(|cx| session.poll_closed(cx)).await.is_none(), "ours is still open");
        stream.finish();
        assert_eq!(stream.write(b"more").await, Err(CloseReason::Finished));
        assert_eq!(session.closed().await, CloseReason::Finished);
        let state = connection.0.borrow();
        assert_eq!((&*state.written, state.finished, state.aborted), (&b"request"[..], true, false));
    });
}

/// A server may answer and close before it has read the whole request. Its RST makes a write fail.
#[test]
fn data_that_arrived_before_a_failed_write_can_be_read() {
    run(|host| async move {
        for end in [Ok(&b""[..]), Err(ErrorKind::ConnectionReset)] {
            let reset = CloseReason::Reset(String::new());
            let connection = FakeConnection::established();
            let session = host.begin(&connection);
            session.established().await.expect("established");
            let mut stream = session.open(0).expect("a stream");
            connection.arrive(Ok(b"ans"));
            connection.arrive(Ok(b"wer"));
            connection.arrive(end);
            connection.change(|state| state.broken = Some(ErrorKind::BrokenPipe));
            assert_eq!(stream.write(b"rest of the request").await, Err(reset.clone()));
            assert_eq!(session.closed().await, reset);
            let (mut buffer, mut read) = ([0; 10], Vec::new());
            let ended = loop {
                match stream.read(&mut buffer).await {
                    Ok(0) => break None,
                    Ok(bytes) => read.extend_from_slice(&buffer[..bytes]),
                    Err(reason) => break Some(reason),
                }
            };
            // The end must not look like a complete response, because the RST may have destroyed data.
            assert_eq!((&*read, ended), (&b"answer"[..], Some(reset.clone())), "{end:?}");
            assert_eq!(stream.bytes_read(), 6);
            assert_eq!(
                (stream.write(b"x").await, stream.read(&mut buffer).await),
                (Err(reset.clone()), Err(reset))
            );
        }
        let connection = FakeConnection::established();
        let session = host.begin(&connection);
        session.established().await.expect("established");
        let mut stream = session.open(0).expect("a stream");
        connection.arrive(Ok(b"answer"));
        connection.change(|state| state.broken = Some(ErrorKind::BrokenPipe));
        stream.write(b"x").await.expect_err("broken");
        session.abort();
        assert!(stream.read(&mut [0; 10]).await.is_err(), "after an abort, nothing is read");
    });
}

#[test]
fn data_after_our_close_is_discarded_until_the_peer_closes() {
    run(|host| async move {
        let connection = FakeConnection::established();
        let session = host.begin(&connection);
        session.established().await.expect("established");
        // One call of `discard` does not read all of this data. The end of the stream follows the data.
        (0..40).for_each(|_| connection.arrive(Ok(b"late")));
        connection.arrive(Ok(b""));
        session.close();
        assert_eq!(session.closed().await, CloseReason::Finished);
        assert!(connection.0.borrow().incoming.is_empty());
    });
}

#[test]
fn a_closing_connection_lives_on_while_its_peer_acknowledges() {
    run(|host| async move {
        let connection = FakeConnection::established();
        let session = host.begin(&connection);
        session.established().await.expect("established");
        connection.change(|state| state.unacknowledged = 1_000);
        let begin = host.now();
        session.close();
        let (clock, peer) = (host.clone(), connection.clone());
        let _acknowledging = host.spawn("peer", async move {
            clock.sleep_until(begin + Duration::from_secs(7)).await;
            peer.change(|state| state.unacknowledged = 400);
        });
        // The session checks the progress of acknowledgements after 5 s, 10 s and 15 s. The last check finds no
        // progress.
        assert_eq!(session.closed().await, CloseReason::TimedOut("while closing".to_owned()));
        assert_eq!(host.now().since(begin), Duration::from_secs(15));
        assert!(connection.0.borrow().aborted);
    });
}

#[test]
fn a_name_of_a_congestion_control_is_one_that_the_kernel_could_have() {
    for name in ["cubic", "bbr2", "dctcp_x", "a", "fifteen_letters"] {
        assert!(KernelSettings::may_have(name), "{name}");
    }
    for name in ["", "Cubic", "cu bic", "cubic;", "sixteen_letters_"] {
        assert!(!KernelSettings::may_have(name), "{name}");
    }
    let mut settings = KernelSettings { congestion: Some("cubic".to_owned()) };
    assert_eq!(settings.set("cc", "bbr"), Ok(()));
    let knobs: Vec<_> = settings.knobs().into_iter().map(|knob| (knob.key, knob.value)).collect();
    assert_eq!(knobs, [("cc", "bbr".to_owned())]);
    assert!(settings.set("cc", "B").is_err() && settings.set("rto", "1s").is_err());
}

#[test]
fn the_kernel_is_asked_for_the_congestion_control_of_the_settings_or_another() {
    let tcp = Kernel(KernelProtocol::Tcp);
    let settings = tcp.profile("kernel").expect("its profile");
    let congestion_for =
        |congestion| tcp.kernel(&*settings, congestion).and_then(|options| options.congestion);
    assert_eq!(congestion_for(None), Some("cubic".to_owned()));
    assert_eq!(congestion_for(Some("reno")), Some("reno".to_owned()));
    assert!(tcp.profile("modern").is_none());
}
