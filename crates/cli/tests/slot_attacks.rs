//! Tests an attack by an HTTP/2 client. The client resets connections while the server has not yet read all of their
//! frames, and then takes every slot.
//!
//! When a connection is reset, the server's session ends before the streams of the session. What these streams report
//! later must not change the next session in the same slot. The tests write the frames themselves (RFC 9113 §4.1) and
//! send them over the loopback interface, on which each address counts as one client. The clients reach the server
//! without TLS, over TLS, and through a tunnel of the gateway.

#![cfg(target_os = "linux")]

use crate::running::{LONG, Running, Scratch, anabranch, pace, wait_until};
use anabranch_base::testing::are_slow_tests_enabled;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use socket2::{Domain, SockRef, Socket, Type};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const ATTACKER: [u8; 4] = [127, 8, 0, 1];
const HONEST: [u8; 4] = [127, 9, 9, 9];

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the first frames of a client: a window of zero, and this number of requests for a large file.
fn first_frames(requests: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &window(0)));
    // RFC 7541 Appendix A: the method GET and the scheme http are entries of the static table. :path and :authority
    // have literal values.
    let head = [&[0x82, 0x86, 0x04, 5], &b"/huge"[..], &[0x41, 1, b'a']].concat();
    for at in 0..requests {
        bytes.extend(frame(HEADERS, 5, 2 * at + 1, &head));
    }
    bytes
}

/// Encodes SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.5.2).
fn window(bytes: u32) -> Vec<u8> {
    [&[0, 4], &bytes.to_be_bytes()[..]].concat()
}

/// Returns small frames, after which the client resets the connection. A server that writes would notice the reset.
/// Only one frame in 201 requires a response, so the server can read most frames without a write.
fn quiet_frames() -> Vec<u8> {
    let mut frames = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(200);
    frames.extend(frame(PING, 0, 0, &[0; 8]));
    frames
}

/// Returns SETTINGS frames that alternate the initial window between 0 and 1 byte. The server must acknowledge each
/// frame, and can send one byte of each response.
fn loud_frames() -> Vec<u8> {
    [frame(SETTINGS, 0, 0, &window(0)), frame(SETTINGS, 0, 0, &window(1))].concat().repeat(2000)
}

/// How a client reaches the server.
#[derive(Clone)]
enum Route {
    Clear(SocketAddr),
    Tls(SocketAddr, Arc<ClientConfig>),
    /// The client connects through a gateway (first address) to the server (second address).
    Tunnel(SocketAddr, SocketAddr),
}

trait Wire: Read + Write {
    fn socket(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Wire for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

impl Route {
    /// Returns the address to which the client connects first.
    fn first(&self) -> SocketAddr {
        match self {
            Self::Clear(to) | Self::Tls(to, _) | Self::Tunnel(to, _) => *to,
        }
    }

    /// Opens a TCP connection from this address, and sends nothing on it.
    fn connect(&self, from: [u8; 4]) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.connect_timeout(&self.first().into(), LONG)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LONG))?;
        stream.set_write_timeout(Some(LONG))?;
        Ok(stream)
    }

    /// Opens a connection to the server, through TLS or a tunnel if necessary.
    fn reach(&self, from: [u8; 4]) -> io::Result<Box<dyn Wire>> {
        let mut stream = self.connect(from)?;
        match self {
            Self::Clear(_) => Ok(Box::new(stream)),
            Self::Tls(_, config) => {
                let name = ServerName::try_from("localhost").expect("a name");
                let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                Ok(Box::new(StreamOwned::new(connection, stream)))
            }
            Self::Tunnel(_, to) => {
                stream.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes())?;
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut byte)?;
                    head.extend_from_slice(&byte);
                }
                if !head.starts_with(b"HTTP/1.1 200 ") {
                    return Err(io::Error::other(String::from_utf8_lossy(&head).into_owned()));
                }
                Ok(Box::new(stream))
            }
        }
    }

    /// Opens a session with requests to which the server has begun to respond.
    fn busy(&self, requests: u32) -> io::Result<Box<dyn Wire>> {
        let mut wire = self.reach(ATTACKER)?;
        wire.write_all(&first_frames(requests))?;
        let mut head = [0; 9];
        while head[3] != HEADERS {
            wire.read_exact(&mut head)?;
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            wire.read_exact(&mut vec![0; length])?;
        }
        Ok(wire)
    }

    /// Waits for a free slot, because sessions of the previous round may still be ending. Then opens a busy session
    /// with one request.
    fn busy_at_last(&self) -> Box<dyn Wire> {
        let mut found = None;
        wait_until("there is a slot", || {
            found = self.busy(1).ok();
            found.is_some()
        });
        found.expect("there is one")
    }

    /// Makes a request as an honest client, and returns its connection.
    fn ask(&self) -> io::Result<Box<dyn Wire>> {
        let mut wire = self.reach(HONEST)?;
        wire.write_all(b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut status = [0; 13];
        wire.read_exact(&mut status)?;
        match &status {
            b"HTTP/1.1 200 " => Ok(wire),
            _ => Err(io::Error::other(String::from_utf8_lossy(&status).into_owned())),
        }
    }

    /// Checks that an honest client is served, and returns its connection.
    fn is_served(&self, what: &str) -> Box<dyn Wire> {
        let answered = self.ask();
        assert!(answered.is_ok(), "{what}: {:?}", answered.err());
        answered.expect("an answer")
    }
}

/// An honest client that sends requests to a listener, one after another, until the `Asker` is dropped. The test fails
/// if a request is not answered.
struct Asker {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<u32, String>>>,
}

impl Asker {
    fn start(route: &Route) -> Self {
        let (route, stop) = (route.clone(), Arc::new(AtomicBool::new(false)));
        let stop_flag = stop.clone();
        let thread = thread::spawn(move || {
            let mut served = 0;
            while !stop_flag.load(Ordering::Relaxed) {
                route.ask().map_err(|error| format!("after {served} answers: {error}"))?;
                served += 1;
                // Pauses, because the attackers need the processor, too.
                pace(Duration::from_millis(20));
            }
            Ok(served)
        });
        Self { stop, thread: Some(thread) }
    }

    /// Stops the client, and checks that each of its requests was answered.
    fn was_served(mut self, what: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let served = self.thread.take().expect("it runs").join().expect("no panic");
        assert!(served.as_ref().is_ok_and(|served| *served > 0), "{what}: {served:?}");
        println!("{what}: {served:?} answers");
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Closes a connection with RST. The server may still read data that arrived before.
fn reset(wire: &dyn Wire) {
    SockRef::from(wire.socket()).set_linger(Some(Duration::ZERO)).expect("set");
}

/// Accepts any certificate, because the attacker needs no trust.
#[derive(Debug)]
struct NoVerification;

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA256,
        ]
    }
}

fn insecure_config() -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NoVerification))
        .with_no_client_auth();
    Arc::new(config)
}

/// A server that listens with and without TLS, and a gateway. The origin of the gateway has slots for all clients.
struct Target {
    _site: Scratch,
    server: Running,
    gateway: Running,
    origin: Running,
}

impl Target {
    fn new(slots: usize, threads: usize) -> Self {
        let site = Scratch::new("slot-attacks");
        site.file("site/small", "small");
        let huge = File::create(site.0.join("site/huge")).expect("a file");
        huge.set_len(1 << 30).expect("a sparse file");
        let (slots, threads) = (slots.to_string(), threads.to_string());
        let limits = ["-q", "--connections", &slots, "--threads", &threads, "--listen", "tcp://127.0.0.1:0"];
        let start = |arguments: &[&str]| {
            let mut command = anabranch();
            command.env("XDG_STATE_HOME", site.text()).args(arguments).args(limits);
            Running::start_as(command, Stdio::null())
        };
        let root = format!("{}/site", site.text());
        let server = start(&["serve", &root, "--listen", "https://127.0.0.1:0"]);
        let gateway = start(&["gateway", "--allow", "127.0.0.1"]);
        let origin = ["serve", &root, "-q", "--connections", "8192", "--listen", "tcp://127.0.0.1:0"];
        let origin = Running::start(&origin);
        Self { _site: site, server, gateway, origin }
    }

    fn routes(&self) -> [Route; 3] {
        let tls = self.server.url("https").trim_start_matches("https://").trim_end_matches('/');
        let tls = tls.parse().expect("an address");
        [
            Route::Clear(self.server.tcp()),
            Route::Tls(tls, insecure_config()),
            Route::Tunnel(self.gateway.tcp(), self.origin.tcp()),
        ]
    }

    /// Ends all processes, which must exit with code 0.
    fn end(self) {
        assert_eq!([self.server, self.gateway, self.origin].map(Running::end), [0; 3]);
    }
}

/// The attacker's sessions fill every slot and have outstanding requests. On one session, the attacker sends many small
/// frames and resets the connection before the server has read them. An honest client then connects repeatedly. It must
/// get the free slot, and later the slots of the attacker's other sessions.
#[test]
fn sessions_that_are_reset_while_frames_are_unread_leave_their_slots_in_order() {
    const SLOTS: usize = 16;
    let target = Target::new(SLOTS, 1);
    for route in target.routes() {
        for round in 0..3 {
            let mut busy: Vec<_> = (0..SLOTS).map(|_| route.busy_at_last()).collect();
            let mut last = busy.pop().expect("one");
            last.socket().set_write_timeout(Some(Duration::from_millis(200))).expect("set");
            // The write may time out, because the server may leave the socket buffer full. The error is ignored.
            let _ = last.write_all(&quiet_frames().repeat(400));
            reset(&*last);
            drop(last);
            let honest: Vec<_> = (0..4).map(|at| route.is_served(&format!("{round}, {at}"))).collect();
            // The attacker ends all of its sessions.
            busy.iter().for_each(|wire| reset(&**wire));
            drop((busy, honest));
        }
    }
    target.end();
}

/// The full attack. The attacker repeatedly opens 24 sessions, sends a hundred requests and many frames on each
/// session, and resets the sessions. Then the attacker opens more silent connections than there are slots. Meanwhile an
/// honest client must be served at every other listener.
fn attack(route: &Route, other_routes: &[Route], slots: usize) {
    const SESSIONS: usize = 24;
    let askers: Vec<Asker> = other_routes.iter().map(Asker::start).collect();
    let frames = loud_frames();
    for round in 0..6 {
        for _ in 0..4 {
            let mut sessions: Vec<_> = (0..SESSIONS).filter_map(|_| route.reach(ATTACKER).ok()).collect();
            for wire in &mut sessions {
                let _ = wire.write_all(&first_frames(100));
                wire.socket().set_nonblocking(true).expect("set");
            }
            for _ in 0..80 {
                for wire in &mut sessions {
                    let _ = wire.write(&frames);
                }
                pace(Duration::from_millis(5));
            }
            sessions.iter().for_each(|wire| reset(&**wire));
        }
        let quiet: Vec<_> = (0..slots + 40).map_while(|_| route.connect(ATTACKER).ok()).collect();
        for (at, other) in other_routes.iter().enumerate() {
            other.is_served(&format!("{slots} slots, round {round}, listener {at}"));
        }
        drop(quiet);
    }
    for (at, client) in askers.into_iter().enumerate() {
        client.was_served(&format!("{slots} slots, listener {at}, throughout"));
    }
}

fn attacks(at: usize) {
    if !are_slow_tests_enabled() {
        return;
    }
    anabranch_world::os::raise_open_files_limit();
    for slots in [16, 64, 1024] {
        for threads in [1, 2] {
            let target = Target::new(slots, threads);
            let routes = target.routes();
            attack(&routes[at], &routes, slots);
            println!("{slots} slots, {threads} threads: every listener answers");
            target.end();
        }
    }
}

#[test]
fn every_listener_answers_throughout_the_attack() {
    attacks(0);
}

#[test]
fn every_listener_answers_throughout_the_attack_over_tls() {
    attacks(1);
}

#[test]
fn every_listener_answers_throughout_the_attack_through_a_gateway() {
    attacks(2);
}
