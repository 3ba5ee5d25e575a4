//! Captures of faults from public bug reports. `interop/faults.sh` recreates the faults with the programs that have them.

use super::*;
use std::path::Path;

#[test]
fn faults_of_public_reports_are_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/captures/faults");
    for (name, rule, words) in [
        (
            "pion-forward-tsn",
            "forward_tsn_ping_pong",
            "skip data that was in flight for less than a round trip",
        ),
        ("webrtc-rs-last-fragment", "window_closed", "The message on stream 1 is not complete"),
        ("usrsctp-lost-twice", "head_of_line_blocking", "Data of A on stream 1 waited for lost data"),
        ("usrsctp-no-timer", "not_retransmitted", "A still acknowledges data"),
        ("webrtc-rs-oversized", "path_mtu_black_hole", "packets of up to 156 bytes arrived"),
        ("pion-lost-keystrokes", "timeouts_only", "too little data was in flight behind the lost data"),
        ("pion-small-buffer", "window_limited", "it was at most 32768 bytes"),
        ("pion-lossy-path", "scattered_losses", "The network lost 2.3 % of the data of A"),
        ("pion-restarted-client", "handshake_retries", "B sent 1 packet meanwhile"),
        ("quic-go-hundred-streams", "streams_limited", "A opened 300 streams in all"),
        ("quic-go-small-window", "flow_control_limited", "It had used all 9216 bytes"),
        ("python-two-writes", "delayed_acknowledgements", "A delayed 29 acknowledgements by about 43."),
        ("requests-idle-session", "close_unfinished", "its application does not close the connection"),
        ("aioquic-small-windows", "flow_control_limited", "The flow control of stream 0 limited B"),
        ("aioquic-few-streams", "streams_limited", "B allowed too few bidirectional streams"),
    ] {
        let path = folder.join(name).with_extension("pcapng");
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let settings = Settings { max_events: EVENTS, ..Settings::default() };
        let decoded = decode(name, &bytes[..], &settings).expect("a capture");
        let all: Vec<&Finding> = decoded.conversations.iter().flat_map(|one| &one.findings).collect();
        // The finding that takes the most time comes first.
        let found = all.first().unwrap_or_else(|| panic!("{name}: nothing is found"));
        assert_eq!(found.rule, rule, "{name}: {all:#?}");
        assert!(found.text.contains(words), "{name}: {}", found.text);
    }
}
