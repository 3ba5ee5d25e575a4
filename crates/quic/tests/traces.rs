//! Tests the traces and logs of an endpoint's connections, and the keys that identify connections in traces and logs.

use crate::validation::{at, events, give, pair, sends, settle};
use anabranch_base::time::Duration;
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Engine, Instant};
use anabranch_quic::{Config, Event, Id};

#[test]
fn both_ends_trace_a_connection_by_its_first_destination() {
    let mut both = pair(&Config::default());
    let near = both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    let hello = sends(&mut both[0], Instant::ZERO);
    // RFC 9000 §17.2: in a long header, the destination connection ID begins at byte 6. The trace key is its first
    // 6 bytes.
    let [.., a, b, c, d, e, f] = hello[0].bytes[..12] else { panic!("a short packet") };
    let key = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    hello.iter().for_each(|sent| give(&mut both[1], Instant::ZERO, sent));
    settle(&mut both, Instant::ZERO);
    let accepted = events(&mut both[1]).into_iter().find_map(|event| match event {
        Event::Accepted { id, .. } => Some(id),
        _ => None,
    });
    let far = accepted.expect("accepted");
    assert_eq!([both[0].trace_key(near), both[1].trace_key(far)], [key; 2]);
    assert_eq!(both[0].trace_key(Id(77)), 77, "a connection that is gone has only its number");
}

#[test]
fn events_are_traced_with_the_time_at_which_they_happen() {
    let mut both = pair(&Config::default());
    both[0].set_tracing(true);
    let begun = Instant::from_millis(5_000);
    let id = both[0].connect(begun, at(2, 443)).expect("begun");
    let trace = both[0].take_trace();
    assert_eq!(trace[0].event, TraceEvent::Opening);
    let key = both[0].trace_key(id);
    assert!(trace.iter().all(|record| (record.at, record.connection) == (begun, key)), "{trace:?}");
    let hello = sends(&mut both[0], begun);
    let answered = begun + Duration::from_millis(40);
    hello.iter().for_each(|sent| give(&mut both[1], answered, sent));
    settle(&mut both, answered);
    let trace = both[0].take_trace();
    let handshake =
        trace.iter().filter(|record| matches!(record.event, TraceEvent::Answered | TraceEvent::Established));
    let handshake: Vec<_> = handshake.map(|record| (record.at, record.event.clone())).collect();
    assert_eq!(handshake, [(answered, TraceEvent::Answered), (answered, TraceEvent::Established)]);
    // The trace must have the time of sending, not the time of writing.
    let (written, sent) = (answered + Duration::from_millis(10), answered + Duration::from_millis(20));
    both[0].send(written, id, 0, b"ask").expect("written");
    sends(&mut both[0], sent);
    let trace = both[0].take_trace();
    let leaves = trace.iter().filter_map(|record| match &record.event {
        TraceEvent::Sent { bytes, .. } => Some((record.at, bytes.clone())),
        _ => None,
    });
    assert_eq!(leaves.collect::<Vec<_>>(), [(sent, 0..3)]);
}

#[test]
fn logs_kept_in_memory_hold_what_both_ends_send() {
    let mut both = pair(&Config::default());
    both.iter_mut().for_each(|end| end.start_logging());
    let begun = Instant::from_millis(5_000);
    both[0].connect(begun, at(2, 443)).expect("begun");
    settle(&mut both, begun);
    let logs = both.each_ref().map(|end| end.take_logs());
    for (logs, side) in logs.iter().zip(["client", "server"]) {
        let [log] = &logs[..] else { panic!("{} logs", logs.len()) };
        let text = String::from_utf8_lossy(&log.content);
        // RFC 7464 §2.2: each text begins with a record separator and ends with a line feed.
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.starts_with("\x1e{")), "{text}");
        let (id, rest) = log.name.split_once('.').expect("a name");
        assert_eq!(rest, format!("{side}.sqlog"));
        let header = text.lines().next().unwrap_or_default();
        assert!(header.contains(&format!("\"ODCID\":\"{id}\"")), "{header}");
        for name in ["transport:packet_sent", "transport:packet_received", "recovery:metrics_updated"] {
            // Times in a log are relative to the start of the log.
            assert!(text.contains(&format!("\x1e{{\"time\":0.000000,\"name\":\"{name}\"")), "{name}: {text}");
        }
    }
    assert_eq!(both[0].take_logs(), []);
}
