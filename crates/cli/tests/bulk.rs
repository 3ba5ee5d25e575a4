//! Tests `bulk` in both roles, as two programs: every direction and transport, failures, and peers that vanish.
//!
//! The tests use only the loopback interface and ports that the host chooses, and every wait has a limit.

#![cfg(target_os = "linux")]

use crate::running::wait_until_it_handles_interrupts;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

struct Server {
    child: Child,
    errors: BufReader<ChildStderr>,
    urls: Vec<String>,
}

impl Server {
    fn start(arguments: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.arg("bulk").args(arguments.split_whitespace());
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut errors = BufReader::new(child.stderr.take().expect("its errors"));
        let mut first = String::new();
        errors.read_line(&mut first).expect("a line");
        let urls = first.split_whitespace().filter(|word| word.contains("://")).map(str::to_owned).collect();
        Self { child, errors, urls }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).expect("a line");
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bulk(url: &str, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["bulk", url]).args(arguments.split_whitespace()).output().expect("it starts")
}

fn result(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Checks that all sent data arrived, on `streams` streams and with at least `least` bytes. Returns the results of the
/// requested directions.
fn whole<'a>(result: &'a Value, arguments: &str, streams: u64, least: u64) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for direction in ["up", "down"] {
        let expected = arguments.contains("--both") || (direction == "up") != arguments.contains("--reverse");
        let figures = &result[direction];
        assert_eq!(!figures.is_null(), expected, "{arguments}: {direction}");
        if expected {
            assert_eq!(figures["received"]["whole"], true, "{arguments}: {figures}");
            assert_eq!(figures["sent"]["bytes"], figures["received"]["bytes"], "{arguments}: {figures}");
            assert_eq!(
                figures["sent"]["messages"], figures["received"]["messages"],
                "{arguments}: {figures}"
            );
            assert_eq!(figures["received"]["streams_used"], streams, "{arguments}: {figures}");
            assert!(figures["received"]["bytes"].as_u64() >= Some(least), "{arguments}: {figures}");
            found.push(figures);
        }
    }
    found
}

#[test]
fn all_that_is_sent_arrives_in_every_direction() {
    let server = Server::start("--listen tcp://127.0.0.1:0 --listen sctp://127.0.0.1:0");
    let [tcp, sctp] = server.urls.as_slice() else { panic!("two places: {:?}", server.urls) };
    for (url, streams, arguments) in [
        (tcp, 1, "--size 20MB"),
        (tcp, 2, "--size 20MB --both --connections 2 --set sndbuf=256KiB,rcvbuf=256KiB"),
        (sctp, 1, "--size 20MB --reverse"),
        (sctp, 7, "--size 20MB --both --streams 7 --message-size 10kB"),
        (sctp, 3, "--size 1MB --streams 3 --unordered --message-size 64B"),
        (sctp, 8, "--size 20MB --connections 4 --streams 2 --set profile=rfc9260"),
        (sctp, 1, "--for 1s --interval 100ms"),
    ] {
        let result = result(&bulk(url, &format!("{arguments} --json -")));
        assert_eq!(result["schema"], "anabranch.bulk/1");
        let least = if arguments.contains("20MB") { 20_000_000 } else { 100_000 };
        for expected in whole(&result, arguments, streams, least) {
            // With round robin, the byte counts of any two streams of the test differ by at most one message.
            let at = |name: &str| expected["received"][name].as_u64().expect("a number");
            let message = result["plan"]["message_bytes"].as_u64().expect("a number");
            assert!(
                at("stream_bytes_max") - at("stream_bytes_min") <= message,
                "{url} {arguments}: {expected}"
            );
        }
        let intervals = result["intervals"].as_array().expect("intervals");
        // On a busy machine, intervals may end late, so only two intervals are required.
        assert!(arguments.contains("--size") || intervals.len() >= 2, "{intervals:?}");
    }
}

/// Over TLS and QUIC, every byte must arrive in each direction. A client must send no data to a server that it does not
/// trust.
#[test]
fn all_of_it_goes_over_tls_and_quic() {
    let state = std::env::temp_dir().join(format!("anabranch-bulk-tls-{}", std::process::id()));
    let certificate = state.join("anabranch/self-signed.pem");
    let arguments = ["bulk", "--listen", "https://127.0.0.1:0", "--listen", "h3://127.0.0.1:0"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(arguments).env("XDG_STATE_HOME", &state);
    let server = Server::of(command);
    let [tls, quic] = server.urls.as_slice() else { panic!("two places: {:?}", server.urls) };
    assert!(tls.starts_with("https://") && quic.starts_with("h3://"), "{:?}", server.urls);
    let trust = format!("--trust {}", certificate.display());
    for (url, streams, arguments) in [
        (tls, 1, "--size 5MB"),
        (tls, 2, "--size 5MB --both --connections 2"),
        (quic, 1, "--size 5MB --reverse"),
        (quic, 7, "--size 5MB --both --streams 7 --message-size 10kB"),
        (quic, 3, "--size 5MB --streams 3 --set cc=reno"),
        (quic, 4, "--size 5MB --connections 2 --streams 2 --set scheduler=fcfs"),
    ] {
        let result = result(&bulk(url, &format!("{arguments} {trust} --json -")));
        whole(&result, arguments, streams, 5_000_000);
        let scheme = url.split("://").next().expect("a scheme");
        assert_eq!(result["plan"]["transport"], scheme);
    }
    for (url, arguments, line) in [
        (tls, "--size 1MB", "not trusted"),
        (quic, "--size 1MB", "not trusted"),
        (tls, "--insecure --streams 2", "--streams is for SCTP of ours and QUIC"),
        (quic, "--insecure --unordered", "--unordered is for SCTP of ours"),
        (quic, "--insecure --streams 101", "--streams 101: more than may be open at once; --set streams=101"),
        (quic, "--insecure --ppid 1", "--ppid is for SCTP"),
    ] {
        let refused = bulk(url, arguments);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() != Some(0) && stderr.contains(line), "{url} {arguments}: {stderr}");
    }
    drop(server);
    std::fs::remove_dir_all(&state).expect("removed");
}

/// Client and server get the same payload protocol identifier, and messages in both directions must carry it. Each side
/// must send with the stream scheduler that was set for it.
#[test]
fn messages_have_the_ppid_and_streams_the_order_that_were_asked_for() {
    let server = Server::start("--listen sctp://127.0.0.1:0 --ppid 51 --scheduler rr");
    let [url] = server.urls.as_slice() else { panic!("a place: {:?}", server.urls) };
    let arguments = "--size 2MB --both --streams 3 --ppid 51 --scheduler fair --json -";
    let report = result(&bulk(url, arguments));
    for direction in ["up", "down"] {
        assert_eq!(report[direction]["received"]["whole"], true, "{report}");
    }
    let settings = &report["settings"];
    assert_eq!(
        (&settings["client"]["ppid"], &settings["client"]["scheduler"]),
        (&"51".into(), &"fair".into())
    );
    assert_eq!(settings["server"]["scheduler"], "rr");
    // The server treats messages with another payload protocol identifier as those of another application. This `bulk`
    // command must therefore fail.
    let other = bulk(url, "--size 1MB --ppid 52 --timeout 500ms");
    assert_eq!(other.status.code(), Some(1), "{}", String::from_utf8_lossy(&other.stderr));
    for (arguments, expected) in [
        ("--ppid 51", "--ppid and --scheduler are for sctp:// and sctp-ip://"),
        ("--scheduler rr", "--ppid and --scheduler are for sctp:// and sctp-ip://"),
    ] {
        let refused = bulk("tcp://127.0.0.1:1", arguments);
        let line = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && line.contains(expected), "{line}");
    }
    let reverse = bulk(url, "--reverse --scheduler rr");
    assert_eq!(reverse.status.code(), Some(2), "{}", String::from_utf8_lossy(&reverse.stderr));
}

#[test]
fn all_of_it_goes_over_ipv6() {
    let mut listens = vec!["tcp://[::1]:0", "sctp://[::1]:0"];
    // The first URL works only if raw sockets are permitted, and the second only if the kernel supports MPTCP.
    for (url, listen) in
        [("sctp-ip://[::1]:9", "sctp-ip://[::1]:5961"), ("mptcp://[::1]:9", "mptcp://[::1]:0")]
    {
        if bulk(url, "-q --timeout 100ms").status.code() == Some(1) {
            listens.push(listen);
        }
    }
    for listen in listens {
        let server = Server::start(&format!("--listen {listen}"));
        let result = result(&bulk(&server.urls[0], "--size 10MB --both --json -"));
        for direction in ["up", "down"] {
            let figures = &result[direction];
            assert_eq!(figures["received"]["whole"], true, "{listen} {direction}: {figures}");
            assert_eq!(
                figures["sent"]["bytes"], figures["received"]["bytes"],
                "{listen} {direction}: {figures}"
            );
            assert!(
                figures["received"]["bytes"].as_u64().is_some_and(|bytes| bytes >= 10_000_000),
                "{listen}: {figures}"
            );
        }
    }
}

#[test]
fn what_fails_is_told_in_one_line() {
    for (arguments, status, what) in [
        (
            "tcp://127.0.0.1:9 --timeout 2s",
            1,
            "tcp://127.0.0.1:9: cannot connect: connection refused: nothing",
        ),
        (
            "sctp://127.0.0.1:9 --timeout 1s",
            1,
            "sctp://127.0.0.1:9: cannot connect: connection refused: nothing",
        ),
        ("udp://127.0.0.1:9", 2, "udp://127.0.0.1:9: unknown scheme; write tcp://HOST:PORT"),
        ("tcp://127.0.0.1", 2, "tcp://127.0.0.1: no host and port; write tcp://HOST:PORT"),
        ("tcp://127.0.0.1:9 --streams 2", 2, "--streams is for SCTP of ours and QUIC"),
        ("tcp://127.0.0.1:9 --set streams=2", 2, "the kernel's protocols have cc, sndbuf and rcvbuf"),
        ("tcp://127.0.0.1:9 --set cc=none-such", 3, "the kernel gives no TCP socket (cc=none-such): "),
        ("sctp://127.0.0.1:9 --set quick=yes", 2, "--set sctp has no 'quick'; it has "),
        ("sctp://127.0.0.1:9 --set profile=quick", 2, "unknown profile 'quick'; accepted: rfc9260, "),
        ("sctp://127.0.0.1:9 --message-size 7B", 2, "--message-size: must be 8B to 16MiB"),
        ("sctp://127.0.0.1:9 --message-size 5MiB", 2, "--set sndbuf=5242880B"),
        ("sctp://127.0.0.1:9 --for 10", 2, "--for '10': the unit is missing"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        let output =
            command.args(["bulk", "-q"]).args(arguments.split_whitespace()).output().expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(what), "{arguments}: {stderr}");
    }
}

#[test]
fn a_client_that_dies_and_a_server_that_vanishes_cost_a_line_and_a_bounded_time() {
    for listen in ["tcp://127.0.0.1:0", "sctp://127.0.0.1:0"] {
        let mut server = Server::start(&format!("--timeout 2s --listen {listen}"));
        let url = server.urls[0].clone();
        let client = |arguments: &str| {
            Command::new(env!("CARGO_BIN_EXE_anabranch"))
                .args(["bulk", &url, "--for", "60s", "--timeout", "2s", "-q"])
                .args(arguments.split_whitespace())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts")
        };
        let mut dies = client("");
        assert!(server.line().contains(" connected"));
        dies.kill().expect("it is alive");
        dies.wait().expect("it ends");
        let line = server.line();
        assert!(line.contains("received ") && line.contains("B; "), "{listen}: {line}");

        let left = client("--both");
        assert!(server.line().contains(" connected"));
        server.child.kill().expect("it is alive");
        let output = left.wait_with_output().expect("it ends");
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{listen}: {line}");
    }
}

#[test]
fn once_ends_with_the_first_session() {
    let mut server = Server::start("--once --listen sctp://127.0.0.1:0");
    result(&bulk(&server.urls[0], "--size 1MB --json -"));
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn nothing_stands_above_a_test_that_has_not_begun() {
    let refused = bulk("tcp://127.0.0.1:9", "--timeout 2s");
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "");
    let server = Server::start("--listen tcp://127.0.0.1:0");
    // This run of `bulk` is too short for an interval line, and must still print a heading above the rows of its
    // result.
    let done = bulk(&server.urls[0], "--size 8B --message-size 8B");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.starts_with("[ID]  Interval") && text.contains("receiver"), "{text}");
}

/// The client must not wait for a peer that has closed. Such a wait would take two more seconds.
#[test]
fn a_test_over_a_protocol_of_the_kernels_ends_when_it_is_over() {
    let server = Server::start("--listen tcp://127.0.0.1:0");
    for arguments in ["", "--both", "--reverse", "--connections 2", "--both --connections 2"] {
        // On a busy machine a transfer may take longer than 1.9 s, so only one of ten transfers has to be faster.
        let is_sooner = |_| {
            let mut slow = Command::new("sleep").arg("1.9").spawn().expect("it starts");
            result(&bulk(&server.urls[0], &format!("--size 100kB --json - {arguments}")));
            let is_sooner = slow.try_wait().expect("a child").is_none();
            let _ = slow.kill();
            slow.wait().expect("it ends");
            is_sooner
        };
        assert!((0..10).any(is_sooner), "{arguments}: each waits for a peer that has closed");
    }
}

#[test]
fn a_fallback_to_plain_tcp_is_told() {
    if bulk("mptcp://127.0.0.1:9", "-q --timeout 100ms").status.code() != Some(1) {
        println!("not tested here: the kernel has no MPTCP");
        return;
    }
    let server = Server::start("--listen tcp://127.0.0.1:0 --listen mptcp://127.0.0.1:0");
    let [tcp, mptcp] = server.urls.as_slice() else { panic!("two places: {:?}", server.urls) };
    let fallen = tcp.replace("tcp://", "mptcp://");
    for (url, sessions) in [(tcp, Value::Null), (mptcp, 1.into()), (&fallen, 0.into())] {
        let result = result(&bulk(url, "--size 1MB --json -"));
        assert_eq!(result["multipath_sessions"], sessions, "{url}");
        let text = bulk(url, "--size 1MB");
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert_eq!(text.contains("The connection is plain TCP, on one path"), sessions == 0, "{url}: {text}");
    }
}

/// `*` and `[::]` must each stand for both IP versions on one port.
#[test]
fn every_address_is_of_both_ip_versions() {
    for listen in ["tcp://*:0", "tcp://[::]:0"] {
        let server = Server::start(&format!("--listen {listen}"));
        let port = server.urls[0].rsplit_once(':').expect("a port").1;
        assert!(server.urls.iter().all(|url| url.ends_with(&format!(":{port}"))), "{:?}", server.urls);
        let six = std::net::TcpListener::bind("[::1]:0").is_ok();
        for host in ["127.0.0.1", "[::1]"].into_iter().take(if six { 2 } else { 1 }) {
            let report = result(&bulk(&format!("tcp://{host}:{port}"), "--size 1MB --json -"));
            assert_eq!(report["up"]["received"]["whole"], true, "{listen} {host}");
        }
    }
}

/// The kernel's TCP must report its congestion window and congestion control, as our TCP does. A column must be absent
/// if its values are unknown.
#[test]
fn the_kernels_connection_tells_its_window_and_congestion_control() {
    let server = Server::start("--listen tcp://127.0.0.1:0");
    let report = result(&bulk(&server.urls[0], "--for 300ms --interval 100ms --json -"));
    let name = report["plan"]["settings"]["cc"].as_str().expect("a name").to_owned();
    assert!(report["intervals"][0]["cwnd"].as_u64().is_some_and(|bytes| bytes > 1000), "{report}");
    assert!(report["retransmitted"].is_u64(), "{report}");
    for (arguments, columns) in [("--size 1MB", true), ("--size 1MB --reverse", false)] {
        let text = String::from_utf8_lossy(&bulk(&server.urls[0], arguments).stdout).into_owned();
        assert!(text.contains(&format!("\nCongestion control: {name}\n")), "{arguments}: {text}");
        let heading = text.lines().next().unwrap_or_default();
        assert!(heading.starts_with("[ID]") && heading.contains("Cwnd") == columns, "{arguments}: {text}");
    }
}

/// The intervals of an interrupted test must add up to its total.
#[test]
fn the_last_part_of_an_interval_is_told_when_it_is_interrupted() {
    let mut server = Server::start("--listen sctp://127.0.0.1:0");
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["bulk", &server.urls[0], "--for", "60s", "--interval", "4s", "--json", "-"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    assert!(server.line().contains(" connected"));
    // An unfinished interval is reported only if at least a twentieth of it has passed. The first run of `bulk` has
    // intervals of 4 s, and is interrupted after the second run, which takes 0.5 s. The interrupted interval is
    // therefore reported.
    result(&bulk(&server.urls[0], "--for 500ms --json -"));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let intervals = report["intervals"].as_array().expect("intervals");
    let sent: u64 = intervals.iter().filter_map(|interval| interval["sent"].as_u64()).sum();
    assert!(sent > 0 && report["up"]["sent"]["bytes"] == sent, "{report}");
}

/// If the test is interrupted before a connection is established, the report must not name the kind of connection.
#[test]
fn what_was_never_connected_is_not_called_plain_tcp() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let url = format!("sctp://{}", silent.local_addr().expect("its address"));
    for arguments in [&[][..], &["--json", "-"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(["bulk", &url, "--timeout", "60s"]).args(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        silent.set_read_timeout(Some(Duration::from_secs(60))).expect("a deadline");
        silent.recv(&mut [0; 2048]).expect("an INIT");
        wait_until_it_handles_interrupts(child.id());
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(130), "{text}");
        assert!(!text.contains("plain TCP"), "{text}");
        if arguments.is_empty() {
            assert!(text.contains("Interrupted: "), "{text}");
        } else {
            let result: Value = serde_json::from_str(&text).expect("JSON");
            assert!(result["end"] == "interrupted" && result["multipath_sessions"].is_null(), "{result}");
        }
    }
}

/// The result must contain the settings of the host that sends the data, as that host reports them. A client that only
/// receives must reject settings that have an effect only on senders.
#[test]
fn settings_are_those_of_the_end_that_sends() {
    let sctp = Server::start("--listen sctp://127.0.0.1:0 --set profile=rfc9260,sndbuf=2MiB,dupthresh=5");
    let tcp = Server::start("--listen tcp://127.0.0.1:0 --set cc=reno,sndbuf=300kB");
    for (server, cc, sndbuf) in [(&sctp, "rfc9260", "2MiB"), (&tcp, "reno", "300000B")] {
        for (arguments, direction) in
            [("--reverse", "down"), ("-R --set rcvbuf=512KiB", "down"), ("--both", "both"), ("", "up")]
        {
            let report = result(&bulk(&server.urls[0], &format!("--size 1MB {arguments} --json -")));
            let (client, server_settings) = (&report["settings"]["client"], &report["settings"]["server"]);
            assert_eq!(
                (&server_settings["cc"], &server_settings["sndbuf"]),
                (&cc.into(), &sndbuf.into()),
                "{arguments}: {report}"
            );
            assert_ne!(client["sndbuf"], server_settings["sndbuf"], "{arguments}: {report}");
            let senders = if direction == "down" { server_settings } else { client };
            assert_eq!(&report["plan"]["settings"], senders, "{arguments}: {report}");
            let text =
                String::from_utf8_lossy(&bulk(&server.urls[0], &format!("--size 1MB {arguments}")).stdout)
                    .into_owned();
            let line = text.lines().find(|line| line.starts_with("Congestion control: ")).expect("a line");
            let own = client["cc"].as_str().expect("a name");
            let expected = match direction {
                "down" => format!("Congestion control: {cc}"),
                "both" if own != cc => format!("Congestion control: {own} up, {cc} down"),
                _ => format!("Congestion control: {own}"),
            };
            assert_eq!(line, expected, "{arguments}");
        }
        for (arguments, key) in
            [("-R --set cc=reno", "cc=reno"), ("--reverse --set rcvbuf=1MiB,sndbuf=1MiB", "sndbuf=1MiB")]
        {
            let output = bulk(&server.urls[0], &format!("--size 1MB {arguments}"));
            let report = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{report}");
            assert!(
                report.contains(key) && report.contains("--listen") && report.trim().lines().count() == 1,
                "{report}"
            );
        }
    }
    let output = bulk(&sctp.urls[0], "-R --set profile=rfc9260 --dry-run");
    assert_eq!(output.status.code(), Some(2));
    let shown = String::from_utf8_lossy(&bulk(&sctp.urls[0], "-R --dry-run").stdout).into_owned();
    assert!(shown.contains("rcvbuf=") && !shown.contains("sndbuf=") && !shown.contains("cc="), "{shown}");
}

#[test]
fn a_page_draws_round_trip_time_and_bit_rate() {
    let file = std::env::temp_dir().join(format!("anabranch-bulk-{}.html", std::process::id()));
    let server = Server::start("--listen sctp://127.0.0.1:0");
    let name = file.to_str().expect("UTF-8");
    let output = bulk(&server.urls[0], &format!("--both --for 600ms --interval 200ms --html {name}"));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(&file).expect("a page");
    std::fs::remove_file(&file).expect("removed");
    for part in ["Round-trip time, ms", "Bit rate, Mbit/s", "at the client,0.2", "up,0.2", "down,0.2"] {
        assert!(page.contains(part), "{part}: {} bytes", page.len());
    }
}
