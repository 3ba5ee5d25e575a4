//! Reads a QUIC capture with tshark, which decrypts the packets with the sessions' secrets.

use super::program::last_line;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The fields of a QUIC datagram that the test cases need. The types of messages, extensions and frames are numbers as
/// text, as tshark writes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The address of the sender.
    pub source: SocketAddr,
    /// The address of the receiver.
    pub target: SocketAddr,
    /// Source Connection IDs of long headers.
    pub source_ids: Vec<String>,
    /// Types of TLS messages, for example 1 (ClientHello) and 11 (Certificate).
    pub messages: Vec<String>,
    /// Types of TLS extensions, for example 42 (early data).
    pub extensions: Vec<String>,
    /// Types of the QUIC frames in the datagram.
    pub frames: Vec<String>,
    /// The stream ID of each STREAM frame.
    pub streams: Vec<String>,
    /// Key phase bits of short headers.
    pub key_phases: Vec<bool>,
    /// Data of PATH_CHALLENGE.
    pub challenges: Vec<String>,
    /// Data of PATH_RESPONSE.
    pub responses: Vec<String>,
}

/// Returns all QUIC datagrams of a capture. `port` is the server's port in the capture.
///
/// # Errors
/// tshark is missing, or cannot read the file.
pub fn read(capture: &Path, keys: &[&Path], port: u16) -> Result<Vec<Datagram>, String> {
    let folder = capture.parent().unwrap_or(Path::new("."));
    // Client and server may both have written secrets, so their files are joined.
    let all = folder.join("all.keys");
    let text: Vec<u8> = keys.iter().flat_map(|file| std::fs::read(file).unwrap_or_default()).collect();
    std::fs::write(&all, text).map_err(|error| format!("{}: {error}", all.display()))?;
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-o", &format!("tls.keylog_file:{}", all.display())]);
    command.args([
        "-d",
        &format!("udp.port=={port},quic"),
        "-Y",
        "quic",
        "-T",
        "fields",
        "-E",
        "aggregator=,",
    ]);
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("tshark: {error}"))?;
    if !output.status.success() {
        return Err(format!("tshark: {}", last_line(&String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(datagram).collect())
}

const FIELDS: [&str; 12] = [
    "ip.src",
    "udp.srcport",
    "ip.dst",
    "udp.dstport",
    "quic.scid",
    "tls.handshake.type",
    "tls.handshake.extension.type",
    "quic.frame_type",
    "quic.stream.stream_id",
    "quic.key_phase",
    "quic.path_challenge.data",
    "quic.path_response.data",
];

fn datagram(line: &str) -> Option<Datagram> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [
        from,
        from_port,
        to,
        to_port,
        ids,
        messages,
        extensions,
        frames,
        streams,
        phases,
        challenges,
        responses,
    ] = fields[..]
    else {
        return None;
    };
    let list =
        |field: &str| field.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    Some(Datagram {
        source: format!("{from}:{from_port}").parse().ok()?,
        target: format!("{to}:{to_port}").parse().ok()?,
        source_ids: list(ids),
        messages: list(messages),
        extensions: list(extensions),
        frames: list(frames),
        streams: list(streams),
        // tshark 4.0 writes 1 for a set bit, and later versions write True.
        key_phases: list(phases).iter().map(|bit| bit == "1" || bit == "True").collect(),
        challenges: list(challenges),
        responses: list(responses),
    })
}
