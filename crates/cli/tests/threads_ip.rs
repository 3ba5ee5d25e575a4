//! Tests a server with several threads over `sctp-ip://`. Every raw socket of a host receives every packet, but each
//! thread must handle only its own packets, as with a UDP port.
//!
//! The tests run in network namespaces with addresses outside loopback, which needs root.

#![cfg(target_os = "linux")]

use crate::engine_peer::{PEERS, Peer, end_and_count, restart, serve, site, vanish};
use crate::running::{Running, anabranch, errors, namespace, noise, run};
use std::net::SocketAddr;

/// The addresses of the server, followed by those of peers.
const ADDRESSES: [&str; 6] = [
    "192.0.2.1/32",
    "192.0.2.2/32",
    "2001:db8::1/128",
    "198.51.100.1/32",
    "198.51.100.2/32",
    "198.51.100.3/32",
];

/// Runs a task in a namespace with these addresses.
fn inside(task: impl FnOnce() + Send) {
    let Some(namespace) = namespace(&ADDRESSES) else { return };
    namespace.run(task).expect("inside");
}

/// Returns the addresses on which the server listens. The port is 0, as engines expect for SCTP directly over IP.
fn addresses(server: &Running) -> Vec<SocketAddr> {
    let urls = server.urls.iter().filter_map(|url| url.strip_prefix("http+sctp-ip://"));
    let parse = |url: &str| url.trim_end_matches('/').parse::<SocketAddr>().expect("an address");
    urls.map(|url| SocketAddr::new(parse(url).ip(), 0)).collect()
}

/// Checks that all sessions of a load on `url` are served.
fn load(url: &str, sessions: u64) {
    let sessions_text = sessions.to_string();
    let arguments = ["load", url, "-c", "20", "--sessions", &sessions_text, "--objects-per-session", "3"];
    let output = run(anabranch().args(arguments).args(["--json", "-"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}{}", errors(&output));
    let result: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["replies"]["status"]["2xx"], sessions * 3, "{text}");
}

#[test]
fn many_associations_are_spread_and_all_served_over_either_version() {
    inside(|| {
        let site = site("threads-ip-load");
        let server = serve(&site, &["--threads", "2", "--listen", "sctp-ip://*:80"]);
        for host in ["192.0.2.1", "[2001:db8::1]"] {
            load(&format!("http+sctp-ip://{host}/1k"), 100);
            for _ in 0..4 {
                let url = format!("http+sctp-ip://{host}/big");
                let got = run(anabranch().args(["get", "-q", "--timeout", "60s", &url]));
                assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
                assert!(got.stdout == noise(8_000_000), "{host}: other bytes");
            }
        }
        let (each, _, lost) = end_and_count(server);
        assert_eq!((each.iter().sum::<u64>(), lost), (208, 0), "{each:?}");
        assert!(each.iter().all(|&n| n > 50), "{each:?}");
    });
}

/// RFC 9260 §6.4: an association must stay on the same thread when the peer sends from another of the peer's addresses.
#[test]
fn other_addresses_lead_to_the_same_thread() {
    inside(|| {
        let site = site("threads-ip-paths");
        let server = serve(&site, &["--threads", "3", "--listen", "sctp-ip://192.0.2.1,192.0.2.2:80"]);
        let addresses = addresses(&server);
        assert_eq!(addresses.len(), 2);
        for seed in 0..PEERS {
            let mut peer = Peer::on_ip(&[[198, 51, 100, 1], [198, 51, 100, 2]], seed);
            let id = peer.establish(&addresses);
            peer.assert_moves_to(id, addresses[1].ip());
            assert_eq!(peer.closed(), None);
            peer.engine.abort(peer.now(), id);
            peer.turn();
        }
        let (each, handed, lost) = end_and_count(server);
        assert_eq!((each.len(), each.iter().sum::<u64>(), handed, lost), (3, PEERS, 0, 0), "{each:?}");
        assert!(each.iter().filter(|&&n| n > 0).count() > 1, "{each:?}");
    });
}

/// RFC 9260 §5.2.2, §5.2.4 A: the INIT of a restarted peer must find the thread of the association.
#[test]
fn a_peer_that_restarts_is_known_again() {
    inside(|| {
        let site = site("threads-ip-restart");
        for threads in ["1", "4"] {
            let server = serve(&site, &["--threads", threads, "--listen", "sctp-ip://192.0.2.1:80"]);
            restart(&addresses(&server), |seed| Peer::on_ip(&[[198, 51, 100, 1]], seed));
            if threads == "1" {
                assert_eq!(server.end(), 0);
            } else {
                let (_, handed, lost) = end_and_count(server);
                assert!(handed > 0 && lost == 0, "{handed} {lost}");
            }
        }
    });
}

/// RFC 9260 §8.5.1 B: a client's ABORT with the T bit carries the tag that the client chose. Only the tag that the
/// server chose identifies the server's thread. The ABORT must still end the association.
#[test]
fn a_peer_that_knows_nothing_any_more_ends_the_association() {
    inside(|| {
        let site = site("threads-ip-abort");
        for threads in ["1", "4"] {
            let server = serve(&site, &["--threads", threads, "--listen", "sctp-ip://192.0.2.1:80"]);
            vanish(&addresses(&server), |seed| Peer::on_ip(&[[198, 51, 100, 1]], seed));
            assert_eq!(server.end(), 0);
        }
    });
}

/// RFC 9260 §8.4: no thread may answer a packet for a port that another server listens on, in this or another process.
#[test]
fn a_port_is_one_programs_with_all_of_its_threads() {
    inside(|| {
        let site = site("threads-ip-ports");
        let two = ["--listen", "sctp-ip://192.0.2.1:80", "--listen", "sctp-ip://192.0.2.1:81"];
        let server = serve(&site, &[&["--threads", "3"][..], &two].concat());
        let other = serve(&site, &["--threads", "2", "--listen", "sctp-ip://192.0.2.1:82"]);
        for threads in ["1", "2"] {
            let arguments =
                ["serve", site.text(), "--threads", threads, "--listen", "sctp-ip://192.0.2.1:81"];
            let output = run(anabranch().args(arguments));
            let stderr = errors(&output);
            assert!(output.status.code() == Some(3) && stderr.contains("in use"), "{stderr}");
        }
        for port in 80..83 {
            load(&format!("http+sctp-ip://192.0.2.1:{port}/1k"), 30);
        }
        let refused =
            run(anabranch().args(["get", "-q", "--timeout", "20s", "http+sctp-ip://192.0.2.1:83/"]));
        assert!(errors(&refused).contains("refused"), "{}", errors(&refused));
        let (each, _, lost) = end_and_count(server);
        assert_eq!((each.iter().sum::<u64>(), lost), (60, 0), "{each:?}");
        let (each, _, lost) = end_and_count(other);
        assert_eq!((each.iter().sum::<u64>(), lost), (30, 0), "{each:?}");
    });
}

#[test]
fn a_gateway_of_several_threads_carries_between_associations() {
    inside(|| {
        let site = site("threads-ip-gateway");
        let server = serve(&site, &["--threads", "2", "--listen", "sctp-ip://192.0.2.1:80"]);
        let origin = ["--origin", "http+sctp-ip://192.0.2.1"];
        let listen = ["gateway", "--threads", "2", "--quiet", "--listen", "sctp-ip://192.0.2.2:80"];
        let near = Running::start(&[&listen[..], &origin].concat());
        load("http+sctp-ip://192.0.2.2/1k", 40);
        let (each, _, lost) = end_and_count(near);
        assert_eq!((each.len(), lost), (2, 0));
        assert_eq!(server.end(), 0);
    });
}
