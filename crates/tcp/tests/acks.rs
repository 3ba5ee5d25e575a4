//! The times at which a receiver sends acknowledgements (RFC 9293 §3.8.6.3, RFC 5681 §4.2).

use crate::common::*;
use expect_test::expect;
use std::time::Duration;

/// RFC 5681 §4.2: every second segment is acknowledged immediately, and a single segment after a delay.
#[test]
fn every_second_segment_or_after_the_delay() {
    let mut pair = opened(&plain_with(&[("delack", "100ms")]));
    check_on(
        "delayed acknowledgements",
        &mut pair,
        |pair| {
            pair.write(Left, &pattern(3000));
            pair.run_for(Duration::from_secs(1));
        },
        expect![[r#"
            scenario: delayed acknowledgements
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=2001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=3001 win=60000
        "#]],
    );
}

/// Like Linux, the receiver acknowledges the first segments of a connection immediately.
#[test]
fn the_first_segments_are_acknowledged_at_once() {
    let mut pair = opened(&plain_with(&[("delack", "40ms"), ("quickack", "3")]));
    check_on(
        "quick acknowledgements",
        &mut pair,
        |pair| {
            pair.write(Left, &pattern(4000));
            pair.settle();
            pair.write(Left, &pattern(1000));
            pair.run_for(Duration::from_secs(1));
        },
        expect![[r#"
            scenario: quick acknowledgements
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=3001 win=60000
               0.240  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.290  A ──► B   PSH ACK       seq=4001 len=1000 ack=1 win=60000
               0.380  A ◄── B   ACK           seq=1 ack=5001 win=60000
        "#]],
    );
}

/// RFC 5681 §4.2: a segment beyond a gap is acknowledged immediately, and so is the segment that fills the gap.
#[test]
fn holes_are_acknowledged_at_once() {
    let mut pair = opened(&plain_with(&[("delack", "100ms"), ("sack", "yes")]));
    check_on(
        "a hole and its filling",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[2], 1000);
            pair.write(Left, &pattern(4000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: a hole and its filling
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-4000
               1.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               1.300  A ◄── B   ACK           seq=1 ack=4001 win=60000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(4000));
}

/// Data that the receiver sends carries the acknowledgement, so no separate acknowledgement is sent.
#[test]
fn acknowledgements_ride_with_data() {
    let mut pair = opened(&plain_with(&[("delack", "100ms")]));
    check_on(
        "echo",
        &mut pair,
        |pair| {
            pair.write(Left, b"ping");
            pair.run_for(Duration::from_millis(80));
            pair.write(Right, b"pong");
            pair.run_for(Duration::from_secs(1));
        },
        expect![[r#"
            scenario: echo
               0.150  A ──► B   PSH ACK       seq=1 len=4 ack=1 win=60000
               0.230  A ◄── B   PSH ACK       seq=1 len=4 ack=5 win=59996
               0.380  A ──► B   ACK           seq=5 ack=5 win=59996
        "#]],
    );
}

/// RFC 2883 §4: a segment that arrives twice is reported in a SACK block.
#[test]
fn duplicates_are_reported_by_sack() {
    let mut pair = opened(&plain_with(&[("sack", "yes"), ("dsack", "yes")]));
    check_on(
        "duplicates",
        &mut pair,
        |pair| {
            pair.judge(|_, side, n, _| {
                if side == Left && n >= 3 {
                    anabranch_tcp::testing::Fate::Twice(Duration::from_millis(5))
                } else {
                    anabranch_tcp::testing::Fate::Arrive
                }
            });
            pair.write(Left, &pattern(2000));
            pair.settle();
        },
        expect![[r#"
            scenario: duplicates
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     again after 5ms
               0.150  A ──► B   PSH ACK       seq=1001 len=1000 ack=1 win=60000     again after 5ms
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.205  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=1-1000
               0.205  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=1001-2000
        "#]],
    );
}
