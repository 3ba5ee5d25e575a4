//! Streams that begin anew again and again, and one after another (RFC 6525 §5.1.1, §5.1.2).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_sctp::{Direction, Event};
use expect_test::expect;

fn used(changes: &[(&str, &str)]) -> Script {
    let mut script = Script::established(&[&[("reconfig", "yes"), ("streams", "4")], changes].concat());
    script.send(A, 1, 8).send(A, 2, 8).send(B, 1, 8).run(1_000);
    script.forget();
    script
}

/// RFC 6525 §5.1.1: one request is under way at a time; what is wished meanwhile follows with the
/// next number. Each stream counts from 0 behind its own reset, the others go on.
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

/// The same stream a hundred times, both ways, on a network that loses every fourth packet: each
/// message comes once, in its order, and nobody waits for ever.
#[test]
fn the_same_stream_again_and_again() {
    for interleaving in ["no", "yes"] {
        let mut script = used(&[("interleaving", interleaving), ("rto_min", "100ms")]);
        script.net.drawing = false;
        let mut done = 0;
        for lap in 0_u64..100 {
            script.send(A, 1, 20).send(B, 1, 30);
            let direction = if lap % 2 == 0 { Direction::Outgoing } else { Direction::Both };
            done += u64::from(script.reset(A, direction, &[1]).is_ok());
            script.send(A, 1, 40).send(A, 2, 10);
            let until = script.net.now + anabranch_base::time::Duration::from_millis(400);
            let mut turn = 0;
            let mut fate = |_, _, flight: &crate::net::Flight| {
                turn += 1;
                let keep = turn % 4 != 0;
                if keep { vec![(anabranch_base::time::Duration::ZERO, flight.clone())] } else { Vec::new() }
            };
            script.net.run_until(until, &mut fate, None);
        }
        script.run(30_000);
        assert!(done > 10, "{done} wishes were taken");
        let told = |script: &mut Script, side| {
            let events = &script.net.end(side).events;
            events.iter().filter(|event| matches!(event, Event::StreamsReset { .. })).count() as u64
        };
        assert!(told(&mut script, A) >= done && told(&mut script, B) >= done, "{done}");
        for side in [A, B] {
            assert!(script.app(side).is_served(&Default::default()), "{side:?}: {}", script.app(side).owed());
        }
        script.forget();
    }
}
