//! Builds and runs the usrsctp program `network/usrsctp.c`, which uses Debian's library, as the peer of measurements.

use crate::flows::{Flow, PINGS, Ping};
use crate::{Bench, floor, numbers, scripts};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The compiled program, which is removed on drop.
pub struct Usrsctp {
    program: PathBuf,
}

impl Usrsctp {
    /// Compiles the program that runs usrsctp.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn build() -> Result<Self, String> {
        let program = std::env::temp_dir().join(format!("anabranch-bench-usrsctp-{}", std::process::id()));
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra"]).arg(scripts().join("usrsctp.c"));
        gcc.arg("-o").arg(&program).args(["-lusrsctp", "-lpthread"]).stderr(Stdio::null());
        match gcc.status() {
            Ok(status) if status.success() => Ok(Self { program }),
            _ => Err("apt install gcc libusrsctp-dev".to_owned()),
        }
    }

    /// Transfers messages of `size` bytes with usrsctp. Returns `None` and prints the reason on failure.
    pub fn transfer(&self, bench: &Bench, size: u32) -> Option<Flow> {
        let port = PORT.to_string();
        let mut receiver = bench.net.server(&self.program);
        receiver.args(["receive", bench.net.server_address(), &port]);
        let (_receiver, mut lines, _) = bench.ready(receiver);
        let seconds = bench.seconds.to_string();
        let sent =
            self.client(bench, &["send", bench.net.server_address(), &port, &size.to_string(), &seconds])?;
        let received = numbers(&lines.next().and_then(Result::ok)?);
        let (&[spent], &[bytes, _, seconds, cost]) = (sent.as_slice(), received.as_slice()) else {
            println!("usrsctp said {sent:?} and {received:?}");
            return None;
        };
        Some(floor::flow(bytes, seconds, spent + cost, size as usize))
    }

    /// Measures the round-trip time of a 64-byte message with usrsctp.
    pub fn ping(&self, bench: &Bench) -> Option<Ping> {
        let port = (PORT + 10).to_string();
        let mut echo = bench.net.server(&self.program);
        echo.args(["echo", bench.net.server_address(), &port]);
        let (echo, _lines, _) = bench.ready(echo);
        let output = self.client(bench, &["ping", bench.net.server_address(), &port, "64", PINGS])?;
        Ping::of(&output, &echo)
    }

    /// Runs a usrsctp client and returns the numbers that it prints. Kills the client if it makes no progress.
    fn client(&self, bench: &Bench, words: &[&str]) -> Option<Vec<f64>> {
        let mut client = bench.net.client("timeout".as_ref());
        client.arg((bench.seconds + 20).to_string()).arg(&self.program).args(words);
        let output = client.output().ok()?;
        if !output.status.success() {
            println!("usrsctp failed: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Some(numbers(&String::from_utf8_lossy(&output.stdout)))
    }
}

impl Drop for Usrsctp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.program);
    }
}

const PORT: u16 = 9970;
