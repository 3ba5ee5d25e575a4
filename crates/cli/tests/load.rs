//! Tests the commands `load` and `serve` as two processes. Covers the report, failures, a signal that ends `load`, and
//! every way to pace the requests.
//!
//! The tests use only the loopback interface and ports that the host chooses, and every wait has a limit.

#![cfg(target_os = "linux")]

use crate::running::wait_until;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

struct Server {
    child: Child,
    directory: PathBuf,
    urls: Vec<String>,
}

impl Server {
    fn start(name: &str) -> Self {
        Self::start_with(name, &["--quiet"])
    }

    fn start_with(name: &str, arguments: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("anabranch-load-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("1k"), [b'x'; 1000]).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .current_dir(&directory)
            .args(["serve", "--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"])
            .args(arguments)
            .stdout(fs::File::create(directory.join("log")).expect("a file"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut first = String::new();
        BufReader::new(child.stderr.take().expect("its errors")).read_line(&mut first).expect("a line");
        let urls = first.split_whitespace().filter(|word| word.contains("://")).map(str::to_owned).collect();
        Self { child, directory, urls }
    }

    /// Returns the number of requests in the server's log.
    fn requests(&self) -> usize {
        fs::read_to_string(self.directory.join("log")).expect("a log").lines().count()
    }

    fn urls(&self, target: &str) -> Vec<String> {
        assert_eq!(self.urls.len(), 2);
        self.urls.iter().map(|url| format!("{url}{target}")).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn load(url: &str, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command
        .args(["load", url, "--timeout", "20s"])
        .args(arguments.split_whitespace())
        .output()
        .expect("it starts")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Returns the value at the path `a.b.c` of a JSON document of objects.
fn at(text: &str, path: &str) -> serde_json::Value {
    let document: serde_json::Value = serde_json::from_str(text).expect("JSON");
    path.split('.').fold(document, |value, key| value[key].clone())
}

/// If no server listens, the number of failures must equal the number of requests. Sessions that try at the same time
/// must not add failures.
#[test]
fn no_more_fails_than_was_asked_for() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    for (url, arguments, failed) in [
        (format!("http://{free}/"), "-c 2 --requests 11", 11),
        (format!("http+sctp://{free}/"), "-c 3 --requests 7", 7),
        (format!("http+sctp://{free}/"), "--rate 500/s --requests 5", 5),
    ] {
        let output = load(&url, &format!("{arguments} --json -"));
        assert_eq!(output.status.code(), Some(1), "{url} {arguments}");
        assert_eq!(at(&out(&output), "errors.refused"), failed, "{url} {arguments}");
    }
}

#[test]
fn every_pace_brings_every_object() {
    let server = Server::start("paces");
    for url in server.urls("1k") {
        for (arguments, connections, replies) in [
            ("--rate 200/s --sessions 20 --objects-per-session 3", 20, 60),
            ("--rate 200/s --random --sessions 20", 20, 20),
            ("-c 3 --requests 50", 3, 50),
            ("-c 2 --sessions 6 --objects-per-session 5", 6, 30),
            ("--rate 500/s -c 2 --requests 40", 2, 40),
            ("-c 2 --sessions 7 --objects-per-session 0", 7, 0),
        ] {
            let output = load(&url, &format!("{arguments} --json -"));
            let text = out(&output);
            assert_eq!(
                output.status.code(),
                Some(0),
                "{url} {arguments}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert_eq!(at(&text, "schema"), "anabranch.load/1");
            assert_eq!(at(&text, "connections.total"), connections, "{url} {arguments}");
            assert_eq!(at(&text, "replies.status.2xx"), replies, "{url} {arguments}");
            assert_eq!(at(&text, "replies.content_bytes"), replies * 1000, "{url} {arguments}");
            assert_eq!(at(&text, "replies.latency.n"), replies, "{url} {arguments}");
            let from = if arguments.contains("--rate") { "planned" } else { "request" };
            assert_eq!(at(&text, "plan.latency_from"), from, "{url} {arguments}");
        }
    }
    // A TCP connection has a single stream, whatever the number of objects on it.
    for (url, streams) in server.urls("1k").iter().zip([1, 20]) {
        let text = out(&load(url, "-c 1 --requests 20 --objects-per-session 20 --json -"));
        assert_eq!(at(&text, "plan.streams"), streams, "{url}");
    }
    let url = &server.urls("1k")[1];
    let output = load(url, "-c 1 --streams 30 --requests 300");
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output).contains("Total: connections 1 requests 300 replies 300 "), "{}", out(&output));
}

/// The lines of httperf, with `#` for numbers. Scripts for httperf match these lines.
const BLOCKS: &str = "\
Total: connections # requests # replies # test-duration # s

Connection rate: # conn/s (# ms/conn, <=# concurrent connections)
Connection time [ms]: min # avg # max # median # stddev #
Connection time [ms]: connect #
Connection length [replies/conn]: #

Request rate: # req/s (# ms/req)
Request size [B]: #

Reply rate [replies/s]: min # avg # max # stddev # (# samples)
Reply time [ms]: response # transfer #
Reply size [B]: header # content # footer # (total #)
Reply status: 1xx=# 2xx=# 3xx=# 4xx=# 5xx=#

CPU time [s]: user # system # (user #% system #% total #%)
Net I/O: # KB/s (#*10^6 bps)

Errors: total # client-timo # socket-timo # connrefused # connreset #
Errors: fd-unavail # addrunavail # ftab-full # other #
";

fn without_numbers(text: &str) -> String {
    let mut blanked = String::new();
    let mut inside = false;
    let text =
        text.replace("1xx", "Ixx").replace("2xx", "IIxx").replace("3xx", "IIIxx").replace("4xx", "IVxx");
    for character in text.replace("5xx", "Vxx").replace("10^6", "TEN").chars() {
        let number = character.is_ascii_digit() || (inside && character == '.');
        if number && !inside {
            blanked.push('#');
        } else if !number {
            blanked.push(character);
        }
        inside = number;
    }
    let blanked = blanked.replace("TEN", "10^6").replace("IVxx", "4xx").replace("Vxx", "5xx");
    blanked.replace("IIIxx", "3xx").replace("IIxx", "2xx").replace("Ixx", "1xx")
}

#[test]
fn the_report_has_the_six_blocks_of_httperf() {
    let server = Server::start("report");
    let output = load(&server.urls("1k")[0], "--rate 100/s --sessions 10");
    let report = without_numbers(&out(&output));
    let (_, blocks) = report.split_once("\n\n").expect("the command, then the blocks");
    assert!(blocks.starts_with(BLOCKS), "{blocks}");
    assert!(
        blocks.contains("from the planned time of the session (coordinated omission is counted)"),
        "{blocks}"
    );
}

#[test]
fn failures_are_told_by_cause() {
    let server = Server::start("failures");
    for url in server.urls("none") {
        let output = load(&url, "-c 1 --requests 5");
        assert_eq!(output.status.code(), Some(1));
        assert!(out(&output).contains("Reply status: 1xx=0 2xx=0 3xx=0 4xx=5 5xx=0"), "{}", out(&output));
    }
    // Nothing listens on the discard port.
    for arguments in ["--rate 100/s --sessions 5", "-c 2 --duration 10min"] {
        let output = load("http://127.0.0.1:9/", arguments);
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), out(&output).as_str(), line.lines().count()),
            (Some(1), "", 1),
            "{line}"
        );
        assert!(line.contains("http://127.0.0.1:9/: cannot connect: connection refused: nothing"), "{line}");
    }
    // This server accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("its address"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let arguments = ["load", &url, "--timeout", "300ms", "--rate", "100/s", "--sessions", "3", "--json", "-"];
    let output = command.args(arguments).output().expect("it starts");
    let text = out(&output);
    assert_eq!((output.status.code(), at(&text, "errors.timeout")), (Some(1), 3.into()), "{text}");
}

#[test]
fn a_signal_ends_it_with_what_was_measured() {
    let server = Server::start_with("signal", &[]);
    for url in server.urls("1k") {
        let csv = server.directory.join("seconds.csv");
        let child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .args(["load", &url, "-c", "2", "--rate", "100/s", "--duration", "60s", "--json", "-", "--csv"])
            .arg(&csv)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // The CSV file has one row per second of the run. At 100 requests/s, the interrupt after 150 requests falls
        // into row 2.
        let before = server.requests();
        wait_until("there are 150 requests more", || server.requests() >= before + 150);
        assert!(
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success()
        );
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{text}");
        let json = out(&output);
        let count = |path: &str| at(&json, path).as_u64().expect("a number");
        let replies = count("replies.total");
        assert!(text.contains("Interrupted: ") && text.contains(&format!(" replies {replies} ")), "{text}");
        // All three outputs must agree, including the interrupted interval.
        let intervals = at(&json, "intervals");
        let intervals = intervals.as_array().expect("intervals");
        let sum = |name: &str| intervals.iter().filter_map(|interval| interval[name].as_u64()).sum::<u64>();
        assert!(intervals.len() >= 2 && replies > 0, "{json}");
        assert_eq!((sum("replies"), sum("requests")), (replies, count("requests.total")), "{json}");
        assert_eq!(sum("sessions"), count("connections.total"), "{json}");
        let rows = fs::read_to_string(&csv).expect("the rows");
        let mut rows = rows.lines();
        let names: Vec<_> = rows.next().expect("names").split(',').collect();
        let column = names.iter().position(|name| *name == "replies").expect("replies");
        let of = |row: &str| row.split(',').nth(column).and_then(|number| number.parse::<u64>().ok());
        assert_eq!(rows.filter_map(of).sum::<u64>(), replies);
        // The two sessions were still open at the interrupt. The statistics of session lifetimes must include them.
        assert_eq!((count("connections.lifetime.n"), count("connections.broken")), (2, 0), "{json}");
        assert!(count("connections.lifetime.min_ns") > 1_000_000_000, "{json}");
        let length = format!("Connection length [replies/conn]: {:.3}\n", replies as f64 / 2.0);
        assert!(text.contains(&length), "{text}");
    }
}

#[test]
fn a_page_draws_latency_and_load_over_time() {
    let server = Server::start("page");
    let file = server.directory.join("load.html");
    let file = file.to_str().expect("UTF-8");
    let output = load(&server.urls("1k")[0], &format!("--rate 200/s --sessions 300 --html {file}"));
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let page = std::fs::read_to_string(file).expect("a page");
    for part in ["Latency, ms", "Load, 1/s", "95th percentile,1.", "replies,1.", "--rate 200/s"] {
        assert!(page.contains(part), "{part}: {}", page.len());
    }
    let output = load("http://127.0.0.1:9/", "-c 1 --html -");
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.contains("--html -: expected a file name"), "{line}");
}
