//! Tests HTTP/2 over real networks: negotiated with ALPN over TLS, by prior knowledge without TLS, and with curl and
//! nginx.

#![cfg(target_os = "linux")]

use crate::running::{
    Running, Scratch, anabranch, errors, has, noise, run, wait_until_listening, wait_until_read,
};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Starts a server with a log, over TLS and without TLS.
fn serve(scratch: &Scratch, log: &str) -> Running {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text());
    command.args([
        "serve",
        scratch.text(),
        "--listen",
        "https://127.0.0.1:0",
        "--listen",
        "tcp://127.0.0.1:0",
    ]);
    Running::start_as(command, fs::File::create(scratch.file(log, "")).expect("a log"))
}

fn get(url: &str, arguments: &[&str]) -> (Option<i32>, String, Vec<u8>) {
    let output = run(anabranch().args(["get", "--quiet", "--insecure", url]).args(arguments));
    (output.status.code(), errors(&output), output.stdout)
}

#[test]
fn curl_speaks_both_versions_over_tls_and_in_the_clear() {
    if !has("curl") {
        return;
    }
    let scratch = Scratch::new("http2-curl");
    let body = noise(900_000);
    scratch.file("big.bin", &body);
    let server = serve(&scratch, "log");
    for (scheme, flag, version) in [
        ("https", "--http2", "2"),
        ("https", "--http1.1", "1.1"),
        ("http", "--http2-prior-knowledge", "2"),
        ("http", "--http1.1", "1.1"),
    ] {
        let url = format!("{}big.bin", server.url(scheme));
        let output = run(Command::new("curl").args([
            "-s",
            "-k",
            "--max-time",
            "60",
            flag,
            "-w",
            "%{stderr}%{http_version} %{http_code}",
            &url,
        ]));
        assert_eq!(errors(&output).trim(), format!("{version} 200"), "{scheme} {flag}");
        assert!(output.stdout == body, "{scheme} {flag}: another body");
    }
    let url = format!("{}none", server.url("https"));
    let output = run(Command::new("curl").args(["-s", "-k", "--http2", "-I", "-w", "%{http_code}", &url]));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("HTTP/2 404"), "{output:?}");
    assert_eq!(server.end(), 0, "every session has ended");
    let log = fs::read_to_string(format!("{}/log", scratch.text())).expect("a log");
    assert_eq!(log.matches("\"GET /big.bin HTTP/2.0\" 200 900000").count(), 2, "{log}");
    assert_eq!(log.matches("\"GET /big.bin HTTP/1.1\" 200 900000").count(), 2, "{log}");
    assert_eq!(log.matches("\"HEAD /none HTTP/2.0\" 404 0").count(), 1, "{log}");
}

#[test]
fn our_client_has_a_stream_for_each_object_where_the_server_chooses_http_2() {
    let scratch = Scratch::new("http2-get");
    let bodies: Vec<Vec<u8>> = (0..5).map(|n| noise(200_000 + n)).collect();
    for (n, body) in bodies.iter().enumerate() {
        scratch.file(&format!("{n}.bin"), body);
    }
    let server = serve(&scratch, "log");
    let out = format!("{}/out/", scratch.text());
    let urls: Vec<String> = (0..5).map(|n| format!("{}{n}.bin", server.url("https"))).collect();
    let json = format!("{}/result.json", scratch.text());
    let output =
        run(anabranch().args(["get", "--quiet", "--insecure", "-o", &out, "--json", &json]).args(&urls));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    for (n, body) in bodies.iter().enumerate() {
        assert!(&fs::read(format!("{out}{n}.bin")).expect("written") == body, "{n}.bin");
    }
    let result: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).expect("a result")).expect("JSON");
    let objects = result["objects"].as_array().expect("a list");
    let mut streams: Vec<_> = objects.iter().filter_map(|object| object["stream"].as_u64()).collect();
    streams.sort_unstable();
    assert_eq!(streams, [1, 3, 5, 7, 9]);
    // With `--http`, the client must use that version. Without TLS, no version is negotiated.
    for (scheme, arguments, version) in [
        ("https", &["--http", "1.1"][..], "HTTP/1.1"),
        ("https", &["--http", "2"], "HTTP/2.0"),
        ("http", &[], "HTTP/1.1"),
        ("http", &["--http", "2"], "HTTP/2.0"),
    ] {
        let url = format!("{}0.bin?{scheme}{}", server.url(scheme), arguments.concat());
        let trust: &[&str] = if scheme == "https" { &["--insecure"] } else { &[] };
        let output = run(anabranch().args(["get", "--quiet", &url]).args(trust).args(arguments));
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        assert!(output.stdout == bodies[0], "{url}");
        let log = fs::read_to_string(format!("{}/log", scratch.text())).expect("a log");
        let line = log.lines().find(|line| line.contains(&format!("?{scheme}{} ", arguments.concat())));
        assert!(line.is_some_and(|line| line.contains(version)), "{url}: {log}");
    }
    let (code, err, _) = get(&format!("{}none", server.url("https")), &[]);
    assert_eq!(code, Some(1));
    assert!(err.contains("status 404"), "{err}");
    assert_eq!(server.end(), 0);
}

/// Bytes that begin like the HTTP/2 preface and then differ must be handled as HTTP/1.1. The server must not wait for a
/// client that stops in the middle of the preface.
#[test]
fn what_only_begins_like_http_2_is_no_http_2() {
    let scratch = Scratch::new("http2-preface");
    scratch.file("index.html", "hello");
    let mut command = anabranch();
    command.args([
        "serve",
        scratch.text(),
        "--quiet",
        "--listen",
        "tcp://127.0.0.1:0",
        "--header-timeout",
        "1s",
    ]);
    let server = Running::start_as(command, Stdio::null());
    let reply_to = |parts: &[&[u8]]| {
        let mut stream = TcpStream::connect(server.tcp()).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        for part in parts {
            stream.write_all(part).expect("sent");
            wait_until_read(&stream);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let close = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(reply_to(&[close]).ends_with("hello"));
    assert!(
        reply_to(&[b"P", b"UT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"])
            .starts_with("HTTP/1.1 405")
    );
    assert!(reply_to(&[b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n"]).starts_with("HTTP/1.1 505"));
    assert_eq!(reply_to(&[b"PRI * HT"]), "", "it has not gone on");
    // After an invalid frame, the server may only answer with frames, and must close.
    let garbage = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0xff; 64]].concat();
    assert!(!reply_to(&[&garbage]).contains("HTTP/1.1"));
    assert_eq!(server.end(), 0);
}

/// A request with content must not be answered while its trailers may still be malformed. Malformed trailers must be a
/// stream error (RFC 9113 §8.1). If the content never ends, the server must answer after a while.
#[test]
fn trailers_of_a_refused_request_may_still_be_malformed() {
    let scratch = Scratch::new("http2-trailers");
    scratch.file("index.html", "hello");
    let mut command = anabranch();
    command.args(["serve", scratch.text(), "--quiet", "--listen", "tcp://127.0.0.1:0"]);
    let server = Running::start_as(command, Stdio::null());
    let frame = |kind: u8, flags: u8, stream: u8, body: &[u8]| {
        [&[0, 0, body.len() as u8, kind, flags, 0, 0, 0, stream][..], body].concat()
    };
    // The request is a HEADERS frame without END_STREAM, and then a DATA frame. The fields are `:method: POST`,
    // `:scheme: http`, `:path: /` and `:authority: a` (RFC 7541 Appendix A).
    let request = [frame(1, 4, 1, &[0x83, 0x86, 0x84, 0x41, 1, b'a']), frame(0, 0, 1, b"test")].concat();
    let answer = |trailers: &[u8]| {
        let mut stream = TcpStream::connect(server.tcp()).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
        stream.write_all(&frame(4, 0, 0, &[])).expect("sent");
        stream.write_all(&request).expect("sent");
        wait_until_read(&stream);
        stream.write_all(trailers).expect("sent");
        // Reads up to the first frame on the stream of the request. The result is its type and its payload.
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).expect("a frame");
            let mut body = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            stream.read_exact(&mut body).expect("a whole frame");
            if head[8] == 1 {
                return (head[3], body);
            }
        }
    };
    let reset = (3, vec![0, 0, 0, 1]);
    // These trailers lack END_STREAM, or have values that begin or end with white space (§8.2.1).
    assert_eq!(answer(&frame(1, 4, 1, &[0x10, 1, b'x', 1, b'y'])), reset);
    assert_eq!(answer(&frame(1, 5, 1, &[0x10, 1, b'x', 2, b' ', b'y'])), reset);
    assert_eq!(answer(&frame(1, 5, 1, &[0x10, 1, b'x', 2, b'y', b'\t'])), reset);
    for well in [frame(1, 5, 1, &[0x10, 1, b'x', 1, b'y']), frame(0, 1, 1, b""), Vec::new()] {
        assert_eq!(answer(&well).0, 1, "an answer");
    }
    assert_eq!(server.end(), 0);
}

/// RFC 9113 §8.1.1: if a response is malformed, `get` must report it in one line, and send a stream error to the
/// server.
#[test]
fn a_malformed_response_is_a_failure_of_get() {
    let frame = |kind: u8, flags: u8, stream: u8, body: &[u8]| {
        [&[0, 0, body.len() as u8, kind, flags, 0, 0, 0, stream][..], body].concat()
    };
    // `:status: 200` is 0x88 (RFC 7541 A). The other fields are literals.
    let cases = [
        (frame(1, 4, 1, &[0x88, 0, 1, b'x', 2, b' ', b'y']), "a field value begins or ends with white space"),
        (frame(1, 4, 1, &[0x08, 3, b'1', b'0', b'1']), "a response has the status 101"),
        (frame(1, 4, 1, &[0x08, 3, b'2', b'0', b'4']), "the content is longer than content-length"),
        (frame(1, 4, 1, &[0x88, 0x88]), "protocol error detected"),
    ];
    for (head, line) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        // The content does not end the stream, so that the client can reset the stream. Status 101 is not followed by
        // content, because content before a final head would be a connection error.
        let content = if line.ends_with("101") { Vec::new() } else { frame(0, 0, 1, b"hello") };
        let answer = [head, content].concat();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).expect("sent");
            stream.read_exact(&mut [0; 24]).expect("a preface");
            let (mut head, mut reset) = ([0; 9], None);
            while stream.read_exact(&mut head).is_ok() {
                let mut body = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
                stream.read_exact(&mut body).expect("a whole frame");
                match head[3] {
                    1 => stream.write_all(&answer).expect("sent"),
                    3 => reset = Some(body),
                    _ => {}
                }
            }
            reset
        });
        let output = run(anabranch().args(["get", "--quiet", "--http", "2", &url]));
        let err = errors(&output);
        assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
        assert!(err.contains(line), "{err}");
        assert_eq!(server.join().expect("served"), Some(vec![0, 0, 0, 1]), "{err}");
    }
}

/// nginx, which serves a directory over TLS with HTTP/2. It is stopped on drop.
pub struct Nginx {
    child: Child,
    /// The TCP port.
    pub port: u16,
}

impl Nginx {
    /// Starts an nginx that serves the directory `scratch`. The files that nginx needs, such as the certificate, are
    /// written to the same directory. `arguments` are additional settings of nginx.
    pub fn start(scratch: &Scratch, arguments: &str) -> Self {
        let file = |name: &str| format!("{}/{name}", scratch.text());
        let output = run(Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"])
            .args(["-keyout", &file("key.pem"), "-out", &file("cert.pem")])
            .args(["-addext", "subjectAltName=DNS:localhost"]));
        assert!(output.status.success(), "{}", errors(&output));
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let config = format!(
            "daemon off; pid {0}/pid; error_log {0}/errors; events {{}}\n\
             http {{ access_log {0}/log; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;\n\
             uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; {arguments}\n\
             server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem;\n\
             root {0}; }} }}\n",
            scratch.text()
        );
        scratch.file("nginx.conf", config);
        let child = Command::new("nginx")
            .args(["-p", scratch.text(), "-c", &file("nginx.conf"), "-g", "master_process off;"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx");
        let mut nginx = Self { child, port };
        wait_until_listening(&mut nginx.child, ([127, 0, 0, 1], port).into());
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn our_client_gets_from_nginx() {
    if !has("nginx") || !has("openssl") {
        return;
    }
    let scratch = Scratch::new("http2-nginx");
    let body = noise(3_000_000);
    scratch.file("big.bin", &body);
    let nginx = Nginx::start(&scratch, "");
    let (url, trust) =
        (format!("https://localhost:{}/big.bin", nginx.port), format!("{}/cert.pem", scratch.text()));
    let output = run(anabranch().args(["get", "--quiet", "--trust", &trust, &url]));
    drop(nginx);
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
    assert!(output.stdout == body, "another body");
    let log = fs::read_to_string(format!("{}/log", scratch.text())).expect("a log");
    assert!(log.contains("\"GET /big.bin HTTP/2.0\" 200 3000000"), "{log}");
}

/// Runs `load` with `--json -`. Returns the exit code and the result.
fn load(url: &str, words: &str) -> (Option<i32>, serde_json::Value) {
    let words = words.split_whitespace();
    let output =
        run(anabranch().args(["load", url, "--quiet", "--timeout", "60s", "--json", "-"]).args(words));
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn a_load_has_many_requests_outstanding_on_a_connection() {
    let scratch = Scratch::new("http2-load");
    scratch.file("1k", noise(1_000));
    let server = serve(&scratch, "log");
    for (scheme, arguments, http2) in [
        ("https", "--insecure --streams 8", 3),
        ("https", "--insecure --streams 8 --http 2", 3),
        ("https", "--insecure --http 1.1", 0),
        ("http", "--streams 8 --http 2", 3),
        ("http", "", 0),
        ("http", "--http 2 --rate 2000/s --streams 4", 3),
    ] {
        let url = format!("{}1k", server.url(scheme));
        let (code, result) = load(&url, &format!("{arguments} -c 3 --requests 300"));
        assert_eq!(code, Some(0), "{arguments}: {result}");
        let (connections, replies) = (&result["connections"], &result["replies"]);
        assert_eq!((&connections["total"], &connections["http2"]), (&3.into(), &http2.into()), "{arguments}");
        assert_eq!(
            (&replies["status"]["2xx"], &replies["content_bytes"]),
            (&300.into(), &300_000.into()),
            "{arguments}"
        );
        // HTTP/2 refers to header fields that were sent before, so later heads are small.
        let size = |value: &serde_json::Value| value.as_u64().expect("a number") / 300;
        let (request, head) = (size(&result["requests"]["bytes"]), size(&replies["header_bytes"]));
        let expected = if http2 > 0 { (14..50, 20..80) } else { (60..90, 150..300) };
        assert!(expected.0.contains(&request) && expected.1.contains(&head), "{arguments}: {request} {head}");
    }
    // In these sessions, all objects are requested at once.
    let url = format!("{}1k", server.url("https"));
    let (code, result) = load(&url, "--insecure --rate 100/s --sessions 5 --objects-per-session 20");
    assert_eq!(
        (code, &result["replies"]["total"], &result["plan"]["streams"]),
        (Some(0), &100.into(), &20.into())
    );
    assert_eq!(server.end(), 0);
    let log = fs::read_to_string(format!("{}/log", scratch.text())).expect("a log");
    assert_eq!(log.matches("\"GET /1k HTTP/2.0\" 200 1000").count(), 4 * 300 + 100);
    assert_eq!(log.matches("\"GET /1k HTTP/1.1\" 200 1000").count(), 2 * 300);
}

/// nginx accepts a limited number of requests per connection. The client must not report this as a failure, and must
/// send unprocessed requests on the next connection.
#[test]
fn a_load_goes_on_where_a_server_ends_its_connections() {
    if !has("nginx") || !has("openssl") {
        return;
    }
    let scratch = Scratch::new("http2-goaway");
    scratch.file("1k", noise(1_000));
    let nginx = Nginx::start(&scratch, "keepalive_requests 20;");
    let url = format!("https://localhost:{}/1k", nginx.port);
    for pace in ["-c 2", "-c 2 --rate 2000/s"] {
        let (code, result) = load(&url, &format!("--insecure {pace} --streams 4 --requests 200"));
        assert_eq!((code, &result["replies"]["status"]["2xx"]), (Some(0), &200.into()), "{result}");
        assert!(result["connections"]["total"].as_u64() >= Some(10), "{result}");
    }
}

#[test]
fn nghttp_gets_whatever_its_windows_and_frames() {
    if !has("nghttp") {
        return;
    }
    let scratch = Scratch::new("http2-nghttp");
    let body = noise(900_000);
    scratch.file("big.bin", &body);
    let server = serve(&scratch, "log");
    let mut got = 0;
    for (scheme, arguments) in [
        ("https", ""),
        ("http", ""),
        // The client's flow-control windows for the stream and for the connection have 2^10 - 1 = 1,023 bytes.
        ("https", "-w 10 -W 10"),
        ("http", "-c 0 --encoder-header-table-size 0"),
        // These frames have padding, and the priorities of RFC 7540.
        ("https", "--padding 200 --weight 256"),
    ] {
        let url = format!("{}big.bin", server.url(scheme));
        let output =
            run(Command::new("nghttp").args(["-y", "-t", "60"]).args(arguments.split_whitespace()).arg(&url));
        assert!(
            output.status.success() && output.stdout == body,
            "{scheme} {arguments}: {}",
            errors(&output)
        );
        got += 1;
    }
    let url = format!("{}big.bin", server.url("https"));
    let output = run(Command::new("nghttp").args(["-y", "-t", "60", "-n", "-s", "-m", "7", &url]));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(stdout.matches(" 200 878K ").count(), 7, "{stdout}");
    // A head of 18 kB in two frames exceeds the limit of our server.
    let output = run(Command::new("nghttp").args(["-y", "-t", "60", "-v", "--continuation", &url]));
    assert!(String::from_utf8_lossy(&output.stdout).contains(":status: 431"), "{}", errors(&output));
    assert_eq!(server.end(), 0, "every session has ended");
    let log = fs::read_to_string(format!("{}/log", scratch.text())).expect("a log");
    assert_eq!(log.matches("\"GET /big.bin HTTP/2.0\" 200 900000").count(), got + 7, "{log}");
}

#[test]
fn h2load_and_load_count_the_same() {
    if !has("h2load") {
        return;
    }
    let scratch = Scratch::new("http2-h2load");
    scratch.file("1k", noise(1_000));
    let server = serve(&scratch, "log");
    for scheme in ["https", "http"] {
        let url = format!("{}1k", server.url(scheme));
        let output = run(Command::new("h2load").args(["-n", "2000", "-c", "5", "-m", "10", &url]));
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in [
            "requests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout",
            "status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx",
        ] {
            assert!(stdout.contains(line), "{scheme}: {stdout}");
        }
        // The line looks like `traffic: 2.1MB (2158000) total, 60KB (58000) headers (space savings 75%), 1.91MB
        // (2000000) data`.
        let bytes = |what: &str| {
            let line = stdout.lines().find(|line| line.starts_with("traffic: "));
            let before =
                line.and_then(|line| line.split(what).next()).and_then(|before| before.rsplit('(').next());
            before
                .and_then(|number| number.split(')').next()?.parse::<u64>().ok())
                .unwrap_or_else(|| panic!("{stdout}"))
        };
        let words = if scheme == "https" { "--insecure" } else { "" };
        let (code, result) = load(&url, &format!("{words} --http 2 -c 5 --streams 10 --requests 2000"));
        assert_eq!((code, &result["replies"]["status"]["2xx"]), (Some(0), &2000.into()), "{result}");
        let replies = &result["replies"];
        assert_eq!(replies["content_bytes"], bytes(" data"), "{scheme}");
        // The byte counts of the two clients must agree within 5 %. They send different settings, and their data is
        // divided into frames differently.
        let counted = (&replies["header_bytes"], &replies["content_bytes"]);
        let counted = counted.0.as_u64().zip(counted.1.as_u64()).map(|(heads, content)| heads + content);
        let (counted, h2load_bytes) = (counted.expect("numbers"), bytes(" total, "));
        assert!(counted.abs_diff(h2load_bytes) < h2load_bytes / 20, "{scheme}: {counted} {h2load_bytes}");
    }
    assert_eq!(server.end(), 0);
}

#[test]
fn a_page_comes_over_tls_by_either_version_and_in_the_clear_by_http_2() {
    let scratch = Scratch::new("http2-page");
    let image = noise(150_000);
    let images: String = (0..12).map(|n| format!("<img src=\"{n}.png\">")).collect();
    scratch.file("site/index.html", format!("<link rel=stylesheet href=\"s.css\">{images}"));
    scratch.file("site/s.css", "body { background: url(12.png) }");
    for n in 0..13 {
        scratch.file(&format!("site/{n}.png"), &image);
    }
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text());
    command.args(["serve", &format!("{}/site", scratch.text())]);
    command.args(["--listen", "https://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]);
    let server = Running::start_as(command, fs::File::create(scratch.file("log", "")).expect("a log"));
    for (number, (scheme, words, version, connections)) in [
        ("https", &["--insecure"][..], "HTTP/2.0", 1..=1),
        ("https", &["--insecure", "--http", "1.1"], "HTTP/1.1", 2..=6),
        ("http", &["--http", "2"], "HTTP/2.0", 1..=1),
        ("http", &["--http", "1.1"], "HTTP/1.1", 2..=6),
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("{}/out{number}", scratch.text());
        let mut command = anabranch();
        command.args(["get", "--page", "--quiet", "--json", "-", "-o", &out, server.url(scheme)]).args(words);
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", errors(&output));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let objects = result["objects"].as_array().expect("a list");
        assert_eq!(objects.len(), 15, "{result}");
        let mut used: Vec<u64> = objects.iter().filter_map(|object| object["connection"].as_u64()).collect();
        used.sort_unstable();
        used.dedup();
        assert!(connections.contains(&used.len()), "{words:?}: {used:?}");
        for n in 0..13 {
            assert!(fs::read(format!("{out}/{n}.png")).expect("written") == image, "{words:?}: {n}");
        }
        let log = fs::read_to_string(format!("{}/log", scratch.text())).expect("a log");
        assert_eq!(log.lines().filter(|line| line.contains(version)).count(), 15 * (1 + number / 2), "{log}");
    }
    let mut command = anabranch();
    command.args([
        "get",
        "--page",
        "--quiet",
        server.url("https"),
        "--trust",
        &format!("sha256:{}", "00".repeat(32)),
    ]);
    let output = run(&mut command);
    assert_eq!((output.status.code(), errors(&output).lines().count()), (Some(1), 1), "{}", errors(&output));
    assert!(errors(&output).contains("another fingerprint"), "{}", errors(&output));
    assert_eq!(server.end(), 0);
}
