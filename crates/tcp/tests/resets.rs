//! Resets and other unexpected segments (RFC 9293 §3.5.2, RFC 5961).

use crate::common::*;
use anabranch_tcp::{CloseReason, Event};
use anabranch_wire::tcp::{Flags, Header, Seq};
use expect_test::expect;

/// RFC 5961 §3.2: a reset with exactly the expected sequence number is accepted.
#[test]
fn an_exact_reset_ends_the_connection() {
    let mut pair = opened(&plain());
    check_on(
        "exact reset",
        &mut pair,
        |pair| pair.forge(Right, Flags::RST, 1, 0, b""),
        expect![[r#"
        scenario: exact reset
           0.150  A ──► B   RST           seq=1 win=65535     (forged)
           0.150          B closed: connection reset by the peer
    "#]],
    );
    assert!(matches!(pair.events.last(), Some((_, Right, Event::Closed { reason: CloseReason::Reset, .. }))));
}

/// RFC 5961 §3.2: a reset is answered with a challenge ACK if its sequence number is inside the window but is not
/// RCV.NXT.
#[test]
fn a_reset_in_the_window_is_challenged() {
    let mut pair = opened(&plain());
    check_on(
        "reset in the window",
        &mut pair,
        |pair| {
            pair.forge(Right, Flags::RST, 100, 0, b"");
            pair.forge(Right, Flags::RST, 70_000, 0, b"");
            pair.settle();
        },
        expect![[r#"
            scenario: reset in the window
               0.150  A ──► B   RST           seq=100 win=65535     (forged)
               0.150  A ◄── B   ACK           seq=1 ack=1 win=60000
               0.150  A ──► B   RST           seq=70000 win=65535     (forged)
        "#]],
    );
}

/// RFC 5961 §4.2: a SYN on an open connection is answered with a challenge ACK. A peer that has restarted answers the
/// challenge ACK with a reset.
#[test]
fn a_syn_in_the_window_is_challenged() {
    let mut pair = opened(&plain());
    check_on(
        "SYN on an open connection",
        &mut pair,
        |pair| {
            pair.forge(Right, Flags::SYN, 500, 0, b"");
            pair.settle();
        },
        expect![[r#"
            scenario: SYN on an open connection
               0.150  A ──► B   SYN           seq=0 win=65535     (forged)
               0.150  A ◄── B   ACK           seq=1 ack=-499 win=60000
        "#]],
    );
}

/// RFC 5961 §5.2 and §7: acknowledgements of data that was never sent are answered with challenge ACKs, at a limited
/// rate.
#[test]
fn challenges_are_limited() {
    let mut pair = opened(&plain());
    for _ in 0..30 {
        pair.forge(Right, Flags::ACK, 1, 50_000, b"");
    }
    pair.settle();
    assert_eq!(pair.stats(Right).acks_sent, 10);
}

/// RFC 9293 §3.5.2: a segment of an unknown connection is answered with a reset. If the segment has ACK set, its
/// acknowledgement number is the sequence number of the reset. Otherwise the reset acknowledges the segment. A reset is
/// never answered.
#[test]
fn strangers_are_reset() {
    let mut pair = opened(&plain());
    check_on(
        "strangers",
        &mut pair,
        |pair| {
            let stranger = |flags, seq, ack| Header {
                source_port: 1234,
                target_port: 4321,
                seq: Seq(seq),
                ack: Seq(ack),
                flags,
                ..Header::default()
            };
            pair.forge_header(Right, &stranger(Flags::RST, 10, 0), b"");
            pair.forge_header(Right, &stranger(Flags::SYN, 10, 0), b"");
            pair.forge_header(Right, &stranger(Flags::ACK, 10, 20), b"abc");
            pair.forge_header(Right, &stranger(Flags::FIN, 10, 0), b"abc");
        },
        expect![[r#"
            scenario: strangers
               0.150  A ──► B   RST           seq=1968183795 win=0     (forged)
               0.150  A ──► B   SYN           seq=0 win=0     (forged)
               0.150  A ◄── B   RST ACK       seq=-552637454 ack=1 win=0
               0.150  A ──► B   ACK           seq=0 len=3 ack=-552637434 win=0     (forged)
               0.150  A ◄── B   RST           seq=-552637434 win=0
               0.150  A ──► B   FIN           seq=0 len=3 win=0     (forged)
               0.150  A ◄── B   RST ACK       seq=-552637454 ack=4 win=0
        "#]],
    );
    assert_eq!(pair.host(Right).dropped().stray, 4);
}

/// RFC 9293 §3.10.7.4: data before or beyond the window is answered with an ACK of the expected sequence number.
#[test]
fn data_outside_the_window_is_answered() {
    let mut pair = opened(&plain());
    check_on(
        "outside the window",
        &mut pair,
        |pair| {
            pair.write(Left, b"0123456789");
            pair.settle();
            pair.forge(Right, Flags::ACK, 1, 1, b"01234");
            pair.forge(Right, Flags::ACK, 80_000, 1, b"01234");
            pair.settle();
        },
        expect![[r#"
            scenario: outside the window
               0.150  A ──► B   PSH ACK       seq=1 len=10 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=11 win=59990
               0.250  A ──► B   ACK           seq=1 len=5 ack=1 win=65535     (forged)
               0.250  A ◄── B   ACK           seq=1 ack=11 win=59990
               0.250  A ──► B   ACK           seq=80000 len=5 ack=1 win=65535     (forged)
               0.250  A ◄── B   ACK           seq=1 ack=11 win=59990
        "#]],
    );
    assert_eq!(pair.received[1], b"0123456789");
}

/// RFC 5961 §5.2: an acknowledgement number is implausible if it lies below SND.UNA by more than the largest window.
/// The segment is answered with a challenge ACK, and its data is not accepted.
#[test]
fn an_ancient_acknowledgement_is_challenged() {
    let mut pair = opened(&plain_with(&[("rcvbuf", "4000B"), ("mss", "1000B")]));
    check_on(
        "ancient acknowledgement",
        &mut pair,
        |pair| {
            pair.forge(Right, Flags::ACK, 1, -60_000, b"blind");
            pair.settle();
        },
        expect![[r#"
            scenario: ancient acknowledgement
               0.150  A ──► B   ACK           seq=1 len=5 ack=-60000 win=65535     (forged)
               0.150  A ◄── B   ACK           seq=1 ack=1 win=4000
        "#]],
    );
    assert_eq!(pair.received[1], b"");
}
