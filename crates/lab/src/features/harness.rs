//! Two hosts that talk over one transport in the virtual network, message by
//! message, and a record of all that came.
//!
//! Below HTTP and its sessions: what is asked here is what a transport itself
//! does with messages, streams and addresses. UDP is the world's own socket.

use anabranch_base::time::{Duration, Instant};
use anabranch_base::{Engine, RecvBatch, SendBatch};
use anabranch_link::LinkSpec;
use anabranch_sctp as sctp;
use anabranch_sim::{LinkId, Network, NodeId, Passage, SimWorld, Task};
use anabranch_tcp as tcp;
use anabranch_transport::drive::{EngineOwner, Notify, drive};
use anabranch_wire::ladder::{Ladder, Side, Transport};
use anabranch_wire::pcap;
use anabranch_world::{Datagrams, Local, World};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;

/// The side that opens, and the side that is called.
pub const A: usize = 0;
/// See [`A`].
pub const B: usize = 1;

/// The port that B listens on.
pub const PORT: u16 = 8000;

/// What carries the messages.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// UDP datagrams.
    Udp,
    /// TCP with these settings.
    Tcp(Box<tcp::Config>),
    /// SCTP with these settings.
    Sctp(Box<sctp::Config>),
}

impl Carrier {
    /// TCP by its default profile, changed by these keys.
    pub fn tcp(changes: &[(&str, &str)]) -> Self {
        let mut config = tcp::Config::default();
        for (key, value) in changes {
            let set = config.set(key, value);
            assert!(set.is_ok(), "{set:?}");
        }
        Self::Tcp(Box::new(config))
    }

    /// SCTP by its default profile, changed by these keys.
    pub fn sctp(changes: &[(&str, &str)]) -> Self {
        let mut config = sctp::Config::default();
        for (key, value) in changes {
            let set = config.set(key, value);
            assert!(set.is_ok(), "{set:?}");
        }
        Self::Sctp(Box::new(config))
    }
}

/// What a receiver was handed at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When.
    pub at: Instant,
    /// On which stream.
    pub stream: u16,
    /// What.
    pub bytes: Vec<u8>,
}

/// How a message is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct How {
    /// On which stream.
    pub stream: u16,
    /// Without regard to order.
    pub unordered: bool,
    /// Given up when it is older.
    pub lifetime: Option<Duration>,
}

/// An engine with the events it gave.
struct Owner<E: Engine> {
    engine: E,
    notify: Notify,
    events: Vec<E::Event>,
}

impl<E: Engine<Event: 'static> + 'static> EngineOwner for Owner<E> {
    type Engine = E;

    fn engine(&mut self) -> &mut E {
        &mut self.engine
    }

    fn handle_event(&mut self, _: Instant, event: E::Event) {
        // Bounded: every probe reads them once a millisecond.
        self.events.push(event);
    }

    fn handle_failure(&mut self, _: &io::Error) {}

    fn notify(&mut self) -> &mut Notify {
        &mut self.notify
    }
}

struct Host<E: Engine> {
    shared: Rc<RefCell<Owner<E>>>,
    _driver: Task<()>,
}

impl<E: Engine<Event: 'static> + 'static> Host<E> {
    async fn start(
        world: &SimWorld,
        protocol: u8,
        engine: impl FnOnce(Vec<SocketAddr>) -> E,
    ) -> io::Result<Self> {
        let socket = world.bind(Local::Ip { protocol }).await?;
        let engine = engine(socket.local());
        let shared = Rc::new(RefCell::new(Owner { engine, notify: Notify::default(), events: Vec::new() }));
        let task = drive(world.clone(), socket, shared.clone());
        Ok(Self { shared, _driver: world.spawn("engine", task) })
    }

    /// A command to the engine.
    fn with<R>(&self, act: impl FnOnce(&mut E) -> R) -> R {
        let mut shared = self.shared.borrow_mut();
        let done = act(&mut shared.engine);
        shared.notify.notify();
        done
    }

    fn events(&self) -> Vec<E::Event> {
        std::mem::take(&mut self.shared.borrow_mut().events)
    }
}

enum End {
    Udp { socket: Box<<SimWorld as World>::Socket>, port: u16 },
    Tcp { host: Host<tcp::Endpoint>, id: Option<tcp::ConnectionId> },
    Sctp { host: Host<sctp::Endpoint>, id: Option<sctp::AssociationId> },
}

/// The network of a probe.
pub struct Testbed {
    /// The network.
    pub network: Network,
    /// A and B.
    pub nodes: [NodeId; 2],
    /// Their addresses, one a path.
    pub addresses: [Vec<IpAddr>; 2],
    /// The paths; up leads from A to B.
    pub links: Vec<LinkId>,
    /// The router between them, if there is one.
    pub router: Option<NodeId>,
}

impl Testbed {
    /// Two hosts with a path for each of `links`; all that passes is recorded.
    ///
    /// # Errors
    /// The line of a link that cannot be built.
    pub fn new(seed: u64, links: &[&str]) -> Result<Self, String> {
        let network = Network::new(seed);
        let address = |host: u8| -> Vec<IpAddr> {
            (1..=links.len() as u8).map(|path| Ipv4Addr::new(10, 0, path, host).into()).collect()
        };
        let addresses = [address(1), address(2)];
        let nodes = [network.host("A", &addresses[A]), network.host("B", &addresses[B])];
        let mut built = Vec::new();
        for (path, text) in links.iter().enumerate() {
            let spec = LinkSpec::parse(text).map_err(|error| error.to_string())?;
            let ends = nodes.map(|node| node.interface(path as u32));
            built.push(network.link(ends[A], ends[B], &spec).map_err(|error| error.to_string())?);
        }
        network.record_passages();
        network.capture(nodes[A]);
        Ok(Self { network, nodes, addresses, links: built, router: None })
    }

    /// Two hosts with a router between, and perhaps a third host C of so many addresses beside A.
    ///
    /// # Errors
    /// As [`Testbed::new`].
    pub fn routed(seed: u64, near: &str, far: &str, third: u8) -> Result<(Self, NodeId), String> {
        let network = Network::new(seed);
        let addresses: [Vec<IpAddr>; 2] =
            [vec![Ipv4Addr::new(10, 0, 1, 1).into()], vec![Ipv4Addr::new(10, 0, 2, 1).into()]];
        let nodes = [network.host("A", &addresses[A]), network.host("B", &addresses[B])];
        let router = network.router("router");
        let beside: Vec<IpAddr> = (0..third.max(1)).map(|n| Ipv4Addr::new(10, 0, 3, n + 1).into()).collect();
        let c = network.host("C", &[]);
        let beside = network.interface(c, &beside);
        let mut links = Vec::new();
        let wrong = |error: anabranch_link::SpecError| error.to_string();
        let spec = LinkSpec::parse(near).map_err(wrong)?;
        let aside = network.link(beside, router, &spec).map_err(wrong)?;
        for (from, to, text) in [(nodes[A], router, near), (router, nodes[B], far)] {
            let spec = LinkSpec::parse(text).map_err(wrong)?;
            links.push(network.link(from, to, &spec).map_err(wrong)?);
        }
        links.push(aside);
        network.record_passages();
        network.capture(nodes[A]);
        Ok((Self { network, nodes, addresses, links, router: Some(router) }, c))
    }

    /// Lets the future run to its end; bounded by an hour of virtual time.
    ///
    /// # Errors
    /// One line: the probe stalled, or the world refused.
    pub fn run<T>(&self, probe: impl Future<Output = io::Result<T>>) -> Result<T, String> {
        let ended = self.network.run(probe, Instant::ZERO + Duration::from_secs(3600));
        let done = ended.done().ok_or("the probe came to no end")?;
        done.map_err(|error| error.to_string())
    }

    /// What passed since the last call.
    pub fn passages(&self) -> Vec<Passage> {
        self.network.take_passages()
    }

    /// The conversation as A's interfaces saw it.
    ///
    /// # Errors
    /// The capture cannot be read.
    pub fn ladder(&self, transport: Transport) -> Result<String, String> {
        let bytes = self.network.finish_capture(self.nodes[A]).map_err(|error| error.to_string())?;
        let mut ladder = Ladder::new(transport, "A", "B");
        for (side, host) in [(Side::Left, A), (Side::Right, B)] {
            let several = self.addresses[host].len() > 1;
            for (path, address) in self.addresses[host].iter().enumerate() {
                let letter = ["A", "B"][host];
                let name = if several { format!("{letter}{}", path + 1) } else { letter.to_owned() };
                ladder.place(*address, side, &name);
            }
        }
        let mut reader = pcap::Reader::new(&bytes).map_err(|error| error.to_string())?;
        while let Some(record) = reader.next_packet().map_err(|error| error.to_string())? {
            // IPv4 without options: what these hosts send.
            if let Some((source, target, body)) = v4(record.packet) {
                ladder.packet(Instant::from_nanos(record.at_nanos), source, target, body, "");
            }
        }
        Ok(ladder.take())
    }
}

/// Source, target and what an IPv4 packet carries.
pub fn v4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let length = usize::from(packet.first()? & 15) * 4;
    let address =
        |at: usize| packet.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok()).map(Ipv4Addr::from);
    Some((address(12)?.into(), address(16)?.into(), packet.get(length..)?))
}

/// A conversation under way.
pub struct Harness {
    worlds: [SimWorld; 2],
    ends: [End; 2],
    addresses: [Vec<IpAddr>; 2],
    /// What each side was handed, in order.
    pub got: [Vec<Delivery>; 2],
    /// Which sides read what comes.
    pub reads: [bool; 2],
    /// Sides whose peer has said that nothing more will come.
    pub finished: [bool; 2],
    /// Sides that know of an established connection.
    pub up: [bool; 2],
    /// Sides whose connection has ended.
    pub closed: [bool; 2],
    /// Every event of the engines, as text.
    pub events: Vec<(usize, String)>,
    /// SCTP streams of each side that have something to read.
    readable: [BTreeSet<u16>; 2],
    /// Messages for which each side's transport had no room yet.
    waiting: [VecDeque<(Vec<u8>, How)>; 2],
}

impl Harness {
    /// Starts both hosts; B listens where the transport knows listening.
    ///
    /// # Errors
    /// What the world refuses.
    pub async fn start(testbed: &Testbed, carrier: &Carrier) -> io::Result<Self> {
        Self::start_on(testbed, carrier, usize::MAX).await
    }

    /// Starts both hosts, A's transport on the first `paths` of its addresses only.
    ///
    /// # Errors
    /// What the world refuses.
    pub async fn start_on(testbed: &Testbed, carrier: &Carrier, paths: usize) -> io::Result<Self> {
        let worlds = testbed.nodes.map(|node| testbed.network.world(node));
        let mut ends = Vec::new();
        for (side, world) in worlds.iter().enumerate() {
            let paths = if side == A { paths } else { usize::MAX };
            ends.push(end(world, side, carrier, paths, "").await?);
        }
        match &ends[B] {
            End::Udp { .. } => {}
            End::Tcp { host, .. } => drop(host.with(|engine| engine.listen(PORT, 128))),
            End::Sctp { host, .. } => drop(host.with(|engine| engine.listen(PORT))),
        }
        let [a, b] = <[End; 2]>::try_from(ends).unwrap_or_else(|_| unreachable!("two sides"));
        Ok(Self {
            worlds,
            ends: [a, b],
            addresses: testbed.addresses.clone(),
            got: [Vec::new(), Vec::new()],
            reads: [true, true],
            finished: [false, false],
            up: [false, false],
            closed: [false, false],
            events: Vec::new(),
            readable: [BTreeSet::new(), BTreeSet::new()],
            waiting: [VecDeque::new(), VecDeque::new()],
        })
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.worlds[A].now()
    }

    /// A asks B at `port` for a connection; UDP has none to ask for.
    pub fn open(&mut self, port: u16) {
        let now = self.now();
        let peer: Vec<SocketAddr> = self.addresses[B].iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        match &mut self.ends[A] {
            End::Udp { .. } => {}
            End::Tcp { host, id } => {
                *id = host.with(|engine| engine.connect(now, None, SocketAddr::new(peer[0].ip(), port))).ok();
            }
            End::Sctp { host, id } => {
                let ask = sctp::Associate {
                    peer,
                    // One that a host which restarts takes again.
                    local_port: Some(5000),
                    ..sctp::Associate::to(([0, 0, 0, 0], 0).into(), port)
                };
                *id = host.with(|engine| engine.associate(now, ask)).ok();
            }
        }
    }

    /// Opens to the listener and waits until both sides know, 10 s at most.
    pub async fn connect(&mut self) -> bool {
        self.open(PORT);
        self.until(10_000, |harness| harness.up[A] && harness.up[B]).await
    }

    /// A side's host loses all its memory and starts again.
    ///
    /// # Errors
    /// What the world refuses.
    pub async fn restart(&mut self, side: usize, carrier: &Carrier) -> io::Result<()> {
        // The old one's socket has to be gone before the new one's comes.
        let gone =
            End::Udp { socket: Box::new(self.worlds[side].bind(Local::Udp { port: 1 }).await?), port: 1 };
        drop(std::mem::replace(&mut self.ends[side], gone));
        self.waiting[side].clear();
        self.readable[side].clear();
        (self.up[side], self.closed[side], self.finished[side]) = (false, false, false);
        self.pass(1).await;
        let end = end(&self.worlds[side], side, carrier, usize::MAX, "again").await?;
        self.ends[side] = end;
        Ok(())
    }

    /// Hands a message to a side's transport, at once or as soon as it has room. False when it takes none any more.
    pub fn send(&mut self, side: usize, message: &[u8], how: How) -> bool {
        self.waiting[side].push_back((message.to_vec(), how));
        self.flush(side)
    }

    /// Hands over what waits; what the transport refuses for good is dropped, and false returned.
    fn flush(&mut self, side: usize) -> bool {
        let now = self.now();
        while let Some((message, how)) = self.waiting[side].pop_front() {
            let left = match &mut self.ends[side] {
                End::Udp { socket, port } => {
                    let mut batch = SendBatch::new(1);
                    batch.source = SocketAddr::new(self.addresses[side][0], *port);
                    batch.target = SocketAddr::new(self.addresses[1 - side][0], PORT + (1 - side) as u16);
                    batch.push(&message);
                    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                    drop(socket.poll_send(&mut cx, &mut batch));
                    None
                }
                End::Tcp { host, id } => {
                    let taken = id.map(|id| host.with(|engine| engine.send(now, id, &message)));
                    let Some(Ok(taken)) = taken else { return false };
                    (taken < message.len()).then(|| message[taken..].to_vec())
                }
                End::Sctp { host, id } => {
                    let ask = sctp::Message {
                        stream: how.stream,
                        unordered: how.unordered,
                        reliability: how
                            .lifetime
                            .map_or(sctp::Reliability::Full, sctp::Reliability::Lifetime),
                        ..sctp::Message::default()
                    };
                    match id.map(|id| host.with(|engine| engine.send(now, id, ask, &message))) {
                        Some(Ok(())) => None,
                        Some(Err(sctp::SendError::Full)) => Some(message),
                        _ => return false,
                    }
                }
            };
            if let Some(left) = left {
                self.waiting[side].push_front((left, how));
                return true;
            }
        }
        true
    }

    /// Says that nothing more will be sent: what half-closes a connection that can be half-closed.
    pub fn finish(&mut self, side: usize) {
        let now = self.now();
        match &mut self.ends[side] {
            End::Udp { .. } => {}
            End::Tcp { host, id } => {
                if let Some(id) = *id {
                    host.with(|engine| engine.finish(now, id));
                }
            }
            End::Sctp { host, id } => {
                if let Some(id) = *id {
                    host.with(|engine| engine.shutdown(now, id));
                }
            }
        }
    }

    /// Lets `milliseconds` pass.
    pub async fn pass(&mut self, milliseconds: u64) {
        self.until(milliseconds, |_| false).await;
    }

    /// Lets `milliseconds` pass at one stroke; what came is read at their end.
    pub async fn sleep(&mut self, milliseconds: u64) {
        let next = self.now() + Duration::from_millis(milliseconds);
        self.worlds[A].sleep_until(next).await;
        self.take();
    }

    /// Lets time pass until `enough`, at most so many milliseconds; what comes is read.
    pub async fn until(&mut self, milliseconds: u64, enough: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..milliseconds {
            self.take();
            if enough(self) {
                return true;
            }
            let next = self.now() + Duration::from_millis(1);
            self.worlds[A].sleep_until(next).await;
        }
        self.take();
        enough(self)
    }

    /// Takes what came, and what the engines tell.
    fn take(&mut self) {
        let now = self.now();
        for side in [A, B] {
            self.flush(side);
            match &mut self.ends[side] {
                End::Udp { socket, .. } => {
                    self.up[side] = true;
                    let mut batch = RecvBatch::new(64);
                    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                    while self.reads[side] {
                        batch.clear();
                        if !matches!(socket.poll_recv(&mut cx, &mut batch), Poll::Ready(Ok(()))) {
                            break;
                        }
                        if batch.icmp.is_none() {
                            let bytes = batch.segments().map(<[u8]>::to_vec);
                            self.got[side].extend(bytes.map(|bytes| Delivery { at: now, stream: 0, bytes }));
                        }
                    }
                }
                End::Tcp { host, id } => {
                    for event in host.events() {
                        match &event {
                            tcp::Event::Connected { .. } => self.up[side] = true,
                            tcp::Event::Accepted { id: new, .. } => (*id, self.up[side]) = (Some(*new), true),
                            tcp::Event::Finished { .. } => self.finished[side] = true,
                            tcp::Event::Closed { .. } => self.closed[side] = true,
                            _ => {}
                        }
                        self.events.push((side, format!("{event:?}")));
                    }
                    let mut buffer = [0; 65_536];
                    while let Some(id) = id.filter(|_| self.reads[side]) {
                        match host.with(|engine| engine.recv(now, id, &mut buffer)) {
                            Ok(n) if n > 0 => {
                                self.got[side].push(Delivery {
                                    at: now,
                                    stream: 0,
                                    bytes: buffer[..n].to_vec(),
                                });
                            }
                            _ => break,
                        }
                    }
                }
                End::Sctp { host, id } => {
                    for event in host.events() {
                        match &event {
                            sctp::Event::Established { .. } => self.up[side] = true,
                            sctp::Event::Accepted { id: new, .. } => {
                                (*id, self.up[side]) = (Some(*new), true)
                            }
                            sctp::Event::PeerShutdown { .. } => self.finished[side] = true,
                            sctp::Event::Closed { .. } => self.closed[side] = true,
                            sctp::Event::Readable { stream, .. } => drop(self.readable[side].insert(*stream)),
                            _ => {}
                        }
                        self.events.push((side, format!("{event:?}")));
                    }
                    let Some(id) = id.filter(|_| self.reads[side]) else { continue };
                    for stream in std::mem::take(&mut self.readable[side]) {
                        let mut buffer = vec![0; 65_536];
                        while let Ok(Some(part)) =
                            host.with(|engine| engine.recv(now, id, stream, &mut buffer))
                        {
                            self.got[side].push(Delivery {
                                at: now,
                                stream,
                                bytes: buffer[..part.bytes].to_vec(),
                            });
                        }
                    }
                }
            }
        }
    }

    /// Looks at A's or B's SCTP, if that is what talks.
    pub fn sctp<R>(
        &mut self,
        side: usize,
        look: impl FnOnce(&mut sctp::Endpoint, sctp::AssociationId) -> R,
    ) -> Option<R> {
        match &mut self.ends[side] {
            End::Sctp { host, id } => id.map(|id| host.with(|engine| look(engine, id))),
            _ => None,
        }
    }

    /// Looks at A's or B's TCP, if that is what talks.
    pub fn tcp<R>(
        &mut self,
        side: usize,
        look: impl FnOnce(&mut tcp::Endpoint, tcp::ConnectionId) -> R,
    ) -> Option<R> {
        match &mut self.ends[side] {
            End::Tcp { host, id } => id.map(|id| host.with(|engine| look(engine, id))),
            _ => None,
        }
    }

    /// How many connections or associations a side's transport holds, half-open ones too.
    pub fn held(&self, side: usize) -> usize {
        match &self.ends[side] {
            End::Udp { .. } => 0,
            End::Tcp { host, .. } => host.with(|engine| engine.connections()),
            End::Sctp { host, .. } => host.with(|engine| engine.associations()),
        }
    }

    /// Bytes that a side's transport keeps for its peers.
    pub fn held_bytes(&self, side: usize) -> usize {
        match &self.ends[side] {
            End::Udp { .. } => 0,
            End::Tcp { host, .. } => {
                host.with(|engine| engine.connections() * tcp::Endpoint::connection_bytes())
            }
            End::Sctp { host, .. } => host.with(|engine| engine.held_bytes()),
        }
    }
}

/// A side's transport; `life` tells a restarted one's randomness from the first one's.
async fn end(world: &SimWorld, side: usize, carrier: &Carrier, paths: usize, life: &str) -> io::Result<End> {
    Ok(match carrier {
        Carrier::Udp => {
            let port = PORT + side as u16;
            End::Udp { socket: Box::new(world.bind(Local::Udp { port }).await?), port }
        }
        Carrier::Tcp(config) => {
            let start = |local: Vec<SocketAddr>| {
                let addresses = local.iter().map(SocketAddr::ip).collect();
                tcp::Endpoint::new((**config).clone(), addresses, world.rng(&format!("tcp{life}")))
            };
            End::Tcp { host: Host::start(world, 6, start).await?, id: None }
        }
        Carrier::Sctp(config) => {
            let start = |mut local: Vec<SocketAddr>| {
                local.truncate(paths);
                sctp::Endpoint::new((**config).clone(), local, world.rng(&format!("sctp{life}")))
            };
            End::Sctp { host: Host::start(world, 132, start).await?, id: None }
        }
    })
}
