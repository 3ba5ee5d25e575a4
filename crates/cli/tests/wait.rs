//! Functions with which tests wait for a condition, and not for a duration.
//!
//! The tests of this crate sleep only in this module: between two checks of a condition, and in deliberately slow
//! peers. A wait that exceeds its limit fails with the name of the condition.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// A wait that takes longer has failed, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

/// The interval between two checks of a condition.
const POLL: Duration = Duration::from_millis(5);

/// A value is steady if it is the same in this number of consecutive checks. All the checks together take half a
/// second.
const STEADY: u32 = 100;

/// Waits until `is_so` holds, for at most [`LONG`].
#[track_caller]
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_true(is_so), "waited too long until {what}");
}

/// Waits until `is_so` holds. Returns false if it does not hold within [`LONG`].
pub fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    for _ in 0..LONG.as_millis() / POLL.as_millis() {
        if is_so() {
            return true;
        }
        pace(POLL);
    }
    false
}

/// Waits until `value` no longer changes.
#[track_caller]
pub fn wait_until_steady<T: PartialEq>(what: &str, mut value: impl FnMut() -> T) {
    let (mut last, mut same) = (value(), 0);
    wait_until(what, || {
        let now = value();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same == STEADY
    });
}

/// Waits until `child` accepts connections at `address`.
#[track_caller]
pub fn wait_until_listening(child: &mut Child, address: SocketAddr) {
    wait_until(&format!("somebody listens at {address}"), || {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended: nobody listens at {address}");
        TcpStream::connect(address).is_ok()
    });
}

/// Waits until the other end of a loopback connection has read everything that was written to `stream`.
#[track_caller]
pub fn wait_until_read(stream: &TcpStream) {
    let (Ok(SocketAddr::V4(local_address)), Ok(SocketAddr::V4(remote_address))) =
        (stream.local_addr(), stream.peer_addr())
    else {
        return;
    };
    let [local_address, remote_address] = [local_address, remote_address]
        .map(|of| format!("{:08X}:{:04X}", u32::from_ne_bytes(of.ip().octets()), of.port()));
    wait_until("what was written is read", || {
        let unread = |local: &str, remote: &str, queue: usize| {
            let is_between = |words: &[&str]| words[1] == local && words[2] == remote;
            queued("tcp", is_between, queue) > 0
        };
        !unread(&local_address, &remote_address, SENT) && !unread(&remote_address, &local_address, RECEIVED)
    });
}

/// Waits until all datagrams received on this port of this host have been read.
#[track_caller]
pub fn wait_until_datagrams_are_read(port: u16) {
    let end = format!(":{port:04X}");
    wait_until("datagrams are read", || {
        ["udp", "udp6"].iter().all(|table| queued(table, |words| words[1].ends_with(&end), RECEIVED) == 0)
    });
}

/// Waits until a process has a handler for SIGINT.
#[track_caller]
pub fn wait_until_it_handles_interrupts(process: u32) {
    wait_until("it handles SIGINT", || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a set of signals");
        u64::from_str_radix(handled.trim(), 16).is_ok_and(|set| set & 2 != 0)
    });
}

const SENT: usize = 0;
const RECEIVED: usize = 1;

/// Returns the total number of bytes queued at the selected sockets of the table `/proc/net/{table}`. `is_meant` gets
/// the fields of a socket's line, and `queue` is [`SENT`] or [`RECEIVED`].
fn queued(table: &str, is_meant: impl Fn(&[&str]) -> bool, queue: usize) -> u64 {
    let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|words| words.len() > 4 && is_meant(words))
        .filter_map(|words| u64::from_str_radix(words[4].split(':').nth(queue)?, 16).ok())
        .sum()
}

/// Sleeps between two steps of a deliberately slow peer.
#[expect(clippy::disallowed_methods, reason = "programs run in the user's own time")]
pub fn pace(time: Duration) {
    thread::sleep(time);
}

/// Runs a command that must end within [`LONG`]. A slower command is killed, and the test fails.
#[track_caller]
pub fn run_in_time(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let read = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            bytes
        })
    };
    let stdout = read(Box::new(child.stdout.take().expect("piped")));
    let stderr = read(Box::new(child.stderr.take().expect("piped")));
    let ends = comes_true(|| child.try_wait().expect("a child").is_some());
    if !ends {
        let _ = child.kill();
    }
    let status = child.wait().expect("ended");
    assert!(ends, "{command:?} does not end");
    Output { status, stdout: stdout.join().expect("read"), stderr: stderr.join().expect("read") }
}
