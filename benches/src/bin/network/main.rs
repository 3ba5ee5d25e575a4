//! Measures the speed of data transfer between real processes. The commands `bulk`, `load` and `serve` of `anabranch`
//! are compared with usrsctp, the kernel's TCP, nginx, and UDP alone.
//!
//! The processes run in two network namespaces, which are joined by a veth pair with an MTU of 1500. If the host does
//! not allow namespaces, they use the loopback interface. The runs of the compared programs alternate, and medians are
//! printed. Trust the ratios and the CPU seconds, not the Gbit/s of a busy machine. The last table compares each
//! performance target with the result.
//!
//! - `flows`: bulk transfers, small messages and ping-pong
//! - `floor`, `ping`, `usrsctp`: programs that `flows` runs to measure the UDP baseline, round-trip times and usrsctp
//! - `web`: HTTP; `sessions`: thousands of associations
//! - `net`: the namespaces; `aims`: the table of performance targets at the end of the output

mod aims;
mod floor;
mod flows;
mod net;
mod ping;
mod sessions;
mod usrsctp;
mod web;

use aims::Aims;
use net::Net;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("floor") => return floor::run(&words[1..]),
        Some("ping") => return ping::run(&words[1..]),
        Some("--help" | "-h") => return println!("{HELP}"),
        _ => {}
    }
    let flag = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: u32| flag(name).map_or(default, |text| text.parse().expect(name));
    let anabranch: PathBuf = flag("--anabranch").map_or("../target/dist/anabranch".into(), PathBuf::from);
    assert!(anabranch.is_file(), "no {}; build it, or say --anabranch FILE", anabranch.display());
    let only = flag("--only").map_or("", String::as_str);
    assert!(only.is_empty() || PARTS.iter().any(|(name, _)| *name == only), "--only {only}: {HELP}");
    let bench = Bench {
        anabranch,
        seconds: number("--seconds", 2),
        runs: number("--runs", 3) as usize,
        sessions: number("--sessions", 1_000_000),
        net: Net::make(words.iter().any(|word| word == "--loopback")),
        aims: Aims::default(),
    };
    println!("{}; medians of {} runs of {} s", bench.net.told(), bench.runs, bench.seconds);
    for (name, part) in PARTS {
        // The benchmark `million` runs only if `--only` names it.
        if only == *name || (only.is_empty() && *name != "million") {
            part(&bench);
        }
    }
    bench.aims.print();
}

const HELP: &str = "network [--only bulk|usrsctp|single|http|sessions|memory|churn|million] [--seconds N] [--runs N] \
                    [--sessions N] [--loopback] [--anabranch FILE]";

type Part = (&'static str, fn(&Bench));

const PARTS: &[Part] = &[
    ("bulk", Bench::bulk),
    ("usrsctp", Bench::usrsctp),
    ("single", Bench::single),
    ("http", Bench::http),
    ("sessions", Bench::setups),
    ("memory", Bench::memory),
    ("churn", Bench::churn),
    ("million", Bench::million),
];

struct Bench {
    anabranch: PathBuf,
    seconds: u32,
    runs: usize,
    sessions: u32,
    net: Net,
    aims: Aims,
}

impl Bench {
    fn at(&self, scheme: &str) -> String {
        format!("{scheme}://{}:0", self.net.server_address())
    }

    /// Starts `anabranch` as a server. Returns the server with the URLs that it prints.
    fn server(&self, words: &[&str]) -> Server {
        let mut command = self.net.server(&self.anabranch);
        let mut child =
            command.args(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut errors = BufReader::new(child.stderr.take().expect("its errors"));
        let mut first = String::new();
        errors.read_line(&mut first).expect("a line");
        let urls = first.split_whitespace().filter(|word| word.contains("://")).map(str::to_owned).collect();
        // The rest of the server's output must be read, too. Otherwise the server could block on a full pipe.
        std::thread::spawn(move || errors.lines().for_each(drop));
        Server { child: Running(child), urls }
    }

    /// Runs `anabranch` as a client and returns its JSON output.
    fn client(&self, words: &[&str]) -> Value {
        let output = self.net.client(&self.anabranch).args(words).output().expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {stderr}"))
    }

    /// Starts a child process whose first line says that it is ready. Returns the child, its remaining lines, and the
    /// first line.
    fn ready(&self, mut command: Command) -> (Running, Lines, String) {
        let mut child = Running(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let mut lines = BufReader::new(child.0.stdout.take().expect("its output")).lines();
        let first = lines.next().and_then(Result::ok).expect("its first line");
        (child, lines, first)
    }
}

type Lines = std::io::Lines<BufReader<std::process::ChildStdout>>;

/// Returns all numbers in a line of a program's output.
fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

fn wait(span: Duration) {
    std::thread::sleep(span);
}

/// A child process that is killed on drop.
struct Running(Child);

impl Running {
    /// Returns the processor time that all threads of the child process have used so far, in seconds.
    fn cpu(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten().flatten();
        let nanos = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        };
        tasks.filter_map(nanos).sum::<f64>() / 1e9
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Server {
    child: Running,
    urls: Vec<String>,
}

impl Server {
    /// Returns the processor time that the server has used so far, in seconds.
    fn cpu(&self) -> f64 {
        self.child.cpu()
    }

    /// Returns the resident memory of the server in kB (of 1000 bytes).
    fn memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.0.id())).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmRSS:"));
        let pages = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        pages.unwrap_or(0) * 1024 / 1000
    }
}

/// Returns the folder of the benchmark's scripts and other files that are not Rust.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("network")
}
