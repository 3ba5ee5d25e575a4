//! Tests that a server started by root drops its privileges once its sockets are open, except the privilege to read any
//! file.
//!
//! The tests run in network namespaces of their own, which needs root.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, namespace, noise, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

const ADDRESSES: [&str; 2] = ["192.0.2.1/32", "192.0.2.2/32"];

/// `CAP_DAC_READ_SEARCH` as a mask: reading any file.
const READ_ANY_FILE: u64 = 1 << 2;
/// `CAP_DAC_OVERRIDE` as a mask: reading and writing any file.
const WRITE_ANY_FILE: u64 = 1 << 1;

fn inside(task: impl FnOnce() + Send) {
    let Some(namespace) = namespace(&ADDRESSES) else { return };
    namespace.run(task).expect("inside");
}

/// Checks that no thread of the process has a capability that is not in `capabilities`, and that no thread can gain one
/// by executing a program.
fn check_threads(id: u32, least_threads: usize, capabilities: u64) {
    let threads = fs::read_dir(format!("/proc/{id}/task")).expect("running");
    let mut count = 0;
    for thread in threads.flatten() {
        let status = fs::read_to_string(thread.path().join("status")).expect("a thread");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            line.trim_start_matches(':').trim().to_owned()
        };
        let mask = |name: &str| u64::from_str_radix(&field(name), 16).expect("a mask");
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(mask(set) & !capabilities, 0, "{set} of {}:\n{status}", field("Name"));
        }
        assert_eq!((mask("CapInh"), mask("CapAmb"), &*field("NoNewPrivs")), (0, 0, "1"), "{status}");
        count += 1;
    }
    assert!(count >= least_threads, "{count} threads");
}

/// Removes all permissions of a file, so that it can be read only through a capability.
fn forbid_all(file: &Path) {
    fs::set_permissions(file, Permissions::from_mode(0o000)).expect("ours");
}

fn get(url: &str) -> Vec<u8> {
    let insecure = (url.starts_with("https:") || url.starts_with("h3:")).then_some("--insecure");
    let got = run(anabranch().args(["get", "--quiet", "--timeout", "60s", url]).args(insecure));
    assert_eq!(got.status.code(), Some(0), "{url}: {}", errors(&got));
    got.stdout
}

#[test]
fn a_server_keeps_no_capability_but_to_read_files() {
    inside(|| {
        for threads in ["1", "2"] {
            let scratch = Scratch::new("capabilities-serve");
            scratch.file("site/1k", noise(1000));
            let unreadable = scratch.file("site/unreadable", noise(5000));
            let listen =
                "sctp-ip://192.0.2.1:80,sctp://192.0.2.1:9899,tcp://192.0.2.1:80,https://192.0.2.1:443";
            let mut command = anabranch();
            command.env("XDG_STATE_HOME", scratch.text()).arg("serve").arg(scratch.0.join("site"));
            command.args(["--quiet", "--threads", threads]);
            listen.split(',').for_each(|address| {
                command.args(["--listen", address]);
            });
            let server = Running::start_as(command, Stdio::null());
            let threads: usize = threads.parse().expect("a number");
            check_threads(server.id(), threads, READ_ANY_FILE);
            // A file without permissions must still be served, because the server keeps the privilege to read any file.
            forbid_all(&unreadable);
            for url in ["http+sctp-ip://192.0.2.1/", "http://192.0.2.1/", "https://192.0.2.1/"] {
                assert_eq!(get(&format!("{url}unreadable")), noise(5000), "{url}");
                assert_eq!(get(&format!("{url}1k")), noise(1000), "{url}");
            }
            // The server must be able to read the key again on SIGHUP, although the file's mode forbids it to everyone.
            forbid_all(&scratch.0.join("anabranch/self-signed.pem"));
            server.hang_up();
            server.wait_for_line("certificate: read again from ");
            assert_eq!(get("https://192.0.2.1/1k"), noise(1000));
            check_threads(server.id(), threads, READ_ANY_FILE);
            assert_eq!(server.end(), 0);
        }
    });
}

#[test]
fn a_gateway_and_a_bulk_server_keep_none_either() {
    inside(|| {
        let scratch = Scratch::new("capabilities-gateway");
        scratch.file("1k", noise(1000));
        let listen = ["--listen", "sctp-ip://192.0.2.1:80"];
        let origin = Running::start(&[&["serve", scratch.text(), "--quiet"][..], &listen].concat());
        for threads in ["1", "2"] {
            let gateway = Running::start(&[
                "gateway",
                "--quiet",
                "--threads",
                threads,
                "--origin",
                "http+sctp-ip://192.0.2.1",
                "--listen",
                "tcp://192.0.2.2:8080",
                "--listen",
                "sctp-ip://192.0.2.2:80",
            ]);
            check_threads(gateway.id(), 1, READ_ANY_FILE);
            for url in ["http://192.0.2.2:8080/1k", "http+sctp-ip://192.0.2.2/1k"] {
                assert_eq!(get(url), noise(1000), "{url}");
            }
            check_threads(gateway.id(), 1, READ_ANY_FILE);
            assert_eq!(gateway.end(), 0);
        }
        let bulk = Running::start(&["bulk", "--listen", "sctp-ip://192.0.2.2:5201"]);
        check_threads(bulk.id(), 1, READ_ANY_FILE);
        let done = run(anabranch().args(["bulk", "sctp-ip://192.0.2.2:5201", "--size", "100kB", "--quiet"]));
        assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
        assert_eq!((bulk.end(), origin.end()), (0, 0));
    });
}

/// A server with QUIC logs creates files while it runs, in a directory that may belong to another user. It must keep
/// the capability to write any file.
#[test]
fn a_server_with_qlog_may_still_write_files() {
    inside(|| {
        let scratch = Scratch::new("capabilities-qlog");
        scratch.file("site/1k", noise(1000));
        let logs = scratch.0.join("logs");
        fs::create_dir(&logs).expect("a directory");
        let mut command = anabranch();
        command.env("XDG_STATE_HOME", scratch.text()).arg("serve").arg(scratch.0.join("site"));
        command.args(["--quiet", "--listen", "h3://192.0.2.1:443", "--qlog"]).arg(&logs);
        let server = Running::start_as(command, Stdio::null());
        check_threads(server.id(), 1, READ_ANY_FILE | WRITE_ANY_FILE);
        forbid_all(&logs);
        assert_eq!(get("h3://192.0.2.1/1k"), noise(1000));
        assert_eq!(server.end(), 0);
        assert_eq!(fs::read_dir(&logs).expect("a directory").count(), 1);
    });
}
