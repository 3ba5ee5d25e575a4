//! Tests programs that receive SIGTERM while they are stuck. Each must end shortly after its grace period.
//!
//! The programs are stuck because they write to a pipe that nobody reads. This write is an example of a call that does
//! not return.

#![cfg(target_os = "linux")]

use crate::running::{LONG, Running, Scratch, anabranch, wait_until};
use anabranch_base::testing::are_slow_tests_enabled;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// The capacity of a pipe in bytes.
const PIPE: usize = 65_536;

/// Returns a pipe that stays full as long as its reader exists.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = io::pipe().expect("a pipe");
    let mut filler = writer.try_clone().expect("a handle");
    let (notify_full, full) = channel();
    thread::spawn(move || {
        let filled = filler.write_all(&[0; PIPE]);
        let _ = notify_full.send(filled.is_ok());
    });
    assert_eq!(full.recv_timeout(LONG), Ok(true), "a pipe holds {PIPE} bytes");
    (reader, writer)
}

/// Waits until a thread of this process is blocked in a write to a pipe.
fn wait_until_stuck(process: u32) {
    let is_stuck = || {
        let threads = fs::read_dir(format!("/proc/{process}/task")).expect("running").flatten();
        let mut waits = threads.filter_map(|thread| fs::read_to_string(thread.path().join("wchan")).ok());
        waits.any(|wait| wait.contains("pipe_write"))
    };
    wait_until("it is stuck", is_stuck);
}

/// Sends SIGTERM to a process, waits until it ends, and returns its exit code.
fn end(process: u32, mut try_wait: impl FnMut() -> Option<ExitStatus>) -> Option<i32> {
    let killed = Command::new("kill").arg("-TERM").arg(process.to_string()).status();
    assert!(killed.expect("kill").success());
    let mut status = None;
    wait_until("it ends", || {
        status = try_wait();
        status.is_some()
    });
    status.and_then(|status| status.code())
}

/// A program that is killed at the end of its test.
struct Program(Child);

impl Program {
    /// Waits until the program is stuck, tells it to end, and returns its exit code.
    fn end(mut self) -> Option<i32> {
        wait_until_stuck(self.0.id());
        end(self.0.id(), || self.0.try_wait().expect("known"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks that a server ends although it is stuck: it writes the log entry of a request to a full pipe.
fn stuck_server(arguments: &[&str], ask: impl FnOnce(&mut TcpStream)) {
    let (_reader, log) = full_pipe();
    let mut command = anabranch();
    command.args(arguments).args(["--listen", "tcp://127.0.0.1:0", "--grace", "1s"]);
    let mut server = Running::start_as(command, Stdio::from(log));
    let mut client = server.connect();
    ask(&mut client);
    wait_until_stuck(server.id());
    let code = end(server.id(), || server.try_wait());
    assert_eq!(code, Some(1), "{arguments:?}: exchanges did not finish");
}

#[test]
fn a_server_whose_log_nobody_reads_ends_when_asked() {
    let site = Scratch::new("overdue-serve");
    site.file("index.html", "<p>home");
    for threads in ["1", "2"] {
        stuck_server(&["serve", site.text(), "--threads", threads], |client| {
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
        });
    }
}

#[test]
fn a_gateway_whose_log_nobody_reads_ends_when_asked() {
    let site = Scratch::new("overdue-gateway");
    site.file("index.html", "<p>home");
    let origin = Running::start(&["serve", site.text(), "-q", "--listen", "tcp://127.0.0.1:0"]);
    let host = origin.tcp();
    for threads in ["1", "2"] {
        stuck_server(&["gateway", "--allow", "127.0.0.1", "--threads", threads], |client| {
            let request = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
            client.write_all(request.as_bytes()).expect("sent");
        });
    }
}

#[test]
fn load_and_bulk_whose_output_nobody_reads_end_when_asked() {
    let site = Scratch::new("overdue-load");
    site.file("index.html", "<p>home");
    let server = Running::start(&["serve", site.text(), "-q", "--listen", "tcp://127.0.0.1:0"]);
    let peer = Running::start(&["bulk", "--listen", "tcp://127.0.0.1:0"]);
    let load = ["load", server.url("http"), "--quiet", "--requests", "1", "--concurrency", "1"];
    let bulk = ["bulk", peer.url("tcp"), "--for", "1s"];
    for arguments in [&load[..], &bulk[..]] {
        let (_reader, output) = full_pipe();
        let mut command = anabranch();
        command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        let code = Program(command.spawn().expect("started")).end();
        assert_eq!(code, Some(130), "{arguments:?}");
    }
}

/// The thread that ends the process prints a line to a pipe that nobody reads. The process must still end.
#[test]
fn programs_end_whose_errors_nobody_reads() {
    let site = Scratch::new("overdue-errors");
    let serve = ["serve", site.text(), "-q", "--listen", "tcp://127.0.0.1:0", "--grace", "1s"];
    let bulk = ["bulk", "--listen", "tcp://127.0.0.1:0"];
    for (arguments, expected) in [(&serve[..], 1), (&bulk[..], 130)] {
        let (_reader, errors) = full_pipe();
        let mut command = anabranch();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let code = Program(command.spawn().expect("started")).end();
        assert_eq!(code, Some(expected), "{arguments:?}");
    }
}

/// A stuck program must end within `--grace` plus a second. Only the fastest of several runs counts, because a busy
/// machine may delay a run. A test in `crates/cli/src/watchdog.rs` adds up the waits exactly.
#[test]
#[expect(clippy::disallowed_methods, reason = "the promise is one of time")]
fn a_stuck_program_ends_within_its_grace_and_a_second() {
    if !are_slow_tests_enabled() {
        return;
    }
    let site = Scratch::new("overdue-clock");
    site.file("index.html", "<p>home");
    for grace in [0, 1, 3] {
        let arguments = ["serve", site.text(), "-q", "--listen", "tcp://127.0.0.1:0", "--grace"];
        let spans = (0..5).map(|_| {
            // Writes to standard error block too, so each step of the watchdog lasts until its time limit.
            let (_reader, errors) = full_pipe();
            let mut command = anabranch();
            command.args(arguments).arg(format!("{grace}s"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
            let program = Program(command.spawn().expect("started"));
            wait_until_stuck(program.0.id());
            let signaled_at = Instant::now();
            assert_eq!(program.end(), Some(1), "exchanges did not finish");
            signaled_at.elapsed()
        });
        let fastest = spans.min().expect("some runs");
        println!("--grace {grace}s: the fastest run took {fastest:?}");
        let grace = Duration::from_secs(grace);
        assert!(fastest >= grace, "{fastest:?}: it is stuck, so it cannot end by itself");
        assert!(fastest <= grace + Duration::from_secs(1), "{fastest:?} after the signal, of {grace:?}");
    }
}
