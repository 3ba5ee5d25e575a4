//! Measures DTLS as the layer below SCTP. Both ends run in one thread and exchange packets in memory. The time to
//! encrypt and decrypt packets is compared with the time of the cipher alone. The time of a bulk transfer is compared
//! with that of quinn. The program also measures handshakes, and the memory of ten thousand connections.
//!
//! The DTLS layer wraps an in-memory socket just as it wraps a socket of the operating system. The measured cost is
//! therefore everything that the layer adds to a packet, at both ends.

mod bulk;
mod quinn;

use anabranch_base::{Instant, RecvBatch, SendBatch};
use anabranch_benches::{median, thread_cpu};
use anabranch_dtls::{DtlsLayer, HostConfig, Settings, Version};
use anabranch_sim::{Network, SimWorld};
use anabranch_tls::{Identity, Surroundings, Trust};
use anabranch_transport::protocol::Layer;
use anabranch_world::DatagramSocket;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The batches of datagrams in transit in one direction. A batch has its source, destination, datagram size, offset of
/// the first datagram in the buffer, and the buffer. Batches are not split or copied, because the network is not
/// measured.
type Lane = Rc<RefCell<VecDeque<(SocketAddr, SocketAddr, usize, usize, Vec<u8>)>>>;

struct Wire {
    at: SocketAddr,
    out: Lane,
    back: Lane,
    /// Buffers whose datagrams have been read, kept for reuse.
    spare: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl DatagramSocket for Wire {
    fn poll_send(&self, _: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        let (source, target, stride) = (batch.source, batch.target, batch.stride());
        let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
        let start = batch.take_buffer(&mut bytes);
        self.out.borrow_mut().push_back((source, target, stride, start, bytes));
        Poll::Ready(Ok(()))
    }

    fn poll_recv(&self, _: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let Some((source, target, stride, start, mut bytes)) = self.back.borrow_mut().pop_front() else {
            return Poll::Pending;
        };
        batch.clear();
        batch.put_train(&mut bytes, start, stride);
        (batch.source, batch.target) = (source, target);
        self.spare.borrow_mut().push(bytes);
        Poll::Ready(Ok(()))
    }

    fn local(&self) -> Vec<SocketAddr> {
        vec![self.at]
    }

    fn mtu(&self, _: IpAddr) -> u32 {
        1_500
    }

    fn max_segments(&self) -> usize {
        SEGMENTS
    }
}

/// One endpoint of a DTLS connection, with its socket and address.
struct DtlsEnd {
    socket: Box<dyn DatagramSocket>,
    at: SocketAddr,
}

/// Returns a client and a server that can reach each other.
fn ends(world: &SimWorld, version: Version) -> [DtlsEnd; 2] {
    let identity = Identity::self_signed(&["10.0.0.2".to_owned()]).expect("a certificate");
    let [up, down]: [Lane; 2] = Default::default();
    let spare: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let end = |server: bool| {
        let settings = Settings {
            version,
            identity: server.then(|| identity.clone()),
            trust: (!server).then_some(Trust::Anybody),
            key_log: None,
        };
        let at = SocketAddr::from(([10, 0, 0, 1 + u8::from(server)], 4433));
        let (out, back) = if server { (down.clone(), up.clone()) } else { (up.clone(), down.clone()) };
        let wire = Wire { at, out, back, spare: spare.clone() };
        let config = HostConfig::new(settings, Surroundings::Real).expect("a configuration");
        DtlsEnd { socket: DtlsLayer::new(world.clone(), config, None).over(Box::new(wire)), at }
    };
    [end(false), end(true)]
}

impl DtlsEnd {
    /// Sends `count` copies of `packet` to the endpoint `to`. Returns whether DTLS accepted them.
    fn send(&self, batch: &mut SendBatch, from: SocketAddr, to: &Self, packet: &[u8], count: usize) -> bool {
        batch.clear();
        (batch.source, batch.target) = (from, to.at);
        for _ in 0..count {
            batch.push(packet);
        }
        let mut cx = Context::from_waker(Waker::noop());
        let sent = matches!(self.socket.poll_send(&mut cx, batch), Poll::Ready(Ok(())));
        batch.clear();
        sent
    }

    /// Receives everything that has arrived at this endpoint. Returns the number of bytes.
    fn take(&self, batch: &mut RecvBatch) -> usize {
        let (mut cx, mut bytes) = (Context::from_waker(Waker::noop()), 0);
        while let Poll::Ready(Ok(())) = self.socket.poll_recv(&mut cx, batch) {
            bytes += batch.bytes().len();
            batch.clear();
        }
        while self.socket.take_peer().is_some() {}
        bytes
    }
}

/// Returns an SCTP packet of `size` bytes with a chunk of the type `kind`.
fn packet(kind: u8, size: usize) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[..4].copy_from_slice(&[0x13, 0x88, 0x13, 0x88]);
    packet[4] = u8::from(kind != INIT);
    packet[12] = kind;
    packet
}

/// Performs a DTLS handshake between client and server. The client uses the address `from`.
fn meet([client, server]: &[DtlsEnd; 2], from: SocketAddr, send: &mut SendBatch, receive: &mut RecvBatch) {
    let init = packet(INIT, 32);
    for _ in 0..8 {
        if client.send(send, from, server, &init, 1) {
            server.take(receive);
            return;
        }
        server.take(receive);
        client.take(receive);
    }
    panic!("no handshake");
}

fn main() {
    // After a block of this size is freed, glibc keeps freed memory instead of returning it to the kernel. Otherwise
    // the first benchmark that runs, which is quinn's, would spend a third of its time on page faults.
    drop(black_box(vec![1_u8; 31 << 20]));
    let network = Network::new(1);
    let world = network.world(network.host("here", &[IpAddr::from([10, 0, 0, 1])]));
    let program = async move {
        for (version, name, cipher) in [
            (Version::Only13, "DTLS 1.3, AES-128-GCM", &AES_128_GCM),
            (Version::Only12, "DTLS 1.2, AES-256-GCM", &AES_256_GCM),
        ] {
            let size = 1_472 - version.overhead() as usize;
            // The measured programs take turns in each round, so that other load on the machine affects all of them.
            let ends = ends(&world, version);
            let mut layer = through(&ends, size);
            let mut alone = alone(cipher, size);
            let mut bulk = bulk::Bulk::new(&world, version);
            let mut quinn = quinn::Bulk::new(cipher);
            let mut costs = [const { Vec::new() }; 4];
            for _ in 0..7 {
                costs[0].push(rate(size, &mut alone));
                costs[1].push(rate(size * SEGMENTS, &mut layer));
                costs[2].push(bulk.cost());
                costs[3].push(quinn.cost());
            }
            let [alone, layer, bulk, quinn] = costs.map(|costs| median(&costs));
            println!("{name}, datagrams of 1472 B, CPU-s/GB at both ends together:");
            println!("  the cipher alone {alone:.3} ({:.2} GB/s)", 1.0 / alone);
            println!("  the layer {layer:.3}: {:.2} of the cipher", alone / layer);
            println!("  bulk, SCTP and DTLS {bulk:.3}: {:.2} of the cipher", alone / bulk);
            println!("  bulk, quinn with the same cipher {quinn:.3}: {:.2} of the cipher", alone / quinn);
        }
        for (version, name) in [(Version::Only13, "1.3"), (Version::Only12, "1.2")] {
            let (rate, [near, far]) = many(&world, version);
            println!(
                "DTLS {name}: {rate:.0} handshakes in a second of one core, both ends; {near} and {far} bytes a connection, client and server, of {MANY}"
            );
        }
    };
    network.run(program, Instant::from_millis(1 << 40)).done().expect("to the end");
}

/// Returns a function that encrypts and decrypts one record of `size` bytes, without the rest of DTLS.
fn alone(algorithm: &'static Algorithm, size: usize) -> impl FnMut() -> usize {
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &vec![7; algorithm.key_len()]).expect("a key"));
    let mut record = vec![0; size + algorithm.tag_len()];
    let nonce = || Nonce::assume_unique_for_key([1; 12]);
    move || {
        let (body, tag) = record.split_at_mut(size);
        let made = key.seal_in_place_separate_tag(nonce(), Aad::from([3; 5]), body).expect("sealed");
        tag.copy_from_slice(made.as_ref());
        black_box(key.open_in_place(nonce(), Aad::from([3; 5]), &mut record).expect("opened"));
        size
    }
}

/// Returns a function that sends a batch of packets from `ends[0]` to `ends[1]`, through the DTLS layer of both.
fn through(ends: &[DtlsEnd; 2], size: usize) -> impl FnMut() -> usize {
    let (mut send, mut receive) = (SendBatch::new(SEGMENTS), RecvBatch::new(SEGMENTS));
    let (from, data) = (ends[0].at, packet(DATA, size));
    meet(ends, from, &mut send, &mut receive);
    move || {
        assert!(ends[0].send(&mut send, from, &ends[1], &data, SEGMENTS));
        ends[1].take(&mut receive)
    }
}

/// Calls the function `round` repeatedly. Each call transfers `bytes` bytes. Returns the processor seconds per
/// gigabyte.
fn rate(bytes: usize, round: &mut impl FnMut() -> usize) -> f64 {
    let rounds = 200_000_000 / bytes;
    let began = thread_cpu();
    for _ in 0..rounds {
        assert_eq!(round(), bytes);
    }
    (thread_cpu() - began) / (rounds * bytes) as f64 * 1e9
}

/// Performs many DTLS handshakes. Returns the handshakes per processor second, and the memory of a connection at each
/// endpoint, in bytes.
fn many(world: &SimWorld, version: Version) -> (f64, [usize; 2]) {
    let ends = ends(world, version);
    let (mut send, mut receive) = (SendBatch::new(SEGMENTS), RecvBatch::new(SEGMENTS));
    let allocated = || GLOBAL.stats().bytes_allocated - GLOBAL.stats().bytes_deallocated;
    let (before, began) = (allocated(), thread_cpu());
    for number in 0..MANY {
        let [high, low] = number.to_be_bytes();
        meet(&ends, SocketAddr::from(([10, 1, high, low], 4433)), &mut send, &mut receive);
    }
    let (taken, both) = (thread_cpu() - began, allocated() - before);
    let [client, server] = ends;
    drop(client);
    let far = allocated() - before;
    drop(server);
    (f64::from(MANY) / taken, [(both - far) / usize::from(MANY), far / usize::from(MANY)])
}

const INIT: u8 = 1;
const DATA: u8 = 0;
const SEGMENTS: usize = 32;
const MANY: u16 = 10_000;
