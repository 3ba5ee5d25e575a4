//! The send buffer as an application sees it. Messages are accepted or refused, events report free space, and the
//! outstanding data is limited.

use crate::net::{A, B, PORT};
use crate::script::Script;
use anabranch_base::Rng;
use anabranch_sctp::{Endpoint, Event, Message, SendError};

fn low_events(script: &mut Script) -> usize {
    let events = std::mem::take(&mut script.net.end(A).events);
    events.iter().filter(|event| matches!(event, Event::BufferedAmountLow { .. })).count()
}

/// `send_pieces` divides data into pieces, and accepts as many whole pieces as fit into the send buffer. If some pieces
/// do not fit, an event follows when there is room again.
#[test]
fn pieces_are_taken_whole() {
    let mut script = Script::established(&[("sndbuf", "5000B")]);
    let (id, now) = (script.id(A), script.net.now);
    let engine = &mut script.net.end(A).engine;
    let message = Message { stream: 1, ..Message::default() };
    assert_eq!(engine.send_pieces(now, id, message, &[7; 9_000], 1_200), Ok(4_800), "four pieces of 1200");
    assert_eq!(engine.buffered_amount(id, 1), 4_800);
    assert_eq!(engine.send_pieces(now, id, message, &[7; 300], 1_200), Err(SendError::Full));
    assert_eq!(engine.send_pieces(now, id, message, &[7; 150], 100), Ok(150), "the last is what is left");
    assert_eq!(engine.send_pieces(now, id, message, &[], 100), Err(SendError::Empty));
    assert_eq!(engine.send_pieces(now, id, message, &[7; 6_000], 5_001), Err(SendError::TooLarge));
    script.net.end(B).app.reading_pause = anabranch_base::time::Duration::from_secs(600);
    script.run(1_000);
    assert!(script.net.end(A).events.iter().any(|event| matches!(event, Event::Writable { .. })));
    assert_eq!(script.net.end(A).engine.buffered_amount(id, 1), 0);
}

/// W3C WebRTC §6.2: the application sets a threshold for the buffered amount. The event is reported when the amount
/// falls to the threshold, but not while the amount rises to it or stays below it.
#[test]
fn a_threshold_is_told_when_the_amount_falls_to_it() {
    let mut script = Script::established(&[]);
    let id = script.id(A);
    assert!(script.net.end(A).engine.set_buffered_amount_low(id, 2, Some(100)));
    script.send(A, 2, 100).run(1_000);
    assert_eq!(low_events(&mut script), 0, "it was never above");
    script.send(A, 2, 101).run(1_000);
    assert_eq!(low_events(&mut script), 1);
    script.send(A, 2, 60).send(A, 2, 60).send(A, 2, 60).run(1_000);
    assert_eq!(low_events(&mut script), 1, "once a fall");
    assert!(script.net.end(A).engine.set_buffered_amount_low(id, 2, None));
    script.send(A, 2, 5_000).run(2_000);
    assert_eq!(low_events(&mut script), 0);
}

/// RFC 9260 §5.2.4 A: a restart of the peer empties the send buffer. If a message was refused before, the application
/// is notified that there is room. Thresholds of the buffered amount are kept.
#[test]
fn who_was_turned_away_is_told_after_a_restart() {
    let mut script = Script::new(&[("sndbuf", "3000B")]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    let (id, now) = (script.id(B), script.net.now);
    script.lose_times(B, "DATA", 99);
    let engine = &mut script.net.end(B).engine;
    assert!(engine.set_buffered_amount_low(id, 3, Some(0)));
    let message = Message { stream: 3, ..Message::default() };
    engine.send(now, id, message, &[1; 2_500]).expect("there is room");
    assert_eq!(engine.send(now, id, message, &[1; 2_500]), Err(SendError::Full));
    script.run(100);
    script.net.end(B).events.clear();
    let rebooted =
        Endpoint::new(crate::script::configured(&[]), vec![crate::net::address(A, 1)], Rng::new(77));
    script.net.reboot(A, rebooted);
    script.net.rules.clear();
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    let events = &script.net.end(B).events;
    assert!(events.iter().any(|event| matches!(event, Event::Restarted { .. })));
    assert!(events.iter().any(|event| matches!(event, Event::Writable { .. })), "{events:?}");
    assert!(
        events.iter().any(|event| matches!(event, Event::BufferedAmountLow { stream: 3, .. })),
        "{events:?}"
    );
}

/// RFC 8260 §3.4: the priorities of streams survive a restart of the peer.
#[test]
fn priorities_outlive_a_restart() {
    let mut script = Script::new(&[("scheduler", "priority")]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    let id = script.id(B);
    let now = script.net.now;
    script.net.end(B).engine.set_stream_value(now, id, 1, 9).expect("a stream");
    let rebooted =
        Endpoint::new(crate::script::configured(&[]), vec![crate::net::address(A, 1)], Rng::new(77));
    script.net.reboot(A, rebooted);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    script.forget();
    script.send(B, 1, 100).send(B, 2, 100).run(1_000);
    let drawn = script.net.ladder.take();
    let position = |what: &str| drawn.find(what).unwrap_or_else(|| panic!("no {what} in {drawn}"));
    assert!(position("sid=2 ssn=0") < position("sid=1 ssn=0"), "{drawn}");
}

/// RFC 9260 §1.6: TSNs can be compared only if less than half of all TSNs are outstanding. This stack limits the
/// outstanding chunks to 32,000. The test sends more chunks, and all of them arrive.
#[test]
fn a_bounded_number_of_chunks_is_outstanding() {
    let mut script =
        Script::established(&[("iw", "100"), ("max_burst", "0"), ("sndbuf", "4MiB"), ("rcvbuf", "64MiB")]);
    script.net.draws_ladder = false;
    // Grow the congestion window without idle periods, which would shrink it (RFC 9260 §7.2.1).
    for _ in 0..3_000 {
        script.send(A, 0, 1_000);
    }
    script.run(800);
    script.kill(1);
    for _ in 0..33_000 {
        script.send(A, 0, 1);
    }
    script.run(100);
    let (id, outstanding) = (script.id(A), |script: &Script, id| {
        script.net.ends[0].engine.info(id).expect("it lives").outstanding
    });
    assert_eq!(outstanding(&script, id), 32_000);
    script.heal(1).run(60_000);
    assert_eq!(outstanding(&script, id), 0);
    assert!(script.net.end(B).app.is_served(&Default::default()), "all arrived");
}
