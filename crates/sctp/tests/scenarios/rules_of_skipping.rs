//! Rules of RFC 3758 §3 that no other scenario checks (`conformance/rules/rfc3758-3.toml`).

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_base::time::Duration;
use anabranch_sctp::{AssociationState, CloseReason, Event, Message, Reliability};
use anabranch_wire::sctp::*;
use expect_test::expect;

const ON: &[(&str, &str)] = &[("partial_reliability", "yes"), ("iw", "10"), ("max_burst", "0")];

fn lifetime(stream: u16, ms: u64) -> Message {
    let reliability = Reliability::Lifetime(Duration::from_millis(ms));
    Message { stream, reliability, ..Message::default() }
}

/// Sends an ERROR with `cause` from B to A.
fn error(script: &mut Script, cause: &Cause<'_>) {
    let tag = script.tag(A);
    script.inject(B, tag, |b| {
        let mut chunk = Error::default().open(b);
        cause.emit(&mut chunk);
        chunk.close();
    });
    script.run(100);
}

/// RFC 3758 §3.3.3: the peer reports the parameter or the chunk as unknown, so it does not support FORWARD TSN after
/// all. It must get no FORWARD TSN, and sent data must be retransmitted until it arrives.
#[test]
fn a_peer_that_reports_forward_tsn_as_unknown_receives_none() {
    for cause in
        [Cause::UnrecognizedParams(&[0xc0, 0, 0, 4]), Cause::UnrecognizedChunk(&[0xc0, 0, 0, 8, 0, 0, 0, 1])]
    {
        let mut script = Script::warm(ON);
        error(&mut script, &cause);
        let id = script.id(A);
        assert!(!script.net.end(A).engine.info(id).expect("it lives").extensions.partial_reliability);
        script.forget();
        script.lose(A, "DATA tsn=2 ").send_message(A, lifetime(0, 300), 100).run(4_000);
        script.check(expect![[r#"
            2.100  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
            3.100  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
            3.125          B: received sid=0 len=100
            3.325  A ◄── B   SACK          cum=2 rwnd=64k
        "#]]);
    }
    // An ERROR about any other parameter or chunk changes nothing.
    for cause in [Cause::UnrecognizedParams(&[0xc0, 6, 0, 4]), Cause::UnrecognizedChunk(&[0xc3, 0, 0, 4])] {
        let mut script = Script::warm(ON);
        error(&mut script, &cause);
        let id = script.id(A);
        assert!(script.net.end(A).engine.info(id).expect("it lives").extensions.partial_reliability);
        script.forget();
    }
}

/// RFC 3758 §3.3.3: a peer reports FORWARD TSN as unknown after a message has been abandoned. The association must end,
/// because the peer would wait for the message forever.
#[test]
fn what_was_given_up_cannot_be_skipped() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").lose_times(A, "FORWARD TSN", 99);
    script.send_message(A, lifetime(0, 300), 100).run(1_500);
    error(&mut script, &Cause::UnrecognizedChunk(&[0xc0, 0, 0, 8, 0, 0, 0, 1]));
    let closed = script.net.ends[0].events.iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(*reason),
        _ => None,
    });
    assert!(matches!(closed, Some(CloseReason::PeerIncompatible(_))), "{closed:?}");
    script.forget();
}

/// RFC 3758 §3.6: an outdated FORWARD TSN skips nothing, and is answered by a SACK at once. A new FORWARD TSN is
/// acknowledged like DATA: with the second packet, or after a delay.
#[test]
fn a_forward_tsn_is_acknowledged_as_data_is() {
    let mut script = Script::warm(ON);
    let (tag, first) = (script.tag(B), script.net.ladder.numbers().first(A).expect("a TSN"));
    let forward = |script: &mut Script, n: u32| {
        script.inject(A, tag, |b| ForwardTsn::write(b, Tsn(first.wrapping_add(n)), []));
    };
    // The test forges these FORWARD TSNs of A, so A must not receive the SACKs that answer them.
    script.lose_times(B, "SACK", 99);
    // These FORWARD TSNs are outdated: one is below the cumulative TSN, and one equals it.
    forward(&mut script, u32::MAX);
    script.run(300);
    forward(&mut script, 0);
    script.run(300);
    // One new FORWARD TSN is acknowledged after a delay.
    forward(&mut script, 1);
    script.run(300);
    // Two new FORWARD TSNs in a row are acknowledged immediately, with one SACK.
    forward(&mut script, 2);
    forward(&mut script, 3);
    script.run(300);
    script.check(expect![[r#"
        2.000  A ──► B   FORWARD TSN   cum=0     injected
        2.025  A ◄── B   SACK          cum=1 rwnd=64k     ✗ lost
        2.300  A ──► B   FORWARD TSN   cum=1     injected
        2.325  A ◄── B   SACK          cum=1 rwnd=64k     ✗ lost
        2.600  A ──► B   FORWARD TSN   cum=2     injected
        2.825  A ◄── B   SACK          cum=2 rwnd=64k     ✗ lost
        2.900  A ──► B   FORWARD TSN   cum=3     injected
        2.900  A ──► B   FORWARD TSN   cum=4     injected
        2.925  A ◄── B   SACK          cum=4 rwnd=64k     ✗ lost
    "#]]);
}

/// RFC 3758 §3.6: the cumulative TSN advances past the skipped TSNs, and past later TSNs that have arrived without a
/// gap.
#[test]
fn the_cumulative_tsn_moves_on_by_itself() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").lose(A, "DATA tsn=4 ");
    script.send_message(A, lifetime(1, 10), 1_452).send(A, 2, 1_452).send_message(A, lifetime(3, 10), 1_452);
    script.send(A, 2, 1_452).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=1 ssn=0 len=1452 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=3 sid=2 ssn=0 len=1452 BE
        2.000  A ──► B   DATA          tsn=4 sid=3 ssn=0 len=1452 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=5 sid=2 ssn=1 len=1452 BE
        2.025          B: received sid=2 len=1452
        2.025  A ◄── B   SACK          cum=1 rwnd=64k gaps=3
        2.025          B: received sid=2 len=1452
        2.025  A ◄── B   SACK          cum=1 rwnd=64k gaps=3,5
        2.050          A: gave up sid=1 len=1452 context=3, sent, by Lifetime
        2.050  A ──► B   FORWARD TSN   cum=2 sid:ssn=1:0
        2.050          A: gave up sid=3 len=1452 context=5, sent, by Lifetime
        2.075  A ◄── B   SACK          cum=3 rwnd=64k gaps=5
        2.100  A ──► B   FORWARD TSN   cum=4 sid:ssn=3:0
        2.125  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
}

/// RFC 3758 §3.3.2: no FORWARD TSN is sent to a peer whose INIT did not have the parameter, and no FORWARD TSN is
/// accepted from such a peer.
#[test]
fn only_one_side_supports_it() {
    let mut script = Script::with(configured(&[]), configured(ON), &[25]);
    script.associate().run(1_000).forget();
    let (tag, first) = (script.tag(B), script.net.ladder.numbers().first(A).expect("a TSN"));
    script.inject(A, tag, |b| ForwardTsn::write(b, Tsn(first), [])).run(100);
    script.lose(B, "DATA").send_message(B, lifetime(0, 100), 100).run(3_000);
    let info = script.net.ends[1].engine.info(script.id(B)).expect("it lives");
    assert_eq!((info.state, info.extensions.partial_reliability), (AssociationState::Established, false));
    script.check(expect![[r#"
        1.000  A ──► B   FORWARD TSN   cum=1     injected
        1.025  A ◄── B   ERROR unrecognized-chunk(192)
        1.100  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        2.100  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        2.125          A: received sid=0 len=100
        2.125  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}
