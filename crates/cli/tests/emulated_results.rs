//! Tests the results of `race --world emulated`: delays of messages, failover times, the settings of each contestant,
//! facts about the host, and a plan that can be run again.
//!
//! Needs network namespaces. If there are none, the tests print a message and pass.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, emulated_links, errors};
use anabranch_base::testing::are_slow_tests_enabled;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

fn anabranch(directory: &Path, arguments: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory).args(arguments.split_whitespace()).output().expect("it starts")
}

/// Runs a race, and returns its result and its table.
fn race(directory: &Path, arguments: &str) -> (Value, String) {
    let output = anabranch(directory, &format!("race --quiet --json - {arguments}"));
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", errors(&output));
    (serde_json::from_slice(&output.stdout).expect("JSON"), errors(&output))
}

fn contestants(race: &Value) -> &[Value] {
    race["points"][0]["contestants"].as_array().map_or(&[], Vec::as_slice)
}

/// Whether the kernel provides MPTCP sockets.
fn has_mptcp(directory: &Path) -> bool {
    anabranch(directory, "bulk -q mptcp://127.0.0.1:9 --timeout 1s").status.code() != Some(3)
}

#[test]
fn messages_have_the_delays_that_the_path_gives_them() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("emulated-messages");
    let flags = "--world emulated --messages 50/s --size 300B --for 500ms --rate 10mbit --rtt 40ms --loss 0 --runs 1 \
                 --transport tcp:connections=2 --transport sctp --transport sctp:encap=udp";
    let (found, table) = race(&scratch.0, flags);
    assert_eq!(contestants(&found).len(), 3);
    for contestant in contestants(&found) {
        let (name, run) = (&contestant["name"], &contestant["runs"][0]);
        let objects = &run["objects"];
        let count = objects["bytes"].as_array().expect("objects").len();
        assert_eq!((&run["outcome"], count), (&"done".into(), 25), "{name}");
        let mut last = None;
        for at in 0..count {
            let [issued, delivered] =
                ["issued_ns", "delivered_ns"].map(|key| objects[key][at].as_u64().expect("an instant"));
            // Nothing arrives before the propagation delay of 20 ms. Messages are due every 20 ms, and messages on one
            // connection arrive in order. The second connection may start a little later.
            assert!(delivered - issued >= 20_000_000, "{name}: {at}");
            let [connection, stream] = ["connection", "stream"].map(|key| &objects[key][at]);
            assert!(connection.is_u64() && stream.is_u64(), "{name}: {at}");
            last = last.max(Some(issued));
        }
        assert!(last.is_some_and(|last| last >= 24 * 20_000_000), "{name}: {last:?}");
        let mean = |metric: &str| contestant["summary"][metric]["mean"].as_f64().expect("a figure");
        // A busy machine may delay messages, so only wide bounds and the order of the percentiles are checked.
        let order = ["object_p50_ms", "object_p95_ms", "object_p99_ms", "object_max_ms"].map(mean);
        assert!(order.is_sorted() && order[0] >= 20.0 && order[0] < 200.0, "{name}: {order:?}");
        assert_eq!(mean("undelivered"), 0.0);
    }
    assert!(!table.contains("No contestant finished"), "{table}");
}

#[test]
fn the_time_to_get_past_a_failed_path_is_told() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("emulated-failover");
    // TCP's only path fails for 400 ms. SCTP has a second path.
    let flags = "--world emulated --path rate=10mbit,rtt=10ms --path rate=10mbit,rtt=20ms --queue 50p --loss 0 --bulk 1MB \
                 --fail path=1,at=300ms,for=400ms --runs 1 --deadline 60s --transport tcp --transport \
                 sctp:profile=modern";
    let (found, table) = race(&scratch.0, flags);
    assert!(table.contains("failover ms"), "{table}");
    for (contestant, least) in contestants(&found).iter().zip([400, 10]) {
        let (name, run) = (&contestant["name"], &contestant["runs"][0]);
        let [failover, page] = ["failover_ns", "page_ns"].map(|key| run[key].as_u64().expect("a time"));
        assert!((least * 1_000_000..page).contains(&failover), "{name}: {failover} of {page}");
        assert_eq!(contestant["summary"]["failover_ms"]["n"], 1, "{name}");
    }
    // If the transfer ends before the path fails, there is no failover time.
    let (found, table) = race(
        &scratch.0,
        "--world emulated --objects 1kB --rate 10mbit --rtt 4ms --loss 0 --fail path=1,at=30s,for=1s --runs 1 --transport tcp",
    );
    assert!(
        contestants(&found)[0]["runs"][0]["failover_ns"].is_null() && !table.contains("failover"),
        "{table}"
    );
}

#[test]
fn the_kernel_s_terms_are_stated_and_host_facts_stand_in_one_place() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("emulated-terms");
    let mptcp = if has_mptcp(&scratch.0) { "--transport mptcp" } else { "" };
    let network = "--objects 2x10kB --rate 20mbit --rtt 4ms --loss 0 --runs 1 --seed 3";
    let (mut found, table) =
        race(&scratch.0, &format!("--world emulated {network} --transport tcp:cc=reno {mptcp}"));
    for contestant in contestants(&found) {
        let settings = &contestant["settings"];
        // The initial window is a constant in include/net/tcp.h since Linux 2.6.39. A new namespace has the kernel's
        // default sysctls.
        assert_eq!((&settings["iw"], &settings["engine"]), (&"10".into(), &"Linux".into()));
        for key in ["rto_min", "delack"] {
            assert!(settings[key].as_str().is_some_and(|value| value.contains("ms")), "{key}: {settings}");
        }
    }
    assert!(table.contains("initial window 10, RTO min ") && !table.contains('?'), "{table}");
    // No contestant uses SCTP, so the table must not mention it.
    assert!(!table.contains("sctp"), "{table}");
    let kernel = found["host"]["kernel"].as_str().expect("the kernel").to_owned();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    assert!(kernel.starts_with("Linux ") && kernel.ends_with(release.trim()), "{kernel}");
    assert!(found["host"]["kernel_sctp"].is_boolean());
    let plan = found["plan"].as_object().expect("a plan").clone();
    found["host"] = Value::Null;
    assert!(!found.to_string().contains(release.trim()), "facts of the host stand in `host` only");

    // The plan of a result, written to a file, must give the same race.
    assert_eq!(plan["world"], "emulated");
    let lines: Vec<String> = plan.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    fs::write(scratch.0.join("plan.toml"), lines.concat()).expect("a file");
    let dry = anabranch(&scratch.0, "race plan.toml --dry-run");
    let stdout = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(dry.status.success() && stdout.contains("world = \"emulated\"\n"), "{stdout}");
    let (again, _) = race(&scratch.0, "plan.toml");
    assert_eq!((&again["world"], again["plan"].as_object()), (&"emulated".into(), Some(&plan)));
    // A flag must override the key in the plan file. The plan in the results must omit keys that have default values.
    let (virtually, _) = race(&scratch.0, "plan.toml --world virtual --transport tcp");
    assert_eq!((&virtually["world"], virtually["plan"].get("world")), (&"virtual".into(), None));
    assert!(virtually["host"].get("kernel").is_none());
}

#[test]
fn a_dry_run_refuses_what_the_run_refuses() {
    if !are_slow_tests_enabled() {
        return;
    }
    let scratch = Scratch::new("emulated-dry");
    for (arguments, expected) in [
        (
            "--world emulated --shared-link --loss 1% --loss-by iptables",
            "--loss-by: rules stand at a host, and each contestant has its own",
        ),
        ("--world emulated --transport tcp:profile=reno-2002", "is a set of knobs of our TCP"),
        (
            "--world emulated --background tcp:flows=1",
            "--background: background traffic is for the virtual world",
        ),
        ("--world real", "--world: 'real': write virtual or emulated"),
        ("--transport mptcp", "is a protocol of real kernels: add --world emulated"),
        ("--loss-by iptables --loss 1%", "iptables loses packets of real kernels only"),
    ] {
        let output = anabranch(&scratch.0, &format!("race --dry-run --runs 1 {arguments}"));
        let line = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {line}");
        assert!(line.lines().count() == 1 && line.contains(expected) && output.stdout.is_empty(), "{line}");
    }
    fs::write(scratch.0.join("two.toml"), "world = [\"virtual\", \"emulated\"]\n").expect("a file");
    let output = anabranch(&scratch.0, "race two.toml --dry-run");
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("two.toml: world: takes one value, not a list"));
}

/// Contestants that race on a shared link must load at the same time, and together must receive no more than one link
/// can carry.
#[test]
fn contestants_share_one_emulated_link() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("emulated-together");
    let mptcp = if has_mptcp(&scratch.0) { "--transport mptcp" } else { "" };
    let words = format!(
        "--world emulated --shared-link --bulk 400kB --rate 8mbit --rtt 20ms --queue 40p --loss 0 --runs 2 --out out \
         --pcap all --transport tcp --transport sctp --transport sctp:encap=udp {mptcp}"
    );
    let (found, table) = race(&scratch.0, &words);
    assert!(table.contains("together: shares of the bytes until the first was done"), "{table}");
    let point = &found["points"][0];
    assert!(point["network"].as_str().is_some_and(|text| text.ends_with("; all contestants at once")));
    let sharing = point["sharing"].as_array().expect("how they shared");
    assert_eq!(sharing.len(), 2, "one a seed");
    for (index, shared) in sharing.iter().enumerate() {
        let runs: Vec<&Value> = contestants(&found).iter().map(|one| &one["runs"][index]).collect();
        let of = |run: &Value, key: &str| run[key].as_u64().expect("an instant");
        let started = runs.iter().map(|run| of(run, "started_ns"));
        let ended = runs.iter().map(|run| of(run, "started_ns") + of(run, "page_ns"));
        let (from, until) = (started.max().expect("some"), ended.min().expect("some"));
        assert!(from < until, "all load at once: {shared}");
        assert_eq!((of(shared, "from_ns"), of(shared, "until_ns")), (from, until));
        let shares: Vec<f64> =
            shared["shares"].as_array().expect("shares").iter().filter_map(Value::as_f64).collect();
        assert!(shares.len() == runs.len() && shares.iter().all(|share| *share > 0.0), "{shared}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shared}");
        assert!(shared["jain"].as_f64().is_some_and(|jain| jain > 0.0 && jain <= 1.0), "{shared}");
        // `sum` is the number of bytes delivered to all contestants up to the end of an interval. At 8 Mbit/s, the link
        // delivers at most 100,000 bytes in each interval of 100 ms. The assertion allows one packet more.
        let delivered = |run: &Value, bucket: usize| {
            run["series"]["paths"][0]["down"]["delivered"][bucket].as_u64().unwrap_or(0)
        };
        let mut sum = 0;
        for bucket in 0..100 {
            sum += runs.iter().map(|run| delivered(run, bucket)).sum::<u64>();
            assert!(
                sum <= 100_000 * (bucket as u64 + 1) + 1500,
                "one link gave {sum} bytes by bucket {bucket}"
            );
        }
        // The link must have delivered the whole body to each contestant.
        assert!(sum >= 400_000 * runs.len() as u64, "{sum}");
        for run in runs {
            let [sent, arrived] =
                ["sent", "lost"].map(|key| run["packets"]["down"][key].as_u64().expect("packets"));
            assert!(sent > 267 && arrived < sent, "{}", run["packets"]);
        }
    }
    // The captures of each contestant must show only its own packets. Each contestant has addresses of its own.
    for (number, contestant) in contestants(&found).iter().enumerate() {
        let run = &contestant["runs"][0];
        let name = contestant["name"].as_str().expect("a name").replace([':', '='], "-");
        for host in ["client", "server"] {
            let output =
                anabranch(&scratch.0, &format!("decode out/{name}.seed-{}.{host}.pcapng.gz", run["seed"]));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let (own, any) = (format!("100.{}.0.", 64 + number), text.matches("100.").count());
            assert!(any >= 2 && text.matches(&own).count() == any, "{name}: {text}{}", errors(&output));
        }
    }
}

#[test]
fn captures_of_both_ends_show_how_connections_close() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("emulated-closing");
    let flags = "race --world emulated --quiet --objects 4x10kB --rate 20mbit --rtt 200ms --loss 0 --runs 1 --out out --pcap ends \
                 --transport tcp:connections=2 --transport sctp --transport sctp:encap=udp";
    let output = anabranch(&scratch.0, flags);
    assert!(output.status.success(), "{}", errors(&output));
    let captures = fs::read_dir(scratch.0.join("out")).expect("a directory").filter_map(Result::ok);
    let captures = captures.map(|entry| entry.path());
    let captures: Vec<_> = captures.filter(|path| path.to_string_lossy().ends_with(".pcapng.gz")).collect();
    assert_eq!(captures.len(), 6);
    for capture in captures {
        let output = anabranch(&scratch.0, &format!("decode {}", capture.display()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ends = text.matches("; closed by A").count() + text.matches("; shut down by A").count();
        let expected = if text.contains("2 connections") { 2 } else { 1 };
        assert!(ends == expected && !text.contains("still open"), "{}: {text}", capture.display());
    }
}
