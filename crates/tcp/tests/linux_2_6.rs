//! Behaviour of Linux 2.6.11 that later versions no longer have (profile `linux-2.6.11`). Each test checks one property.

use crate::common::*;
use anabranch_tcp::Config;
use anabranch_tcp::testing::{Fate, Pair};
use anabranch_wire::tcp::{Flags, Segment};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Returns a pair with an open connection that repairs losses by SACK, with a window counted in segments.
fn sacked(changes: &[(&str, &str)]) -> Pair {
    let mut config = plain_with(&[
        ("sack", "yes"),
        ("recovery", "sack"),
        ("iw", "10"),
        ("cwnd_unit", "segments"),
        ("ssthresh", "window"),
    ]);
    change(&mut config, changes);
    opened(&config)
}

/// tcp_time_to_recover: segments 1 and 2 are lost, and segments 3 and 4 are SACKed. FACK counts four segments up to the
/// highest SACKed one, which starts a recovery. RFC 6675 counts two SACKed segments, which is too few.
#[test]
fn fack_counts_the_distance_to_the_highest_report() {
    for (fack, fast) in [("yes", 1), ("no", 0)] {
        let mut pair = sacked(&[("fack", fack)]);
        pair.lose_data(Left, &[1, 2, 5, 6, 7, 8, 9, 10], 1000);
        pair.write(Left, &pattern(10_000));
        pair.run_for(Duration::from_millis(300));
        assert_eq!(pair.stats(Left).fast_recoveries, fast, "fack={fack}\n{}", pair.ladder());
        pair.settle();
    }
}

/// tcp_sacktag_write_queue: the first segment and its retransmission are lost. With FACK, SACKs of segments that were
/// sent after the retransmission reveal its loss, and no timeout occurs.
#[test]
fn fack_detects_a_lost_retransmission() {
    for fack in ["yes", "no"] {
        let mut pair = sacked(&[("fack", fack)]);
        let first = pair.first_numbers()[0];
        let mut losses = 2;
        pair.judge(move |_, side, _, bytes| {
            let Ok(segment) = Segment::parse(bytes) else { return Fate::Arrive };
            let is_first = side == Left && segment.header.seq.0 == first && !segment.payload.is_empty();
            if !is_first || losses == 0 {
                return Fate::Arrive;
            }
            losses -= 1;
            Fate::Lose
        });
        pair.write(Left, &pattern(30_000));
        pair.run_for(Duration::from_secs(3));
        assert_eq!(pair.received[1], pattern(30_000));
        let timeouts = pair.stats(Left).timeouts;
        assert_eq!(timeouts == 0, fack == "yes", "fack={fack}: {timeouts} timeouts\n{}", pair.ladder());
    }
}

/// tcp_complete_cwr, tcp_moderate_cwnd: after the recovery, nothing is in flight. With `moderation`, the window is
/// therefore three segments.
#[test]
fn the_window_is_moderate_after_a_recovery() {
    for (moderation, expected) in [("yes", 3_000), ("no", 5_000)] {
        let mut pair = sacked(&[("fack", "yes"), ("cc", "bic"), ("moderation", moderation)]);
        pair.lose_data(Left, &[3], 1000);
        pair.write(Left, &pattern(10_000));
        pair.run_for(Duration::from_millis(900));
        assert_eq!(pair.received[1], pattern(10_000));
        assert_eq!(pair.info(Left).cwnd, expected, "moderation={moderation}\n{}", pair.ladder());
    }
}

/// tcp_cwnd_down: during the recovery, a segment of new data is sent for every second acknowledgement.
#[test]
fn rate_halving_sends_for_every_second_acknowledgement() {
    let mut pair = sacked(&[("fack", "yes"), ("cc", "bic"), ("rate_halving", "yes"), ("iw", "20")]);
    // The n-th segment arrives n milliseconds late, so the acknowledgements arrive one by one.
    let mut n = 0;
    let sent_meanwhile = Rc::new(Cell::new(0));
    let count = Rc::clone(&sent_meanwhile);
    pair.judge(move |_, side, _, bytes| {
        if side != Left || bytes.len() < 1000 {
            return Fate::Arrive;
        }
        n += 1;
        count.set(n);
        if n == 1 { Fate::Lose } else { Fate::Late(Duration::from_millis(n)) }
    });
    pair.write(Left, &pattern(60_000));
    // At this time, the other 19 segments are acknowledged, but the retransmission is not.
    pair.run_for(Duration::from_millis(122));
    assert_eq!(pair.stats(Left).fast_recoveries, 1, "{}", pair.ladder());
    let new = sent_meanwhile.get() - 20 - 1;
    // Each of the first three SACKs allows one new segment (limited transmit), and every second of the other 16 SACKs
    // allows another one.
    assert!((9..=12).contains(&new), "{new} new segments\n{}", pair.ladder());
}

/// A SYN-ACK is lost. With timers, the timers of both ends expire together, and the server sends two more SYN-ACKs.
/// With the scan of Linux 2.6, the client's second SYN arrives before the scan, and only one more SYN-ACK is sent.
#[test]
fn a_lost_syn_ack_is_repeated_once() {
    for (syn_queue, expected) in [("scan", 2), ("timers", 3)] {
        let mut pair = Pair::new(&plain_with(&[("syn_queue", syn_queue), ("rto_initial", "3s")]));
        pair.delay = Duration::ZERO;
        let syn_acks = Rc::new(Cell::new(0));
        let count = Rc::clone(&syn_acks);
        pair.judge(move |_, side, _, bytes| {
            let parsed = Segment::parse(bytes).expect("a segment");
            if side != Right || !parsed.header.flags.has(Flags::SYN) {
                return Fate::Arrive;
            }
            count.set(count.get() + 1);
            if count.get() == 1 { Fate::Lose } else { Fate::Arrive }
        });
        pair.connect();
        pair.run_for(Duration::from_secs(10));
        assert!(pair.ids[1].is_some());
        assert_eq!(syn_acks.get(), expected, "syn_queue={syn_queue}\n{}", pair.ladder());
    }
}

/// tcp_synack_timer: if the client stays silent, the listener repeats its SYN-ACK after more than 3 s, at one of the
/// scans that it makes every 200 ms.
#[test]
fn the_scan_repeats_a_syn_ack_late() {
    let mut pair = Pair::new(&plain_with(&[("syn_queue", "scan"), ("rto_initial", "3s")]));
    let mut sent = Vec::new();
    let times = Rc::new(std::cell::RefCell::new(Vec::new()));
    let recorded = Rc::clone(&times);
    pair.judge(move |now, side, n, _| {
        if side == Right {
            sent.push(now);
            recorded.borrow_mut().clone_from(&sent);
        }
        // Only the first SYN passes.
        if side == Left && n == 1 { Fate::Arrive } else { Fate::Lose }
    });
    pair.connect();
    pair.run_for(Duration::from_secs(5));
    let times = times.borrow();
    assert_eq!(times.len(), 2, "{times:?}");
    let late = times[1] - times[0] - Duration::from_secs(3);
    assert!(late >= Duration::from_millis(200) && late <= Duration::from_millis(1_600), "{late:?}");
    assert_eq!(late.as_millis() % 200, 0);
}

/// tcp_v4_conn_request: if the host cannot send a SYN-ACK, the half-open connection is forgotten. The client's next SYN
/// begins a new handshake.
#[test]
fn a_refused_syn_ack_is_forgotten() {
    let mut pair = Pair::new(&plain_with(&[("syn_queue", "scan")]));
    let mut refused = false;
    pair.judge(move |_, side, _, _| {
        if side == Right && !std::mem::replace(&mut refused, true) { Fate::Refuse } else { Fate::Arrive }
    });
    pair.connect();
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[1].connections(), 0);
    pair.run_for(Duration::from_secs(2));
    assert!(pair.ids[1].is_some(), "{}", pair.ladder());
}

/// tcp_update_metrics, tcp_init_metrics: with `route_metrics`, a new connection begins with the slow-start threshold
/// that the previous connection to the same host has left.
#[test]
fn the_next_connection_begins_with_the_threshold_of_the_last() {
    for kept in [true, false] {
        let switch = if kept { "yes" } else { "no" };
        let mut pair = opened(&plain_with(&[("iw", "10"), ("route_metrics", switch), ("time_wait", "0")]));
        pair.lose_data(Left, &[4], 1000);
        pair.write(Left, &pattern(60_000));
        pair.run_for(Duration::from_secs(5));
        let before = pair.info(Left);
        assert!(before.cwnd > before.ssthresh, "{before:?}");
        close(&mut pair);
        // `Pair` closes the second connection as soon as it is open. The test therefore reads the threshold when the
        // SYN-ACK has just arrived.
        pair.connect();
        pair.run_for(Duration::from_millis(100));
        let after = pair.info(Left).ssthresh;
        let expected = (before.ssthresh / 1000).max(before.cwnd / 1000 / 2) * 1000;
        assert_eq!(after, if kept { expected } else { u64::MAX });
    }
}

/// The values of the profile do not contradict each other, and the knobs for behaviour that only Linux 2.6.11 has are
/// on.
#[test]
fn the_profile_of_linux_2_6_11() {
    let config = Config::profile("linux-2.6.11").expect("a profile");
    config.check().expect("no contradiction");
    assert!(config.fack && config.rate_halving && config.moderation && config.route_metrics);
    let later = Config::profile("linux-2.6").expect("a profile");
    assert!(!later.fack && !later.rate_halving && !later.moderation && !later.route_metrics);
}
