//! Several worlds behind one UDP port or one IP protocol. A filter in the kernel selects the world whose socket
//! receives a packet. If the packet belongs to another world, the receiving world passes the packet on.
//!
//! Raw sockets need root. Each test has its own protocol number, because otherwise all tests would receive all
//! packets.

#![cfg(target_os = "linux")]

use anabranch_base::time::Duration;
use anabranch_base::{Icmp, RecvBatch, SendBatch};
use anabranch_world::os::{self, Options, OsSocket, OsWorld, ReusePortSocket, share_raw, share_udp};
use anabranch_world::steering::Steering;
use anabranch_world::{DatagramSocket, Local, Timer, World};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::task::Poll;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const HERE6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const COUNT: u32 = 3;

/// Steers packets and ICMP reports by their verification tag. If `pinned_source` is an address, all packets from this
/// address belong to the world with index 2.
#[derive(Debug)]
struct ByTag {
    pinned_source: Option<IpAddr>,
}

impl Steering for ByTag {
    fn owner(&self, source: IpAddr, packet: &[u8]) -> Option<u32> {
        let tag = u32::from_be_bytes(packet.get(4..8)?.try_into().ok()?);
        if self.pinned_source == Some(source) { Some(2) } else { (tag != 0).then_some(tag % COUNT) }
    }

    fn owner_of_report(&self, _: &Icmp, quoted: &[u8]) -> Option<u32> {
        Some(tag(quoted)).filter(|&tag| tag != 0).map(|tag| tag % COUNT)
    }
}

/// Returns a packet with a common header (ports, tag, checksum) and the beginning of an INIT.
fn packet(tag: u32, initiate_tag: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size.max(20)];
    bytes[4..8].copy_from_slice(&tag.to_be_bytes());
    bytes[16..20].copy_from_slice(&initiate_tag.to_be_bytes());
    bytes
}

fn tag(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[4..8].try_into().expect("four bytes"))
}

fn sockets_for_shards(pinned_source: Option<IpAddr>) -> Vec<ReusePortSocket> {
    share_udp(&[HERE], 0, COUNT as usize, Arc::new(ByTag { pinned_source })).expect("a port")
}

/// Runs a program on one thread, in an [`OsWorld`] that takes the sockets of all shards.
fn on<T>(shard_sockets: Vec<ReusePortSocket>, program: impl AsyncFnOnce(OsWorld, Vec<OsSocket>) -> T) -> T {
    on_ip(HERE, shard_sockets, program)
}

/// Runs a program at address `here` with a single world that takes the sockets of all shards.
fn on_ip<T>(
    here: IpAddr,
    shard_sockets: Vec<ReusePortSocket>,
    program: impl AsyncFnOnce(OsWorld, Vec<OsSocket>) -> T,
) -> T {
    let options = Options { addresses: vec![here], seed: Some(1), ..Options::default() };
    os::run(options, async |world| {
        let sockets = shard_sockets
            .into_iter()
            .map(|shard_socket| world.take_shared_socket(shard_socket).expect("a socket"))
            .collect();
        program(world, sockets).await
    })
    .expect("a world")
}

/// Receives from all `sockets` until `count` packets have arrived. Returns each packet with the index of its socket.
async fn receive(world: &OsWorld, sockets: &[OsSocket], count: usize) -> Vec<(u32, Vec<u8>)> {
    let mut got = Vec::new();
    let mut batch = RecvBatch::new(64);
    let mut timer = world.timer();
    timer.set(Some(world.now() + Duration::from_secs(30)));
    poll_fn(|cx| {
        for (socket, number) in sockets.iter().zip(0..) {
            while socket.poll_recv(cx, &mut batch).map(|got| got.expect("received")).is_ready() {
                got.extend(batch.segments().map(|packet| (number, packet.to_vec())));
                batch.clear();
            }
        }
        if got.len() >= count {
            return Poll::Ready(());
        }
        timer.poll(cx).map(|()| panic!("{} of {count} have come", got.len()))
    })
    .await;
    got
}

/// Checks that no further packet arrives.
async fn assert_quiet(world: &OsWorld, sockets: &[OsSocket]) {
    let mut batch = RecvBatch::new(64);
    let mut timer = world.timer();
    timer.set(Some(world.now() + Duration::from_millis(100)));
    poll_fn(|cx| {
        for (number, socket) in sockets.iter().enumerate() {
            assert!(socket.poll_recv(cx, &mut batch).is_pending(), "{number}: {batch:?}");
        }
        timer.poll(cx)
    })
    .await;
}

/// Returns the sockets of all shards for an IP protocol. Returns `None` if the host does not permit raw sockets or
/// lacks the IP version.
fn raw_shard_sockets(
    here: IpAddr,
    protocol: u8,
    pinned_source: Option<IpAddr>,
) -> Option<Vec<ReusePortSocket>> {
    if UdpSocket::bind((here, 0)).is_err() {
        return None;
    }
    match share_raw(&[here], protocol, COUNT as usize, Arc::new(ByTag { pinned_source })) {
        Ok(shard_sockets) => Some(shard_sockets),
        Err(why) => {
            assert_eq!(why.kind(), io::ErrorKind::PermissionDenied);
            println!("not tested here: {why}");
            None
        }
    }
}

/// Returns a function that sends packets of a protocol from an address; with protocol 255 the packets include their IP
/// header.
fn raw_sender(from: IpAddr, protocol: u8) -> impl Fn(&[u8], IpAddr) {
    let domain = Domain::for_address(SocketAddr::new(from, 0));
    let socket =
        Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol)))).expect("permitted");
    socket.bind(&SocketAddr::new(from, 0).into()).expect("ours");
    move |packet, to| {
        let sent = socket.send_to(packet, &SocketAddr::new(to, 0).into()).expect("sent");
        assert_eq!(sent, packet.len());
    }
}

/// Returns an IPv4 packet from loopback to loopback. The kernel fills in the length and the checksum.
fn v4(protocol: u8, options: &[u8], fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45 + options.len() as u8 / 4, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0];
    bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
    bytes.extend([127, 0, 0, 1, 127, 0, 0, 1]);
    [&bytes, options, payload].concat()
}

/// RFC 9260 §6.4, RFC 6951 §5.4: packets are steered by tag, whatever the peer's address and port.
#[test]
fn each_shard_receives_its_tags_and_a_share_of_the_inits() {
    let shard_sockets = sockets_for_shards(None);
    let (port, group) = (shard_sockets[0].port(), shard_sockets[0].group());
    on(shard_sockets, async |world, sockets| {
        let senders =
            ["127.0.0.1:0", "127.0.0.1:0", "127.0.0.2:0"].map(|at| UdpSocket::bind(at).expect("one"));
        let to = SocketAddr::new(HERE, port);
        for sender in &senders {
            for n in 0..30 {
                sender.send_to(&packet(0x8000_0000 + n, 0, 100), to).expect("sent");
                sender.send_to(&packet(0, 0x4000_0000 + n, 100), to).expect("sent");
            }
        }
        let got = receive(&world, &sockets, 180).await;
        assert_eq!(got.len(), 180);
        for (number, packet) in &got {
            let initiate = u32::from_be_bytes(packet[16..20].try_into().expect("four bytes"));
            assert_eq!(*number, if tag(packet) == 0 { initiate } else { tag(packet) } % COUNT);
        }
        assert_eq!((group.forwarded(), group.lost()), (0, 0));
    });
}

#[test]
fn a_train_of_several_associations_is_taken_apart() {
    let shard_sockets = sockets_for_shards(None);
    let (port, group) = (shard_sockets[0].port(), shard_sockets[0].group());
    on(shard_sockets, async |world, sockets| {
        let near = world.bind(Local::Udp { port: 0 }).await.expect("a socket");
        let mut batch = SendBatch::new(near.max_segments());
        for n in 1..=8 {
            batch.push(&packet(n, 0, if n == 8 { 60 } else { 200 }));
        }
        (batch.source, batch.target) = (near.local()[0], SocketAddr::new(HERE, port));
        poll_fn(|cx| near.poll_send(cx, &mut batch)).await.expect("sent");
        let mut got = receive(&world, &sockets, 8).await;
        got.sort_by_key(|(_, packet)| tag(packet));
        let found: Vec<_> = got.iter().map(|(number, packet)| (*number, tag(packet), packet.len())).collect();
        let expected: Vec<_> = (1..=8).map(|n| (n % COUNT, n, if n == 8 { 60 } else { 200 })).collect();
        assert_eq!(found, expected);
        // The packets may have arrived as one train or one by one. A whole train arrives at one socket, which forwards
        // five packets to the sockets of other shards. Packets that arrive one by one are not forwarded.
        assert!([0, 5].contains(&group.forwarded()), "{}", group.forwarded());
        assert_eq!(group.lost(), 0);
    });
}

#[test]
fn packets_steered_by_address_are_forwarded() {
    let other = IpAddr::from([127, 0, 0, 2]);
    let shard_sockets = sockets_for_shards(Some(other));
    let (port, group) = (shard_sockets[0].port(), shard_sockets[0].group());
    on(shard_sockets, async |world, sockets| {
        let sender = UdpSocket::bind((other, 0)).expect("a socket");
        for n in 0..30 {
            sender.send_to(&packet(0, n, 100), (HERE, port)).expect("sent");
        }
        let got = receive(&world, &sockets, 30).await;
        assert!(got.iter().all(|(number, _)| *number == 2));
        assert_eq!(group.forwarded(), 20);
    });
}

#[test]
fn a_port_that_is_shared_is_in_use_all_the_same() {
    let shard_sockets = sockets_for_shards(None);
    let again = share_udp(&[HERE], shard_sockets[0].port(), 2, Arc::new(ByTag { pinned_source: None }));
    assert_eq!(again.expect_err("in use").kind(), io::ErrorKind::AddrInUse);
    assert_eq!(
        UdpSocket::bind((HERE, shard_sockets[0].port())).expect_err("in use").kind(),
        io::ErrorKind::AddrInUse
    );
    drop(shard_sockets);
    // With an empty list, the port is bound at every address. With a single shard, no steering rule is needed.
    let all = share_udp(&[], 0, 1, Arc::new(ByTag { pinned_source: None })).expect("a port");
    assert_eq!((all.len(), all[0].index()), (1, 0));
}

/// The kernel copies every packet to every raw socket. Each world, which runs one shard, must return only the packets
/// whose tag belongs to this shard. No packet may be returned twice.
#[test]
fn each_world_takes_its_share_of_a_protocol() {
    for (here, protocol) in [(HERE, 240), (HERE6, 241)] {
        let Some(shard_sockets) = raw_shard_sockets(here, protocol, None) else { continue };
        assert_eq!(shard_sockets[0].port(), 0);
        let group = shard_sockets[0].group();
        on_ip(here, shard_sockets, async |world, sockets| {
            let send = raw_sender(here, protocol);
            for n in 0..30 {
                send(&packet(0x8000_0000 + n, 0, 100), here);
                send(&packet(0, 0x4000_0000 + n, 100), here);
            }
            // The first two packets are too short for an INIT, but are delivered. The last packet is too short for a
            // tag, and is dropped.
            send(&packet(0, 0, 20)[..12], here);
            send(&packet(8, 0, 20)[..12], here);
            send(&[0; 7], here);
            let got = receive(&world, &sockets, 62).await;
            for (number, packet) in &got {
                let initiate = packet
                    .get(16..20)
                    .map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")));
                assert_eq!(*number, if tag(packet) == 0 { initiate } else { tag(packet) } % COUNT);
            }
            assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), 62);
            assert_quiet(&world, &sockets).await;
            assert_eq!((group.forwarded(), group.lost()), (0, 0));
        });
    }
}

#[test]
fn options_extension_headers_and_fragments_do_not_hide_a_tag() {
    if let Some(shard_sockets) = raw_shard_sockets(HERE, 242, None) {
        let group = shard_sockets[0].group();
        on(shard_sockets, async |world, sockets| {
            let send = raw_sender(HERE, 255);
            let rest = packet(0, 11, 200);
            send(&v4(242, &[1, 1, 1, 0], 0, &packet(10, 0, 100)), HERE);
            // The INIT is sent in two fragments, and the initiate tag is in the second fragment.
            send(&v4(242, &[], 0x2000, &rest[..16]), HERE);
            send(&v4(242, &[], 2, &rest[16..]), HERE);
            let mut got = receive(&world, &sockets, 2).await;
            got.sort();
            assert_eq!(got, [(1, packet(10, 0, 100)), (2, rest)]);
            assert_quiet(&world, &sockets).await;
            assert_eq!(group.forwarded(), 0);
        });
    }
    if let Some(shard_sockets) = raw_shard_sockets(HERE6, 243, None) {
        let group = shard_sockets[0].group();
        on_ip(HERE6, shard_sockets, async |world, sockets| {
            let send = raw_sender(HERE6, 255);
            for n in 10..13 {
                // A destination options header, filled with padding, precedes the SCTP packet.
                let payload = [&[243, 0, 1, 4, 0, 0, 0, 0], &packet(n, 0, 100)[..]].concat();
                let mut header = vec![0x60, 0, 0, 0, 0, payload.len() as u8, 60, 64];
                header.extend([Ipv6Addr::LOCALHOST.octets(), Ipv6Addr::LOCALHOST.octets()].concat());
                send(&[header, payload].concat(), HERE6);
            }
            let mut got = receive(&world, &sockets, 3).await;
            got.sort();
            assert_eq!(got, [12, 10, 11].map(|n| (n % COUNT, packet(n, 0, 100))));
            assert_quiet(&world, &sockets).await;
            assert_eq!(group.forwarded(), 0);
        });
    }
}

#[test]
fn packets_steered_by_address_are_forwarded_once() {
    let other = IpAddr::from([127, 0, 0, 2]);
    let Some(shard_sockets) = raw_shard_sockets(HERE, 244, Some(other)) else { return };
    let group = shard_sockets[0].group();
    on(shard_sockets, async |world, sockets| {
        let send = raw_sender(other, 244);
        for n in 0..30 {
            send(&packet(0, n, 100), HERE);
        }
        let got = receive(&world, &sockets, 30).await;
        assert!(got.iter().all(|(number, _)| *number == 2));
        assert_quiet(&world, &sockets).await;
        assert_eq!((group.forwarded(), group.lost()), (20, 0));
    });
}

/// RFC 9260 §10: the kernel gives an ICMP message to the raw sockets of all worlds, but only one world handles the
/// message.
#[test]
fn a_report_is_looked_at_by_one_world() {
    let Some(shard_sockets) = raw_shard_sockets(HERE, 245, None) else { return };
    let group = shard_sockets[0].group();
    on(shard_sockets, async |world, sockets| {
        let send = raw_sender(HERE, 1);
        // World 0 handles the reports that quote packets with the tags 3 and 0. Tag 3 belongs to world 0. Tag 0 belongs
        // to no world, so world 0 handles it, too.
        for quoted in [1, 2, 3, 0] {
            let mut inner = v4(245, &[], 0, &packet(quoted, 0, 28));
            let length = inner.len() as u16;
            inner[2..4].copy_from_slice(&length.to_be_bytes());
            inner[19] = 9;
            let mut bytes = [&[3, 2, 0, 0, 0, 0, 0, 0], &inner[..]].concat();
            let sum: u32 =
                bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            send(&bytes, HERE);
        }
        let got = receive(&world, &sockets, 4).await;
        let got: BTreeSet<_> = got.iter().map(|(number, quoted)| (*number, tag(quoted))).collect();
        assert_eq!(got, BTreeSet::from([(1, 1), (2, 2), (0, 3), (0, 0)]));
        assert_quiet(&world, &sockets).await;
        assert_eq!((group.forwarded(), group.lost()), (0, 0));
    });
}
