//! Several worlds behind one UDP port: the kernel gives each its own packets,
//! and what it cannot know is handed on.

#![cfg(target_os = "linux")]

use anabranch_base::time::Duration;
use anabranch_base::{Batch, Icmp};
use anabranch_world::os::{self, Options, OsSocket, OsWorld, Seat, share_udp};
use anabranch_world::steering::Steering;
use anabranch_world::{Datagrams, Local, Timer, World};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::task::Poll;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const COUNT: u32 = 3;

/// Packets are for whom their tag says, and those of one source for number 2.
#[derive(Debug)]
struct ByTag {
    found: Option<IpAddr>,
}

impl Steering for ByTag {
    fn owner(&self, source: IpAddr, packet: &[u8]) -> Option<u32> {
        let tag = u32::from_be_bytes(packet.get(4..8)?.try_into().ok()?);
        if self.found == Some(source) { Some(2) } else { (tag != 0).then_some(tag % COUNT) }
    }

    fn owner_of_report(&self, _: &Icmp, _: &[u8]) -> Option<u32> {
        Some(1)
    }
}

/// Something with a common header: ports, tag, checksum; and the beginning of an INIT.
fn packet(tag: u32, initiate_tag: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size.max(20)];
    bytes[4..8].copy_from_slice(&tag.to_be_bytes());
    bytes[16..20].copy_from_slice(&initiate_tag.to_be_bytes());
    bytes
}

fn tag(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[4..8].try_into().expect("four bytes"))
}

fn seats(found: Option<IpAddr>) -> Vec<Seat> {
    share_udp(&[HERE], 0, COUNT as usize, Arc::new(ByTag { found })).expect("a port")
}

/// One world takes all the seats: what each of them gets is all that matters.
fn on<T>(seats: Vec<Seat>, program: impl AsyncFnOnce(OsWorld, Vec<OsSocket>) -> T) -> T {
    let options = Options { addresses: vec![HERE], seed: Some(1), ..Options::default() };
    os::run(options, async |world| {
        let sockets = seats.into_iter().map(|seat| world.take_seat(seat).expect("a socket")).collect();
        program(world, sockets).await
    })
    .expect("a world")
}

/// What comes to each of the sockets until `count` packets have come: number of the socket, packet.
async fn receive(world: &OsWorld, sockets: &[OsSocket], count: usize) -> Vec<(u32, Vec<u8>)> {
    let mut got = Vec::new();
    let mut batch = Batch::new(64);
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

/// RFC 9260 §6.4, RFC 6951 §5.4: whatever address and port of the peer a packet comes from.
#[test]
fn each_world_gets_what_has_its_tag_and_a_share_of_the_inits() {
    let seats = seats(None);
    let (port, group) = (seats[0].port(), seats[0].group());
    on(seats, async |world, sockets| {
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
        assert_eq!((group.handed(), group.lost()), (0, 0));
    });
}

#[test]
fn a_train_of_several_associations_is_taken_apart() {
    let seats = seats(None);
    let (port, group) = (seats[0].port(), seats[0].group());
    on(seats, async |world, sockets| {
        let near = world.bind(Local::Udp { port: 0 }).await.expect("a socket");
        let mut batch = Batch::new(near.max_segments());
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
        // As one piece it has come to a single socket, packet by packet each to its own.
        assert!([0, 5].contains(&group.handed()), "{}", group.handed());
        assert_eq!(group.lost(), 0);
    });
}

#[test]
fn what_is_known_by_its_address_is_handed_on() {
    let other = IpAddr::from([127, 0, 0, 2]);
    let seats = seats(Some(other));
    let (port, group) = (seats[0].port(), seats[0].group());
    on(seats, async |world, sockets| {
        let sender = UdpSocket::bind((other, 0)).expect("a socket");
        for n in 0..30 {
            sender.send_to(&packet(0, n, 100), (HERE, port)).expect("sent");
        }
        let got = receive(&world, &sockets, 30).await;
        assert!(got.iter().all(|(number, _)| *number == 2));
        assert_eq!(group.handed(), 20);
    });
}

#[test]
fn a_port_that_is_shared_is_in_use_all_the_same() {
    let seats = seats(None);
    let again = share_udp(&[HERE], seats[0].port(), 2, Arc::new(ByTag { found: None }));
    assert_eq!(again.expect_err("in use").kind(), io::ErrorKind::AddrInUse);
    assert_eq!(
        UdpSocket::bind((HERE, seats[0].port())).expect_err("in use").kind(),
        io::ErrorKind::AddrInUse
    );
    drop(seats);
    // On every address; and one alone needs no rule.
    let all = share_udp(&[], 0, 1, Arc::new(ByTag { found: None })).expect("a port");
    assert_eq!((all.len(), all[0].index()), (1, 0));
}
