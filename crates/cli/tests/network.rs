//! Tests `serve` and `get` as two processes. `get` must receive identical bytes over TCP and SCTP, and print one line
//! if it fails. `serve` must shut down in an orderly way.
//!
//! The tests use only the loopback interface and ports that the host chooses, and every wait has a limit.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A server that ends with the test, and its URLs.
struct Server {
    child: Child,
    directory: PathBuf,
    urls: Vec<String>,
}

impl Server {
    /// Serves a new directory that has a page and a file of 3 MB.
    fn start(name: &str, listen: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("anabranch-network-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("site")).expect("a directory");
        fs::write(directory.join("secret"), "secret").expect("a file");
        fs::write(directory.join("site/index.html"), "<p>home").expect("a file");
        let big: Vec<u8> =
            (0..3_000_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()).collect();
        fs::write(directory.join("site/big"), &big[..3_000_000]).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(&directory).args(["serve", "site"]);
        for url in listen {
            command.args(["--listen", url]);
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut first = String::new();
        let stderr = child.stderr.take().expect("its errors");
        BufReader::new(stderr).read_line(&mut first).expect("a line");
        let urls = first.split_whitespace().filter(|word| word.contains("://")).map(str::to_owned).collect();
        Self { child, directory, urls }
    }

    fn get(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(&self.directory).args(["get", "--timeout", "20s"]).args(arguments);
        command.output().expect("it starts")
    }

    fn url(&self, scheme: &str, target: &str) -> String {
        let scheme = format!("{scheme}://");
        let base = self.urls.iter().find(|url| url.starts_with(&scheme)).expect("it listens there");
        format!("{base}{target}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Neither listener needs privileges, and the host chooses both ports.
const TCP_AND_SCTP: [&str; 2] = ["tcp://127.0.0.1:0", "sctp://127.0.0.1:0"];

#[test]
fn the_same_bytes_come_over_tcp_and_sctp() {
    let server = Server::start("bytes", &TCP_AND_SCTP);
    let right = fs::read(server.directory.join("site/big")).expect("the file");
    for scheme in ["http", "http+sctp"] {
        let page = server.get(&[&server.url(scheme, "")]);
        assert_eq!((page.status.code(), page.stdout.as_slice()), (Some(0), &b"<p>home"[..]), "{scheme}");
        let (one, other) = (server.url(scheme, "big"), server.url(scheme, "index.html"));
        let both = server.get(&[&one, &other, "-o", "one", "-o", "other"]);
        assert_eq!(both.status.code(), Some(0), "{scheme}: {}", String::from_utf8_lossy(&both.stderr));
        assert!(fs::read(server.directory.join("one")).expect("a file") == right, "{scheme}: other bytes");
        assert_eq!(fs::read(server.directory.join("other")).expect("a file"), b"<p>home");
    }
}

/// Returns whether raw sockets are permitted, from the output of a command that needs them. Panics if the command lacks
/// something else.
fn has_raw_sockets(output: &Output) -> bool {
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        assert!(stderr.contains("CAP_NET_RAW"), "{stderr}");
    }
    output.status.code() != Some(3)
}

#[test]
fn the_same_bytes_come_over_ipv6() {
    // Both ends are on ::1, the only IPv6 loopback address. With SCTP directly over IP, each end then also receives the
    // packets that it sends.
    let probe = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["get", "-q", "--timeout", "100ms", "http+sctp-ip://[::1]:9/"])
        .output()
        .expect("it starts");
    let mut listen = vec!["tcp://[::1]:0", "sctp://[::1]:0"];
    let mut schemes = vec!["http", "http+sctp"];
    if has_raw_sockets(&probe) {
        // Nothing listens at the address of the probe, and no other stack replies.
        assert_eq!(probe.status.code(), Some(1), "{}", String::from_utf8_lossy(&probe.stderr));
        listen.push("sctp-ip://[::1]:8061");
        schemes.push("http+sctp-ip");
    }
    let server = Server::start("six", &listen);
    let right = fs::read(server.directory.join("site/big")).expect("the file");
    for scheme in schemes {
        let url = server.url(scheme, "big");
        assert!(url.contains("[::1]"), "{url}");
        let got = server.get(&[&url, "-o", "one"]);
        assert_eq!(got.status.code(), Some(0), "{scheme}: {}", String::from_utf8_lossy(&got.stderr));
        assert!(fs::read(server.directory.join("one")).expect("a file") == right, "{scheme}: other bytes");
    }
}

#[test]
fn what_fails_fails_in_one_line_and_leaves_nothing() {
    let server = Server::start("failures", &TCP_AND_SCTP);
    let refused = |arguments: &[&str], status: i32, what: &str| {
        let output = server.get(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(what), "{arguments:?}: {stderr}");
    };
    for scheme in ["http", "http+sctp"] {
        refused(&[&server.url(scheme, "none"), "-o", "x"], 1, "status 404");
        refused(&[&server.url(scheme, "%2e%2e/secret"), "-o", "x"], 1, "status 404");
        refused(&[&server.url(scheme, ""), "-o", "nowhere/x"], 3, "nowhere/x");
    }
    // Nothing listens on the discard port.
    refused(&["http://127.0.0.1:9/", "-o", "x"], 1, "refused");
    refused(&["http+sctp://127.0.0.1:9/", "-o", "x"], 1, "");
    refused(&["http://name.invalid/", "-o", "x"], 1, "not resolved");
    refused(&["ftp://127.0.0.1/"], 2, "unknown scheme");
    refused(&[&server.url("http", ""), "-o", "x", "-o", "y"], 2, "1 URLs and 2 files");
    let mut left: Vec<_> = fs::read_dir(&server.directory)
        .expect("a directory")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["secret", "site"]);
    let taken = server.url("http", "").replace("http://", "tcp://");
    let mut second = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let second = second
        .current_dir(&server.directory)
        .args(["serve", "site", "--listen", &taken])
        .output()
        .expect("it starts");
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(3) && stderr.contains("in use"), "{stderr}");
}

#[test]
fn a_server_that_is_asked_to_end_finishes_what_is_in_flight() {
    let mut server = Server::start("end", &TCP_AND_SCTP);
    // The client's standard output is a pipe that nobody reads yet, so the transfer is in flight when the signal
    // arrives.
    let url = server.url("http+sctp", "big");
    let mut client = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["get", &url])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut out = client.stdout.take().expect("its output");
    let mut begin = [0; 1000];
    out.read_exact(&mut begin).expect("the beginning");
    let id = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("the rest");
    assert_eq!(client.wait().expect("it ends").code(), Some(0));
    assert_eq!(begin.len() + rest.len(), 3_000_000);
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
}
