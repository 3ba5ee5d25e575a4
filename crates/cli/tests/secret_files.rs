//! Files that hold secrets: which private keys a server takes, by who has access to them.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Modes of a key's file, and whether a server takes it: the group may read it, nobody else may, and only the owner may
/// write it.
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

/// A server over TLS that keeps its own certificate in the scratch directory.
fn server(place: &Scratch, words: &[&str]) -> Command {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", place.text()).env_remove("SSLKEYLOGFILE");
    command.args(["serve", place.text(), "--quiet", "--listen", "https://127.0.0.1:0"]).args(words);
    command
}

/// The certificate and key, in one file, that a server has made for itself.
fn made(place: &Scratch) -> String {
    assert_eq!(Running::start_as(server(place, &[]), Stdio::null()).end(), 0);
    format!("{}/anabranch/self-signed.pem", place.text())
}

fn set_mode(file: &str, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("ours");
}

/// The server starts, or says in its first line why not.
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
