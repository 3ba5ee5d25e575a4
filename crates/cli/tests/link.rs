//! Tests `link`: a command behind an emulated link, its exit status, and the addresses that it can reach.
//!
//! Needs network namespaces: root, or a host that permits user namespaces. If there are none, the tests print a message
//! and pass, unless `ANABRANCH_REQUIRE_PEERS=1` is set, as it is in CI. No test measures time.

#![cfg(target_os = "linux")]

use crate::running::{emulated_links, errors};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// Runs the program with these arguments.
fn anabranch(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("it starts")
}

/// A directory with a site, removed at the end of the test.
struct SiteDirectory(PathBuf);

impl SiteDirectory {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("anabranch-link-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("site")).expect("a directory");
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(directory.join("site/big"), bytes).expect("a file");
        Self(directory)
    }
}

impl Drop for SiteDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_status_is_the_commands() {
    if !emulated_links() {
        return;
    }
    for (arguments, status) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["there-is-no-such-command"], 127),
        (&["/etc/passwd"], 126),
    ] {
        let output = anabranch(&[&["link", "--quiet", "--"], arguments].concat());
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", errors(&output));
    }
}

/// If the command at the far end fails, `link` must report this, and must not wait until the command listens.
#[test]
fn a_far_command_that_fails_is_told_of() {
    if !emulated_links() {
        return;
    }
    let output = anabranch(&["link", "--quiet", "--far", "exit 3", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    assert_eq!(errors(&output), "anabranch: --far exit 3: ended with status 3\n");
    let output = anabranch(&["link", "--quiet", "--far", "exec sleep 60", "--", "true"]);
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
}

#[test]
fn what_is_wrong_with_the_request_is_one_line() {
    for (arguments, expected) in [
        (&["link", "--rate", "10", "--", "true"][..], "--rate"),
        (&["link", "--loss", "1%,2%", "--", "true"], "list"),
        (&["link", "--rtt", "10ms", "--delay", "5ms", "--", "true"], "delay is one way"),
        (&["link", "--rate", "10mbit"], "CMD"),
    ] {
        let output = anabranch(arguments);
        let line = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
        assert!(line.lines().count() == 1 && line.contains(expected), "{arguments:?}: {line}");
    }
    let planned =
        anabranch(&["link", "--dry-run", "--path", "rate=1mbit", "--path", "rate=2mbit", "--", "true"]);
    let text = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(planned.status.success() && text.contains("link 2: rate=2mbit"), "{text}");
}

/// Fetches a file over TCP and over SCTP through a link that loses packets. The numbers of sent, lost and delivered
/// packets must add up.
fn transfer(device: &str) {
    let directory = SiteDirectory::new(device);
    let serve = format!("{PROGRAM} serve site --quiet --listen tcp://*:8080 --listen sctp://*:9899");
    let get = format!(
        "for url in http://$ANABRANCH_FAR:8080 http+sctp://$ANABRANCH_FAR:9899; do \
         {PROGRAM} get --quiet $url/big > got && cmp got site/big || exit 1; done"
    );
    let flags = [
        "link",
        "--device",
        device,
        "--rate",
        "50mbit",
        "--rtt",
        "4ms",
        "--loss",
        "nth:40/first=20",
        "--json",
        "link.json",
    ];
    let mut command = Command::new(PROGRAM);
    command.current_dir(&directory.0).args(flags).args(["--far", &serve, "--", "sh", "-c", &get]);
    let output = command.output().expect("it starts");
    let stderr = errors(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("by the loss model") && stderr.contains("delay 2."), "{stderr}");
    let json = fs::read_to_string(directory.0.join("link.json")).expect("the account");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    for direction in ["up", "down"] {
        let of = |part: &str| {
            json.pointer(&format!("/links/0/{direction}/{part}/packets")).and_then(|n| n.as_u64())
        };
        let (entered, left) = (of("in").expect("a number"), of("out").expect("a number"));
        let lost = of("lost/loss").expect("a number") + of("lost/queue").expect("a number");
        let inside =
            json.pointer(&format!("/links/0/{direction}/under_way_packets")).and_then(|n| n.as_u64());
        assert_eq!(entered, left + lost + inside.expect("a number"), "{json:#}");
        assert!(entered > 200 && lost > 0, "{json:#}");
    }
}

/// A server at the far end must be reachable at all far addresses that `link` names.
#[test]
fn the_far_end_of_several_paths_is_one_server() {
    if !emulated_links() {
        return;
    }
    let directory = SiteDirectory::new("paths");
    let far = format!("exec {PROGRAM} serve site --quiet --listen sctp://$ANABRANCH_FAR:9899");
    // The first path is down from the beginning, so the second path must carry the handshake.
    let get =
        format!("exec {PROGRAM} get --quiet --set rto_initial=200ms http+sctp://$ANABRANCH_FAR/big -o got");
    let mut command = Command::new(PROGRAM);
    command.current_dir(&directory.0).args([
        "link",
        "--quiet",
        "--path",
        "rate=50mbit",
        "--path",
        "rate=50mbit",
    ]);
    command.args(["--fail", "path=1,at=0s", "--far", &far, "--", "sh", "-c", &get]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", errors(&output));
    assert!(
        fs::read(directory.0.join("got")).expect("it came")
            == fs::read(directory.0.join("site/big")).expect("there")
    );
}

#[test]
fn the_same_bytes_come_through_a_lossy_link() {
    if emulated_links() {
        transfer("tun");
    }
}

#[test]
fn ethernet_does_what_tun_does() {
    if emulated_links() {
        transfer("veth");
    }
}

#[test]
fn links_are_put_inside_one_another_and_side_by_side() {
    if !emulated_links() {
        return;
    }
    let directory = SiteDirectory::new("nest");
    // The server is at the outermost far end, two links away, and its responses must be routed back.
    let serve = format!("{PROGRAM} serve site --quiet --listen tcp://*:8080");
    let get = format!("{PROGRAM} get --quiet http://$OUTER:8080/big | cmp - site/big");
    let inner =
        format!("export OUTER=$ANABRANCH_FAR; exec {PROGRAM} link --rate 50mbit --rtt 4ms -- sh -c '{get}'");
    let mut command = Command::new(PROGRAM);
    command.current_dir(&directory.0).args(["link", "--rate", "50mbit", "--rtt", "4ms", "--far", &serve]);
    let output = command.args(["--", "sh", "-c", &inner]).output().expect("it starts");
    assert!(output.status.success(), "{}", errors(&output));

    // A packet must leave through the link of its source address, because each link has a routing rule of its own.
    let count =
        "test $(echo $ANABRANCH_NEAR | tr , '\\n' | wc -l) = 2 && ip rule | grep -c 'from 100' | grep -qx 2";
    let paths = ["--path", "rate=10mbit,rtt=2ms", "--path", "rate=5mbit,rtt=4ms"];
    let output = anabranch(&[&["link"], &paths[..], &["--", "sh", "-c", count]].concat());
    let stderr = errors(&output);
    assert!(output.status.success() && stderr.contains("link 2: rate=5mbit"), "{stderr}");
}

#[test]
fn a_race_runs_on_real_kernels() {
    if !emulated_links() {
        return;
    }
    let directory = SiteDirectory::new("race");
    let flags =
        ["race", "--world", "emulated", "--quiet", "--objects", "4x10kB", "--rate", "20mbit", "--rtt", "4ms"];
    let contestants = ["--loss", "0", "--transport", "tcp:cc=reno", "--transport", "sctp", "--runs", "2"];
    let mut command = Command::new(PROGRAM);
    command
        .current_dir(&directory.0)
        .args(flags)
        .args(contestants)
        .args(["--json", "r.json", "--out", "out", "--pcap", "ends"]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", errors(&output));
    let json = fs::read_to_string(directory.0.join("r.json")).expect("the result");
    assert!(json.contains("\"world\": \"emulated\"") && json.contains("\"engine\": \"Linux"), "{json}");
    assert!(!json.contains("\"wire_ns\"") && json.matches("\"outcome\":\"done\"").count() == 4, "{json}");
    for file in fs::read_dir(directory.0.join("out")).expect("a directory") {
        let file = file.expect("an entry").path();
        if file.to_string_lossy().ends_with(".pcapng.gz") {
            let output = anabranch(&["decode", &file.to_string_lossy()]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains("100.64.0.1"), "{}: {text}", file.display());
        }
    }
    let captures = fs::read_dir(directory.0.join("out")).expect("a directory").filter_map(Result::ok);
    let captures = captures.filter(|entry| entry.file_name().to_string_lossy().ends_with(".pcapng.gz"));
    assert_eq!(captures.count(), 4, "either end of either contestant's median run");

    // Settings that real kernels do not have must be rejected, and not ignored.
    for (transport, expected) in
        [("tcp:iw=3", "the kernel's runs"), ("sctp:packet-cost=1ms", "virtual world")]
    {
        let arguments = ["race", "--world", "emulated", "--transport", transport];
        let output = anabranch(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        assert!(errors(&output).contains(expected), "{}", errors(&output));
    }
}
