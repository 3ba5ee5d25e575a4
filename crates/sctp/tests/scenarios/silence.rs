//! The time after which a peer that does not answer is given up (RFC 9260 §8.1). This time depends on a number of
//! consecutive errors, and optionally on a minimum time.

use crate::net::A;
use crate::script::Script;
use anabranch_sctp::{CloseReason, Event};

/// Cuts all four paths for 30 s, and sends a message at the start of the cut. Then waits until 40 s after the start. If
/// the association ends, returns the time of its end (in milliseconds from the start of the cut) and the reason. Also
/// returns whether the message arrived.
fn cut(changes: &[(&str, &str)]) -> (Option<(u64, CloseReason)>, bool) {
    let mut script = Script::established_on(&[10, 10, 10, 10], changes);
    script.run_to(3_000);
    for n in 1..=4 {
        script.kill(n);
    }
    script.send(A, 0, 100);
    let mut closed = None;
    for step in 0..4_000 {
        if step == 3_000 {
            for n in 1..=4 {
                script.heal(n);
            }
        }
        script.run(10);
        let reason = script.net.end(A).events.iter().find_map(|event| match event {
            Event::Closed { reason, .. } => Some(*reason),
            _ => None,
        });
        if closed.is_none() {
            closed = reason.map(|reason| (step * 10, reason));
        }
    }
    let ladder = script.net.ladder.take();
    (closed, ladder.contains("B: received sid=0 len=100"))
}

/// RFC 9260 §8.1: Association.Max.Retrans counts the retransmissions to all addresses together. With a small RTO.Min
/// and many paths, this count reaches the limit before the network is restored, and the association ends.
#[test]
fn errors_on_many_paths_are_soon_enough() {
    let (closed, came) = cut(&[("rto_min", "200ms"), ("rto_initial", "200ms")]);
    let (after, reason) = closed.expect("given up");
    assert_eq!((reason, came), (CloseReason::Unreachable, false));
    assert!(after < 10_000, "{after} ms");
}

/// With `assoc_silence=60s`, an association is given up only after errors for 60 s. The association and its paths
/// survive a cut of 30 s.
#[test]
fn a_silence_may_last() {
    let changes = [("rto_min", "200ms"), ("rto_initial", "200ms"), ("assoc_silence", "60s")];
    assert_eq!(cut(&changes), (None, true));
}

/// With `assoc_silence=20s`, an association is given up only after errors for 20 s. The first error after this time
/// ends the association.
#[test]
fn a_silence_has_an_end() {
    let changes = [("rto_min", "200ms"), ("rto_initial", "200ms"), ("assoc_silence", "20s")];
    let (closed, came) = cut(&changes);
    let (after, reason) = closed.expect("given up");
    assert_eq!((reason, came), (CloseReason::Unreachable, false));
    assert!(after > 20_000 && after < 30_000, "{after} ms");
}
