//! Tests clients that occupy all slots, send requests and then read nothing. Other clients must still be served.

#![cfg(target_os = "linux")]

use crate::peer::{associate, host, in_a_world, meanwhile};
use crate::raw_sctp::Raw;
use crate::running::{LONG, Running, Scratch, anabranch, noise, pace, run, wait_until, wait_until_read};
use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_transport::{Session, Stream};
use anabranch_world::os;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TCP_AND_SCTP: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
/// No session times out during the test.
const LIMITS: [&str; 6] = ["--connections", "10", "--header-timeout", "10min", "--idle", "10min"];
const BIG: &[u8] = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
const BIG_BYTES: usize = 40_000_000;

fn site(name: &str) -> (Scratch, String) {
    let site = Scratch::new(name);
    site.file("site/index.html", "<p>home");
    site.file("site/big", noise(BIG_BYTES));
    let root = format!("{}/site", site.text());
    (site, root)
}

fn is_served(url: &str) -> bool {
    let got = run(anabranch().args(["get", "-q", url]));
    got.status.code() == Some(0) && got.stdout == b"<p>home"
}

/// Opens a connection with an outstanding request, and reads nothing.
fn stalled(target: &Running, request: &[u8]) -> TcpStream {
    let mut stream = target.connect();
    stream.write_all(request).expect("sent");
    wait_until_read(&stream);
    stream
}

/// Checks that a client is served long before any timeout.
fn is_served_soon(url: &str) {
    wait_until(&format!("{url}: the stalled ones make room"), || is_served(url));
    for _ in 0..3 {
        assert!(is_served(url), "{url}: there are more of them");
    }
}

#[test]
fn sessions_that_read_nothing_lose_their_slot() {
    if !are_slow_tests_enabled() {
        return;
    }
    let (_site, root) = site("stalled");
    let arguments = [&["serve", &root, "-q"], &TCP_AND_SCTP[..]].concat();
    let origin = Running::start(&arguments);
    let server = Running::start(&[&arguments, &LIMITS[..]].concat());
    let arguments =
        [&["gateway", "-q", "--origin", origin.url("http")], &TCP_AND_SCTP[..], &LIMITS[..]].concat();
    for mut target in [server, Running::start(&arguments)] {
        // A slow client that keeps reading must complete its download.
        let mut slow = target.connect();
        slow.write_all(BIG).expect("sent");
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = stop.clone();
        let slow = std::thread::spawn(move || {
            let (mut piece, mut read) = (vec![0; 50_000], 0);
            while read < BIG_BYTES {
                match slow.read(&mut piece).expect("an answer") {
                    0 => break,
                    more => read += more,
                }
                if !stop_flag.load(Ordering::Relaxed) {
                    pace(Duration::from_millis(100));
                }
            }
            read
        });
        // These clients do not read their responses.
        let connections: Vec<TcpStream> = (0..9).map(|_| stalled(&target, BIG)).collect();
        in_a_world(async |world| {
            let host = host(&world, 1).await;
            let mut connections = Vec::new();
            for _ in 0..10 {
                let session = associate(&host, &target).await;
                let mut stream = session.open(0).expect("a stream");
                stream.write_all(BIG).await.expect("sent");
                connections.push((session, stream));
            }
            // The engine of this process must continue to acknowledge meanwhile.
            for scheme in ["http", "http+sctp"] {
                let url = target.url(scheme).to_owned();
                meanwhile(&world, std::thread::spawn(move || is_served_soon(&url))).await;
            }
        });
        stop.store(true, Ordering::Relaxed);
        assert!(slow.join().expect("read") >= BIG_BYTES, "who moves is left alone");
        drop(connections);
        assert!(target.still_runs());
    }
}

/// The stalled sessions may belong to another thread than the thread that accepts the new session. They must still lose
/// their slots.
#[test]
fn stalled_sessions_of_other_threads_lose_their_slot() {
    if !are_slow_tests_enabled() {
        return;
    }
    let (_site, root) = site("stalled-threads");
    let words =
        [&["serve", &root, "-q", "--listen", "tcp://127.0.0.1:0", "--threads", "2"], &LIMITS[..]].concat();
    let target = Running::start(&words);
    let connections: Vec<TcpStream> = (0..10).map(|_| stalled(&target, BIG)).collect();
    is_served_soon(target.url("http"));
    for _ in 0..12 {
        assert!(is_served(target.url("http")));
    }
    drop(connections);
}

/// Clients send incomplete requests, and the origin waits for the missing bytes. The sessions of these clients must
/// lose their slots.
#[test]
fn sessions_with_incomplete_requests_lose_their_slot() {
    if !are_slow_tests_enabled() {
        return;
    }
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", origin.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut stream in origin.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(1..) = stream.read(&mut request) {
                    if request.starts_with(b"GET") {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<p>home");
                    }
                }
            });
        }
    });
    let arguments = ["gateway", "-q", "--origin", &url, "--listen", "tcp://127.0.0.1:0"];
    let target = Running::start(&[&arguments, &LIMITS[..]].concat());
    let target_url = target.url("http").to_owned();
    let upload = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc";
    let connections: Vec<TcpStream> = (0..10).map(|_| stalled(&target, upload)).collect();
    is_served_soon(&target_url);
    drop(connections);
}

/// The streams of the association between two gateways share its receive window, which the streams of stalled clients
/// fill. Other clients must still be served.
#[test]
fn who_takes_nothing_holds_nobody_up_behind_gateways() {
    if !are_slow_tests_enabled() {
        return;
    }
    let (site, root) = site("stalled-pair");
    site.file("site/middle", noise(1_000_000));
    let origin = Running::start(&["serve", &root, "-q", "--listen", "tcp://127.0.0.1:0"]);
    let arguments = ["gateway", "-q", "--idle", "10min"];
    let listen = ["--listen", "sctp://127.0.0.1:0", "--allow", "127.0.0.1"];
    let far = Running::start(&[&arguments[..], &listen].concat());
    let via = far.url("http+sctp").trim_end_matches('/');
    let near = Running::start(&[&arguments[..], &["--listen", "tcp://127.0.0.1:0", "--via", via]].concat());
    let host = origin.tcp();
    let request =
        |path| format!("GET http://{host}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    // Honest clients connect one after another. The clients that read nothing connect while the sixth honest client
    // waits for its response. Each honest client must be answered long before a timeout of a gateway.
    let mut connections = Vec::new();
    for number in 0..20 {
        let mut honest = near.connect();
        honest.write_all(request("middle").as_bytes()).expect("sent");
        if number == 5 {
            connections.extend((0..5).map(|_| stalled(&near, request("big").as_bytes())));
        }
        let mut answer = Vec::new();
        honest.read_to_end(&mut answer).expect("an answer");
        assert!(answer.len() > 1_000_000, "{}", String::from_utf8_lossy(&answer[..answer.len().min(200)]));
    }
}

/// The default of `--connections`.
const SLOTS: usize = 1024;
/// How long a client that reads nothing may keep other clients out, as `docs/security.md` promises. The server waits
/// five seconds and needs up to two more to notice; the rest is margin.
const AT_LATEST: Duration = Duration::from_secs(10);

/// Clients that each have an address of their own in 127.0.0.0/8, one association and a request for a large file. The
/// clients keep their windows closed and acknowledge window probes.
struct Crowd {
    stop: Arc<AtomicBool>,
    /// Whether a client whose association was aborted opens a new association.
    reconnect: Arc<AtomicBool>,
    /// The number of clients that have made their request and were not aborted.
    connected: Arc<AtomicUsize>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Crowd {
    const THREADS: usize = 16;

    /// Starts `SLOTS` clients.
    fn start(target: &Running) -> Self {
        let [stop, reconnect] = [(); 2].map(|()| Arc::<AtomicBool>::default());
        let connected = Arc::<AtomicUsize>::default();
        let url = target.url("http+sctp");
        let start = |first: usize| {
            let (url, stop, reconnect, connected) =
                (url.to_owned(), stop.clone(), reconnect.clone(), connected.clone());
            thread::spawn(move || {
                let numbers = first..first + SLOTS / Self::THREADS;
                let begin = |number| {
                    let client = Self::client(number, &url);
                    connected.fetch_add(1, Ordering::Relaxed);
                    client
                };
                let mut clients: Vec<_> = numbers.map(|number| (number, Some(begin(number)))).collect();
                while !stop.load(Ordering::Relaxed) {
                    for (number, client) in &mut clients {
                        if let Some(raw) = client {
                            raw.take_next();
                            if raw.associations[0].aborted {
                                *client = None;
                                connected.fetch_sub(1, Ordering::Relaxed);
                            }
                        } else if reconnect.load(Ordering::Relaxed) {
                            *client = Some(begin(*number));
                        }
                    }
                }
            })
        };
        let threads = (0..SLOTS).step_by(SLOTS / Self::THREADS).map(start).collect();
        Self { stop, reconnect, connected, threads }
    }

    /// Waits until every client has a session.
    fn wait_until_connected(&self) {
        self.reconnect.store(true, Ordering::Relaxed);
        wait_until("the crowd is there", || self.connected.load(Ordering::Relaxed) == SLOTS);
        self.reconnect.store(false, Ordering::Relaxed);
    }

    fn client(number: usize, url: &str) -> Raw {
        let address = [127, 40, (number / 250) as u8, (number % 250 + 1) as u8];
        let mut client = Raw::associate_from(address, url, 1, 1500);
        client.associations[0].window = 0;
        client.say(0, 0, 0, BIG);
        client
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// There are as many client addresses as sessions, so no client has more than its share. The server can recognize these
/// clients only by the fact that they make no progress.
#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is one of time")]
fn a_thousand_addresses_that_take_nothing_keep_nobody_out() {
    if !are_slow_tests_enabled() {
        return;
    }
    os::raise_open_files_limit();
    let (_site, root) = site("stalled-crowd");
    let patient = &LIMITS[2..];
    let serve = [&["serve", &root, "-q"], &TCP_AND_SCTP[..]].concat();
    let origin = Running::start(&[&serve[..], &["--connections", "8192"]].concat());
    let gateway = [&["gateway", "-q", "--origin", origin.url("http")], &TCP_AND_SCTP[..]].concat();
    for (arguments, threads) in [(&serve, "1"), (&serve, "2"), (&gateway, "1")] {
        let what = format!("{} with {threads} threads", arguments[0]);
        let mut target = Running::start(&[&arguments[..], patient, &["--threads", threads]].concat());
        // A gateway first loads the data for all clients from its origin. On a slow machine this may take long.
        let latest = if arguments[0] == "serve" { AT_LATEST } else { LONG };
        let crowd = Crowd::start(&target);
        for round in 0..10 {
            // Every client of the crowd has a session again, also the client whose session was ended in the last round.
            // So no slot is free.
            crowd.wait_until_connected();
            let began = Instant::now();
            assert!(is_served(target.url("http")), "{what}: a newcomer over TCP has a session of its own");
            wait_until("a newcomer has a session", || is_served(target.url("http+sctp")));
            let waited = began.elapsed();
            println!("{what}: in round {round}, a newcomer over SCTP waited {waited:?}");
            assert!(waited < latest, "{what}: round {round}: {waited:?}");
        }
        drop(crowd);
        assert!(target.still_runs());
    }
}
