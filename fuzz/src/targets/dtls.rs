//! Runs DTLS below SCTP with irregular datagrams: changed, late, repeated or made up. They come from unknown hosts, and
//! from a peer before, during and after its handshake.
//!
//! A client and a server of the DTLS layer run in virtual time, and update their keys every few records. The input
//! decides what happens to each datagram. Besides the absence of panics, two conditions must hold. A peer's packet is
//! delivered unchanged and once, or not at all. A client that has sent no cookie receives at most three times the bytes
//! that it has sent (RFC 9147 §5.1, as in RFC 9000 §8).

use crate::source::Source;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, RecvBatch, Rng, SendBatch};
use anabranch_dtls::{DtlsLayer, HostConfig, Pair, Version};
use anabranch_sim::{Network, SimWorld};
use anabranch_tls::{Simulation, Surroundings};
use anabranch_transport::protocol::Layer;
use anabranch_world::{DatagramSocket, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A datagram: source, destination, bytes.
type Datagram = (SocketAddr, SocketAddr, Vec<u8>);

/// The datagrams on their way to a DTLS endpoint (`inward`), and the datagrams that the endpoint has sent (`outward`).
#[derive(Default)]
struct PacketQueues {
    inward: VecDeque<Datagram>,
    outward: Vec<Datagram>,
}

struct Wire {
    at: SocketAddr,
    queues: Rc<RefCell<PacketQueues>>,
}

impl DatagramSocket for Wire {
    fn poll_send(&self, _: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        let (from, to) = (batch.source, batch.target);
        self.queues.borrow_mut().outward.extend(batch.segments().map(|bytes| (from, to, bytes.to_vec())));
        batch.clear();
        Poll::Ready(Ok(()))
    }

    fn poll_recv(&self, _: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let mut queues = self.queues.borrow_mut();
        // The network does not deliver empty datagrams.
        while queues.inward.front().is_some_and(|(_, _, bytes)| bytes.is_empty()) {
            queues.inward.pop_front();
        }
        let Some((from, to, bytes)) = queues.inward.pop_front() else { return Poll::Pending };
        batch.clear();
        batch.push(&bytes);
        (batch.source, batch.target) = (from, to);
        Poll::Ready(Ok(()))
    }

    fn local(&self) -> Vec<SocketAddr> {
        vec![self.at]
    }

    fn mtu(&self, _: IpAddr) -> u32 {
        1_500
    }

    fn max_segments(&self) -> usize {
        1
    }
}

/// The client or the server, with its datagrams.
struct DtlsEndpoint {
    socket: Box<dyn DatagramSocket>,
    queues: Rc<RefCell<PacketQueues>>,
    at: SocketAddr,
    /// The packets that this end has sent over DTLS and that have not arrived. The value is the number of packets with
    /// the same bytes.
    sent: BTreeMap<Vec<u8>, usize>,
    /// All datagrams that the end has sent, which are later changed or repeated.
    sent_datagrams: Vec<Vec<u8>>,
}

impl DtlsEndpoint {
    fn new(world: &SimWorld, pair: &Pair, server: bool) -> Self {
        let at = SocketAddr::from(if server { ([10, 0, 0, 2], 4433) } else { ([10, 0, 0, 1], 50_000) });
        let clock = world.clone();
        let simulation = Simulation::new(world.rng("dtls"), move || clock.now());
        let ends: HostConfig =
            pair.host_config(server, Surroundings::Simulated(simulation)).expect("a configuration");
        let ends = ends.update_keys_after(5);
        let queues: Rc<RefCell<PacketQueues>> = Rc::default();
        let layer = DtlsLayer::new(world.clone(), ends, Some(Pair::NAME));
        let socket = layer.over(Box::new(Wire { at, queues: queues.clone() }));
        Self { socket, queues, at, sent: BTreeMap::new(), sent_datagrams: Vec::new() }
    }

    /// Sends an SCTP packet. Only the fields that DTLS inspects are valid.
    async fn send(&mut self, to: SocketAddr, kind: u8, body: &[u8]) {
        // An INIT has the tag 0.
        let tag = if kind == 1 { [0; 4] } else { [7; 4] };
        let packet = [&[0x13, 0x88, 0x13, 0x88], &tag[..], &[0; 4], &[kind, 0, 0, 4], body].concat();
        let mut batch = SendBatch::new(1);
        (batch.source, batch.target) = (self.at, to);
        batch.push(&packet);
        let _ = poll_fn(|cx| self.socket.poll_send(cx, &mut batch)).await;
        *self.sent.entry(packet).or_default() += 1;
    }

    /// Receives everything that has arrived, and returns the packets.
    async fn take(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut packets = Vec::new();
        poll_fn(|cx| {
            let mut batch = RecvBatch::new(8);
            while let Poll::Ready(Ok(())) = self.socket.poll_recv(cx, &mut batch) {
                packets.extend(batch.packets().map(|packet| (packet.source, packet.payload.to_vec())));
                batch.clear();
            }
            Poll::Ready(())
        })
        .await;
        while self.socket.take_peer().is_some() {}
        packets
    }
}

/// Runs a client and a server of DTLS, with the events that `input` encodes.
pub fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let seed = u64::from(source.byte());
    let version = source.pick(&[Version::Only13, Version::Only12, Version::From12]);
    // A pair keeps the secrets of all its connections, so each run creates a new pair.
    let pair = Pair::new(version, 1_500).expect("a pair");
    let network = Network::new(seed);
    let node = network.host("here", &[IpAddr::from([10, 0, 0, 1])]);
    let world = network.world(node);
    let program = meet(world, &pair, &mut source);
    let done = network.run(program, Instant::from_millis(1 << 40)).done();
    assert!(done.is_some(), "it waits for something");
}

async fn meet(world: SimWorld, pair: &Pair, source: &mut Source<'_>) {
    let mut ends = [DtlsEndpoint::new(&world, pair, false), DtlsEndpoint::new(&world, pair, true)];
    let (client, server) = (ends[0].at, ends[1].at);
    // For each unknown host, the number of bytes from it to the server, and the number of bytes from the server to it.
    let mut strangers: BTreeMap<SocketAddr, (usize, usize)> = BTreeMap::new();
    ends[0].send(server, 1, &[]).await;
    // In most runs, completes the handshake before the first irregular event.
    for _ in 0..if source.one_in(3) { source.below(8) } else { 8 } {
        pass(&mut ends, &mut strangers).await;
    }
    let mut rng = Rng::new(u64::from(source.byte()));
    while !source.is_over() {
        let to = source.below(2) as usize;
        match source.below(12) {
            0..=2 => pass(&mut ends, &mut strangers).await,
            3 => {
                // All datagrams of the other end are lost.
                ends[1 - to].queues.borrow_mut().outward.clear();
            }
            4 | 5 => {
                let (peer, kind) = (ends[1 - to].at, source.pick(&[0, 1, 2, 3, 6, 7, 10, 14]));
                let body = source.bytes(60).to_vec();
                ends[to].send(peer, kind, &body).await;
            }
            6..=9 => {
                let stranger = SocketAddr::from(([10, 0, 7, source.byte()], 1_000));
                let mut bytes = craft(source, &ends, &mut rng);
                bytes.truncate(1 << 14);
                let from = if source.one_in(2) { stranger } else { ends[1 - to].at };
                if from == stranger && to == 1 {
                    strangers.entry(stranger).or_default().0 += bytes.len();
                }
                let at = ends[to].at;
                ends[to].queues.borrow_mut().inward.push_back((from, at, bytes));
            }
            10 => world.sleep_until(world.now() + Duration::from_millis(1 << source.below(22))).await,
            _ => {
                let raw = source.bytes(200).to_vec();
                let at = (ends[1 - to].at, ends[to].at);
                ends[to].queues.borrow_mut().inward.push_back((at.0, at.1, raw));
            }
        }
        for end in 0..2 {
            for (from, packet) in ends[end].take().await {
                let peer = &mut ends[1 - end];
                if from == peer.at {
                    match peer.sent.get_mut(&packet) {
                        Some(left) if *left > 0 => *left -= 1,
                        _ => panic!("a packet that nobody has sent, or not so often: {packet:02x?}"),
                    }
                }
                assert!([client, server].contains(&from), "a packet of a stranger");
            }
        }
        note(&mut ends, &mut strangers);
        for (stranger, (sent, received)) in &strangers {
            assert!(*received <= 3 * sent, "{stranger}: {received} bytes for {sent}");
        }
    }
}

/// Stores the datagrams that each end has sent. For each host in `strangers`, increases the count of received bytes by
/// the number of bytes that the ends have sent to the host.
fn note(ends: &mut [DtlsEndpoint; 2], strangers: &mut BTreeMap<SocketAddr, (usize, usize)>) {
    let known = [ends[0].at, ends[1].at];
    for end in ends {
        let mut queues = end.queues.borrow_mut();
        for (_, to, bytes) in &queues.outward {
            if let Some((_, received)) = strangers.get_mut(to) {
                *received += bytes.len();
            }
            if end.sent_datagrams.len() < MOST_KEPT && !end.sent_datagrams.contains(bytes) {
                end.sent_datagrams.push(bytes.clone());
            }
        }
        queues.outward.retain(|(_, to, _)| known.contains(to));
    }
}

/// Delivers everything that is in flight.
async fn pass(ends: &mut [DtlsEndpoint; 2], strangers: &mut BTreeMap<SocketAddr, (usize, usize)>) {
    for end in &*ends {
        let _ = end.take().await;
    }
    note(ends, strangers);
    for to in 0..2 {
        let out = std::mem::take(&mut ends[1 - to].queues.borrow_mut().outward);
        ends[to].queues.borrow_mut().inward.extend(out);
    }
}

/// Returns a datagram that is similar to datagrams that were sent before.
fn craft(source: &mut Source<'_>, ends: &[DtlsEndpoint; 2], rng: &mut Rng) -> Vec<u8> {
    let sent = &ends[source.below(2) as usize].sent_datagrams;
    let mut bytes = match sent.len() {
        0 => vec![0; 1 + source.below(400) as usize],
        many => sent[source.below(many as u32) as usize].clone(),
    };
    if source.one_in(6) {
        // Builds a record header of DTLS 1.3 or 1.2 for data, with any content.
        let header = if source.one_in(2) {
            vec![0x20 | source.byte() & 0x1f]
        } else {
            vec![
                source.pick(&[20, 21, 22, 23, 26]),
                0xfe,
                0xfd,
                0,
                source.byte() & 3,
                0,
                0,
                0,
                0,
                source.byte(),
            ]
        };
        bytes.splice(0..header.len().min(bytes.len()), header);
    }
    for _ in 0..source.below(5) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        match source.below(6) {
            // Changes a byte near the beginning, because most decisions of DTLS depend on headers.
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at % 80) {
                    *byte = source.byte();
                }
            }
            2 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = source.byte();
                }
            }
            3 => bytes.truncate(at),
            4 => bytes.extend_from_slice(source.bytes(40)),
            _ => {
                let more = sent.get(source.byte() as usize).cloned().unwrap_or_default();
                bytes.extend(more);
            }
        }
    }
    if source.one_in(40) {
        bytes.resize(8_000, source.byte());
    }
    bytes
}

const MOST_KEPT: usize = 64;
