//! Tests `--dry-run` of commands that run until they are ended. It must print all settings, do nothing, and report the
//! usual errors.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::net::TcpListener;

/// Returns the output of a command, which must succeed without any message on standard error.
fn dry_run(arguments: &str) -> String {
    let output = run(anabranch().args(arguments.split(' ')));
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", errors(&output));
    assert!(output.stderr.is_empty(), "{arguments}: {}", errors(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn assert_has_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|other| other == *line), "no '{line}' in:\n{text}");
    }
}

#[test]
fn servers_tell_where_they_would_listen_and_do_not() {
    let scratch = Scratch::new("planned");
    // The port is in use, so a real listener would fail.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address");
    let listen = format!("--listen tcp://{at} --listen sctp://127.0.0.1,[::1]:7000 --listen sctp-ip://*");
    let root = scratch.text();
    let text = dry_run(&format!("serve {root} {listen} --streams 7 --threads 2 --quiet --dry-run"));
    let listening =
        [&*format!("listen: tcp://{at}"), "listen: sctp://127.0.0.1,[::1]:7000", "listen: sctp-ip://*:80"];
    assert_has_lines(&text, &listening);
    assert_has_lines(
        &text,
        &[&format!("directory: {root}"), "streams: 7", "threads: 2", "idle: 60s", "log: none"],
    );
    assert!(text.contains(",num_ostreams=7,") || text.contains("set: num_ostreams=7,"), "{text}");
    let text = dry_run(&format!("gateway {listen} --allow *.example.com --allow 10.0.0.0/8:80 -n"));
    assert_has_lines(&text, &listening);
    let carried =
        ["carries: to what is allowed, over TCP", "allow: *.example.com, 10.0.0.0/8:80", "exchanges: 4096"];
    assert_has_lines(&text, &carried);
    let text = dry_run("gateway --via http+sctp://nosuch.invalid -n");
    assert_has_lines(
        &text,
        &["listen: tcp://127.0.0.1:3128", "carries: to http+sctp://nosuch.invalid", "log: standard output"],
    );
    for wrong in
        ["serve /nosuch -n", "serve --idle 5 -n", "gateway -n", "gateway --listen udp://x --allow * -n"]
    {
        let output = run(anabranch().args(wrong.split(' ')));
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(
            output.stdout.is_empty() && errors(&output).lines().count() == 1,
            "{wrong}: {}",
            errors(&output)
        );
    }
}

#[test]
fn a_load_tells_its_plan_and_sends_nothing() {
    let scratch = Scratch::new("planned-load");
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    server.set_nonblocking(true).expect("a listener");
    let url = format!("http://{}/x", server.local_addr().expect("an address"));
    let json = format!("{}/x.json", scratch.text());
    let text = dry_run(&format!("load {url} --rate 100/s --sessions 3 --json {json} --dry-run"));
    let right = [
        "pace: open loop: a session every 10ms",
        "first due at: 0ms 10ms 20ms",
        "sessions: 3",
        "duration: no limit",
    ];
    assert_has_lines(&text, &right);
    assert_has_lines(
        &text,
        &[&format!("url: {url}"), "transport: tcp", "timeout: 5s", "objects-per-session: 1"],
    );
    let text = dry_run(&format!("load {url} -c 4 --objects-per-session 5 -n"));
    assert_has_lines(
        &text,
        &["pace: closed loop: 4 sessions at a time", "objects-per-session: 5", "duration: 10s"],
    );
    assert!(!text.contains("first due"), "{text}");
    let text = dry_run("load http+sctp://nosuch.invalid/ --rate 2/s -c 3 --set rcvbuf=1MiB -n");
    assert_has_lines(&text, &["pace: open loop: an object every 500ms, on 3 sessions", "transport: sctp"]);
    assert!(text.contains("rcvbuf=1048576B") || text.contains("rcvbuf=1MiB"), "{text}");
    assert!(server.accept().is_err() && !std::path::Path::new(&json).exists());
}

#[test]
fn clients_tell_what_they_would_fetch_and_send() {
    let scratch = Scratch::new("planned-clients");
    let out = format!("{}/out/", scratch.text());
    let text = dry_run(&format!("get http+sctp://10.0.0.1,10.0.1.1/a http://nosuch.invalid/ -o {out} -n"));
    assert_has_lines(
        &text,
        &["url: http+sctp://10.0.0.1,10.0.1.1/a", "url: http://nosuch.invalid/", "sctp-port: 80"],
    );
    assert_has_lines(&text, &[&format!("output: {out}"), "timeout: 30s for a connection, then 120s"]);
    assert!(text.contains("hb_interval=5s") && !std::path::Path::new(&out).exists(), "{text}");
    let text = dry_run("get --page http://nosuch.invalid/ --timeout 3s -n");
    assert_has_lines(&text, &["output: nowhere", "page: true", "timeout: 3s for a connection, then 3s"]);
    assert!(!text.contains("set:"), "{text}");
    let text = dry_run("bulk tcp://nosuch.invalid:5201 --reverse --size 1MB -n");
    assert_has_lines(&text, &["size: 1000000B", "messages: 65536B, in order, the server sends"]);
    let text = dry_run("bulk tcp://nosuch.invalid:5201 --size 1MB --set cc=reno -n");
    assert_has_lines(&text, &["size: 1000000B", "set: cc=reno"]);
    let text = dry_run("bulk --listen sctp://*:5201 --listen tcp://*:5201 --once -n");
    assert_has_lines(&text, &["listen: sctp://*:5201, tcp://*:5201", "once: true"]);
    for wrong in ["get http://10.0.0.1,10.0.1.1/ -n", "bulk tcp://10.0.0.1,10.0.1.1:1 -n", "get --page x -n"]
    {
        let output = run(anabranch().args(wrong.split(' ')));
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(output.stdout.is_empty() && errors(&output).lines().count() == 1, "{wrong}");
    }
}

/// With the same seed, `load --random` must list the same times for its first sessions. Without a seed it must list
/// none.
#[test]
fn a_seed_is_of_what_random_draws() {
    let drawn = |seed: &str| {
        let text = dry_run(&format!("load http://127.0.0.1:1/ --rate 100/s --random{seed} -n"));
        text.lines().find_map(|line| line.strip_prefix("first due at: ").map(str::to_owned))
    };
    let seven = drawn(" --seed 7").expect("drawn");
    assert_eq!(seven.split(' ').count(), 5);
    assert_eq!(drawn(" --seed 7"), Some(seven.clone()));
    assert_ne!(drawn(" --seed 8"), Some(seven));
    assert_eq!(drawn(""), None);
}

/// A knob of an earlier version is accepted under its old name, with one line.
#[test]
fn old_names_of_knobs_are_accepted_with_a_line() {
    let scratch = Scratch::new("renamed");
    let arguments = format!(
        "serve {} --listen sctp://127.0.0.1:7000 --set streams=7,inbound=5 --dry-run",
        scratch.text()
    );
    let output = run(anabranch().args(arguments.split(' ')));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let told = errors(&output);
    for line in [
        "anabranch: --set streams: now num_ostreams; the old name works until 0.2",
        "anabranch: --set inbound: now max_instreams; the old name works until 0.2",
    ] {
        assert_eq!(told.lines().filter(|other| *other == line).count(), 1, "{told}");
    }
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("max_instreams=5") && !text.contains("inbound="), "{text}");
}
