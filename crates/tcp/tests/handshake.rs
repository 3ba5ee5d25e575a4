//! The handshake that opens a connection (RFC 9293 §3.5).

use crate::common::*;
use anabranch_tcp::testing::Fate;
use anabranch_tcp::{CloseReason, Event};
use anabranch_wire::tcp::Flags;
use expect_test::expect;

/// RFC 9293 §3.5: SYN, SYN-ACK and ACK open a connection. Then data flows in both directions.
#[test]
fn three_segments_open_a_connection() {
    let pair = check(
        "open, talk, close",
        &plain(),
        |pair| {
            pair.open();
            pair.write(Left, b"hello");
            pair.settle();
            pair.write(Right, b"world");
            pair.settle();
            close(pair);
        },
        expect![[r#"
            scenario: open, talk, close
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=60000
               0.150          B accepted
               0.150  A ──► B   PSH ACK       seq=1 len=5 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=6 win=59995
               0.250  A ◄── B   PSH ACK       seq=1 len=5 ack=6 win=59995
               0.300  A ──► B   ACK           seq=6 ack=6 win=59995
               0.350  A ──► B   FIN ACK       seq=6 ack=6 win=59995
               0.350  A ◄── B   FIN ACK       seq=6 ack=6 win=59995
               0.400          B sees the end
               0.400  A ◄── B   ACK           seq=7 ack=7 win=59994
               0.400  A sees the end
               0.400  A ──► B   ACK           seq=7 ack=7 win=59994
               0.450  A closed: closed by both sides
               0.450          B closed: closed by both sides
        "#]],
    );
    assert_eq!(pair.received[1], b"hello");
    assert_eq!(pair.received[0], b"world");
}

/// RFC 7323, RFC 2018: the SYN has all options that the profile `modern` offers.
#[test]
fn the_modern_profile_offers_its_options() {
    check(
        "modern options",
        &with(&[]),
        |pair| pair.open(),
        expect![[r#"
            scenario: modern options
               0.000  A ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=512
               0.150          B accepted
        "#]],
    );
}

#[test]
fn an_option_is_used_only_if_both_sides_offer_it() {
    let mut pair = anabranch_tcp::testing::Pair::with(with(&[]), plain(), 1);
    check_on(
        "modern meets plain",
        &mut pair,
        |pair| pair.open(),
        expect![[r#"
        scenario: modern meets plain
           0.000  A ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
           0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
           0.100  A connected
           0.100  A ──► B   ACK           seq=1 ack=1 win=65535
           0.150          B accepted
    "#]],
    );
    let info = pair.info(Left);
    assert!(!info.sack && !info.timestamps);
    assert_eq!(info.mss, 1000);
}

/// RFC 6298 §5: a lost SYN is retransmitted after an RTO, which doubles each time. After the handshake, the initial
/// window is one segment.
#[test]
fn a_lost_syn_is_sent_again() {
    check(
        "SYN lost twice",
        &plain(),
        |pair| {
            pair.lose(Left, &[1, 2]);
            pair.open();
            assert_eq!(pair.info(Left).rto, std::time::Duration::from_secs(3), "RFC 6298 §5.7");
            pair.write(Left, &pattern(3000));
            pair.settle();
        },
        expect![[r#"
            scenario: SYN lost twice
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000     ✗ lost
               1.000  A ──► B   SYN           seq=0 win=60000 mss=1000     ✗ lost
               3.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               3.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               3.100  A connected
               3.100  A ──► B   ACK           seq=1 ack=1 win=60000
               3.150          B accepted
               3.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               3.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               3.250  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               3.250  A ──► B   PSH ACK       seq=2001 len=1000 ack=1 win=60000
               3.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
               3.300  A ◄── B   ACK           seq=1 ack=3001 win=60000
        "#]],
    );
}

/// A lost SYN-ACK is retransmitted after an RTO by the side that sent it.
#[test]
fn a_lost_syn_ack_is_sent_again() {
    check(
        "SYN-ACK lost",
        &plain_with(&[("rto_initial", "3s")]),
        |pair| {
            pair.lose(Right, &[1]);
            pair.open();
        },
        expect![[r#"
            scenario: SYN-ACK lost
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000     ✗ lost
               3.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               3.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               3.100  A connected
               3.100  A ──► B   ACK           seq=1 ack=1 win=60000
               3.150          B accepted
        "#]],
    );
}

/// If the last ACK of the handshake is lost, the first data completes the handshake, because it carries an ACK.
#[test]
fn data_completes_the_handshake() {
    check(
        "handshake's ACK lost",
        &plain(),
        |pair| {
            pair.lose(Left, &[2]);
            pair.connect();
            pair.run_until(at(120));
            pair.write(Left, b"data");
            pair.settle();
        },
        expect![[r#"
            scenario: handshake's ACK lost
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=60000     ✗ lost
               0.120  A ──► B   PSH ACK       seq=1 len=4 ack=1 win=60000
               0.170          B accepted
               0.170  A ◄── B   ACK           seq=1 ack=5 win=59996
        "#]],
    );
}

/// If the peer never answers the SYN, the connection attempt fails after the configured number of retries.
#[test]
fn nobody_answers() {
    let pair = check(
        "no answer",
        &plain_with(&[("syn_retries", "3")]),
        |pair| {
            pair.judge(|_, _, _, _| Fate::Lose);
            pair.connect();
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: no answer
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000     ✗ lost
               1.000  A ──► B   SYN           seq=0 win=60000 mss=1000     ✗ lost
               3.000  A ──► B   SYN           seq=0 win=60000 mss=1000     ✗ lost
               7.000  A ──► B   SYN           seq=0 win=60000 mss=1000     ✗ lost
              15.000  A closed: the handshake timed out
        "#]],
    );
    assert!(matches!(
        pair.events[..],
        [(_, _, Event::Closed { reason: CloseReason::HandshakeTimedOut, .. })]
    ));
}

/// RFC 9293 §3.10.7.1: a SYN to a port without a listener is answered with a reset.
#[test]
fn a_closed_port_refuses() {
    let pair = check(
        "refused",
        &plain(),
        |pair| {
            pair.host(Right).close_listener(80);
            pair.connect();
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: refused
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.050  A ◄── B   RST ACK       seq=0 ack=1 win=0
               0.100  A closed: connection refused
        "#]],
    );
    assert!(matches!(pair.events[..], [(_, _, Event::Closed { reason: CloseReason::Refused, .. })]));
}

/// RFC 9293 §3.5: both sides send a SYN at the same time. The connection opens.
#[test]
fn simultaneous_open() {
    check(
        "simultaneous open",
        &plain(),
        |pair| {
            pair.judge(|_, side, n, _| if (side, n) == (Left, 1) { Fate::Lose } else { Fate::Arrive });
            pair.connect();
            // The test forges a SYN of the right side, which now looks as if it had also begun to connect.
            pair.forge(Left, Flags::SYN, 1000, 0, b"");
            pair.forge(Left, Flags::ACK, 1001, 1, b"");
        },
        expect![[r#"
            scenario: simultaneous open
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000     ✗ lost
               0.000  A ◄── B   SYN           seq=0 win=65535     (forged)
               0.000  A ──► B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               0.000  A ◄── B   ACK           seq=1001 ack=1 win=65535     (forged)
               0.000  A connected
        "#]],
    );
}

/// RFC 9293 §3.10.7.3: in SYN-SENT, a segment that acknowledges data that was never sent is answered with a reset. The
/// segment has no other effect.
#[test]
fn a_wrong_ack_in_syn_sent_is_reset() {
    check(
        "wrong ACK in SYN-SENT",
        &plain(),
        |pair| {
            pair.connect();
            pair.forge(Left, Flags::SYN.with(Flags::ACK), 0, 77, b"");
            pair.settle();
        },
        expect![[r#"
            scenario: wrong ACK in SYN-SENT
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.000  A ◄── B   SYN ACK       seq=0 ack=77 win=65535     (forged)
               0.000  A ──► B   RST           seq=77 win=0
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=60000
               0.150          B accepted
               0.150  A ◄── B   ACK           seq=1 ack=1 win=60000
        "#]],
    );
}

/// The backlog limits the number of half-open connections. A SYN beyond the limit is dropped, and the client
/// retransmits it.
#[test]
fn the_backlog_drops_silently() {
    let mut pair =
        anabranch_tcp::testing::Pair::with(plain(), plain_with(&[("backlog", "1"), ("syncookies", "no")]), 1);
    check_on(
        "backlog of one",
        &mut pair,
        |pair| {
            // The ACK of the first handshake is lost, so the connection remains half-open for a second.
            pair.judge(|_, side, n, _| if side == Left && n == 3 { Fate::Lose } else { Fate::Arrive });
            pair.connect();
            pair.run_until(at(60));
            pair.connect();
            pair.run_until(at(5_000));
        },
        expect![[r#"
            scenario: backlog of one
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               0.060  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.100  A connected
               0.100  A ──► B   ACK           seq=-643610060 ack=1 win=60000     ✗ lost
               1.050  A ◄── B   SYN ACK       seq=0 ack=-643610060 win=60000 mss=1000
               1.060  A ──► B   SYN           seq=0 win=60000 mss=1000
               1.100  A ──► B   ACK           seq=-643610060 ack=1 win=60000
               1.150          B accepted
               3.060  A ──► B   SYN           seq=0 win=60000 mss=1000
               3.110  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               3.160  A connected
               3.160  A ──► B   ACK           seq=1 ack=1 win=60000
               3.210          B accepted
        "#]],
    );
    assert_eq!(pair.host(Right).dropped().backlog, 2, "the second SYN, twice");
}

/// The accept queue is full because the application accepts no connections. The last ACK of a handshake is dropped
/// without a reset. The SYN-ACK and the ACK are repeated, and the connection opens when the queue has room.
#[test]
fn a_slow_acceptor_is_waited_for() {
    let mut pair = anabranch_tcp::testing::Pair::with(plain(), plain_with(&[("backlog", "2")]), 1);
    check_on(
        "slow acceptor",
        &mut pair,
        |pair| {
            // Both handshakes have started when the accept queue becomes full.
            pair.connect();
            pair.run_until(at(20));
            pair.connect();
            pair.run_until(at(110));
            pair.host(Right).set_accept_queue(80, 2);
            pair.run_until(at(500));
            pair.host(Right).set_accept_queue(80, 1);
            pair.run_until(at(5_000));
        },
        expect![[r#"
            scenario: slow acceptor
               0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.020  A ──► B   SYN           seq=0 win=60000 mss=1000
               0.050  A ◄── B   SYN ACK       seq=0 ack=-643600060 win=60000 mss=1000
               0.070  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               0.100  A connected
               0.100  A ──► B   ACK           seq=-643600060 ack=-1272688101 win=60000
               0.120  A connected
               0.120  A ──► B   ACK           seq=1 ack=1 win=60000
               1.050  A ◄── B   SYN ACK       seq=0 ack=-643600060 win=60000 mss=1000
               1.070  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
               1.100  A ──► B   ACK           seq=-643600060 ack=-1272688101 win=60000
               1.120  A ──► B   ACK           seq=1 ack=1 win=60000
               1.150          B accepted
               1.170          B accepted
        "#]],
    );
    assert!(pair.host(Right).dropped().backlog > 0);
}

/// RFC 5681 §3.1: after one lost SYN, the initial window is one segment. RFC 6928 §2: a larger initial window than that
/// of RFC 5681 falls to one segment only after two lost SYNs.
#[test]
fn lost_syns_and_the_initial_window() {
    for (iw, lost, segments) in
        [("4", 1, 1), ("10", 1, 10), ("10", 2, 1), ("rfc5681", 1, 1), ("rfc6928", 1, 10)]
    {
        let mut pair = anabranch_tcp::testing::Pair::new(&plain_with(&[("iw", iw)]));
        pair.judge(move |_, side, n, _| if side == Left && n <= lost { Fate::Lose } else { Fate::Arrive });
        pair.connect();
        pair.run_until(at(10_000));
        assert_eq!(pair.info(Left).cwnd, segments * 1000, "iw {iw}, {lost} SYNs lost");
    }
}
