//! Tests the memory that a server uses for clients that do not read. It must be less than `--memory` plus what the
//! program itself needs.
//!
//! Each attack uses hand-made packets on the loopback interface against the built program, while an honest client is
//! served. The server's peak memory must not exceed the limit, so an attack continues until this peak no longer grows.
//! With the environment variable `ATTACK=10`, each attack is repeated ten times.

#![cfg(target_os = "linux")]

use crate::raw_sctp::{BEGIN, Raw, WHOLE};
use crate::running::{Running, Scratch, anabranch, noise, run, wait_until_steady};
use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_base::{Account, Budget};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The default of `--memory` in MiB.
const MEMORY: u64 = 256;
/// The memory of the program itself and of its allocator's caches, in KiB.
const BASE: u64 = 48 << 10;
const TCP_AND_SCTP: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
/// With these flags, no session times out during the test, and a connection slot remains for the honest client.
const PATIENT: [&str; 6] = ["--connections", "1100", "--header-timeout", "10min", "--idle", "10min"];
const BIG: &[u8] = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n";

struct Rig {
    _site: Scratch,
    _behind: Option<Running>,
    target: Running,
    /// The `--memory` limit of the target, in MiB.
    memory: u64,
    stop: Arc<AtomicBool>,
    honest: JoinHandle<usize>,
}

impl Rig {
    /// Starts `serve` and an honest client. If `gateway`, also starts a `gateway` between the client and `serve`.
    fn new(name: &str, gateway: bool) -> Self {
        Self::with(name, gateway, MEMORY, &[])
    }

    /// Like [`new`](Self::new), with this `--memory` in MiB and additional flags.
    fn with(name: &str, gateway: bool, memory: u64, more: &[&str]) -> Self {
        let limit = format!("{memory}MiB");
        // The flag is omitted for the default value, so that the default itself is tested.
        let more = if memory == MEMORY { more.to_vec() } else { [&["--memory", &limit], more].concat() };
        let site = Scratch::new(name);
        site.file("index.html", "<p>home");
        site.file("big", noise(40_000_000));
        let serve = ["serve", site.text(), "-q"];
        let arguments = [&serve, &TCP_AND_SCTP[..], &PATIENT[..], &more].concat();
        // The origin of the gateway accepts enough connections for all exchanges.
        let origin = [&serve[..], &["--listen", "tcp://127.0.0.1:0", "--connections", "10000"]].concat();
        let mut target = Running::start(if gateway { &origin } else { &arguments });
        let mut origin_process = None;
        if gateway {
            let gateway = gateway_to(target.url("http"), &more);
            origin_process = Some(std::mem::replace(&mut target, gateway));
        }
        Self::with_honest_client(site, origin_process, target, memory)
    }

    /// Starts a `gateway` in front of this origin.
    fn in_front_of(name: &str, origin: impl FnOnce() -> SocketAddr) -> Self {
        let target = gateway_to(&format!("http://{}/", origin()), &[]);
        Self::with_honest_client(Scratch::new(name), None, target, MEMORY)
    }

    fn with_honest_client(site: Scratch, origin: Option<Running>, target: Running, memory: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stop_flag, urls) =
            (stop.clone(), [target.url("http+sctp").to_owned(), target.url("http").to_owned()]);
        let honest = thread::spawn(move || {
            let mut served = 0;
            while !stop_flag.load(Ordering::Relaxed) || served < 4 {
                let got = run(anabranch().args(["get", "-q", "--timeout", "30s", &urls[served % 2]]));
                let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
                assert!(got.status.code() == Some(0) && got.stdout == b"<p>home", "not served: {stderr}");
                served += 1;
            }
            served
        });
        Self { _site: site, _behind: origin, target, memory, stop, honest }
    }

    /// Checks that the honest client was served all the time, and that the target stayed within its memory limit.
    fn holds(mut self, what: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let served = self.honest.join().expect("the honest client is served");
        let peak = self.target.peak();
        println!("{what}: peak {peak} KiB, now {}; honest: {served} gets", self.target.resident());
        assert!(self.target.still_runs());
        assert!(peak < (self.memory << 10) + BASE, "{what}: {peak} KiB");
    }
}

/// Starts a gateway in front of `origin`. Its limit on exchanges is so high that only the memory limit applies.
fn gateway_to(origin: &str, more: &[&str]) -> Running {
    let arguments =
        ["gateway", "-q", "--origin", origin, "--exchanges", "30000", "--connect-timeout", "1min"];
    Running::start(&[&arguments, &TCP_AND_SCTP[..], &PATIENT[..], more].concat())
}

/// Half of the memory budget is divided equally among the sessions. Each session is guaranteed its part, but at most
/// 256 KiB. This amount is the session's floor. The rest of the budget is a pool. Beyond its floor, a session's account
/// may take an eighth of the free bytes in the pool, so each account leaves less for the next one.
#[test]
fn half_of_the_budget_is_a_floor_for_each_session() {
    for (mib, sessions, floor) in [(256, 1024, 128 << 10), (256, 2048, 64 << 10), (256, 16, 256 << 10)] {
        let total = mib << 20;
        let budget = Budget::new(total, sessions);
        let rest = total - floor * sessions;
        assert_eq!((budget.floor(), budget.room()), (floor, rest / 8), "{sessions} sessions");
        let mut account = Account::new(&budget, 1);
        account.set_usage(account.limit());
        assert_eq!(budget.room(), (rest - rest / 8) / 8, "{sessions} sessions");
        assert_eq!(Account::new(&budget, 1).floor(), floor, "{sessions} sessions: nobody takes a floor");
    }
}

/// Returns the factor by which the environment variable `ATTACK` prolongs all attacks; 1 by default.
fn times() -> usize {
    std::env::var("ATTACK").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Continues the attack: answers the packets of the target until its peak memory no longer grows.
fn go_on(rig: &Rig, raw: &mut Raw) {
    for _ in 0..times() {
        raw.listen_until_steady(|| rig.target.peak());
    }
}

/// A thousand associations each request a large file, and read it 1.5 kB at a time.
fn a_window_of_little(gateway: bool) {
    let rig = Rig::new(&format!("memory-slow-{gateway}"), gateway);
    let mut raw = Raw::associate(&rig.target, 1024, 1500);
    for at in 0..raw.associations.len() {
        raw.associations[at].window = 0;
        raw.say(at, 0, 0, BIG);
        raw.take_next();
    }
    for _ in 0..3 * times() {
        raw.listen_until_steady(|| rig.target.peak());
        for at in 0..raw.associations.len() {
            raw.associations[at].window = 1500;
            raw.sack(at);
            raw.associations[at].window = 0;
        }
    }
    println!("{} are there", raw.alive());
    rig.holds("1.5 kB at a time");
}

#[test]
fn serve_slow_readers() {
    if !are_slow_tests_enabled() {
        return;
    }
    a_window_of_little(false);
}

#[test]
fn gateway_slow_readers() {
    if !are_slow_tests_enabled() {
        return;
    }
    a_window_of_little(true);
}

/// The clients first read fast, so that all windows grow, and then stop.
fn fast_then_shut(gateway: bool, threads: &str) {
    let rig = Rig::with(&format!("memory-fast-{gateway}-{threads}"), gateway, 100, &["--threads", threads]);
    let mut raw = Raw::associate(&rig.target, 300, 8 << 20);
    for at in 0..raw.associations.len() {
        raw.associations[at].allowed = 1 << 20;
        raw.say(at, 0, 0, BIG);
        raw.listen_while(100, |raw| raw.associations[at].received < 1 << 20);
    }
    go_on(&rig, &mut raw);
    println!("{} are there", raw.alive());
    rig.holds("fast, then shut");
}

#[test]
fn serve_readers_that_stop() {
    if !are_slow_tests_enabled() {
        return;
    }
    fast_then_shut(false, "1");
}

/// All threads of the server must share one memory budget.
#[test]
fn serve_readers_that_stop_in_any_thread() {
    if !are_slow_tests_enabled() {
        return;
    }
    fast_then_shut(false, "3");
}

#[test]
fn gateway_readers_that_stop() {
    if !are_slow_tests_enabled() {
        return;
    }
    fast_then_shut(true, "1");
}

/// A hundred requests are sent on each association, and no response is read.
fn requests_at_a_shut_window(gateway: bool) {
    let rig = Rig::new(&format!("memory-shut-{gateway}"), gateway);
    let mut raw = Raw::associate(&rig.target, 295, 1500);
    for at in 0..raw.associations.len() {
        raw.associations[at].window = 0;
        for stream in 0..100 {
            raw.say(at, stream, 0, BIG);
        }
        raw.listen(2);
    }
    go_on(&rig, &mut raw);
    println!("{} are there", raw.alive());
    rig.holds("a hundred requests each");
}

#[test]
fn serve_requests_at_a_shut_window() {
    if !are_slow_tests_enabled() {
        return;
    }
    requests_at_a_shut_window(false);
}

#[test]
fn gateway_requests_at_a_shut_window() {
    if !are_slow_tests_enabled() {
        return;
    }
    requests_at_a_shut_window(true);
}

/// Clients send requests with heads of the maximum size, and read no response. The gateway must stay within its memory
/// limit.
#[test]
fn gateway_requests_with_large_heads() {
    if !are_slow_tests_enabled() {
        return;
    }
    let rig = Rig::new("memory-heads", true);
    let mut raw = Raw::associate(&rig.target, 295, 1500);
    let request = format!("GET /big?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(15_000));
    for at in 0..raw.associations.len() {
        raw.associations[at].window = 0;
        for stream in 0..30 {
            raw.say(at, stream, 0, request.as_bytes());
        }
        raw.listen(2);
    }
    go_on(&rig, &mut raw);
    println!("{} are there", raw.alive());
    rig.holds("large heads");
}

/// A malicious origin sends response heads of almost the maximum size, complete or incomplete.
fn answers_with_large_heads(whole: bool) {
    let rig = Rig::in_front_of(&format!("memory-answers-{whole}"), move || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let field = format!("X: {}\r\n", "x".repeat(60_000));
            let end = if whole { "Content-Length: 10\r\n\r\n" } else { "" };
            let conspires = format!("HTTP/1.1 200 OK\r\n{field}{end}");
            let mut streams = Vec::new();
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).unwrap_or(0);
                let is_big = request[..read].starts_with(b"GET /big");
                let honest = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n<p>home";
                let _ = stream.write_all(if is_big { &conspires } else { honest }.as_bytes());
                if is_big {
                    streams.push(stream);
                }
            }
        });
        address
    });
    let mut raw = Raw::associate(&rig.target, 295, 1500);
    for at in 0..raw.associations.len() {
        raw.associations[at].window = 0;
        for stream in 0..30 {
            raw.say(at, stream, 0, BIG);
        }
        raw.listen(2);
    }
    go_on(&rig, &mut raw);
    println!("{} are there", raw.alive());
    rig.holds("answers with large heads");
}

#[test]
fn gateway_answers_with_large_heads() {
    if !are_slow_tests_enabled() {
        return;
    }
    answers_with_large_heads(true);
}

#[test]
fn gateway_answers_whose_heads_do_not_end() {
    if !are_slow_tests_enabled() {
        return;
    }
    answers_with_large_heads(false);
}

/// Checks, round by round, whether a server's peak memory has stopped growing.
struct PeakMonitor {
    peak: u64,
    unchanged: usize,
}

impl PeakMonitor {
    fn new(target: &Running) -> Self {
        Self { peak: target.peak(), unchanged: 0 }
    }

    fn is_steady(&mut self, target: &Running) -> bool {
        let peak = target.peak();
        self.unchanged = if peak == self.peak { self.unchanged + 1 } else { 0 };
        self.peak = peak;
        self.unchanged == 200 * times()
    }
}

/// Clients send data that can never be delivered, because the first chunk of the association or of each stream is
/// missing forever.
fn holes(gateway: bool) {
    let rig = Rig::new(&format!("memory-holes-{gateway}"), gateway);
    let mut raw = Raw::associate(&rig.target, 300, 1500);
    let (large, small) = (vec![b'x'; 1400], [b'x']);
    let mut peak = PeakMonitor::new(&rig.target);
    // The associations form four groups. The first group sends parts of messages behind a missing TSN. The second group
    // sends complete messages that wait for the first message of their stream. The third group sends messages that
    // begin and never end. The fourth group sends messages of one byte behind a missing TSN.
    for round in 0..3000_u32 {
        for at in 0..raw.associations.len() {
            let stream = (round % 100) as u16;
            let data: Vec<Vec<u8>> = match at % 4 {
                0 => vec![raw.data(at, 1 + round, (0, 0), 0, &large)],
                1 => vec![raw.data(at, round, (stream, 1 + (round / 100) as u16), WHOLE, &large)],
                2 => vec![raw.data(at, 2 * round, (stream, (round / 100) as u16), BEGIN, &large)],
                _ => (0..8)
                    .map(|more| {
                        raw.data(at, 1 + 8 * round + more, (0, 1 + (8 * round + more) as u16), WHOLE, &small)
                    })
                    .collect(),
            };
            raw.chunks(at, &data);
        }
        raw.take_next();
        if peak.is_steady(&rig.target) {
            break;
        }
    }
    println!("{} are there", raw.alive());
    rig.holds("holes");
}

#[test]
fn serve_bounds_memory_of_undeliverable_data() {
    if !are_slow_tests_enabled() {
        return;
    }
    holes(false);
}

#[test]
fn gateway_bounds_memory_of_undeliverable_data() {
    if !are_slow_tests_enabled() {
        return;
    }
    holes(true);
}

/// Clients use the maximum number of streams, with a byte on each.
fn streams(gateway: bool) {
    // By default the server accepts fewer than 65,535 streams from a client.
    let more = ["--set", "max_streams=65535"];
    let rig = Rig::with(&format!("memory-streams-{gateway}"), gateway, MEMORY, &more);
    let mut raw = Raw::associate(&rig.target, 40, 1500);
    for at in 0..raw.associations.len() {
        raw.add_streams(at, 17, 65_435);
        raw.listen(2);
    }
    raw.listen(200);
    let results: Vec<_> = raw.associations.iter().map(|one| one.result).collect();
    assert!(results.iter().all(|result| *result == Some(1)), "streams are added: {results:?}");
    let mut peak = PeakMonitor::new(&rig.target);
    for first in (0..65_535_u32).step_by(40) {
        for at in 0..raw.associations.len() {
            let data: Vec<Vec<u8>> = (first..65_535.min(first + 40))
                .map(|stream| raw.data(at, stream, (stream as u16, 0), WHOLE, b"G"))
                .collect();
            raw.chunks(at, &data);
            raw.take_next();
        }
        if peak.is_steady(&rig.target) {
            break;
        }
    }
    println!("{} are there", raw.alive());
    rig.holds("a byte on each stream");
}

#[test]
fn serve_streams() {
    if !are_slow_tests_enabled() {
        return;
    }
    streams(false);
}

#[test]
fn gateway_bounds_memory_of_maximum_streams() {
    if !are_slow_tests_enabled() {
        return;
    }
    streams(true);
}

/// TCP clients request a large file on each of 1024 connections, and read almost nothing of it.
fn tcp(gateway: bool) {
    let rig = Rig::new(&format!("memory-tcp-{gateway}"), gateway);
    let connections: Vec<TcpStream> = (0..1024)
        .map(|_| {
            let mut stream = rig.target.connect();
            stream.write_all(BIG).expect("sent");
            stream
        })
        .collect();
    for _ in 0..4 * times() {
        // `most` is the largest number of bytes in the kernel's queues, in whole MiB. The few bytes that are queued for
        // the honest client do not change it.
        let (port, mut polls, mut most) = (rig.target.tcp().port(), 0, 0);
        wait_until_steady("the server writes no more", || {
            // Reads the kernel's table of connections only in every tenth poll, because the table is long.
            if polls % 10 == 0 {
                most = most.max(queued_at(port).0 >> 20);
            }
            polls += 1;
            (most, rig.target.peak())
        });
        for mut stream in &connections {
            let _ = stream.read(&mut [0; 1500]);
        }
    }
    let queued = queued_at(rig.target.tcp().port());
    println!("{} are there, {} bytes in the kernel for each", connections.len(), queued.0 / queued.1.max(1));
    // Checks the sizes of the kernel's buffers, because they are not part of the process's memory.
    assert!(queued.1 >= 1024 && queued.0 / queued.1 < 700_000, "{queued:?}");
    rig.holds("TCP");
}

/// Returns the number of unsent or unacknowledged bytes that the kernel holds for connections of this port, and the
/// number of connections.
fn queued_at(port: u16) -> (u64, u64) {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let (mut bytes, mut count) = (0, 0);
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, "01", queues, ..] = words[..] else { continue };
        if local.ends_with(&format!(":{port:04X}")) {
            bytes += u64::from_str_radix(&queues[..8], 16).expect("hexadecimal");
            count += 1;
        }
    }
    (bytes, count)
}

#[test]
fn serve_slow_readers_of_tcp() {
    if !are_slow_tests_enabled() {
        return;
    }
    tcp(false);
}

#[test]
fn gateway_slow_readers_of_tcp() {
    if !are_slow_tests_enabled() {
        return;
    }
    tcp(true);
}

/// A thousand concurrent TLS sessions, each with a request. A session may use no more memory than the budget counts for
/// it, so that all sessions together stay within the limit.
#[test]
fn serve_secured_sessions() {
    if !are_slow_tests_enabled() {
        return;
    }
    // `counted` is the memory in KiB that the budget counts for a session: for HTTP/2, and for HTTP/3 with its QUIC
    // connection.
    for (scheme, counted) in [("https", 64), ("h3", 34 + 32)] {
        let scratch = Scratch::new(&format!("memory-secured-{scheme}"));
        scratch.file("site/1k", noise(1_000));
        let mut command = anabranch();
        command.env("XDG_STATE_HOME", scratch.text());
        command.args(["serve", &format!("{}/site", scratch.text()), "-q", "--memory", "100MiB"]);
        command.args(["--connections", "1100", "--listen", &format!("{scheme}://127.0.0.1:0")]);
        let server = Running::start_as(command, std::process::Stdio::null());
        let url = format!("{}1k", server.url(scheme));
        let load = |arguments: &[&str]| {
            let output =
                run(anabranch().args(["load", &url, "--insecure", "-q", "--json", "-"]).args(arguments));
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            json
        };
        load(&["-c", "1", "--requests", "20"]);
        let before = server.peak();
        let json = load(&["-c", "1000", "--requests", "4000", "--timeout", "100s"]);
        let sessions = json["connections"]["most_concurrent"].as_u64().expect("a number");
        assert_eq!(sessions, 1000, "{json}");
        let (peak, each) = (server.peak(), (server.peak() - before) * 1024 / sessions);
        println!("{scheme}: {each} bytes a session, of {sessions}; peak {peak} KiB");
        assert!(each < counted * 1024, "{scheme}: {each} bytes a session");
        assert!(peak < (100 << 10) + BASE, "{scheme}: {peak} KiB");
        assert_eq!(server.end(), 0);
    }
}
