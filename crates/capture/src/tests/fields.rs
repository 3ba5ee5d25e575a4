//! Tests that the page about results lists every field of the JSON output, and no others.

use super::*;
use crate::results::{
    BothEnds, ConversationEnd, DataChannel, Delay, Direction, EndpointLog, Finding, Handshake,
    MatchedDirection, MatchedFlow, NotFollowed, Path, PathDirection, Request, Retransmitted, Rtt, Security,
    Side, Statistics, Stream,
};
use serde::Serialize;
use std::collections::BTreeSet;

/// Returns the names in the first column of the table below a heading.
fn rows(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) =
        page.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let rows =
        section.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| `"));
    rows.flat_map(|line| line.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

/// Returns the names of the fields of some values, each with a prefix.
fn fields(values: &[(&str, serde_json::Value)]) -> BTreeSet<String> {
    let of = |(prefix, value): &(&str, serde_json::Value)| -> Vec<String> {
        let object = value.as_object().expect("an object");
        object.keys().map(|name| format!("{prefix}{name}")).collect()
    };
    values.iter().flat_map(of).collect()
}

fn json(value: impl Serialize) -> serde_json::Value {
    serde_json::to_value(value).expect("plain values")
}

#[test]
fn every_field_of_the_json_is_in_the_page() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/results.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (_, page) = page.split_once("\n## anabranch.decode/1\n").expect("the format");
    let decoded =
        decode("test", &CaptureBuilder::ethernet().bytes[..], &Settings::default()).expect("a capture");
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    let conversation =
        decode("test", &tape.bytes[..], &Settings::default()).expect("a capture").conversations.remove(0);
    let path = Path { addresses: Default::default(), directions: Default::default() };
    let flow = MatchedFlow {
        ends: Default::default(),
        ends_known: true,
        round_trip_ns: None,
        directions: Default::default(),
    };
    let finding = Finding { rule: "", text: String::new(), packets: Vec::new(), cost_ns: 0 };
    let of_conversation = [
        ("", json(conversation)),
        ("sides.", json(Side::default())),
        ("handshake.", json(Handshake::default())),
        ("end.", json(ConversationEnd::default())),
    ];
    let others = [
        ("log.", json(EndpointLog::default())),
        ("statistics.", json(Statistics::default())),
        ("both_ends.", json(BothEnds::default())),
        ("both_ends.flows.", json(flow)),
        ("both_ends.flows.directions.", json(MatchedDirection::default())),
    ];
    for (heading, expected) in [
        ("decoded", fields(&[("", json(decoded)), ("not_followed.", json(NotFollowed::default()))])),
        ("conversation", fields(&of_conversation)),
        ("direction", fields(&[("", json(Direction::default())), ("streams.", json(Stream::default()))])),
        ("repairs", fields(&[("", json(Retransmitted::default()))])),
        ("rtt", fields(&[("", json(Rtt::default()))])),
        ("path", fields(&[("", json(path)), ("directions.", json(PathDirection::default()))])),
        ("security", fields(&[("", json(Security::default()))])),
        ("request", fields(&[("", json(Request::default()))])),
        ("channel", fields(&[("", json(DataChannel::default()))])),
        ("finding", fields(&[("", json(finding))])),
        ("logs and both ends", fields(&others)),
    ] {
        let mut found = rows(page, heading);
        if heading == "logs and both ends" {
            // The values themselves have rows, too.
            for name in ["log", "statistics", "both_ends"] {
                assert!(found.remove(name), "{name}");
            }
        }
        assert_eq!(found, expected, "docs/guide/results.md, {heading}");
    }
    for name in json(Delay::default()).as_object().expect("an object").keys() {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
