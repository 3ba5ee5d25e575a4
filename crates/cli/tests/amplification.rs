//! Tests how much every UDP listener sends to a client whose address is not validated. The limit is three times the
//! bytes that the listener has received from that address (RFC 9000 §8.1, RFC 9147 §5.1, RFC 6347 §4.2.1, RFC 9260
//! §5.1.3).
//!
//! Silent clients send and never answer. Each silent client has its own socket on the loopback interface, and counts
//! everything that arrives there within [`WAIT`], including retransmissions. `cargo test -p anabranch-cli --test cli
//! amplification -- --nocapture` prints the table.

#![cfg(target_os = "linux")]

use crate::raw_sctp::{chunk, packet};
use crate::running::{Running, Scratch, anabranch, noise, pace, run, wait_until_datagrams_are_read};
use anabranch_base::testing::are_slow_tests_enabled;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The amplification limit of RFC 9000 §8.1, which is the strictest limit of the RFCs above.
const CEILING: f64 = 3.0;
/// A server's timers begin at one second and double: in this time a server retransmits four times.
const WAIT: Duration = Duration::from_secs(16);
/// The interval at which the sockets are read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A client that sends and never answers.
struct SilentClient {
    listener: String,
    description: String,
    socket: UdpSocket,
    target: SocketAddr,
    /// The lengths of the datagrams that the client has sent.
    sent: Vec<usize>,
    /// The lengths of the datagrams that the client has received.
    received: Vec<usize>,
}

impl SilentClient {
    /// Reads all datagrams that wait in the client's socket.
    fn receive(&mut self) {
        let mut buffer = [0; 65_536];
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            assert_eq!(from, self.target, "{}: {}", self.listener, self.description);
            self.received.push(length);
        }
    }

    fn is_sctp(&self) -> bool {
        [": http+sctp://", ": sctp://"].iter().any(|scheme| self.listener.ends_with(scheme))
    }

    fn is_dtls(&self) -> bool {
        self.listener.ends_with(": https+sctp://")
    }

    fn is_http3(&self) -> bool {
        self.listener.ends_with(": h3://")
    }

    /// Whether the server answers the first packet of every client with a Retry packet.
    fn requires_retry(&self) -> bool {
        self.listener.contains("retry=always")
    }

    /// Two ratios of the bytes that the silent client received to the bytes that it sent. The first ratio counts UDP
    /// payload only. The second ratio also counts UDP and IP headers.
    fn ratios(&self) -> [f64; 2] {
        let headers = if self.target.is_ipv4() { 28 } else { 48 };
        let size = |lengths: &[usize], headers| lengths.iter().map(|length| length + headers).sum::<usize>();
        [0, headers].map(|headers| size(&self.received, headers) as f64 / size(&self.sent, headers) as f64)
    }
}

/// All silent clients of the test.
#[derive(Default)]
struct SilentClients(Vec<SilentClient>);

impl SilentClients {
    /// Adds a client that sends these datagrams, and then nothing more.
    fn send<'a>(
        &mut self,
        (listener, target): (&str, SocketAddr),
        description: &str,
        datagrams: impl IntoIterator<Item = &'a Vec<u8>>,
    ) {
        let local = if target.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let socket = UdpSocket::bind(local).expect("a port");
        socket.set_nonblocking(true).expect("set");
        let (listener, description) = (listener.to_owned(), description.to_owned());
        let mut client =
            SilentClient { listener, description, socket, target, sent: Vec::new(), received: Vec::new() };
        for datagram in datagrams {
            client.socket.send_to(datagram, target).expect("sent");
            client.sent.push(datagram.len());
            // After every 50 datagrams, waits until the server has read them. The server's socket buffer holds only
            // about 200 of the largest datagrams.
            if client.sent.len().is_multiple_of(50) {
                wait_until_datagrams_are_read(target.port());
            }
        }
        self.0.push(client);
    }

    /// Adds 16 silent clients. Each sends a shortened copy of `datagram`, with 1/17 to 16/17 of its bytes.
    fn send_cut(&mut self, at: (&str, SocketAddr), what: &str, datagram: &[u8]) {
        for part in 1..=16 {
            let cut = datagram[..datagram.len() * part / 17].to_vec();
            self.send(at, &format!("{what}, cut to {}", cut.len()), [&cut]);
        }
    }
}

/// Runs `get` with the timeout `time` against a server that never answers. Returns the datagrams that `get` sent, in
/// order.
fn flight(scratch: &Scratch, scheme: &str, time: &str) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let url = format!("{scheme}://{}/", socket.local_addr().expect("an address"));
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text()).args(["get", "-q", &url, "--timeout", time]);
    if scheme != "http+sctp" {
        command.arg("--insecure");
    }
    assert_eq!(run(&mut command).status.code(), Some(1));
    socket.set_nonblocking(true).expect("set");
    let (mut datagrams, mut buffer) = (Vec::new(), [0; 65_536]);
    while let Ok((length, _)) = socket.recv_from(&mut buffer) {
        datagrams.push(buffer[..length].to_vec());
    }
    assert!(datagrams.len() > 1, "{scheme}: {} datagrams", datagrams.len());
    datagrams
}

/// Returns 256 random datagrams of this length, each with a different first byte.
fn junk(length: usize) -> Vec<Vec<u8>> {
    let mut datagrams: Vec<_> = noise(256 * length).chunks(length).map(<[u8]>::to_vec).collect();
    datagrams.iter_mut().enumerate().for_each(|(first, datagram)| datagram[0] = first as u8);
    datagrams
}

/// Returns an INIT chunk with these parameters.
fn init(parameters: &[u8]) -> Vec<u8> {
    // The fixed fields of INIT: initiate tag, a_rwnd, numbers of outbound and inbound streams, and initial TSN.
    let mut body = vec![0, 0, 0, 7, 0, 16, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1];
    body.extend(parameters);
    packet(5_000, 0, &[chunk(1, 0, &body)])
}

fn sctp(clients: &mut SilentClients, at: (&str, SocketAddr), flight: &[Vec<u8>]) {
    clients.send(at, "a client's INIT", &flight[..1]);
    clients.send(at, "the same, sent again", flight);
    clients.send(at, "the smallest INIT", [&init(&[])]);
    let unknown: Vec<u8> = (0..300).flat_map(|_| [0xc0, 0xff, 0, 4]).collect();
    clients.send(at, "an INIT of 300 unknown parameters", [&init(&unknown)]);
    // The parameters of this INIT are RANDOM, HMAC-ALGO, and CHUNKS with all chunk types (RFC 4895 §3).
    let mut signed = vec![0x80, 2, 0, 36];
    signed.extend([9; 32]);
    signed.extend([0x80, 4, 0, 6, 0, 1, 0, 0, 0x80, 3, 1, 0]);
    signed.extend((4..=255).collect::<Vec<u8>>());
    clients.send(at, "an INIT with RANDOM and all chunks", [&init(&signed)]);
    let mut damaged = init(&[]);
    damaged[8] ^= 1;
    clients.send(at, "an INIT with a wrong checksum", [&damaged]);
    for length in [0, 4, 100, 1_400] {
        let all: Vec<_> =
            (0..=255).map(|kind| packet(5_000, 7, &[chunk(kind, 0, &vec![0; length])])).collect();
        clients.send(at, &format!("each kind of chunk with {length} bytes"), &all);
        // A client of its own sends only the COOKIE ECHO. If one client sent all chunks, a long response to the COOKIE
        // ECHO would hardly raise the ratio.
        clients.send(at, &format!("a COOKIE ECHO of {length} bytes"), &all[10..11]);
    }
    clients.send_cut(at, "an INIT", &flight[0]);
    send_junk(clients, at);
}

/// RFC 6347 §4.2.2, RFC 9147 §5.2: splits a handshake message into `many` fragments, each in a record of its own.
fn pieces(message: &[u8], many: usize) -> Vec<Vec<u8>> {
    let piece = message.len().div_ceil(many);
    let record = |(number, part): (usize, &[u8])| {
        let mut bytes = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number as u8];
        bytes.extend((12 + part.len() as u16).to_be_bytes());
        // The message header begins with the type ClientHello and the length. The message number is 0.
        bytes.extend([1, 0]);
        bytes.extend((message.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0]);
        bytes.extend((piece as u16 * number as u16).to_be_bytes());
        bytes.push(0);
        bytes.extend((part.len() as u16).to_be_bytes());
        bytes.extend(part);
        bytes
    };
    message.chunks(piece).enumerate().map(record).collect()
}

/// Extensions of a ClientHello. `GROUPS` offers X25519 and P-256, and `GROUP` only X25519. `SIGNATURES` offers ECDSA
/// with P-256, and `DTLS13` only DTLS 1.3. `NO_SHARE` is a key share extension without a key share.
const GROUPS: [u8; 10] = [0, 10, 0, 6, 0, 4, 0, 29, 0, 23];
const GROUP: [u8; 8] = [0, 10, 0, 4, 0, 2, 0, 29];
const SIGNATURES: [u8; 8] = [0, 13, 0, 4, 0, 2, 4, 3];
const DTLS13: [u8; 7] = [0, 43, 0, 3, 2, 0xfe, 0xfc];
const NO_SHARE: [u8; 6] = [0, 51, 0, 2, 0, 0];

/// Returns a ClientHello (RFC 8446 §4.1.2) with these cipher suites and extensions.
fn hello_with(suites: &[u8], extensions: &[&[u8]]) -> Vec<u8> {
    let mut body = vec![0xfe, 0xfd];
    body.extend(noise(32));
    // The ClientHello has no session ID and no cookie.
    body.extend([0, 0, 0, suites.len() as u8]);
    body.extend(suites);
    // The only compression method is null.
    body.extend([1, 0]);
    let extensions = extensions.concat();
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    body
}

/// Returns a ClientHello for DTLS 1.3 with this key share; without a key share, for DTLS 1.2.
fn hello(share: Option<&[u8]>) -> Vec<u8> {
    // The cipher suites are TLS_AES_128_GCM_SHA256, and ECDHE_ECDSA with AES_128_GCM_SHA256.
    let suites = [0x13, 1, 0xc0, 0x2b];
    let Some(share) = share else {
        // These extensions are for uncompressed points and the extended master secret.
        return hello_with(&suites, &[&GROUPS, &SIGNATURES, &[0, 11, 0, 2, 1, 0, 0, 23, 0, 0]]);
    };
    let [outer, inner] = [2 + share.len() as u16, share.len() as u16].map(u16::to_be_bytes);
    let share = [&[0, 51][..], &outer, &inner, share].concat();
    hello_with(&suites, &[&GROUPS, &SIGNATURES, &DTLS13, &share])
}

fn dtls(clients: &mut SilentClients, at: (&str, SocketAddr), flight: &[Vec<u8>]) {
    clients.send(at, "a client's hello", &flight[..1]);
    clients.send(at, "the same, sent again", flight);
    let mut share = vec![0, 23, 0, 65, 4];
    share.extend(noise(64));
    let (message, other) = (&flight[0][25..], [0x2a, 0x2a, 0, 1, 0]);
    let hellos = [
        ("a client's hello", message.to_vec()),
        ("a hello of DTLS 1.2", hello(None)),
        ("a hello of DTLS 1.3", hello(Some(&share))),
        ("a hello of DTLS 1.3 without a share", hello(Some(&[]))),
        ("a hello of DTLS 1.3 with an unknown share", hello(Some(&other))),
        ("the smallest valid hello", hello_with(&[0x13, 1], &[&GROUP, &SIGNATURES, &DTLS13, &NO_SHARE])),
        ("the same without signatures", hello_with(&[0x13, 1], &[&GROUP, &DTLS13, &NO_SHARE])),
        ("the same without groups", hello_with(&[0x13, 1], &[&SIGNATURES, &DTLS13, &NO_SHARE])),
        ("the same without shares", hello_with(&[0x13, 1], &[&GROUP, &SIGNATURES, &DTLS13])),
        ("the same with groups alone", hello_with(&[0x13, 1], &[&GROUP, &DTLS13])),
        ("the same with shares alone", hello_with(&[0x13, 1], &[&DTLS13, &NO_SHARE])),
        ("the same with the version alone", hello_with(&[0x13, 1], &[&DTLS13])),
        ("that without suites", hello_with(&[], &[&DTLS13])),
        ("a hello of DTLS 1.2 without extensions", hello_with(&[0xc0, 0x2b], &[])),
    ];
    for (what, hello) in hellos {
        for many in [1, 2, 5] {
            let all = pieces(&hello, many);
            clients.send(at, &format!("{what} in {many}"), &all);
            clients.send(at, &format!("{what} in {many} of one datagram"), [&all.concat()]);
            clients.send(at, &format!("the first part of {what} in {many}"), &all[..1]);
            let again: Vec<_> = (0..4).flat_map(|_| all.clone()).collect();
            clients.send(at, &format!("{what} in {many}, sent again"), &again);
        }
    }
    clients.send_cut(at, "a hello", &flight[0]);
    send_junk(clients, at);
}

/// Sends QUIC datagrams. Each of the four `flights` was recorded from a different client, so that their connection IDs
/// differ. The server would assign datagrams with the same connection ID to one connection.
fn quic(clients: &mut SilentClients, at: (&str, SocketAddr), flights: &[Vec<Vec<u8>>; 4]) {
    let [one, again, copied, padded] = flights;
    clients.send(at, "a client's Initial", &one[..1]);
    let copies = vec![one[0].clone(); 5];
    clients.send(at, "that Initial from elsewhere, five times", &copies);
    clients.send(at, "a client's Initials, sent again", again);
    clients.send(at, "an Initial five times", &vec![copied[0].clone(); 5]);
    for (initial, more) in padded.iter().take(1).chain(&copied[1..]).zip([50, 199]) {
        // The bytes after the Initial packet are no packet, but they count as received.
        let long = [&initial[..], &vec![0; more]].concat();
        clients.send(at, &format!("an Initial of {} bytes", long.len()), [&long]);
    }
    let flight = one;
    let long = |first: u8, version: u32, length: usize| {
        let mut bytes = vec![first];
        bytes.extend(version.to_be_bytes());
        bytes.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1]);
        bytes.extend(noise(length - bytes.len()));
        bytes
    };
    // RFC 9000 §14.1: 1200 bytes is the smallest datagram that may carry an Initial packet.
    for (version, what) in [(0xface_b001, "an unknown version"), (0, "version 0"), (1, "version 1")] {
        for length in [24, 1_199, 1_200] {
            for (first, kind) in [(0xc0, "Initial"), (0xd0, "0-RTT"), (0xe0, "Handshake"), (0xf0, "Retry")] {
                clients.send(at, &format!("{what}, {kind}, {length} bytes"), [&long(first, version, length)]);
            }
        }
    }
    // RFC 9000 §10.3: these packets look like packets of a connection whose state the server has lost. The server may
    // answer with a Stateless Reset.
    for length in [5, 21, 22, 25, 41, 42, 43, 44, 100] {
        let mut bytes = noise(length);
        bytes[0] = 0x40;
        clients.send(at, &format!("a short header, {length} bytes"), [&bytes]);
    }
    clients.send_cut(at, "an Initial", &flight[0]);
    send_junk(clients, at);
}

/// Sends datagrams that may arrive at any port.
fn send_junk(clients: &mut SilentClients, at: (&str, SocketAddr)) {
    for length in [1, 20, 60, 1_200] {
        clients.send(at, &format!("junk of {length} bytes"), &junk(length));
    }
}

/// Makes a certificate with a chain of about twelve kilobytes, and its key.
fn large_chain(scratch: &Scratch) -> [String; 2] {
    let paths = ["large.pem", "large.key"].map(|name| format!("{}/{name}", scratch.text()));
    let output = run(Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=localhost"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-out", &paths[0], "-keyout", &paths[1]]));
    assert!(output.status.success(), "openssl (Debian: apt-get install openssl)");
    let one = std::fs::read_to_string(&paths[0]).expect("made");
    scratch.file("large.pem", one.repeat(30));
    paths
}

/// Starts the program, and returns it with the addresses on which it listens on UDP.
fn listeners(scratch: &Scratch, arguments: &[&str]) -> (Running, Vec<(String, SocketAddr)>) {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text()).args(arguments);
    let running = Running::start_as(command, Stdio::null());
    let address = |url: &String| {
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let address = rest.trim_end_matches('/').replace("0.0.0.0", "127.0.0.1");
        (scheme.to_owned(), address.parse().unwrap_or_else(|_| panic!("an address: {url}")))
    };
    let urls = running.urls.iter().map(address).collect();
    (running, urls)
}

const SCTP: [&str; 2] = ["--listen", "sctp://127.0.0.1:0"];
const DTLS: [&str; 2] = ["--listen", "https+sctp://127.0.0.1:0"];
const HTTP3: [&str; 2] = ["--listen", "h3://127.0.0.1:0"];

#[test]
fn unvalidated_clients_get_at_most_three_times_what_they_send() {
    if !are_slow_tests_enabled() {
        return;
    }
    let scratch = Scratch::new("amplification");
    scratch.file("site/index.html", "<p>home");
    let site = format!("{}/site", scratch.text());
    let [certificate, key] = large_chain(&scratch);
    let large = ["--cert", &certificate, "--key", &key];
    let serve = ["serve", &site, "--quiet"];
    let origin = ["gateway", "--quiet", "--origin", "http://127.0.0.1:9/"];
    let programs = [
        ("serve", [&serve[..], &SCTP, &DTLS, &HTTP3, &["--listen", "sctp://[::1]:0"]].concat()),
        ("serve, 12 kB of certificates", [&serve[..], &DTLS, &HTTP3, &large].concat()),
        ("serve --threads 2", [&serve[..], &SCTP, &DTLS, &HTTP3, &["--threads", "2"]].concat()),
        ("serve --set retry=always", [&serve[..], &HTTP3, &["--set", "retry=always"]].concat()),
        (
            "serve, all of SCTP's extensions",
            [
                &serve[..],
                &SCTP,
                &["--set", "auth=yes,auth_chunks=all,asconf=yes,reconfig=yes,interleaving=yes"],
            ]
            .concat(),
        ),
        ("gateway", [&origin[..], &SCTP, &DTLS].concat()),
        ("bulk --listen", [&["bulk", "--sctp-port", "80"][..], &SCTP, &DTLS].concat()),
    ];
    let [of_sctp, of_dtls, of_quic @ ..] = thread::scope(|scope| {
        let scratch = &scratch;
        let capture = |scheme| scope.spawn(move || flight(scratch, scheme, "3s"));
        let schemes = ["http+sctp", "https+sctp", "h3", "h3", "h3", "h3"];
        schemes.map(capture).map(|flight| flight.join().expect("a flight"))
    });
    let (mut clients, mut running) = (SilentClients::default(), Vec::new());
    let mut retries = 0;
    for (name, arguments) in &programs {
        let (program, urls) = listeners(&scratch, arguments);
        running.push(program);
        for (scheme, address) in &urls {
            let listener = format!("{name}: {scheme}://");
            let at = (listener.as_str(), *address);
            match scheme.as_str() {
                "http+sctp" | "sctp" => sctp(&mut clients, at, &of_sctp),
                "https+sctp" => dtls(&mut clients, at, &of_dtls),
                "h3" => quic(&mut clients, at, &of_quic),
                // Skips the URL of a gateway's origin, which the gateway prints in the same line.
                "http" => continue,
                other => panic!("what listens at {other}?"),
            }
            retries += 1;
        }
    }
    assert_eq!(retries, 4 + 2 + 3 + 1 + 1 + 2 + 2);
    for _ in 0..WAIT.as_millis() / POLL_INTERVAL.as_millis() {
        pace(POLL_INTERVAL);
        clients.0.iter_mut().for_each(SilentClient::receive);
    }
    for mut program in running {
        assert!(program.still_runs(), "a server has ended");
        assert_eq!(program.end(), 0);
    }
    report(&clients.0);
}

/// Prints for each client the number of bytes that it received per byte that it sent. Panics if this ratio exceeds
/// [`CEILING`] or differs from docs/security.md.
fn report(clients: &[SilentClient]) {
    println!(
        "{:44}{:48}{:>8}{:>8}{:>8}{:>10}",
        "listener", "what was sent", "bytes", "came", "ratio", "on wire"
    );
    let (mut worst, mut over): (Vec<(&SilentClient, f64)>, Vec<String>) = (Vec::new(), Vec::new());
    for client in clients {
        let ratios = client.ratios();
        let most = ratios[0].max(ratios[1]);
        let [sent, received] = [&client.sent, &client.received].map(|lengths| lengths.iter().sum::<usize>());
        let SilentClient { listener, description, .. } = client;
        let row =
            format!("{listener:44}{description:48}{sent:8}{received:8}{:8.2}{:10.2}", ratios[0], ratios[1]);
        if most > CEILING {
            over.push(row.clone());
        }
        if received > 0 {
            println!("{row}");
        }
        match worst.iter_mut().find(|(other, _)| other.listener == *listener) {
            Some(other) if other.1 < most => *other = (client, most),
            Some(_) => {}
            None => worst.push((client, most)),
        }
    }
    println!("\n{:44}{:48}{:>8}{:>10}", "listener", "the most is drawn by", "ratio", "on wire");
    for (SilentClient { listener, description, .. }, _) in &worst {
        let of_it = clients.iter().filter(|client| client.listener == *listener).map(SilentClient::ratios);
        let [ratio, wire] = of_it.fold([0.0_f64; 2], |[a, b], [c, d]| [a.max(c), b.max(d)]);
        println!("{listener:44}{description:48}{ratio:8.2}{wire:10.2}");
    }
    assert!(over.is_empty(), "more than {CEILING} times:\n{}", over.join("\n"));
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(page).expect("docs/security.md");
    for (row, is_in) in ROWS {
        let of_row = clients.iter().filter(|client| is_in(client)).map(SilentClient::ratios);
        let [ratio, wire] = of_row.fold([0.0_f64; 2], |[a, b], [c, d]| [a.max(c), b.max(d)]);
        let (begin, end) = (format!("| {row} |"), format!("| {ratio:.2} | {wire:.2} |"));
        let found = page.lines().find(|line| line.starts_with(&begin));
        assert!(
            found.is_some_and(|line| line.ends_with(&end)),
            "docs/security.md says of {row}: {found:?}; it is {end}"
        );
    }
}

/// A row of the table in docs/security.md, and a predicate for the silent clients that belong to it.
type Row = (&'static str, fn(&SilentClient) -> bool);

const ROWS: [Row; 6] = [
    ("SCTP in UDP over IPv4", |client| client.is_sctp() && client.target.is_ipv4()),
    ("SCTP in UDP over IPv6", |client| client.is_sctp() && client.target.is_ipv6()),
    ("SCTP over DTLS 1.3 and 1.2", SilentClient::is_dtls),
    ("the same, valid hellos alone", |client| {
        client.is_dtls() && client.description.contains("the smallest valid hello")
    }),
    ("HTTP/3", |client| client.is_http3() && !client.requires_retry()),
    ("HTTP/3 with `--set retry=always`", |client| client.is_http3() && client.requires_retry()),
];
