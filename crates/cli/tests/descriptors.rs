//! Tests that a server without free file descriptors answers with status 503, and that a single association cannot use
//! all descriptors.

#![cfg(target_os = "linux")]

use crate::peer::{associate, host, in_a_world};
use crate::running::{Running, Scratch, wait_until};
use anabranch_transport::{Session, Stream};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

const TCP_AND_SCTP: [&str; 4] = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];

/// Starts `serve` with a limit on the number of file descriptors.
fn limited(root: &str, descriptors: usize) -> Running {
    let mut shell = Command::new("sh");
    let limit = format!("ulimit -n {descriptors} && exec \"$0\" serve \"$@\"");
    shell.args(["-c", &limit, env!("CARGO_BIN_EXE_anabranch"), root, "-q"]).args(TCP_AND_SCTP);
    Running::start_as(shell, Stdio::null())
}

fn status(stream: &mut TcpStream, path: &str) -> String {
    write!(stream, "HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    let mut answer = [0; 2000];
    // The read is repeated: on a socket with a read timeout, any signal to the process interrupts a read.
    let length = loop {
        match stream.read(&mut answer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => break read.expect("an answer"),
        }
    };
    String::from_utf8_lossy(&answer[..length]).split(' ').nth(1).unwrap_or_default().to_owned()
}

/// RFC 9110 §15.6.4: a file that cannot be opened at the moment must not be reported as missing.
#[test]
fn out_of_descriptors_is_not_not_found() {
    let site = Scratch::new("descriptors");
    site.file("site/index.html", "<p>home");
    let server = limited(&format!("{}/site", site.text()), 40);
    let mut first = server.connect();
    assert_eq!(status(&mut first, "/none"), "404");
    let connections: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
    // The connections in `connections` have made no request, so the server has no cached open files to close.
    wait_until("it has no descriptors left", || server.descriptors() >= 40);
    assert_eq!(status(&mut first, "/"), "503");
    drop(connections);
    wait_until("it has descriptors again", || status(&mut first, "/") == "200");
}

/// RFC 6525 §5.2.5: an association must not get more streams than `--streams`. A file must be opened only once, even if
/// it is requested under many names.
#[test]
fn one_association_has_its_streams_and_no_more() {
    let site = Scratch::new("spellings");
    site.file("site/file", "x");
    let root = format!("{}/site", site.text());
    let mut arguments = vec!["serve", &root, "-q", "--streams", "50"];
    arguments.extend(TCP_AND_SCTP);
    let mut server = Running::start(&arguments);
    let before = server.descriptors();
    in_a_world(async |world| {
        let host = host(&world, 50).await;
        let session = associate(&host, &server).await;
        assert_eq!(session.streams(), 50);
        session.request_streams(1);
        assert_eq!(std::future::poll_fn(|cx| session.poll_streams_added(cx)).await, 50);
        let mut connections = Vec::new();
        for number in 0..50 {
            let mut stream = session.open(number).expect("a stream");
            let path = "/.".repeat(number as usize);
            let request = format!("HEAD {path}/file HTTP/1.1\r\nHost: a\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("sent");
            connections.push(stream);
        }
        for stream in &mut connections {
            assert!(stream.read(&mut [0; 100]).await.expect("an answer") > 0);
        }
        assert_eq!(server.descriptors(), before + 1);
    });
    assert!(server.still_runs());
}
