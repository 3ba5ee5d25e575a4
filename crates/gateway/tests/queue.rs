//! Tests the limit on new connections to an origin. Their number never exceeds the origin's accept queue, and the
//! client with the fewest new connections is next.
//!
//! Clients, network and gateway run in virtual time. The origin has a queue of connections, and accepts one of them
//! every three milliseconds. The test counts connections, so the load of the machine does not matter.

use anabranch_base::time::{Duration, Instant};
use anabranch_gateway::{Dial, Options, Origins, Route};
use anabranch_http::authority::{self, Authority};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::serve::Stop;
use anabranch_http::upstream::ReachError;
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::kernel::KernelConnector;
use anabranch_transport::sctp::{Config, LowerProtocol, SctpConnector, SctpHost, SctpServer, SctpSession};
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use anabranch_world::kernel::{Connection, Counters, KernelOptions, KernelTcp, ListeningSocket};
use anabranch_world::names::NameResolver;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// An origin server, and the queue in which its kernel keeps new connections.
#[derive(Default)]
struct Origin {
    /// Connections that the origin has not accepted yet.
    queue: RefCell<VecDeque<Rc<Pipe>>>,
    /// The greatest number of connections in the queue so far.
    longest: Cell<usize>,
    /// The request target on each accepted connection, which identifies the client.
    accepted: RefCell<Vec<String>>,
}

/// A connection to the origin.
#[derive(Default)]
struct Pipe {
    request: RefCell<Vec<u8>>,
    answer: RefCell<VecDeque<u8>>,
    reader: RefCell<Option<Waker>>,
}

impl Origin {
    /// Accepts the connections one after the other, and begins a response on each.
    async fn serve(self: Rc<Self>, world: SimWorld) {
        loop {
            let first = self.queue.borrow_mut().pop_front();
            if let Some(pipe) = first {
                let request = String::from_utf8(pipe.request.take()).expect("text");
                let target = request.split(' ').nth(1).expect("it came with the connection").to_owned();
                self.accepted.borrow_mut().push(target);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\nbegins";
                pipe.answer.borrow_mut().extend(answer);
                pipe.reader.take().iter().for_each(Waker::wake_by_ref);
            }
            world.sleep_until(world.now() + Duration::from_millis(3)).await;
        }
    }
}

/// The gateway's end of a connection.
struct Near(Rc<Pipe>);

impl Connection for Near {
    fn poll_connected(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut answer = self.0.answer.borrow_mut();
        if answer.is_empty() {
            *self.0.reader.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = answer.len().min(into.len());
        into.iter_mut().zip(answer.drain(..count)).for_each(|(to, byte)| *to = byte);
        Poll::Ready(Ok(count))
    }

    fn poll_write(&self, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.0.request.borrow_mut().extend_from_slice(from);
        Poll::Ready(Ok(from.len()))
    }

    fn poll_write_vectored(&self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll_write(cx, from.first().map_or(&[], |slice| slice))
    }

    fn unacknowledged(&self) -> Option<u64> {
        Some(0)
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

    fn finish(&self) {}

    fn abort(&self) {}

    fn local(&self) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 50_000))
    }

    fn remote(&self) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 2], 80))
    }
}

/// A listener of the gateway's host that never accepts a connection, because no test needs one.
struct Nobody;

impl ListeningSocket for Nobody {
    type Connection = Near;

    fn poll_accept(&self, _: &mut Context<'_>) -> Poll<io::Result<Near>> {
        Poll::Pending
    }

    fn local(&self) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 80))
    }
}

/// The gateway's host, whose kernel connects to the origin.
#[derive(Clone)]
struct Gateway {
    world: SimWorld,
    origin: Rc<Origin>,
}

anabranch_sim::world_of_field!(Gateway);

impl NameResolver for Gateway {
    const LOOKUPS: usize = 1;

    fn lookup_local(&self, _: &str, _: u16) -> Vec<SocketAddr> {
        Vec::new()
    }

    async fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

impl KernelTcp for Gateway {
    type Listening = Nobody;
    type Connection = Near;

    fn listen_tcp(&self, _: SocketAddr, _: u32) -> io::Result<Nobody> {
        Ok(Nobody)
    }

    fn connect_tcp(&self, _: SocketAddr) -> io::Result<Near> {
        let (pipe, mut queue) = (Rc::<Pipe>::default(), self.origin.queue.borrow_mut());
        queue.push_back(pipe.clone());
        self.origin.longest.set(self.origin.longest.get().max(queue.len()));
        Ok(Near(pipe))
    }

    fn with_kernel(&self, _: KernelOptions) -> Self {
        self.clone()
    }
}

/// Opens connections to the origin, without TLS.
struct Clear(Gateway);

impl Dial for Clear {
    type Connector = KernelConnector<Gateway>;

    fn check(&self, _: &authority::Origin) -> Result<(), ReachError> {
        Ok(())
    }

    fn connector(
        &self,
        _: &authority::Origin,
        addresses: Vec<SocketAddr>,
    ) -> Result<Self::Connector, ReachError> {
        Ok(KernelConnector::new(self.0.clone(), addresses))
    }
}

/// A network of two clients and a gateway, which forwards their requests to an origin.
struct TestNetwork {
    network: Network,
    gateway: Gateway,
    clients: [SimWorld; 2],
}

impl TestNetwork {
    fn new() -> Self {
        let network = Network::new(1);
        let node = network.host("gateway", &[]);
        let link = LinkSpec::parse("rate=1gbit,rtt=1ms").expect("a link");
        let clients = [1, 2].map(|number| {
            let client = network.host("client", &[]);
            let near = network.interface(client, &[IpAddr::from([10, number, 0, 1])]);
            let far = network.interface(node, &[IpAddr::from([10, number, 0, 2])]);
            network.link(near, far, &link).expect("linked");
            network.world(client)
        });
        let gateway = Gateway { world: network.world(node), origin: Rc::default() };
        Self { network, gateway, clients }
    }
}

/// Opens `count` associations from a client to the gateway.
async fn associations(client: &SimWorld, count: usize) -> Vec<SctpSession<SimWorld>> {
    let host = sctp(client).await;
    let IpAddr::V4(own) = client.addresses()[0] else { unreachable!("it is of IPv4") };
    let gateway = IpAddr::from([10, own.octets()[1], 0, 2]);
    let server = SctpServer { addresses: vec![SocketAddr::new(gateway, 0)], port: 80 };
    let connector = SctpConnector::new(host, vec![server]);
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("established");
        sessions.push(session);
    }
    sessions
}

async fn sctp(world: &SimWorld) -> SctpHost<SimWorld> {
    let mut config = Config::default();
    config.num_ostreams = 100;
    SctpHost::new(world.clone(), config, LowerProtocol::Ip, None).await.expect("a host")
}

/// One client requests 4,000 connections at once. Another client requests a single connection from time to time. Only
/// the connections in the origin's queue may precede the single connection. The first client must have at most half of
/// that queue.
#[test]
fn one_client_does_not_fill_the_queue_of_an_origin() {
    let TestNetwork { network, gateway, clients: [greedy, honest] } = TestNetwork::new();
    let origin = gateway.origin.clone();
    let run = async {
        let world = gateway.world.clone();
        let _origin = world.spawn("origin", origin.clone().serve(world.clone()));
        let listener = sctp(&world).await.listen(80).expect("listening");
        let to = authority::Origin::new(Authority { host: "10.0.0.2".to_owned(), port: 80 }, false);
        let long = Duration::from_secs(600);
        let dial = Clear(gateway.clone());
        let upstream = Origins::new(&gateway, Some(to.clone()), Default::default(), long, dial);
        let options = Options {
            route: Route::Origin(to),
            trusted_proxies: Vec::new(),
            half_close: false,
            secure: false,
            name: "gateway".to_owned(),
            idle: long,
            head_timeout: long,
            max_head: 16 << 10,
            sessions: ConcurrencyLimit::new(100),
            exchanges: ConcurrencyLimit::new(30_000),
            wall_clock: None,
            memory: None,
            log: None,
            faults: None,
            stop: Stop::new(),
        };
        let running = anabranch_gateway::run(world.clone(), listener, Rc::new(upstream), options);
        let _gateway = world.spawn("gateway", running);
        let flood = async move {
            let mut streams = Vec::new();
            let sessions = associations(&greedy, 40).await;
            for number in 0..100 {
                for session in &sessions {
                    let mut stream = session.open(number).expect("a stream");
                    stream.write_all(b"GET /greedy HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
                    streams.push(stream);
                }
            }
            std::future::pending::<()>().await;
        };
        let _flood = world.spawn("greedy", flood);
        let session = associations(&honest, 1).await.remove(0);
        let mut positions = Vec::new();
        for number in 0..20 {
            world.sleep_until(world.now() + Duration::from_millis(200)).await;
            let before = origin.accepted.borrow().len();
            let mut stream = session.open(number).expect("a stream");
            stream.write_all(b"GET /honest HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
            let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
            while !answer.ends_with(b"begins") {
                let read = stream.read(&mut piece).await.expect("an answer");
                answer.extend_from_slice(&piece[..read]);
            }
            let ahead = origin.accepted.borrow()[before..].iter().position(|target| target == "/honest");
            positions.push(ahead.expect("taken"));
        }
        positions
    };
    let positions = network.run(run, Instant::from_millis(3_600_000)).expect_done();
    let (longest, requests) =
        (origin.longest.get(), origin.accepted.borrow().len() + origin.queue.borrow().len());
    assert!(requests > 3_000, "{requests}: nobody was greedy");
    assert!(longest <= 512, "{longest} new connections at a time are more than an origin's queue takes");
    // Only connections that are already in the origin's queue precede a connection of the honest client. At most 256 of
    // them, half of the queue, are connections of the greedy client. A few more are accepted before the honest client's
    // connection is in the queue.
    assert!(positions.iter().all(|count| *count <= 260), "{positions:?}");
}
