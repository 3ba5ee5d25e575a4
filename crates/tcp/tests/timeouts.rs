//! The retransmission timer (RFC 6298) and its effect on the window (RFC 5681 §3.1).

use crate::common::*;
use anabranch_tcp::testing::Fate;
use anabranch_tcp::{CloseReason, Event};
use expect_test::expect;
use std::time::Duration;

/// RFC 6298 §5.5: the RTO doubles with each timeout. RFC 5681 §3.1: after a timeout, the window is one segment, and
/// slow start begins.
#[test]
fn backing_off() {
    let mut pair = opened(&plain());
    check_on(
        "an outage of five seconds",
        &mut pair,
        |pair| {
            pair.judge(|now, _, _, _| if now < at(5_000) { Fate::Lose } else { Fate::Arrive });
            pair.write(Left, &pattern(4000));
            pair.run_for(Duration::from_secs(10));
        },
        expect![[r#"
            scenario: an outage of five seconds
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000     ✗ lost
               1.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     ✗ lost
               3.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     ✗ lost
               7.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               7.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               7.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               7.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               7.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               7.300  A ◄── B   ACK           seq=1 ack=3001 win=60000
               7.350  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000
               7.400  A ◄── B   ACK           seq=1 ack=4001 win=60000
        "#]],
    );
    assert_eq!(pair.stats(Left).timeouts, 3);
    assert_eq!(pair.received[1], pattern(4000));
}

/// RFC 6298 §3, Karn's algorithm: a retransmitted segment gives no RTT sample. The RTO remains doubled until a new
/// segment gives a sample.
#[test]
fn karn() {
    let mut pair = opened(&plain());
    let mut lost = 0;
    pair.judge(move |_, side, _, bytes| {
        if side == Left && bytes.len() > 20 && lost < 2 {
            lost += 1;
            return Fate::Lose;
        }
        Fate::Arrive
    });
    pair.write(Left, b"lost twice");
    pair.settle();
    pair.run_for(Duration::from_millis(3_300));
    assert_eq!(pair.received[1], b"lost twice");
    assert_eq!(pair.info(Left).rto, Duration::from_secs(4));
    pair.write(Left, b"measured");
    pair.settle();
    assert_eq!(pair.info(Left).rto, Duration::from_secs(1));
}

/// RFC 3522: the delay grows suddenly, which causes a spurious timeout. Timestamps reveal that it was spurious, and the
/// reduction is undone.
#[test]
fn a_needless_timeout_is_undone() {
    let config = plain_with(&[("timestamps", "yes"), ("undo", "yes"), ("iw", "4")]);
    let mut pair = opened(&config);
    check_on(
        "a spike of delay",
        &mut pair,
        |pair| {
            pair.judge(
                |now, _, _, _| {
                    if now < at(1_000) { Fate::Late(Duration::from_millis(980)) } else { Fate::Arrive }
                },
            );
            pair.write(Left, &pattern(4000));
            pair.run_for(Duration::from_secs(5));
        },
        expect![[r#"
            scenario: a spike of delay
               0.150  A ──► B   ACK           seq=1 len=988 ack=1 win=60000     late by 980ms
               0.150  A ──► B   ACK           seq=989 len=988 ack=1 win=60000     late by 980ms
               0.150  A ──► B   ACK           seq=1977 len=988 ack=1 win=60000     late by 980ms
               0.150  A ──► B   ACK           seq=2965 len=988 ack=1 win=60000     late by 980ms
               1.150  A ──► B   ACK           seq=1 len=988 ack=1 win=60000
               1.180  A ◄── B   ACK           seq=1 ack=989 win=59012
               1.180  A ◄── B   ACK           seq=1 ack=1977 win=60000
               1.180  A ◄── B   ACK           seq=1 ack=2965 win=59012
               1.180  A ◄── B   ACK           seq=1 ack=3953 win=60000
               1.200  A ◄── B   ACK           seq=1 ack=3953 win=60000
               1.230  A ──► B   PSH ACK       seq=3953 len=48 ack=1 win=60000
               1.280  A ◄── B   ACK           seq=1 ack=4001 win=59952
        "#]],
    );
    assert_eq!(pair.stats(Left).spurious, 1);
    assert!(pair.info(Left).cwnd >= 4000);
}

/// RFC 9293 §3.8.3, R2: after the configured number of retries, the connection ends.
#[test]
fn the_connection_ends_after_the_configured_retries() {
    let mut pair = opened(&plain_with(&[("retries", "3")]));
    check_on(
        "no way",
        &mut pair,
        |pair| {
            pair.judge(|_, _, _, _| Fate::Lose);
            pair.write(Left, b"hello?");
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: no way
               0.150  A ──► B   PSH ACK       seq=1 len=6 ack=1 win=60000     ✗ lost
               1.150  A ──► B   PSH ACK       seq=1 len=6 ack=1 win=60000     ✗ lost
               3.150  A ──► B   PSH ACK       seq=1 len=6 ack=1 win=60000     ✗ lost
               7.150  A ──► B   PSH ACK       seq=1 len=6 ack=1 win=60000     ✗ lost
              15.150  A closed: the connection timed out
        "#]],
    );
    assert!(matches!(
        pair.events.last(),
        Some((_, Left, Event::Closed { reason: CloseReason::TimedOut, .. }))
    ));
}

/// RFC 5681 §4.1: after an idle period of an RTO, the window is reduced to the initial window.
#[test]
fn idle_restart() {
    let mut pair = opened(&plain());
    pair.write(Left, &pattern(40_000));
    pair.settle();
    let grown = pair.info(Left).cwnd;
    assert!(grown > 20_000);
    pair.run_for(Duration::from_secs(5));
    pair.write(Left, b"again");
    assert_eq!(pair.info(Left).cwnd, 4000);
}

/// With `rto_var_min=200ms`, as in Linux, the RTO exceeds the round-trip time by at least 200 ms. A delayed
/// acknowledgement on a steady path therefore causes no timeout.
#[test]
fn the_variation_has_a_floor() {
    for (floor, timeouts) in [("0ms", 1), ("200ms", 0)] {
        let mut pair = opened(&with(&[
            ("rto_var_min", floor),
            ("tlp", "no"),
            ("delack", "150ms"),
            ("quickack", "100"),
            ("ack_push", "no"),
            ("tick", "1ms"),
        ]));
        for _ in 0..60 {
            pair.write(Left, b"request");
            pair.settle();
        }
        assert!(pair.info(Left).rto <= Duration::from_millis(301), "{:?}", pair.info(Left).rto);
        // The receiver acknowledges the first hundred segments immediately, so the sender measures a steady round trip.
        // The acknowledgement of the next segment is delayed by 150 ms.
        let before = pair.stats(Left).timeouts;
        assert_eq!(before, 0);
        for _ in 0..41 {
            pair.write(Left, b"request");
            pair.run_for(Duration::from_secs(1));
        }
        assert_eq!(pair.stats(Left).timeouts, timeouts, "floor {floor}");
    }
}
