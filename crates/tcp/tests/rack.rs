//! Loss detection by time, and tail loss probes (RFC 8985).

use crate::common::*;
use anabranch_tcp::testing::{Fate, Pair};
use expect_test::expect;
use std::time::Duration;

/// Returns a pair with an open connection that detects losses by time.
fn timed(changes: &[(&str, &str)]) -> Pair {
    let mut config = plain_with(&[("sack", "yes"), ("recovery", "sack"), ("rack", "yes"), ("tlp", "yes")]);
    change(&mut config, changes);
    opened(&config)
}

/// RFC 8985 §7.3: the last segment is lost. A tail loss probe retransmits it after two round trips, long before the
/// RTO.
#[test]
fn the_probe_repairs_the_tail() {
    let mut pair = timed(&[]);
    check_on(
        "the probe repairs the tail",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[4], 1000);
            pair.write(Left, &pattern(4_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: the probe repairs the tail
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=3001 win=60000
               0.650  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000
               0.700  A ◄── B   ACK           seq=1 ack=4001 win=60000
        "#]],
    );
    let stats = pair.stats(Left);
    assert_eq!((stats.tail_probes, stats.timeouts), (1, 0));
    assert_eq!(pair.received[1], pattern(4_000));
}

/// RFC 8985 §7.3, §6.2: several segments at the end of a window are lost. A tail loss probe retransmits the last
/// segment. The acknowledgement of the probe shows that the other segments are lost.
#[test]
fn a_tail_loss_probe_reveals_further_losses() {
    let mut pair = timed(&[("iw", "8")]);
    check_on(
        "the probe betrays a longer tail",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[5, 6, 7, 8], 1000);
            pair.write(Left, &pattern(8_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: the probe betrays a longer tail
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   PSH ACK       seq=7001 len=1000 ack=1 win=60000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=3001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.450  A ──► B   PSH ACK       seq=7001 len=1000 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=4001 win=60000 sack=7001-8000
               0.550  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.550  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.600  A ◄── B   ACK           seq=1 ack=5001 win=60000 sack=7001-8000
               0.600  A ◄── B   ACK           seq=1 ack=6001 win=60000 sack=7001-8000
               0.650  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.700  A ◄── B   ACK           seq=1 ack=8001 win=60000
        "#]],
    );
    let stats = pair.stats(Left);
    assert_eq!((stats.tail_probes, stats.fast_recoveries, stats.timeouts), (1, 1, 0));
    assert_eq!(pair.received[1], pattern(8_000));
}

/// RFC 8985 §7.3: the tail loss probe is new data if the peer's window has room for new data. The congestion window is
/// ignored.
#[test]
fn new_data_is_the_better_probe() {
    let mut pair = timed(&[]);
    check_on(
        "new data is the better probe",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[1, 2, 3, 4], 1000);
            pair.write(Left, &pattern(5_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: new data is the better probe
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000     ✗ lost
               0.350  A ──► B   PSH ACK       seq=4001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=1 win=60000 sack=4001-5000
               0.450  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.450  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=4001-5000
               0.500  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=4001-5000
               0.550  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.550  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.600  A ◄── B   ACK           seq=1 ack=3001 win=60000 sack=4001-5000
               0.600  A ◄── B   ACK           seq=1 ack=5001 win=60000
        "#]],
    );
    let stats = pair.stats(Left);
    assert_eq!((stats.tail_probes, stats.timeouts), (1, 0));
    assert_eq!(pair.received[1], pattern(5_000));
}

/// RFC 8985 §6.2 step 4: a segment that is late by at most a quarter of the round trip does not count as lost.
#[test]
fn reordering_within_the_window_is_tolerated() {
    let mut pair = timed(&[]);
    check_on(
        "late, not lost",
        &mut pair,
        |pair| {
            pair.judge(|_, side, n, _| match (side, n) {
                (Left, 4) => Fate::Late(Duration::from_millis(20)),
                _ => Fate::Arrive,
            });
            pair.write(Left, &pattern(3_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: late, not lost
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     late by 20ms
               0.150  A ──► B   PSH ACK       seq=2001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.220  A ◄── B   ACK           seq=1 ack=3001 win=60000
        "#]],
    );
    let stats = pair.stats(Left);
    assert_eq!((stats.retransmitted_fast, stats.fast_recoveries, stats.timeouts), (0, 0, 0));
}

/// RFC 8985 §6.2 step 5: only two acknowledgements report a gap, which are too few for a fast retransmit. The
/// reordering timer detects the loss.
#[test]
fn the_reordering_timer_detects_a_loss_with_few_dupacks() {
    let mut pair = timed(&[]);
    check_on(
        "lost by the timer",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[2], 1000);
            pair.write(Left, &pattern(4_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: lost by the timer
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-4000
               0.275  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.325  A ◄── B   ACK           seq=1 ack=4001 win=60000
        "#]],
    );
    let stats = pair.stats(Left);
    assert_eq!((stats.retransmitted_fast, stats.tail_probes, stats.timeouts), (1, 0, 0));
}

/// Linux (tcp_output.c, tcp_xmit_retransmit_queue): the retransmission of the oldest data restarts the retransmission
/// timer. The timer expires an RTO after the second retransmission, which is lost like the first.
#[test]
fn a_retransmission_of_the_oldest_data_restarts_the_timer() {
    let mut pair = timed(&[("iw", "8")]);
    check_on(
        "the timer counts from the last repair",
        &mut pair,
        |pair| {
            let mut copies = 0;
            pair.judge(move |_, side, _, bytes| {
                let second = side == Left && bytes.ends_with(&pattern(2_000)[1_990..]);
                copies += u32::from(second);
                if second && copies <= 3 { Fate::Lose } else { Fate::Arrive }
            });
            pair.write(Left, &pattern(10_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: the timer counts from the last repair
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-4000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-5000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-6000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-7000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-8000
               0.250  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.250  A ──► B   PSH ACK       seq=9001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-9000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-10000
               0.350  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               1.350  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               1.400  A ◄── B   ACK           seq=1 ack=10001 win=60000
        "#]],
    );
    assert_eq!(pair.stats(Left).timeouts, 1);
}

/// RFC 8985 §6.2: the loss of a retransmission is detected when segments that were sent after it arrive.
#[test]
fn a_lost_retransmission_is_retransmitted() {
    let mut pair = timed(&[("iw", "8")]);
    check_on(
        "a lost repair is repaired",
        &mut pair,
        |pair| {
            let mut copies = 0;
            pair.judge(move |_, side, _, bytes| {
                // The second segment of the stream is recognized by its content. Its first two transmissions are lost.
                let second = side == Left && bytes.ends_with(&pattern(2_000)[1_990..]);
                copies += u32::from(second);
                if second && copies <= 2 { Fate::Lose } else { Fate::Arrive }
            });
            pair.write(Left, &pattern(14_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: a lost repair is repaired
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-4000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-5000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-6000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-7000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-8000
               0.250  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-9000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-10000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-11000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-12000
               0.350  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=13001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=12001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=13001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=14001 win=60000
        "#]],
    );
    let stats = pair.stats(Left);
    assert_eq!((stats.retransmitted_fast, stats.timeouts), (2, 0));
    assert_eq!(pair.received[1], pattern(14_000));
}
