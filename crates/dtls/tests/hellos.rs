//! Tests of clients that send a ClientHello and never continue. The server must send them little, keep little memory
//! for them, and still serve other clients.

use crate::virtual_time::{ADDRESSES, LIMIT, UDP, host, identity, network, server, talk};
use anabranch_base::time::Duration;
use anabranch_base::{RecvBatch, SendBatch};
use anabranch_dtls::{Settings, Version};
use anabranch_sim::SimWorld;
use anabranch_transport::Session;
use anabranch_transport::sctp::SctpServer;
use anabranch_world::{DatagramSocket, Detach, Local, World};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};

type Socket = <SimWorld as World>::Socket;

async fn send(socket: &Socket, to: SocketAddr, bytes: &[u8]) {
    let mut batch = SendBatch::new(1);
    (batch.source, batch.target) = (socket.local()[0], to);
    batch.push(bytes);
    poll_fn(|cx| socket.poll_send(cx, &mut batch)).await.expect("sent");
}

async fn receive(socket: &Socket) -> Vec<u8> {
    let mut batch = RecvBatch::new(1);
    poll_fn(|cx| socket.poll_recv(cx, &mut batch)).await.expect("received");
    batch.bytes().to_vec()
}

/// Returns the first datagram that a client sends.
async fn hello(here: &SimWorld, there: &SimWorld, version: Version) -> Vec<u8> {
    let sink = there.bind(Local::Udp { port: 9 }).await.expect("a socket");
    let client =
        host(here, Settings { version, identity: None, trust: Some(identity().1), key_log: None }, 0).await;
    let to = SctpServer { addresses: vec![SocketAddr::new(IpAddr::from(ADDRESSES[1]), 9)], port: 7 };
    let session = client.connect_to(&to).expect("begun");
    let hello = receive(&sink).await;
    session.abort();
    hello
}

#[test]
fn a_hello_is_answered_with_at_most_three_times_its_bytes() {
    for version in [Version::Only12, Version::Only13, Version::From12] {
        let (network, nodes) = network(1, "rate=10mbit,rtt=60ms");
        let [here, there] = nodes.map(|node| network.world(node));
        let program = async move {
            let hello = hello(&here, &there, version).await;
            let _server = server(&there, Version::From12).await;
            let stranger = here.bind(Local::Udp { port: 5000 }).await.expect("a socket");
            send(&stranger, SocketAddr::new(IpAddr::from(ADDRESSES[1]), UDP), &hello).await;
            // 120 s are longer than a handshake may take, so all retransmissions of the server are counted.
            let (mut got, end) = (0, here.now() + Duration::from_secs(120));
            while let Some(datagram) = here.timeout(end - here.now(), receive(&stranger)).await {
                got += datagram.len();
            }
            (hello.len(), got)
        };
        let (said, got) = network.run(program, LIMIT).done().expect("in time");
        assert!(got > 0 && got <= 3 * said, "{version:?}: {got} bytes for {said}");
    }
}

/// RFC 9147 §5.1: a hello in two fragments is answered with a request for a cookie, which is not retransmitted on a
/// timer. If a fragment is repeated, the request may be sent again. The server must send at most three times as many
/// bytes as it has received.
#[test]
fn a_hello_in_pieces_is_answered_with_at_most_three_times_its_bytes() {
    for (version, again) in
        [Version::Only12, Version::Only13, Version::From12].into_iter().flat_map(|v| [(v, 0), (v, 20)])
    {
        let (network, nodes) = network(1, "rate=10mbit,rtt=60ms");
        let [here, there] = nodes.map(|node| network.world(node));
        let program = async move {
            let hello = hello(&here, &there, version).await;
            let _server = server(&there, Version::From12).await;
            let stranger = here.bind(Local::Udp { port: 5000 }).await.expect("a socket");
            let to = SocketAddr::new(IpAddr::from(ADDRESSES[1]), UDP);
            let (mut said, mut got) = (0, Vec::new());
            let message = &hello[25..];
            let (first, rest) = message.split_at(message.len() - 8);
            let pieces = [(0, first), (first.len(), rest)];
            for (number, (offset, piece)) in pieces.into_iter().chain(vec![pieces[1]; again]).enumerate() {
                // RFC 6347 §4.2.2: each record has its own number, and each fragment its offset in the message.
                let mut record = hello[..25].to_vec();
                record[10] = number as u8;
                record[11..13].copy_from_slice(&(12 + piece.len() as u16).to_be_bytes());
                record[20..22].copy_from_slice(&(offset as u16).to_be_bytes());
                record[23..25].copy_from_slice(&(piece.len() as u16).to_be_bytes());
                record.extend(piece);
                send(&stranger, to, &record).await;
                said += record.len();
                here.sleep_until(here.now() + Duration::from_millis(100)).await;
            }
            let end = here.now() + Duration::from_secs(120);
            while let Some(datagram) = here.timeout(end - here.now(), receive(&stranger)).await {
                got.push(datagram.len());
            }
            (said, got)
        };
        let (said, got) = network.run(program, LIMIT).done().expect("in time");
        assert!(!got.is_empty() && (again > 0 || got.len() == 1), "{version:?}: {got:?}");
        assert!(got.iter().sum::<usize>() <= 3 * said, "{version:?}: {got:?} for {said}");
    }
}

/// A thousand hellos arrive per second from different ports, and their senders never continue. Nevertheless, another
/// client connects without additional round trips, at an RTT of 60 ms and of 500 ms.
#[test]
fn a_client_connects_while_hellos_flood_the_server() {
    for (version, trips) in [(Version::Only12, 5), (Version::Only13, 4)] {
        for rtt in [60, 500] {
            let (network, nodes) = network(1, &format!("rate=100mbit,rtt={rtt}ms"));
            let [here, there] = nodes.map(|node| network.world(node));
            let program = async move {
                let hello = hello(&here, &there, version).await;
                let _server = server(&there, Version::From12).await;
                let flooding = here.clone();
                let flood = async move {
                    for port in 10_000..16_000 {
                        let socket = flooding.bind(Local::Udp { port }).await.expect("a socket");
                        send(&socket, SocketAddr::new(IpAddr::from(ADDRESSES[1]), UDP), &hello).await;
                        flooding.sleep_until(flooding.now() + Duration::from_millis(1)).await;
                    }
                };
                here.spawn("flood", flood).detach();
                here.sleep_until(here.now() + Duration::from_millis(1_500)).await;
                let began = here.now();
                let settings = Settings { version, identity: None, trust: Some(identity().1), key_log: None };
                let client = host(&here, settings, 0).await;
                let [established, _] = talk(&here, &client, 1).await.expect("met");
                established - began
            };
            let took = network.run(program, LIMIT).done().expect("in time").as_millis();
            assert!((rtt * trips..rtt * trips + 40).contains(&took), "{version:?}, {rtt} ms: {took} ms");
        }
    }
}

/// The server keeps no state for a hello: a repeated hello gets an identical answer, and no answer is retransmitted.
#[test]
fn a_hello_leaves_nothing_behind() {
    for version in [Version::Only12, Version::Only13, Version::From12] {
        let (network, nodes) = network(1, "rate=100mbit,rtt=60ms");
        let [here, there] = nodes.map(|node| network.world(node));
        let program = async move {
            let hello = hello(&here, &there, version).await;
            let _server = server(&there, Version::From12).await;
            let to = SocketAddr::new(IpAddr::from(ADDRESSES[1]), UDP);
            let stranger = here.bind(Local::Udp { port: 5000 }).await.expect("a socket");
            for _ in 0..100 {
                send(&stranger, to, &hello).await;
            }
            let (mut got, end) = (Vec::new(), here.now() + Duration::from_secs(20));
            while let Some(datagram) = here.timeout(end - here.now(), receive(&stranger)).await {
                got.push(datagram);
            }
            // A client at another port gets another cookie.
            let other = here.bind(Local::Udp { port: 5001 }).await.expect("a socket");
            send(&other, to, &hello).await;
            (got, receive(&other).await)
        };
        let (got, other) = network.run(program, LIMIT).done().expect("in time");
        assert_eq!(got.len(), 100, "{version:?}");
        assert!(got.iter().all(|answer| *answer == got[0]) && got[0] != other, "{version:?}");
    }
}

/// 40 ports send 1,500 hellos (changed, truncated or extended) and random datagrams. After that, the server accepts a
/// client.
#[test]
fn a_server_outlives_whatever_is_sent_to_it() {
    for seed in 0..4 {
        let (network, nodes) = network(seed, "rate=100mbit,rtt=20ms");
        let [here, there] = nodes.map(|node| network.world(node));
        let program = async move {
            let versions = [Version::Only12, Version::Only13, Version::From12];
            let mut hellos = Vec::new();
            for version in versions {
                hellos.push(hello(&here, &there, version).await);
            }
            let _server = server(&there, Version::From12).await;
            let to = SocketAddr::new(IpAddr::from(ADDRESSES[1]), UDP);
            let mut rng = here.rng("garbage");
            for port in 0..1_500 {
                let socket = here.bind(Local::Udp { port: 10_000 + port % 40 }).await.expect("a socket");
                let mut datagram = hellos[rng.below(3) as usize].clone();
                match rng.below(4) {
                    0 => datagram = vec![0; 1 + rng.below(1_400) as usize],
                    1 => datagram.truncate(1 + rng.below(datagram.len() as u64) as usize),
                    2 => datagram.extend([0; 40]),
                    _ => {}
                }
                for _ in 0..rng.below(8) {
                    let at = rng.below(datagram.len() as u64) as usize;
                    datagram[at] = rng.below(256) as u8;
                }
                send(&socket, to, &datagram).await;
                here.sleep_until(here.now() + Duration::from_millis(1)).await;
            }
            let settings = Settings {
                version: Version::From12,
                identity: None,
                trust: Some(identity().1),
                key_log: None,
            };
            talk(&here, &host(&here, settings, 0).await, 1).await.expect("met");
        };
        assert!(network.run(program, LIMIT).done().is_some(), "SEED={seed}");
    }
}
