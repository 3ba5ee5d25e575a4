//! Tests that `OsWorld` behaves as every `World` must. Also tests features that only `OsWorld` has: several addresses
//! of a host, trains of packets, ICMP, raw sockets, kernel TCP.
//!
//! All packets stay on the loopback interface. No test measures time, and every wait is bounded.

#![cfg(target_os = "linux")]

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, IcmpKind, RecvBatch, SendBatch};
use anabranch_world::kernel::{Connection, KernelTcp, ListeningSocket};
use anabranch_world::os::{self, Options, OsSocket, OsWorld};
use anabranch_world::suite::{HostPair, cases};
use anabranch_world::{DatagramSocket, Local, World};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Runs `program` with an `OsWorld` that has these addresses. Fails if the program does not end.
fn on<T>(addresses: &[IpAddr], program: impl AsyncFnOnce(OsWorld) -> T) -> T {
    let options = Options { addresses: addresses.to_vec(), seed: Some(1), ..Options::default() };
    os::run(options, async |world| {
        let done = world.timeout(Duration::from_secs(60), program(world.clone())).await;
        done.expect("nothing came in 60 seconds")
    })
    .expect("a world")
}

/// Returns whether the host has IPv6.
fn has_v6() -> bool {
    std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

#[test]
fn the_behaviour_suite_holds() {
    let mut sets = vec![vec![V4], vec![V4, IpAddr::from([127, 0, 0, 2])]];
    if has_v6() {
        sets.push(vec![V6]);
        sets.push(vec![V4, V6]);
    }
    for addresses in sets {
        for (name, case) in cases::<OsWorld>() {
            println!("{name} on {addresses:?}");
            on(&addresses, async |world| case(HostPair { near: world.clone(), far: world }).await);
        }
    }
}

async fn send(socket: &OsSocket, batch: &mut SendBatch) {
    poll_fn(|cx| socket.poll_send(cx, batch)).await.expect("sent");
}

async fn recv(socket: &OsSocket, batch: &mut RecvBatch) {
    poll_fn(|cx| socket.poll_recv(cx, batch)).await.expect("received");
}

/// RFC 6951 §5.2: a socket with several addresses receives 64 packets at its second address. They keep their order,
/// content, addresses and ECN mark.
#[test]
fn a_train_of_packets_arrives_whole_on_the_address_it_was_sent_to() {
    let other = IpAddr::from([127, 0, 0, 3]);
    on(&[V4, other], async |world| {
        let near = world.bind(Local::Udp { port: 0 }).await.expect("a port");
        let far = world.bind(Local::Udp { port: 0 }).await.expect("a port");
        let (from, to) = (near.local()[0], far.local()[1]);
        assert_eq!((from.ip(), to.ip()), (V4, other));
        let mut out = SendBatch::new(64);
        (out.source, out.target, out.ecn) = (from, to, Ecn::Ect0);
        // One system call cannot send 63 packets of 1,400 bytes and a shorter last packet.
        for number in 0..63_u8 {
            out.push(&[number; 1400]);
        }
        out.push(&[63; 700]);
        send(&near, &mut out).await;
        let mut seen = 0;
        let mut input = RecvBatch::new(1);
        while seen < 64 {
            recv(&far, &mut input).await;
            assert_eq!((input.source, input.target, input.ecn), (from, to, Ecn::Ect0));
            for segment in input.segments() {
                let size = if seen == 63 { 700 } else { 1400 };
                assert_eq!(segment, vec![seen; size], "packet {seen}");
                seen += 1;
            }
        }
    });
}

/// The kernel neither splits nor joins packets (no GSO, no GRO), and packets for five targets are flushed together. All
/// packets arrive one by one.
#[test]
fn packets_go_one_by_one_where_the_kernel_is_not_to_join_them() {
    on(&[V4], async |world| {
        let world = world.packet_by_packet();
        let near = world.bind(Local::Udp { port: 0 }).await.expect("a port");
        let mut far = Vec::new();
        for _ in 0..5 {
            far.push(world.bind(Local::Udp { port: 0 }).await.expect("a port"));
        }
        let mut out = SendBatch::new(near.max_segments());
        for round in 0..4_u8 {
            for (lane, to) in far.iter().enumerate() {
                (out.source, out.target, out.lane) = (near.local()[0], to.local()[0], lane as u32);
                out.ecn = Ecn::Ect0;
                for number in 0..3 {
                    out.push(&[3 * round + number; 1000]);
                }
                assert!(near.queue(&mut out) && out.is_empty());
                // Also queues a small packet for the same target. The flush may send the small packets of all targets
                // in one call.
                (out.source, out.target, out.lane) = (near.local()[0], to.local()[0], lane as u32);
                out.push(&[100 + round; 50]);
                assert!(near.queue(&mut out));
            }
        }
        poll_fn(|cx| near.poll_flush(cx, &mut out)).await.expect("sent");
        let mut input = RecvBatch::new(1);
        for socket in &far {
            let (mut large, mut small) = (Vec::new(), Vec::new());
            while large.len() + small.len() < 16 {
                recv(socket, &mut input).await;
                assert_eq!((input.source, input.len()), (near.local()[0], 1));
                for packet in input.segments() {
                    if packet.len() == 1000 { &mut large } else { &mut small }.push(packet[0]);
                }
            }
            assert_eq!((large, small), ((0..12).collect(), (100..104).collect()));
        }
    });
}

#[test]
fn a_closed_port_is_reported_with_the_packet_that_found_it() {
    on(&[V4], async |world| {
        let near = world.bind(Local::Udp { port: 0 }).await.expect("a port");
        let far = world.bind(Local::Udp { port: 0 }).await.expect("a port");
        let to = far.local()[0];
        drop(far);
        let mut batch = SendBatch::new(1);
        (batch.source, batch.target) = (near.local()[0], to);
        batch.push(b"is anybody there?");
        send(&near, &mut batch).await;
        let mut report = RecvBatch::new(1);
        recv(&near, &mut report).await;
        let icmp = report.icmp.expect("a report");
        assert_eq!((icmp.kind, icmp.source, icmp.target), (IcmpKind::Unreachable(3), V4, V4));
        assert_eq!(report.segments().next(), Some(&b"is anybody there?"[..]));
    });
}

#[test]
fn a_packet_above_the_interface_mtu_is_reported() {
    on(&[V4], async |world| {
        let near = world.bind(Local::Udp { port: 0 }).await.expect("a port");
        let mut batch = SendBatch::new(1);
        (batch.source, batch.target) = (near.local()[0], SocketAddr::new(V4, 9));
        batch.push(&vec![7; 65_520]);
        send(&near, &mut batch).await;
        let mut report = RecvBatch::new(1);
        recv(&near, &mut report).await;
        let icmp = report.icmp.expect("a report");
        assert!(matches!(icmp.kind, IcmpKind::TooBig(mtu) if mtu == near.mtu(V4)), "{icmp:?}");
    });
}

/// Raw packets arrive unchanged and in order. If a raw socket cannot be opened, the reason must be a missing privilege.
#[test]
fn raw_packets_go_there_and_back_where_the_host_permits() {
    for ip in if has_v6() { vec![V4, V6] } else { vec![V4] } {
        on(&[ip], async |world| {
            let near = match world.bind(Local::Ip { protocol: 253 }).await {
                Ok(socket) => socket,
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
                    return;
                }
            };
            let here = SocketAddr::new(ip, 0);
            assert_eq!(near.local(), [here]);
            // Each batch has more packets than one system call can send. Its last packet is shorter. The ECN marks of
            // the two batches differ.
            let mut batch = SendBatch::new(20);
            let mut sent = Vec::new();
            for (first, ecn) in [(0, Ecn::Ect1), (20, Ecn::Ect0)] {
                (batch.source, batch.target, batch.ecn) = (here, here, ecn);
                for number in first..first + 20_u8 {
                    let size = if number == first + 19 { 80 } else { 600 };
                    batch.push(&vec![number; size]);
                    sent.push((vec![number; size], ecn));
                }
                send(&near, &mut batch).await;
            }
            let mut batch = RecvBatch::new(near.max_segments());
            let mut received = Vec::new();
            while received.len() < sent.len() {
                recv(&near, &mut batch).await;
                assert_eq!((batch.source, batch.target), (here, here));
                received.extend(batch.segments().map(|packet| (packet.to_vec(), batch.ecn)));
            }
            assert!(received == sent, "{} packets", received.len());
        });
    }
}

#[test]
fn a_connection_of_the_kernel_carries_bytes_and_ends() {
    on(&[V4], async |world| {
        let listening = world.listen_tcp(SocketAddr::new(V4, 0), 8).expect("listening");
        let near = world.connect_tcp(listening.local()).expect("begun");
        poll_fn(|cx| near.poll_connected(cx)).await.expect("connected");
        let far = poll_fn(|cx| listening.poll_accept(cx)).await.expect("accepted");
        assert_eq!((near.local(), near.remote()), (far.remote(), far.local()));
        assert_eq!(poll_fn(|cx| near.poll_write(cx, b"there")).await.expect("written"), 5);
        near.finish();
        let mut buffer = [0; 16];
        assert_eq!(poll_fn(|cx| far.poll_read(cx, &mut buffer)).await.expect("read"), 5);
        assert_eq!(poll_fn(|cx| far.poll_read(cx, &mut buffer)).await.expect("the end"), 0);
        drop(listening);
        let gone = world.connect_tcp(far.local()).expect("begun");
        let refused = poll_fn(|cx| gone.poll_connected(cx)).await.expect_err("nobody listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}
