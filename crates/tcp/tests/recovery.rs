//! Loss detection by duplicate acknowledgements without SACK (RFC 5681, 6582, 3042).

use crate::common::*;
use expect_test::expect;
use std::time::Duration;

/// RFC 5681 §3.2: with Reno, 1 of ten segments is lost. A fast retransmit repairs the loss.
#[test]
fn reno_1() {
    ten_with_losses(
        "reno",
        &[3],
        expect![[r#"
            scenario: reno, 1 of ten lost
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
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
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

/// RFC 5681 §3.2: with Reno, 2 of ten segments are lost. Each loss is repaired by a fast retransmit of its own.
#[test]
fn reno_2() {
    ten_with_losses(
        "reno",
        &[3, 6],
        expect![[r#"
            scenario: reno, 2 of ten lost
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
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.350  A ──► B   ACK           seq=16001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=17001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=18001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=19001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.450  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=20001 win=60000
        "#]],
    );
}

/// RFC 5681 §3.2: with Reno, 3 of ten segments are lost. Two fast retransmits repair two losses. The third loss is
/// repaired when the retransmission timer expires.
#[test]
fn reno_3() {
    ten_with_losses(
        "reno",
        &[3, 5, 7],
        expect![[r#"
            scenario: reno, 3 of ten lost
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
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.350  A ──► B   ACK           seq=16001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=17001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=18001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.450  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=6001 win=60000
               1.550  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               1.600  A ◄── B   ACK           seq=1 ack=19001 win=60000
               1.650  A ──► B   PSH ACK       seq=19001 len=1000 ack=1 win=60000
               1.700  A ◄── B   ACK           seq=1 ack=20001 win=60000
        "#]],
    );
}

/// RFC 6582 §3.2: with NewReno, 1 of ten segments is lost. A fast retransmit repairs the loss.
#[test]
fn newreno_1() {
    ten_with_losses(
        "newreno",
        &[3],
        expect![[r#"
            scenario: newreno, 1 of ten lost
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
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
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

/// RFC 6582 §3.2: with NewReno, 2 of ten segments are lost. A partial acknowledgement causes the second retransmission.
#[test]
fn newreno_2() {
    ten_with_losses(
        "newreno",
        &[3, 6],
        expect![[r#"
            scenario: newreno, 2 of ten lost
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
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.350  A ──► B   ACK           seq=16001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=17001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=18001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=19001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=20001 win=60000
        "#]],
    );
}

/// RFC 6582 §3.2: with NewReno, 3 of ten segments are lost. Partial acknowledgements cause one retransmission per round
/// trip, and the retransmission timer does not expire.
#[test]
fn newreno_3() {
    ten_with_losses(
        "newreno",
        &[3, 5, 7],
        expect![[r#"
            scenario: newreno, 3 of ten lost
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
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.250  A ──► B   ACK           seq=10001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=11001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=12001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=13001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=14001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=15001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.350  A ──► B   ACK           seq=16001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=17001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=18001 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.350  A ──► B   PSH ACK       seq=19001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=4001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=6001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=6001 win=60000
               0.450  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=20001 win=60000
        "#]],
    );
}

/// RFC 3042 §2: in a small window, limited transmit sends new data on the first two duplicate acknowledgements. The new
/// data causes the third duplicate acknowledgement.
#[test]
fn limited_transmit() {
    let mut pair = opened(&plain_with(&[("limited_transmit", "yes"), ("iw", "3")]));
    check_on(
        "limited transmit",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[1], 1000);
            pair.write(Left, &pattern(8000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: limited transmit
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000
               0.250  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               0.250  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=1 win=60000
               0.350  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=5001 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=6001 win=60000
               0.450  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               0.450  A ──► B   PSH ACK       seq=7001 len=1000 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=7001 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=8001 win=60000
        "#]],
    );
    assert_eq!(pair.stats(Left).timeouts, 0);
}

/// Without limited transmit, a loss in a small window is repaired only when the retransmission timer expires.
#[test]
fn no_limited_transmit() {
    let mut pair = opened(&plain_with(&[("limited_transmit", "no"), ("iw", "3")]));
    check_on(
        "no limited transmit",
        &mut pair,
        |pair| {
            pair.lose_data(Left, &[1], 1000);
            pair.write(Left, &pattern(8000));
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: no limited transmit
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000     ✗ lost
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1 win=60000
               1.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               1.200  A ◄── B   ACK           seq=1 ack=3001 win=60000
               1.250  A ──► B   ACK           seq=3001 len=1000 ack=1 win=60000
               1.250  A ──► B   ACK           seq=4001 len=1000 ack=1 win=60000
               1.300  A ◄── B   ACK           seq=1 ack=4001 win=60000
               1.300  A ◄── B   ACK           seq=1 ack=5001 win=60000
               1.350  A ──► B   ACK           seq=5001 len=1000 ack=1 win=60000
               1.350  A ──► B   ACK           seq=6001 len=1000 ack=1 win=60000
               1.350  A ──► B   PSH ACK       seq=7001 len=1000 ack=1 win=60000
               1.400  A ◄── B   ACK           seq=1 ack=6001 win=60000
               1.400  A ◄── B   ACK           seq=1 ack=7001 win=60000
               1.400  A ◄── B   ACK           seq=1 ack=8001 win=60000
        "#]],
    );
    assert_eq!(pair.stats(Left).timeouts, 1);
}
