//! Tests origin responses that the gateway cannot forward. The gateway must at once send status 502 or close the
//! connection to the client, so that no client waits.

#![cfg(target_os = "linux")]

use crate::running::{Running, anabranch, errors, run_in_time};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

/// The timeouts of the gateway and its clients are far longer than the time limit of the test.
const PATIENT: [&str; 2] = ["--idle", "10min"];

/// Starts an origin that leaves its connections open. The path of a request is the index of its response in `answers`.
fn origin(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let answers = Arc::new(answers);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answers = answers.clone();
            thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut request) {
                    let text = String::from_utf8_lossy(&request[..read]).into_owned();
                    let number = text.split(['/', ' ']).find_map(|word| word.parse::<usize>().ok());
                    let _ = stream.write_all(&answers[number.unwrap_or(0)]);
                }
            });
        }
    });
    address
}

/// Returns responses that must be refused: invalid statuses, other protocols, and malformed heads.
fn refused() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for status in
        ["000", "001", "042", "099", "00", "20", "2000", "-20", "+20", "2x0", "0x1", "   ", "", "101"]
    {
        for end in [" OK\r\nContent-Length: 5\r\n\r\nhello", "\r\nContent-Length: 5\r\n\r\nhello"] {
            all.push(format!("HTTP/1.1 {status}{end}").into_bytes());
        }
    }
    for text in [
        // These heads are incomplete, but the part that has arrived is already invalid.
        "HTTP/1.1 000 ",
        "HTTP/1.1 0",
        "HTTP/1.1 2000",
        "HTTP/1.2 200 OK\r\n",
        "HTTP/2 200 OK\r\n",
        "HTTP/0.9 200 OK\r\n",
        "http/1.1 200 OK\r\n",
        "HTTP 200 OK\r\n",
        "ICY 200 OK\r\n",
        "SSH-2.0-OpenSSH_9.2p1\r\n",
        "220 mail.example ESMTP\r\n",
        "+OK ready\r\n",
        "<html>",
        "\0\0\x12\x04\0\0\0\0\0",
        "\x16\x03\x03",
        "hello",
        " HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\rX",
        "HTTP/1.1 200 OK\r\nA: b\0\r\n",
        // These heads are complete, but invalid.
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\n folded: x\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\nhello",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        // In these cases, either the interim response or the response after it is invalid.
        "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 000 OK\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching\r\n\r\n",
    ] {
        all.push(text.as_bytes().to_vec());
    }
    all.push(b"HTTP/1.1 102 Processing\r\n\r\n".repeat(100));
    all.push([b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'a'; 200_000]].concat());
    all.push([&b"HTTP/1.1 200 OK\r\n"[..], &b"A: b\r\n".repeat(1000), b"\r\n"].concat());
    all
}

/// Returns the final status line of a response, after any interim responses.
fn final_line(answer: &str) -> Option<&str> {
    answer.split("\r\n").find(|line| line.starts_with("HTTP/1.1 ") && !line.starts_with("HTTP/1.1 1"))
}

#[test]
fn invalid_responses_become_502_at_once() {
    let answers = refused();
    let shown: Vec<String> =
        answers.iter().map(|answer| answer[..answer.len().min(60)].escape_ascii().to_string()).collect();
    let origin = origin(answers);
    let arguments =
        ["gateway", "-q", "--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0", "--origin"];
    let gateway = Running::start(&[&arguments[..], &[&format!("http://{origin}")], &PATIENT].concat());
    let rules = ["gateway", "-q", "--listen", "tcp://127.0.0.1:0", "--allow", "127.0.0.1"];
    let forward = Running::start(&[&rules[..], &PATIENT].concat());
    let mut requests = Vec::new();
    for (number, shown) in shown.into_iter().enumerate() {
        for (via, target) in
            [(&gateway, format!("/{number}")), (&forward, format!("http://{origin}/{number}"))]
        {
            for (method, version) in [("GET", "1.1"), ("GET", "1.0"), ("POST", "1.1")] {
                let mut stream = via.connect();
                let body = if method == "POST" { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
                let request = format!(
                    "{method} {target} HTTP/{version}\r\nHost: {origin}\r\nConnection: close\r\n{body}"
                );
                stream.write_all(request.as_bytes()).expect("sent");
                requests.push((stream, format!("{method} {version} {shown}")));
            }
        }
    }
    for (mut stream, expected) in requests {
        let mut answer = Vec::new();
        stream
            .read_to_end(&mut answer)
            .unwrap_or_else(|error| panic!("{expected}: {error}, after {}", answer.escape_ascii()));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let line = final_line(&answer).unwrap_or("");
        assert!(line.starts_with("HTTP/1.1 502 "), "{expected}: {answer}");
        assert!(
            answer.ends_with('\n') && answer.split("\r\n\r\n").last().expect("a body").lines().count() == 1,
            "{expected}: {answer}"
        );
    }
    // A client over SCTP must also receive the status 502, on a stream that can be reused.
    let url = gateway.url("http+sctp");
    let arguments = ["get", "-q", "--timeout", "10min", &format!("{url}0"), &format!("{url}2")];
    let got = run_in_time(anabranch().args(arguments));
    assert_eq!(got.status.code(), Some(1));
    assert_eq!(errors(&got).matches("status 502").count(), 2, "{}", errors(&got));
}

/// A response that is merely unusual must be forwarded unchanged.
#[test]
fn unusual_statuses_are_forwarded() {
    let statuses = [200, 204, 205, 226, 299, 300, 304, 399, 400, 418, 451, 499, 500, 511, 599, 600, 777, 999];
    let mut answers = Vec::new();
    for status in statuses {
        let length =
            if matches!(status, 204 | 304) { String::new() } else { "Content-Length: 0\r\n".to_owned() };
        answers.push(format!("HTTP/1.1 {status} What\r\n{length}\r\n").into_bytes());
    }
    let origin = origin(answers);
    let arguments = ["gateway", "-q", "--listen", "tcp://127.0.0.1:0", "--origin"];
    let gateway = Running::start(&[&arguments[..], &[&format!("http://{origin}")]].concat());
    for (number, status) in statuses.into_iter().enumerate() {
        let answer = gateway.ask(format!("GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} What\r\n")), "{status}: {answer}");
    }
}

/// If a response is invalid, `get` must fail at once and not wait for more data.
#[test]
fn a_client_does_not_wait_for_what_is_no_answer() {
    let answers = [
        "HTTP/1.1 000 OK\r\nContent-Length: 5\r\n\r\nhello",
        "SSH-2.0-x\r\n",
        "220 m\r\n",
        "HTTP/1.1 101 S\r\n\r\n",
    ];
    let count = answers.len();
    let origin = origin(answers.map(|text| text.as_bytes().to_vec()).to_vec());
    for number in 0..count {
        let url = format!("http://{origin}/{number}");
        let got = run_in_time(anabranch().args(["get", "-q", "--timeout", "10min", &url]));
        assert_eq!((got.status.code(), got.stdout.len()), (Some(1), 0), "{number}: {}", errors(&got));
    }
}
