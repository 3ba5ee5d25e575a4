//! Tests files that hold secrets: which private keys a server accepts, depending on their permissions, and to which
//! files the secrets of sessions are written.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// File modes of a key, and whether a server accepts them. Only the owner may write the key, and only the owner and the
/// group may read it.
const MODES: [(u32, bool); 8] = [
    (0o600, true),
    (0o400, true),
    (0o640, true),
    (0o644, false),
    (0o660, false),
    (0o604, false),
    (0o602, false),
    (0o666, false),
];

/// A command for a TLS server that keeps its self-signed certificate in the scratch directory.
fn server(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text()).env_remove("SSLKEYLOGFILE");
    command.args(["serve", scratch.text(), "--quiet", "--listen", "https://127.0.0.1:0"]).args(arguments);
    command
}

/// Starts a server that creates its own certificate and key. Returns the path of the file that contains both.
fn create_pair(scratch: &Scratch) -> String {
    assert_eq!(Running::start_as(server(scratch, &[]), Stdio::null()).end(), 0);
    format!("{}/anabranch/self-signed.pem", scratch.text())
}

fn set_mode(file: &str, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("ours");
}

/// For each file mode, checks that the server starts, or that its first line of output says why it refuses the file.
fn check_each_mode(scratch: &Scratch, file: &str, arguments: &[&str]) {
    for (mode, is_taken) in MODES {
        set_mode(file, mode);
        let started = Running::try_start(server(scratch, arguments), Stdio::null());
        match started {
            Ok(running) => {
                assert_eq!(running.end(), 0);
                assert!(is_taken, "{mode:o} is taken");
            }
            Err(line) => {
                assert!(!is_taken, "{mode:o}: {line}");
                let says = [file, &format!("(mode {mode:o})"), "chmod 600"];
                assert!(says.iter().all(|says| line.contains(says)), "{mode:o}: {line}");
            }
        }
    }
}

#[test]
fn a_key_that_others_have_access_to_is_refused() {
    let scratch = Scratch::new("secret-key");
    let file = create_pair(&scratch);
    check_each_mode(&scratch, &file, &["--cert", &file, "--key", &file]);
}

#[test]
fn a_certificate_of_its_own_is_refused_where_others_have_access_to_its_key() {
    let scratch = Scratch::new("secret-own");
    let file = create_pair(&scratch);
    check_each_mode(&scratch, &file, &[]);
}

#[test]
fn a_key_that_others_have_access_to_is_refused_on_reload() {
    let scratch = Scratch::new("secret-reload");
    let file = create_pair(&scratch);
    let running = Running::start_as(server(&scratch, &["--cert", &file, "--key", &file]), Stdio::null());
    set_mode(&file, 0o644);
    running.hang_up();
    running.wait_for_line("certificate: not changed: ");
    set_mode(&file, 0o600);
    running.hang_up();
    running.wait_for_line("certificate: read again from ");
    assert_eq!(running.end(), 0);
}

/// TLS secrets must be written only to the file that `SSLKEYLOGFILE` names, never through a symbolic link or into a
/// FIFO. Other users must not be able to read the file.
#[test]
fn the_key_log_follows_no_link_and_waits_for_nobody() {
    let scratch = Scratch::new("secret-log");
    scratch.file("index.html", "hello");
    let running = Running::start_as(server(&scratch, &[]), Stdio::null());
    let get = |log: &Path| {
        let mut command = anabranch();
        command.env("SSLKEYLOGFILE", log);
        let got = run(command.args(["get", "--quiet", "--insecure", running.url("https")]));
        assert_eq!((got.status.code(), &*got.stdout), (Some(0), &b"hello"[..]), "{}", errors(&got));
        errors(&got)
    };
    let target = scratch.file("target", "");
    let link = scratch.0.join("link");
    symlink(&target, &link).expect("a link");
    let dangling = scratch.0.join("dangling");
    symlink(scratch.0.join("nowhere"), &dangling).expect("a link");
    for link in [&link, &dangling] {
        let output = get(link);
        assert!(output.contains("SSLKEYLOGFILE") && output.contains("symbolic link"), "{output}");
    }
    assert_eq!(fs::read_to_string(&target).expect("there"), "");
    assert!(!scratch.0.join("nowhere").exists());
    let pipe = scratch.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let output = get(&pipe);
    assert!(output.contains("SSLKEYLOGFILE"), "{output}");
    let log = scratch.0.join("log");
    assert!(!get(&log).contains("SSLKEYLOGFILE"));
    assert!(!get(&log).contains("SSLKEYLOGFILE"));
    let mode = fs::metadata(&log).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The file must have the secrets of both sessions.
    let secrets = fs::read_to_string(&log).expect("written");
    assert_eq!(secrets.matches("CLIENT_TRAFFIC_SECRET_0 ").count(), 2, "{secrets}");
    assert_eq!(running.end(), 0);
}
