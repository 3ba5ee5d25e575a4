//! Tests the traces of runs in the format of ns-2, the message sequences, and the packets over time.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, ns_trace, one, sequence};
use anabranch_transports::Transports;
use std::collections::BTreeMap;

fn plan(transport: &str, flags: &[(&str, &str)]) -> Plan {
    let quiet = [("loss", "0"), ("rate", "10mbit"), ("rtt", "100ms"), ("runs", "1"), ("objects", "1x4kB")];
    let quiet = quiet.into_iter().filter(|(key, _)| !flags.iter().any(|(own, _)| own == key));
    let all: Vec<_> = flags.iter().copied().chain(quiet).chain([("transport", transport)]).collect();
    let plan = Draft::from_flags(all).and_then(|draft| Plan::interpret(draft, &Transports::standard()));
    plan.expect("a plan")
}

fn trace(transport: &str, flags: &[(&str, &str)]) -> String {
    let plan = plan(transport, flags);
    let captures = one::capture(&batch::scenario(&plan, 0, Some(0), 1)).expect("a run").1;
    let hosts: Vec<&[u8]> = captures.iter().map(|captured| captured.pcapng.as_slice()).collect();
    ns_trace::of_run(&hosts).expect("captures")
}

#[test]
fn tcp_has_a_line_for_each_event_of_a_packet() {
    let text = trace("tcp:profile=linux-2.6", &[("objects", "1x1kB")]);
    expect_test::expect![[r#"
        + 0 0 1 tcp 60 ------- 0 0.49646 1.8000 0 0
        r 0.050048 0 1 tcp 60 ------- 0 0.49646 1.8000 0 0
        + 0.050048 1 0 tcp 60 ------- 0 1.8000 0.49646 0 1
        r 0.100096 1 0 tcp 60 ------- 0 1.8000 0.49646 0 1
        + 0.100096 0 1 ack 52 ------- 0 0.49646 1.8000 0 2
        + 0.100096 0 1 tcp 452 ------- 0 0.49646 1.8000 0 3
        r 0.1501376 0 1 ack 52 ------- 0 0.49646 1.8000 0 2
        r 0.1504992 0 1 tcp 452 ------- 0 0.49646 1.8000 0 3
        + 0.1504992 1 0 ack 52 ------- 0 1.8000 0.49646 400 4
        + 0.1504992 1 0 tcp 1352 ------- 0 1.8000 0.49646 0 5
        r 0.2005408 1 0 ack 52 ------- 0 1.8000 0.49646 400 4
        r 0.2016224 1 0 tcp 1352 ------- 0 1.8000 0.49646 0 5
        + 0.2016224 0 1 ack 52 ------- 0 0.49646 1.8000 1300 6
        + 0.2016224 0 1 tcp 52 ------- 0 0.49646 1.8000 400 7
        r 0.251664 0 1 ack 52 ------- 0 0.49646 1.8000 1300 6
        r 0.2517056 0 1 tcp 52 ------- 0 0.49646 1.8000 400 7
        + 0.2517056 1 0 tcp 52 ------- 0 1.8000 0.49646 1300 8
        r 0.3017472 1 0 tcp 52 ------- 0 1.8000 0.49646 1300 8
        + 0.3017472 0 1 ack 52 ------- 0 0.49646 1.8000 1301 9
        r 0.3517888 0 1 ack 52 ------- 0 0.49646 1.8000 1301 9
    "#]]
    .assert_eq(&text);
}

#[test]
fn sctp_has_a_line_for_each_chunk() {
    let text = trace("sctp:profile=lksctp-2.6", &[("objects", "1x1kB")]);
    expect_test::expect![[r#"
        + 0 0 1 sctp 64 -------I 0 0.53687 1.8000 1 -1 0 65535 65535
        r 0.0500512 0 1 sctp 64 -------I 0 0.53687 1.8000 1 -1 0 65535 65535
        + 0.0500512 1 0 sctp 108 -------I 0 1.8000 0.53687 1 -1 1 65535 65535
        r 0.1001376 1 0 sctp 108 -------I 0 1.8000 0.53687 1 -1 1 65535 65535
        + 0.1001376 0 1 sctp 500 -------I 0 0.53687 1.8000 2 -1 2 65535 65535
        + 0.1001376 0 1 sctp 500 -------D 0 0.53687 1.8000 2 1 2 0 0
        r 0.1505376 0 1 sctp 500 -------I 0 0.53687 1.8000 2 -1 2 65535 65535
        r 0.1505376 0 1 sctp 500 -------D 0 0.53687 1.8000 2 1 2 0 0
        + 0.1505376 1 0 sctp 52 -------I 0 1.8000 0.53687 2 -1 3 65535 65535
        + 0.1505376 1 0 sctp 52 -------S 0 1.8000 0.53687 2 1 3 65535 65535
        + 0.1505376 1 0 sctp 1364 ------ND 0 1.8000 0.53687 2 1 4 0 0
        + 0.1505376 1 0 sctp 1364 ------ND 0 1.8000 0.53687 2 2 4 0 1
        r 0.2005792 1 0 sctp 52 -------I 0 1.8000 0.53687 2 -1 3 65535 65535
        r 0.2005792 1 0 sctp 52 -------S 0 1.8000 0.53687 2 1 3 65535 65535
        r 0.2016704 1 0 sctp 1364 ------ND 0 1.8000 0.53687 2 1 4 0 0
        r 0.2016704 1 0 sctp 1364 ------ND 0 1.8000 0.53687 2 2 4 0 1
        + 0.2016704 0 1 sctp 48 -------S 0 0.53687 1.8000 1 2 5 65535 65535
        + 0.2016704 0 1 sctp 40 -------O 0 0.53687 1.8000 1 -1 6 65535 65535
        r 0.2517088 0 1 sctp 48 -------S 0 0.53687 1.8000 1 2 5 65535 65535
        r 0.2517408 0 1 sctp 40 -------O 0 0.53687 1.8000 1 -1 6 65535 65535
        + 0.2517408 1 0 sctp 36 -------O 0 1.8000 0.53687 1 -1 7 65535 65535
        r 0.3017696 1 0 sctp 36 -------O 0 1.8000 0.53687 1 -1 7 65535 65535
        + 0.3017696 0 1 sctp 36 -------O 0 0.53687 1.8000 1 -1 8 65535 65535
        r 0.3517984 0 1 sctp 36 -------O 0 0.53687 1.8000 1 -1 8 65535 65535
    "#]]
    .assert_eq(&text);
}

/// For each packet number, one line must say that the packet was sent, and one line that it was received or dropped. A
/// lost packet must be shown as dropped, even if its retransmission has the same content.
#[test]
fn each_packet_is_received_or_dropped_once() {
    for transport in ["tcp", "sctp", "quic"] {
        let text = trace(transport, &[("objects", "1x40kB"), ("down-loss", "list:6/8")]);
        let mut events: BTreeMap<&str, String> = BTreeMap::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            // Each chunk of an SCTP packet has its own line. All these lines have the number of the packet.
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

/// The packets in the time series of a run must add up to the packets that the run counts.
#[test]
fn packets_over_time_are_all_packets() {
    for transport in ["tcp", "sctp"] {
        let plan = plan(transport, &[("objects", "1x400kB"), ("loss", "1%")]);
        let run = one::run(&batch::scenario(&plan, 0, Some(0), 1)).expect("a run").remove(0);
        let path = &run.series.paths[0];
        let sums = [&path.up, &path.down].map(|series| series.packets.iter().sum::<u64>());
        assert_eq!(sums, [run.packets.up.sent, run.packets.down.sent], "{transport}");
    }
}

/// The message sequence of a client must begin with the four messages that open an association, and must be cut off
/// after the given number of lines.
#[test]
fn a_message_sequence_begins_with_the_set_up() {
    let plan = plan("sctp:profile=lksctp-2.6", &[("objects", "1x1kB")]);
    let captures = one::capture(&batch::scenario(&plan, 0, Some(0), 1)).expect("a run").1;
    let text = sequence::of_client(&captures[0], 5).expect("a capture");
    let lines: Vec<&str> = text.lines().collect();
    for (line, (arrow, chunk)) in lines.iter().zip([
        ("client ──► server", "INIT "),
        ("client ◄── server", "INIT ACK"),
        ("client ──► server", "COOKIE ECHO"),
        ("client ◄── server", "COOKIE ACK"),
    ]) {
        assert!(line.contains(arrow) && line.contains(chunk), "{text}");
    }
    assert!(lines.len() == 6 && lines[5].starts_with('…') && lines[5].ends_with("packets more"), "{text}");
}
