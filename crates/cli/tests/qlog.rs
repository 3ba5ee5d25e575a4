//! Tests the logs of QUIC connections, which must have the form that visualization tools such as qvis need. `serve` and
//! `get` write them, and `race` writes them next to its captures.

#![cfg(target_os = "linux")]

use crate::qlog_schema;
use crate::running::{Running, Scratch, anabranch, errors, noise, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;

/// The packets in a log. The key is the packet type (which selects the packet number space) and the packet number. The
/// value is the logged frames.
type Packets = BTreeMap<(String, u64), Value>;

/// The contents of a log.
struct Log {
    /// The client's first destination connection ID, which names the connection.
    connection: String,
    sent: Packets,
    received: Packets,
    names: BTreeSet<String>,
}

/// Reads the log of one side (`side` is `client` or `server`) and checks it. The log must be a JSON text sequence
/// (RFC 7464) that begins with the header. Times must not decrease. Each packet number must be sent once, in order, and
/// received at most once. Each record must follow the schema. Every lost packet must have been sent. The log must record
/// once that the connection closed.
/// Packets that announce the close may follow this record.
fn read(text: &str, side: &str) -> Log {
    let mut records = text.split('\u{1e}');
    assert_eq!(records.next(), Some(""), "a separator before each record");
    let mut records = records.map(|record| {
        assert!(record.ends_with('\n'), "{record}");
        serde_json::from_str::<Value>(record).unwrap_or_else(|error| panic!("{error}: {record}"))
    });
    let head = records.next().expect("a head");
    assert_eq!((&head["qlog_version"], &head["qlog_format"]), (&"0.3".into(), &"JSON-SEQ".into()));
    assert_eq!(head["trace"]["vantage_point"]["type"], side);
    let fields = &head["trace"]["common_fields"];
    assert_eq!(fields["time_format"], "relative");
    let mut log = Log {
        connection: fields["ODCID"].as_str().expect("a connection").to_owned(),
        sent: Packets::new(),
        received: Packets::new(),
        names: BTreeSet::new(),
    };
    let (mut before, mut newest) = (0.0, BTreeMap::new());
    let mut ends = 0;
    for event in records {
        qlog_schema::check(&event);
        let time = event["time"].as_f64().expect("a time");
        assert!(time >= before, "time goes back: {event}");
        before = time;
        let (name, data) = (event["name"].as_str().expect("a name").to_owned(), &event["data"]);
        let packet = || {
            // Counts 0-RTT packets as 1-RTT packets, because both share a packet number space (RFC 9000 §12.3).
            let kind = data["header"]["packet_type"].as_str().expect("a type").replace("0RTT", "1RTT");
            (kind, data["header"]["packet_number"].as_u64().expect("a number"))
        };
        match name.as_str() {
            "transport:packet_sent" | "transport:packet_received" => {
                let sent = name.ends_with("sent");
                let frames = data["frames"].as_array().expect("frames");
                assert!(
                    !frames.is_empty() && frames.iter().all(|frame| frame["frame_type"].is_string()),
                    "{event}"
                );
                assert!(data["raw"]["length"].as_u64() > data["raw"]["payload_length"].as_u64(), "{event}");
                let (space, number) = packet();
                if sent {
                    let newest = newest.insert(space.clone(), number);
                    assert!(newest.is_none_or(|newest| newest < number), "{event}");
                }
                let packets = if sent { &mut log.sent } else { &mut log.received };
                let twice = packets.insert((space, number), data["frames"].clone());
                assert!(twice.is_none(), "twice: {event}");
            }
            "recovery:packet_lost" => assert!(log.sent.contains_key(&packet()), "lost, not sent: {event}"),
            "recovery:metrics_updated" => {
                assert!(data["congestion_window"].as_u64() > Some(0), "{event}");
                assert!(data["bytes_in_flight"].is_u64(), "{event}");
            }
            "connectivity:connection_closed" => ends += 1,
            other => panic!("{other} is no event of qlog that is written here"),
        }
        log.names.insert(name);
    }
    assert_eq!(ends, 1, "how the connection ends is told once");
    for name in ["transport:packet_sent", "transport:packet_received", "recovery:metrics_updated"] {
        assert!(log.names.contains(name), "no {name}");
    }
    log
}

/// Compares the client's and the server's log of a connection. Each packet that one end received must be in the log of
/// the other end as sent, with the same frames.
fn agree(client: &Log, server: &Log) {
    assert_eq!(client.connection, server.connection);
    for (sent, received) in [(&client.sent, &server.received), (&server.sent, &client.received)] {
        assert!(!received.is_empty());
        for (packet, frames) in received {
            assert_eq!(Some(frames), sent.get(packet), "{packet:?}");
        }
    }
}

/// Returns the number of bytes of stream 0 that the packets carry.
fn bytes(packets: &Packets) -> u64 {
    let frames = packets.values().flat_map(|frames| frames.as_array().into_iter().flatten());
    let ends = frames.filter(|frame| frame["frame_type"] == "stream" && frame["stream_id"] == 0);
    ends.filter_map(|frame| Some(frame["offset"].as_u64()? + frame["length"].as_u64()?)).max().unwrap_or(0)
}

/// Reads all logs in `directory` that this side (`client` or `server`) has written.
fn logs(directory: &str, side: &str) -> Vec<Log> {
    let ending = format!(".{side}.sqlog");
    let mut paths: Vec<_> =
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(&ending));
    paths.sort();
    paths.iter().map(|path| read(&fs::read_to_string(path).expect("text"), side)).collect()
}

#[test]
fn both_ends_of_a_get_write_what_passed() {
    let scratch = Scratch::new("qlog-get");
    scratch.file("site/big", noise(300_000));
    let directory = format!("{}/logs", scratch.text());
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text());
    command.args(["serve", &format!("{}/site", scratch.text()), "-q", "--listen", "h3://127.0.0.1:0"]);
    command.args(["--qlog", &directory]);
    let server = Running::start_as(command, Stdio::null());
    let url = format!("{}big", server.url("h3"));
    let output = run(anabranch().args(["get", "-q", "--insecure", "--qlog", &directory, &url]));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert_eq!(server.end(), 0);
    let (clients, servers) = (logs(&directory, "client"), logs(&directory, "server"));
    assert_eq!((clients.len(), servers.len()), (1, 1));
    agree(&clients[0], &servers[0]);
    // Stream 0 carries the response: its head, its body and their frames.
    assert!((300_000..301_000).contains(&bytes(&clients[0].received)), "{}", bytes(&clients[0].received));
    assert!(clients[0].sent.keys().any(|(space, _)| space == "initial"));
    assert!(clients[0].received.keys().any(|(space, _)| space == "handshake"));
}

/// A race must write the logs next to the captures. Two races with the same seed must give identical logs and captures.
/// Lost packets must be logged.
#[test]
fn a_race_writes_the_logs_of_its_connections_beside_its_captures() {
    let scratch = Scratch::new("qlog-race");
    let race = |into: &str, threads: &str| {
        let out = format!("{}/{into}", scratch.text());
        let output = run(anabranch()
            .args(["race", "-q", "--transport", "tcp", "--transport", "quic", "--objects", "4x100kB"])
            .args(["--loss", "2%", "--runs", "3", "--out", &out, "--pcap", "ends", "--threads", threads]));
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let entries = fs::read_dir(&out).expect("a directory").map(|entry| entry.expect("an entry"));
        let mut files: Vec<(String, Vec<u8>)> = entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
            .filter(|(name, _)| name.ends_with(".sqlog"))
            .map(|(name, path)| (name, fs::read(path).expect("a file")))
            .collect();
        files.sort();
        files
    };
    let (first, second) = (race("one", "1"), race("two", "2"));
    assert!(first == second, "the same seed, other bytes");
    let of = |side: &str| {
        let ending = format!(".{side}.sqlog");
        let files = first.iter().filter(|(name, _)| name.ends_with(&ending));
        let logs = files.map(|(name, text)| {
            assert!(name.starts_with("quic.seed-"), "{name}");
            read(std::str::from_utf8(text).expect("text"), side)
        });
        logs.collect::<Vec<Log>>()
    };
    let (clients, servers) = (of("client"), of("server"));
    assert!(!clients.is_empty() && clients.len() == servers.len(), "{} {}", clients.len(), servers.len());
    clients.iter().zip(&servers).for_each(|(client, server)| agree(client, server));
    assert!(servers.iter().any(|server| server.names.contains("recovery:packet_lost")), "2 % are lost");
}
