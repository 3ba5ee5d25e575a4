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
fn server(place: &Scratch, words: &[&str]) -> Command {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", place.text()).env_remove("SSLKEYLOGFILE");
    command.args(["serve", place.text(), "--quiet", "--listen", "https://127.0.0.1:0"]).args(words);
    command
}

/// Returns the path of the certificate and key, in one file, that a server has made for itself.
fn made(place: &Scratch) -> String {
    assert_eq!(Running::start_as(server(place, &[]), Stdio::null()).end(), 0);
    format!("{}/anabranch/self-signed.pem", place.text())
}

fn set_mode(file: &str, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("ours");
}

/// Checks for each file mode that the server starts, or prints the reason in its first line.
fn check_each_mode(place: &Scratch, file: &str, words: &[&str]) {
    for (mode, is_taken) in MODES {
        set_mode(file, mode);
        let started = Running::try_start(server(place, words), Stdio::null());
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
    let place = Scratch::new("secret-key");
    let file = made(&place);
    check_each_mode(&place, &file, &["--cert", &file, "--key", &file]);
}

#[test]
fn a_certificate_of_its_own_is_refused_where_others_have_access_to_its_key() {
    let place = Scratch::new("secret-own");
    let file = made(&place);
    check_each_mode(&place, &file, &[]);
}

#[test]
fn a_key_that_others_have_access_to_is_refused_on_reload() {
    let place = Scratch::new("secret-reload");
    let file = made(&place);
    let running = Running::start_as(server(&place, &["--cert", &file, "--key", &file]), Stdio::null());
    set_mode(&file, 0o644);
    running.hang_up();
    running.line("certificate: not changed: ");
    set_mode(&file, 0o600);
    running.hang_up();
    running.line("certificate: read again from ");
    assert_eq!(running.end(), 0);
}

/// Checks that the secrets of sessions are written only to the named file itself, which other users cannot read.
#[test]
fn the_key_log_follows_no_link_and_waits_for_nobody() {
    let place = Scratch::new("secret-log");
    place.file("index.html", "hello");
    let running = Running::start_as(server(&place, &[]), Stdio::null());
    let get = |log: &Path| {
        let mut command = anabranch();
        command.env("SSLKEYLOGFILE", log);
        let got = run(command.args(["get", "--quiet", "--insecure", running.url("https")]));
        assert_eq!((got.status.code(), &*got.stdout), (Some(0), &b"hello"[..]), "{}", errors(&got));
        errors(&got)
    };
    let target = place.file("target", "");
    let link = place.0.join("link");
    symlink(&target, &link).expect("a link");
    let dangling = place.0.join("dangling");
    symlink(place.0.join("nowhere"), &dangling).expect("a link");
    for link in [&link, &dangling] {
        let said = get(link);
        assert!(said.contains("SSLKEYLOGFILE") && said.contains("symbolic link"), "{said}");
    }
    assert_eq!(fs::read_to_string(&target).expect("there"), "");
    assert!(!place.0.join("nowhere").exists());
    let pipe = place.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let said = get(&pipe);
    assert!(said.contains("SSLKEYLOGFILE"), "{said}");
    let log = place.0.join("log");
    assert!(!get(&log).contains("SSLKEYLOGFILE"));
    assert!(!get(&log).contains("SSLKEYLOGFILE"));
    let mode = fs::metadata(&log).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The file must have the secrets of both sessions.
    let secrets = fs::read_to_string(&log).expect("written");
    assert_eq!(secrets.matches("CLIENT_TRAFFIC_SECRET_0 ").count(), 2, "{secrets}");
    assert_eq!(running.end(), 0);
}
