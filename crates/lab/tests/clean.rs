//! Tests that captures of transfers in which nothing goes wrong have no findings.

use anabranch_capture::{EVENTS, Settings, decode};
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, one};
use anabranch_transports::Transports;

/// Ten combinations of transport, security and version of HTTP.
const CONTESTANTS: [&str; 10] = [
    "tcp",
    "tcp:tls=yes",
    "tcp:http=2",
    "tcp:http=2,tls=yes",
    "tcp:connections=6",
    "tcp:connections=6,tls=yes",
    "sctp",
    "sctp:dtls=yes",
    "sctp:dtls=1.2",
    "quic",
];
/// Two networks that lose nothing, and whose queues stay short.
const NETWORKS: [[(&str, &str); 2]; 2] =
    [[("rate", "1gbit"), ("rtt", "2ms")], [("rate", "100mbit"), ("rtt", "60ms")]];

/// Twenty kinds of captures, at both ends.
#[test]
fn clean_captures_of_twenty_kinds_have_no_findings() {
    let mut kinds = 0;
    for network in NETWORKS {
        let flags = [("loss", "0"), ("runs", "1"), ("objects", "12x20kB")].into_iter().chain(network);
        let flags = flags.chain(CONTESTANTS.map(|contestant| ("transport", contestant)));
        let plan = Draft::from_flags(flags)
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
            .expect("a plan");
        for (contestant, name) in CONTESTANTS.iter().enumerate() {
            kinds += 1;
            let (runs, captures) =
                one::capture(&batch::scenario(&plan, 0, Some(contestant), 1)).expect("captures");
            assert!(
                runs.iter().all(|run| run.packets.up.lost + run.packets.down.lost == 0),
                "{name}: a loss"
            );
            assert_eq!(captures.len(), 2, "{name}");
            for captured in captures {
                let settings = Settings { max_events: EVENTS, ..Settings::default() };
                let decoded = decode(name, &captured.pcapng[..], &settings).expect("a capture");
                let has_data = decoded.conversations.iter().any(|talk| talk.directions[1].bytes >= 20_000);
                assert!(has_data, "{name}: {network:?}: no conversation with data");
                for talk in &decoded.conversations {
                    assert_eq!(talk.findings, [], "{name}: {network:?}: {}", captured.host);
                }
            }
        }
    }
    assert_eq!(kinds, 20);
}
