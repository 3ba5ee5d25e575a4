//! Tests that a server distinguishes clients by their addresses. If one client occupies the server's session slots with
//! slow downloads, the server must not close the quiet sessions of a second client. A third client must still get a
//! slot.
//!
//! Every address in 127.0.0.0/8 is this host, so each client has an address of its own.

#![cfg(target_os = "linux")]

use crate::running::{LONG, Running, Scratch, noise, pace, wait_until};
use anabranch_base::testing::are_slow_tests_enabled;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const SLOTS: usize = 16;
/// No session times out during the test.
const LIMITS: [&str; 6] = ["--connections", "16", "--header-timeout", "10min", "--idle", "10min"];
const TCP: &str = "tcp://127.0.0.1:0";

/// Opens a connection from 127.0.0.`last`.
fn connect(last: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).expect("an address of this host");
    socket.connect(&to.into()).expect("connected");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).expect("a deadline");
    stream
}

fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.extend_from_slice(&byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A client at 127.0.0.2 with many slow downloads. It starts a new download every 200 ms and keeps the earlier ones, so
/// that every slot is in demand all the time.
struct Greedy {
    stop: Arc<AtomicBool>,
    /// The number of downloads that make progress.
    alive: Arc<AtomicUsize>,
    /// The number of downloads started.
    downloads: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Greedy {
    fn start(target: SocketAddr, request: String) -> Self {
        let (stop, alive) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stop_flag, count) = (stop.clone(), alive.clone());
        let downloads = Arc::new(AtomicUsize::new(0));
        let download_count = downloads.clone();
        let thread = thread::spawn(move || {
            let mut readers = Vec::new();
            for number in 0.. {
                if stop_flag.load(Ordering::Relaxed) {
                    break;
                }
                let mut stream = connect(2, target);
                let (request, stop_flag, count) = (request.clone(), stop_flag.clone(), count.clone());
                readers.push(thread::spawn(move || {
                    let _ = stream.write_all(request.as_bytes());
                    let mut piece = vec![0; 20_000];
                    count.fetch_add(1, Ordering::Relaxed);
                    while !stop_flag.load(Ordering::Relaxed) && matches!(stream.read(&mut piece), Ok(1..)) {
                        pace(Duration::from_millis(100));
                    }
                    count.fetch_sub(1, Ordering::Relaxed);
                }));
                download_count.fetch_add(1, Ordering::Relaxed);
                pace(Duration::from_millis(if number < SLOTS { 20 } else { 200 }));
            }
            readers.into_iter().for_each(|reader| reader.join().expect("read"));
        });
        let greedy = Self { stop, alive, downloads, thread: Some(thread) };
        wait_until("somebody is greedy", || greedy.alive.load(Ordering::Relaxed) >= SLOTS - 4);
        greedy
    }

    /// Waits until the client has started as many further downloads as the server has slots.
    fn fills_all_slots_again(&self) {
        let before = self.downloads.load(Ordering::Relaxed);
        wait_until("more slots are wanted", || self.downloads.load(Ordering::Relaxed) >= before + SLOTS);
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn site(name: &str) -> (Scratch, String) {
    let site = Scratch::new(name);
    site.file("site/index.html", "<p>home");
    site.file("site/big", noise(40_000_000));
    let root = format!("{}/site", site.text());
    (site, root)
}

/// Waits until new sessions may replace the sessions that are stalled now. For this, another client takes the only slot
/// of a second server, and stalls later than those sessions. When the second server gives the slot to a new client,
/// those sessions may be replaced, too.
fn stalled_ones_may_end(root: &str) {
    let arguments = ["serve", root, "-q", "--listen", TCP, "--connections", "1"];
    let server = Running::start(&[&arguments[..], &LIMITS[2..]].concat());
    let mut stalled = connect(1, server.tcp());
    stalled.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    stalled.read_exact(&mut [0; 100]).expect("an answer");
    wait_until("a stalled session ends for a newcomer", || {
        let mut stream = connect(3, server.tcp());
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).is_ok() && answer.ends_with("<p>home")
    });
}

/// Checks that a new client gets a slot, five times in a row, while another client holds almost all slots.
fn a_third_is_served(target: SocketAddr, request: &str) {
    for number in 0..5 {
        let mut stream = connect(3, target);
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        assert!(read.is_ok() && answer.ends_with("<p>home"), "{number}: {read:?} {answer}");
    }
}

#[test]
fn a_quiet_tunnel_outlives_the_slow_downloads_of_another_client() {
    if !are_slow_tests_enabled() {
        return;
    }
    let (_site, root) = site("fair-tunnel");
    let origin = Running::start(&["serve", &root, "-q", "--listen", TCP]);
    let echo = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = echo.local_addr().expect("bound");
    thread::spawn(move || {
        for mut stream in echo.incoming().map_while(Result::ok) {
            thread::spawn(move || std::io::copy(&mut stream.try_clone().expect("a handle"), &mut stream));
        }
    });
    for threads in ["1", "2"] {
        let arguments = ["gateway", "-q", "--listen", TCP, "--allow", "127.0.0.1", "--threads", threads];
        let gateway = Running::start(&[&arguments, &LIMITS[..]].concat());
        let mut tunnel = connect(1, gateway.tcp());
        tunnel
            .write_all(format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
            .expect("sent");
        assert!(read_head(&mut tunnel).starts_with("HTTP/1.1 200 "));
        let host = origin.tcp();
        let ask =
            |path| format!("GET http://{host}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let greedy = Greedy::start(gateway.tcp(), ask("big"));
        // Waits until the greedy client's sessions have stalled for so long that the gateway may end them for a new
        // session.
        (0..2).for_each(|_| stalled_ones_may_end(&root));
        greedy.fills_all_slots_again();
        a_third_is_served(gateway.tcp(), &ask(""));
        let mut back = [0; 4];
        tunnel.write_all(b"ping").expect("the tunnel is there");
        tunnel.read_exact(&mut back).expect("the tunnel is there");
        assert_eq!(&back, b"ping", "{threads} threads");
        drop(greedy);
    }
}

#[test]
fn a_quiet_session_outlives_the_slow_downloads_of_another_client() {
    if !are_slow_tests_enabled() {
        return;
    }
    let (_site, root) = site("fair-serve");
    let arguments = ["serve", &root, "-q", "--listen", TCP];
    let server = Running::start(&[&arguments, &LIMITS[..]].concat());
    // One client waits before its next request. The other client reads nothing of a large response for a while.
    let (mut waits, mut stalls) = (connect(1, server.tcp()), connect(1, server.tcp()));
    let home = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut body = [0; 7];
    waits.write_all(home).expect("sent");
    assert!(read_head(&mut waits).starts_with("HTTP/1.1 200 "));
    waits.read_exact(&mut body).expect("a body");
    stalls.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    let greedy = Greedy::start(server.tcp(), "GET /big HTTP/1.1\r\nHost: a\r\n\r\n".to_owned());
    (0..2).for_each(|_| stalled_ones_may_end(&root));
    greedy.fills_all_slots_again();
    a_third_is_served(server.tcp(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    waits.write_all(home).expect("the session is there");
    assert!(read_head(&mut waits).starts_with("HTTP/1.1 200 "), "the session is there");
    waits.read_exact(&mut body).expect("a body");
    let mut all = Vec::new();
    stalls.read_to_end(&mut all).expect("the session is there");
    assert!(all.len() > 40_000_000, "{}", all.len());
    drop(greedy);
}
