//! Tests a layer between a transport and the network. The layer seals outgoing packets and opens incoming packets.
//! Neither the transport nor the world (which provides the sockets) needs to know of the layer.
//!
//! The cipher is a toy (an XOR with a stream, and a tag), because the tests are about the API: one `DatagramSocket`
//! wraps another. Some tests run in virtual time, and one runs in real time on the loopback interface.

#![cfg(target_os = "linux")]

use anabranch_base::{Instant, RecvBatch, Rng, SendBatch, time::Duration};
use anabranch_link::LinkSpec;
use anabranch_sim::Network;
use anabranch_transport::sctp::{Config, SctpConnector, SctpHost, SctpServer};
use anabranch_transport::{
    AnyConnector, AnyListener, CloseReason, Connector, Host, Listener, Session, Stream,
};
use anabranch_world::os::{self, OsWorld};
use anabranch_world::{DatagramSocket, Detach, Local, World};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};

const TAG: usize = 8;
const SECRET: &[u8] = b"nobody on the way is to read this sentence";

/// A socket that wraps another socket. It seals (encrypts) outgoing packets and opens incoming packets.
struct Sealed<D> {
    inner: D,
    key: u64,
    out: RefCell<SendBatch>,
    received: RefCell<RecvBatch>,
}

impl<D: DatagramSocket> Sealed<D> {
    fn new(inner: D, key: u64) -> Self {
        let segments = inner.max_segments();
        let (out, received) =
            (RefCell::new(SendBatch::new(segments)), RefCell::new(RecvBatch::new(segments)));
        Self { inner, key, out, received }
    }

    /// Encrypts a packet, or decrypts an encrypted packet.
    fn xor_keystream(&self, packet: &[u8]) -> Vec<u8> {
        let mut stream = Rng::new(self.key);
        packet.iter().map(|byte| byte ^ stream.below(256) as u8).collect()
    }

    fn tag(&self, packet: &[u8]) -> [u8; TAG] {
        let mix = |tag: u64, byte: &u8| (tag ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        packet.iter().fold(self.key, mix).to_be_bytes()
    }
}

impl<D: DatagramSocket> DatagramSocket for Sealed<D> {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        let mut out = self.out.borrow_mut();
        out.clear();
        (out.source, out.target, out.ecn) = (batch.source, batch.target, batch.ecn);
        (out.may_fragment, out.first_tag, out.lane) = (batch.may_fragment, batch.first_tag, batch.lane);
        for packet in batch.segments() {
            let sealed = self.xor_keystream(packet);
            out.push_with(|buffer| {
                buffer.extend_from_slice(&sealed);
                buffer.extend_from_slice(&self.tag(&sealed));
            });
        }
        let sent = self.inner.poll_send(cx, &mut out);
        if matches!(sent, Poll::Ready(Ok(()))) {
            batch.clear();
        }
        sent
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let mut received = self.received.borrow_mut();
        loop {
            received.clear();
            match self.inner.poll_recv(cx, &mut received) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            (batch.source, batch.target, batch.ecn) = (received.source, received.target, received.ecn);
            (batch.icmp, batch.first_tag) = (received.icmp, received.first_tag);
            for packet in received.segments() {
                if received.icmp.is_some() {
                    // An ICMP message quotes only the beginning of one of our packets, so the authentication tag at
                    // the end of the packet cannot be checked.
                    batch.push(&self.xor_keystream(packet));
                } else if let Some((sealed, tag)) = packet.split_last_chunk::<TAG>()
                    && self.tag(sealed) == *tag
                    && !sealed.is_empty()
                {
                    batch.push(&self.xor_keystream(sealed));
                }
            }
            if !batch.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.inner.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        self.inner.mtu(source) - TAG as u32
    }

    fn max_segments(&self) -> usize {
        self.inner.max_segments()
    }
}

/// Creates a host that runs SCTP in UDP. If `key` is given, a layer between SCTP and the UDP socket seals the packets
/// with this key.
async fn host<W: World>(world: &W, key: Option<u64>) -> SctpHost<W> {
    let socket = world.bind(Local::Udp { port: 0 }).await.expect("a socket");
    let config = Config::profile("modern").expect("a profile");
    match key {
        Some(key) => SctpHost::with_socket(world.clone(), config, Sealed::new(socket, key)),
        None => SctpHost::with_socket(world.clone(), config, socket),
    }
}

/// The client sends a hundred copies of `SECRET` on each of three streams. The server echoes them. Returns the number
/// of bytes that the client received.
async fn talk<W: World>(client: W, server: W, keys: [Option<u64>; 2]) -> Result<usize, CloseReason> {
    let (near, far) = (host(&client, keys[0]).await, host(&server, keys[1]).await);
    let addresses = far.inspect(|engine| engine.addresses().to_vec());
    let servers = vec![SctpServer { addresses, port: 7 }];
    // The session uses the type-erased listener and connector, so the test also covers these wrappers.
    let listener: AnyListener = Host::listen(&far, 7, 0).expect("listening");
    let connector = AnyConnector::new(SctpConnector::new(near.clone(), servers));
    let server_world = server.clone();
    server.spawn("echo", echo(server_world, listener)).detach();
    let session = connector.connect(0).expect("begun");
    session.established().await?;
    let mut got = 0;
    for number in [0, 1, 2] {
        let mut stream = session.open(number).expect("a stream");
        let secret = SECRET.repeat(100);
        stream.write_all(&secret).await?;
        let (mut echoed, mut buffer) = (Vec::new(), [0; 4096]);
        while echoed.len() < secret.len() {
            let read = stream.read(&mut buffer).await?;
            echoed.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(echoed, secret);
        got += echoed.len();
    }
    session.close();
    near.wait_idle().await;
    Ok(got)
}

async fn echo<W: World>(world: W, mut listener: AnyListener) {
    while let Ok(session) = listener.accept().await {
        let server_world = world.clone();
        let serve = async move {
            while let Ok(mut stream) = session.accept().await {
                let each = async move {
                    let mut buffer = [0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                        if stream.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                };
                server_world.spawn("stream", each).detach();
            }
        };
        world.spawn("session", serve).detach();
    }
}

/// Runs the client and the server in virtual time, with loss. Returns the client's result. Also returns whether the
/// secret text was readable in the captured packets.
fn in_virtual_time(keys: [Option<u64>; 2]) -> (Option<Result<usize, CloseReason>>, bool) {
    let network = Network::new(3);
    let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let [client, server] =
        [("client", 0), ("server", 1)].map(|(name, at)| network.host(name, &[addresses[at]]));
    let link = LinkSpec::parse("rate=10mbit,rtt=40ms,loss=2%").expect("a link");
    network.link(client, server, &link).expect("linked");
    network.capture(client);
    let program = talk(network.world(client), network.world(server), keys);
    let result = network.run(program, Instant::ZERO + Duration::from_secs(600)).done();
    let seen = network.finish_capture(client).expect("captured");
    let read = seen.windows(SECRET.len()).any(|window| window == SECRET);
    (result, read)
}

#[test]
fn sctp_runs_sealed_in_virtual_time() {
    let all = SECRET.len() * 300;
    assert_eq!(in_virtual_time([Some(7), Some(7)]), (Some(Ok(all)), false));
    // Without encryption, the secret text must be visible in the captured packets.
    assert_eq!(in_virtual_time([None, None]), (Some(Ok(all)), true));
}

#[test]
fn packets_sealed_with_another_key_are_dropped() {
    for keys in [[Some(7), Some(8)], [Some(7), None], [None, Some(7)]] {
        let (keys_seen, _) = in_virtual_time(keys);
        assert_eq!(keys_seen, Some(Err(CloseReason::TimedOut(String::new()))), "{keys:?}");
    }
}

#[test]
fn sctp_runs_sealed_on_the_loopback_interface() {
    let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let options = os::Options { addresses, seed: Some(1), ..os::Options::default() };
    let result = os::run(options, async |world: OsWorld| {
        let talk = talk(world.clone(), world.clone(), [Some(9), Some(9)]);
        world.timeout(Duration::from_secs(60), talk).await.expect("something comes within a minute")
    });
    assert_eq!(result.expect("a world"), Ok(SECRET.len() * 300));
}
