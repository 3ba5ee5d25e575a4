//! Resets that follow each other, of the same stream and of different streams (RFC 6525 §5.1.1, §5.1.2).

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_base::time::Duration;
use anabranch_sctp::{Direction, Event, Message, Reliability};
use expect_test::expect;

fn used(changes: &[(&str, &str)]) -> Script {
    let mut script = Script::established(&[&[("reconfig", "yes"), ("num_ostreams", "4")], changes].concat());
    script.send(A, 1, 8).send(A, 2, 8).send(B, 1, 8).run(1_000);
    script.forget();
    script
}

/// RFC 6525 §5.1.1: only one request is outstanding. Later requests follow one by one, each with the next request
/// number. The SSNs of a stream start again at 0 after its own reset; the SSNs of other streams continue.
#[test]
fn one_after_another() {
    let mut script = used(&[]);
    for stream in [1, 2, 3] {
        script.send(A, stream, 50);
        script.reset(A, Direction::Outgoing, &[stream]).expect("taken");
        script.send(A, stream, 60).run(20);
    }
    script.run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=50 BE
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=3 sid=1)
        2.020  A ──► B   DATA          tsn=4 sid=2 ssn=1 len=50 BE
        2.025          B: received sid=1 len=50
        2.025          B: streams reset: Incoming [1]
        2.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=3 rwnd=64k
        2.040  A ──► B   DATA          tsn=5 sid=3 ssn=0 len=50 BE
        2.045          B: received sid=2 len=50
        2.050          A: streams reset: Outgoing [1]
        2.050  A ──► B   RE-CONFIG reset-out(#2 re=#0 last=5 sid=2); DATA tsn=6 sid=1 ssn=0 len=60 BE
        2.065          B: received sid=3 len=50
        2.065  A ◄── B   SACK          cum=5 rwnd=64k
        2.075          B: streams reset: Incoming [2]
        2.075          B: received sid=1 len=60
        2.075  A ◄── B   RE-CONFIG response(#2 performed); SACK cum=6 rwnd=64k
        2.100          A: streams reset: Outgoing [2]
        2.100  A ──► B   RE-CONFIG reset-out(#3 re=#0 last=6 sid=3); DATA tsn=7 sid=2 ssn=0 len=60 BE
        2.125          B: streams reset: Incoming [3]
        2.125          B: received sid=2 len=60
        2.125  A ◄── B   RE-CONFIG response(#3 performed); SACK cum=7 rwnd=64k
        2.150          A: streams reset: Outgoing [3]
        2.150  A ──► B   DATA          tsn=8 sid=3 ssn=0 len=60 BE
        2.175          B: received sid=3 len=60
        2.375  A ◄── B   SACK          cum=8 rwnd=64k
    "#]]);
}

/// The same stream is reset a hundred times, in both directions, on a network that loses every fourth packet. Each
/// message arrives once and in order, and neither side waits forever.
#[test]
fn the_same_stream_again_and_again() {
    for interleaving in ["no", "yes"] {
        let mut script = used(&[("interleaving", interleaving), ("rto_min", "100ms")]);
        script.net.draws_ladder = false;
        let mut done = 0;
        for lap in 0_u64..100 {
            script.send(A, 1, 20).send(B, 1, 30);
            let direction = if lap % 2 == 0 { Direction::Outgoing } else { Direction::Both };
            done += u64::from(script.reset(A, direction, &[1]).is_ok());
            script.send(A, 1, 40).send(A, 2, 10);
            let until = script.net.now + Duration::from_millis(400);
            let mut turn = 0;
            let mut fate = |_, _, flight: &crate::net::Flight| {
                turn += 1;
                let keep = turn % 4 != 0;
                if keep { vec![(Duration::ZERO, flight.clone())] } else { Vec::new() }
            };
            script.net.run_until(until, &mut fate, None);
        }
        script.run(30_000);
        assert!(done > 10, "{done} wishes were taken");
        let reset_events = |script: &mut Script, side| {
            let events = &script.net.end(side).events;
            events.iter().filter(|event| matches!(event, Event::StreamsReset { .. })).count() as u64
        };
        assert!(reset_events(&mut script, A) >= done && reset_events(&mut script, B) >= done, "{done}");
        for side in [A, B] {
            assert!(script.app(side).is_served(&Default::default()), "{side:?}: {}", script.app(side).owed());
        }
        script.forget();
    }
}

/// RFC 6525 §5.1.1: A sends a RE-CONFIG with two requests. B performs the first request at once. Before the second
/// request, B must send its queued messages, which wait for A's receive window. Until then, A repeats the RE-CONFIG
/// unchanged, with both requests.
#[test]
fn a_request_is_repeated_as_it_was() {
    let mut script = used(&[("rcvbuf", "3000B")]);
    script.app(A).reading_pause = Duration::from_secs(2);
    for _ in 0..6 {
        script.send(B, 1, 1_400);
    }
    script.run(200).reset(A, Direction::Both, &[1]).expect("taken");
    script.run(6_000);
    script.check(expect![[r#"
        2.000  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=1400 BE
        2.000  A ◄── B   DATA          tsn=3 sid=1 ssn=2 len=1400 BE
        2.025  A ──► B   SACK          cum=3 rwnd=200
        2.200  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1) reset-in(#2 sid=1)
        2.225          B: streams reset: Incoming [1]
        2.225  A ◄── B   RE-CONFIG response(#1 performed) response(#2 in-progress); SACK cum=2 rwnd=3000
        2.250          A: streams reset: Outgoing [1]
        3.050  A ◄── B   DATA          tsn=4 sid=1 ssn=3 len=1400 BE
        3.250  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1) reset-in(#2 sid=1)
        3.275  A ◄── B   RE-CONFIG response(#1 performed) response(#2 in-progress); SACK cum=2 rwnd=3000
        3.275  A ──► B   SACK          cum=4 rwnd=0
        4.025  A ──► B   SACK          cum=4 rwnd=3000
        4.050  A ◄── B   DATA          tsn=5 sid=1 ssn=4 len=1400 BE
        4.050  A ◄── B   DATA          tsn=6 sid=1 ssn=5 len=1400 BE
        4.075  A ──► B   SACK          cum=6 rwnd=200
        4.300  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1) reset-in(#2 sid=1)
        4.325  A ◄── B   RE-CONFIG response(#1 performed) response(#2 in-progress); SACK cum=2 rwnd=3000
        5.100  A ◄── B   DATA          tsn=7 sid=1 ssn=6 len=1400 BE
        5.100  A ◄── B   RE-CONFIG reset-out(#1 re=#2 last=7 sid=1)
        5.125          A: streams reset: Incoming [1]
        5.125  A ──► B   RE-CONFIG response(#1 performed); SACK cum=7 rwnd=0
        5.150          B: streams reset: Outgoing [1]
        6.075  A ──► B   SACK          cum=7 rwnd=3000
    "#]]);
}

/// RFC 9260 §5.1.1: messages for a stream that the peer did not grant are dropped. When the stream is added later (RFC
/// 6525 §6.3.4) and then reset, the reset does not wait for these messages.
#[test]
fn a_stream_that_was_not_granted_at_first() {
    let config = |streams| configured(&[("reconfig", "yes"), ("num_ostreams", streams)]);
    let mut script = Script::with(config("10"), config("3"), &[25]);
    script.associate();
    let (id, now) = (script.id(A), script.net.now);
    let message = Message { stream: 7, ..Message::default() };
    for _ in 0..2 {
        script.net.end(A).engine.send(now, id, message, b"never granted").expect("room");
    }
    script.run(1_000).add_streams(A, 7, 0).expect("taken");
    script.run(1_000).send(A, 7, 60).run(1_000);
    script.reset(B, Direction::Incoming, &[7]).expect("taken");
    script.run(1_000).send(A, 7, 70).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=130 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=3 is=3 tsn=1 …cookie extensions=130
        0.050          A: not delivered: sid=7 len=13 context=0, unsent
        0.050          A: not delivered: sid=7 len=13 context=0, unsent
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 3 streams out, 3 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 3 streams out, 3 in
        1.000  A ──► B   RE-CONFIG add-out(#1 +7)
        1.025          B: streams added: 0 out, 7 in
        1.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=0 rwnd=64k
        1.050          A: streams added: 7 out, 0 in
        2.000  A ──► B   DATA          tsn=1 sid=7 ssn=0 len=60 BE
        2.025          B: received sid=7 len=60
        2.225  A ◄── B   SACK          cum=1 rwnd=64k
        3.000  A ◄── B   RE-CONFIG reset-in(#1 sid=7)
        3.025  A ──► B   RE-CONFIG reset-out(#2 re=#1 last=1 sid=7); SACK cum=0 rwnd=64k
        3.050          B: streams reset: Incoming [7]
        3.050  A ◄── B   RE-CONFIG response(#2 performed); SACK cum=1 rwnd=64k
        3.075          A: streams reset: Outgoing [7]
        4.000  A ──► B   DATA          tsn=2 sid=7 ssn=0 len=70 BE
        4.025          B: received sid=7 len=70
        4.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.2: A abandons a message on stream 2 and resets this stream, and then does the same with stream 1. B
/// has already reset stream 2, but B's SACK is still on the path with the longer delay. The FORWARD TSN for the message
/// on stream 1 must not list stream 2, because B would mistake the old SSN for a new one.
#[test]
fn two_resets_and_what_was_given_up_before() {
    let on =
        [("reconfig", "yes"), ("partial_reliability", "yes"), ("sack_path", "other"), ("num_ostreams", "4")];
    let mut script = Script::established_on(&[25, 300], &on);
    script.send(A, 2, 8).run(1_000).forget();
    script.app(B).peer_cancels = true;
    let give_up = |script: &mut Script, stream| {
        let (id, now) = (script.id(A), script.net.now);
        script.net.end(A).engine.cancel(now, id, stream);
        script.reset(A, Direction::Outgoing, &[stream]).expect("taken");
    };
    script.lose(A, "DATA tsn=2 ").send(A, 2, 100).run(1);
    give_up(&mut script, 2);
    script.run(60).lose(A, "DATA tsn=3 ").send(A, 1, 100).run(1);
    give_up(&mut script, 1);
    script.send(A, 2, 300).send(A, 2, 400).run(3_000);
    script.check(expect![[r#"
        5.000  A.1 ──► B.1   DATA          tsn=2 sid=2 ssn=1 len=100 BE     ✗ lost
        5.001          A: gave up sid=2 len=100 context=2, sent, by Cancelled
        5.001  A.1 ──► B.1   RE-CONFIG reset-out(#1 re=#0 last=2 sid=2); FORWARD TSN cum=2 sid:ssn=2:1
        5.026          B: streams reset: Incoming [2]
        5.026  A.1 ◄── B.1   RE-CONFIG response(#1 performed)
        5.026  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
        5.051          A: streams reset: Outgoing [2]
        5.061  A.1 ──► B.1   DATA          tsn=3 sid=1 ssn=0 len=100 BE     ✗ lost
        5.062          A: gave up sid=1 len=100 context=3, sent, by Cancelled
        5.062  A.1 ──► B.1   RE-CONFIG reset-out(#2 re=#0 last=3 sid=1); FORWARD TSN cum=2 sid:ssn=2:1; DATA tsn=4 sid=2 ssn=0 len=300 BE; DATA tsn=5 sid=2 ssn=1 len=400 BE
        5.087          B: received sid=2 len=300
        5.087          B: received sid=2 len=400
        5.087  A.1 ◄── B.1   RE-CONFIG response(#2 in-progress)
        5.087  A.2 ◄── B.2   SACK          cum=2 rwnd=64k gaps=4-5
        5.326  A.1 ──► B.1   FORWARD TSN   cum=3 sid:ssn=1:0
        5.351          B: streams reset: Incoming [1]
        5.351  A.1 ◄── B.1   RE-CONFIG response(#2 performed)
        5.351  A.2 ◄── B.2   SACK          cum=5 rwnd=64k
        5.376          A: streams reset: Outgoing [1]
    "#]]);
}

/// RFC 6525 §5.2.7 H1: each side asks the other to reset some of the other's outgoing streams, and both answer "in
/// progress". Each side already has a waiting request to reset one of these streams. Each side must send this waiting
/// request first. Otherwise each would wait for the other forever.
#[test]
fn promises_and_wishes_about_the_same_streams() {
    let mut script = used(&[]);
    for stream in 1..4 {
        script.send(A, stream, 8).send(B, stream, 8);
    }
    script.run(1_000).forget();
    for (side, both, own) in [(A, [1, 2], 3), (B, [2, 3], 1)] {
        script.reset(side, Direction::Both, &both).expect("taken");
        script.reset(side, Direction::Outgoing, &[own]).expect("taken");
    }
    script.run(20_000);
    for stream in 1..4 {
        script.send(A, stream, 10).send(B, stream, 20);
    }
    script.run(1_000).check(expect![[r#"
         3.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=5 sid=1,2) reset-in(#2 sid=1,2)
         3.000  A ◄── B   RE-CONFIG reset-out(#1 re=#0 last=4 sid=2,3) reset-in(#2 sid=2,3)
         3.025          B: streams reset: Incoming [1, 2]
         3.025  A ◄── B   RE-CONFIG response(#1 performed) response(#2 in-progress); SACK cum=5 rwnd=64k
         3.025          A: streams reset: Incoming [2, 3]
         3.025  A ──► B   RE-CONFIG response(#1 performed) response(#2 in-progress); SACK cum=4 rwnd=64k
         3.050          A: streams reset: Outgoing [1, 2]
         3.050  A ──► B   RE-CONFIG reset-out(#3 re=#1 last=5 sid=3)
         3.050          B: streams reset: Outgoing [2, 3]
         3.050  A ◄── B   RE-CONFIG reset-out(#3 re=#1 last=4 sid=1)
         3.075          B: streams reset: Incoming [3]
         3.075  A ◄── B   RE-CONFIG response(#3 performed); SACK cum=5 rwnd=64k
         3.075          A: streams reset: Incoming [1]
         3.075  A ──► B   RE-CONFIG response(#3 performed); SACK cum=4 rwnd=64k
         3.100          A: streams reset: Outgoing [3]
         3.100  A ──► B   RE-CONFIG reset-out(#4 re=#2 last=5 sid=2,3)
         3.100          B: streams reset: Outgoing [1]
         3.100  A ◄── B   RE-CONFIG reset-out(#4 re=#2 last=4 sid=1,2)
         3.125          B: streams reset: Incoming [2, 3]
         3.125  A ◄── B   RE-CONFIG response(#4 performed); SACK cum=5 rwnd=64k
         3.125          A: streams reset: Incoming [1, 2]
         3.125  A ──► B   RE-CONFIG response(#4 performed); SACK cum=4 rwnd=64k
         3.150          A: streams reset: Outgoing [2, 3]
         3.150          B: streams reset: Outgoing [1, 2]
        23.000  A ──► B   DATA          tsn=6 sid=1 ssn=0 len=10 BE; DATA tsn=7 sid=2 ssn=0 len=10 BE; DATA tsn=8 sid=3 ssn=0 len=10 BE
        23.000  A ◄── B   DATA          tsn=5 sid=1 ssn=0 len=20 BE; DATA tsn=6 sid=2 ssn=0 len=20 BE; DATA tsn=7 sid=3 ssn=0 len=20 BE
        23.025          B: received sid=1 len=10
        23.025          B: received sid=2 len=10
        23.025          B: received sid=3 len=10
        23.025          A: received sid=1 len=20
        23.025          A: received sid=2 len=20
        23.025          A: received sid=3 len=20
        23.225  A ──► B   SACK          cum=7 rwnd=64k
        23.225  A ◄── B   SACK          cum=8 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.4 G1: a TSN reset advances the TSNs by 2^31. The TSN in a late copy of an earlier FORWARD TSN is then
/// 2^31 ahead. The late copy must not skip any TSN, and data with new TSNs must be delivered.
#[test]
fn a_late_forward_tsn_of_the_numbering_before() {
    let mut script = used(&[("partial_reliability", "yes"), ("iw", "10")]);
    let reliability = Reliability::Lifetime(Duration::from_millis(10));
    script.lose(A, "DATA tsn=3 ").duplicate_late(A, "FORWARD TSN", 3_000);
    script.send_message(A, Message { stream: 1, reliability, ..Message::default() }, 100).run(1_500);
    for _ in 0..3 {
        script.send(A, 2, 10).run(300);
    }
    script.reset_association(A).expect("taken");
    script.run(2_000).send(A, 1, 20).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=100 BE     ✗ lost
        3.000          A: gave up sid=1 len=100 context=4, sent, by Lifetime
        3.000  A ──► B   FORWARD TSN   cum=3 sid:ssn=1:1     duplicated
        3.225  A ◄── B   SACK          cum=3 rwnd=64k
        3.500  A ──► B   DATA          tsn=4 sid=2 ssn=1 len=10 BE
        3.525          B: received sid=2 len=10
        3.725  A ◄── B   SACK          cum=4 rwnd=64k
        3.800  A ──► B   DATA          tsn=5 sid=2 ssn=2 len=10 BE
        3.825          B: received sid=2 len=10
        4.025  A ◄── B   SACK          cum=5 rwnd=64k
        4.100  A ──► B   DATA          tsn=6 sid=2 ssn=3 len=10 BE
        4.125          B: received sid=2 len=10
        4.325  A ◄── B   SACK          cum=6 rwnd=64k
        4.400  A ──► B   RE-CONFIG reset-tsn(#1)
        4.425          B: association reset
        4.425  A ◄── B   RE-CONFIG response(#1 performed) next=2/-2147483641; SACK cum=-2147483642 rwnd=64k
        4.450          A: association reset
        6.400  A ──► B   DATA          tsn=-2147483641 sid=1 ssn=0 len=20 BE
        6.425          B: received sid=1 len=20
        6.625  A ◄── B   SACK          cum=-2147483641 rwnd=64k
    "#]]);
}
