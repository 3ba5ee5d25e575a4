//! Tests malicious clients. `serve` and `gateway` must keep running, keep their limits, and serve other clients.
//!
//! The tests use only the loopback interface and ports that the host chooses, and every wait has a limit.

#![cfg(target_os = "linux")]

use crate::peer::{associate, host, in_a_world, pace, steady};
use crate::running::{LONG, Running, Scratch, anabranch, noise, run, wait_until};
use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_transport::sctp::SctpSession;
use anabranch_transport::{Session, Stream};
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TCP_AND_SCTP: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];

/// Starts the two targets that a test attacks: a server, and a gateway. Also returns the server behind the gateway,
/// which is not attacked directly.
fn targets(site: &Scratch, limits: &[&str]) -> (Vec<Running>, Running) {
    let root = format!("{}/site", site.text());
    let mut arguments = vec!["serve", &root, "-q"];
    arguments.extend(TCP_AND_SCTP);
    let origin = Running::start(&arguments);
    arguments.extend(limits);
    let server = Running::start(&arguments);
    let mut arguments = vec!["gateway", "-q", "--origin", origin.url("http")];
    arguments.extend(TCP_AND_SCTP);
    arguments.extend(limits);
    let gateway = Running::start(&arguments);
    (vec![server, gateway], origin)
}

fn site(name: &str) -> Scratch {
    let site = Scratch::new(name);
    site.file("site/index.html", "<p>home");
    site.file("site/big", noise(8_000_000));
    site.file("secret", "very secret");
    site
}

/// Checks that an honest client is served over both transports.
fn is_served(target: &Running) {
    for scheme in ["http", "http+sctp"] {
        let got = run(anabranch().args(["get", "-q", target.url(scheme)]));
        let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
        assert_eq!(
            (got.status.code(), got.stdout.as_slice()),
            (Some(0), &b"<p>home"[..]),
            "{scheme}: {stderr}"
        );
    }
}

/// Waits until the server ends the association.
async fn ends(world: &OsWorld, session: &SctpSession<OsWorld>) {
    assert!(world.timeout(LONG, session.closed()).await.is_some(), "the association is still there");
}

#[test]
fn slow_requests_on_every_stream_are_survived() {
    let site = site("hostile-slow");
    let (targets, _behind) = targets(&site, &["--header-timeout", "2s", "--idle", "5s"]);
    for mut target in targets {
        let before = target.resident();
        in_a_world(async |world| {
            // The client requests the maximum number of streams, and the server grants only its own limit.
            let host = host(&world, u16::MAX).await;
            let session = associate(&host, &target).await;
            assert_eq!(session.streams(), 100);
            let mut slow = Vec::new();
            for number in 0..session.streams() {
                let mut stream = session.open(number).expect("a stream");
                stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ").await.expect("sent");
                slow.push(stream);
            }
            is_served(&target);
            // The client adds a byte to each request from time to time. The server must not count this as progress, and
            // must at last close every stream or the whole association.
            let began = world.now();
            while world.now() < began + LONG {
                let mut open = 0;
                for stream in &mut slow {
                    open += u32::from(stream.write_all(b"x").await.is_ok());
                }
                if open == 0 {
                    return;
                }
                pace(&world, Duration::from_millis(300)).await;
            }
            panic!("slow streams are waited for");
        });
        is_served(&target);
        let after = target.resident();
        assert!(after < before + 20_000, "{before} KiB, then {after}");
        assert!(target.still_runs());
    }
}

#[test]
fn closed_windows_do_not_block_other_clients() {
    if !are_slow_tests_enabled() {
        return;
    }
    let site = site("hostile-window");
    let (targets, _behind) = targets(&site, &["--idle", "3s"]);
    for mut target in targets {
        let before = target.resident();
        in_a_world(async |world| {
            let host = host(&world, 100).await;
            let session = associate(&host, &target).await;
            // The client requests 100 answers of 8 MB, and reads nothing of them.
            let mut streams = Vec::new();
            for number in 0..100 {
                let mut stream = session.open(number).expect("a stream");
                stream.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
                streams.push(stream);
            }
            steady(&world, || target.resident()).await;
            is_served(&target);
            let during = target.resident();
            assert!(during < before + 60_000, "{before} KiB, then {during}");
            ends(&world, &session).await;
        });
        // The client requests 5 answers of 8 MB over TCP, and reads nothing of them while another client is served.
        let mut streams = Vec::new();
        for _ in 0..5 {
            let mut stream = TcpStream::connect(target.tcp()).expect("connected");
            stream.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
            streams.push(stream);
        }
        is_served(&target);
        for mut stream in streams {
            stream.set_read_timeout(Some(LONG)).expect("a deadline");
            // The client can still read the data that the server had sent. After this data, the connection must end.
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
        assert!(target.still_runs());
    }
}

#[test]
fn excess_connections_do_not_block_honest_clients() {
    let site = site("hostile-many");
    // No session times out during the test.
    let limits = ["--connections", "20", "--header-timeout", "10min", "--idle", "10min"];
    let (targets, _behind) = targets(&site, &limits);
    for mut target in targets {
        in_a_world(async |world| {
            // The patient client's requests have been in progress all the time, longer than any other.
            let mut patient = TcpStream::connect(target.tcp()).expect("connected");
            patient.write_all(BIG).expect("sent");
            let own = host(&world, 10).await;
            let session = associate(&own, &target).await;
            let mut stream = session.open(0).expect("a stream");
            stream.write_all(BIG).await.expect("sent");
            let mut first = [0; 100];
            patient.read_exact(&mut first).expect("an answer");
            assert!(stream.read(&mut first).await.expect("an answer") > 0);
            // These clients open 60 connections and 61 associations, although `--connections` allows 20 per listener.
            // Two thirds of the connections send an incomplete head. The other connections and all associations are
            // idle.
            let mut streams = Vec::new();
            for number in 0..60 {
                let mut slow = TcpStream::connect(target.tcp()).expect("connected");
                if number % 3 > 0 {
                    let _ = slow.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ");
                }
                streams.push(slow);
            }
            let host = host(&world, 1).await;
            let mut idle = Vec::new();
            for _ in 0..61 {
                idle.push(associate(&host, &target).await);
            }
            for _ in 0..2 {
                is_served(&target);
            }
            patient.set_read_timeout(Some(LONG)).expect("a deadline");
            patient.read_exact(&mut vec![0; 8_000_000]).expect("the request under way goes on");
            let (mut read, mut piece) = (0, vec![0; 65_536]);
            while read < 8_000_000 - 100 {
                let more = stream.read(&mut piece).await.expect("the request under way goes on");
                assert!(more > 0, "the answer is not whole");
                read += more;
            }
        });
        assert!(target.still_runs());
    }
}

/// A session that is being served must not be closed for a new session.
#[test]
fn a_session_in_service_is_not_closed_for_a_new_one() {
    let site = site("hostile-full");
    let (targets, _behind) = targets(&site, &["--connections", "1"]);
    for mut target in targets {
        let mut patient = TcpStream::connect(target.tcp()).expect("connected");
        patient.write_all(BIG).expect("sent");
        patient.read_exact(&mut [0; 100]).expect("an answer");
        let refused = run(anabranch().args(["get", "-q", target.url("http")]));
        assert_eq!(refused.status.code(), Some(1), "{}", crate::running::errors(&refused));
        patient.set_read_timeout(Some(LONG)).expect("a deadline");
        patient.read_exact(&mut vec![0; 8_000_000]).expect("the rest");
        // The session is idle when its last data is acknowledged, and then gives up its slot.
        let url = target.url("http");
        wait_until("there is room", || run(anabranch().args(["get", "-q", url])).status.code() == Some(0));
        is_served(&target);
        assert!(target.still_runs());
    }
}

const BIG: &[u8] = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn nothing_outside_the_directory_in_any_spelling() {
    let site = site("hostile-paths");
    let (targets, _behind) = targets(&site, &[]);
    for mut target in targets {
        for path in [
            "/../secret",
            "/..%2fsecret",
            "/%2e%2e/secret",
            "/%2e%2e%2fsecret",
            "/.%2e/secret",
            "/%2E%2E/%2E%2E/etc/passwd",
            "/a/../../secret",
            "/./../secret",
            "/%252e%252e/secret",
            "/%c0%ae%c0%ae/secret",
            "/%c0%ae%c0%ae%c0%afsecret",
            "/%e0%80%ae%e0%80%ae/secret",
            "/%uff0e%uff0e/secret",
            "/..%5csecret",
            "/..\\secret",
            "/..%00/secret",
            "/index.html%00/../../secret",
            "/..;/secret",
            "//etc/passwd",
            "/%2fetc/passwd",
            "/%2f%2fetc%2fpasswd",
            "/....//secret",
            "/..././secret",
            "/../../../../../../../../etc/passwd",
            "/site/../../secret",
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let answer = target.ask(request);
            let status = answer.split(' ').nth(1).unwrap_or_default();
            assert!(matches!(status, "404" | "400"), "{path}: {answer}");
            assert!(!answer.contains("very secret") && !answer.contains("root:"), "{path}: {answer}");
        }
        assert!(target.still_runs());
    }
}

#[test]
fn heads_without_end_and_bodies_without_sense() {
    let site = site("hostile-heads");
    let (targets, _behind) = targets(&site, &["--header-timeout", "5s"]);
    for mut target in targets {
        for request in [
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(1_000_000)),
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1_000_000)),
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(100_000)),
            "x".repeat(1_000_000),
            "\r\n".repeat(500_000),
            "\0".repeat(100_000),
        ] {
            let mut stream = target.connect();
            // A write error is ignored, because the server may respond and close the connection before the whole
            // request is sent.
            let _ = stream.write_all(request.as_bytes());
            let mut answer = Vec::new();
            let _ = stream.take(100_000).read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer);
            let status = answer.split(' ').nth(1).unwrap_or_default();
            assert!(matches!(status, "400" | "408" | "414" | "431" | "501" | ""), "{answer}");
        }
        for (fields, body) in [
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked",
                "0\r\n\r\nGET /secret HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("Content-Length: 3\r\nContent-Length: 4", "abcdGET /secret HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("Transfer-Encoding: chunked", "zz\r\nGET /secret HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("Transfer-Encoding: chunked", "ffffffffffffffffff\r\nabc"),
            ("Content-Length: 99999999999999999999999", ""),
            ("Content-Length: -1", ""),
        ] {
            let request =
                format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n\r\n{body}");
            let answer = target.ask(request);
            // The status may differ, but there must be at most one response, and not 200.
            assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{fields}: {answer}");
            assert!(!answer.contains(" 200 OK"), "{fields}: {answer}");
        }
        is_served(&target);
        assert!(target.still_runs());
    }
}
