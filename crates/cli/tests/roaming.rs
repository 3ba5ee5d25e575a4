//! Tests three cases: a host changes its network in mid-transfer, a path fails, and a path has a smaller MTU than
//! expected.
//!
//! All tests run on the emulated links of `anabranch link`, which needs network namespaces: root, or a host that
//! permits user namespaces. If the host denies network namespaces, the tests print a message and pass, unless
//! `ANABRANCH_REQUIRE_PEERS=1` is set, as it is in CI. A test that waits for progress gives up after a few minutes.
//!
//! RFC 5061 (addresses that are added and removed), RFC 8899 §4.3 (black holes), RFC 9260 §8.1 (a silent peer).

#![cfg(target_os = "linux")]

mod running;
mod wait;

use anabranch_base::testing::are_slow_tests_enabled;
use running::{Scratch, anabranch, emulated_links, errors, noise, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch");

/// Shell definitions for a script that watches a download. `past BYTES` waits until more than this number of bytes of
/// the file has arrived.
const PAST: &str = r#"
past() {
  for i in $(seq 2400); do
    size=$(stat -c %s .anabranch.*.partial 2>/dev/null | head -n 1)
    [ "${size:-0}" -gt "$1" ] && return 0
    kill -0 $got 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}
FIRST=${ANABRANCH_NEAR%%,*}; SECOND=${ANABRANCH_NEAR##*,}; FAR=${ANABRANCH_FAR%%,*}
"#;

/// Runs the client `script` at the near end of emulated links, and `serve` at their far end. Creates the file of 20 MB
/// that the client downloads, unless it exists already.
fn behind_links(scratch: &Scratch, links: &[&str], set: &str, script: &str) -> Output {
    if !scratch.0.join("site/big").exists() {
        scratch.file("site/big", noise(20_000_000));
    }
    let far = format!("exec {PROGRAM} serve site --quiet --listen sctp://$ANABRANCH_FAR:9899 {set}");
    let script = format!(
        "{PAST}\nget() {{ exec {PROGRAM} get --quiet http+sctp://$FAR:9899/big {set} \"$@\"; }}\n{script}"
    );
    let mut command = anabranch();
    command.current_dir(&scratch.0).arg("link").args(links).args(["--far", &far, "--", "sh", "-c", &script]);
    run(&mut command)
}

/// Moves the client from its first network to its second network during a download. An interface without addresses
/// loses its routes, including the default route. With `ORDER=make`, the client gets its second address before it loses
/// its first one, and then reaches only the server's second address. With any other `ORDER`, it loses its first address
/// one second before it gets its second one. After another second, it has a default route again.
const ROAM: &str = r#"
ip -6 addr flush scope global
ip addr del $SECOND/30 dev path2
get -o mine --timeout $PATIENCE & got=$!
past 4000000 || exit 91
if [ $ORDER = make ]; then
  ip addr add $SECOND/30 dev path2
  past 8000000 || exit 92
  ip addr del $FIRST/30 dev path1; ip link set path1 down
else
  ip addr del $FIRST/30 dev path1; ip link set path1 down
  sleep 1
  ip addr add $SECOND/30 dev path2
  sleep 1
  ip route add default dev path2
fi
wait $got
"#;

const TWO: [&str; 4] = ["--path", "rate=40mbit,rtt=10ms", "--path", "rate=40mbit,rtt=10ms"];
const FAST: [&str; 4] = ["--path", "rate=200mbit,rtt=10ms", "--path", "rate=200mbit,rtt=10ms"];

fn roam(scratch: &Scratch, links: &[&str], order: &str, asconf: bool) -> Output {
    let set = if asconf { "--set auth=yes,asconf=yes" } else { "" };
    // How long the client waits for data before it gives up. With `break`, the client has no address for one second,
    // and then waits for its next retransmission.
    let patience = match (asconf, order) {
        (false, _) => "3s",
        (true, "make") => "10s",
        (true, _) => "30s",
    };
    let script = format!("ORDER={order}; PATIENCE={patience}\n{ROAM}");
    behind_links(scratch, links, set, &script)
}

#[test]
fn a_transfer_follows_its_host_to_another_network() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    for order in ["make", "break"] {
        let scratch = Scratch::new(&format!("roam-{order}"));
        scratch.file("site/big", noise(100_000_000));
        let output = roam(&scratch, &FAST, order, true);
        assert_eq!(output.status.code(), Some(0), "{order}: {}", errors(&output));
        let (one, other) = (fs::read(scratch.0.join("mine")), fs::read(scratch.0.join("site/big")));
        assert!(one.expect("a file") == other.expect("a file"), "{order}: other bytes have come");
    }
}

/// If client and server have the same keys (RFC 4895), a transfer must continue when the client changes its address. If
/// their keys differ, the server must reject the change.
#[test]
fn a_transfer_with_shared_keys_follows_its_host() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    for (name, server_key, follows) in
        [("same", "1 00112233445566778899aabbccddeeff", true), ("other", OTHER_KEY, false)]
    {
        let scratch = Scratch::new(&format!("roam-keys-{name}"));
        let mode = fs::Permissions::from_mode(0o600);
        for (file, text) in [("ours", "1 00112233445566778899aabbccddeeff"), ("theirs", server_key)] {
            let path = scratch.file(file, text);
            fs::set_permissions(path, mode.clone()).expect("ours");
        }
        let patience = if follows { "60s" } else { "3s" };
        let script = format!("ORDER=make; PATIENCE={patience}; KEYS=theirs\n{ROAM}");
        let set = "--set auth=yes,asconf=yes --key-file ${KEYS:-ours}";
        let output = behind_links(&scratch, &TWO, set, &script);
        let stderr = errors(&output);
        assert_eq!(output.status.code(), Some(i32::from(!follows)), "{name}: {stderr}");
        assert!(!stderr.contains("asconf=yes without"), "{stderr}");
        if follows {
            let (one, other) = (fs::read(scratch.0.join("mine")), fs::read(scratch.0.join("site/big")));
            assert!(one.expect("a file") == other.expect("a file"), "other bytes have come");
        }
    }
}

const OTHER_KEY: &str = "1 ffeeddccbbaa99887766554433221100";

/// Without RFC 5061 the peer keeps sending to the old address. The transfer must fail: `get` prints an error, exits
/// with code 1 and leaves no file.
#[test]
fn without_dynamic_addresses_a_transfer_ends() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("stay");
    let output = roam(&scratch, &TWO, "make", false);
    let stderr = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("/big: no data for 3 s"), "{stderr}");
    assert!(!scratch.0.join("mine").exists());
}

/// After an outage of three seconds, the transfer must continue. After a permanent outage, the client must end with one
/// line on standard error.
#[test]
fn a_path_is_cut() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let script = "get -o mine --timeout $PATIENCE & got=$!\nwait $got";
    let (scratch, link) = (Scratch::new("cut"), ["--rate", "40mbit", "--rtt", "10ms", "--fail"]);
    let short = behind_links(
        &scratch,
        &[&link[..], &["path=1,at=2s,for=3s"]].concat(),
        "",
        &format!("PATIENCE=60s\n{script}"),
    );
    assert_eq!(short.status.code(), Some(0), "{}", errors(&short));
    assert!(
        fs::read(scratch.0.join("mine")).expect("a file")
            == fs::read(scratch.0.join("site/big")).expect("a file")
    );
    fs::remove_file(scratch.0.join("mine")).expect("it was there");
    let long = behind_links(
        &scratch,
        &[&link[..], &["path=1,at=2s"]].concat(),
        "",
        &format!("PATIENCE=3s\n{script}"),
    );
    let stderr = errors(&long);
    assert_eq!(long.status.code(), Some(1), "{stderr}");
    let one_line = |stderr: &str| {
        stderr.lines().filter(|line| line.contains("/big: ") || line.contains("no connection")).count() == 1
    };
    assert!(one_line(&stderr) && !scratch.0.join("mine").exists(), "{stderr}");
    // Kernel TCP must also fail with one line.
    let far = format!("exec {PROGRAM} serve site --quiet --listen tcp://*:8080");
    let script = format!("exec {PROGRAM} get --quiet --timeout 3s http://$ANABRANCH_FAR:8080/big -o mine");
    let mut command = anabranch();
    command.current_dir(&scratch.0).arg("link").args(link).arg("path=1,at=1s").args(["--far", &far, "--"]);
    let tcp = run(command.args(["sh", "-c", &script]));
    let stderr = errors(&tcp);
    assert_eq!(tcp.status.code(), Some(1), "{stderr}");
    assert!(one_line(&stderr) && !scratch.0.join("mine").exists(), "{stderr}");
}

/// All paths fail for 12 s. With the protocol's default of ten retransmissions (RFC 9260 §8.1,
/// Association.Max.Retrans), SCTP would give up earlier. Kernel TCP must continue after the failure, and so must SCTP
/// with the program's default settings.
#[test]
fn all_paths_are_cut_for_long() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("cut-long");
    scratch.file("site/big", noise(10_000_000));
    let far = format!("exec {PROGRAM} serve site --quiet --listen tcp://*:8080 --listen sctp://*:9899");
    let script = format!(
        "FAR=${{ANABRANCH_FAR%%,*}}; get() {{ {PROGRAM} get --quiet --timeout 100s \"$@\"; }}
         get http://$FAR:8080/big -o tcp & tcp=$!
         get http+sctp://$FAR:9899/big -o sctp & sctp=$!
         wait $tcp || exit 91; wait $sctp || exit 92"
    );
    let mut command = anabranch();
    command.current_dir(&scratch.0).arg("link").args(TWO).args(["--fail", "path=1,at=1s,for=12s"]);
    command.args(["--fail", "path=2,at=1s,for=12s", "--far", &far, "--", "sh", "-c", &script]);
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let big = fs::read(scratch.0.join("site/big")).expect("a file");
    for file in ["tcp", "sctp"] {
        assert!(fs::read(scratch.0.join(file)).expect("a file") == big, "{file}: other bytes have come");
    }
}

/// A router forwards packets of up to 1300 bytes and drops larger ones silently, while both interfaces of the sender's
/// link take 1500. The sender must find the MTU by probing.
#[test]
fn a_black_hole_is_found_out() {
    if !are_slow_tests_enabled() {
        return;
    }
    if !emulated_links() {
        return;
    }
    let scratch = Scratch::new("hole");
    let far = format!("exec {PROGRAM} bulk --listen sctp://$ANABRANCH_FAR:9899 --once >far.txt 2>&1");
    // The router's own ICMP packets are dropped, so that no host learns the MTU from them.
    let script = format!(
        "ip rule add pref 1 ipproto icmp blackhole && export OUTER=$ANABRANCH_FAR && exec {PROGRAM} link --rate 50mbit \
         --rtt 2ms -- {PROGRAM} bulk sctp://$OUTER:9899 --size 4MB --json mine.json"
    );
    let mut command = anabranch();
    command
        .current_dir(&scratch.0)
        .args(["link", "--rate", "50mbit", "--rtt", "10ms", "--mtu", "1300", "--far", &far]);
    let output = run(command.args(["--", "sh", "-c", &script]));
    let json = fs::read_to_string(scratch.0.join("mine.json")).unwrap_or_default();
    assert_eq!(output.status.code(), Some(0), "{}{json}", errors(&output));
}
