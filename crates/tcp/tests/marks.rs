//! Tests of ECN (RFC 3168) and PAWS (RFC 7323 §5).

use crate::common::*;
use anabranch_tcp::testing::Fate;
use anabranch_wire::tcp::{Flags, Header, Options, Seq, Timestamps};
use expect_test::expect;

/// RFC 3168 §6.1: ECN is negotiated. A CE mark is echoed until a CWR arrives, and causes one reduction of the window.
#[test]
fn ecn() {
    let config = plain_with(&[("ecn", "yes"), ("iw", "4")]);
    let pair = check(
        "ECN",
        &config,
        |pair| {
            pair.judge(|_, side, n, _| if side == Left && n == 4 { Fate::Mark } else { Fate::Arrive });
            pair.open();
            pair.write(Left, &pattern(10_000));
            pair.settle();
        },
        expect![[r#"
            scenario: ECN
               0.000  A ──► B   SYN ECE CWR   seq=0 win=60000 mss=1000
               0.050  A ◄── B   SYN ACK ECE   seq=0 ack=1 win=60000 mss=1000
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=60000
               0.150          B accepted
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000 ECT
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000 ECT     CE
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000 ECT
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000 ECT
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK ECE       seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK ECE       seq=1 ack=3001 win=60000
               0.200  A ◄── B   ACK ECE       seq=1 ack=4001 win=60000
               0.250  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000 ECT
               0.250  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000 ECT
               0.250  A ──► B   ACK CWR       seq=6001 len=1000 ack=1 win=60000 ECT
               0.300  A ◄── B   ACK ECE       seq=1 ack=5001 win=60000
               0.300  A ◄── B   ACK ECE       seq=1 ack=6001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=7001 win=60000
               0.350  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000 ECT
               0.350  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000 ECT
               0.350  A ──► B   PSH ACK       seq=9001 len=1000 ack=1 win=60000 ECT
               0.400  A ◄── B   ACK           seq=1 ack=8001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=9001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=10001 win=60000
        "#]],
    );
    assert_eq!(pair.stats(Left).ecn_reductions, 1);
    assert_eq!(pair.stats(Right).ce_received, 1);
    assert_eq!(pair.stats(Left).retransmitted_fast, 0);
}

/// ECN is not used if the peer does not support it.
#[test]
fn ecn_takes_two() {
    let mut pair = anabranch_tcp::testing::Pair::with(plain_with(&[("ecn", "yes")]), plain(), 1);
    pair.open();
    pair.write(Left, b"plain");
    pair.settle();
    assert!(!pair.info(Left).ecn && !pair.info(Right).ecn);
    assert!(!pair.ladder().contains("ECT"));
}

/// RFC 7323 §5.3 R1: a segment with an old timestamp is dropped, and answered with an ACK.
#[test]
fn paws() {
    let mut pair = opened(&plain_with(&[("timestamps", "yes")]));
    pair.run_until(at(5_000));
    pair.write(Left, b"new");
    pair.settle();
    let info = pair.info(Left);
    let numbers = pair.first_numbers();
    let old = Header {
        source_port: info.local.port(),
        target_port: 80,
        seq: Seq(numbers[0].wrapping_add(3)),
        ack: Seq(numbers[1]),
        flags: Flags::ACK,
        window: 1000,
        urgent: 0,
        options: Options { timestamps: Some(Timestamps { value: 0, echo: 0 }), ..Options::default() },
    };
    let before = pair.stats(Right);
    // The left side's timestamp clock starts at a random value. So the test tries two timestamps, of which at least one
    // is older than the side's last timestamp.
    for value in [0, 1 << 31] {
        let options = Options { timestamps: Some(Timestamps { value, echo: 0 }), ..Options::default() };
        pair.forge_header(Right, &Header { options, seq: Seq(old.seq.0 - 1000), ..old }, b"ancient");
    }
    assert!(pair.stats(Right).paws_discards > before.paws_discards);
    assert_eq!(pair.received[1], b"new");
}

/// RFC 3168 §6.1.2: after a loss has reduced the window, CWR reports the reduction. CE marks in the same window of data
/// cause no further reduction.
#[test]
fn cwr_reports_a_reduction_after_a_loss() {
    let mut pair = opened(&plain_with(&[("ecn", "yes"), ("sack", "yes"), ("recovery", "sack"), ("iw", "8")]));
    check_on(
        "a loss and a mark",
        &mut pair,
        |pair| {
            pair.judge(|_, side, n, _| match (side, n) {
                (Left, 3) => Fate::Lose,
                (Left, 8) => Fate::Mark,
                _ => Fate::Arrive,
            });
            pair.write(Left, &pattern(14_000));
            pair.settle();
        },
        expect![[r#"
            scenario: a loss and a mark
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000 ECT     ✗ lost
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000 ECT
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000 ECT
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000 ECT
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000 ECT
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000 ECT     CE
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000 ECT
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000 ECT
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000 sack=1001-2000
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000 sack=1001-3000
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000 sack=1001-4000
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000 sack=1001-5000
               0.200  A ◄── B   ACK ECE       seq=1 ack=1 win=60000 sack=1001-6000
               0.200  A ◄── B   ACK ECE       seq=1 ack=1 win=60000 sack=1001-7000
               0.200  A ◄── B   ACK ECE       seq=1 ack=1 win=60000 sack=1001-8000
               0.250  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000 ECT
               0.250  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000 ECT
               0.250  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK CWR       seq=10001 len=1000 ack=1 win=60000 ECT
               0.300  A ◄── B   ACK ECE       seq=1 ack=1 win=60000 sack=1001-9000
               0.300  A ◄── B   ACK ECE       seq=1 ack=1 win=60000 sack=1001-10000
               0.300  A ◄── B   ACK ECE       seq=1 ack=10001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=11001 win=60000
               0.350  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000 ECT
               0.350  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000 ECT
               0.350  A ──► B   PSH ACK       seq=13001 len=1000 ack=1 win=60000 ECT
               0.400  A ◄── B   ACK           seq=1 ack=12001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=13001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=14001 win=60000
        "#]],
    );
    assert_eq!((pair.stats(Left).fast_recoveries, pair.stats(Left).ecn_reductions), (1, 0));
    assert_eq!(pair.received[1], pattern(14_000));
}

/// RFC 3168 §6.1.2: a CE mark and a loss in the same window of data cause a single reduction, no matter which is
/// detected first.
#[test]
fn a_mark_and_a_loss_reduce_once() {
    for marked in [5, 8] {
        let mut pair =
            opened(&plain_with(&[("ecn", "yes"), ("sack", "yes"), ("recovery", "sack"), ("iw", "8")]));
        pair.judge(move |_, side, n, _| match (side, n) {
            (Left, 3) => Fate::Lose,
            (Left, n) if n == marked => Fate::Mark,
            _ => Fate::Arrive,
        });
        pair.write(Left, &pattern(14_000));
        pair.settle();
        assert!(pair.info(Left).ssthresh >= 4000, "packet {marked} marked: {}", pair.info(Left).ssthresh);
        assert_eq!(pair.stats(Left).fast_recoveries, 1);
    }
}
