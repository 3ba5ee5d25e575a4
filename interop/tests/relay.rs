//! Tests the UDP relay that stands between an HTTP/3 client and server.

use anabranch_interop::quic::relay::{Impairments, MOST_MOVES, Relay};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

const COUNT: u8 = 200;

/// Sends numbered datagrams through a relay to an echo server. Returns the datagrams that came back, the addresses from
/// which the server received them, and the numbers of lost and of damaged datagrams.
fn run(name: &str, impairments: Impairments, seed: u64) -> (Vec<Vec<u8>>, BTreeSet<SocketAddr>, u64, u64) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    }
    let relay =
        Relay::start(server.local_addr().expect("bound"), impairments, seed, &folder).expect("a relay");
    let echo = std::thread::spawn(move || {
        let mut addresses = BTreeSet::new();
        let mut room = [0; 100];
        while let Ok((length, from)) = server.recv_from(&mut room) {
            addresses.insert(from);
            server.send_to(&room[..length], from).expect("sent");
            // The client repeats the last number, because the relay may lose it.
            if room[0] == COUNT {
                break;
            }
        }
        addresses
    });
    let mut back = Vec::new();
    let mut room = [0; 100];
    for number in 0..COUNT {
        client.send_to(&[number; 10], relay.address()).expect("sent");
    }
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    while let Ok((length, _)) = client.recv_from(&mut room) {
        back.push(room[..length].to_vec());
    }
    for _ in 0..20 {
        client.send_to(&[COUNT; 10], relay.address()).expect("sent");
    }
    let addresses = echo.join().expect("the server");
    let seen = relay.finish();
    (back, addresses, seen.lost, seen.damaged)
}

#[test]
fn one_seed_is_one_luck() {
    let impairments = Impairments { lost_ppm: 200_000, queue: 1000, ..Impairments::FAIR };
    let [(first, ..), (again, ..), (other, ..)] =
        [3, 3, 4].map(|seed| run(&format!("loss{seed}"), impairments, seed));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!((80..160).contains(&first.len()), "{} of {COUNT} came back, 64 % of them should", first.len());
}

#[test]
fn a_changed_datagram_arrives_changed() {
    let impairments = Impairments { damaged_ppm: 100_000, queue: 1000, ..Impairments::FAIR };
    let (back, _, lost, damaged) = run("damaged", impairments, 1);
    assert_eq!((back.len(), lost), (usize::from(COUNT), 0));
    let changed = back.iter().filter(|bytes| bytes.iter().any(|byte| *byte != bytes[0])).count();
    assert!(damaged > 10 && changed > 10 && changed as u64 <= damaged, "{changed} of {damaged}");
}

#[test]
fn a_client_is_moved_to_other_ports_and_addresses() {
    let impairments =
        Impairments { rebind_after: Some(50), rebind_address: true, queue: 1000, ..Impairments::FAIR };
    let (_, addresses, ..) = run("moved", impairments, 1);
    let hosts: BTreeSet<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
    // The first address, and one for each move.
    let all = 1 + usize::try_from(MOST_MOVES).expect("small");
    assert_eq!((addresses.len(), hosts.len()), (all, all), "{addresses:?}");
}
