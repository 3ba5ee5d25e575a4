//! Tests requests with an ambiguous end. `serve` and `gateway` must reject them, over TCP and SCTP, and must not
//! interpret the bytes that follow as a request.

#![cfg(target_os = "linux")]

use crate::peer::{associate, host, in_a_world};
use crate::running::{LONG, Running, Scratch, wait_until_read};
use anabranch_transport::{Session, Stream};
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

const TCP_AND_SCTP: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];

/// Starts two servers, and two gateways in front of the second server. One gateway uses TCP to the second server, the
/// other uses SCTP. Returns two values: a list with the first server and both gateways, and then the second server.
fn targets(root: &str) -> (Vec<Running>, Running) {
    let arguments = [&["serve", root, "-q"], &TCP_AND_SCTP[..]].concat();
    let (origin, server) = (Running::start(&arguments), Running::start(&arguments));
    let gateway_to = |scheme| {
        Running::start(&[&["gateway", "-q", "--origin", origin.url(scheme)], &TCP_AND_SCTP[..]].concat())
    };
    (vec![server, gateway_to("http"), gateway_to("http+sctp")], origin)
}

/// Heads and chunked bodies for which another program would find the end of the content at another byte.
const FORMS: [(&str, &str); 23] = [
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
    ("Transfer-Encoding: identity, chunked", "0\r\n\r\n"),
    ("Transfer-Encoding: xchunked", "0\r\n\r\n"),
    ("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"),
    ("Transfer-Encoding : chunked", "0\r\n\r\n"),
    ("Transfer-Encoding\t: chunked", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
    ("Content-Length: 5\r\nContent-Length: 6", "abcde"),
    ("Content-Length: 5\r\nContent-Length: 5", "abcde"),
    ("Content-Length: 5, 5", "abcde"),
    ("Content-Length: +5", "abcde"),
    ("Content-Length: 0 5", "abcde"),
    ("Content-Length : 5", "abcde"),
    ("Content-Length: 5\r\nX: a\r\n folded", "abcde"),
    ("Content-Length: 5\r\nX: a\0b", "abcde"),
    ("Content-Length: 5\nX: a", "abcde"),
    ("X: a\rContent-Length: 5", ""),
    ("Transfer-Encoding: chunked", "5;x\nabcde\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "5 x\r\nabcde\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "10000000000000005\r\nabcde\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "5\r\nabcdef0\r\n\r\n"),
];

/// A request that must not be answered.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Returns the status codes of the responses.
fn statuses(answers: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(answers);
    text.match_indices("HTTP/1.1 ")
        .map(|(at, word)| text[at + word.len()..].chars().take(3).collect())
        .collect()
}

fn is_refused(form: &str, body: &str, answers: &[u8]) {
    let statuses = statuses(answers);
    let description = || format!("{form:?} {body:?}: {}", String::from_utf8_lossy(answers));
    assert!(statuses.len() <= 1, "{}", description());
    let chunks = form == "Transfer-Encoding: chunked";
    // The server may find an error in a chunked body only after it has responded.
    let right = |status: &str| matches!(status, "400" | "501") || chunks && status == "405";
    assert!(statuses.first().map_or(chunks, |status| right(status)), "{}", description());
}

#[test]
fn over_tcp() {
    let site = Scratch::new("smuggling-tcp");
    site.file("site/index.html", "<p>home");
    let (targets, _behind) = targets(&format!("{}/site", site.text()));
    for target in targets {
        for (form, body) in FORMS {
            for apart in [false, true] {
                let mut stream = target.connect();
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{form}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes());
                if apart {
                    wait_until_read(&stream);
                }
                let _ = stream.write_all(format!("{body}{SMUGGLED}").as_bytes());
                let mut answers = Vec::new();
                let _ = stream.read_to_end(&mut answers);
                is_refused(form, body, &answers);
            }
        }
    }
}

/// Sends the requests on streams of one association. On each stream, the bytes after the body are a second request. A
/// server that misjudges the end of the body would answer it.
#[test]
fn over_sctp() {
    let site = Scratch::new("smuggling-sctp");
    site.file("site/index.html", "<p>home");
    let (targets, _behind) = targets(&format!("{}/site", site.text()));
    for (index, target) in targets.into_iter().enumerate() {
        in_a_world(async |world| {
            let host = host(&world, 50).await;
            let session = associate(&host, &target).await;
            for ((form, body), number) in FORMS.into_iter().zip(0..) {
                let mut stream = session.open(number).expect("a stream");
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{form}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.expect("sent");
                // Sends the body after the server has had time to answer the head.
                let early = answers(&world, &mut stream, 20).await;
                let _ = stream.write_all(format!("{body}{SMUGGLED}").as_bytes()).await;
                let late = answers(&world, &mut stream, 30).await;
                is_refused(form, body, &[early, late].concat());
            }
            // Content that the server does not read must not be parsed as a request. After such content, the server
            // must accept a further request on the stream. A gateway must reset the stream instead.
            let mut stream = session.open(40).expect("a stream");
            let length = SMUGGLED.len();
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.expect("sent");
            let early = answers(&world, &mut stream, 20).await;
            stream.write_all(SMUGGLED.as_bytes()).await.expect("sent");
            let late = answers(&world, &mut stream, 50).await;
            assert_eq!(statuses(&[early, late].concat()), ["405"]);
            if index > 0 {
                return;
            }
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
            let (began, mut last) = (world.now(), Vec::new());
            while last.is_empty() && world.now() < began + LONG {
                last = answers(&world, &mut stream, 100).await;
            }
            assert_eq!(statuses(&last), ["200"]);
        });
    }
}

/// A client may send bytes for the tunnel right after CONNECT, without waiting for the response (RFC 9931). If no
/// tunnel is opened, these bytes must not be parsed as a request.
#[test]
fn bytes_after_a_refused_connect_are_not_parsed() {
    let site = Scratch::new("smuggling-connect");
    site.file("site/smuggled", "inside");
    let root = format!("{}/site", site.text());
    let origin = Running::start(&["serve", &root, "-q", "--listen", "tcp://127.0.0.1:0"]);
    let inside = origin.tcp().to_string();
    let gateway =
        |arguments: &[&str]| Running::start(&[&["gateway", "-q"], arguments, &TCP_AND_SCTP[..]].concat());
    let forward = gateway(&["--allow", &inside]);
    let near = gateway(&["--via", forward.url("http+sctp")]);
    let reverse = gateway(&["--origin", origin.url("http")]);
    let smuggled = format!("GET http://{inside}/smuggled HTTP/1.1\r\nHost: {inside}\r\n\r\n");
    let connect = "CONNECT 192.0.2.9:443 HTTP/1.1\r\nHost: 192.0.2.9:443\r\n";
    for (target, status) in [(&forward, "403"), (&near, "403"), (&reverse, "405")] {
        let answer = target.ask(format!("{connect}\r\n{smuggled}"));
        assert_eq!(statuses(answer.as_bytes()), [status], "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        in_a_world(async |world| {
            let host = host(&world, 10).await;
            let session = associate(&host, target).await;
            for (framing, number) in ["", "Tunnel-Framing: chunked\r\n"].into_iter().zip(0..) {
                let mut stream = session.open(number).expect("a stream");
                stream.write_all(format!("{connect}{framing}\r\n").as_bytes()).await.expect("sent");
                let early = answers_of(&world, &mut stream).await;
                let _ = stream.write_all(smuggled.as_bytes()).await;
                let all = [early, answers(&world, &mut stream, 100).await].concat();
                let refused = if framing.is_empty() { "400" } else { status };
                assert_eq!(statuses(&all), [refused], "{}", all.escape_ascii());
            }
        });
    }
}

/// RFC 9112 §3.2.2: an absolute URL must determine the target, and the Host field must neither be used nor forwarded.
/// A gateway without a fixed origin must apply its access rules to the host of the URL, and forward this host. Several
/// Host fields, or an invalid Host field, must still be rejected.
#[test]
fn an_absolute_url_overrides_the_host_field() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let inside = listener.local_addr().expect("an address");
    // This server answers with the Host fields that it received.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).to_lowercase();
            let hosts: Vec<&str> = head.lines().filter(|line| line.starts_with("host:")).collect();
            let list = hosts.join("|");
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{list}", list.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let gateway =
        |arguments: &[&str]| Running::start(&[&["gateway", "-q"], arguments, &TCP_AND_SCTP[..]].concat());
    let far = gateway(&["--allow", &inside.to_string()]);
    let near = gateway(&["--via", far.url("http+sctp")]);
    let reverse = gateway(&["--origin", &format!("http://{inside}/")]);
    let both = gateway(&["--origin", reverse.url("http+sctp")]);
    let get = |url: &str, hosts: &str| format!("GET {url} HTTP/1.1\r\n{hosts}\r\nConnection: close\r\n\r\n");
    let (inside_url, outside) = (format!("http://{inside}/"), "http://192.0.2.9/".to_owned());
    let allowed = format!("Host: {inside}");
    let cases = [
        // Each case has two expected statuses. The first is for `far`, which has rules, and for `near`, which forwards
        // to `far`. The second is for `reverse` and `both`, which have one origin and ignore the host.
        (&inside_url, "Host: other.example", ["200", "200"]),
        (&inside_url, "Host: 192.0.2.9", ["200", "200"]),
        (&outside, &allowed, ["403", "200"]),
        (&inside_url, "Host: other.example\r\nHost: other.example", ["400", "400"]),
        (&inside_url, "Host: other example", ["400", "400"]),
        (&inside_url, "Host:", ["400", "400"]),
    ];
    for (url, hosts, expected) in cases {
        for (target, kind) in [(&far, 0), (&near, 0), (&reverse, 1), (&both, 1)] {
            let request = get(url, hosts);
            let mut answers = vec![target.ask(&request)];
            in_a_world(async |world| {
                let host = host(&world, 4).await;
                let session = associate(&host, target).await;
                let mut stream = session.open(0).expect("a stream");
                stream.write_all(request.as_bytes()).await.expect("sent");
                answers.push(String::from_utf8_lossy(&answers_of(&world, &mut stream).await).into_owned());
            });
            for answer in answers {
                assert_eq!(statuses(answer.as_bytes()), [expected[kind]], "{request}{answer}");
                let seen = answer.rsplit("\r\n\r\n").next().unwrap_or_default();
                assert!(
                    expected[kind] != "200" || kind == 1 || seen == format!("host: {inside}"),
                    "{answer}"
                );
                assert!(!seen.contains("other") && seen.matches("host:").count() <= 1, "{answer}");
            }
        }
    }
}

/// Waits for the first response. Returns the bytes that arrive until the stream ends or is silent for 50 ms.
async fn answers_of(world: &OsWorld, stream: &mut impl Stream) -> Vec<u8> {
    let (began, mut all) = (world.now(), Vec::new());
    while all.is_empty() && world.now() < began + LONG {
        all = answers(world, stream, 50).await;
    }
    all
}

/// Returns the bytes that arrive on `stream` until it ends or has been silent for `silence` milliseconds.
async fn answers(world: &OsWorld, stream: &mut impl Stream, silence: u64) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match world.timeout(Duration::from_millis(silence), stream.read(&mut piece)).await {
            Some(Ok(read @ 1..)) => all.extend_from_slice(&piece[..read]),
            _ => return all,
        }
    }
}
