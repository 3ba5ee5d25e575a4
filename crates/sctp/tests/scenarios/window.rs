//! The receiver's window when it is small, when it is closed, and when it opens (RFC 9260 §6.1, §6.2).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_base::Engine;
use anabranch_base::time::Duration;
use anabranch_base::trace::{SendCause, TraceEvent};
use anabranch_sctp::{AssociationState, Event, Message};
use anabranch_wire::sctp::{Data, Tsn};
use expect_test::expect;

/// RFC 9260 §6.1 A: one DATA chunk probes a closed window. After the probe the window opens again.
#[test]
fn zero_window_probe() {
    let mut script = Script::established(&[("rcvbuf", "4000B")]);
    script.app(B).reading_pause = Duration::from_secs(5);
    script.send(A, 0, 1_000).send(A, 0, 1_000).send(A, 0, 1_000).send(A, 0, 1_000).send(A, 0, 1_000);
    script.run(12_000);
    script.check(expect![[r#"
         1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
         1.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE
         1.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1000 BE
         1.000  A ──► B   DATA          tsn=4 sid=0 ssn=3 len=1000 BE
         1.025  A ◄── B   SACK          cum=1 rwnd=3000
         1.025  A ◄── B   SACK          cum=3 rwnd=1000
         1.225  A ◄── B   SACK          cum=4 rwnd=0
         2.250  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE
         2.275  A ◄── B   SACK          cum=4 rwnd=0
         3.250  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE
         3.275  A ◄── B   SACK          cum=4 rwnd=0
         5.250  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE
         5.275  A ◄── B   SACK          cum=4 rwnd=0
         6.025  A ◄── B   SACK          cum=4 rwnd=4000
         6.050  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE
         6.275  A ◄── B   SACK          cum=5 rwnd=3000
        11.075  A ◄── B   SACK          cum=5 rwnd=4000
    "#]]);
}

/// RFC 9260 §6.1 A: the trace marks a window probe, and so distinguishes it from data within the window.
#[test]
fn a_probe_is_traced_as_such() {
    let mut script = Script::established(&[("rcvbuf", "2000B")]);
    script.app(B).reading_pause = Duration::from_secs(5);
    script.net.end(A).engine.set_tracing(true);
    script.send(A, 0, 1_000).send(A, 0, 1_000).send(A, 0, 1_000).run(2_000);
    let trace = script.net.end(A).engine.take_trace();
    let causes: Vec<_> = trace
        .iter()
        .filter_map(|record| match record.event {
            TraceEvent::Sent { cause, .. } => Some(cause),
            _ => None,
        })
        .collect();
    assert_eq!(causes, [SendCause::New, SendCause::New, SendCause::Probe]);
}

/// RFC 9260 §6.2: reading opens the window. A window update is sent when the window has grown enough.
#[test]
fn window_update() {
    let mut script = Script::established(&[("rcvbuf", "6000B")]);
    script.app(B).reading_pause = Duration::from_millis(400);
    script.send(A, 0, 5_000).send(A, 0, 5_000).run(4_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
        1.025  A ◄── B   SACK          cum=1 rwnd=4548
        1.025  A ◄── B   SACK          cum=3 rwnd=1644
        1.050  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=644 E; DATA tsn=5 sid=0 ssn=1 len=792 B
        1.275  A ◄── B   SACK          cum=5 rwnd=208
        1.425  A ◄── B   SACK          cum=5 rwnd=6000
        1.450  A ──► B   DATA          tsn=6 sid=0 ssn=1 len=1452
        1.450  A ──► B   DATA          tsn=7 sid=0 ssn=1 len=1452
        1.450  A ──► B   DATA          tsn=8 sid=0 ssn=1 len=1304 E
        1.475  A ◄── B   SACK          cum=7 rwnd=3096
        1.675  A ◄── B   SACK          cum=8 rwnd=1792
        1.875  A ◄── B   SACK          cum=8 rwnd=6000
    "#]]);
}

/// RFC 9260 §6.1 A: data that does not fit into a small window is held back.
#[test]
fn never_more_than_the_window() {
    let mut script = Script::established(&[("rcvbuf", "3000B")]);
    script.send(A, 0, 9_000).run(4_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
           1.025  A ◄── B   SACK          cum=1 rwnd=1548
           1.025  A ◄── B   SACK          cum=2 rwnd=3000
           1.050  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
           1.050  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452
           1.075  A ◄── B   SACK          cum=3 rwnd=3000
           1.075  A ◄── B   SACK          cum=4 rwnd=3000
           1.100  A ──► B   DATA          tsn=5 sid=0 ssn=0 len=1452
           1.100  A ──► B   DATA          tsn=6 sid=0 ssn=0 len=1452
           1.125  A ◄── B   SACK          cum=5 rwnd=3000
           1.125  A ◄── B   SACK          cum=6 rwnd=3000
           1.150  A ──► B   DATA          tsn=7 sid=0 ssn=0 len=288 E
           1.175          B: received sid=0 len=9000
           1.375  A ◄── B   SACK          cum=7 rwnd=3000
    "#]]);
}

/// RFC 9260 §6.1 A: a window that never opens is probed without end, at intervals that grow to RTO.Max. Meanwhile, only
/// the send buffer takes memory. §9.2: a shutdown waits for outstanding data; an application that does not want to wait
/// can abort.
#[test]
fn a_window_that_never_opens() {
    let mut script = Script::established(&[("rcvbuf", "4000B"), ("sndbuf", "20000B")]);
    script.app(B).reading_pause = Duration::from_secs(1_000_000);
    script.net.draws_ladder = false;
    let id = script.id(A);
    let mut sent = 0;
    for _ in 0..24 {
        for _ in 0..100 {
            let now = script.net.now;
            let took = script.net.end(A).engine.send(now, id, Message::default(), &[7; 1_000]);
            sent += u32::from(took.is_ok());
        }
        script.run(3_600_000);
        let info = script.net.end(A).engine.info(id).expect("it lives");
        assert_eq!(info.state, AssociationState::Established);
        assert!(info.buffered <= 20_000, "{} bytes wait", info.buffered);
    }
    assert_eq!(sent, 24);
    // During one day, 1,440 probes are sent, one per minute. The upper limit also allows for the packets before them.
    let stats = script.net.end(A).engine.stats(id).expect("it lives");
    assert!((1_440..1_500).contains(&stats.packets_sent), "{stats:?}");
    script.shutdown(A).run(3_600_000);
    let state = script.net.end(A).engine.info(id).expect("it lives").state;
    assert_eq!(state, AssociationState::ShutdownPending);
    script.abort(A).run(1_000);
    for side in [A, B] {
        let events = &script.net.end(side).events;
        assert!(events.iter().any(|event| matches!(event, Event::Closed { .. })), "{side:?}: {events:?}");
    }
}

/// RFC 9260 §6.2: after the receiver has advertised a window of 0, it accepts no new data, even if it has a little
/// room. But it accepts data that fills a gap.
#[test]
fn a_window_of_zero_is_meant() {
    let mut script = Script::warm(&[("rcvbuf", "4000B")]);
    script.app(B).reading_pause = Duration::from_secs(60);
    let (tag, first) = (script.tag(B), script.net.ladder.numbers().first(A).expect("a TSN"));
    // The test forges these chunks. A must not receive the SACKs that answer them, because A did not send the chunks.
    script.lose_times(B, "SACK", 9);
    for (n, length) in [(3, 1_452), (4, 1_452), (5, 1_096), (6, 50), (2, 40)] {
        if n == 6 {
            // Reading frees some room, but too little for a SACK to advertise it.
            let (id, now) = (script.id(B), script.net.now);
            let read = script.net.end(B).engine.recv(now, id, 5, &mut [0; 2_000]);
            assert!(matches!(read, Ok(Some(received)) if received.bytes == 1_096));
        }
        let payload = vec![7; length];
        script.inject(A, tag, |packet| {
            let tsn = Tsn(first).plus(n - 1);
            Data { tsn, stream: n as u16, begin: true, end: true, payload: &payload, ..Data::default() }
                .emit(packet);
        });
        script.run(500);
    }
    script.check_drawn(expect![[r#"
        2.000  A ──► B   DATA          tsn=3 sid=3 ssn=0 len=1452 BE     injected
        2.025  A ◄── B   SACK          cum=1 rwnd=2548 gaps=3     ✗ lost
        2.500  A ──► B   DATA          tsn=4 sid=4 ssn=0 len=1452 BE     injected
        2.525  A ◄── B   SACK          cum=1 rwnd=1096 gaps=3-4     ✗ lost
        3.000  A ──► B   DATA          tsn=5 sid=5 ssn=0 len=1096 BE     injected
        3.025  A ◄── B   SACK          cum=1 rwnd=0 gaps=3-5     ✗ lost
        3.500  A ──► B   DATA          tsn=6 sid=6 ssn=0 len=50 BE     injected
        3.525  A ◄── B   SACK          cum=1 rwnd=0 gaps=3-5     ✗ lost
        4.000  A ──► B   DATA          tsn=2 sid=2 ssn=0 len=40 BE     injected
        4.025  A ◄── B   SACK          cum=5 rwnd=0     ✗ lost
    "#]]);
}

/// RFC 9260 §6.1 A: a peer that reads slowly acknowledges window probes one by one, while its window stays closed. The
/// field `probed` counts the acknowledged bytes of these probes. It returns to 0 when the window opens.
#[test]
fn acknowledged_probes_are_told_apart_until_the_window_opens() {
    let mut script = Script::established(&[("rcvbuf", "8000B")]);
    script.net.draws_ladder = false;
    script.app(B).reading_pause = Duration::from_secs(1_000_000);
    for _ in 0..24 {
        script.send(A, 0, 500);
    }
    script.run(500);
    let sent = |script: &mut Script| {
        let id = script.id(A);
        let info = script.net.end(A).engine.info(id).expect("it lives");
        (info.buffered, info.probed)
    };
    let read = |script: &mut Script, messages: u32| {
        let (id, now) = (script.id(B), script.net.now);
        for _ in 0..messages {
            let read = script.net.end(B).engine.recv(now, id, 0, &mut [0; 2_000]);
            assert!(matches!(read, Ok(Some(received)) if received.bytes == 500));
        }
    };
    assert_eq!(sent(&mut script), (4_000, 0));
    // B's buffer has room for one segment, so B accepts each probe. This room is too little for B to advertise an open
    // window, so the window stays closed.
    read(&mut script, 2);
    for probes in 1..=3 {
        read(&mut script, 1);
        script.run(120_000);
        assert_eq!(sent(&mut script), (4_000 - probes * 500, probes * 500));
    }
    read(&mut script, 10);
    script.run(60_000);
    assert_eq!(sent(&mut script), (0, 0), "the window has opened");
}

/// RFC 9260 §6.1 A: the peer's window stays closed. Whenever one message has been sent, the application writes the
/// next, so each message is sent as a window probe. Every probe doubles the interval to the next probe, although the
/// send queue is empty between two messages.
#[test]
fn probes_are_counted_on_when_the_queue_was_empty() {
    let mut script = Script::established(&[("rcvbuf", "8000B")]);
    script.net.draws_ladder = false;
    script.app(B).reading_pause = Duration::from_secs(1_000_000);
    for _ in 0..16 {
        script.send(A, 0, 500);
    }
    script.run(500);
    let read = |script: &mut Script| {
        let (id, now) = (script.id(B), script.net.now);
        assert!(script.net.end(B).engine.recv(now, id, 0, &mut [0; 2_000]).is_ok_and(|read| read.is_some()));
    };
    // After two reads, B has room for a segment, but too little room for a window update.
    read(&mut script);
    read(&mut script);
    for (probes, within) in [(1, 1_000), (2, 2_000), (3, 4_000)] {
        let counts = |script: &mut Script| {
            let id = script.id(A);
            let info = script.net.end(A).engine.info(id).expect("it lives");
            (info.buffered, info.probed)
        };
        assert_eq!(counts(&mut script), (0, 500 * (probes - 1)));
        read(&mut script);
        script.send(A, 0, 500).run(within / 2);
        assert_eq!(counts(&mut script), (500, 500 * (probes - 1)), "it waits for its time");
        script.run(2 * within);
        assert_eq!(counts(&mut script), (0, 500 * probes));
    }
}
