//! Acknowledgements that cannot be revoked: NR-SACK (draft-natarajan-tsvwg-sctp-nrsack).

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_sctp::{Event, Message, Reliability};
use anabranch_wire::sctp::{GapBlock, NrSack, Sack, Tsn};
use expect_test::expect;

const ON: &[(&str, &str)] = &[("nr_sack", "yes"), ("iw", "10"), ("max_burst", "0")];

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [ON, more].concat()
}

fn buffered(script: &Script) -> u64 {
    script.net.ends[0].engine.info(script.id(A)).expect("there").buffered
}

/// If both sides announce NR-SACK in INIT and INIT ACK, both send only NR-SACKs. Otherwise both send SACKs.
#[test]
fn it_is_agreed_on() {
    for peer in ["yes", "no"] {
        let mut script = Script::with(configured(ON), configured(&[("nr_sack", peer)]), &[25]);
        script.associate().send(A, 0, 100).run(1_000).send(B, 0, 100).run(1_000);
        let drawn = if peer == "yes" {
            expect![[r#"
            0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=16 families=v4
            0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie extensions=16
            0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
            0.075          B: accepted, 10 streams out, 10 in
            0.075          B: received sid=0 len=100
            0.075  A ◄── B   COOKIE ACK; NR-SACK cum=1 rwnd=64k
            0.100          A: established, 10 streams out, 10 in
            1.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
            1.025          A: received sid=0 len=100
            1.025  A ──► B   NR-SACK       cum=1 rwnd=64k
        "#]]
        } else {
            expect![[r#"
            0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=16 families=v4
            0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
            0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
            0.075          B: accepted, 10 streams out, 10 in
            0.075          B: received sid=0 len=100
            0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
            0.100          A: established, 10 streams out, 10 in
            1.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
            1.025          A: received sid=0 len=100
            1.025  A ──► B   SACK          cum=1 rwnd=64k
        "#]]
        };
        script.check(drawn);
        let info = script.net.ends[0].engine.info(script.id(A)).expect("there");
        assert_eq!(info.extensions.nr_sack, peer == "yes");
    }
}

/// Data that has arrived after a gap is removed from the send buffer at once. The order in which chunks arrive does not
/// matter.
#[test]
fn what_has_arrived_leaves_the_send_buffer() {
    for (knob, kept) in [("yes", 1_452), ("no", 4 * 1_452)] {
        let mut script = Script::warm(&with(&[("nr_sack", knob)]));
        script.lose(A, "DATA tsn=3 ");
        for stream in [0, 0, 1, 0, 1] {
            script.send(A, stream, 1_452);
        }
        script.run(60);
        assert_eq!(buffered(&script), kept, "nr_sack={knob}");
        script.run(5_000);
        assert_eq!(buffered(&script), 0);
        script.check(if knob == "yes" {
            expect![[r#"
            2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE
            2.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE     ✗ lost
            2.000  A ──► B   DATA          tsn=4 sid=1 ssn=0 len=1452 BE
            2.000  A ──► B   DATA          tsn=5 sid=0 ssn=3 len=1452 BE
            2.000  A ──► B   DATA          tsn=6 sid=1 ssn=1 len=1452 BE
            2.025          B: received sid=0 len=1452
            2.025          B: received sid=1 len=1452
            2.025  A ◄── B   NR-SACK       cum=2 rwnd=64k nr-gaps=4
            2.025  A ◄── B   NR-SACK       cum=2 rwnd=64084 nr-gaps=4-5
            2.025          B: received sid=1 len=1452
            2.025  A ◄── B   NR-SACK       cum=2 rwnd=64084 nr-gaps=4-6
            2.050  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE
            2.075          B: received sid=0 len=1452
            2.075          B: received sid=0 len=1452
            2.075  A ◄── B   NR-SACK       cum=6 rwnd=64k
        "#]]
        } else {
            expect![[r#"
            2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE
            2.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE     ✗ lost
            2.000  A ──► B   DATA          tsn=4 sid=1 ssn=0 len=1452 BE
            2.000  A ──► B   DATA          tsn=5 sid=0 ssn=3 len=1452 BE
            2.000  A ──► B   DATA          tsn=6 sid=1 ssn=1 len=1452 BE
            2.025          B: received sid=0 len=1452
            2.025          B: received sid=1 len=1452
            2.025  A ◄── B   SACK          cum=2 rwnd=64k gaps=4
            2.025  A ◄── B   SACK          cum=2 rwnd=64084 gaps=4-5
            2.025          B: received sid=1 len=1452
            2.025  A ◄── B   SACK          cum=2 rwnd=64084 gaps=4-6
            2.050  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE
            2.075          B: received sid=0 len=1452
            2.075          B: received sid=0 len=1452
            2.075  A ◄── B   SACK          cum=6 rwnd=64k
        "#]]
        });
    }
}

/// A message has five chunks, of which NR-SACKs have freed three. The other two chunks are retransmitted, or the whole
/// message is abandoned.
#[test]
fn the_rest_of_a_message_stays() {
    for cancelled in [false, true] {
        let mut script = Script::warm(&with(&[("partial_reliability", "yes")]));
        script.app(B).peer_cancels = cancelled;
        script.lose(A, "DATA tsn=2 ").lose(A, "DATA tsn=4 ");
        script.send(A, 0, 5 * 1_452).run(55);
        assert_eq!(buffered(&script), 2 * 1_452, "two are missing");
        if cancelled {
            let (id, now) = (script.id(A), script.net.now);
            script.net.end(A).engine.cancel(now, id, 0);
            assert_eq!(buffered(&script), 0);
        }
        script.run(5_000).send(A, 0, 30).run(1_000);
        assert_eq!(buffered(&script), 0);
        script.check(if cancelled {
            expect![[r#"
                2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B     ✗ lost
                2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452
                2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1452     ✗ lost
                2.000  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=1452
                2.000  A ──► B   DATA          tsn=6 sid=0 ssn=1 len=1452 E
                2.025  A ◄── B   NR-SACK       cum=1 rwnd=64084 nr-gaps=3
                2.025  A ◄── B   NR-SACK       cum=1 rwnd=62632 nr-gaps=3,5
                2.025  A ◄── B   NR-SACK       cum=1 rwnd=61180 nr-gaps=3,5-6
                2.050  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B
                2.055          A: gave up sid=0 len=7260 context=3, sent, by Cancelled
                2.055  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
                2.075  A ◄── B   NR-SACK       cum=3 rwnd=59728 nr-gaps=5-6
                2.080  A ◄── B   NR-SACK       cum=3 rwnd=59728 nr-gaps=5-6
                2.100  A ──► B   FORWARD TSN   cum=4 sid:ssn=0:1
                2.125  A ◄── B   NR-SACK       cum=6 rwnd=64k
                7.055  A ──► B   DATA          tsn=7 sid=0 ssn=2 len=30 BE
                7.080          B: received sid=0 len=30
                7.280  A ◄── B   NR-SACK       cum=7 rwnd=64k
            "#]]
        } else {
            expect![[r#"
            2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B     ✗ lost
            2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452
            2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1452     ✗ lost
            2.000  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=1452
            2.000  A ──► B   DATA          tsn=6 sid=0 ssn=1 len=1452 E
            2.025  A ◄── B   NR-SACK       cum=1 rwnd=64084 nr-gaps=3
            2.025  A ◄── B   NR-SACK       cum=1 rwnd=62632 nr-gaps=3,5
            2.025  A ◄── B   NR-SACK       cum=1 rwnd=61180 nr-gaps=3,5-6
            2.050  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B
            2.075  A ◄── B   NR-SACK       cum=3 rwnd=59728 nr-gaps=5-6
            2.100  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1452
            2.125          B: received sid=0 len=7260
            2.125  A ◄── B   NR-SACK       cum=6 rwnd=64k
            7.055  A ──► B   DATA          tsn=7 sid=0 ssn=2 len=30 BE
            7.080          B: received sid=0 len=30
            7.280  A ◄── B   NR-SACK       cum=7 rwnd=64k
        "#]]
        });
    }
}

/// B no longer reports chunks that it has reported in NR gap blocks before. A must not retransmit these chunks, because
/// A has already freed their data.
#[test]
fn nr_acknowledged_data_cannot_be_reneged() {
    let mut script = Script::warm(&with(&[("partial_reliability", "yes")]));
    let limited = Message { reliability: Reliability::Retransmissions(9), stream: 1, ..Message::default() };
    script.lose_times(A, "DATA tsn=2 ", 3).lose_times(B, "NR-SACK", 99);
    script.send(A, 0, 1_000).send(A, 0, 1_000).send_message(A, limited, 1_000).send(A, 0, 1_000).run(60);
    script.net.rules.retain(|rule| rule.pattern != "NR-SACK");
    let tag = script.tag(A);
    let cumulative = Tsn(script.net.ladder.numbers().first(A).expect("a TSN"));
    let nr_gaps = [GapBlock { start: 2, end: 3 }];
    let first = [GapBlock { start: 4, end: 4 }];
    script.inject(B, tag, |packet| {
        NrSack { cumulative, window: 60_000, gaps: &first, nr_gaps: &nr_gaps, duplicates: &[] }.emit(packet);
    });
    script.run(30);
    assert_eq!(buffered(&script), 2_000, "one is missing, one may be dropped");
    script.inject(B, tag, |packet| {
        let nr_gaps = [
            GapBlock { start: 3, end: 3 },
            GapBlock { start: 9, end: 60_000 },
            GapBlock { start: 0, end: 0 },
        ];
        NrSack { cumulative, window: 60_000, gaps: &[], nr_gaps: &nr_gaps, duplicates: &[] }.emit(packet);
        Sack { cumulative, window: 60_000, gaps: &[], duplicates: &[] }.emit(packet);
    });
    script.run(30);
    // RFC 9260 §6.2.1 D ii: A subtracts the bytes of all four chunks from the window that the SACK advertises. The SACK
    // does not report the two chunks that A has freed, so A subtracts their bytes too.
    let info = script.net.ends[0].engine.info(script.id(A)).expect("there");
    assert_eq!((info.peer_rwnd, info.outstanding), (60_000 - 4 * 1_000, 2_000));
    script.run(19_970);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1000 BE
        2.000  A ──► B   DATA          tsn=4 sid=1 ssn=0 len=1000 BE
        2.000  A ──► B   DATA          tsn=5 sid=0 ssn=3 len=1000 BE
        2.025  A ◄── B   NR-SACK       cum=1 rwnd=64536 nr-gaps=3     ✗ lost
        2.025          B: received sid=1 len=1000
        2.025  A ◄── B   NR-SACK       cum=1 rwnd=64536 nr-gaps=3-4     ✗ lost
        2.025  A ◄── B   NR-SACK       cum=1 rwnd=63536 nr-gaps=3-5     ✗ lost
        2.060  A ◄── B   NR-SACK       cum=1 rwnd=60000 gaps=5 nr-gaps=3-4     injected
        2.090  A ◄── B   NR-SACK       cum=1 rwnd=60000 nr-gaps=4,10-60001,1; SACK cum=1 rwnd=60000     injected
        3.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        5.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        9.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE
        9.025          B: received sid=0 len=1000
        9.025          B: received sid=0 len=1000
        9.025          B: received sid=0 len=1000
        9.025  A ◄── B   NR-SACK       cum=5 rwnd=64k
    "#]]);
}

/// If NR-SACK was not negotiated, an NR-SACK is an unknown chunk. Its type says that the rest of the packet must not be
/// processed (RFC 9260 §3.2).
#[test]
fn without_agreement_it_is_unknown() {
    let mut script = Script::warm(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(B, "SACK", 99).send(A, 0, 1_000).run(60);
    let tag = script.tag(A);
    let cumulative = Tsn(script.net.ladder.numbers().first(A).expect("a TSN")).plus(1);
    script.inject(B, tag, |packet| {
        NrSack { cumulative, window: 60_000, gaps: &[], nr_gaps: &[], duplicates: &[] }.emit(packet);
        Sack { cumulative, window: 60_000, gaps: &[], duplicates: &[] }.emit(packet);
    });
    script.run(30);
    assert_eq!(buffered(&script), 1_000);
    assert!(!script.net.ends[0].events.iter().any(|event| matches!(event, Event::Closed { .. })));
}
