//! Messages that are abandoned (RFC 3758, RFC 7496). The loss of such a message must still reduce the window. The Nagle
//! algorithm and the shutdown of the association must not wait for abandoned data.

use crate::net::{A, B};
use crate::script::Script;
use anabranch_base::time::Duration;
use anabranch_sctp::{Message, Reliability};
use anabranch_wire::sctp::{ForwardTsn, GapBlock, Sack, Skipped, Ssn, Tsn};
use expect_test::expect;

const ON: &[(&str, &str)] = &[("partial_reliability", "yes"), ("iw", "10"), ("max_burst", "0")];

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [ON, more].concat()
}

fn lifetime(stream: u16, ms: u64) -> Message {
    let reliability = Reliability::Lifetime(Duration::from_millis(ms));
    Message { stream, reliability, ..Message::default() }
}

fn retransmissions(stream: u16, most: u32) -> Message {
    Message { stream, reliability: Reliability::Retransmissions(most), ..Message::default() }
}

fn cwnd(script: &Script) -> u64 {
    script.net.ends[0].engine.info(script.id(A)).expect("there").paths[0].cwnd
}

/// RFC 3758 §3.5 F5: a message that expires after the first miss indication still counts as lost. The window is
/// halved although no third miss indication comes.
#[test]
fn a_loss_of_fewer_than_three_reports_reduces_the_window() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").send_message(A, lifetime(0, 10), 1_000);
    script.send(A, 1, 1_000).run(5);
    let before = cwnd(&script);
    script.run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=1000 BE
        2.025          B: received sid=1 len=1000
        2.025  A ◄── B   SACK          cum=1 rwnd=64k gaps=3
        2.050          A: gave up sid=0 len=1000 context=3, sent, by Lifetime
        2.050  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        2.075  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
    assert_eq!((stats.fast_recoveries, stats.retransmitted_fast, stats.t3_expirations), (1, 0, 0));
    assert!(cwnd(&script) < before, "{} after {before}", cwnd(&script));
}

/// RFC 3758 §3.5 F5, RFC 9260 §7.2.4: a chunk that was abandoned in flight counts as lost at its third miss indication,
/// like any other chunk. The window is halved at the third miss indication and not earlier. The chunk is not
/// retransmitted.
#[test]
fn the_third_miss_of_an_abandoned_chunk_reduces_the_window() {
    let mut script = Script::warm(ON);
    script.lose_times(A, "", 99).send_message(A, retransmissions(0, 9), 1_000);
    for _ in 0..4 {
        script.send(A, 1, 1_000);
    }
    script.run(10);
    let (id, now, before) = (script.id(A), script.net.now, cwnd(&script));
    script.net.end(A).engine.cancel(now, id, 0);
    let (vtag, first) = (script.tag(A), script.net.ladder.numbers().first(A).expect("a TSN"));
    let reductions = [2, 3, 4, 5].map(|end| {
        let gaps = &[GapBlock { start: 2, end }];
        let sack = Sack { cumulative: Tsn(first), window: 60_000, gaps, duplicates: &[] };
        script.inject(B, vtag, |b| sack.emit(b)).run(30);
        let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
        (stats.fast_recoveries, cwnd(&script) < before)
    });
    assert_eq!(reductions, [(0, false), (0, false), (1, true), (1, true)]);
    let drawn = script.net.ladder.take();
    assert_eq!(drawn.matches("DATA          tsn=2 ").count(), 1, "{drawn}");
}

/// A message expires before any later chunk has arrived, so no SACK reports the message missing. The message must still
/// count as lost, because its chunks were sent more than a round trip and the longest SACK delay before it was
/// abandoned.
#[test]
fn a_loss_of_no_report_reduces_the_window() {
    let mut script = Script::warm(&with(&[("rcvbuf", "3000B"), ("rto_min", "5s")]));
    script.run(1_000);
    // The first chunks of the message are sent. The rest waits for the peer's window.
    script.lose_times(A, "DATA tsn=2 ", 1).lose_times(A, "DATA tsn=3 ", 1);
    script.send_message(A, lifetime(0, 900), 9_000).run(5);
    let before = cwnd(&script);
    script.run(3_000);
    script.check(expect![[r#"
        3.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B     ✗ lost
        3.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452     ✗ lost
        3.900          A: gave up sid=0 len=9000 context=3, sent, by Lifetime
        3.900  A ──► B   FORWARD TSN   cum=4 sid:ssn=0:1
        4.125  A ◄── B   SACK          cum=4 rwnd=3000
    "#]]);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
    assert_eq!((stats.fast_recoveries, stats.t3_expirations), (1, 0));
    assert!(cwnd(&script) < before, "{} after {before}", cwnd(&script));
}

/// A chunk that arrives although it was abandoned does not count as lost. The congestion window neither shrinks nor
/// grows (RFC 3758 §3.5 A2).
#[test]
fn an_abandoned_chunk_that_arrives_does_not_reduce_cwnd() {
    let mut script = Script::warm(ON);
    script.send(A, 7, 1_452);
    for _ in 0..3 {
        script.send_message(A, retransmissions(0, 9), 1_452);
    }
    script.run(10);
    let (id, now, before) = (script.id(A), script.net.now, cwnd(&script));
    script.net.end(A).engine.cancel(now, id, 0);
    script.run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=7 ssn=0 len=1452 BE
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452 BE
        2.000  A ──► B   DATA          tsn=4 sid=0 ssn=2 len=1452 BE
        2.000  A ──► B   DATA          tsn=5 sid=0 ssn=3 len=1452 BE
        2.010          A: gave up sid=0 len=1452 context=4, sent, by Cancelled
        2.010          A: gave up sid=0 len=1452 context=5, sent, by Cancelled
        2.010          A: gave up sid=0 len=1452 context=6, sent, by Cancelled
        2.025          B: received sid=7 len=1452
        2.025          B: received sid=0 len=1452
        2.025  A ◄── B   SACK          cum=3 rwnd=64k
        2.025          B: received sid=0 len=1452
        2.025          B: received sid=0 len=1452
        2.025  A ◄── B   SACK          cum=5 rwnd=64k
        2.050  A ──► B   FORWARD TSN   cum=5 sid:ssn=0:3
        2.075  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
    assert_eq!((stats.fast_recoveries, stats.t3_expirations), (0, 0));
    assert_eq!(cwnd(&script), before, "it was not used up");
}

/// RFC 3758 §3.6: a FORWARD TSN may skip more TSNs than a Gap Ack Block can report (RFC 9260 §3.3.4).
#[test]
fn a_forward_tsn_goes_as_far_as_it_says() {
    let mut script = Script::warm(ON);
    let (tag, first) = (script.tag(B), script.net.ladder.numbers().first(A).expect("a TSN"));
    // The test forges these FORWARD TSNs in A's name. The network drops the SACKs that answer them, because A has not
    // sent the acknowledged TSNs.
    script.lose_times(B, "SACK", 9);
    for far in [70_000, 1 << 30] {
        let skipped = [Skipped { stream: 3, ssn: Ssn(9) }];
        script.inject(A, tag, |packet| ForwardTsn::write(packet, Tsn(first).plus(far), skipped)).run(300);
    }
    script.check(expect![[r#"
        2.000  A ──► B   FORWARD TSN   cum=70001 sid:ssn=3:9     injected
        2.225  A ◄── B   SACK          cum=70001 rwnd=64k     ✗ lost
        2.300  A ──► B   FORWARD TSN   cum=1073741825 sid:ssn=3:9     injected
        2.525  A ◄── B   SACK          cum=1073741825 rwnd=64k     ✗ lost
    "#]]);
}

/// RFC 3758 §3.5 A2: abandoned data is not outstanding. So Nagle's algorithm does not hold back a small message because
/// of abandoned data.
#[test]
fn nagle_does_not_wait_for_what_was_given_up() {
    let mut script = Script::warm(&with(&[("nagle", "yes")]));
    script.lose(A, "DATA tsn=2 ").lose_times(A, "FORWARD TSN", 1);
    script.send_message(A, retransmissions(0, 0), 1_452).run(1_500).send(A, 1, 100).run(5_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE     ✗ lost
        3.000          A: gave up sid=0 len=1452 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
        3.500  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=100 BE
        3.525          B: received sid=1 len=100
        3.525  A ◄── B   SACK          cum=1 rwnd=64k gaps=3
        3.550  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        3.575  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 9260 §9.2, RFC 3758 §3.5 A2: if a FORWARD TSN is never answered, the shutdown does not wait for the answer
/// indefinitely.
#[test]
fn a_shutdown_does_not_depend_on_the_answer_to_a_forward_tsn() {
    for peer_first in [false, true] {
        let mut script = Script::warm(ON);
        script.lose(A, "DATA tsn=2 ").lose_times(A, "FORWARD TSN", 99);
        script.send_message(A, retransmissions(0, 0), 100);
        script.shutdown(if peer_first { B } else { A }).run(60_000);
        let drawn = if peer_first {
            expect![[r#"
                2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
                2.000  A ◄── B   SHUTDOWN      cum=1
                2.025          A: peer wants to shut down
                3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
                3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
                3.000  A ◄── B   SHUTDOWN      cum=1
                5.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
                5.000  A ◄── B   SHUTDOWN      cum=1
                9.000  A ──► B   SHUTDOWN ACK
                9.000  A ◄── B   SHUTDOWN      cum=1
                9.025          B: closed: Shutdown
                9.025  A ◄── B   SHUTDOWN COMPLETE
                9.025  A ──► B   SHUTDOWN ACK
                9.050          A: closed: Shutdown
                9.050  A ◄── B   SHUTDOWN COMPLETE T   vtag=B1
            "#]]
        } else {
            expect![[r#"
                2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 IBE     ✗ lost
                3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
                3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
                5.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
                9.000  A ──► B   SHUTDOWN      cum=1
                9.025          B: peer wants to shut down
                9.025  A ◄── B   SHUTDOWN ACK
                9.050          A: closed: Shutdown
                9.050  A ──► B   SHUTDOWN COMPLETE
                9.075          B: closed: Shutdown
            "#]]
        };
        script.check(drawn);
    }
}

/// Data that was abandoned before the shutdown is not outstanding, so it does not delay the shutdown.
#[test]
fn a_shutdown_of_what_was_given_up_before_begins_at_once() {
    for peer_first in [false, true] {
        let mut script = Script::warm(ON);
        script.lose(A, "DATA tsn=2 ").lose_times(A, "FORWARD TSN", 99);
        script.send_message(A, retransmissions(0, 0), 100).run(1_500);
        script.shutdown(if peer_first { B } else { A }).run(60_000);
        script.check(if peer_first {
            expect![[r#"
            2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
            3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
            3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
            3.500  A ◄── B   SHUTDOWN      cum=1
            3.525          A: peer wants to shut down
            3.525  A ──► B   SHUTDOWN ACK
            3.550          B: closed: Shutdown
            3.550  A ◄── B   SHUTDOWN COMPLETE
            3.575          A: closed: Shutdown
        "#]]
        } else {
            expect![[r#"
            2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
            3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
            3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
            3.500  A ──► B   SHUTDOWN      cum=1
            3.525          B: peer wants to shut down
            3.525  A ◄── B   SHUTDOWN ACK
            3.550          A: closed: Shutdown
            3.550  A ──► B   SHUTDOWN COMPLETE
            3.575          B: closed: Shutdown
        "#]]
        });
    }
}

/// A FORWARD TSN is lost, and T3-rtx retransmits it. The SHUTDOWN is sent only after a SACK has answered the FORWARD
/// TSN.
#[test]
fn a_shutdown_waits_for_a_second_forward_tsn() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").lose_times(A, "FORWARD TSN", 1);
    script.send_message(A, retransmissions(0, 0), 100).shutdown(A).run(20_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 IBE     ✗ lost
        3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
        5.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        5.225  A ◄── B   SACK          cum=2 rwnd=64k
        5.250  A ──► B   SHUTDOWN      cum=1
        5.275          B: peer wants to shut down
        5.275  A ◄── B   SHUTDOWN ACK
        5.300          A: closed: Shutdown
        5.300  A ──► B   SHUTDOWN COMPLETE
        5.325          B: closed: Shutdown
    "#]]);
}

/// The application shuts down while one message is abandoned and another message is lost repeatedly. No SHUTDOWN is
/// sent before the lost message is acknowledged.
#[test]
fn a_shutdown_waits_for_what_was_not_given_up() {
    let mut script = Script::warm(ON);
    script.lose_times(A, "DATA tsn=2 ", 4).lose_times(A, "FORWARD TSN", 4);
    script.send(A, 0, 100).send_message(A, retransmissions(1, 0), 100).shutdown(A).run(120_000);
    script.check(expect![[r#"
         2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE; DATA tsn=3 sid=1 ssn=0 len=100 IBE     ✗ lost
         3.000          A: gave up sid=1 len=100 context=4, sent, by Retransmissions
         3.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         5.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         9.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        17.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        17.025          B: received sid=0 len=100
        17.225  A ◄── B   SACK          cum=2 rwnd=64k
        17.250  A ──► B   FORWARD TSN   cum=3 sid:ssn=1:0     ✗ lost
        33.250  A ──► B   FORWARD TSN   cum=3 sid:ssn=1:0     ✗ lost
        65.250  A ──► B   SHUTDOWN      cum=1
        65.275          B: peer wants to shut down
        65.275  A ◄── B   SHUTDOWN ACK
        65.300          A: closed: Shutdown
        65.300  A ──► B   SHUTDOWN COMPLETE
        65.325          B: closed: Shutdown
    "#]]);
}
