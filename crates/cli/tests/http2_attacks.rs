//! Tests publicly known attacks of malicious HTTP/2 clients, for example rapid reset (CVE-2023-44487). `serve` must
//! keep running, serve other clients meanwhile, and use little memory and CPU time.
//!
//! Frames are made by hand (RFC 9113 §4.1, RFC 7541) and sent over the loopback interface, with and without TLS.

#![cfg(target_os = "linux")]

use crate::peer::in_a_world;
use crate::running::{LONG, Running, Scratch, anabranch, noise, run, wait_until_steady};
use anabranch_tls::{Client, ClientSettings, Surroundings, TlsConnector, Trust};
use anabranch_transport::kernel::KernelConnector;
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the client's connection preface with these settings.
fn hello(settings: &[u8]) -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, settings)].concat()
}

/// Encodes a setting (RFC 9113 §6.5.1).
fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// Returns the header section of a GET for `path`. It has indexed fields, and literals that are not added to the table.
fn head(path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).expect("short");
    [&[0x82, 0x86, 0x04, length], path.as_bytes(), &[0x01, 1, b'a']].concat()
}

fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(path))
}

/// A `serve` process with a listener without TLS and a listener over TLS.
struct Target {
    site: Scratch,
    server: Running,
    resident_before: u64,
    cpu_before: u64,
}

impl Target {
    fn new(name: &str, arguments: &[&str]) -> Self {
        let site = Scratch::new(name);
        site.file("site/index.html", "<p>home");
        site.file("site/big", noise(8_000_000));
        let mut command = anabranch();
        command.env("XDG_STATE_HOME", site.text());
        command.args(["serve", &format!("{}/site", site.text()), "-q", "--listen", "tcp://127.0.0.1:0"]);
        command.args(["--listen", "https://127.0.0.1:0"]).args(arguments);
        let server = Running::start_as(command, std::process::Stdio::null());
        let mut target = Self { site, server, resident_before: 0, cpu_before: 0 };
        target.is_served();
        (target.resident_before, target.cpu_before) = (target.server.resident(), target.server.cpu_time());
        target
    }

    /// Checks that honest clients are served over each version of HTTP.
    fn is_served(&self) {
        for (scheme, version) in [("http", "1.1"), ("http", "2"), ("https", "2")] {
            let arguments = ["get", "-q", "--http", version, self.server.url(scheme)];
            let got = run(anabranch().args(arguments).args((scheme == "https").then_some("--insecure")));
            let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
            assert_eq!(
                (got.status.code(), got.stdout.as_slice()),
                (Some(0), &b"<p>home"[..]),
                "{scheme} {version}: {stderr}"
            );
        }
    }

    fn connect(&self, settings: &[u8]) -> TcpStream {
        let mut stream = self.server.connect();
        stream.write_all(&hello(settings)).expect("said");
        stream
    }

    /// Checks that the server is still running and stayed within these limits of memory and CPU time.
    fn assert_within_limits(mut self, what: &str, most_kib: u64, most_seconds: f64) {
        self.is_served();
        assert!(self.server.still_runs());
        let (peak, after) = (self.server.peak(), self.server.resident());
        let seconds = (self.server.cpu_time() - self.cpu_before) as f64 / 100.0;
        println!(
            "{what}: {} KiB, peak {peak}, now {after}; {seconds} s of processor time",
            self.resident_before
        );
        assert!(peak < self.resident_before + most_kib, "{what}: {} KiB, then {peak}", self.resident_before);
        assert!(seconds < most_seconds, "{what}: {seconds} s of processor time");
        assert_eq!(self.server.end(), 0);
        drop(self.site);
    }
}

/// Reads frames until the end. Returns their types and the code of GOAWAY, if there was one.
fn read_all(stream: &mut TcpStream) -> (Vec<u8>, Option<u32>) {
    let (mut kinds, mut code) = (Vec::new(), None);
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        if stream.read_exact(&mut payload).is_err() {
            break;
        }
        if head[3] == GOAWAY {
            code = payload.get(4..8).map(|code| u32::from_be_bytes(code.try_into().expect("four")));
        }
        kinds.push(head[3]);
    }
    (kinds, code)
}

/// ENHANCE_YOUR_CALM (RFC 9113 §7).
const CALM: u32 = 11;

/// CVE-2023-44487 (rapid reset): a client cancels each request at once. Such requests cost the server full work, but do
/// not count towards the stream limit. The server must end the connection.
#[test]
fn requests_that_are_cancelled_at_once_end_the_connection() {
    let target = Target::new("http2-rapid", &[]);
    let many: Vec<u8> = (0..50_000_u32)
        .flat_map(|at| {
            [request(2 * at + 1, "/big"), frame(RST_STREAM, 0, 2 * at + 1, &[0, 0, 0, 8])].concat()
        })
        .collect();
    for _ in 0..3 {
        let mut stream = target.connect(&[]);
        // A write error is ignored, because the server may close the connection during the write.
        let _ = stream.write_all(&many);
        let (_, code) = read_all(&mut stream);
        assert!(code.is_none_or(|code| code == CALM), "{code:?}");
    }
    target.assert_within_limits("rapid reset", 40_000, 10.0);
}

/// Over TLS, a client that cancels every request at once must also be disconnected.
#[test]
fn requests_that_are_cancelled_at_once_end_the_connection_over_tls() {
    let target = Target::new("http2-rapid-tls", &[]);
    let url = target.server.url("https").trim_start_matches("https://").trim_end_matches('/').to_owned();
    in_a_world(async |world| {
        let settings = ClientSettings {
            trust: Trust::Anybody,
            protocols: vec![b"h2".to_vec()],
            ..ClientSettings::default()
        };
        let client = Client::new(settings, Surroundings::Real).expect("a client");
        let kernel = KernelConnector::new(world.clone(), vec![url.parse().expect("an address")]);
        let connector =
            TlsConnector::new(world.clone(), kernel, client, &["localhost".to_owned()]).expect("a name");
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("established");
        let mut stream = session.open(0).expect("a stream");
        let mut ended = stream.write_all(&hello(&[])).await.is_err();
        for at in 0..50_000_u32 {
            let both =
                [request(2 * at + 1, "/big"), frame(RST_STREAM, 0, 2 * at + 1, &[0, 0, 0, 8])].concat();
            ended = ended || stream.write_all(&both).await.is_err();
            if ended {
                break;
            }
        }
        // Reads everything that the server sends, until the end.
        let deadline = world.now() + LONG;
        let read = async {
            let mut piece = vec![0; 4096];
            while let Ok(1..) = stream.read(&mut piece).await {}
        };
        let left = deadline - world.now();
        assert!(world.timeout(left, read).await.is_some(), "the connection goes on");
    });
    target.assert_within_limits("rapid reset over TLS", 40_000, 10.0);
}

/// CVE-2024-27316: a header section continues in CONTINUATION frames and never ends. The server must not wait for its
/// end.
#[test]
fn a_head_without_end_is_not_waited_for() {
    let target = Target::new("http2-continuation", &[]);
    // The CONTINUATION frames either repeat one field, which is not added to the dynamic table, or are empty.
    let field = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    for piece in [field.repeat(150), Vec::new()] {
        let mut stream = target.connect(&[]);
        let mut write_result = stream.write_all(&frame(HEADERS, END_STREAM, 1, &head("/")));
        let (more, mut count) = (frame(CONTINUATION, 0, 1, &piece).repeat(16), 0);
        while write_result.is_ok() && count < 4000 {
            write_result = stream.write_all(&more);
            count += 1;
        }
        let (kinds, code) = read_all(&mut stream);
        assert!(write_result.is_err() || code == Some(CALM), "64,000 frames are taken: {kinds:?} {code:?}");
        assert!(!kinds.contains(&HEADERS), "it was answered: {kinds:?}");
    }
    target.assert_within_limits("CONTINUATION", 20_000, 10.0);
}

/// A header section consists of one-byte indexes, and each index stands for a field of 4,000 bytes (RFC 7541 §7.3). If
/// the section expands beyond the limit, it must be rejected.
#[test]
fn a_head_that_unfolds_is_refused() {
    let target = Target::new("http2-bomb", &[]);
    let mut stream = target.connect(&[]);
    // The client adds an entry to the dynamic table. Each later header section contains the index of this entry 8,000
    // times.
    let entry = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
    let first = frame(HEADERS, END_HEADERS | END_STREAM, 1, &[head("/"), entry].concat());
    stream.write_all(&first).expect("said");
    let bomb = [head("/"), vec![0xbe; 8000]].concat();
    for at in 1..200_u32 {
        if stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * at + 1, &bomb)).is_err() {
            break;
        }
    }
    stream.shutdown(std::net::Shutdown::Write).expect("said");
    let (kinds, _) = read_all(&mut stream);
    // The first request is answered with a head and a body. No other request may get a body.
    let bodies = kinds.iter().filter(|kind| **kind == DATA).count();
    assert!(bodies <= 1, "{kinds:?}");
    target.assert_within_limits("HPACK", 20_000, 15.0);
}

/// Clients flood the server with frames that cost little and require a response (CVE-2019-9512, -9515), or with empty
/// frames (CVE-2019-9518). Some clients read the responses, others do not. Honest clients must still be served.
#[test]
fn floods_of_small_frames_starve_nobody() {
    let target = Target::new("http2-flood", &["--idle", "10min"]);
    let stop = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicU64::new(0));
    let kinds = [
        ("PING", frame(PING, 0, 0, &[1; 8]), true),
        ("PING, unread", frame(PING, 0, 0, &[1; 8]), false),
        ("SETTINGS", frame(SETTINGS, 0, 0, &setting(4, 1000)), true),
        ("SETTINGS, unread", frame(SETTINGS, 0, 0, &[]), false),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), true),
        ("of an unknown kind", frame(99, 0, 0, &[]), true),
    ];
    for (name, flood, reads) in kinds {
        stop.store(false, Ordering::Relaxed);
        sent.store(0, Ordering::Relaxed);
        let mut stream = target.connect(&[]);
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a deadline");
        let mut reader = stream.try_clone().expect("a handle");
        let reading = reads.then(|| {
            thread::spawn(move || {
                let mut piece = [0; 65536];
                while let Ok(1..) = reader.read(&mut piece) {}
            })
        });
        let (stop_flag, counted) = (stop.clone(), sent.clone());
        let many = flood.repeat(1000);
        let flooding = thread::spawn(move || {
            // A failed write may have sent only a part of a frame, so the flood ends at the first failed write.
            while !stop_flag.load(Ordering::Relaxed) && stream.write_all(&many).is_ok() {
                counted.fetch_add(1000, Ordering::Relaxed);
            }
            stream
        });
        for _ in 0..3 {
            target.is_served();
        }
        println!("{name}: {} frames meanwhile", sent.load(Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        let stream = flooding.join().expect("ended");
        let _ = stream.shutdown(std::net::Shutdown::Both);
        if let Some(reading) = reading {
            reading.join().expect("ended");
        }
    }
    // Each frame is read and answered. The sender decides how much CPU time that costs, but memory must stay bounded.
    target.assert_within_limits("floods", 20_000, f64::INFINITY);
}

/// A client sends endless trailers and other permitted frames without a request or an acknowledgement. These frames
/// must not keep the connection open forever.
#[test]
fn frames_that_accomplish_nothing_end_the_connection() {
    let target = Target::new("http2-fruitless", &["--idle", "10min"]);
    let unended = frame(HEADERS, END_HEADERS, 1, &head("/"));
    let trailers = frame(HEADERS, END_HEADERS, 1, &[0, 1, b'x', 1, b'y']);
    for (name, first, more) in [
        ("trailers", unended.clone(), trailers),
        ("empty DATA", unended.clone(), frame(DATA, 0, 1, &[])),
        ("PING", Vec::new(), frame(PING, 0, 0, &[1; 8])),
        ("of an unknown kind", Vec::new(), frame(99, 0, 0, &[])),
    ] {
        let mut stream = target.connect(&[]);
        let mut reader = stream.try_clone().expect("a handle");
        let reading = thread::spawn(move || read_all(&mut reader));
        let mut write_result = stream.write_all(&first);
        for _ in 0..400 {
            write_result = write_result.and_then(|()| stream.write_all(&more.repeat(100)));
        }
        let (_, code) = reading.join().expect("read");
        assert!(code.is_none_or(|code| code > 0), "{name}: {code:?} {write_result:?}");
    }
    target.assert_within_limits("frames that accomplish nothing", 20_000, 20.0);
}

/// Clients request large files and block the responses: with windows of zero (CVE-2019-9517), with a maximal window and
/// an unread socket, and with one byte at a time. The server must hold little memory for these clients, and must close
/// their connections.
#[test]
fn clients_that_read_nothing_hold_little_memory_and_are_closed() {
    let target = Target::new("http2-window", &["--idle", "3s"]);
    let mut connections = Vec::new();
    for at in 0..30 {
        let window = [0, (1 << 31) - 1, 1][at % 3];
        let mut stream = target.connect(&setting(4, window));
        // The client sends more concurrent requests than are accepted (128). The server must reject the requests beyond
        // that number and not queue them.
        for id in 0..300 {
            stream.write_all(&request(2 * id + 1, "/big")).expect("said");
        }
        connections.push(stream);
    }
    wait_until_steady("it holds what it may", || target.server.resident());
    target.is_served();
    for mut stream in connections {
        // After a while, the server must close the connections of all clients that read nothing.
        let _ = read_all(&mut stream);
    }
    // 60,000 KiB of memory are enough for 30 sessions with 128 responses each.
    target.assert_within_limits("windows", 60_000, 20.0);
}

/// Invalid frames (RFC 9113 §4.2) and windows beyond the maximum (§6.9.1) must end the connection.
#[test]
fn invalid_frames_end_the_connection() {
    let target = Target::new("http2-broken", &[]);
    let most = 0x7fff_ffff_u32.to_be_bytes();
    for (name, frames) in [
        ("a window beyond 2^31", frame(WINDOW_UPDATE, 0, 0, &most)),
        ("a stream of even number", request(2, "/")),
        ("DATA of no stream", frame(DATA, 0, 0, b"x")),
        ("a PING of 7 bytes", frame(PING, 0, 0, &[0; 7])),
        ("a frame of 16 MiB", vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]),
        ("a head that is none", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff; 20])),
        (
            "a table larger than agreed",
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x3f, 0xff, 0xff, 0x7f]),
        ),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &head("/"))),
        ("a setting that cannot be", frame(SETTINGS, 0, 0, &setting(4, 1 << 31))),
    ] {
        let mut stream = target.connect(&[]);
        stream.write_all(&frames).expect("said");
        let (kinds, code) = read_all(&mut stream);
        assert!(code.is_some_and(|code| code > 0), "{name}: {kinds:?} {code:?}");
        assert!(!kinds.contains(&HEADERS), "{name}: it was answered: {kinds:?}");
    }
    // RFC 9113 §3.4: SETTINGS must follow the preface.
    let mut stream = target.server.connect();
    let all =
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(PING, 0, 0, &[0; 8]), &request(1, "/")].concat();
    stream.write_all(&all).expect("said");
    let (kinds, code) = read_all(&mut stream);
    assert_eq!((code, kinds.contains(&HEADERS)), (Some(1), false), "{kinds:?}");
    target.assert_within_limits("broken frames", 20_000, 10.0);
}

impl Running {
    /// Returns the CPU time that the server has used, in hundredths of a second.
    fn cpu_time(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("running");
        // proc(5): the CPU time is in fields 14 and 15 of the file. Field 2, the program's name, ends at the last `)`
        // and may contain any character. The 11 fields after it are skipped.
        let rest = stat.rsplit(')').next().expect("fields");
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
    }
}
