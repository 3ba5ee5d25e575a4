//! Tests `race --world emulated` and `bulk` with features of real kernels: loss by iptables, Multipath TCP, SCTP.
//!
//! Needs network namespaces. If there are none, the tests print a message and pass. If the kernel or the host lacks
//! anything else, the command must exit with code 3 and say so in one line.

#![cfg(target_os = "linux")]

use crate::running::{emulated_links, errors};
use anabranch_base::testing::are_slow_tests_enabled;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

fn anabranch(arguments: &str) -> Output {
    Command::new(PROGRAM).args(arguments.split_whitespace()).output().expect("it starts")
}

/// Runs an emulated race and returns its result.
fn race(arguments: &str) -> Value {
    let output = anabranch(&format!("race --world emulated --quiet --json - {arguments}"));
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", errors(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns all runs of the race result `race`, each with the name of its contestant.
fn runs(race: &Value) -> Vec<(String, Value)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let contestants = list(&race["points"]).into_iter().flat_map(|point| list(&point["contestants"]));
    contestants
        .flat_map(|contestant| {
            let name = contestant["name"].as_str().unwrap_or_default().to_owned();
            list(&contestant["runs"]).into_iter().map(move |run| (name.clone(), run))
        })
        .collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Returns the number of bytes that arrived from the server over each path.
fn bytes_down(run: &Value) -> Vec<u64> {
    let paths = run["series"]["paths"].as_array().expect("paths");
    let sum = |path: &Value| path["down"]["delivered"].as_array().expect("bytes").iter().map(number).sum();
    paths.iter().map(sum).collect()
}

/// Returns whether the host has the optional feature `what`, which the command of `output` needs. If the host lacks the
/// feature, the command must exit with code 3 and print one line that names the feature.
fn has(output: &Output, what: &str) -> bool {
    let stderr = errors(output);
    if output.status.code() == Some(3) {
        assert!(stderr.lines().count() == 1 && stderr.contains(what), "{stderr}");
        // The test is skipped if the kernel lacks a feature. It is also skipped if the program `iptables` is missing,
        // unless ANABRANCH_REQUIRE_PEERS=1 requires all external programs.
        let required = std::env::var_os("ANABRANCH_REQUIRE_PEERS").is_some_and(|value| value == "1");
        assert!(!required || !stderr.contains("there is no 'iptables'"), "{stderr}");
        println!("not tested here: {stderr}");
        return false;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    true
}

/// A directory of programs that precedes other directories in PATH, removed at the end of the test.
struct Programs(PathBuf);

impl Programs {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("anabranch-emulated-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        for path in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
            if path.join("ip").exists() {
                symlink(path.join("ip"), directory.join("ip")).expect("a link");
                break;
            }
        }
        Self(directory)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn rules_of_iptables_lose_the_packets_in_the_links_place() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let network =
        "--objects 10x20kB --rate 20mbit --rtt 4ms --queue 100p --transport tcp:cc=reno --transport sctp";
    let tried =
        anabranch(&format!("race --world emulated --quiet --loss-by iptables --loss 1% --runs 1 {network}"));
    if !has(&tried, "iptables") {
        return;
    }
    // The iptables rule drops every 20th packet, starting with packet 5. The number of drops must follow exactly from
    // the number of packets.
    let found = race(&format!("--loss-by iptables --loss nth:20/first=5 --runs 2 {network}"));
    assert_eq!(found["plan"]["loss-by"], "iptables");
    assert!(found["points"][0]["network"].as_str().is_some_and(|text| text.ends_with("; loss by iptables")));
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("iptables drops packets after the links"), "{warnings}");
    let all = runs(&found);
    assert_eq!(all.len(), 4);
    for (contestant, run) in &all {
        assert_eq!(run["outcome"], "done", "{contestant}");
        let of = |direction: &str| {
            let own_runs =
                all.iter().filter(|(name, _)| name == contestant).map(|(_, run)| &run["rules"][direction]);
            own_runs
                .fold((0, 0), |(a, b), rules| (a + number(&rules["packets"]), b + number(&rules["dropped"])))
        };
        let ((came_up, lost_up), (came_down, lost_down)) = (of("up"), of("down"));
        let line = format!(
            "{contestant}: loss by iptables: up {lost_up} of {came_up} packets dropped, down {lost_down} of {came_down} \
             packets dropped"
        );
        assert!(warnings.contains(&line), "{line}: {warnings}");
        for direction in ["up", "down"] {
            let (packets, rules) = (&run["packets"][direction], &run["rules"][direction]);
            let (arrived, dropped) = (number(&rules["packets"]), number(&rules["dropped"]));
            assert!(arrived >= 20, "{contestant} {direction}: {arrived}");
            assert_eq!(dropped, (arrived - 5) / 20 + 1, "{contestant} {direction}: of {arrived}");
            // The queue never overflows, so the iptables rule causes all losses. Of the packets that were not dropped,
            // at most two may be in flight at the end.
            assert_eq!(number(&packets["lost"]), dropped, "{contestant} {direction}");
            let under_way = number(&packets["sent"]) - arrived;
            assert!(under_way <= 2, "{contestant} {direction}: {under_way}");
        }
        assert!(number(&run["packets"]["down"]["retransmitted"]) > 0, "{contestant}: losses are mended");
    }
    // Random loss by iptables and by the link must have the same rate: 10 % of about 1000 packets, within six standard
    // deviations.
    let found = race(&format!("--loss-by link,iptables --loss 10% --runs 3 {network}"));
    let of = |by: &str| {
        let points = found["points"].as_array().expect("points");
        let point = points.iter().find(|point| point["factors"]["loss-by"] == by).expect("a point");
        runs(&serde_json::json!({ "points": [point] }))
    };
    assert!(of("link").iter().all(|(_, run)| run["rules"].is_null()));
    let sum = |key: &str| {
        let both_directions =
            |run: &Value| number(&run["rules"]["up"][key]) + number(&run["rules"]["down"][key]);
        of("iptables").iter().map(|(_, run)| both_directions(run)).sum::<u64>() as f64
    };
    let (arrived, dropped) = (sum("packets"), sum("dropped"));
    let deviation = (arrived * 0.1 * 0.9).sqrt();
    assert!(arrived > 1000.0 && (dropped - arrived * 0.1).abs() < 6.0 * deviation, "{dropped} of {arrived}");
}

/// If client and server are on one host, one iptables rule counts the packets of both directions. It must drop every
/// tenth packet of this common count. All other packets must cross the link.
#[test]
fn one_host_has_one_counter_for_both_directions() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let network = "--hosts one --objects 10x20kB --rate 20mbit --rtt 20ms --queue 100p --transport tcp:cc=reno \
                   --transport sctp --transport sctp:encap=udp";
    let tried =
        anabranch(&format!("race --world emulated --quiet --loss-by iptables --loss 1% --runs 1 {network}"));
    if !has(&tried, "iptables") {
        return;
    }
    let found = race(&format!("--loss-by iptables --loss nth:10/first=4/shared --runs 2 {network}"));
    assert_eq!(found["plan"]["hosts"], "one");
    assert!(
        found["points"][0]["network"].as_str().is_some_and(|text| text.ends_with("; both ends on one host"))
    );
    assert!(
        found["warnings"].to_string().contains("with one host, all retransmissions"),
        "{}",
        found["warnings"]
    );
    let all = runs(&found);
    assert_eq!(all.len(), 6);
    for (contestant, run) in &all {
        assert_eq!(run["outcome"], "done", "{contestant}");
        assert!(number(&run["page_ns"]) >= number(&run["limit_ns"]), "{contestant}");
        let of = |key: &str| ["up", "down"].map(|direction| number(&run["rules"][direction][key]));
        let (arrived, dropped) = (of("packets"), of("dropped"));
        assert!(arrived.iter().all(|arrived| *arrived >= 20), "{contestant}: {arrived:?}");
        assert_eq!(
            dropped[0] + dropped[1],
            (arrived[0] + arrived[1] - 4) / 10 + 1,
            "{contestant}: {arrived:?} {dropped:?}"
        );
        for (direction, arrived) in ["up", "down"].into_iter().zip(arrived) {
            let under_way = number(&run["packets"][direction]["sent"]) - arrived;
            assert!(under_way <= 2, "{contestant} {direction}: {under_way}");
        }
    }
    // On a host that is both ends, the output chain sees the packets of both directions, as the input chain does. The
    // sending kernel must notice each drop and retransmit the packet.
    let flags = "--loss-by iptables-out --loss nth:10/first=4/shared --runs 2 --hosts one --objects 10x20kB --rate 20mbit \
                 --rtt 20ms --queue 100p --transport tcp:cc=reno";
    let found = race(flags);
    assert!(found["points"][0]["network"].to_string().contains("loss by iptables where packets set out"));
    for (contestant, run) in runs(&found) {
        assert_eq!(run["outcome"], "done", "{contestant}");
        let of = |key: &str| ["up", "down"].map(|direction| number(&run["rules"][direction][key]));
        let (arrived, dropped) = (of("packets"), of("dropped"));
        assert_eq!(
            dropped[0] + dropped[1],
            (arrived[0] + arrived[1] - 4) / 10 + 1,
            "{arrived:?} {dropped:?}"
        );
        for (direction, arrived) in ["up", "down"].into_iter().zip(arrived) {
            assert!(
                number(&run["packets"][direction]["sent"]).abs_diff(arrived) <= 2,
                "{contestant} {direction}"
            );
        }
    }
    // The iptables rules of both directions are in one list. Each rule must match only packets of its own direction.
    let found = race(&format!(
        "--loss-by iptables --up-loss nth:9/first=2 --down-loss nth:7/first=5 --runs 1 {network}"
    ));
    for (contestant, run) in runs(&found) {
        for (direction, every, first) in [("up", 9, 2), ("down", 7, 5)] {
            let rules = &run["rules"][direction];
            let (arrived, dropped) = (number(&rules["packets"]), number(&rules["dropped"]));
            assert_eq!(dropped, (arrived - first) / every + 1, "{contestant} {direction}: of {arrived}");
        }
    }
}

#[test]
fn what_rules_cannot_do_is_refused() {
    if !are_slow_tests_enabled() {
        return;
    }
    for (arguments, status, expected) in [
        (
            "--loss-by iptables --runs 1",
            2,
            "--loss-by: iptables loses packets of real kernels only: add --world emulated",
        ),
        (
            "--hosts one --runs 1",
            2,
            "--hosts: one host at both ends is one of a real kernel: add --world emulated",
        ),
        ("--hosts three --runs 1", 2, "--hosts: 'three': write two or one"),
        ("--hosts one --path rate=1mbit --path rate=2mbit --runs 1", 2, "--hosts: one: goes with one path"),
        ("--loss-by kernel --runs 1", 2, "--loss-by: 'kernel': write link, iptables or iptables-out"),
        ("--transport mptcp --runs 1", 2, "mptcp: is a protocol of real kernels: add --world emulated"),
        (
            "--transport sctp-kernel --runs 1",
            2,
            "sctp-kernel: is a protocol of real kernels: add --world emulated",
        ),
        (
            "--transport mptcp:cc=no/name --runs 1",
            2,
            "cc=no/name: write a name of the kernel's, such as cubic",
        ),
        ("--transport mptcp:num_ostreams=3 --runs 1", 2, "'num_ostreams' is a key of sctp"),
        ("--transport sctp-kernel:cc=reno --runs 1", 2, "sctp-kernel:cc=reno: 'cc' is a key of tcp"),
        ("--transport mptcp:paths=2 --runs 1", 2, "paths=2: the network has 1"),
        (
            "--transport tcp:cc=dctcp --runs 1",
            2,
            "tcp:cc=dctcp: cc: 'dctcp' is not one of reno, cubic, bbr (or a real kernel's own: add --world emulated)",
        ),
    ] {
        let output = anabranch(&format!("race {arguments}"));
        let line = errors(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments}: {line}");
        assert!(line.lines().count() == 1 && line.contains(expected), "{arguments}: {line}");
    }
    if !emulated_links() {
        return;
    }
    for (arguments, expected) in [
        (
            "--loss ge:1%/30%",
            "iptables cannot do loss ge:1%/30%/100%/0%: the match `statistic` knows a share",
        ),
        ("--loss nth:5/first=9", "the first packet lost is one of the first 5, not number 9"),
        ("--loss nth:5/shared", "two hosts have no counter in common"),
        ("--down-loss list:3", "the match `statistic` knows a share (1%) and nth:N only"),
    ] {
        let output =
            anabranch(&format!("race --world emulated --quiet --loss-by iptables --runs 1 {arguments}"));
        let line = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {line}");
        assert!(line.lines().count() == 1 && line.contains(expected), "{arguments}: {line}");
    }
    // The race must be refused on a host without iptables, and on a host whose iptables lacks the match `statistic`.
    let programs = Programs::new("path");
    let refused = || {
        let mut command = Command::new(PROGRAM);
        command.env("PATH", programs.path()).args(["race", "--world", "emulated", "--quiet", "--runs", "1"]);
        let output = command.args(["--loss-by", "iptables", "--loss", "1%"]).output().expect("it starts");
        let line = errors(&output);
        assert!(output.status.code() == Some(3) && line.lines().count() == 1, "{:?}: {line}", output.status);
        line
    };
    let line = refused();
    assert!(line.contains("there is no 'iptables' in the PATH"), "{line}");
    let stand_in = programs.path().join("iptables");
    fs::write(&stand_in, "#!/bin/sh\necho \"Couldn't load match \\`statistic'\" >&2\nexit 2\n")
        .expect("a file");
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).expect("it may be run");
    let line = refused();
    assert!(line.contains("with its match `statistic`: it says: Couldn't load match"), "{line}");
}

#[test]
fn multipath_tcp_adds_paths_up_and_outlives_one() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let two = "--path rate=10mbit,rtt=10ms --path rate=10mbit,rtt=20ms --queue 100p --loss 0 --runs 1";
    let tried = anabranch(&format!("race --world emulated --quiet --transport mptcp --bulk 10kB {two}"));
    if !has(&tried, "MPTCP") {
        return;
    }
    // The network has two paths of 10 Mbit/s. 4 MB take about 3.4 s over one path, and about 1.8 s over both.
    let found = race(&format!("--bulk 4MB --transport mptcp:paths=1 --transport mptcp {two}"));
    let all = runs(&found);
    let [(_, one), (_, both)] = all.as_slice() else { panic!("two runs: {found}") };
    let shares = [bytes_down(one), bytes_down(both)];
    assert!(shares[0][1] < 20_000, "one path is used: {shares:?}");
    assert!(shares[1].iter().all(|&bytes| bytes > 1_000_000), "both paths are used: {shares:?}");
    let goodput = |run: &Value| 4e6 * 8e3 / number(&run["page_ns"]) as f64;
    let summary = format!("{:.1} and {:.1} Mbit/s, {shares:?}", goodput(one), goodput(both));
    assert!(goodput(one) < 10.0 && goodput(both) > 1.3 * goodput(one) && goodput(both) > 12.0, "{summary}");
    println!("{summary}");

    // The first path fails permanently in mid-transfer. The second path must carry the rest.
    let cut = race(&format!("--bulk 3MB --transport mptcp --deadline 60s --fail path=1,at=500ms {two}"));
    let (_, run) = &runs(&cut)[0];
    assert_eq!(run["outcome"], "done", "{run}");
    let shares = bytes_down(run);
    assert!((20_000..1_200_000).contains(&shares[0]) && shares[1] > 1_500_000, "{shares:?}");
    println!("cut: {shares:?}, {} ms", number(&run["page_ns"]) / 1_000_000);

    // The number of fallbacks to plain TCP must be reported as text and as a number.
    for found in [&found, &cut] {
        for (contestant, run) in runs(found) {
            let seen = &run["multipath"];
            assert_eq!((number(&seen["connections"]), number(&seen["fallbacks"])), (1, 0), "{contestant}");
            let line = format!("{contestant}: none of 1 connections fell back to plain TCP");
            assert!(found["warnings"].to_string().contains(&line), "{line}: {}", found["warnings"]);
        }
    }
    // The network drops the first SYNs with MPTCP options. Newer kernels then stop asking for MPTCP, and older kernels
    // continue. The report must match the kernel's counter.
    let output = race(&format!("--bulk 100kB --transport mptcp --up-loss list:1/2/3 {two}"));
    let (_, run) = &runs(&output)[0];
    assert_eq!(run["outcome"], "done", "{run}");
    let count = number(&run["multipath"]["fallbacks"]);
    let line = if count == 0 { "mptcp: none of 1" } else { "mptcp: 1 of 1 connections fell back" };
    assert!(count <= 1 && output["warnings"].to_string().contains(line), "{count}: {}", output["warnings"]);
    println!("fallbacks after three lost SYNs: {count}");
}

#[test]
fn bulk_measures_multipath_tcp_over_two_links() {
    if !are_slow_tests_enabled() {
        return;
    }
    let code = anabranch("bulk -q mptcp://127.0.0.1:9 --timeout 1s").status.code() != Some(3);
    if !code || !emulated_links() {
        return;
    }
    let limits = "ip mptcp limits set subflows 1 add_addr_accepted 1";
    // The other end announces its second address.
    let far = format!(
        "{limits}; ip mptcp endpoint add ${{ANABRANCH_FAR#*,}} signal; exec {PROGRAM} bulk --once --listen mptcp://*:5201"
    );
    let near = format!(
        "{limits}; exec {PROGRAM} bulk mptcp://${{ANABRANCH_FAR%%,*}}:5201 --reverse --size 4MB --json -"
    );
    let mut command = Command::new(PROGRAM);
    command.args([
        "link",
        "--path",
        "rate=10mbit,rtt=10ms",
        "--path",
        "rate=10mbit,rtt=20ms",
        "--queue",
        "100p",
    ]);
    let output = command.args(["--far", &far, "--", "sh", "-c", &near]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&result["plan"]["transport"], &result["down"]["received"]["whole"]),
        (&"mptcp".into(), &true.into())
    );
    assert!(number(&result["down"]["received"]["bytes"]) >= 4_000_000, "{result}");
    // The report of the links must show what each link has carried.
    let stderr = errors(&output);
    assert_eq!(stderr.matches("down ").count(), 2, "{stderr}");
    for line in stderr.lines().filter(|line| line.trim_start().starts_with("down ")) {
        let packets = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
        assert!(packets.is_some_and(|packets| packets > 700), "both links are used: {stderr}");
    }
}

#[test]
fn a_kernel_without_a_protocol_is_told_in_one_line() {
    if !are_slow_tests_enabled() {
        return;
    }
    // If the host's kernel has SCTP, SCTP must race. Otherwise the command must report the reason.
    if emulated_links() {
        let flags = "race --world emulated --quiet --runs 1 --loss 0 --rate 20mbit --rtt 4ms --objects 4x10kB --transport sctp-kernel";
        has(&anabranch(flags), "SCTP");
    }
    let output = anabranch("bulk -q sctp-kernel://127.0.0.1:9 --timeout 1s");
    let stderr = errors(&output);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let absent = output.status.code() == Some(3) && stderr.contains("the kernel gives no SCTP socket: ");
    let refused = output.status.code() == Some(1) && stderr.contains("cannot connect");
    assert!(absent || refused, "{:?}: {stderr}", output.status);
    let output = anabranch("bulk -q sctp-kernel://127.0.0.1:9 --set cc=reno");
    let stderr = errors(&output);
    assert!(
        output.status.code() == Some(2) && stderr.contains("the kernel's SCTP has sndbuf and rcvbuf"),
        "{stderr}"
    );
    if emulated_links() {
        // A namespace in which MPTCP is disabled.
        let line =
            format!("echo 0 > /proc/sys/net/mptcp/enabled && exec {PROGRAM} bulk -q mptcp://127.0.0.1:9");
        let output = Command::new(PROGRAM).args(["link", "--quiet", "--", "sh", "-c", &line]).output();
        let output = output.expect("it starts");
        let stderr = errors(&output);
        assert!(
            output.status.code() == Some(3) && stderr.contains("the kernel gives no MPTCP socket: "),
            "{stderr}"
        );
    }
}

/// TLS and HTTP/2 over the kernel's TCP must send the same number of bytes across an emulated link as in virtual time.
/// Only the lengths of this machine's keys and tickets may differ.
#[test]
fn tls_and_http_2_cross_an_emulated_link_as_a_virtual_one() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    // Without loss and queue overflow the sent bytes depend on the workload only.
    let arguments = "--objects 20x10kB --rate 20mbit --rtt 40ms --queue 400p --loss 0 --runs 2 \
                 --transport tcp --transport tcp:tls=yes --transport tcp:http=2 --transport tcp:tls=yes,http=2 \
                 --transport tcp:tls=yes,connections=3,resume=session";
    let emulated = race(arguments);
    let output = anabranch(&format!("race --quiet --json - {arguments}"));
    let virtually: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut seen = Vec::new();
    for ((name, real), (same, model)) in runs(&emulated).into_iter().zip(runs(&virtually)) {
        assert_eq!((&name, &real["outcome"]), (&same, &model["outcome"]), "{name}");
        assert_eq!(real["outcome"], "done", "{name}");
        let settings = |race: &Value| {
            let contestants = race["points"][0]["contestants"].as_array().expect("contestants");
            let own = contestants.iter().find(|one| one["name"] == name.as_str()).expect("raced");
            ["tls", "http", "connections"].map(|key| own["settings"][key].clone())
        };
        assert_eq!(settings(&emulated), settings(&virtually), "{name}");
        let (real, model): (u64, u64) = (bytes_down(&real).iter().sum(), bytes_down(&model).iter().sum());
        assert!(real.abs_diff(model) < model / 50, "{name}: {real} B emulated, {model} B virtual");
        seen.push((name, real));
    }
    assert_eq!(seen.len(), 10);
    let bytes = |name: &str| seen.iter().find(|(is, _)| is == name).expect("raced").1;
    let sealed = bytes("tcp:tls=yes") - bytes("tcp");
    // TLS adds certificates, tickets and 22 B for each record.
    assert!((2_500..7_000).contains(&sealed), "{sealed} B for TLS");
    // HTTP/2 sends repeated header fields once.
    assert!(bytes("tcp:http=2") + 2_000 < bytes("tcp"), "{seen:?}");
    assert!(bytes("tcp:tls=yes,http=2") + 2_000 < bytes("tcp:tls=yes"), "{seen:?}");
}
