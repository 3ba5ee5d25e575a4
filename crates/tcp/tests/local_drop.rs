//! Tests segments that the packet filter of the sending host drops, of which the sender learns immediately (Linux:
//! tcp_write_xmit, tcp_retransmit_skb and tcp_write_wakeup in net/ipv4/tcp_output.c).

use crate::common::*;
use anabranch_tcp::Config;
use anabranch_tcp::testing::{Fate, Pair};
use anabranch_wire::tcp::Segment;
use std::time::Duration;

/// Makes the host of the left side refuse to send the packets with these numbers. The next packet has the number 1.
fn refuse(pair: &mut Pair, numbers: &'static [u64]) {
    let mut count = 0;
    pair.judge(move |_, side, _, _| {
        if side != Left {
            return Fate::Arrive;
        }
        count += 1;
        if numbers.contains(&count) { Fate::Refuse } else { Fate::Arrive }
    });
}

/// The second of four segments is refused. It is sent when the first segment is acknowledged, and no segment counts as
/// lost.
#[test]
fn a_refused_segment_stays_unsent() {
    let mut pair = opened(&plain());
    refuse(&mut pair, &[2]);
    pair.write(Left, &pattern(4_000));
    assert_eq!(pair.stats(Left).data_segments_sent, 1, "nothing leaves behind the refused segment");
    pair.run_for(Duration::from_millis(350));
    assert!(pair.received[1] == pattern(4_000), "{}", pair.ladder());
    let stats = pair.stats(Left);
    assert_eq!((stats.data_segments_sent, stats.bytes_retransmitted, stats.timeouts), (4, 0, 0));
    close(&mut pair);
}

/// The first segment is refused, so no acknowledgement is expected. After one RTO, a timer tries one segment again. The
/// window is not reduced, and no timeout is counted.
#[test]
fn a_timer_tries_one_refused_segment_again() {
    let mut pair = opened(&plain());
    let window = pair.info(Left).cwnd;
    let rto = pair.info(Left).rto;
    refuse(&mut pair, &[1]);
    pair.write(Left, &pattern(4_000));
    pair.run_for(rto - Duration::from_millis(1));
    assert_eq!(pair.stats(Left).data_segments_sent, 0);
    pair.run_for(Duration::from_millis(2));
    assert_eq!(pair.stats(Left).data_segments_sent, 1, "{}", pair.ladder());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.received[1], pattern(4_000));
    let stats = pair.stats(Left);
    assert_eq!((stats.timeouts, stats.probes, stats.bytes_retransmitted), (0, 0, 0));
    assert!(pair.info(Left).cwnd >= window);
    close(&mut pair);
}

/// The delay before the next attempt doubles each time that the same segment is refused.
#[test]
fn the_timer_backs_off() {
    let mut pair = opened(&plain());
    let (rto, begun) = (pair.info(Left).rto, pair.now);
    refuse(&mut pair, &[1, 2, 3]);
    pair.write(Left, &pattern(1_000));
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.received[1], pattern(1_000));
    let read = pair.events.iter().rev().find(|(_, side, _)| *side == Right).map(|(at, ..)| *at);
    assert_eq!(read.map(|at| at - begun), Some(7 * rto + Duration::from_millis(50)), "{}", pair.ladder());
}

/// If a segment was refused, the next write tries it again immediately.
#[test]
fn a_write_tries_the_refused_segment_again() {
    let mut pair = opened(&plain());
    refuse(&mut pair, &[1]);
    pair.write(Left, &pattern(1_000));
    pair.write(Left, &pattern(1_000));
    assert_eq!(pair.stats(Left).data_segments_sent, 2, "{}", pair.ladder());
    close(&mut pair);
}

/// The first retransmission of a recovery is refused. It counts as not sent, and the next acknowledgement sends it. A
/// refused FIN is sent later, too.
#[test]
fn a_refused_retransmission_is_tried_with_the_next_acknowledgement() {
    // With SACK, the last segment is also retransmitted, whether a segment was refused or not (RFC 6675 §4, NextSeg
    // rule 4).
    for (recovery, retransmitted) in [("newreno", 1), ("sack", 2)] {
        let sack = if recovery == "sack" { "yes" } else { "no" };
        let mut pair =
            opened(&plain_with(&[("iw", "10"), ("recovery", recovery), ("sack", sack), ("dupthresh", "3")]));
        let (mut lost, mut refused) = (false, false);
        let first = pair.first_numbers()[0];
        pair.judge(move |_, side, _, bytes| {
            let Ok(segment) = Segment::parse(bytes) else { return Fate::Arrive };
            let is_first = segment.header.seq.0 == first && !segment.payload.is_empty();
            if side != Left || !is_first {
                return Fate::Arrive;
            }
            if !std::mem::replace(&mut lost, true) {
                return Fate::Lose;
            }
            if std::mem::replace(&mut refused, true) { Fate::Arrive } else { Fate::Refuse }
        });
        pair.write(Left, &pattern(10_000));
        pair.run_for(Duration::from_millis(900));
        assert!(pair.received[1] == pattern(10_000), "{recovery}: {}", pair.ladder());
        let stats = pair.stats(Left);
        assert_eq!(
            (stats.retransmitted_fast, stats.timeouts),
            (retransmitted, 0),
            "{recovery}: {}",
            pair.ladder()
        );
        refuse(&mut pair, &[1]);
        close(&mut pair);
        assert_eq!(pair.hosts[0].connections() + pair.hosts[1].connections(), 0, "{recovery}");
    }
}

/// With every profile, a sender retransmits nothing if every fifth of its packets is refused.
#[test]
fn refused_segments_are_no_losses() {
    for profile in anabranch_tcp::PROFILES {
        let mut pair = opened(&Config::profile(profile).expect("a profile"));
        let mut count = 0;
        pair.judge(move |_, side, _, _| {
            count += u32::from(side == Left);
            if side == Left && count.is_multiple_of(5) { Fate::Refuse } else { Fate::Arrive }
        });
        pair.write(Left, &pattern(200_000));
        pair.run_for(Duration::from_secs(60));
        assert_eq!(pair.received[1].len(), 200_000, "{profile}");
        let stats = pair.stats(Left);
        let repeated = (stats.retransmitted_fast, stats.retransmitted_timeout, stats.timeouts);
        assert_eq!(repeated, (0, 0, 0), "{profile}: {}", pair.ladder());
        assert_eq!(stats.bytes_sent, 200_000, "{profile}");
        close(&mut pair);
    }
}

/// A refused SYN is repeated by its timer, like a lost SYN. A refused acknowledgement without data is not repeated.
#[test]
fn refused_syns_and_acknowledgements_count_as_sent() {
    let mut pair = Pair::new(&plain());
    refuse(&mut pair, &[1]);
    pair.connect();
    pair.run_for(Duration::from_millis(1_200));
    assert!(pair.ids[1].is_some(), "{}", pair.ladder());
    refuse(&mut pair, &[1]);
    pair.write(Right, &pattern(1_000));
    pair.run_for(Duration::from_millis(900));
    assert_eq!((pair.stats(Left).acks_sent, pair.stats(Right).timeouts), (2, 0), "{}", pair.ladder());
}
