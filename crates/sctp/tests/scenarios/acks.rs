//! The times at which a receiver sends acknowledgements, and their content (RFC 9260 §6.2, §6.7).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, RecvBatch};
use anabranch_sctp::testing::transmit_all_bytes;
use anabranch_sctp::{Config, Message};
use anabranch_wire::sctp::*;
use expect_test::expect;

/// RFC 9260 §6.2: a single packet is acknowledged after the delay of 200 ms.
#[test]
fn one_packet_waits() {
    let mut script = Script::warm(&[]);
    script.send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        2.025          B: received sid=0 len=100
        2.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.2: every second packet is acknowledged at once.
#[test]
fn every_second_packet() {
    let mut script = Script::warm(&[]);
    script.send(A, 0, 4_000).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452
        2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1096 E
        2.025  A ◄── B   SACK          cum=3 rwnd=62632
        2.025          B: received sid=0 len=4000
        2.225  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// With a delay of 0, a single packet is acknowledged at once.
#[test]
fn at_once() {
    let mut script = Script::warm(&[("delack", "0")]);
    script.send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        2.025          B: received sid=0 len=100
        2.025  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §11.1.13: the delay of acknowledgements is changed during an association. The next DATA is acknowledged
/// with the new delay.
#[test]
fn turned_off_and_on_again() {
    let mut script = Script::warm(&[]);
    for delay in [0, 100] {
        let (id, now) = (script.id(B), script.net.now);
        let tuned = |config: &mut Config| config.delack = Duration::from_millis(delay);
        assert!(script.net.end(B).engine.tune(now, id, tuned));
        script.send(A, 0, 100).run(1_000);
    }
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        2.025          B: received sid=0 len=100
        2.025  A ◄── B   SACK          cum=2 rwnd=64k
        3.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=100 BE
        3.025          B: received sid=0 len=100
        3.125  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 7053 §5.2: a single DATA chunk with the I bit is acknowledged at once.
#[test]
fn the_i_bit() {
    let mut script = Script::warm(&[]);
    script.send_message(A, Message { immediate: true, ..Message::default() }, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 IBE
        2.025          B: received sid=0 len=100
        2.025  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.2: B has data to send, so its SACK is bundled with that data and is not delayed.
#[test]
fn riding_with_data() {
    let mut script = Script::warm(&[]);
    script.send(A, 0, 100).run(50).send(B, 0, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        2.025          B: received sid=0 len=100
        2.050  A ◄── B   SACK          cum=2 rwnd=64k; DATA tsn=2 sid=0 ssn=1 len=100 BE
        2.075          A: received sid=0 len=100
        2.275  A ──► B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.7: while there is a gap, every packet is acknowledged at once.
#[test]
fn gaps() {
    let mut script = Script::warm(&[]);
    script.lose(A, "DATA tsn=3 ").send(A, 0, 5_600).run(2_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452     ✗ lost
        2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1452
        2.025  A ◄── B   SACK          cum=2 rwnd=62632 gaps=4
        2.050  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=1244 E
        2.075  A ◄── B   SACK          cum=2 rwnd=61388 gaps=4-5
        3.050  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452
        3.075          B: received sid=0 len=5600
        3.075  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.2: a duplicate chunk is answered at once by a SACK that reports the duplicate.
#[test]
fn duplicates() {
    let mut script = Script::warm(&[]);
    script.duplicate(A, "DATA tsn=2 ").send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     duplicated
        2.025          B: received sid=0 len=100
        2.026  A ◄── B   SACK          cum=2 rwnd=64k dups=2
    "#]]);
}

/// RFC 9260 §6.3.2: a SACK is lost, and the next SACK arrives. No chunk is retransmitted.
#[test]
fn a_lost_sack() {
    let mut script = Script::warm(&[]);
    script.lose(B, "SACK").send(A, 0, 5_600).run(2_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452
        2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1452
        2.025  A ◄── B   SACK          cum=3 rwnd=62632     ✗ lost
        2.225  A ◄── B   SACK          cum=4 rwnd=61180
        2.250  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=1244 E
        2.275          B: received sid=0 len=5600
        2.475  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.3.3: the only SACK is lost. T3-rtx expires, and the SACK for the retransmission reports a duplicate.
#[test]
fn the_only_sack_is_lost() {
    let mut script = Script::warm(&[]);
    script.lose(B, "SACK").send(A, 0, 100).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        2.025          B: received sid=0 len=100
        2.225  A ◄── B   SACK          cum=2 rwnd=64k     ✗ lost
        3.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        3.025  A ◄── B   SACK          cum=2 rwnd=64k dups=2
    "#]]);
}

/// RFC 9260 §6.2: DATA without user data is answered by ABORT.
#[test]
fn no_user_data() {
    let mut script = Script::established(&[]);
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(B).expect("a tag"), numbers.first(A).expect("a TSN"));
    let empty = Data { tsn: Tsn(first), begin: true, end: true, ..Data::default() };
    script.inject(A, tag, |b| empty.emit(b)).run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=0 BE     injected
        1.025          B: closed: PeerViolated("6.2: a DATA chunk without user data")
        1.025  A ◄── B   ABORT no-user-data(1)
        1.050          A: closed: Aborted(Some(9))
    "#]]);
}

/// RFC 9260 §6.2.1: a SACK for a TSN that was never sent is a protocol violation, and ends the association.
#[test]
fn a_sack_for_the_future() {
    let mut script = Script::established(&[]);
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(B).expect("a tag"), numbers.first(B).expect("a TSN"));
    let sack = Sack { cumulative: Tsn(first).plus(100), window: 9_000, gaps: &[], duplicates: &[] };
    script.inject(A, tag, |b| sack.emit(b)).run(1_000);
    script.check_drawn(expect![[r#"
           1.000  A ──► B   SACK          cum=101 rwnd=9000     injected
           1.025          B: closed: PeerViolated("6.2.1: a SACK acknowledges what was never sent")
           1.025  A ◄── B   ABORT protocol-violation(6.2.1: a SACK acknowledges what was never sent)
           1.050          A: closed: Aborted(Some(13))
    "#]]);
}

/// RFC 9260 §7.2.1: the window grows only if it was fully utilized. This is decided by the bytes in flight when the
/// host last had an opportunity to send. So a host that reads two SACKs at once grows its window as much as a host that
/// sends between the two SACKs. A host without more data does not grow its window for the second SACK.
#[test]
fn sacks_read_at_once_grow_the_window_as_one_by_one() {
    let grown = |bytes: usize, at_once: bool| {
        let mut script = Script::established(&[]);
        script.send(A, 0, bytes).run_to(1_040);
        let sacks: Vec<_> = script.net.in_flight.values().cloned().collect();
        assert_eq!(sacks.len(), 2, "a SACK of the first packet, and of the next two");
        script.net.in_flight.clear();
        let (id, now) = (script.id(A), Instant::from_millis(1_050));
        let engine = &mut script.net.end(A).engine;
        let mut batch = RecvBatch::new(2);
        for sack in &sacks {
            (batch.source, batch.target) = (sack.source, sack.target);
            batch.push(&sack.bytes);
            if !at_once {
                engine.handle_batch(now, &mut batch);
                batch.clear();
                transmit_all_bytes(engine, now);
            }
        }
        engine.handle_batch(now, &mut batch);
        engine.info(id).expect("it lives").paths[0].cwnd
    };
    assert_eq!(grown(20_000, false), 4_404 + 2 * 1_468);
    assert_eq!(grown(20_000, true), 4_404 + 2 * 1_468);
    assert_eq!(grown(3 * 1_452, true), 4_404 + 1_468, "nothing more to send");
}
