//! Programs under test: started with ports that the system chooses, and killed at the end of the test.

#![cfg(target_os = "linux")]
#![allow(dead_code, reason = "each test takes what it needs")]

pub use crate::wait::*;

use anabranch_emu::netns::Namespace;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The `anabranch` program that was built for this test.
pub fn anabranch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
}

/// A server that has printed its URLs.
pub struct Running {
    child: Child,
    /// The URLs that the server has printed.
    pub urls: Vec<String>,
    /// The lines that the server prints to standard error after its URLs.
    lines: mpsc::Receiver<String>,
}

impl Running {
    /// Starts `anabranch` with these arguments, and waits for the line with its URLs.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, Stdio::null())
    }

    /// Like [`start`](Self::start), but standard output goes to `output`. A server writes its log to standard output.
    pub fn start_with(arguments: &[&str], output: impl Into<Stdio>) -> Self {
        let mut command = anabranch();
        command.args(arguments);
        Self::start_as(command, output)
    }

    /// Starts the server that `command` runs, and waits until it prints its URLs.
    pub fn start_as(command: Command, output: impl Into<Stdio>) -> Self {
        let words = format!("{command:?}");
        Self::try_start(command, output).unwrap_or_else(|line| panic!("{words} said: {line}"))
    }

    /// Starts the server that `command` runs, and waits until it prints its URLs. If the server cannot listen, returns
    /// the line that it printed.
    pub fn try_start(mut command: Command, output: impl Into<Stdio>) -> Result<Self, String> {
        command.stdout(output).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let stderr = child.stderr.take().expect("piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut running = Self { child, urls: Vec::new(), lines };
        let line = running.lines.recv_timeout(LONG).map_err(|_| "nothing".to_owned())?;
        let words = line.split(' ').filter(|word| word.contains("://"));
        running.urls = words.map(str::to_owned).collect();
        if running.urls.is_empty() || line.contains("cannot listen") { Err(line) } else { Ok(running) }
    }

    /// Returns the first URL with this scheme.
    pub fn url(&self, scheme: &str) -> &str {
        let found = self.urls.iter().find(|url| url.starts_with(&format!("{scheme}://")));
        found.unwrap_or_else(|| panic!("no {scheme} in {:?}", self.urls))
    }

    /// Returns the address on which the server listens for TCP.
    pub fn tcp(&self) -> SocketAddr {
        let url = self.url("http").trim_start_matches("http://").trim_end_matches('/');
        url.parse().expect("an address")
    }

    /// Opens a TCP connection to the server.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.tcp()).expect("connected");
        stream.set_read_timeout(Some(LONG)).expect("a deadline");
        stream.set_write_timeout(Some(LONG)).expect("a deadline");
        stream
    }

    /// Sends `request` on a new connection and reads until the end.
    pub fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_ref()).expect("sent");
        let mut answer = Vec::new();
        // An error is ignored, because data that arrived before a reset remains valid.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Returns the process ID of the server.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of file descriptors that the server has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("running").count()
    }

    /// Returns the resident memory of the server in KiB.
    pub fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns the peak of the server's resident memory in KiB.
    pub fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, what: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("running");
        let line = status.lines().find(|line| line.starts_with(what)).expect("a line");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Sends SIGTERM to the server and returns its exit code.
    pub fn end(self) -> i32 {
        self.end_with_lines().0
    }

    /// Sends SIGTERM, and returns the exit code and the lines that the program has printed.
    pub fn end_with_lines(mut self) -> (i32, Vec<String>) {
        let pid = i32::try_from(self.child.id()).expect("a process");
        Command::new("kill").arg("-TERM").arg(pid.to_string()).status().expect("kill");
        let code = self.child.wait().expect("ended").code().expect("not by a signal");
        (code, self.lines.iter().collect())
    }

    /// Sends SIGHUP, so that the program reads its files again.
    pub fn hang_up(&self) {
        let status = Command::new("kill").arg("-HUP").arg(self.child.id().to_string()).status();
        assert!(status.expect("kill").success());
    }

    /// Waits until the program prints a line that contains `expected`.
    pub fn wait_for_line(&self, expected: &str) {
        loop {
            let line = self.lines.recv_timeout(LONG).unwrap_or_else(|_| panic!("it never said: {expected}"));
            if line.contains(expected) {
                return;
            }
        }
    }

    /// Stops the process with SIGSTOP. It does nothing from now on, but its sockets stay open.
    pub fn pause(&self) {
        let status = Command::new("kill").arg("-STOP").arg(self.child.id().to_string()).status();
        assert!(status.expect("kill").success());
    }

    pub fn still_runs(&mut self) -> bool {
        self.try_wait().is_none()
    }

    /// Returns the exit status if the process has ended.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("known")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that is removed at the end of the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        // The number distinguishes directories, because the tests of all files run in one process.
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("anabranch-{}-{number}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, content).expect("a file");
        path
    }

    /// Writes a file that only its owner may read or write, as required for keys.
    pub fn secret_file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name, content);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours");
        path
    }

    pub fn text(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end, with a time limit.
pub fn run(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = err.read_to_end(&mut bytes);
        bytes
    });
    let mut stdout = Vec::new();
    out.read_to_end(&mut stdout).expect("read");
    let status = child.wait().expect("ended");
    Output { status, stdout, stderr: reader.join().expect("read") }
}

/// Starts a server at the URL `listen`. It serves the directory `scratch` and keeps its certificate there.
pub fn serve_at(listen: &str, scratch: &Scratch, arguments: &[&str]) -> Running {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text());
    command.args(["serve", scratch.text(), "--quiet", "--listen", listen]).args(arguments);
    Running::start_as(command, Stdio::null())
}

/// Runs `get` and returns its exit code, its errors and the object.
pub fn get(url: &str, arguments: &[&str]) -> (Option<i32>, String, Vec<u8>) {
    let output = run(anabranch().args(["get", "--quiet", url]).args(arguments));
    (output.status.code(), errors(&output), output.stdout)
}

/// Returns the standard error of a program.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether this host supports emulated links. Panics if they are required and missing.
pub fn emulated_links() -> bool {
    let output = run(anabranch().args(["link", "--quiet", "--", "true"]));
    if output.status.success() {
        return true;
    }
    let why = errors(&output);
    assert!(
        std::env::var_os("ANABRANCH_REQUIRE_PEERS").is_none_or(|value| value != "1"),
        "no emulated links here: {why}; run this as root, or with user namespaces allowed, and install iproute2"
    );
    assert_eq!(output.status.code(), Some(3), "only a host that cannot is an excuse: {why}");
    println!("not tested here: {why}");
    false
}

/// Creates a network namespace with these addresses, which needs root. Returns `None` if the host does not permit it.
/// Panics instead if `ANABRANCH_REQUIRE_PEERS` is 1.
pub fn namespace(addresses: &[&str]) -> Option<Namespace> {
    let created = Namespace::create();
    if let Err(why) = &created {
        let required = std::env::var_os("ANABRANCH_REQUIRE_PEERS").is_some_and(|value| value == "1");
        assert!(!required, "no network namespaces here: {why}; run this as root");
        println!("not tested here: {why}");
    }
    let created = created.ok()?;
    let ip = |arguments: &[&str]| {
        let output = run(Command::new("ip").args(arguments));
        assert!(output.status.success(), "ip {arguments:?}: {}", errors(&output));
    };
    let ready = created.run(|| {
        ip(&["link", "set", "lo", "up"]);
        for address in addresses {
            let now: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            ip(&[&["address", "add", address, "dev", "lo"], now].concat());
        }
    });
    ready.expect("inside");
    Some(created)
}

/// Returns whether a program of another package is installed. If the program is missing, prints that the test is
/// skipped; panics instead if `ANABRANCH_REQUIRE_PEERS` is set.
pub fn has(program: &str) -> bool {
    let search_path = ["/usr/sbin", "/usr/bin", "/bin", "/usr/local/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(program).exists());
    // Names the Debian package of a program if it differs from the program's name.
    let package = match program {
        "nghttp" | "h2load" => "nghttp2-client",
        "nginx" => "nginx-light",
        "chromedriver" => "chromium-driver",
        "dumpcap" => "wireshark-common",
        name => name,
    };
    let missing = format!("{program} is missing (Debian: apt-get install {package})");
    assert!(search_path || std::env::var_os("ANABRANCH_REQUIRE_PEERS").is_none(), "{missing}");
    if !search_path {
        eprintln!("skipped: {missing}");
    }
    search_path
}

/// Returns pseudo-random bytes without short repetitions.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
