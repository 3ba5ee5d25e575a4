//! SCTP peers that test a server with several threads. Each peer is an SCTP engine that sends through a socket of the
//! test, over UDP or directly over IP. The test makes the peers move between addresses and ports, and lose their state.

#![cfg(target_os = "linux")]
#![allow(dead_code, reason = "each test takes what it needs")]

use crate::running::{LONG, Running, Scratch, noise, wait_until_datagrams_are_read};
use anabranch_base::testing::transmit_all;
use anabranch_base::time::nanos;
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use anabranch_sctp::{Associate, AssociationId, CloseReason, Config, Endpoint, Event, Message};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::Duration;

/// The number of peers in a test. With a single peer, a server that chooses threads wrongly could hit the right thread
/// by chance.
pub const PEERS: u64 = 10;
const REQUEST: &[u8] = b"GET /1k HTTP/1.1\r\nHost: x\r\n\r\n";

/// An engine with a socket for each of its addresses.
pub struct Peer {
    pub engine: Endpoint,
    started_at: std::time::Instant,
    /// For each address of the peer: the address that the engine uses, the socket, and the number of packets sent from
    /// the socket.
    pub sockets: Vec<(SocketAddr, Link, usize)>,
    /// Sockets that the peer no longer uses. They stay open so that no other socket gets their ports.
    pub unused_sockets: Vec<Link>,
    port: u16,
    events: Vec<Event>,
}

/// A socket at an address of a peer.
pub enum Link {
    /// SCTP in UDP.
    Udp(UdpSocket),
    /// SCTP on IPv4.
    Ip(Socket),
}

impl Link {
    pub fn udp(ip: [u8; 4], port: u16) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::from((ip, port)))?;
        socket.set_read_timeout(Some(SHORT))?;
        Ok(Self::Udp(socket))
    }

    pub fn ip(ip: [u8; 4]) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(132)))?;
        socket.bind(&SocketAddr::from((ip, 0)).into())?;
        socket.set_read_timeout(Some(SHORT))?;
        Ok(Self::Ip(socket))
    }

    fn local(&self) -> SocketAddr {
        match self {
            Self::Udp(socket) => socket.local_addr().expect("bound"),
            Self::Ip(socket) => {
                let local = socket.local_addr().expect("bound").as_socket().expect("of IPv4");
                SocketAddr::new(local.ip(), 0)
            }
        }
    }

    /// Receives a packet if one is available, and returns its source and its range in `bytes`.
    fn recv(&self, bytes: &mut [u8]) -> Option<(SocketAddr, Range<usize>)> {
        match self {
            Self::Udp(socket) => socket.recv_from(bytes).ok().map(|(length, source)| (source, 0..length)),
            Self::Ip(socket) => {
                let length = { socket }.read(bytes).ok()?;
                let source: [u8; 4] = bytes[12..16].try_into().expect("four bytes");
                Some((SocketAddr::from((source, 0)), usize::from(bytes[0] & 0x0f) * 4..length))
            }
        }
    }

    fn send(&self, bytes: &[u8], target: SocketAddr) {
        let sent = match self {
            Self::Udp(socket) => socket.send_to(bytes, target),
            Self::Ip(socket) => socket.send_to(bytes, &target.into()),
        };
        assert_eq!(sent.expect("sent"), bytes.len());
    }
}

impl Peer {
    /// Creates a peer on these addresses, with an SCTP port of its own. All its packets travel in UDP, with the same
    /// UDP port at each address.
    pub fn new(addresses: &[[u8; 4]], seed: u64) -> Self {
        loop {
            let (mut port, mut links) = (0, Vec::new());
            for &ip in addresses {
                let Ok(link) = Link::udp(ip, port) else { break };
                port = link.local().port();
                links.push(link);
            }
            if links.len() == addresses.len() {
                return Self::over(links, seed);
            }
        }
    }

    /// Creates a peer on these addresses whose packets travel directly on IP.
    pub fn on_ip(addresses: &[[u8; 4]], seed: u64) -> Self {
        Self::over(addresses.iter().map(|&ip| Link::ip(ip).expect("permitted")).collect(), seed)
    }

    fn over(links: Vec<Link>, seed: u64) -> Self {
        let sockets: Vec<_> = links.into_iter().map(|link| (link.local(), link, 0)).collect();
        let engine = engine(&sockets, seed);
        #[expect(clippy::disallowed_methods, reason = "an engine that meets a program lives in its time")]
        let started_at = std::time::Instant::now();
        Self {
            engine,
            started_at,
            sockets,
            unused_sockets: Vec::new(),
            port: 5000 + seed as u16,
            events: Vec::new(),
        }
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos(nanos(self.started_at.elapsed()))
    }

    fn associate(&mut self, server: &[SocketAddr]) -> AssociationId {
        let ask =
            Associate { peer: server.to_vec(), local_port: Some(self.port), ..Associate::to(server[0], 80) };
        self.engine.associate(self.now(), ask).expect("begun")
    }

    /// Discards the engine's state. The addresses and ports stay the same.
    fn forget(&mut self, seed: u64) {
        self.engine = engine(&self.sockets, seed);
        self.events.clear();
    }

    /// Receives and sends all pending packets.
    pub fn turn(&mut self) {
        let mut bytes = vec![0; 65_536];
        for (target, socket, _) in &self.sockets {
            while let Some((source, range)) = socket.recv(&mut bytes) {
                let payload = &bytes[range];
                // Skips packets for other ports. On IP, every socket with this address receives every packet.
                if payload.get(2..4) != Some(&self.port.to_be_bytes()) {
                    continue;
                }
                let packet = Packet { source, target: *target, ecn: Ecn::NotEct, tag: 0, payload };
                self.engine.handle_packet(self.now(), packet);
            }
        }
        let now = self.now();
        self.engine.handle_timeout(now);
        for packet in transmit_all(&mut self.engine, now) {
            let from = self.sockets.iter_mut().find(|(known, ..)| known.ip() == packet.source.ip());
            let (_, socket, count) = from.expect("an address of ours");
            socket.send(&packet.bytes, packet.target);
            *count += 1;
        }
        while let Some(event) = self.engine.poll_event() {
            self.events.push(event);
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.now() + LONG;
        while !done(self) {
            assert!(self.now() < end, "no {what}: {:?}", self.events);
            self.turn();
        }
    }

    fn is_established(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Established { .. }))
    }

    pub fn closed(&self) -> Option<&CloseReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { reason, .. } => Some(reason),
            _ => None,
        })
    }

    pub fn establish(&mut self, server: &[SocketAddr]) -> AssociationId {
        let id = self.associate(server);
        self.until("association", |peer| peer.is_established() || peer.closed().is_some());
        assert_eq!(self.closed(), None);
        id
    }

    fn ask(&mut self, id: AssociationId) {
        self.send(id, 63, REQUEST);
    }

    /// Sends a message with this payload protocol identifier.
    pub fn send(&mut self, id: AssociationId, ppid: u32, bytes: &[u8]) {
        let message = Message { ppid, ..Message::default() };
        self.engine.send(self.now(), id, message, bytes).expect("room");
    }

    /// Checks that the server answers a request.
    pub fn is_served(&mut self, id: AssociationId) {
        self.is_served_as(id, 63, 63);
    }

    /// Checks that the server answers a request. `query` is the payload protocol identifier of the request. `answered`
    /// is the identifier that the response must have.
    pub fn is_served_as(&mut self, id: AssociationId, query: u32, answered: u32) {
        self.send(id, query, REQUEST);
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 65_536]);
        self.until("answer", |peer| {
            while let Ok(Some(got)) = peer.engine.recv(peer.now(), id, 0, &mut buffer) {
                assert_eq!(got.ppid, answered, "asked in {query}");
                answer.extend_from_slice(&buffer[..got.bytes]);
            }
            answer.len() > 1000
        });
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(&noise(1000)));
    }

    /// Sends a request on the current path. Then makes the path to the server's `address` the primary path, and sends
    /// another request. Packets of the second request must leave from the second address of this client. The server
    /// must answer both requests.
    pub fn assert_moves_to(&mut self, id: AssociationId, address: IpAddr) {
        // The first request uses the current path, because the path to `address` may carry data only after it is
        // confirmed (RFC 9260 §5.4).
        self.is_served(id);
        let path = self.engine.info(id).expect("there").paths.iter().position(|path| path.address == address);
        self.engine.set_primary(self.now(), id, path.expect("a path")).expect("there");
        let before = self.sockets[1].2;
        self.is_served(id);
        assert!(self.sockets[1].2 > before, "nothing was sent from the other address");
    }
}

fn engine(sockets: &[(SocketAddr, Link, usize)], seed: u64) -> Endpoint {
    let config = Config::profile("modern").expect("a profile");
    Endpoint::new(config, sockets.iter().map(|(address, ..)| *address).collect(), Rng::new(seed))
}

/// Each peer restarts twice, each time in the middle of a response. The first attempt to associate after a restart must
/// succeed.
pub fn restart(server: &[SocketAddr], new: impl Fn(u64) -> Peer) {
    for seed in 0..PEERS {
        let mut peer = new(seed);
        let mut id = peer.establish(server);
        for again in [100, 200] {
            peer.is_served(id);
            peer.ask(id);
            peer.turn();
            peer.forget(seed + again);
            id = peer.establish(server);
        }
        peer.is_served(id);
        assert_eq!(peer.closed(), None);
        peer.engine.abort(peer.now(), id);
        peer.turn();
    }
}

/// Peers lose an association and treat its packets as out of the blue. The server must end the association, and serve
/// the next one.
pub fn vanish(server: &[SocketAddr], new: impl Fn(u64) -> Peer) {
    let mut peers: Vec<Peer> = (0..PEERS).map(new).collect();
    for (peer, seed) in peers.iter_mut().zip(100..) {
        let id = peer.establish(server);
        peer.ask(id);
        peer.turn();
        peer.forget(seed);
        // The peer has lost the association. It treats the server's response as out of the blue (RFC 9260 §8.4), and
        // answers with an ABORT.
        peer.until("ABORT", |peer| peer.engine.totals().stray_sent > 0);
    }
    wait_until_datagrams_are_read(server[0].port());
    for peer in &mut peers {
        let id = peer.establish(server);
        peer.is_served(id);
        peer.engine.abort(peer.now(), id);
        peer.turn();
    }
}

pub fn site(name: &str) -> Scratch {
    let site = Scratch::new(name);
    site.file("1k", noise(1000));
    site.file("big", noise(8_000_000));
    site
}

pub fn serve(site: &Scratch, arguments: &[&str]) -> Running {
    Running::start(&[&["serve", site.text(), "--quiet"], arguments].concat())
}

/// Ends the server, which must succeed. Returns the number of associations of each thread, the number of packets passed
/// between threads, and the number of lost packets.
pub fn end_and_count(server: Running) -> (Vec<u64>, u64, u64) {
    let (code, lines) = server.end_with_lines();
    assert_eq!(code, 0, "{lines:?}");
    let said = lines.iter().find(|line| line.contains("associations by thread")).expect("an account");
    let numbers: Vec<u64> = said.split([' ', ',', ';']).filter_map(|word| word.parse().ok()).collect();
    let [each @ .., handed, lost] = &numbers[..] else { panic!("{said}") };
    (each.to_vec(), *handed, *lost)
}

/// The time for which a peer waits for a packet.
const SHORT: Duration = Duration::from_millis(1);
