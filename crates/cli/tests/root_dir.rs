//! Tests that `serve` reveals no file outside its directory, even if links in the directory change meanwhile. It must
//! also reveal no hidden file unless the user allows it.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const TCP: &str = "tcp://127.0.0.1:0";

/// The number of rounds, with four requests each. Fewer rounds might never send a request at the short moment at which
/// a file is swapped with a link.
const ROUNDS: usize = 5_000;

/// During thousands of requests, a file and a directory are exchanged with links to the outside. No response may have
/// content from outside.
#[test]
fn a_link_that_is_swapped_meanwhile_leads_nowhere_else() {
    let site = Scratch::new("beneath-race");
    for (name, text) in [
        ("site/file", "inside"),
        ("site/way/index.html", "inside"),
        ("out/index.html", "SECRET"),
        ("out/x", "SECRET"),
    ] {
        site.file(name, text);
    }
    let root = site.0.join("site");
    let server = Running::start(&["serve", root.to_str().expect("UTF-8"), "-q", "--listen", TCP]);
    symlink("../out/x", root.join("lure")).expect("a link");
    symlink("../out", root.join("lures")).expect("a link");
    symlink("lures", root.join("by")).expect("a link");
    let stop = Arc::new(AtomicBool::new(false));
    let (stop_flag, directory) = (stop.clone(), root.clone());
    let swapping = thread::spawn(move || {
        let swap = |one: &str, other: &str| {
            renameat_with(CWD, directory.join(one), CWD, directory.join(other), RenameFlags::EXCHANGE)
                .expect("exchanged");
        };
        while !stop_flag.load(Ordering::Relaxed) {
            swap("file", "lure");
            swap("way", "lures");
        }
    });
    let mut stream = server.connect();
    let mut answers = BufReader::new(stream.try_clone().expect("a handle"));
    let (mut inside, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        for target in ["/file", "/way/", "/way/index.html", "/by/"] {
            // Also sends range requests and conditional requests, because they look up files, too.
            let fields = if inside % 2 == 0 { "Range: bytes=0-99\r\n" } else { "If-None-Match: \"x\"\r\n" };
            stream
                .write_all(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes())
                .expect("sent");
            let (mut head, mut length) = (String::new(), 0);
            while answers.read_line(&mut head).expect("an answer") > 2 {
                let line = head.lines().last().expect("a line").to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.parse().expect("a number");
                }
            }
            let mut body = vec![0; length];
            answers.read_exact(&mut body).expect("a body");
            let body = String::from_utf8_lossy(&body).into_owned();
            assert!(!body.contains("SECRET"), "{target}, after {inside} from inside: {head}{body}");
            if body == "inside" { inside += 1 } else { refused += 1 }
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().expect("swapped");
    assert!(inside > 100 && refused > 100, "nothing was swapped: {inside} from inside, {refused} refused");
}

#[test]
fn dotfiles_are_served_only_on_request() {
    let site = Scratch::new("beneath-dots");
    for name in ["site/.env", "site/.git/config", "site/sub/.htpasswd", "site/.well-known/acme"] {
        site.file(name, "dotted");
    }
    let root = format!("{}/site", site.text());
    for (flags, status) in [(&[][..], 404), (&["--dotfiles"][..], 200)] {
        let server = Running::start(&[&["serve", &root, "-q", "--listen", TCP], flags].concat());
        let ask = |target: &str| {
            server.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
        };
        for target in ["/.env", "/%2eenv", "//.env", "/.git/config", "/sub/%2Ehtpasswd"] {
            assert!(ask(target).starts_with(&format!("HTTP/1.1 {status} ")), "{target} {flags:?}");
        }
        assert!(ask("/.well-known/acme").starts_with("HTTP/1.1 200 "), "{flags:?}");
    }
}
