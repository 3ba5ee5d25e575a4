//! Tests result files as a user sees them. The files must be complete or absent. They must never replace a pipe, a
//! symbolic link or a directory. A command that fails must print exactly one line on standard error.

use crate::wait::wait_until;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Creates a new directory for one test.
fn new_directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("anabranch-outputs-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command
        .current_dir(directory)
        .args(["race", "--quiet", "--transport", "tcp", "--objects", "2x1kB", "--loss", "1%"])
        .args(arguments);
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, &[&["--runs", "1"], arguments].concat()).output().expect("it starts")
}

/// Checks that the command fails with this exit code and one line that contains `what`.
fn refused(directory: &Path, arguments: &[&str], status: i32, what: &str) {
    let output = run(directory, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains(what), "{arguments:?}: {stderr}");
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The same race is run several times, with one and with two threads, into different directories. Its reports must be
/// identical. All other files must also be identical, except for the facts about the host in results.json. Each
/// contestant must have files of its own.
#[test]
fn what_is_written_is_the_same_every_time() {
    let scratch = new_directory("again");
    let contestants = ["--transport", "a-b=tcp:iw=4", "--transport", "a+b=sctp", "--runs", "3"];
    let out = |name: &str, threads: &str| {
        let arguments = [&contestants[..], &["--out", name, "--threads", threads]].concat();
        let output = command(&scratch, &arguments).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        names(&scratch.join(name))
    };
    let (one, two) = (out("one", "1"), out("two", "2"));
    assert_eq!(one, two);
    // By default, only the server's capture is kept.
    let captures: Vec<&String> = one.iter().filter(|name| name.contains(".pcapng")).collect();
    assert!(
        captures.len() == 3 && captures.iter().all(|name| name.ends_with(".server.pcapng.gz")),
        "{one:?}"
    );
    assert!(one.iter().any(|name| name.starts_with("a-b-2.seed-")), "{one:?}");
    for name in one {
        let read = |directory: &str| fs::read(scratch.join(directory).join(&name)).expect("a file");
        let (mut first, mut second) = (read("one"), read("two"));
        if name == "results.json" {
            for text in [&mut first, &mut second] {
                let mut result: serde_json::Value = serde_json::from_slice(text).expect("JSON");
                assert!(result.as_object_mut().expect("an object").remove("host").is_some());
                *text = result.to_string().into_bytes();
            }
        }
        assert!(first == second, "{name} differs");
    }
    let _ = fs::remove_dir_all(scratch);
}

#[test]
fn a_pipe_is_written_to_and_not_replaced() {
    let scratch = new_directory("pipe");
    let pipe = scratch.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().expect("cat");
    assert_eq!(run(&scratch, &["--json", "pipe"]).status.code(), Some(0));
    let read = reader.wait_with_output().expect("cat ends").stdout;
    assert!(read.starts_with(b"{") && read.trim_ascii_end().ends_with(b"}"));
    assert!(fs::symlink_metadata(&pipe).expect("it is there").file_type().is_fifo());
    let _ = fs::remove_dir_all(scratch);
}

#[test]
fn a_link_stays_and_its_target_is_written() {
    let scratch = new_directory("link");
    fs::write(scratch.join("target"), "old").expect("written");
    std::os::unix::fs::symlink("target", scratch.join("link")).expect("linked");
    std::os::unix::fs::symlink("nowhere/at-all", scratch.join("dangling")).expect("linked");
    assert_eq!(run(&scratch, &["--csv", "link"]).status.code(), Some(0));
    assert!(fs::symlink_metadata(scratch.join("link")).expect("there").is_symlink());
    assert!(fs::read_to_string(scratch.join("target")).expect("there").starts_with("contestant,"));
    refused(&scratch, &["--csv", "dangling"], 3, "dangling");
    assert_eq!(names(&scratch), ["dangling", "link", "target"]);
    let _ = fs::remove_dir_all(scratch);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_run() {
    let scratch = new_directory("refused");
    refused(&scratch, &["--json", "x", "--csv", "./x"], 2, "same file");
    refused(&scratch, &["--json", ""], 2, "--json");
    refused(&scratch, &["--csv", ""], 2, "--csv");
    refused(&scratch, &["--out", ""], 2, "--out");
    refused(&scratch, &["--threads", "0"], 2, "--threads");
    refused(&scratch, &["--pcap", "all"], 2, "--out");
    refused(&scratch, &["--rat", "1mbit"], 2, "--rate");
    refused(&scratch, &["--transport", "a\nb\u{1b}[2J"], 2, "unknown transport");
    assert!(names(&scratch).is_empty(), "{:?}", names(&scratch));
    assert_eq!(run(&scratch, &["--out", "d", "--json", "d/again.json"]).status.code(), Some(0));
    let _ = fs::remove_dir_all(scratch);
}

#[test]
fn the_older_format_is_written_and_read() {
    let scratch = new_directory("version");
    let race = ["--transport", "sctp", "--loss", "2%", "--out", "out"];
    let older = [&race[..], &["--json-version", "2", "--json", "older.json"]].concat();
    assert_eq!(run(&scratch, &older).status.code(), Some(0));
    for file in ["older.json", "out/results.json"] {
        let text = fs::read_to_string(scratch.join(file)).expect("there");
        assert!(text.starts_with("{\n  \"schema\": \"anabranch.race/2\","), "{file}");
        assert!(text.contains("\"arms\": [\n        {\n          \"arm\": \"tcp\","), "{file}");
        assert!(!text.contains("median_ratio") && !text.contains("\"changes\""), "{file}");
    }
    let output = run(&scratch, &["--transport", "sctp", "--loss", "2%", "--compare", "older.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("new beside old"));
    let _ = fs::remove_dir_all(scratch);
}

/// With `all`, every run has the parts of its objects' response times. Otherwise at most three runs have them, and the
/// sums over all runs are the same. Without the flag, the JSON is that of `drawn`.
#[test]
fn json_has_the_detail_of_the_drawn_runs_or_of_all() {
    let scratch = new_directory("detail");
    let json = |name: &str, detail: &[&str]| {
        let arguments = [&["--runs", "6", "--loss", "5%", "--json", name], detail].concat();
        let output = command(&scratch, &arguments).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(scratch.join(name)).expect("there");
        let result: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        result["points"].clone()
    };
    let default = json("default.json", &[]);
    assert!(json("drawn.json", &["--json-detail", "drawn"]) == default, "drawn is not the default");
    let detailed = |points: &serde_json::Value| {
        let contestant = &points[0]["contestants"][0];
        let runs = contestant["runs"].as_array().expect("runs").clone();
        let has_parts = runs.iter().filter(|run| run["objects"]["why"].is_object()).count();
        (runs.len(), has_parts, contestant["summary"].clone())
    };
    let ((runs, drawn, summary), (_, whole, same)) =
        (detailed(&default), detailed(&json("all.json", &["--json-detail", "all"])));
    assert!(runs == 6 && (1..=3).contains(&drawn) && whole == 6, "{drawn} and {whole} of {runs}");
    assert_eq!(summary, same);
    let _ = fs::remove_dir_all(scratch);
}

#[test]
fn when_one_file_fails_none_appears() {
    let scratch = new_directory("partial");
    // The report is written after the files of page loads and captures. A directory with the report's name makes this
    // step fail.
    fs::create_dir_all(scratch.join("out/report.html")).expect("a directory");
    refused(&scratch, &["--out", "out"], 2, "'out' is not empty, and no race has written it");
    fs::write(scratch.join("out/results.json"), "{\"schema\": \"anabranch.race/2\"}").expect("written");
    refused(&scratch, &["--out", "out", "--json", "x.json"], 3, "report.html");
    assert_eq!(
        (names(&scratch), names(&scratch.join("out"))),
        (vec!["out".into()], vec!["report.html".into(), "results.json".into()])
    );
    let _ = fs::remove_dir_all(scratch);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_standard_output_is_told_and_a_closed_one_is_not() {
    let scratch = new_directory("stdout");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("linux has it");
    let output = command(&scratch, &["--runs", "1", "--json", "-"]).stdout(full).output().expect("it starts");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let mut child = command(&scratch, &["--runs", "1", "--json", "-"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let _ = fs::remove_dir_all(scratch);
}

#[test]
fn an_interrupt_leaves_nothing() {
    let scratch = new_directory("interrupt");
    let arguments = ["--runs", "500000", "--out", "a/b", "--json", "x.json", "--csv", "x.csv"];
    let mut child = command(&scratch, &arguments).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("its files have begun", || names(&scratch).len() >= 3);
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(names(&scratch).is_empty(), "{:?}", names(&scratch));
    let _ = fs::remove_dir_all(scratch);
}

/// `--trace-out ns2` must write one trace beside each capture. Where there is no capture, it must be refused in one line.
#[test]
fn a_trace_stands_beside_each_capture() {
    let scratch = new_directory("trace");
    let output = run(&scratch, &["--out", "out", "--trace-out", "ns2"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let traces: Vec<String> =
        names(&scratch.join("out")).into_iter().filter(|name| name.ends_with(".tr")).collect();
    assert_eq!(traces, ["tcp.seed-1.tr"]);
    let text = fs::read_to_string(scratch.join("out/tcp.seed-1.tr")).expect("a trace");
    assert!(text.starts_with("+ 0 0 1 tcp ") && text.contains("\nr "), "{text}");
    for (arguments, what) in [
        (&["--trace-out", "ns2"][..], "goes with --out DIR"),
        (&["--out", "off", "--trace-out", "ns2", "--pcap", "off"], "goes with --out DIR"),
        (&["--out", "many", "--trace-out", "ns2", "--rtt", "10ms,20ms"], "the plan has several points"),
        (&["--out", "other", "--trace-out", "ns3"], "ns3"),
    ] {
        let output = run(&scratch, arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(what), "{arguments:?}: {stderr}");
    }
}

/// The search for causes may take many times as long as the race. An interrupt in this time must not lose the answer.
#[test]
fn an_interrupt_while_causes_are_sought_prints_the_answer() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["race", "--objects", "40x200kB", "--loss", "1%", "--runs", "40", "--causes", "full"]);
    command.args(["--threads", "1", "--transport", "tcp:connections=6", "--transport", "tcp"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    // Outside a terminal, progress has a line every five seconds.
    while !line.contains(" more to find causes, for ") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("text") > 0, "it ended before it was interrupted");
    }
    assert!(line.starts_with("80 runs done, "), "{line}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let mut errors = String::new();
    stderr.read_to_string(&mut errors).expect("text");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("tcp:connections=6") || text.contains("tcp (6 connections)"), "{text}");
    assert!(text.contains("not known, because the race was interrupted."), "{text}");
    assert!(errors.contains("interrupted: all runs are done, but not the search for causes"), "{errors}");
}
