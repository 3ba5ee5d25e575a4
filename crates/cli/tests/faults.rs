//! Tests failures on real hosts: a full disk, a killed peer, a missing privilege.
//!
//! Each failure must give one line and the documented exit code, within a time limit, and must leave no file under its
//! final name.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, comes_true, errors, has, noise, run, wait_until_steady};
use anabranch_base::testing::are_slow_tests_enabled;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const TCP_AND_SCTP: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];

/// Starts a server with one large file. Also returns its directory.
fn serving(name: &str) -> (Scratch, Running) {
    let scratch = Scratch::new(name);
    scratch.file("site/big", noise(20_000_000));
    let site = scratch.0.join("site");
    // The idle timeout of the server is longer than the tests.
    let mut arguments = vec!["serve", site.to_str().expect("UTF-8"), "--quiet", "--idle", "10min"];
    arguments.extend(TCP_AND_SCTP);
    let server = Running::start(&arguments);
    (scratch, server)
}

/// Returns the names of the files in a directory, including hidden ones.
fn files(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(&scratch.0).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A limit on file sizes simulates a full disk, because it also makes a write fail in the middle of the file. No part
/// of the file may remain.
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let (scratch, server) = serving("full");
    for scheme in ["http", "http+sctp"] {
        let line = format!(
            "trap '' XFSZ; ulimit -f 4000; exec {} get --quiet {}big -o mine",
            env!("CARGO_BIN_EXE_anabranch"),
            server.url(scheme)
        );
        let output = run(Command::new("sh").current_dir(&scratch.0).args(["-c", &line]));
        let stderr = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("cannot write 'mine'"), "{stderr}");
        assert_eq!(files(&scratch), ["site"], "{scheme}");
    }
}

/// The server is killed during a transfer. Its host still runs and answers with ICMP or RST, so the client must notice
/// the failure.
#[test]
fn a_killed_peer_is_noticed() {
    for scheme in ["http", "http+sctp"] {
        let (scratch, server) = serving(&format!("killed-{scheme}"));
        let url = format!("{}big", server.url(scheme));
        let mut client = anabranch();
        client.current_dir(&scratch.0).args(["get", "--quiet", "--timeout", "30s", &url]);
        let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // The client's output is not read for now, so the transfer is in progress when the server dies.
        let mut out = client.stdout.take().expect("its output");
        out.read_exact(&mut [0; 1000]).expect("the beginning");
        drop(server);
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).expect("the rest");
        let output = client.wait_with_output().expect("it ends");
        let stderr = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{scheme}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("/big"), "{scheme}: {stderr}");
        assert!(rest.len() < 19_999_000, "{scheme}: the transfer was over too soon to tell");
    }
}

/// A client that has acknowledged everything sends only HEARTBEATs. When they stay unanswered, the client must notice
/// that the peer is dead.
#[test]
fn a_peer_that_dies_in_silence_is_noticed() {
    let (scratch, server) = serving("silent");
    let url = format!("{}big", server.url("http+sctp"));
    let mut client = anabranch();
    client.current_dir(&scratch.0).args(["get", "--quiet", "--timeout", "25s", &url]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut out = client.stdout.take().expect("its output");
    out.read_exact(&mut [0; 1000]).expect("the beginning");
    server.pause();
    let come = Arc::new(AtomicUsize::new(0));
    let count = come.clone();
    let reader = thread::spawn(move || {
        let mut piece = [0; 65_536];
        while let Ok(read @ 1..) = out.read(&mut piece) {
            count.fetch_add(read, Ordering::Relaxed);
        }
    });
    wait_until_steady("the client has taken all there was", || come.load(Ordering::Relaxed));
    drop(server);
    let output = client.wait_with_output().expect("it ends");
    let stderr = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains("nothing listens there any more"), "{stderr}");
    reader.join().expect("read");
    assert!(come.load(Ordering::Relaxed) < 19_999_000, "the transfer was over too soon to tell");
}

/// A file shrinks while it is sent. The client must report the incomplete response at once, before any timeout.
#[test]
fn an_answer_that_breaks_off_is_noticed_at_once() {
    for scheme in ["http", "http+sctp"] {
        let (scratch, server) = serving(&format!("short-{scheme}"));
        scratch.file("site/other", "other");
        let url = format!("{}big", server.url(scheme));
        let mut client = anabranch();
        client.current_dir(&scratch.0).args(["get", "--quiet", "--timeout", "10min", &url]);
        let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = client.stdout.take().expect("its output");
        out.read_exact(&mut [0; 1000]).expect("the beginning");
        let file = fs::OpenOptions::new().write(true).open(scratch.0.join("site/big")).expect("a file");
        file.set_len(1000).expect("shorter");
        let reader = thread::spawn(move || out.read_to_end(&mut Vec::new()));
        let ends = comes_true(|| client.try_wait().expect("a child").is_some());
        if !ends {
            client.kill().expect("killed");
        }
        let output = client.wait_with_output().expect("it ends");
        reader.join().expect("read").expect("the rest");
        assert!(ends, "{scheme}: it waits for more");
        let stderr = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{scheme}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("/big: "), "{scheme}: {stderr}");
        // The server must continue to serve other requests.
        let output = run(anabranch().args(["get", "--quiet", &format!("{}other", server.url(scheme))]));
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"other".as_slice()));
    }
}

/// Raw sockets need a privilege. The error must name the alternative that needs none.
#[test]
fn raw_sockets_are_refused_in_one_line() {
    let scratch = Scratch::new("raw");
    scratch.file("site/index.html", "home");
    // A copy of the program, which every user can execute.
    let program = scratch.0.join("anabranch");
    fs::copy(env!("CARGO_BIN_EXE_anabranch"), &program).expect("a copy");
    for arguments in [
        &["serve", "site", "--listen", "sctp-ip://127.0.0.1:80"][..],
        &["get", "http+sctp-ip://127.0.0.1/"],
        &["load", "http+sctp-ip://127.0.0.1/", "-c", "1", "--duration", "1s"],
        &["bulk", "sctp-ip://127.0.0.1:5001", "--for", "1s"],
    ] {
        let root = fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
        let mut command = if root {
            if !has("setpriv") {
                return;
            }
            let mut unprivileged = Command::new("setpriv");
            unprivileged.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]);
            unprivileged.arg(&program);
            unprivileged
        } else {
            Command::new(&program)
        };
        let output = run(command.current_dir(&scratch.0).args(arguments));
        let stderr = errors(&output);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {stderr}");
        let lines: Vec<&str> = stderr.lines().filter(|line| line.starts_with("anabranch: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains("CAP_NET_RAW"), "{arguments:?}: {stderr}");
    }
}

/// Nothing listens on the UDP port, so the host answers with ICMP (RFC 6951 §5.5). The failure must be reported at
/// once.
#[test]
fn a_closed_port_refuses() {
    let port = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let scratch = Scratch::new("refused");
    for scheme in ["http", "http+sctp"] {
        let url = format!("{scheme}://127.0.0.1:{port}/");
        let output =
            run(anabranch().current_dir(&scratch.0).args(["get", "--timeout", "100s", &url, "-o", "mine"]));
        let stderr = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{scheme}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("connection refused"), "{scheme}: {stderr}");
        let output = run(anabranch().args([
            "load",
            &url,
            "-c",
            "1",
            "--requests",
            "3",
            "--timeout",
            "100s",
            "--json",
            "-",
        ]));
        assert_eq!(output.status.code(), Some(1), "{scheme}: {}", errors(&output));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json.pointer("/errors/refused"), Some(&3.into()), "{scheme}: {json:#}");
    }
    assert_eq!(files(&scratch), [""; 0]);
}

/// In `get big | head`, the reader ends before the object is complete. The transfer must fail and end.
#[test]
fn an_output_that_is_closed_early_is_a_failed_transfer() {
    let (_place, server) = serving("closed");
    for scheme in ["http", "http+sctp"] {
        let url = format!("{}big", server.url(scheme));
        let mut client = anabranch();
        client.args(["get", "--quiet", &url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.spawn().expect("it starts");
        let mut out = client.stdout.take().expect("its output");
        out.read_exact(&mut [0; 1000]).expect("the beginning");
        drop(out);
        let output = client.wait_with_output().expect("it ends");
        let stderr = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{scheme}: {stderr}");
        let why = "cannot write to standard output: Broken pipe";
        assert!(stderr.lines().count() == 1 && stderr.contains(why), "{scheme}: {stderr}");
    }
}

/// If a server has all its connections in use, the output of further clients must say so.
#[test]
fn a_full_server_is_told() {
    let scratch = Scratch::new("no-room");
    scratch.file("site/big", noise(20_000_000));
    let site = scratch.0.join("site");
    let arguments = ["serve", site.to_str().expect("UTF-8"), "-q", "--connections", "1"];
    let server = Running::start(&[&arguments[..], &["--listen", "sctp://127.0.0.1:0"]].concat());
    let url = format!("{}big", server.url("http+sctp"));
    let mut first = anabranch();
    first.args(["get", "--quiet", &url]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut first = first.spawn().expect("it starts");
    // Keeps the first client's request in progress for about fifteen seconds. The client reads slowly, because the
    // server would close the connection of a client that reads nothing.
    let mut out = first.stdout.take().expect("its output");
    out.read_exact(&mut [0; 1000]).expect("the beginning");
    let (enough, wait) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let mut piece = [0; 65_536];
        while wait.recv_timeout(Duration::from_millis(50)) == Err(mpsc::RecvTimeoutError::Timeout)
            && out.read(&mut piece).is_ok_and(|read| read > 0)
        {}
    });
    for arguments in [&["get", "--quiet", &url][..], &["load", "-c", "1", "--sessions", "1", "-q", &url]] {
        let output = run(anabranch().args(arguments));
        let printed = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {printed}");
        let why = "its program ended it, as a server does that is full, is ended itself or waits too long (ABORT with cause 12)";
        // The reason must be in the report of `load` or in the error line of `get`.
        let printed = printed + &String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(why), "{arguments:?}: {printed}");
    }
    drop(enough);
    reader.join().expect("it ends");
    let _ = first.wait();
}

/// Starts a relay to `server` that drops datagrams of more than `limit` bytes. The relay ends when the returned handle
/// is dropped.
fn relay_of_small_datagrams(server: SocketAddr, limit: usize) -> (SocketAddr, Arc<()>) {
    let [front, back] = [(); 2].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        socket
    });
    back.connect(server).expect("connected");
    let address = front.local_addr().expect("an address");
    let handle = Arc::new(());
    let wanted = handle.clone();
    thread::spawn(move || {
        let mut client = None;
        let mut buffer = [0; 65_536];
        while Arc::strong_count(&wanted) > 1 {
            while let Ok((length, from)) = front.recv_from(&mut buffer) {
                client = Some(from);
                let _ = if length <= limit { back.send(&buffer[..length]) } else { Ok(0) };
            }
            while let (Some(client), Ok(length)) = (client, back.recv(&mut buffer)) {
                let _ = if length <= limit { front.send_to(&buffer[..length], client) } else { Ok(0) };
            }
        }
    });
    (address, handle)
}

/// The server's first data packets have about 65 kB, and a relay drops them. Heartbeats are answered. Both sides must
/// report the packet size and a setting that helps. The server's idle timeout must not end the session first, because
/// an idle timeout reports neither. With the setting, the transfer must succeed.
#[test]
fn packets_that_are_too_large_for_the_path_are_named() {
    if !are_slow_tests_enabled() {
        return;
    }
    let place = Scratch::new("too-large");
    place.file("site/big", noise(3_000_000));
    let site = place.0.join("site");
    let words = ["serve", site.to_str().expect("UTF-8"), "--listen", "sctp://127.0.0.1:0"];
    for (settings, code) in [(&[][..], 1), (&["--set", "pmtud=plpmtud"][..], 0)] {
        let server = Running::start(&[&words[..], settings].concat());
        let at = server.url("http+sctp").trim_start_matches("http+sctp://").trim_end_matches('/');
        let (relay, _handle) = relay_of_small_datagrams(at.parse().expect("an address"), 8_192);
        let output = run(anabranch()
            .args(["get", "--quiet", &format!("http+sctp://{relay}/big"), "-o", "big"])
            .current_dir(&place.0));
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(code), "{told}");
        if code == 1 {
            assert!(told.contains("its reason is: heartbeats are answered, but packets of 65"), "{told}");
            assert!(told.contains("with pmtud=plpmtud the sender begins with 1200 bytes"), "{told}");
            let (_, lines) = server.end_with_lines();
            let said = "session with 127.0.0.1 ended: heartbeats are answered, but packets of 65";
            assert!(lines.iter().any(|line| line.contains(said)), "{lines:#?}");
        }
    }
}
