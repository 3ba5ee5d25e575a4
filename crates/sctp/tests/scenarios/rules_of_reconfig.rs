//! Rules of RFC 6525 §5 that no other scenario checks (`conformance/rules/rfc6525-5.toml`).

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_sctp::{Direction, Event};
use anabranch_wire::sctp::*;
use expect_test::expect;

const ON: &[(&str, &str)] = &[("reconfig", "yes"), ("num_ostreams", "4")];

/// Sets up an association in which B grants only the RE-CONFIG requests that `granted` lists. Each side has sent one
/// message on stream 1.
fn asking(granted: &'static str) -> Script {
    let limited = configured(&[ON, &[("reconfig_requests", granted)]].concat());
    let mut script = Script::with(configured(ON), limited, &[25]);
    script.associate().run(1_000);
    script.send(A, 1, 8).send(B, 1, 8).run(1_000);
    script.forget();
    script
}

/// RFC 6525 §5.2.1, §6.3.1: a request that the application does not grant is answered "Denied", and nothing changes.
#[test]
fn what_is_not_granted_is_denied() {
    let mut script = asking("none");
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.run(500).reset(A, Direction::Incoming, &[1]).expect("taken");
    script.run(500).add_streams(A, 1, 0).expect("taken");
    script.run(500).add_streams(A, 0, 1).expect("taken");
    script.run(500).reset_association(A).expect("taken");
    script.run(500).send(A, 1, 10).send(B, 1, 10).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=1 sid=1)
        2.025  A ◄── B   RE-CONFIG response(#1 denied); SACK cum=1 rwnd=64k
        2.050          A: streams not reset: Outgoing [1]: Denied
        2.500  A ──► B   RE-CONFIG reset-in(#2 sid=1)
        2.525  A ◄── B   RE-CONFIG response(#2 denied); SACK cum=1 rwnd=64k
        2.550          A: streams not reset: Incoming [1]: Denied
        3.000  A ──► B   RE-CONFIG add-out(#3 +1)
        3.025  A ◄── B   RE-CONFIG response(#3 denied); SACK cum=1 rwnd=64k
        3.050          A: streams not added: 1 out, 0 in: Denied
        3.500  A ──► B   RE-CONFIG add-in(#4 +1)
        3.525  A ◄── B   RE-CONFIG response(#4 denied); SACK cum=1 rwnd=64k
        3.550          A: streams not added: 0 out, 1 in: Denied
        4.000  A ──► B   RE-CONFIG reset-tsn(#5)
        4.025  A ◄── B   RE-CONFIG response(#5 denied) next=2/2; SACK cum=1 rwnd=64k
        4.050          A: association not reset: Denied
        4.500  A ──► B   DATA          tsn=2 sid=1 ssn=1 len=10 BE
        4.500  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=10 BE
        4.525          B: received sid=1 len=10
        4.525          A: received sid=1 len=10
        4.725  A ──► B   SACK          cum=2 rwnd=64k
        4.725  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 6525 §6.3.1: each kind of request is granted separately.
#[test]
fn each_kind_is_granted_for_itself() {
    for granted in ["streams", "association", "change"] {
        let mut script = asking(granted);
        script.reset(A, Direction::Outgoing, &[1]).expect("taken");
        script.run(500).add_streams(A, 1, 0).expect("taken");
        script.run(500).reset_association(A).expect("taken");
        script.run(500);
        let events = &script.net.ends[0].events;
        let reset = events.iter().any(|event| matches!(event, Event::StreamsReset { .. }));
        let added = events.iter().any(|event| matches!(event, Event::StreamsAdded { .. }));
        let renumbered = events.iter().any(|event| matches!(event, Event::AssociationReset { .. }));
        assert_eq!(
            (reset, renumbered, added),
            (granted == "streams", granted == "association", granted == "change")
        );
        script.forget();
    }
}

/// RFC 6525 §5.2.2 E1, §5.2.6: B denies every request that A makes on its own initiative. But B itself has asked for a
/// reset and for more streams. A carries these out by requests of its own, and B grants such requests.
#[test]
fn what_was_asked_for_is_granted() {
    let mut script = asking("none");
    script.reset(B, Direction::Incoming, &[1]).expect("taken");
    script.run(500).add_streams(B, 0, 2).expect("taken");
    script.run(500).send(A, 1, 10).send(A, 5, 10).run(1_000);
    script.check(expect![[r#"
        2.000  A ◄── B   RE-CONFIG reset-in(#1 sid=1)
        2.025  A ──► B   RE-CONFIG reset-out(#1 re=#1 last=1 sid=1); SACK cum=1 rwnd=64k
        2.050          B: streams reset: Incoming [1]
        2.050  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=1 rwnd=64k
        2.075          A: streams reset: Outgoing [1]
        2.500  A ◄── B   RE-CONFIG add-in(#2 +2)
        2.525  A ──► B   RE-CONFIG add-out(#2 +2); SACK cum=1 rwnd=64k
        2.550          B: streams added: 0 out, 2 in
        2.550  A ◄── B   RE-CONFIG response(#2 performed); SACK cum=1 rwnd=64k
        2.575          A: streams added: 2 out, 0 in
        3.000  A ──► B   DATA          tsn=2 sid=1 ssn=0 len=10 BE; DATA tsn=3 sid=5 ssn=0 len=10 BE
        3.025          B: received sid=1 len=10
        3.025          B: received sid=5 len=10
        3.225  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.7 H2: after the answer "In progress", the request is repeated, and no error is counted. §5.1.1: a
/// missing answer counts as an error.
#[test]
fn patience_is_no_error() {
    let mut script =
        Script::established(&[ON, &[("assoc_max_retrans", "2"), ("path_max_retrans", "9")]].concat());
    script.lose_times(A, "RE-CONFIG", 99);
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    let tag = script.tag(A);
    let request = script.net.ladder.numbers().first(A).expect("a TSN");
    for _ in 0..12 {
        script.run(900).inject(B, tag, |b| {
            ReConfig::write(b, &[ReConfigParam::Response { response: request, result: 6, next: None }]);
        });
    }
    let info = script.net.ends[0].engine.info(script.id(A)).expect("it lives");
    assert_eq!(info.paths[0].errors, 0);
    script.run(60_000);
    assert_eq!(script.net.ends[0].engine.info(script.id(A)), None, "nobody answers any more");
    script.forget();
}

/// RFC 6525 §5.1.2 A1, §5.2.7 H3: while a reset request is outstanding, no new message is sent on its stream. If the
/// request is denied, the SSNs continue.
#[test]
fn a_denied_stream_goes_on() {
    let mut script = asking("change");
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.run(10).send(A, 1, 10).send(A, 2, 10).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=1 sid=1)
        2.010  A ──► B   DATA          tsn=2 sid=2 ssn=0 len=10 BE
        2.025  A ◄── B   RE-CONFIG response(#1 denied); SACK cum=1 rwnd=64k
        2.035          B: received sid=2 len=10
        2.050          A: streams not reset: Outgoing [1]: Denied
        2.050  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=10 BE
        2.075          B: received sid=1 len=10
        2.075  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}
