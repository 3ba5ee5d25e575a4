//! Tests the traces of runs in the format of ns-2.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, ns_trace, one};
use anabranch_transports::Transports;
use std::collections::BTreeMap;

fn trace(transport: &str, flags: &[(&str, &str)]) -> String {
    let quiet = [("loss", "0"), ("rate", "10mbit"), ("rtt", "100ms"), ("runs", "1"), ("objects", "1x4kB")];
    let quiet = quiet.into_iter().filter(|(key, _)| !flags.iter().any(|(own, _)| own == key));
    let all: Vec<_> = flags.iter().copied().chain(quiet).chain([("transport", transport)]).collect();
    let plan = Draft::from_flags(all).and_then(|draft| Plan::interpret(draft, &Transports::standard()));
    let captures = one::capture(&batch::scenario(&plan.expect("a plan"), 0, Some(0), 1)).expect("a run").1;
    let hosts: Vec<&[u8]> = captures.iter().map(|captured| captured.pcapng.as_slice()).collect();
    ns_trace::of_run(&hosts).expect("captures")
}

#[test]
fn tcp_has_a_line_for_each_event_of_a_packet() {
    let text = trace("tcp:profile=linux-2.6", &[("objects", "1x1kB")]);
    expect_test::expect![[r#""#]].assert_eq(&text);
}

#[test]
fn sctp_has_a_line_for_each_chunk() {
    let text = trace("sctp:profile=lksctp-2.6", &[("objects", "1x1kB")]);
    expect_test::expect![[r#""#]].assert_eq(&text);
}

/// Of each packet number, one line must say that it was sent, and one line that it was received or dropped. A packet that
/// the network loses must be dropped, though its copy is sent again with the same content.
#[test]
fn each_packet_is_received_or_dropped_once() {
    for transport in ["tcp", "sctp", "quic"] {
        let text = trace(transport, &[("objects", "1x40kB"), ("down-loss", "list:6/8")]);
        let mut events: BTreeMap<&str, String> = BTreeMap::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            // Several chunks of an SCTP packet share its number.
            let number = if fields[4] == "sctp" { fields[12] } else { fields[11] };
            let of_packet = events.entry(number).or_default();
            if !of_packet.ends_with(fields[0]) {
                of_packet.push_str(fields[0]);
            }
        }
        let of = |what: &str| events.values().filter(|events| *events == what).count();
        assert_eq!((of("+r") + of("+d"), of("+d")), (events.len(), 2), "{transport}: {events:?}");
    }
}
