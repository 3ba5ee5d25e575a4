//! Tests a server with several threads. Whatever a peer does, its packets must reach the thread that has its
//! association, and all threads together must act as one server.
//!
//! The peers are SCTP engines of this repository, which run on sockets of the test. The test makes peers move between
//! addresses and ports, and lose their state.

#![cfg(target_os = "linux")]

use crate::engine_peer::{Link, PEERS, Peer, end_and_count, restart, serve, site, vanish};
use crate::running::{Running, anabranch, errors, noise, run, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Returns the addresses on which the server listens for SCTP.
fn sctp(server: &Running) -> Vec<SocketAddr> {
    let urls = server.urls.iter().filter_map(|url| url.strip_prefix("http+sctp://"));
    urls.map(|url| url.trim_end_matches('/').parse().expect("an address")).collect()
}

/// An association must stay on its thread when its peer uses another of its addresses (RFC 9260 §6.4), or another UDP
/// port (RFC 6951 §5.4).
#[test]
fn other_addresses_and_other_ports_lead_to_the_same_thread() {
    let site = site("threads-paths");
    let server = serve(&site, &["--threads", "3", "--listen", "sctp://127.0.0.1,127.0.0.3:0"]);
    let addresses = sctp(&server);
    assert_eq!(addresses.len(), 2);
    for seed in 0..PEERS {
        let mut peer = Peer::new(&[[127, 0, 0, 1], [127, 0, 0, 2]], seed);
        let id = peer.establish(&addresses);
        peer.assert_moves_to(id, addresses[1].ip());
        // From now on, the peer sends from another UDP port of the same address, as if a NAT on the path had lost its
        // state.
        let moved = Link::udp([127, 0, 0, 2], 0).expect("a socket");
        peer.unused_sockets.push(std::mem::replace(&mut peer.sockets[1].1, moved));
        peer.is_served(id);
        assert_eq!(peer.closed(), None);
        peer.engine.abort(peer.now(), id);
        peer.turn();
    }
    let (each, handed, lost) = end_and_count(server);
    assert_eq!((each.len(), each.iter().sum::<u64>(), handed, lost), (3, PEERS, 0, 0), "{each:?}");
    assert!(each.iter().filter(|&&n| n > 0).count() > 1, "{each:?}");
}

/// RFC 9260 §5.2.2, §5.2.4 A: a server with any number of threads must recognize a restarted peer. It starts a new
/// session with the peer, because HTTP cannot continue an incomplete exchange.
#[test]
fn a_peer_that_restarts_is_known_again() {
    let site = site("threads-restart");
    for threads in ["1", "4"] {
        let server = serve(&site, &["--threads", threads, "--listen", "sctp://127.0.0.1:0"]);
        let address = sctp(&server);
        restart(&address, |seed| Peer::new(&[[127, 0, 0, 1]], seed));
        if threads == "1" {
            assert_eq!(server.end(), 0);
        } else {
            let (_, handed, lost) = end_and_count(server);
            assert!(handed > 0 && lost == 0, "{handed} {lost}");
        }
    }
}

/// A server with a limit of one session must end the old session of a restarted peer, and give the slot to the peer.
#[test]
fn a_peer_that_restarts_needs_no_second_place() {
    let site = site("one-restart");
    let server = serve(&site, &["--connections", "1", "--listen", "sctp://127.0.0.1:0"]);
    restart(&sctp(&server), |seed| Peer::new(&[[127, 0, 0, 1]], seed));
    assert_eq!(server.end(), 0);
}

/// RFC 8831 §6.6, §8: requests in WebRTC string and binary messages must be answered with messages of the same kind.
/// WebRTC's empty messages carry no data, and messages with any other payload protocol identifier belong to other
/// applications.
#[test]
fn messages_of_webrtc_are_answered_by_their_kind() {
    let site = site("webrtc");
    let server = serve(&site, &["--listen", "sctp://127.0.0.1:0"]);
    let mut peer = Peer::new(&[[127, 0, 0, 1]], 1);
    let id = peer.establish(&sctp(&server));
    for (requested, answered) in [(51, 51), (53, 53), (63, 63), (53, 53), (0, 63), (52, 53), (54, 51)] {
        peer.send(id, 56, &[0]);
        peer.send(id, 57, &[0]);
        peer.send(id, 50, b"another application");
        peer.is_served_as(id, requested, answered);
    }
    assert_eq!(peer.closed(), None);
    peer.engine.abort(peer.now(), id);
    peer.turn();
    assert_eq!(server.end(), 0);
}

/// RFC 9260 §8.5.1 B: a client that has lost the association sends an ABORT with the T bit. This ABORT carries the tag
/// that the client chose. Only the tag that the server chose identifies the server's thread. The ABORT must still end
/// the association.
#[test]
fn a_peer_that_knows_nothing_any_more_ends_the_association() {
    let site = site("threads-abort");
    for threads in ["1", "4"] {
        let server = serve(&site, &["--threads", threads, "--listen", "sctp://127.0.0.1:0"]);
        let address = sctp(&server);
        vanish(&address, |seed| Peer::new(&[[127, 0, 0, 1]], seed));
        assert_eq!(server.end(), 0);
    }
}

#[test]
fn many_associations_are_spread_and_all_served() {
    let site = site("threads-load");
    let listen = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
    let server = serve(&site, &[&["--threads", "2"][..], &listen].concat());
    for scheme in ["http", "http+sctp"] {
        let url = format!("{}1k", server.url(scheme));
        let words =
            ["load", &url, "-c", "40", "--sessions", "200", "--objects-per-session", "3", "--json", "-"];
        let output = run(anabranch().args(words));
        let text = String::from_utf8(output.stdout).expect("text");
        let result: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(result["replies"]["status"]["2xx"], 600, "{text}");
    }
    let (each, _, lost) = end_and_count(server);
    assert_eq!((each.iter().sum::<u64>(), lost), (200, 0), "{each:?}");
    assert!(each.iter().all(|&n| n > 50), "{each:?}");
}

#[test]
fn the_end_finishes_what_is_in_flight_in_every_thread() {
    let site = site("threads-end");
    let listen = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
    let server = serve(&site, &[&["--threads", "3"][..], &listen].concat());
    // Each client stops reading in the middle of its response, so that the response is certainly in flight.
    let mut streams: Vec<TcpStream> = (0..6).map(|_| server.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
        stream.read_exact(&mut [0; 1000]).expect("the beginning");
    }
    let address = server.tcp();
    let readers: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            thread::spawn(move || {
                // The server is shutting down, so it must accept no more connections.
                wait_until("nobody listens", || TcpStream::connect(address).is_err());
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).expect("the rest");
                rest.len() > 7_990_000 && noise(8_000_000).ends_with(&rest)
            })
        })
        .collect();
    let (each, ..) = end_and_count(server);
    assert_eq!(each, [0, 0, 0]);
    assert!(readers.into_iter().all(|reader| reader.join().expect("read")));
}

#[test]
fn limits_hold_for_all_threads_together_and_ports_exclude() {
    let site = site("threads-limits");
    let server = serve(&site, &["--threads", "4", "--connections", "5", "--listen", "tcp://127.0.0.1:0"]);
    let mut connections: Vec<TcpStream> = (0..5).map(|_| server.connect()).collect();
    for stream in &mut connections {
        stream.write_all(b"GET /1k HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
        stream.read_exact(&mut [0; 1000]).expect("served");
    }
    // All slots are taken. To serve another client, the server must close one idle connection, which may belong to any
    // thread.
    let mut more = server.connect();
    more.write_all(b"GET /1k HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    more.read_exact(&mut [0; 1000]).expect("served");
    let is_over = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a deadline");
        let (mut rest, mut piece) = (Ok(1), [0; 1000]);
        while matches!(rest, Ok(1..)) {
            rest = stream.read(&mut piece);
        }
        !rest.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert_eq!(connections.into_iter().map(is_over).filter(|over| *over).count(), 1);
    for listen in [format!("tcp://{}", server.tcp()), "sctp://127.0.0.1:0".to_owned()] {
        let other = serve(&site, &["--listen", "sctp://127.0.0.1:0", "--threads", "2"]);
        let taken = if listen.starts_with("tcp") { listen } else { format!("sctp://{}", sctp(&other)[0]) };
        for threads in ["1", "2"] {
            let arguments = ["serve", site.text(), "--threads", threads, "--listen", &taken];
            let output = run(anabranch().args(arguments).stdin(Stdio::null()));
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!((output.status.code(), stderr.lines().count()), (Some(3), 1), "{stderr}");
            assert!(stderr.contains("cannot listen on 127.0.0.1"), "{stderr}");
        }
    }
}

#[test]
fn a_gateway_of_several_threads_carries_either_way() {
    let site = site("threads-gateway");
    let server = serve(&site, &["--threads", "2", "--listen", "sctp://127.0.0.1:0"]);
    let origin = server.url("http+sctp").trim_end_matches('/');
    let near = Running::start(&[
        "gateway",
        "--threads",
        "2",
        "--quiet",
        "--listen",
        "tcp://127.0.0.1:0",
        "--listen",
        "sctp://127.0.0.1:0",
        "--origin",
        origin,
    ]);
    for scheme in ["http", "http+sctp"] {
        let url = format!("{}1k", near.url(scheme));
        let output = run(anabranch().args([
            "load",
            &url,
            "-c",
            "10",
            "--sessions",
            "40",
            "--objects-per-session",
            "1",
        ]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.code() == Some(0) && text.contains("replies 40 "), "{text}");
    }
    let (each, _, lost) = end_and_count(near);
    assert_eq!((each.len(), lost), (2, 0));
    assert_eq!(server.end(), 0);
}

/// A server with several threads listens on all addresses of the host. New clients, whose packets belong to no
/// association yet, must be served at each address.
#[test]
fn every_address_of_the_host_will_do() {
    let site = site("threads-all");
    let server = serve(&site, &["--threads", "2", "--listen", "sctp://*:0", "--listen", "tcp://*:0"]);
    for (scheme, address) in [("http", "127.0.0.1"), ("http+sctp", "127.0.0.1"), ("http+sctp", "[::1]")] {
        let url = server.url(scheme).trim_end_matches('/');
        let port = url.rsplit(':').next().expect("a port");
        let got = run(anabranch().args(["get", "-q", &format!("{scheme}://{address}:{port}/1k")]));
        assert!(got.stdout == noise(1000), "{scheme} {address}: {}", errors(&got));
    }
    assert_eq!(server.end(), 0);
}
