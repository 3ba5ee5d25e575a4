//! What giving up must not change: congestion control, Nagle's rule, the end of an association (RFC 3758, RFC 7496).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_base::time::Duration;
use anabranch_sctp::{Message, Reliability};
use anabranch_wire::sctp::{ForwardTsn, Skipped, Ssn, Tsn};
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

/// RFC 3758 §3.6: a FORWARD TSN may skip more than a Gap Ack Block can tell of (RFC 9260 §3.3.4).
#[test]
fn a_forward_tsn_goes_as_far_as_it_says() {
    let mut script = Script::warm(ON);
    let (tag, first) = (script.tag(B), script.net.ladder.numbers().first(A).expect("a TSN"));
    // It was not A who said so.
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

/// RFC 3758 §3.5 A2: what was given up is not outstanding, so nothing holds a small message back.
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

