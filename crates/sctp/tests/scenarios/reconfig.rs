//! Resetting and adding streams (RFC 6525).

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_sctp::{Direction, Message, ResetError};
use anabranch_wire::sctp::*;
use expect_test::expect;

const ON: &[(&str, &str)] = &[("reconfig", "yes"), ("num_ostreams", "4")];

/// Sets up an association with a message in each direction on stream 1, and a message from A on stream 2.
fn used() -> Script {
    let mut script = Script::established(ON);
    script.send(A, 1, 8).send(A, 2, 8).send(B, 1, 8).run(1_000);
    script.forget();
    script
}

/// Injects a RE-CONFIG chunk from A. `param` builds the parameters of this chunk from a request sequence number, which
/// is A's first number plus `skip`.
fn inject(script: &mut Script, skip: u32, param: impl Fn(u32) -> Vec<ReConfigParam<'static>>) {
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(B).expect("a tag"), numbers.first(A).expect("a TSN"));
    let params = param(first.wrapping_add(skip));
    script.inject(A, tag, |buffer| ReConfig::write(buffer, &params)).run(1_000);
}

/// RFC 6525 §5.1.2, §5.2.2: messages that were sent before the reset keep their SSNs. Messages queued during the reset
/// wait until it ends.
#[test]
fn outgoing_streams_are_reset() {
    let mut script = used();
    script.send(A, 1, 100);
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.send(A, 1, 200).send(A, 2, 300).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=100 BE; DATA tsn=4 sid=2 ssn=1 len=300 BE
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=4 sid=1)
        2.025          B: received sid=1 len=100
        2.025          B: received sid=2 len=300
        2.025          B: streams reset: Incoming [1]
        2.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=4 rwnd=64k
        2.050          A: streams reset: Outgoing [1]
        2.050  A ──► B   DATA          tsn=5 sid=1 ssn=0 len=200 BE
        2.075          B: received sid=1 len=200
        2.275  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
}

/// RFC 6525 §4.1: an empty list of streams means all streams.
#[test]
fn all_outgoing_streams_are_reset() {
    let mut script = used();
    script.reset(A, Direction::Outgoing, &[]).expect("taken");
    script.send(A, 1, 100).send(A, 2, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 all)
        2.025          B: streams reset: Incoming all
        2.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k
        2.050          A: streams reset: Outgoing all
        2.050  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=100 BE; DATA tsn=4 sid=2 ssn=0 len=100 BE
        2.075          B: received sid=1 len=100
        2.075          B: received sid=2 len=100
        2.275  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.3: the peer resets the requested streams by a request of its own.
#[test]
fn incoming_streams_are_reset() {
    let mut script = used();
    script.reset(A, Direction::Incoming, &[1]).expect("taken");
    script.send(B, 1, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-in(#1 sid=1)
        2.000  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=100 BE
        2.025  A ◄── B   RE-CONFIG reset-out(#1 re=#1 last=2 sid=1); SACK cum=2 rwnd=64k
        2.025          A: received sid=1 len=100
        2.050          A: streams reset: Incoming [1]
        2.050  A ──► B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k
        2.075          B: streams reset: Outgoing [1]
    "#]]);
}

/// RFC 6525 §3.1 (3): streams are reset in both directions, with one chunk from each side.
#[test]
fn both_ways() {
    let mut script = used();
    script.reset(A, Direction::Both, &[1]).expect("taken");
    script.run(1_000);
    script.send(A, 1, 100).send(B, 1, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1) reset-in(#2 sid=1)
        2.025          B: streams reset: Incoming [1]
        2.025  A ◄── B   RE-CONFIG response(#1 performed) reset-out(#1 re=#2 last=1 sid=1); SACK cum=2 rwnd=64k
        2.050          A: streams reset: Outgoing [1]
        2.050          A: streams reset: Incoming [1]
        2.050  A ──► B   RE-CONFIG response(#1 performed); SACK cum=1 rwnd=64k
        2.075          B: streams reset: Outgoing [1]
        3.000  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=100 BE
        3.000  A ◄── B   DATA          tsn=2 sid=1 ssn=0 len=100 BE
        3.025          B: received sid=1 len=100
        3.025          A: received sid=1 len=100
        3.225  A ──► B   SACK          cum=2 rwnd=64k
        3.225  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.3: the peer requests the reset of a stream on which no SSN was used. The answer is "Success - Nothing
/// to do".
#[test]
fn nothing_to_do() {
    let mut script = used();
    script.reset(A, Direction::Incoming, &[3]).expect("taken");
    script.run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-in(#1 sid=3)
        2.025  A ◄── B   RE-CONFIG response(#1 nothing-to-do); SACK cum=2 rwnd=64k
        2.050          A: streams reset: Incoming [3]
    "#]]);
}

/// RFC 6525 §5.2.2 E2: a reset waits until all data before it has arrived.
#[test]
fn deferred_until_everything_before_has_arrived() {
    let mut script = used();
    script.lose(A, "DATA tsn=3 ");
    script.send(A, 1, 100);
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.send(A, 1, 200).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=100 BE     ✗ lost
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=3 sid=1)
        2.025  A ◄── B   RE-CONFIG response(#1 in-progress); SACK cum=2 rwnd=64k
        3.000  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=100 BE
        3.025          B: received sid=1 len=100
        3.025          B: streams reset: Incoming [1]
        3.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=3 rwnd=64k
        3.050          A: streams reset: Outgoing [1]
        3.050  A ──► B   DATA          tsn=4 sid=1 ssn=0 len=200 BE
        3.075          B: received sid=1 len=200
        3.275  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.1.1: a lost request is retransmitted with the same request number.
#[test]
fn a_lost_request() {
    let mut script = used();
    script.lose_times(A, "reset-out", 2);
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.send(A, 1, 100).run(8_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1)     ✗ lost
        3.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1)     ✗ lost
        5.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1)
        5.025          B: streams reset: Incoming [1]
        5.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k
        5.050          A: streams reset: Outgoing [1]
        5.050  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=100 BE
        5.075          B: received sid=1 len=100
        5.275  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.1: if a response is lost, the request is repeated. The repeated request gets the same response, and
/// the reset is executed only once.
#[test]
fn a_lost_response() {
    let mut script = used();
    script.lose(B, "response");
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.send(A, 1, 100).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1)
        2.025          B: streams reset: Incoming [1]
        2.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k     ✗ lost
        3.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1)
        3.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k
        3.050          A: streams reset: Outgoing [1]
        3.050  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=100 BE
        3.075          B: received sid=1 len=100
        3.275  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.1.1: a request that is never answered counts as an error, as unacknowledged DATA does.
#[test]
fn a_peer_that_does_not_answer() {
    let mut script = Script::established(&[("reconfig", "yes"), ("assoc_max_retrans", "2")]);
    script.lose_times(A, "reset-out", 9);
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.run(20_000);
    script.check(expect![[r#"
        1.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=0 sid=1)     ✗ lost
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=0 sid=1)     ✗ lost
        4.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=0 sid=1)     ✗ lost
        8.000          A: closed: Unreachable
    "#]]);
}

/// RFC 6525 §5.2.3: both sides request a reset of a stream in both directions at the same time. Each direction is reset
/// once.
#[test]
fn both_sides_at_once() {
    let mut script = used();
    script.reset(A, Direction::Both, &[1]).expect("taken");
    script.reset(B, Direction::Both, &[1]).expect("taken");
    script.run(2_000);
    script.send(A, 1, 100).send(B, 1, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1) reset-in(#2 sid=1)
        2.000  A ◄── B   RE-CONFIG reset-out(#1 re=#0 last=1 sid=1) reset-in(#2 sid=1)
        2.025          B: streams reset: Incoming [1]
        2.025  A ◄── B   RE-CONFIG response(#1 performed) response(#2 nothing-to-do); SACK cum=2 rwnd=64k
        2.025          A: streams reset: Incoming [1]
        2.025  A ──► B   RE-CONFIG response(#1 performed) response(#2 nothing-to-do); SACK cum=1 rwnd=64k
        2.050          A: streams reset: Outgoing [1]
        2.050          B: streams reset: Outgoing [1]
        4.000  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=100 BE
        4.000  A ◄── B   DATA          tsn=2 sid=1 ssn=0 len=100 BE
        4.025          B: received sid=1 len=100
        4.025          A: received sid=1 len=100
        4.225  A ──► B   SACK          cum=2 rwnd=64k
        4.225  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.3: A requests a reset of two streams while B's own reset of one of them is outstanding. B resets both
/// streams once its own request is answered.
#[test]
fn overlapping_wishes() {
    let mut script = used();
    script.send(B, 2, 8).run(1_000).forget();
    script.reset(A, Direction::Incoming, &[1, 2]).expect("taken");
    script.reset(B, Direction::Outgoing, &[2]).expect("taken");
    script.run(4_000);
    script.send(B, 1, 100).send(B, 2, 100).run(1_000);
    script.check(expect![[r#"
        3.000  A ──► B   RE-CONFIG reset-in(#1 sid=1,2)
        3.000  A ◄── B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=2)
        3.025  A ◄── B   RE-CONFIG response(#1 in-progress); SACK cum=2 rwnd=64k
        3.025          A: streams reset: Incoming [2]
        3.025  A ──► B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k
        3.050          B: streams reset: Outgoing [2]
        3.050  A ◄── B   RE-CONFIG reset-out(#2 re=#1 last=2 sid=1,2)
        3.075          A: streams reset: Incoming [1, 2]
        3.075  A ──► B   RE-CONFIG response(#2 performed); SACK cum=2 rwnd=64k
        3.100          B: streams reset: Outgoing [1, 2]
        7.000  A ◄── B   DATA          tsn=3 sid=1 ssn=0 len=100 BE; DATA tsn=4 sid=2 ssn=0 len=100 BE
        7.025          A: received sid=1 len=100
        7.025          A: received sid=2 len=100
        7.225  A ──► B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.1.4, §5.2.4: the TSNs and SSNs of both sides are reset.
#[test]
fn the_association_is_reset() {
    let mut script = used();
    script.send(A, 1, 100);
    script.reset_association(A).expect("taken");
    assert_eq!(script.reset_association(A), Err(ResetError::Busy));
    script.send(A, 1, 200).run(1_000).send(B, 1, 300).send(A, 2, 400).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=100 BE
        2.025          B: received sid=1 len=100
        2.225  A ◄── B   SACK          cum=3 rwnd=64k
        2.250  A ──► B   RE-CONFIG reset-tsn(#1)
        2.275          B: association reset
        2.275  A ◄── B   RE-CONFIG response(#1 performed) next=2/-2147483644; SACK cum=-2147483645 rwnd=64k
        2.300          A: association reset
        2.300  A ──► B   DATA          tsn=-2147483644 sid=1 ssn=0 len=200 BE
        2.325          B: received sid=1 len=200
        2.525  A ◄── B   SACK          cum=-2147483644 rwnd=64k
        3.000  A ──► B   DATA          tsn=-2147483643 sid=2 ssn=0 len=400 BE
        3.000  A ◄── B   DATA          tsn=2 sid=1 ssn=0 len=300 BE
        3.025          B: received sid=2 len=400
        3.025          A: received sid=1 len=300
        3.225  A ──► B   SACK          cum=2 rwnd=64k
        3.225  A ◄── B   SACK          cum=-2147483643 rwnd=64k
    "#]]);
    // RFC 6525 §5.1.4: a second reset of the association within 30 s is refused.
    assert_eq!(script.reset_association(A), Err(ResetError::Busy));
    script.run(30_000);
    script.forget();
    script.reset_association(B).expect("taken");
    script.run(1_000).send(A, 1, 10).send(B, 1, 10).run(1_000);
    script.check(expect![[r#"
        34.000  A ◄── B   RE-CONFIG reset-tsn(#1)
        34.025          A: association reset
        34.025  A ──► B   RE-CONFIG response(#1 performed) next=-2147483642/-2147483645; SACK cum=-2147483646 rwnd=64k
        34.050          B: association reset
        35.000  A ──► B   DATA          tsn=-2147483642 sid=1 ssn=0 len=10 BE
        35.000  A ◄── B   DATA          tsn=-2147483645 sid=1 ssn=0 len=10 BE
        35.025          B: received sid=1 len=10
        35.025          A: received sid=1 len=10
        35.225  A ──► B   SACK          cum=-2147483645 rwnd=64k
        35.225  A ◄── B   SACK          cum=-2147483642 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.4: while this side has data outstanding, the peer's request to reset the TSNs is denied. Otherwise
/// that data would count as delivered.
#[test]
fn the_association_is_not_reset_over_data() {
    let mut script = used();
    script.send(B, 1, 100);
    script.reset_association(A).expect("taken");
    script.send(A, 1, 100).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-tsn(#1)
        2.000  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=100 BE
        2.025  A ◄── B   RE-CONFIG response(#1 denied) next=3/3; SACK cum=2 rwnd=64k
        2.025  A ──► B   SACK          cum=1 rwnd=64k
        2.050          A: association not reset: Denied
        2.050  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=100 BE
        2.075          B: received sid=1 len=100
        2.275  A ◄── B   SACK          cum=3 rwnd=64k
        3.000  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=100 BE
        3.025          A: received sid=1 len=100
        3.225  A ──► B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.1.7: the answer to a TSN reset is lost, and the peer sends DATA with its new TSNs. Side A does not
/// accept this DATA until it has the answer to its repeated request.
#[test]
fn renumbered_and_the_answer_lost() {
    let mut script = used();
    script.lose(B, "response");
    script.reset_association(A).expect("taken");
    script.run(30).send(B, 1, 100).run(4_000).send(A, 1, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-tsn(#1)
        2.025          B: association reset
        2.025  A ◄── B   RE-CONFIG response(#1 performed) next=2/-2147483645; SACK cum=-2147483646 rwnd=64k     ✗ lost
        2.030  A ◄── B   DATA          tsn=2 sid=1 ssn=0 len=100 BE
        2.055  A ──► B   RE-CONFIG reset-tsn(#1); SACK cum=1 rwnd=64k
        2.080  A ◄── B   RE-CONFIG response(#1 performed) next=2/-2147483645; SACK cum=-2147483646 rwnd=64k
        2.105          A: association reset
        3.030  A ◄── B   DATA          tsn=2 sid=1 ssn=0 len=100 BE
        3.055          A: received sid=1 len=100
        3.255  A ──► B   SACK          cum=2 rwnd=64k
        6.030  A ──► B   DATA          tsn=-2147483645 sid=1 ssn=0 len=100 BE
        6.055          B: received sid=1 len=100
        6.255  A ◄── B   SACK          cum=-2147483645 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.1.5, §5.1.6: streams are added in both directions.
#[test]
fn more_streams() {
    let mut script = used();
    script.add_streams(A, 2, 3).expect("taken");
    script.run(1_000);
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("it is up");
    assert_eq!((info.outbound_streams, info.inbound_streams), (6, 7));
    script.send(A, 5, 100).send(B, 6, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG add-out(#1 +2) add-in(#2 +3)
        2.025          B: streams added: 0 out, 2 in
        2.025  A ◄── B   RE-CONFIG response(#1 performed); RE-CONFIG add-out(#1 +3); SACK cum=2 rwnd=64k
        2.050          A: streams added: 2 out, 0 in
        2.050          A: streams added: 0 out, 3 in
        2.050  A ──► B   RE-CONFIG response(#1 performed); SACK cum=1 rwnd=64k
        2.075          B: streams added: 3 out, 0 in
        3.000  A ──► B   DATA          tsn=3 sid=5 ssn=0 len=100 BE
        3.000  A ◄── B   DATA          tsn=2 sid=6 ssn=0 len=100 BE
        3.025          B: received sid=5 len=100
        3.025          A: received sid=6 len=100
        3.225  A ──► B   SACK          cum=2 rwnd=64k
        3.225  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.5, §5.2.6: a request for more streams than the limit is denied.
#[test]
fn too_many_streams() {
    let on = configured(ON);
    let limited = configured(&[ON, &[("max_streams", "5")]].concat());
    let mut script = Script::with(on, limited, &[25]);
    script.associate().run(1_000).forget();
    script.add_streams(A, 2, 2).expect("taken");
    script.run(1_000);
    script.add_streams(A, 1, 0).expect("taken");
    script.run(1_000);
    assert_eq!(script.add_streams(A, 65_531, 0), Err(ResetError::TooManyStreams));
    assert_eq!(script.add_streams(A, 0, 0), Err(ResetError::TooManyStreams));
    script.check(expect![[r#"
        1.000  A ──► B   RE-CONFIG add-out(#1 +2) add-in(#2 +2)
        1.025  A ◄── B   RE-CONFIG response(#1 denied) response(#2 denied); SACK cum=0 rwnd=64k
        1.050          A: streams not added: 2 out, 0 in: Denied
        1.050          A: streams not added: 0 out, 2 in: Denied
        2.000  A ──► B   RE-CONFIG add-out(#3 +1)
        2.025          B: streams added: 0 out, 1 in
        2.025  A ◄── B   RE-CONFIG response(#3 performed); SACK cum=0 rwnd=64k
        2.050          A: streams added: 1 out, 0 in
    "#]]);
}

/// RFC 6525 §5.1.1: no request is sent to a peer that does not support RE-CONFIG, and a request from such a peer is not
/// answered.
#[test]
fn not_negotiated() {
    let mut script = Script::with(configured(ON), configured(&[("num_ostreams", "4")]), &[25]);
    script.associate().run(1_000).forget();
    assert_eq!(script.reset(A, Direction::Both, &[]), Err(ResetError::Unsupported));
    assert_eq!(script.add_streams(A, 1, 1), Err(ResetError::Unsupported));
    inject(&mut script, 0, |request| vec![ReConfigParam::ResetTsn { request }]);
    script.check(expect![[r#"
        1.000  A ──► B   RE-CONFIG reset-tsn(#1)     injected
    "#]]);
}

/// The engine refuses invalid requests of the application before it checks whether the peer supports stream resets.
#[test]
fn wishes_that_cannot_be() {
    let mut script = used();
    assert_eq!(script.reset(A, Direction::Outgoing, &[4]), Err(ResetError::NoSuchStream));
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    assert_eq!(script.reset(A, Direction::Outgoing, &[1, 2]), Err(ResetError::Busy));
    assert_eq!(script.reset_association(A), Err(ResetError::Busy));
    script.reset(A, Direction::Incoming, &[1]).expect("taken");
    assert_eq!(script.reset(A, Direction::Incoming, &[]), Err(ResetError::Busy));
    script.run(2_000).shutdown(A);
    assert_eq!(script.reset(A, Direction::Outgoing, &[1]), Err(ResetError::Closing));
    script.run(1_000);
    script.check_drawn(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1)
        2.025          B: streams reset: Incoming [1]
        2.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k
        2.050          A: streams reset: Outgoing [1]
        2.050  A ──► B   RE-CONFIG reset-in(#2 sid=1)
        2.075  A ◄── B   RE-CONFIG reset-out(#1 re=#2 last=1 sid=1); SACK cum=2 rwnd=64k
        2.100          A: streams reset: Incoming [1]
        2.100  A ──► B   RE-CONFIG response(#1 performed); SACK cum=1 rwnd=64k
        2.125          B: streams reset: Outgoing [1]
        4.000  A ──► B   SHUTDOWN      cum=1
        4.025          B: peer wants to shut down
        4.025  A ◄── B   SHUTDOWN ACK
        4.050          A: closed: Shutdown
        4.050  A ──► B   SHUTDOWN COMPLETE
        4.075          B: closed: Shutdown
    "#]]);
}

/// RFC 6525 §4.4: requests have wrong streams, wrong numbers, or parameters that must not be combined. Each of these
/// requests is denied or ignored, and changes nothing.
#[test]
fn hostile_requests() {
    let mut script = used();
    let streams = StreamList::new(&[0, 9]);
    let last = Tsn(0);
    inject(&mut script, 0, |request| {
        vec![ReConfigParam::ResetOutgoing { request, response: 0, last, streams }]
    });
    inject(&mut script, 1, |request| vec![ReConfigParam::ResetIncoming { request, streams }]);
    // A repeated request must get the same answer again. Requests with older or future numbers must be answered with an
    // error.
    inject(&mut script, 1, |request| vec![ReConfigParam::ResetIncoming { request, streams }]);
    inject(&mut script, 0, |request| vec![ReConfigParam::ResetTsn { request }]);
    inject(&mut script, 7, |request| vec![ReConfigParam::ResetTsn { request }]);
    inject(&mut script, 2, |request| vec![ReConfigParam::ResetTsn { request }; 2]);
    inject(&mut script, 2, |request| vec![ReConfigParam::AddOutgoing { request, streams: 65_532 }]);
    inject(&mut script, 3, |request| vec![ReConfigParam::AddOutgoing { request, streams: 0 }]);
    // A response that belongs to no request is ignored.
    inject(&mut script, 3, |response| vec![ReConfigParam::Response { response, result: 1, next: None }]);
    script.check(expect![[r#"
         2.000  A ──► B   RE-CONFIG reset-out(#1 re=#1789646930 last=-887563335 sid=9)     injected
         2.025  A ◄── B   RE-CONFIG response(#1 wrong-ssn); SACK cum=2 rwnd=64k
         3.000  A ──► B   RE-CONFIG reset-in(#2 sid=9)     injected
         3.025  A ◄── B   RE-CONFIG response(#2 wrong-ssn); SACK cum=2 rwnd=64k
         4.000  A ──► B   RE-CONFIG reset-in(#2 sid=9)     injected
         4.025  A ◄── B   RE-CONFIG response(#2 wrong-ssn); SACK cum=2 rwnd=64k
         5.000  A ──► B   RE-CONFIG reset-tsn(#1)     injected
         5.025  A ◄── B   RE-CONFIG response(#1 bad-sequence-number) next=2/3; SACK cum=2 rwnd=64k
         6.000  A ──► B   RE-CONFIG reset-tsn(#8)     injected
         6.025  A ◄── B   RE-CONFIG response(#8 bad-sequence-number) next=2/3; SACK cum=2 rwnd=64k
         7.000  A ──► B   RE-CONFIG reset-tsn(#3) reset-tsn(#3)     injected
         8.000  A ──► B   RE-CONFIG add-out(#3 +65532)     injected
         8.025  A ◄── B   RE-CONFIG response(#3 denied); SACK cum=2 rwnd=64k
         9.000  A ──► B   RE-CONFIG add-out(#4 +0)     injected
         9.025  A ◄── B   RE-CONFIG response(#4 nothing-to-do); SACK cum=2 rwnd=64k
        10.000  A ──► B   RE-CONFIG response(#-1617757027 performed)     injected
    "#]]);
}

/// RFC 6525 §5.2.2 E2: the last TSN before a stream reset never arrives, so the reset stays in progress. B accepts
/// neither another request from A nor later data on the streams to be reset.
#[test]
fn a_last_tsn_that_never_comes() {
    let mut script = used();
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(B).expect("a tag"), numbers.first(A).expect("a TSN"));
    let streams = StreamList::new(&[0, 1]);
    let last = Tsn(first.wrapping_add(2));
    for skip in 0..2 {
        inject(&mut script, skip, |request| {
            vec![ReConfigParam::ResetOutgoing { request, response: 0, last, streams }]
        });
    }
    let data =
        Data { tsn: last.next(), stream: 1, begin: true, end: true, payload: b"early", ..Data::default() };
    script.inject(A, tag, |b| data.emit(b)).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#1789646930 last=3 sid=1)     injected
        2.025  A ◄── B   RE-CONFIG response(#1 in-progress); SACK cum=2 rwnd=64k
        3.000  A ──► B   RE-CONFIG reset-out(#2 re=#1789646930 last=3 sid=1)     injected
        3.025  A ◄── B   RE-CONFIG response(#2 already-in-progress); SACK cum=2 rwnd=64k
        4.000  A ──► B   DATA          tsn=4 sid=1 ssn=0 len=5 BE     injected
        4.025  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §3.2: a chunk that is malformed for its type ends the association.
#[test]
fn malformed() {
    let mut script = used();
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    script.inject(A, tag, |b| b.extend_from_slice(&[130, 0, 0, 12, 0, 15, 0, 7, 1, 2, 3, 0])).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   (parameter or cause type 15 does not have the form of its type)     injected
        2.025          B: closed: PeerViolated("3.3: a chunk does not have the form of its type")
        2.025  A ◄── B   ABORT protocol-violation(3.3: a chunk does not have the form of its type)
        2.050          A: closed: Aborted(Some(13))
    "#]]);
}

/// A reset of thousands of streams needs several requests, one after the other.
#[test]
fn a_long_list() {
    let mut script = Script::established(&[("reconfig", "yes"), ("num_ostreams", "65535")]);
    let streams: Vec<u16> = (0..2_000).rev().collect();
    script.reset(A, Direction::Outgoing, &streams).expect("taken");
    script.send(A, 1_999, 8).send(A, 3_000, 8).run(3_000);
    script.check(expect![[r#"
        1.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=0 sid=0,1,2,3,4,5,6,7,… 714 in all)
        1.000  A ──► B   DATA          tsn=1 sid=3000 ssn=0 len=8 BE
        1.025          B: streams reset: Incoming [0, … 713], 714 in all
        1.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=0 rwnd=64k
        1.025          B: received sid=3000 len=8
        1.050          A: streams reset: Outgoing [0, … 713], 714 in all
        1.050  A ──► B   RE-CONFIG reset-out(#2 re=#0 last=1 sid=714,715,716,717,718,719,720,721,… 714 in all)
        1.075          B: streams reset: Incoming [714, … 1427], 714 in all
        1.075  A ◄── B   RE-CONFIG response(#2 performed); SACK cum=1 rwnd=64k
        1.100          A: streams reset: Outgoing [714, … 1427], 714 in all
        1.100  A ──► B   RE-CONFIG reset-out(#3 re=#0 last=1 sid=1428,1429,1430,1431,1432,1433,1434,1435,… 572 in all)
        1.125          B: streams reset: Incoming [1428, … 1999], 572 in all
        1.125  A ◄── B   RE-CONFIG response(#3 performed); SACK cum=1 rwnd=64k
        1.150          A: streams reset: Outgoing [1428, … 1999], 572 in all
        1.150  A ──► B   DATA          tsn=2 sid=1999 ssn=0 len=8 BE
        1.175          B: received sid=1999 len=8
        1.375  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// A peer sends a flood of requests. Each is answered, no state accumulates, and the association continues.
#[test]
fn a_flood_of_requests() {
    let mut script = used();
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(B).expect("a tag"), numbers.first(A).expect("a TSN"));
    script.net.draws_ladder = false;
    for n in 0..10_000 {
        let request = first.wrapping_add(n);
        let list: Vec<u8> = (0..700_u16).flat_map(|_| [0, (n % 4) as u8]).collect();
        let streams = StreamList::new(&list);
        let param = match n % 3 {
            0 => ReConfigParam::ResetOutgoing { request, response: 0, last: Tsn(first), streams },
            1 => ReConfigParam::ResetIncoming { request, streams },
            _ => ReConfigParam::AddIncoming { request, streams: 3 },
        };
        script.inject(A, tag, |buffer| ReConfig::write(buffer, &[param]));
    }
    script.run(20_000);
    script.net.draws_ladder = true;
    script.forget();
    let message = Message { stream: 3, ..Message::default() };
    script.send_message(A, message, 10).send(B, 3, 10).run(1_000);
    script.check_drawn(expect![[r#"
        22.000  A ──► B   DATA          tsn=3 sid=3 ssn=0 len=10 BE
        22.000  A ◄── B   DATA          tsn=2 sid=3 ssn=0 len=10 BE
        22.025          B: received sid=3 len=10
        22.025          A: received sid=3 len=10
        22.225  A ──► B   SACK          cum=2 rwnd=64k
        22.225  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}
