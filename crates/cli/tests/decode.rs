//! Tests the output of `decode` besides its text (for example CSV and JSON), with packet captures that `anabranch race`
//! wrote.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::fs;
use std::path::PathBuf;

fn captures(scratch: &Scratch) -> [PathBuf; 2] {
    let out = scratch.0.join("out");
    let race = ["race", "-q", "--runs", "1", "--objects", "4x20kB", "--loss", "2%", "--transport", "tcp"];
    let raced = run(anabranch().args(race).args(["--transport", "sctp:num_ostreams=3", "--out"]).arg(&out));
    assert_eq!(raced.status.code(), Some(0), "{}", errors(&raced));
    let of = |what: &str| {
        let found = fs::read_dir(&out).expect("a directory").map(|entry| entry.expect("an entry").path());
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(what) && name.ends_with(".server.pcapng.gz")
        };
        found.into_iter().find(named).expect(what)
    };
    [of("tcp"), of("sctp")]
}

/// The text of `--why`, the JSON and the HTML page must show the same findings.
#[test]
fn reasons_are_shown_in_text_json_and_page() {
    let scratch = Scratch::new("decode-why");
    for capture in captures(&scratch) {
        let [json, page] = ["x.json", "x.html"].map(|name| scratch.0.join(name));
        let files = [std::ffi::OsStr::new("--json"), json.as_ref(), "--html".as_ref(), page.as_ref()];
        let got = run(anabranch().arg("decode").arg(&capture).arg("--why").args(files));
        assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
        let text = String::from_utf8(got.stdout).expect("text");
        let document: serde_json::Value =
            serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
        let findings = document["conversations"][0]["findings"].as_array().expect("findings").clone();
        assert_eq!(findings.is_empty(), text.contains("Nothing found in 1 conversation."), "{text}");
        let page = fs::read_to_string(&page).expect("written");
        assert_eq!(findings.is_empty(), !page.contains("<h2>Why: "));
        for finding in findings {
            assert!(text.contains(finding["text"].as_str().expect("text")), "{text}");
        }
    }
}

#[test]
fn every_stream_has_a_row_that_says_what_the_json_says() {
    let scratch = Scratch::new("decode-csv");
    for (capture, transport) in captures(&scratch).iter().zip(["tcp", "sctp"]) {
        let json = scratch.0.join("x.json");
        let got = run(anabranch().arg("decode").arg(capture).args(["--csv", "-", "--json"]).arg(&json));
        assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
        assert!(errors(&got).contains("A to B"), "the text goes to standard error: {}", errors(&got));
        let document: serde_json::Value =
            serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
        let csv = String::from_utf8(got.stdout).expect("text");
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let heads = lines.next().expect("a header");
        let mut rows = 0;
        for row in lines {
            rows += 1;
            assert_eq!(row.len(), heads.len(), "{row:?}");
            let column = |name: &str| row[heads.iter().position(|head| *head == name).expect(name)];
            assert_eq!((column("conversation"), column("transport")), ("1", transport));
            let talk = &document["conversations"][0];
            assert_eq!(column("a"), talk["sides"][0]["addresses"][0]);
            assert_eq!(column("b_port"), talk["sides"][1]["port"].to_string());
            let direction = &talk["directions"][usize::from(column("direction") == "B to A")];
            let (transport_name, data) = match transport {
                "sctp" => (&direction["streams"][column("stream")], "chunks"),
                _ => (direction, "data"),
            };
            for (name, value) in [
                ("data", &transport_name[data]),
                ("bytes", &transport_name["bytes"]),
                ("fast", &transport_name["repairs"]["fast"]),
                ("timeout", &transport_name["repairs"]["timeout"]),
                ("spurious", &transport_name["repairs"]["spurious"]),
            ] {
                assert_eq!(column(name), value.to_string(), "{name}: {row:?}");
            }
        }
        let directions = document["conversations"][0]["directions"].as_array().expect("two").iter();
        let streams: usize =
            directions.map(|view| view["streams"].as_object().map_or(0, serde_json::Map::len)).sum();
        assert_eq!(rows, if transport == "sctp" { streams } else { 2 }, "{csv}");
        assert!(rows > 1);
    }
}

#[test]
fn quiet_says_nothing_but_what_was_asked_for() {
    let scratch = Scratch::new("decode-quiet");
    let [_, capture] = captures(&scratch);
    let csv = scratch.0.join("x.csv");
    let got = run(anabranch().arg("decode").arg(&capture).args(["-q", "--csv"]).arg(&csv));
    assert_eq!((got.status.code(), got.stdout.len(), errors(&got).as_str()), (Some(0), 0, ""));
    assert!(fs::read_to_string(&csv).expect("written").starts_with("conversation,transport,"));
    let got = run(anabranch().arg("decode").arg(&capture).args(["--quiet", "--json", "-"]));
    assert!(got.stdout.starts_with(b"{") && got.stderr.is_empty());
    // With `-q`, errors must still be reported.
    let cut = scratch.file("cut.pcapng", &fs::read(&capture).expect("read")[..2_000]);
    let got = run(anabranch().arg("decode").arg(&cut).arg("-q"));
    assert_eq!((got.status.code(), got.stdout.len()), (Some(1), 0));
    assert!(
        errors(&got).lines().count() == 1 && errors(&got).contains("in the middle of a packet"),
        "{}",
        errors(&got)
    );
    for arguments in
        [&["--csv", "-", "--json", "-"][..], &["--csv", ""], &["--json", ""], &["--csv", "x", "--json", "x"]]
    {
        let got = run(anabranch().current_dir(&scratch.0).arg("decode").arg(&capture).args(arguments));
        assert_eq!(got.status.code(), Some(2), "{arguments:?}: {}", errors(&got));
        assert!(errors(&got).lines().count() == 1 && !scratch.0.join("x").exists(), "{}", errors(&got));
    }
}

/// A compressed capture must give the same output as an uncompressed one, and PPIDs must be named.
#[test]
fn a_compressed_capture_is_unpacked_and_messages_are_told_by_their_ppid() {
    let scratch = Scratch::new("decode-gzip");
    let [_, sctp] = captures(&scratch);
    let packed = fs::read(&sctp).expect("a capture");
    let mut plain = Vec::new();
    let mut unpacking = flate2::read::GzDecoder::new(packed.as_slice());
    std::io::Read::read_to_end(&mut unpacking, &mut plain).expect("unpacked");
    let uncompressed = scratch.file("plain.pcapng", &plain);
    let text = |file: &PathBuf| {
        let output = run(anabranch().arg("decode").arg(file));
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let text = String::from_utf8(output.stdout).expect("text");
        // Removes the file name at the start of the first line.
        text.split_once(": ").expect("a name").1.to_owned()
    };
    let output = text(&sctp);
    assert_eq!(output, text(&uncompressed));
    assert!(output.contains("4 messages of PPID 63 (HTTP)"), "{output}");
    let cut = scratch.file("cut.pcapng.gz", &packed[..packed.len() / 2]);
    let output = run(anabranch().arg("decode").arg(&cut));
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(!output.stdout.is_empty());
    let mut damaged = packed.clone();
    damaged[packed.len() / 2] ^= 0xff;
    let damaged = scratch.file("damaged.pcapng.gz", damaged);
    let output = run(anabranch().arg("decode").arg(&damaged));
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert_eq!(errors(&output).lines().count(), 1, "{}", errors(&output));
}

/// Returns an IPv4 packet without a header checksum.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let head = [0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    [&head[..], payload].concat()
}

/// A capture has a DATA chunk in a GTP-U tunnel, and the CRC32c of the packet was left to the network card. The output
/// must name the tunnel and the missing checksum.
#[test]
fn a_tunnel_and_checksums_left_to_the_card_are_told() {
    let scratch = Scratch::new("decode-tunnel");
    let sctp = [
        0x13, 0x88, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 0, 3, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 18, 1, 2, 3,
        4,
    ];
    let inner = ipv4(132, &sctp);
    let gtp = [&[0x30, 0xff, 0, inner.len() as u8, 0, 0, 0, 1][..], &inner].concat();
    let udp = [&[8, 0x68, 8, 0x68, 0, 8 + gtp.len() as u8, 0, 0][..], &gtp].concat();
    let packet = ipv4(17, &udp);
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    for word in [0, 0, 65_535, 101, 1, 0, packet.len() as u32, packet.len() as u32] {
        capture.extend(word.to_le_bytes());
    }
    let file = scratch.file("gtp.pcap", [capture, packet].concat());
    let got = run(anabranch().arg("decode").arg(&file).args(["--json", "-"]));
    assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
    let text = errors(&got);
    for arguments in
        ["  in a tunnel: GTP-U\n", "checksum left to the network card (1)", "1 message of PPID 18 (S1AP)"]
    {
        assert!(text.contains(arguments), "{arguments}: {text}");
    }
    let document: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
    let conversation = &document["conversations"][0];
    assert_eq!(conversation["tunnel"], serde_json::json!(["GTP-U"]));
    assert_eq!(conversation["directions"][0]["checksums_left"], 1);
}

/// Returns the captures of the client and the server of a race with one contestant.
fn both_ends(scratch: &Scratch, transport: &str) -> [PathBuf; 2] {
    let out = scratch.0.join(transport);
    let race = ["race", "-q", "--runs", "1", "--objects", "4x20kB", "--loss", "2%", "--transport", transport];
    let raced = run(anabranch().args(race).args(["--pcap", "ends", "--out"]).arg(&out));
    assert_eq!(raced.status.code(), Some(0), "{}", errors(&raced));
    ["client", "server"].map(|host| {
        let found = fs::read_dir(&out).expect("a directory").map(|entry| entry.expect("an entry").path());
        let suffix = format!(".{host}.pcapng.gz");
        found.into_iter().find(|path| path.to_string_lossy().ends_with(&suffix)).expect("a capture")
    })
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let got = run(anabranch().arg("decode").args(arguments).args(["-q", "--json", "-"]));
    assert_eq!(got.status.code(), Some(0), "{arguments:?}: {}", errors(&got));
    serde_json::from_slice(&got.stdout).expect("JSON")
}

/// The qlog of a captured connection must show the same streams as the capture.
#[test]
fn a_written_qlog_is_read_again_with_the_same_streams() {
    let scratch = Scratch::new("decode-qlog");
    let [client, _] = both_ends(&scratch, "quic");
    let logs = scratch.0.join("logs");
    let (client, logs_text) = (client.to_string_lossy(), logs.to_string_lossy());
    let captured = json(&[&client, "--qlog", &logs_text]);
    let written: Vec<PathBuf> =
        fs::read_dir(&logs).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    let [log] = &written[..] else { panic!("{written:?}") };
    assert!(log.to_string_lossy().ends_with(".network.sqlog"), "{log:?}");
    let logged = json(&[&log.to_string_lossy()]);
    let [captured, logged] = [&captured["conversations"][0], &logged["conversations"][0]];
    for direction in 0..2 {
        for field in ["bytes", "streams", "repairs", "acks", "timeouts"] {
            let (expected, found) =
                (&captured["directions"][direction][field], &logged["directions"][direction][field]);
            assert_eq!(found, expected, "{field} of direction {direction}");
        }
    }
    assert_eq!(logged["log"]["by"], "A");
    let refused = run(anabranch().args(["decode", &client, &client, "--qlog", &logs_text]));
    assert_eq!((refused.status.code(), errors(&refused).lines().count()), (Some(2), 1));
}

#[test]
fn packets_of_both_ends_are_matched() {
    let scratch = Scratch::new("decode-ends");
    let [client, server] = both_ends(&scratch, "quic");
    let (client, server) = (client.to_string_lossy(), server.to_string_lossy());
    let both = &json(&[&server, &client])["both_ends"];
    let flow = &both["flows"][0];
    assert_eq!((&flow["ends_known"], &both["elsewhere"]), (&true.into(), &serde_json::json!([0, 0])));
    for direction in 0..2 {
        let count = |field: &str| flow["directions"][direction][field].as_u64().expect("a number");
        assert!(count("sent") > 10 && count("only_received") == 0, "{flow}");
        assert_eq!(count("sent"), count("arrived") + count("lost") + count("outside"), "{flow}");
    }
    let lost = |direction: usize| flow["directions"][direction]["lost"].as_u64().expect("a number");
    assert!(lost(0) + lost(1) > 0, "{flow}");
    let output = run(anabranch().args(["decode", &client, &server]));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("Both ends: ") && text.contains("round trip at least"), "{text}");
}

#[test]
fn files_that_are_neither_capture_nor_log_are_refused_in_one_line() {
    let scratch = Scratch::new("decode-logs");
    for (text, code, expected) in [
        ("some text\n", 2, "no capture (pcap, pcapng), and no log with SCTP packets"),
        ("{\"qlog_version\":\"0.3\",}", 2, "damaged qlog at byte 0"),
        ("{\"PeerConnections\":{", 2, "damaged webrtc-internals dump at line 1"),
    ] {
        let file = scratch.file("log", text);
        let got = run(anabranch().arg("decode").arg(&file));
        assert_eq!((got.status.code(), errors(&got).lines().count()), (Some(code), 1), "{}", errors(&got));
        assert!(errors(&got).contains(expected), "{}", errors(&got));
    }
}
