//! Loss detection by SACK, and recovery (RFC 6675, 6937).

use crate::common::*;
use anabranch_tcp::testing::Fate;
use expect_test::expect;
use std::time::Duration;

/// RFC 6675 §5: with SACK, 1 of ten segments is lost. A fast retransmit repairs the loss.
#[test]
fn sack_1() {
    ten_with_losses(
        "sack",
        &[3],
        expect![[r#"
            scenario: sack, 1 of ten lost
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-4000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-5000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-6000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-7000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-8000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-9000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-10000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-11000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-12000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-13000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-14000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-15000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-16000
               0.300  A ◄── B   ACK           seq=1 ack=16001 win=60000
               0.350  A ──► B   ACK           seq=16001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=17001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=18001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=19001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=17001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=18001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=19001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=20001 win=60000
        "#]],
    );
}

/// RFC 6675 §5: with SACK, 2 of ten segments are lost. The second lost segment is retransmitted one round trip after
/// the first, and before new data.
#[test]
fn sack_2() {
    ten_with_losses(
        "sack",
        &[3, 6],
        expect![[r#"
            scenario: sack, 2 of ten lost
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-4000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-5000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-7000,3001-5000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-8000,3001-5000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-9000,3001-5000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-10000,3001-5000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-11000,3001-5000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-12000,3001-5000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-13000,3001-5000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-14000,3001-5000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-15000,3001-5000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-16000,3001-5000
               0.300  A ◄── B   ACK           seq=1 ack=5001 win=60000 sack=6001-16000
               0.350  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=16001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=17001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=18001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=19001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=16001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=17001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=18001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=19001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=20001 win=60000
        "#]],
    );
}

/// RFC 6675 §5: with SACK, 3 of ten segments are lost. The second and third lost segments are retransmitted together,
/// one round trip after the first and before new data.
#[test]
fn sack_3() {
    ten_with_losses(
        "sack",
        &[3, 5, 7],
        expect![[r#"
            scenario: sack, 3 of ten lost
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-4000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=5001-6000,3001-4000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-8000,5001-6000,3001-4000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-9000,5001-6000,3001-4000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-10000,5001-6000,3001-4000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-11000,5001-6000,3001-4000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-12000,5001-6000,3001-4000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-13000,5001-6000,3001-4000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-14000,5001-6000,3001-4000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-15000,5001-6000,3001-4000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=7001-16000,5001-6000,3001-4000
               0.300  A ◄── B   ACK           seq=1 ack=4001 win=60000 sack=7001-16000,5001-6000
               0.350  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=16001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=17001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=18001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=19001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=6001 win=60000 sack=7001-16000
               0.400  A ◄── B   ACK           seq=1 ack=16001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=17001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=18001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=19001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=20001 win=60000
        "#]],
    );
}

/// RFC 6675 §4 NextSeg rule 4: the last segments of a window are lost, and a rescue retransmission avoids a timeout.
#[test]
fn rescue() {
    let mut pair = opened(&plain_with(&[("sack", "yes"), ("recovery", "sack"), ("iw", "10")]));
    check_on(
        "rescue",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[2, 9, 10], 1000);
            pair.write(Left, &pattern(10_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: rescue
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   PSH ACK       seq=9001 len=1000 ack=1 win=60000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-4000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-5000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-6000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-7000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-8000
               0.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.250  A ──► B   PSH ACK       seq=9001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=8001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=8001 win=60000 sack=9001-10000
               0.350  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=10001 win=60000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(10_000));
}

/// RFC 6675 §2: an acknowledgement that SACKs new data counts as a duplicate even if it advances SND.UNA. Here only one
/// acknowledgement arrives. Recovery begins without three duplicates, because the SACK blocks show the loss.
#[test]
fn sack_by_one_acknowledgement() {
    let mut pair = opened(&plain_with(&[("sack", "yes"), ("recovery", "sack"), ("iw", "6")]));
    check_on(
        "one acknowledgement tells all",
        &mut pair,
        |pair| {
            pair.judge(|_, side, n, _| match (side, n) {
                (Left, 4) | (Right, 2..=5) => Fate::Lose,
                _ => Fate::Arrive,
            });
            pair.write(Left, &pattern(6_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: one acknowledgement tells all
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=5001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-4000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-5000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-6000
               0.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=6001 win=60000
        "#]],
    );
    assert_eq!(pair.stats(Left).timeouts, 0);
}

/// RFC 6675 §5: a segment that is sent during a recovery is lost. The scoreboard is kept when the recovery ends, so
/// this loss starts the next recovery immediately.
#[test]
fn a_loss_within_a_recovery() {
    let mut pair = opened(&plain_with(&[("sack", "yes"), ("recovery", "sack"), ("iw", "10")]));
    check_on(
        "a loss within a recovery",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[3, 11], 1000);
            pair.write(Left, &pattern(16_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: a loss within a recovery
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-4000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-5000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-6000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-7000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-8000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-9000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=3001-10000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000     ✗ lost
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   PSH ACK       seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=11001-12000,3001-10000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=11001-13000,3001-10000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=11001-14000,3001-10000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=11001-15000,3001-10000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=11001-16000,3001-10000
               0.300  A ◄── B   ACK           seq=1 ack=10001 win=60000 sack=11001-16000
               0.350  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=15001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=16001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=16001 win=60000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(16_000));
}

/// RFC 6937 §3: half of a window is lost. Retransmissions are sent one by one as acknowledgements arrive, not in a
/// burst.
#[test]
fn proportional_rate_reduction() {
    let mut pair =
        opened(&plain_with(&[("sack", "yes"), ("recovery", "sack"), ("iw", "12"), ("prr", "yes")]));
    check_on(
        "proportional rate reduction",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[2, 3, 4, 5, 6], 1000);
            pair.write(Left, &pattern(16_000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: proportional rate reduction
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=7001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=8001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=9001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-7000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-8000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-9000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-10000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-11000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-12000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   PSH ACK       seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-13000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-14000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-15000
               0.300  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=6001-16000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000 sack=6001-16000
               0.300  A ◄── B   ACK           seq=1 ack=3001 win=60000 sack=6001-16000
               0.350  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=4001 win=60000 sack=6001-16000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000 sack=6001-16000
               0.400  A ◄── B   ACK           seq=1 ack=16001 win=60000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(16_000));
}

/// RFC 8985 §6.1: among segments sent at the same instant, the segment with the higher sequence number counts as sent
/// later. An arriving segment therefore shows the loss of lower-numbered segments only.
#[test]
fn rack_sent_in_one_instant() {
    let mut pair =
        opened(&plain_with(&[("iw", "10"), ("sack", "yes"), ("recovery", "sack"), ("rack", "yes")]));
    check_on(
        "rack, 2, 4 and 6 of six lost, sent in one instant",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[2, 4, 6], 1000);
            pair.write(Left, &pattern(6_000));
            pair.run_for(Duration::from_secs(6));
        },
        expect![[r#"
            scenario: rack, 2, 4 and 6 of six lost, sent in one instant
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=5001 len=1000 ack=1 win=60000     ✗ lost
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=2001-3000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000 sack=4001-5000,2001-3000
               0.275  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.325  A ◄── B   ACK           seq=1 ack=3001 win=60000 sack=4001-5000
               0.375  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.375  A ──► B   PSH ACK       seq=5001 len=1000 ack=1 win=60000
               0.425  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.425  A ◄── B   ACK           seq=1 ack=6001 win=60000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(6_000));
}

/// RFC 6675 §4, NextSeg rule 1: a segment that is first sent during a recovery is lost, and is retransmitted in this
/// recovery. It is above the recovery point, so its loss starts a second recovery, which reduces the window again. The
/// second recovery must not retransmit the segment again. The acknowledgement of the retransmission echoes a timestamp
/// from before the second recovery (RFC 3522 §3.2). This echo must not undo the second reduction.
#[test]
fn a_repair_outlives_its_recovery() {
    let mut pair = opened(&plain_with(&[
        ("sack", "yes"),
        ("recovery", "sack"),
        ("timestamps", "yes"),
        ("undo", "yes"),
        ("prr", "yes"),
        ("iw", "20"),
    ]));
    pair.lose_data(Left, &[2, 19, 25], 988);
    pair.write(Left, &pattern(60_000));
    pair.run_for(Duration::from_secs(6));
    assert_eq!(pair.received[1], pattern(60_000));
    let stats = pair.stats(Left);
    let seen = (stats.fast_recoveries, stats.retransmitted_fast, stats.spurious, stats.timeouts);
    assert_eq!(seen, (2, 3, 0, 0));
}
