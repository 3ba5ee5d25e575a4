//! Tests which servers a gateway contacts for its clients, and what it tells an origin about the clients.

#![cfg(target_os = "linux")]

use crate::running::{LONG, Running};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const TCP: &str = "tcp://127.0.0.1:0";

/// Starts a server that answers with the request's head and counts connections.
fn mirror() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().expect("bound").port()));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.extend_from_slice(&byte);
            }
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                head.len()
            );
            let _ = stream.write_all(&head);
        }
    });
    (address, count)
}

/// Sends a request from 127.0.0.`last`, and returns the response.
fn ask(last: u8, gateway: &Running, request: &str) -> String {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).expect("an address of this host");
    socket.connect(&gateway.tcp().into()).expect("connected");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).expect("a deadline");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// The rule `*` stands for the public Internet. None of the tested addresses is public, however it is written, so the
/// gateway must not connect to any of them.
#[test]
fn a_wildcard_leads_to_no_address_that_is_not_public() {
    let (address, count) = mirror();
    let near =
        ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "0", "localhost", "[::1]", "[::]"];
    let private = [
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "0.1.2.3",
        "[fd00:ec2::254]",
        "[fc00::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a00:1]",
        "[2002:7f00:1::1]",
        "[2002:a9fe:a9fe::]",
        "[2001:0:a9fe:a9fe::1]",
        "[2001:db8::1]",
        "[2606:4700::5efe:10.0.0.1]",
    ];
    for rule in ["*", "*:*", &format!("*:{}", address.port())] {
        let gateway =
            Running::start(&["gateway", "-q", "--listen", TCP, "--allow", rule, "--connect-timeout", "2s"]);
        for host in near.iter().chain(&private) {
            for port in [80, address.port()] {
                for request in [
                    format!(
                        "GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
                    ),
                    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"),
                ] {
                    let answer = ask(1, &gateway, &request);
                    assert!(answer.starts_with("HTTP/1.1 403 "), "{rule} {host}:{port}: {answer}");
                }
            }
        }
    }
    // These targets are public addresses with ports that are not web ports. No packet may be sent to them.
    let gateway = Running::start(&["gateway", "-q", "--listen", TCP, "--allow", "*", "--allow", "*.example"]);
    for port in [1, 22, 25, 110, 465, 587, 3306, 6379, 9899, 11211] {
        for host in ["8.8.8.8", "[2606:4700::1]", "a.example"] {
            let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
            let answer = ask(1, &gateway, &request);
            assert!(answer.starts_with("HTTP/1.1 403 "), "{host}:{port}: {answer}");
        }
    }
    // With `--via`, the first gateway must apply its own rules before it contacts the next gateway.
    let far = Running::start(&["gateway", "-q", "--listen", "sctp://127.0.0.1:0", "--allow", "0.0.0.0/0"]);
    let via = far.url("http+sctp").trim_end_matches('/');
    let near = Running::start(&["gateway", "-q", "--listen", TCP, "--via", via, "--allow", "*"]);
    for host in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]"] {
        let request = format!("CONNECT {host}:80 HTTP/1.1\r\nHost: {host}:80\r\n\r\n");
        assert!(ask(1, &near, &request).starts_with("HTTP/1.1 403 "), "{host}");
    }
    assert_eq!(count.load(Ordering::Relaxed), 0, "somebody was asked");
    // The gateway must connect to a server that an `--allow` rule names.
    let named = Running::start(&["gateway", "-q", "--listen", TCP, "--allow", &address.to_string()]);
    let request = format!("GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    assert!(ask(1, &named, &request).starts_with("HTTP/1.1 200 "));
}

/// An origin trusts the fields about the client, so a client must not be able to set them.
#[test]
fn an_origin_is_told_who_asks_by_the_gateway_alone() {
    let (address, _) = mirror();
    let origin = format!("http://{address}");
    let plain = ["gateway", "-q", "--listen", TCP, "--listen", "sctp://127.0.0.1:0", "--origin", &origin];
    let alone = Running::start(&plain);
    let trusting = Running::start(&[&plain[..], &["--trusted-proxy", "127.0.0.8/31"]].concat());
    let lies = "X-Forwarded-For: 10.9.9.9\r\nx-forwarded-for: 10.9.9.9\r\nX_Forwarded_For: 10.9.9.9\r\n\
                Forwarded: for=10.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\n\
                X-Forwarded-Port: 666\r\nX-Real-IP: 10.9.9.9\r\n";
    let request = |fields: &str| {
        format!("GET /a HTTP/1.1\r\nHost: site.example\r\nConnection: close, x-forwarded-for\r\n{fields}\r\n")
    };
    for (gateway, last) in [(&alone, 1), (&alone, 9), (&trusting, 7)] {
        for fields in ["", lies] {
            let answer = ask(last, gateway, &request(fields)).to_ascii_lowercase();
            for line in [
                format!("\r\nx-forwarded-for: 127.0.0.{last}\r\n"),
                format!("\r\nforwarded: for=127.0.0.{last};host=\"site.example\";proto=http\r\n"),
                "\r\nx-forwarded-host: site.example\r\n".to_owned(),
                "\r\nx-forwarded-proto: http\r\n".to_owned(),
            ] {
                assert_eq!(answer.matches(&line).count(), 1, "{line:?}: {answer}");
            }
            for lie in ["10.9.9.9", "evil", "x-forwarded-port", "https", "x_forwarded", "x-real-ip"] {
                assert!(!answer.contains(lie), "{lie}: {answer}");
            }
        }
    }
    let answer = ask(9, &trusting, &request(lies)).to_ascii_lowercase();
    for line in [
        "\r\nx-forwarded-for: 10.9.9.9, 10.9.9.9, 127.0.0.9\r\n",
        "\r\nforwarded: for=10.9.9.9, for=127.0.0.9;host=\"site.example\";proto=http\r\n",
        "\r\nx-forwarded-proto: https\r\n",
        "\r\nx-forwarded-host: evil.example\r\n",
    ] {
        assert_eq!(answer.matches(line).count(), 1, "{line:?}: {answer}");
    }
    // A forward proxy must reveal nothing about its clients, and must not forward hop-by-hop fields.
    let forward = Running::start(&["gateway", "-q", "--listen", TCP, "--allow", "127.0.0.1"]);
    let hop = "Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
               Trailer: X\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\nX-Hop: secret\r\nTunnel-Framing: chunked\r\n";
    let request = format!(
        "GET http://{address}/a HTTP/1.1\r\nHost: x\r\nConnection: close, X-Hop, Upgrade\r\n{hop}Accept: */*\r\n\r\n"
    );
    let answer = ask(1, &forward, &request);
    let received_request =
        answer.split("\r\n\r\n").nth(1).expect("what the origin was told").to_ascii_lowercase();
    let mut names: Vec<&str> =
        received_request.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
    names.sort_unstable();
    // RFC 9110 §10.1.4: the gateway itself accepts trailers, and says so in TE.
    assert_eq!(names, ["accept", "connection", "host", "te", "via"], "{received_request}");
}
