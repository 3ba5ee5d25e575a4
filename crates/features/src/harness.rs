//! Two hosts that exchange messages over one transport, and a record of the messages that each host received.
//!
//! The harness drives the engines directly, below the session layer, because the probes ask what a transport itself
//! does with messages, streams and addresses. UDP has no engine: it uses a UDP socket of the simulation.

use super::testbed::{A, B, PORT, Testbed};
use anabranch_base::time::{Duration, Instant};
use anabranch_base::{Engine, RecvBatch, SendBatch};
use anabranch_sctp as sctp;
use anabranch_sim::{SimWorld, Task};
use anabranch_tcp as tcp;
use anabranch_transport::drive::{EngineOwner, Notify, drive};
use anabranch_world::{DatagramSocket, Local, World};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The transport that carries the messages.
#[derive(Clone, Debug)]
pub enum MessageTransport {
    /// UDP datagrams.
    Udp,
    /// TCP with this configuration.
    Tcp(Box<tcp::Config>),
    /// SCTP with this configuration.
    Sctp(Box<sctp::Config>),
}

impl MessageTransport {
    /// Returns TCP with its default profile, changed by these knobs and values.
    pub fn tcp(changes: &[(&str, &str)]) -> Self {
        let mut config = tcp::Config::default();
        changes.iter().for_each(|(key, value)| accepted(config.set(key, value)));
        Self::Tcp(Box::new(config))
    }

    /// Returns SCTP with its default profile, changed by these knobs and values.
    pub fn sctp(changes: &[(&str, &str)]) -> Self {
        let mut config = sctp::Config::default();
        changes.iter().for_each(|(key, value)| accepted(config.set(key, value)));
        Self::Sctp(Box::new(config))
    }
}

/// Data that a receiver got with one read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The time at which the application read the data.
    pub at: Instant,
    /// The stream on which the data arrived.
    pub stream: u16,
    /// The data that the application read.
    pub bytes: Vec<u8>,
}

fn accepted<E: Debug>(set: Result<(), E>) {
    assert!(set.is_ok(), "{set:?}");
}

/// Options for sending a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageOptions {
    /// Stream to send on.
    pub stream: u16,
    /// Whether the receiver may deliver the message out of order.
    pub unordered: bool,
    /// The age at which the sender abandons the message.
    pub lifetime: Option<Duration>,
}

/// An engine, and the events that it has emitted since the harness last took them.
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
        // The list of events stays short, because every probe empties it once per millisecond.
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

    /// Runs `act` on the engine, and wakes the task that drives it.
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

enum TestHost {
    Udp { socket: Box<<SimWorld as World>::Socket>, port: u16 },
    Tcp { host: Host<tcp::Endpoint>, id: Option<tcp::ConnectionId> },
    Sctp { host: Host<sctp::Endpoint>, id: Option<sctp::AssociationId> },
}

/// Two hosts that are connected by a transport, and the data that they have received.
pub struct Harness {
    worlds: [SimWorld; 2],
    ends: [TestHost; 2],
    addresses: [Vec<IpAddr>; 2],
    /// The data that host A and host B have received, in order of arrival.
    pub received: [Vec<Delivery>; 2],
    /// For each host, whether its application reads the data that arrived.
    pub reads: [bool; 2],
    /// Whether the peer of each host has closed its sending direction.
    pub finished: [bool; 2],
    /// Whether each host's connection is established.
    pub established: [bool; 2],
    /// Whether each host's connection has ended.
    pub closed: [bool; 2],
    /// Every event of the engines, as text. The index names the host of the engine.
    pub events: Vec<(usize, String)>,
    /// For each host, the SCTP streams that have unread data.
    readable: [BTreeSet<u16>; 2],
    /// For each host, the messages that the transport has not accepted yet because its buffer was full.
    waiting: [VecDeque<(Vec<u8>, MessageOptions)>; 2],
}

impl Harness {
    /// Starts both hosts. Host B listens if the transport supports listening.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub async fn start(testbed: &Testbed, carrier: &MessageTransport) -> io::Result<Self> {
        Self::start_on(testbed, carrier, usize::MAX).await
    }

    /// Starts both hosts. Host A's transport uses only the first `paths` of its addresses.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub async fn start_on(testbed: &Testbed, carrier: &MessageTransport, paths: usize) -> io::Result<Self> {
        let worlds = testbed.nodes.map(|node| testbed.network.world(node));
        let mut ends = Vec::new();
        for (side, world) in worlds.iter().enumerate() {
            let paths = if side == A { paths } else { usize::MAX };
            ends.push(start_host(world, side, carrier, paths, "").await?);
        }
        match &ends[B] {
            TestHost::Udp { .. } => {}
            TestHost::Tcp { host, .. } => drop(host.with(|engine| engine.listen(PORT, 128))),
            TestHost::Sctp { host, .. } => drop(host.with(|engine| engine.listen(PORT))),
        }
        let [a, b] = <[TestHost; 2]>::try_from(ends).unwrap_or_else(|_| unreachable!("two sides"));
        Ok(Self {
            worlds,
            ends: [a, b],
            addresses: testbed.addresses.clone(),
            received: Default::default(),
            reads: [true; 2],
            finished: [false; 2],
            established: [false; 2],
            closed: [false; 2],
            events: Vec::new(),
            readable: Default::default(),
            waiting: Default::default(),
        })
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        self.worlds[A].now()
    }

    /// Opens a connection from host A to `port` on host B. Does nothing for UDP.
    pub fn open(&mut self, port: u16) {
        let now = self.now();
        let peer: Vec<SocketAddr> = self.addresses[B].iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        match &mut self.ends[A] {
            TestHost::Udp { .. } => {}
            TestHost::Tcp { host, id } => {
                *id = host.with(|engine| engine.connect(now, None, SocketAddr::new(peer[0].ip(), port))).ok();
            }
            TestHost::Sctp { host, id } => {
                let associate = sctp::Associate {
                    peer,
                    // The port is fixed, because a host must use the same port after a restart as before.
                    local_port: Some(5000),
                    ..sctp::Associate::to(([0, 0, 0, 0], 0).into(), port)
                };
                *id = host.with(|engine| engine.associate(now, associate)).ok();
            }
        }
    }

    /// Opens a connection from A to the listener on B. Waits at most 10 s until both sides have established it.
    pub async fn connect(&mut self) -> bool {
        self.open(PORT);
        self.until(10_000, |harness| harness.established[A] && harness.established[B]).await
    }

    /// Restarts the host `side`, which loses all its memory.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub async fn restart(&mut self, side: usize, carrier: &MessageTransport) -> io::Result<()> {
        // The old engine's socket must be closed before the new engine opens its own. So a placeholder on another port
        // replaces the old engine first.
        let unreachable = TestHost::Udp {
            socket: Box::new(self.worlds[side].bind(Local::Udp { port: 1 }).await?),
            port: 1,
        };
        drop(std::mem::replace(&mut self.ends[side], unreachable));
        self.waiting[side].clear();
        self.readable[side].clear();
        (self.established[side], self.closed[side], self.finished[side]) = (false, false, false);
        self.pass(1).await;
        let end = start_host(&self.worlds[side], side, carrier, usize::MAX, "again").await?;
        self.ends[side] = end;
        Ok(())
    }

    /// Sends a message of `size` bytes that begins with its number.
    pub fn say(&mut self, side: usize, number: u32, size: usize) -> bool {
        self.send(side, &numbered(number, size), MessageOptions::default())
    }

    /// Hands a message to the transport of host `side`. The message is queued while the transport's buffer is full.
    /// Returns false if the transport no longer accepts messages.
    pub fn send(&mut self, side: usize, message: &[u8], how: MessageOptions) -> bool {
        self.waiting[side].push_back((message.to_vec(), how));
        self.flush(side)
    }

    /// Sends the queued messages. Returns false if the transport permanently refuses a message, which is then dropped.
    fn flush(&mut self, side: usize) -> bool {
        let now = self.now();
        while let Some((message, how)) = self.waiting[side].pop_front() {
            let left = match &mut self.ends[side] {
                TestHost::Udp { socket, port } => {
                    let source = SocketAddr::new(self.addresses[side][0], *port);
                    let target = SocketAddr::new(self.addresses[1 - side][0], PORT + (1 - side) as u16);
                    drop(send_packet(socket, source, target, &message));
                    None
                }
                TestHost::Tcp { host, id } => {
                    let accepted = id.map(|id| host.with(|engine| engine.send(now, id, &message)));
                    let Some(Ok(accepted)) = accepted else { return false };
                    (accepted < message.len()).then(|| message[accepted..].to_vec())
                }
                TestHost::Sctp { host, id } => {
                    let options = sctp::Message {
                        stream: how.stream,
                        unordered: how.unordered,
                        reliability: how
                            .lifetime
                            .map_or(sctp::Reliability::Full, sctp::Reliability::Lifetime),
                        ..sctp::Message::default()
                    };
                    match id.map(|id| host.with(|engine| engine.send(now, id, options, &message))) {
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

    /// Closes the sending direction of host `side`: a half close on TCP, a shutdown on SCTP.
    pub fn finish(&mut self, side: usize) {
        let now = self.now();
        match &mut self.ends[side] {
            TestHost::Udp { .. } => {}
            TestHost::Tcp { host, id } => {
                if let Some(id) = *id {
                    host.with(|engine| engine.finish(now, id));
                }
            }
            TestHost::Sctp { host, id } => {
                if let Some(id) = *id {
                    host.with(|engine| engine.shutdown(now, id));
                }
            }
        }
    }

    /// Lets this number of milliseconds of virtual time pass. Reads received data once per millisecond.
    pub async fn pass(&mut self, milliseconds: u64) {
        self.until(milliseconds, |_| false).await;
    }

    /// Lets `milliseconds` of virtual time pass without reading received data, then reads all received data.
    pub async fn sleep(&mut self, milliseconds: u64) {
        let next = self.now() + Duration::from_millis(milliseconds);
        self.worlds[A].sleep_until(next).await;
        self.take();
    }

    /// Lets virtual time pass until `enough` returns true, for at most `milliseconds`. Reads received data once per
    /// millisecond.
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

    /// Sends queued messages, reads received data, and collects the engines' events.
    fn take(&mut self) {
        let now = self.now();
        for side in [A, B] {
            self.flush(side);
            match &mut self.ends[side] {
                TestHost::Udp { socket, .. } => {
                    self.established[side] = true;
                    let mut batch = RecvBatch::new(64);
                    let mut cx = Context::from_waker(Waker::noop());
                    while self.reads[side] {
                        batch.clear();
                        if !matches!(socket.poll_recv(&mut cx, &mut batch), Poll::Ready(Ok(()))) {
                            break;
                        }
                        if batch.icmp.is_none() {
                            let bytes = batch.segments().map(<[u8]>::to_vec);
                            self.received[side].extend(bytes.map(|bytes| Delivery {
                                at: now,
                                stream: 0,
                                bytes,
                            }));
                        }
                    }
                }
                TestHost::Tcp { host, id } => {
                    for event in host.events() {
                        match &event {
                            tcp::Event::Connected { .. } => self.established[side] = true,
                            tcp::Event::Accepted { id: new, .. } => {
                                (*id, self.established[side]) = (Some(*new), true)
                            }
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
                                self.received[side].push(Delivery {
                                    at: now,
                                    stream: 0,
                                    bytes: buffer[..n].to_vec(),
                                });
                            }
                            _ => break,
                        }
                    }
                }
                TestHost::Sctp { host, id } => {
                    for event in host.events() {
                        match &event {
                            sctp::Event::Established { .. } => self.established[side] = true,
                            sctp::Event::Accepted { id: new, .. } => {
                                (*id, self.established[side]) = (Some(*new), true)
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
                            self.received[side].push(Delivery {
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

    /// Calls `read` with the SCTP engine and association of host `side`. Returns `None` if the host has no association.
    pub fn sctp<R>(
        &mut self,
        side: usize,
        read: impl FnOnce(&mut sctp::Endpoint, sctp::AssociationId) -> R,
    ) -> Option<R> {
        match &mut self.ends[side] {
            TestHost::Sctp { host, id } => id.map(|id| host.with(|engine| read(engine, id))),
            _ => None,
        }
    }

    /// Calls `read` with the TCP engine and connection of host `side`. Returns `None` if the host has no connection.
    pub fn tcp<R>(
        &mut self,
        side: usize,
        read: impl FnOnce(&mut tcp::Endpoint, tcp::ConnectionId) -> R,
    ) -> Option<R> {
        match &mut self.ends[side] {
            TestHost::Tcp { host, id } => id.map(|id| host.with(|engine| read(engine, id))),
            _ => None,
        }
    }

    /// Returns the number of bytes that host `side` has received.
    pub fn bytes(&self, side: usize) -> usize {
        self.received[side].iter().map(|part| part.bytes.len()).sum()
    }

    /// Returns the numbers of the messages that host `side` has received. Each message has `size` bytes.
    pub fn numbers(&self, side: usize, size: usize) -> Vec<u32> {
        let all: Vec<u8> = self.received[side].iter().flat_map(|part| part.bytes.iter().copied()).collect();
        all.chunks_exact(size).filter_map(|m| m.first_chunk().map(|head| u32::from_be_bytes(*head))).collect()
    }

    /// Returns the number of connections or associations of host `side`, including half-open ones.
    pub fn connection_count(&self, side: usize) -> usize {
        match &self.ends[side] {
            TestHost::Udp { .. } => 0,
            TestHost::Tcp { host, .. } => host.with(|engine| engine.connections()),
            TestHost::Sctp { host, .. } => host.with(|engine| engine.associations()),
        }
    }

    /// Returns the bytes of state that the transport of host `side` holds for its peers.
    pub fn held_bytes(&self, side: usize) -> usize {
        match &self.ends[side] {
            TestHost::Udp { .. } => 0,
            TestHost::Tcp { host, .. } => {
                host.with(|engine| engine.connections() * tcp::Endpoint::connection_bytes())
            }
            TestHost::Sctp { host, .. } => host.with(|engine| engine.held_bytes()),
        }
    }
}

/// Starts the transport of host `side`. A restarted transport needs another `life`, so that its random numbers differ
/// from those before the restart.
async fn start_host(
    world: &SimWorld,
    side: usize,
    carrier: &MessageTransport,
    paths: usize,
    life: &str,
) -> io::Result<TestHost> {
    Ok(match carrier {
        MessageTransport::Udp => {
            let port = PORT + side as u16;
            TestHost::Udp { socket: Box::new(world.bind(Local::Udp { port }).await?), port }
        }
        MessageTransport::Tcp(config) => {
            let start = |local: Vec<SocketAddr>| {
                let addresses = local.iter().map(SocketAddr::ip).collect();
                tcp::Endpoint::new((**config).clone(), addresses, world.rng(&format!("tcp{life}")))
            };
            TestHost::Tcp { host: Host::start(world, 6, start).await?, id: None }
        }
        MessageTransport::Sctp(config) => {
            let start = |mut local: Vec<SocketAddr>| {
                local.truncate(paths);
                sctp::Endpoint::new((**config).clone(), local, world.rng(&format!("sctp{life}")))
            };
            TestHost::Sctp { host: Host::start(world, 132, start).await?, id: None }
        }
    })
}

/// Returns a message of `size` bytes that begins with its number.
pub fn numbered(number: u32, size: usize) -> Vec<u8> {
    let mut message = number.to_be_bytes().to_vec();
    message.resize(size, 0x5a);
    message
}

/// Sends `bytes` as one packet from `source` to `target`. If the socket has no room at present, the packet is lost.
pub fn send_packet(
    socket: &<SimWorld as World>::Socket,
    source: SocketAddr,
    target: SocketAddr,
    bytes: &[u8],
) -> io::Result<()> {
    let mut batch = SendBatch::new(1);
    (batch.source, batch.target) = (source, target);
    batch.push(bytes);
    match socket.poll_send(&mut Context::from_waker(Waker::noop()), &mut batch) {
        Poll::Ready(sent) => sent,
        Poll::Pending => Ok(()),
    }
}
