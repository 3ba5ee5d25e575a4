//! Behaviour that the profile `modern` copies from Linux and that the RFCs do not require. Each test checks one
//! property.

use crate::common::*;
use anabranch_tcp::testing::{Fate, Pair};
use expect_test::expect;
use std::time::Duration;

/// Returns a pair with an open connection that uses SACK recovery and detects losses by time.
fn sacked(changes: &[(&str, &str)]) -> Pair {
    let mut config =
        plain_with(&[("sack", "yes"), ("recovery", "sack"), ("rack", "yes"), ("prr", "yes"), ("iw", "10")]);
    change(&mut config, changes);
    opened(&config)
}

/// Only three segments of a large window are in flight when one of them is lost. RFC 5681 §3.1 sets the slow-start
/// threshold to two segments; Linux sets it to half of the window.
#[test]
fn ssthresh_is_computed_from_cwnd_or_flight() {
    for (unit, ssthresh) in [("bytes", "flight"), ("bytes", "window"), ("segments", "window")] {
        let mut pair = sacked(&[("cwnd_unit", unit), ("ssthresh", ssthresh), ("abc", "1000")]);
        pair.write(Left, &pattern(10_000));
        pair.settle();
        let window = pair.info(Left).cwnd;
        assert!(window >= 14_000, "{unit}: {window}");
        let expected = if ssthresh == "window" { window / 2 } else { 2_000 };
        pair.lose_data(Left, &[11], 1000);
        pair.write(Left, &pattern(3_000));
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.stats(Left).fast_recoveries, 1, "{}", pair.ladder());
        assert_eq!(pair.info(Left).ssthresh, expected, "cwnd_unit={unit}, ssthresh={ssthresh}");
        pair.settle();
    }
}

/// Twenty small segments are written. If the window is counted in segments, each small segment counts as a full
/// segment, and only ten are sent immediately. If the window is counted in bytes, all twenty are sent immediately.
#[test]
fn a_small_segment_counts_whole() {
    for (unit, expected) in [("bytes", 20), ("segments", 10)] {
        let mut pair = sacked(&[("cwnd_unit", unit)]);
        for _ in 0..20 {
            pair.write(Left, &pattern(100));
        }
        let sent = pair.ladder().lines().filter(|line| line.contains("len=100 ")).count();
        assert_eq!(sent, expected, "cwnd_unit={unit}");
        pair.settle();
        assert_eq!(pair.received[1].len(), 2_000);
    }
}

/// tcp_cwnd_reduction: if the window is counted in segments, a recovery sends full segments only.
#[test]
fn a_repair_in_a_window_of_segments() {
    let mut pair = sacked(&[("cwnd_unit", "segments"), ("ssthresh", "window")]);
    check_on(
        "a repair in a window of segments",
        &mut pair,
        |pair| {
            // The n-th full segment is delayed by n milliseconds. The second full segment is lost.
            let mut n = 0;
            pair.judge(move |_, side, _, bytes| {
                let full = side == Left && bytes.len() > 1000;
                n += u32::from(full);
                match n {
                    2 if full => Fate::Lose,
                    n if full => Fate::Late(Duration::from_millis(u64::from(n))),
                    _ => Fate::Arrive,
                }
            });
            pair.write(Left, &pattern(16_000));
            pair.run_for(Duration::from_secs(2));
        },
        expect![[r#"
            scenario: a repair in a window of segments
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     late by 1ms
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     late by 3ms
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000     late by 4ms
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000     late by 5ms
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000     late by 6ms
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000     late by 7ms
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000     late by 8ms
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000     late by 9ms
               0.150  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000     late by 10ms
               0.201  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.203  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.204  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-4000
               0.205  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-5000
               0.206  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-6000
               0.207  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-7000
               0.208  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-8000
               0.209  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-9000
               0.210  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-10000
               0.251  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000     late by 11ms
               0.251  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000     late by 12ms
               0.253  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000     late by 13ms
               0.254  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000     late by 14ms
               0.255  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     late by 15ms
               0.259  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000     late by 16ms
               0.312  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-11000
               0.313  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-12000
               0.316  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-13000
               0.318  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-14000
               0.320  A ◄── B   ACK           seq=1 ack=14001 win=60000
               0.325  A ◄── B   ACK           seq=1 ack=15001 win=60000
               0.363  A ──► B   PSH ACK       seq=15001 len=1000 ack=1 win=60000     late by 17ms
               0.430  A ◄── B   ACK           seq=1 ack=16001 win=60000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(16_000));
    assert_eq!(pair.info(Left).ssthresh, 5_000);
}

/// Like Linux, the sender sets PSH at the end of a burst of more than one segment. On a path with a long round trip, a
/// burst has two segments.
#[test]
fn the_end_of_a_burst_is_pushed() {
    let mut pair = sacked(&[("push", "burst")]);
    check_on(
        "the end of a burst is pushed",
        &mut pair,
        |pair| {
            pair.write(Left, &pattern(12_000));
            pair.run_for(Duration::from_millis(110));
        },
        expect![[r#"
            scenario: the end of a burst is pushed
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=5001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=7001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=9001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=3001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=6001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=7001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=8001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=9001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=10001 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   PSH ACK       seq=11001 len=1000 ack=1 win=60000
        "#]],
    );
    pair.settle();
}

/// With `ack_push=yes`, a segment with PSH is acknowledged as soon as it is read, without the acknowledgement delay.
#[test]
fn a_pushed_segment_is_acknowledged_when_it_is_read() {
    let mut pair = sacked(&[("ack_push", "yes"), ("delack", "40ms")]);
    check_on(
        "a pushed segment is acknowledged when it is read",
        &mut pair,
        |pair| {
            pair.write(Left, &pattern(3_000));
            pair.run_for(Duration::from_millis(300));
        },
        expect![[r#"
            scenario: a pushed segment is acknowledged when it is read
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=2001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=3001 win=60000
        "#]],
    );
    // With `ack_push=no`, the acknowledgement of the third segment is delayed.
    let mut pair = sacked(&[("delack", "40ms")]);
    pair.write(Left, &pattern(3_000));
    pair.run_for(Duration::from_millis(60));
    assert!(!pair.ladder().contains("ack=3001"));
}

/// HyStart ends slow start before the queue is full. Linux uses HyStart with CUBIC, but not with Reno.
#[test]
fn slow_start_ends_before_the_queue_is_full() {
    use anabranch_base::{BitRate, Instant, Ratio};
    use anabranch_tcp::testing::{Link, flow};
    let lost = |cc: &str, hystart: &str| {
        let config = with(&[("rcvbuf", "4MiB"), ("cc", cc), ("hystart", hystart)]);
        let link = Link {
            rate: BitRate::from_bits_per_second(10_000_000).expect("a rate"),
            delay: Duration::from_millis(40),
            queue: 400_000,
            loss: Ratio::ZERO,
        };
        flow(&config, link, 2_000_000, Instant::from_millis(60_000), 1).sender.retransmitted_fast
    };
    assert_eq!(lost("cubic", "linux"), 0);
    assert!(lost("cubic", "no") > 20, "{}", lost("cubic", "no"));
    assert!(lost("reno", "linux") > 20, "{}", lost("reno", "linux"));
}

/// tcp_enter_loss: segments sent less than a round trip before a timeout do not count as lost. If the window is counted
/// in segments, the window becomes one more than the number of these segments.
#[test]
fn after_a_timeout_the_window_is_what_may_still_arrive() {
    let lost_after_a_round_trip = |unit| {
        let mut pair = sacked(&[("cwnd_unit", unit), ("tlp", "no")]);
        pair.write(Left, &pattern(1_000));
        pair.settle();
        pair.lose_data(Left, &[2, 3], 1000);
        pair.write(Left, &pattern(2_000));
        pair
    };
    for (unit, expected) in [("bytes", 1_000), ("segments", 4_000)] {
        let (mut pair, mut wait) = (lost_after_a_round_trip(unit), Duration::ZERO);
        while pair.stats(Left).timeouts == 0 && wait < Duration::from_secs(5) {
            wait += Duration::from_millis(1);
            pair.run_for(Duration::from_millis(1));
        }
        // In a second run with the same loss, the application writes more data shortly before the timeout.
        let mut pair = lost_after_a_round_trip(unit);
        pair.run_for(wait - Duration::from_millis(20));
        pair.write(Left, &pattern(3_000));
        pair.run_for(Duration::from_millis(25));
        assert_eq!((pair.stats(Left).timeouts, pair.info(Left).cwnd), (1, expected), "{}", pair.ladder());
        pair.settle();
    }
}

/// tcp_enter_loss: a timeout during a recovery is attributed to the loss that caused the recovery. With a window in
/// segments, the timeout therefore does not halve the slow-start threshold again. With a window in bytes, it does.
#[test]
fn a_timeout_in_a_repair_halves_nothing_again() {
    for (unit, thresholds) in [("bytes", [5_500, 2_750]), ("segments", [5_000, 5_000])] {
        let mut pair = sacked(&[("cwnd_unit", unit), ("ssthresh", "window"), ("tlp", "no")]);
        // The second segment is lost, and so are all its retransmissions.
        let mut n = 0;
        pair.judge(move |_, side, _, bytes| {
            let full = side == Left && bytes.len() > 1000;
            n += u32::from(full);
            if full && (n == 2 || n > 10) { Fate::Lose } else { Fate::Arrive }
        });
        pair.write(Left, &pattern(10_000));
        pair.run_for(Duration::from_millis(150));
        let in_the_repair = (pair.stats(Left).timeouts, pair.info(Left).ssthresh);
        pair.run_for(Duration::from_secs(1));
        let after_the_timeout = (pair.stats(Left).timeouts, pair.info(Left).ssthresh);
        assert_eq!([in_the_repair, after_the_timeout], [(0, thresholds[0]), (1, thresholds[1])], "{unit}");
        assert_eq!(pair.stats(Left).fast_recoveries, 1);
    }
}

/// tcp_rack_reo_timeout: when the reordering timer marks a segment as lost, the recovery counts one segment as
/// delivered. The test expects three segments to be sent when more losses are detected at 0.375 s. Without the counted
/// segment, two would be sent.
#[test]
fn the_reordering_timer_counts_as_a_delivery() {
    let mut pair = sacked(&[("cwnd_unit", "segments"), ("ssthresh", "window"), ("iw", "20")]);
    let mut repaired = false;
    pair.judge(move |_, side, _, bytes| {
        // `n` is the number of the segment in the stream, from 0. Segment 1 is lost at its first transmission. Segments
        // 2 and 3 arrive immediately, which is too few for three duplicate acknowledgements. Later segments arrive one
        // by one, long after the reordering timer.
        let full = (side == Left && bytes.len() > 1000).then(|| &bytes[bytes.len() - 1000..]);
        match full.and_then(|data| pattern(40_000).chunks(1000).position(|thousand| thousand == data)) {
            Some(1) if !std::mem::replace(&mut repaired, true) => Fate::Lose,
            Some(n @ 4..20) => Fate::Late(Duration::from_millis(100 + 5 * n as u64)),
            Some(n @ 20..) => Fate::Late(Duration::from_millis(5 * n as u64)),
            _ => Fate::Arrive,
        }
    });
    pair.write(Left, &pattern(30_000));
    pair.run_for(Duration::from_secs(2));
    let ladder = pair.ladder();
    assert_eq!(ladder.matches("0.275  A ──► B").count(), 1, "the timer's repair:\n{ladder}");
    assert_eq!(ladder.matches("0.375  A ──► B").count(), 3, "{ladder}");
    assert_eq!(pair.received[1], pattern(30_000));
}
