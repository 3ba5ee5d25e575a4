//! Tests that checksums which nobody reads make no difference: a run in which network interfaces write the checksums has
//! the same packets and the same results as a run in which the engines compute and verify every checksum. The same holds
//! for payload that sender and receiver share instead of copying it.

use anabranch_base::time::Duration;
use anabranch_base::{Instant, RecvBatch};
use anabranch_link::LinkSpec;
use anabranch_link::spec::Direction;
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::sctp::{LowerProtocol, SctpHost};
use anabranch_transport::tcp::TcpHost;
use anabranch_transport::{Listener, Session, Stream};
use anabranch_wire::{ip, tcp};
use anabranch_world::{DatagramSocket, Detach, Local, World};
use bytes::Bytes;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

const PORT: u16 = 80;
const BYTES: usize = 300_000;
/// The number of bytes that are written at once.
const PART: usize = 20_000;
/// The number of the write whose bytes are always copied.
const COPIED_TURN: usize = 9;
/// A send buffer that holds only a few writes, so that the first writes are sent before the copied one.
const SEND_BUFFER: &str = "48KiB";

#[derive(Clone, Copy, PartialEq, Debug)]
enum Transport {
    Tcp,
    Sctp,
    SctpOverUdp,
}

/// Everything that can be seen of a run.
#[derive(PartialEq, Debug)]
struct Seen {
    end: Instant,
    received: Vec<u8>,
    digest: u64,
    captures: Vec<Vec<u8>>,
    counters: String,
}

/// Returns the data that is sent, always in the same memory.
fn data() -> Bytes {
    static DATA: OnceLock<Bytes> = OnceLock::new();
    DATA.get_or_init(|| (0..BYTES).map(|at| (at * 7 % 251) as u8).collect()).clone()
}

/// Writes all bytes. If `shared`, the transport may share the memory of all writes except one. The copied write makes the
/// transport copy what is buffered, and what follows until its buffer is empty.
async fn send(session: impl Session, shared: bool) {
    session.established().await.expect("a session");
    let mut stream = session.open(0).expect("a stream");
    let data = data();
    // The transport gets the same sizes of writes, whether it shares the memory or not.
    for (turn, part) in data.chunks(PART).enumerate() {
        if shared && turn != COPIED_TURN {
            stream.write_all_bytes(data.slice_ref(part)).await.expect("the peer reads");
        } else {
            stream.write_all(part).await.expect("the peer reads");
        }
    }
    stream.finish();
    session.closed().await;
}

/// Returns the bytes that were received, and how many of them were read from the memory of the sender.
async fn receive(mut listener: impl Listener, shared: bool) -> (Vec<u8>, usize) {
    let session = listener.accept().await.expect("a session");
    let mut stream = session.accept().await.expect("a stream");
    let (mut data, mut buffer, mut from_sender) = (Vec::new(), vec![0; 9_000], 0);
    let sent = self::data();
    while data.len() < BYTES {
        // Some reads take less than a segment, so that the rest is read by the other method.
        let most = if data.len() % 3 == 0 { buffer.len() } else { 1_000 };
        if shared && data.len() % 2 == 0 {
            match stream.read_bytes(most).await.expect("the peer sends") {
                bytes if bytes.is_empty() => break,
                bytes => {
                    let is_shared = sent.as_ptr_range().contains(&bytes.as_ptr());
                    from_sender += if is_shared { bytes.len() } else { 0 };
                    data.extend_from_slice(&bytes);
                }
            }
            continue;
        }
        match stream.read(&mut buffer[..most]).await.expect("the peer sends") {
            0 => break,
            bytes => data.extend_from_slice(&buffer[..bytes]),
        }
    }
    (data, from_sender)
}

async fn transfer(
    transport: Transport,
    here: SimWorld,
    there: SimWorld,
    far: IpAddr,
    shared: bool,
) -> (Vec<u8>, usize) {
    if transport == Transport::Tcp {
        let mut config = anabranch_tcp::Config::profile("modern").expect("a profile");
        config.set("sndbuf", SEND_BUFFER).expect("a knob");
        let client = TcpHost::new(here.clone(), config.clone()).await.expect("a host");
        let server = TcpHost::new(there, config).await.expect("a host");
        let listener = server.listen(PORT, 0).expect("the port is free");
        let session = client.connect(SocketAddr::new(far, PORT)).expect("a route");
        here.spawn("send", send(session, shared)).detach();
        return receive(listener, shared).await;
    }
    let mut config = anabranch_sctp::Config::profile("rfc9260").expect("a profile");
    config.set("sndbuf", SEND_BUFFER).expect("a knob");
    let lower = |server| match (transport, server) {
        (Transport::Sctp, _) => LowerProtocol::Ip,
        (_, true) => LowerProtocol::Udp { port: 9_899 },
        (_, false) => LowerProtocol::Udp { port: 0 },
    };
    let client = SctpHost::new(here.clone(), config.clone(), lower(false), None).await.expect("a host");
    let server = SctpHost::new(there, config, lower(true), None).await.expect("a host");
    let listener = server.listen(PORT).expect("the port is free");
    let peer_port = if transport == Transport::Sctp { 0 } else { 9_899 };
    let session = client.connect(&[SocketAddr::new(far, peer_port)], PORT).expect("a route");
    here.spawn("send", send(session, shared)).detach();
    receive(listener, shared).await
}

/// `offload` says whether network interfaces write checksums, and whether payload is shared.
fn run(
    transport: Transport,
    seed: u64,
    link: &str,
    v6: bool,
    (offload, shared): (bool, bool),
    watched: [bool; 3],
) -> Seen {
    let network = Network::new(seed);
    let [near, far]: [IpAddr; 2] = if v6 { ["fd00::1", "fd00::2"] } else { ["10.0.0.1", "10.0.1.2"] }
        .map(|text| text.parse().expect("an address"));
    let hosts = [network.host("client", &[near]), network.host("server", &[far])];
    let link_id = network.link(hosts[0], hosts[1], &LinkSpec::parse(link).expect("a link")).expect("a link");
    for (host, is_captured) in hosts.into_iter().zip(watched) {
        network.set_checksum_offload(host, offload);
        if is_captured {
            network.capture(host);
        }
    }
    if watched[2] {
        network.audit(false);
    }
    let (here, there) = (network.world(hosts[0]), network.world(hosts[1]));
    let end = Instant::ZERO + Duration::from_secs(600);
    let (received, from_sender) =
        network.run(transfer(transport, here, there, far, shared), end).expect_done();
    assert!(offload && shared || from_sender == 0, "only offloading interfaces share payload");
    let is_simple = link == LINKS[0] && transport != Transport::SctpOverUdp && !v6;
    if is_simple && offload && shared && watched == [false; 3] {
        assert!(from_sender > 10_000, "{transport:?}: {from_sender} of {BYTES} bytes are shared");
    }
    let captures = hosts.map(|host| network.finish_capture(host).expect("in memory")).to_vec();
    let counters = format!(
        "{:?} {:?}",
        [Direction::Up, Direction::Down].map(|direction| network.link_counters(link_id, direction)),
        hosts.map(|host| network.host_counters(host)),
    );
    Seen { end: network.now(), received, digest: network.digest(), captures, counters }
}

const LINKS: [&str; 4] = [
    "rate=20mbit,rtt=30ms,loss=1%",
    "rate=20mbit,rtt=30ms,corrupt=2%,duplicate=2%",
    "rate=10mbit,rtt=20ms,reorder=2%/5ms,queue=20p",
    "rate=10mbit,rtt=20ms,mtu=900",
];

#[test]
fn runs_with_and_without_offloaded_checksums_and_shared_payload_are_the_same() {
    for transport in [Transport::Tcp, Transport::Sctp, Transport::SctpOverUdp] {
        for (seed, link) in (1..).zip(LINKS) {
            for v6 in [false, true] {
                if v6 && link.contains("mtu") {
                    // Links of IPv6 carry at least 1280 bytes.
                    continue;
                }
                // Nobody looks, one end captures, or both ends capture and a digest covers every packet.
                for watched in [[false; 3], [false, true, false], [true; 3]] {
                    let plain = run(transport, seed, link, v6, (false, false), watched);
                    assert!(plain.received.len() == BYTES, "{transport:?} {link}: all bytes arrive");
                    for how in [(true, false), (false, true), (true, true)] {
                        let seen = run(transport, seed, link, v6, how, watched);
                        assert!(
                            plain == seen,
                            "{transport:?} {link} v6 {v6} {how:?} {watched:?}: {}\n{}",
                            plain.counters,
                            seen.counters
                        );
                    }
                }
            }
        }
    }
}

/// Corruption is detected although no checksum was computed when the packet was sent.
#[test]
fn receivers_drop_corrupted_packets_whose_checksums_were_offloaded() {
    for transport in [Transport::Tcp, Transport::Sctp, Transport::SctpOverUdp] {
        let seen = run(transport, 3, "rate=20mbit,rtt=10ms,corrupt=5%", false, (true, true), [false; 3]);
        assert!(seen.received.iter().enumerate().all(|(at, byte)| *byte == (at * 7 % 251) as u8));
    }
}

/// A program that verifies checksums itself gets packets that have them.
#[test]
fn a_socket_without_offload_receives_packets_with_checksums() {
    let network = Network::new(1);
    let [near, far]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
    let hosts = [network.host("client", &[near]), network.host("server", &[far])];
    network.link(hosts[0], hosts[1], &LinkSpec::parse("delay=1ms").expect("a link")).expect("a link");
    let (here, there) = (network.world(hosts[0]), network.world(hosts[1]));
    let program = async {
        let socket = there.bind(Local::Ip { protocol: ip::protocol::TCP }).await.expect("a socket");
        assert!(socket.offloads_checksums());
        let config = anabranch_tcp::Config::profile("modern").expect("a profile");
        let client = TcpHost::new(here, config).await.expect("a host");
        let _session = client.connect(SocketAddr::new(far, PORT)).expect("a route");
        let mut batch = RecvBatch::new(1);
        poll_fn(|cx| socket.poll_recv(cx, &mut batch)).await.expect("a packet");
        assert!(!batch.intact && tcp::is_intact(batch.bytes(), near, far));
    };
    network.run(program, Instant::ZERO + Duration::from_secs(1)).expect_done();
}
