//! Tests that `serve` rejects and logs invalid request heads: with no Host field or several, too large, or malformed.
//! Also tests the log of a gateway.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch};
use std::fs;

#[test]
fn a_head_that_is_refused_is_answered_and_logged() {
    let site = Scratch::new("heads");
    site.file("site/index.html", "<p>home");
    let root = format!("{}/site", site.text());
    let log = site.file("log", "");
    let arguments = ["serve", &root, "--listen", "tcp://127.0.0.1:0", "--max-header", "1KiB"];
    let server = Running::start_with(&arguments, fs::File::create(&log).expect("a file"));
    let status = |request: String| {
        let answer = server.ask(request);
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{answer}");
        answer.split(' ').nth(1).unwrap_or_default().parse::<u16>().expect("a status")
    };
    let get = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // RFC 9112 §3.2: a request must have exactly one Host field.
    for fields in ["X: y", "Host: a\r\nHost: b", "Host: a\r\nhost: a", "Host: a/b", "Host: a b"] {
        assert_eq!(status(get(fields)), 400, "{fields}");
    }
    assert_eq!(status("GET / HTTP/1.0\r\n\r\n".to_owned()), 200);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned()), 200);
    // RFC 9112 §6.1: a request with both Content-Length and Transfer-Encoding is rejected, and the connection is
    // closed.
    let both =
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(status(format!("{both}GET / HTTP/1.1\r\nHost: a\r\n\r\n")), 400);
    // The limit on the size of a head must be exact to the byte.
    let sized = |bytes: usize| {
        let least = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(bytes - least))
    };
    assert_eq!((status(sized(1024)), status(sized(1025))), (200, 431));
    assert_eq!(status("G(T / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()), 400);
    let (code, lines) = server.end_with_lines();
    assert_eq!(code, 0, "{lines:?}");
    let log = fs::read_to_string(&log).expect("the log");
    let logged = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!((logged("\" 431 "), logged("\" 400 "), logged("\"- - HTTP/1.1\"")), (1, 7, 8), "{log}");
    assert_eq!(logged("\"GET / HTTP/1.0\" 200 "), 1, "{log}");
}

/// Responses that a gateway generates itself must appear in its log like other responses.
#[test]
fn the_log_of_a_gateway_has_its_own_answers() {
    let scratch = Scratch::new("gateway-log");
    let log = scratch.0.join("log");
    let output = fs::File::create(&log).expect("a file");
    // Nothing listens at the address of this gateway's origin.
    let refused =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let origin = format!("http://{refused}/");
    let gateway =
        Running::start_with(&["gateway", "--listen", "tcp://127.0.0.1:0", "--origin", &origin], output);
    let length = |request: &str| {
        let answer = gateway.ask(request);
        answer.split_once("\r\n\r\n").expect("an answer").1.len()
    };
    let lost = length("GET /a HTTP/1.0\r\n\r\n");
    let head = length("HEAD /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let malformed = length("G(T /c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(lost > 0 && head == 0 && malformed > 0);
    gateway.end_with_lines();
    let log = fs::read_to_string(&log).expect("the log");
    let lines: Vec<&str> = log.lines().map(|line| line.split_once("] ").expect("a line").1).collect();
    let right = [
        format!("\"GET /a HTTP/1.0\" 502 {lost}"),
        "\"HEAD /b HTTP/1.1\" 502 0".to_owned(),
        format!("\"- - HTTP/1.1\" 400 {malformed}"),
    ];
    assert_eq!(lines, right);
}
