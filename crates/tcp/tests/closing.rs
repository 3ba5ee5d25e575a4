//! Connections that are closed in every possible order (RFC 9293 §3.6).

use crate::common::*;
use anabranch_tcp::testing::Pair;
use anabranch_tcp::{CloseReason, Event, State};
use anabranch_wire::tcp::Flags;
use expect_test::expect;

/// RFC 9293 §3.6 case 1: one side closes, and the other side closes later. The connection ends normally at both sides.
#[test]
fn one_after_the_other() {
    let mut pair = opened(&plain());
    check_on(
        "A closes, then B",
        &mut pair,
        |pair| {
            pair.finish(Left);
            pair.settle();
            assert_eq!(pair.info(Left).state, State::FinWait2);
            assert_eq!(pair.info(Right).state, State::CloseWait);
            pair.run_until(at(1_000));
            pair.finish(Right);
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: A closes, then B
               0.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000
               0.200          B sees the end
               0.200  A ◄── B   ACK           seq=1 ack=2 win=59999
               1.000  A ◄── B   FIN ACK       seq=1 ack=2 win=59999
               1.050  A sees the end
               1.050  A closed: closed by both sides
               1.050  A ──► B   ACK           seq=2 ack=2 win=59999
               1.100          B closed: closed by both sides
        "#]],
    );
    assert_eq!(pair.host(Left).connections() + pair.host(Right).connections(), 0);
}

/// RFC 9293 §3.6 case 3: both sides close at the same time. Both sides pass through TIME-WAIT.
#[test]
fn simultaneous_close() {
    let mut pair = opened(&plain());
    check_on(
        "simultaneous close",
        &mut pair,
        |pair| {
            pair.finish(Left);
            pair.finish(Right);
            pair.settle();
            assert_eq!(pair.info(Left).state, State::TimeWait);
            assert_eq!(pair.info(Right).state, State::TimeWait);
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: simultaneous close
               0.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000
               0.150  A ◄── B   FIN ACK       seq=1 ack=1 win=60000
               0.200          B sees the end
               0.200  A ◄── B   ACK           seq=2 ack=2 win=59999
               0.200  A sees the end
               0.200  A ──► B   ACK           seq=2 ack=2 win=59999
               0.250  A closed: closed by both sides
               0.250          B closed: closed by both sides
        "#]],
    );
}

/// After one side has closed, the other side can still send data.
#[test]
fn half_closed() {
    let mut pair = opened(&plain());
    check_on(
        "half closed",
        &mut pair,
        |pair| {
            pair.write(Left, b"question");
            pair.finish(Left);
            pair.settle();
            pair.write(Right, &pattern(2500));
            pair.finish(Right);
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: half closed
               0.150  A ──► B   PSH ACK       seq=1 len=8 ack=1 win=60000
               0.150  A ──► B   FIN ACK       seq=9 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=9 win=59992
               0.200          B sees the end
               0.200  A ◄── B   ACK           seq=1 ack=10 win=59991
               0.250  A ◄── B   ACK           seq=1 len=1000 ack=10 win=59991
               0.250  A ◄── B   ACK           seq=1001 len=1000 ack=10 win=59991
               0.250  A ◄── B   PSH ACK       seq=2001 len=500 ack=10 win=59991
               0.250  A ◄── B   FIN ACK       seq=2501 ack=10 win=59991
               0.300  A ──► B   ACK           seq=10 ack=1001 win=60000
               0.300  A ──► B   ACK           seq=10 ack=2001 win=60000
               0.300  A ──► B   ACK           seq=10 ack=2501 win=59500
               0.300  A sees the end
               0.300  A closed: closed by both sides
               0.300  A ──► B   ACK           seq=10 ack=2502 win=59499
               0.350          B closed: closed by both sides
        "#]],
    );
    assert_eq!(pair.received[0], pattern(2500));
}

/// With `fin=waiting`, a FIN is sent in the same segment as data that has to wait: for the congestion window, for the
/// peer's window, or by Nagle. Data that may be sent when it is written leaves the FIN alone, although the application
/// closes before the engine is asked for packets.
#[test]
fn the_fin_travels_with_data_that_waits() {
    // Knobs, the number of bytes written in each call, and whether the FIN has a segment of its own.
    type Case = (&'static [(&'static str, &'static str)], &'static [usize], bool);
    let cases: [Case; 8] = [
        (&[], &[500], true),
        (&[], &[2000], true),
        (&[], &[2500], false),
        (&[("nagle", "yes")], &[500, 500], false),
        (&[("nagle", "yes")], &[1500], false),
        (&[("nagle", "minshall")], &[1500], true),
        (&[("nagle", "minshall")], &[500, 500], false),
        (&[("rcvbuf", "1500B")], &[1600], false),
    ];
    for (changes, writes, alone) in cases {
        let mut config = plain_with(&[("iw", "2"), ("fin", "waiting"), ("wscale", "no")]);
        change(&mut config, changes);
        let mut pair = opened(&config);
        let (last, earlier) = writes.split_last().expect("a write");
        for bytes in earlier {
            pair.write(Left, &pattern(*bytes));
        }
        pair.queue(Left, &pattern(*last));
        pair.finish(Left);
        pair.run_until(at(5_000));
        let ladder = pair.ladder();
        let with_data = ladder.lines().any(|line| line.contains("A ──► B   FIN") && line.contains("len="));
        assert_eq!(!with_data, alone, "{changes:?}, {writes:?}:\n{ladder}");
        assert_eq!(pair.received[1].len(), writes.iter().sum::<usize>());
    }
}

/// By default, a FIN is sent in the same segment as the last unsent data. With `fin=alone`, the FIN is sent in a
/// segment of its own, and is also retransmitted without data.
#[test]
fn the_fin_travels_with_data_or_alone() {
    let run = |fin: &str, lost: &'static [u64], expect| {
        let mut pair = opened(&plain_with(&[("iw", "2"), ("fin", fin)]));
        let script = |pair: &mut Pair| {
            pair.lose_data(Left, lost, 1000);
            pair.write(Left, &pattern(2500));
            pair.finish(Left);
            pair.run_until(at(5_000));
        };
        check_on(&format!("fin={fin}, {} lost", lost.len()), &mut pair, script, expect);
        assert_eq!(pair.received[1], pattern(2500));
    };
    run(
        "data",
        &[],
        expect![[r#"
        scenario: fin=data, 0 lost
           0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
           0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
           0.250  A ──► B   FIN PSH ACK   seq=2001 len=500 ack=1 win=60000
           0.300          B sees the end
           0.300  A ◄── B   ACK           seq=1 ack=2502 win=59499
    "#]],
    );
    run(
        "alone",
        &[],
        expect![[r#"
        scenario: fin=alone, 0 lost
           0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
           0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
           0.250  A ──► B   PSH ACK       seq=2001 len=500 ack=1 win=60000
           0.250  A ──► B   FIN ACK       seq=2501 ack=1 win=60000
           0.300  A ◄── B   ACK           seq=1 ack=2501 win=59500
           0.300          B sees the end
           0.300  A ◄── B   ACK           seq=1 ack=2502 win=59499
    "#]],
    );
    // The segment with the last data is lost. If it carried the FIN, the retransmission carries the FIN as well.
    run(
        "data",
        &[3],
        expect![[r#"
        scenario: fin=data, 1 lost
           0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
           0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
           0.250  A ──► B   FIN PSH ACK   seq=2001 len=500 ack=1 win=60000     ✗ lost
           1.250  A ──► B   FIN PSH ACK   seq=2001 len=500 ack=1 win=60000
           1.300          B sees the end
           1.300  A ◄── B   ACK           seq=1 ack=2502 win=59499
    "#]],
    );
    run(
        "alone",
        &[3],
        expect![[r#"
        scenario: fin=alone, 1 lost
           0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
           0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
           0.250  A ──► B   PSH ACK       seq=2001 len=500 ack=1 win=60000     ✗ lost
           0.250  A ──► B   FIN ACK       seq=2501 ack=1 win=60000
           0.300  A ◄── B   ACK           seq=1 ack=2001 win=60000
           1.250  A ──► B   PSH ACK       seq=2001 len=500 ack=1 win=60000
           1.250  A ──► B   FIN ACK       seq=2501 ack=1 win=60000
           1.300          B sees the end
           1.300  A ◄── B   ACK           seq=1 ack=2502 win=59499
           1.300  A ◄── B   ACK           seq=1 ack=2502 win=59499
    "#]],
    );
}

/// tcp_fin of Linux: the acknowledgement of a FIN waits for this side's own FIN, at most for the acknowledgement delay.
/// A side that has already sent its FIN acknowledges the peer's FIN immediately.
#[test]
fn the_acknowledgement_of_a_fin_waits_for_ours() {
    let run = |name: &str, closes: bool, expect| {
        let mut pair = opened(&plain_with(&[("fin_delack", "yes"), ("delack", "40ms")]));
        let script = |pair: &mut Pair| {
            pair.finish(Left);
            pair.run_until(at(210));
            if closes {
                pair.finish(Right);
            }
            pair.run_until(at(400));
        };
        check_on(name, &mut pair, script, expect);
    };
    run(
        "a FIN in answer to one",
        true,
        expect![[r#"
        scenario: a FIN in answer to one
           0.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000
           0.200          B sees the end
           0.210  A ◄── B   FIN ACK       seq=1 ack=2 win=59999
           0.260  A sees the end
           0.260  A closed: closed by both sides
           0.260  A ──► B   ACK           seq=2 ack=2 win=59999
           0.310          B closed: closed by both sides
    "#]],
    );
    run(
        "no FIN in answer",
        false,
        expect![[r#"
        scenario: no FIN in answer
           0.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000
           0.200          B sees the end
           0.240  A ◄── B   ACK           seq=1 ack=2 win=59999
    "#]],
    );
}

/// A lost FIN is retransmitted by the retransmission timer.
#[test]
fn a_lost_fin_is_sent_again() {
    let mut pair = opened(&plain());
    check_on(
        "FIN lost",
        &mut pair,
        |pair| {
            pair.lose(Left, &[3]);
            pair.finish(Left);
            pair.run_until(at(2_000));
            pair.finish(Right);
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: FIN lost
               0.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000     ✗ lost
               1.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000
               1.200          B sees the end
               1.200  A ◄── B   ACK           seq=1 ack=2 win=59999
               2.000  A ◄── B   FIN ACK       seq=1 ack=2 win=59999
               2.050  A sees the end
               2.050  A closed: closed by both sides
               2.050  A ──► B   ACK           seq=2 ack=2 win=59999
               2.100          B closed: closed by both sides
        "#]],
    );
}

/// RFC 9293 §3.10.7.4: the last ACK of a close is lost. The side in TIME-WAIT acknowledges the retransmitted FIN and
/// restarts TIME-WAIT.
#[test]
fn the_last_ack_is_lost() {
    let mut pair = opened(&plain());
    check_on(
        "last ACK lost",
        &mut pair,
        |pair| {
            pair.lose(Left, &[4]);
            pair.finish(Left);
            pair.settle();
            pair.finish(Right);
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: last ACK lost
               0.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000
               0.200          B sees the end
               0.200  A ◄── B   ACK           seq=1 ack=2 win=59999
               0.250  A ◄── B   FIN ACK       seq=1 ack=2 win=59999
               0.300  A sees the end
               0.300  A closed: closed by both sides
               0.300  A ──► B   ACK           seq=2 ack=2 win=59999     ✗ lost
               1.250  A ◄── B   FIN ACK       seq=1 ack=2 win=59999
               1.300  A ──► B   ACK           seq=2 ack=2 win=59999
               1.350          B closed: closed by both sides
        "#]],
    );
}

/// RFC 9293 §3.10.5: aborting a connection sends a reset, which also ends the connection at the peer.
#[test]
fn abort() {
    let mut pair = opened(&plain());
    check_on(
        "abort",
        &mut pair,
        |pair| {
            pair.write(Left, &pattern(2000));
            pair.abort(Left);
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: abort
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=1001 len=1000 ack=1 win=60000
               0.150  A closed: aborted
               0.150  A ──► B   RST ACK       seq=2001 ack=1 win=0
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200          B closed: connection reset by the peer
               0.250  A ──► B   RST           seq=1001 win=0
               0.250  A ──► B   RST           seq=2001 win=0
        "#]],
    );
    let reasons: Vec<_> = pair
        .events
        .iter()
        .filter_map(|(_, side, event)| match event {
            Event::Closed { reason, .. } => Some((*side, *reason)),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [(Left, CloseReason::Aborted), (Right, CloseReason::Reset)]);
}

/// RFC 9293 §3.6.1: an application has closed both directions. Further data that arrives is answered with a reset.
#[test]
fn data_for_nobody_is_reset() {
    let mut pair = opened(&plain());
    check_on(
        "data after close",
        &mut pair,
        |pair| {
            let id = pair.id(Left);
            let now = pair.now;
            pair.host(Left).close(now, id);
            pair.pump();
            pair.settle();
            pair.write(Right, b"too late");
            pair.run_to_end(at(100_000));
        },
        expect![[r#"
            scenario: data after close
               0.150  A ──► B   FIN ACK       seq=1 ack=1 win=60000
               0.200          B sees the end
               0.200  A ◄── B   ACK           seq=1 ack=2 win=59999
               0.250  A ◄── B   PSH ACK       seq=1 len=8 ack=2 win=59999
               0.300  A closed: aborted
               0.300  A ──► B   RST ACK       seq=2 ack=9 win=0
               0.350          B closed: connection reset by the peer
        "#]],
    );
}

/// RFC 9293 §3.6.1: a new SYN with a higher sequence number may end TIME-WAIT, and opens a new connection.
#[test]
fn time_wait_makes_way() {
    let mut pair = opened(&plain());
    check_on(
        "TIME-WAIT reopened",
        &mut pair,
        |pair| {
            pair.finish(Right);
            pair.settle();
            pair.finish(Left);
            pair.settle();
            assert_eq!(pair.info(Right).state, State::TimeWait);
            pair.forge(Right, Flags::SYN, 90_000, 0, b"");
        },
        expect![[r#"
            scenario: TIME-WAIT reopened
               0.150  A ◄── B   FIN ACK       seq=1 ack=1 win=60000
               0.200  A sees the end
               0.200  A ──► B   ACK           seq=1 ack=2 win=59999
               0.250  A ──► B   FIN ACK       seq=1 ack=2 win=59999
               0.300          B sees the end
               0.300          B closed: closed by both sides
               0.300  A ◄── B   ACK           seq=2 ack=2 win=59999
               0.350  A closed: closed by both sides
               0.350  A ──► B   SYN           seq=0 win=65535     (forged)
               0.350  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
        "#]],
    );
}

/// The host changes its address. Connections from the old address end and send nothing. If the host has no address
/// left, its connections are kept.
#[test]
fn a_connection_ends_with_its_address() {
    let mut pair = opened(&plain());
    check_on(
        "A's address is gone",
        &mut pair,
        |pair| {
            let now = pair.now;
            pair.host(Left).set_addresses(now, &[]);
            pair.write(Left, &[7; 500]);
            pair.settle();
            pair.host(Left).set_addresses(now, &["10.9.0.1".parse().expect("an address")]);
            pair.settle();
        },
        expect![[r#"
            scenario: A's address is gone
               0.150  A ──► B   PSH ACK       seq=1 len=500 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=501 win=59500
        "#]],
    );
    assert_eq!(pair.host(Left).connections(), 0);
}
