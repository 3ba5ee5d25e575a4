//! The peer's window when it is closed, small or scaled (RFC 9293 §3.8.6, RFC 7323 §2).

use crate::common::*;
use anabranch_tcp::testing::Fate;
use anabranch_wire::tcp::{Flags, Header, Seq};
use expect_test::expect;
use std::time::Duration;

/// RFC 9293 §3.8.6.1: a closed window is probed at growing intervals until it opens.
#[test]
fn a_closed_window_is_probed() {
    let mut pair = opened(&plain_with(&[("rcvbuf", "2000B")]));
    check_on(
        "closed window",
        &mut pair,
        |pair| {
            pair.reads[1] = false;
            pair.write(Left, &pattern(5000));
            pair.run_for(Duration::from_secs(8));
            pair.reads[1] = true;
            pair.read(Right);
            pair.run_for(Duration::from_secs(2));
        },
        expect![[r#"
            scenario: closed window
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=2000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=2000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=1000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=0
               1.250  A ──► B   ACK           seq=2001 len=1 ack=1 win=2000
               1.300  A ◄── B   ACK           seq=1 ack=2001 win=0
               3.250  A ──► B   ACK           seq=2001 len=1 ack=1 win=2000
               3.300  A ◄── B   ACK           seq=1 ack=2001 win=0
               7.250  A ──► B   ACK           seq=2001 len=1 ack=1 win=2000
               7.300  A ◄── B   ACK           seq=1 ack=2001 win=0
               8.150  A ◄── B   ACK           seq=1 ack=2001 win=2000
               8.200  A ──► B   ACK           seq=2001 len=1000 ack=1 win=2000
               8.200  A ──► B   ACK           seq=3001 len=1000 ack=1 win=2000
               8.250  A ◄── B   ACK           seq=1 ack=3001 win=2000
               8.250  A ◄── B   ACK           seq=1 ack=4001 win=2000
               8.300  A ──► B   PSH ACK       seq=4001 len=1000 ack=1 win=2000
               8.350  A ◄── B   ACK           seq=1 ack=5001 win=2000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(5000));
    assert_eq!(pair.stats(Left).probes, 3);
}

/// With `window_probe=empty`, probes carry no data, as in Linux. Their sequence number lies one before the next one, so the
/// peer must answer. Each answer starts the wait for the next probe anew.
#[test]
fn an_empty_segment_probes_a_closed_window() {
    let mut pair = opened(&plain_with(&[("rcvbuf", "2000B"), ("window_probe", "empty")]));
    check_on(
        "empty probes",
        &mut pair,
        |pair| {
            pair.reads[1] = false;
            pair.write(Left, &pattern(3000));
            pair.run_for(Duration::from_secs(5));
            pair.reads[1] = true;
            pair.read(Right);
            pair.run_for(Duration::from_secs(2));
        },
        expect![[r#"
            scenario: empty probes
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=2000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=2000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=1000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=0
               1.250  A ──► B   ACK           seq=2000 ack=1 win=2000
               1.300  A ◄── B   ACK           seq=1 ack=2001 win=0
               3.350  A ──► B   ACK           seq=2000 ack=1 win=2000
               3.400  A ◄── B   ACK           seq=1 ack=2001 win=0
               5.150  A ◄── B   ACK           seq=1 ack=2001 win=2000
               5.200  A ──► B   PSH ACK       seq=2001 len=1000 ack=1 win=2000
               5.250  A ◄── B   ACK           seq=1 ack=3001 win=2000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(3000));
    assert_eq!(pair.stats(Left).probes, 2);
}

/// A window that is too small for a segment stays open. With `window_probe=empty`, a timer sends the data that fits, as new
/// data that the retransmission timer guards. The wait for the next probe is as long as that for the first.
#[test]
fn a_timer_fills_a_small_window() {
    let mut pair = opened(&plain_with(&[("rcvbuf", "2500B"), ("window_probe", "empty")]));
    check_on(
        "small window",
        &mut pair,
        |pair| {
            pair.reads[1] = false;
            pair.write(Left, &pattern(4000));
            pair.run_for(Duration::from_secs(4));
            pair.reads[1] = true;
            pair.read(Right);
            pair.run_for(Duration::from_secs(2));
        },
        expect![[r#"
            scenario: small window
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=2500
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=2500
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=1500
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=500
               1.250  A ──► B   ACK           seq=2001 len=500 ack=1 win=2500
               1.300  A ◄── B   ACK           seq=1 ack=2501 win=0
               2.350  A ──► B   ACK           seq=2500 ack=1 win=2500
               2.400  A ◄── B   ACK           seq=1 ack=2501 win=0
               4.150  A ◄── B   ACK           seq=1 ack=2501 win=2500
               4.200  A ──► B   ACK           seq=2501 len=1000 ack=1 win=2500
               4.200  A ──► B   PSH ACK       seq=3501 len=500 ack=1 win=2500
               4.250  A ◄── B   ACK           seq=1 ack=3501 win=2500
               4.250  A ◄── B   ACK           seq=1 ack=4001 win=2000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(4000));
}

/// A window update is lost. The acknowledgement of the next probe shows that the window is open.
#[test]
fn a_lost_window_update() {
    let mut pair = opened(&plain_with(&[("rcvbuf", "2000B")]));
    check_on(
        "window update lost",
        &mut pair,
        |pair| {
            pair.reads[1] = false;
            pair.write(Left, &pattern(3000));
            pair.settle();
            pair.lose(Right, &[4]);
            pair.reads[1] = true;
            pair.read(Right);
            pair.run_for(Duration::from_secs(3));
        },
        expect![[r#"
            scenario: window update lost
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=2000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=2000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=1000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=0
               0.250  A ◄── B   ACK           seq=1 ack=2001 win=2000     ✗ lost
               1.250  A ──► B   ACK           seq=2001 len=1 ack=1 win=2000
               1.300  A ◄── B   ACK           seq=1 ack=2002 win=1999
               1.350  A ──► B   PSH ACK       seq=2002 len=999 ack=1 win=2000
               1.400  A ◄── B   ACK           seq=1 ack=3001 win=2000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(3000));
}

/// RFC 9293 §3.8.6.2.2: if the receiving application reads few bytes at a time, the window opens in large steps, so
/// that the peer sends no small segments.
#[test]
fn a_slow_reader_makes_no_small_segments() {
    let mut pair = opened(&plain_with(&[("rcvbuf", "4000B")]));
    check_on(
        "slow reader",
        &mut pair,
        |pair| {
            pair.reads[1] = false;
            pair.write(Left, &pattern(6000));
            pair.settle();
            let id = pair.id(Right);
            let mut scratch = [0; 300];
            for _ in 0..12 {
                let now = pair.now;
                let count = pair.host(Right).recv(now, id, &mut scratch).expect("open");
                pair.received[1].extend_from_slice(&scratch[..count]);
                pair.pump();
                pair.run_for(Duration::from_millis(20));
            }
            pair.reads[1] = true;
            pair.read(Right);
            pair.run_for(Duration::from_secs(5));
        },
        expect![[r#"
            scenario: slow reader
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=4000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=4000
               0.150  A ──► B   ACK           seq=2001 len=1000 ack=1 win=4000
               0.150  A ──► B   ACK           seq=3001 len=1000 ack=1 win=4000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=3000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=2000
               0.200  A ◄── B   ACK           seq=1 ack=3001 win=1000
               0.200  A ◄── B   ACK           seq=1 ack=4001 win=0
               0.370  A ◄── B   ACK           seq=1 ack=4001 win=2100
               0.420  A ──► B   ACK           seq=4001 len=1000 ack=1 win=4000
               0.420  A ──► B   PSH ACK       seq=5001 len=1000 ack=1 win=4000
               0.470  A ◄── B   ACK           seq=1 ack=5001 win=2300
               0.470  A ◄── B   ACK           seq=1 ack=6001 win=1300
               0.490  A ◄── B   ACK           seq=1 ack=6001 win=4000
        "#]],
    );
    assert_eq!(pair.received[1], pattern(6000));
}

/// RFC 9293 §3.7.4: with the Nagle algorithm, a small segment waits while data is in flight. Full segments do not wait.
#[test]
fn nagle() {
    let mut pair = opened(&plain_with(&[("nagle", "yes")]));
    check_on(
        "Nagle",
        &mut pair,
        |pair| {
            pair.write(Left, b"one");
            pair.write(Left, b"two");
            pair.write(Left, b"three");
            pair.settle();
            pair.write(Left, &pattern(2500));
            pair.settle();
        },
        expect![[r#"
            scenario: Nagle
               0.150  A ──► B   PSH ACK       seq=1 len=3 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=4 win=59997
               0.250  A ──► B   PSH ACK       seq=4 len=8 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=12 win=59989
               0.350  A ──► B   ACK           seq=12 len=1000 ack=1 win=60000
               0.350  A ──► B   ACK           seq=1012 len=1000 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=1012 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=2012 win=60000
               0.450  A ──► B   PSH ACK       seq=2012 len=500 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=2512 win=59500
        "#]],
    );
}

/// Without the Nagle algorithm, the data of every write is sent immediately.
#[test]
fn no_nagle() {
    let mut pair = opened(&plain());
    check_on(
        "no Nagle",
        &mut pair,
        |pair| {
            pair.write(Left, b"one");
            pair.write(Left, b"two");
            pair.settle();
        },
        expect![[r#"
            scenario: no Nagle
               0.150  A ──► B   PSH ACK       seq=1 len=3 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=4 len=3 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=4 win=59997
               0.200  A ◄── B   ACK           seq=1 ack=7 win=59994
        "#]],
    );
}

/// RFC 7323 §2.3: windows above 65535 bytes are possible only if both sides send the window scale option.
#[test]
fn window_scale() {
    let config = plain_with(&[
        ("wscale", "yes"),
        ("rcvbuf_auto", "no"),
        ("rcvbuf", "1MB"),
        ("iw", "64"),
        ("sndbuf", "1MB"),
    ]);
    let pair = check(
        "window scale",
        &config,
        |pair| {
            pair.open();
            pair.write(Left, b"x");
            pair.settle();
        },
        expect![[r#"
            scenario: window scale
               0.000  A ──► B   SYN           seq=0 win=65535 mss=1000 ws=4
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1000 ws=4
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=62500
               0.150          B accepted
               0.150  A ──► B   PSH ACK       seq=1 len=1 ack=1 win=62500
               0.200  A ◄── B   ACK           seq=1 ack=2 win=62500
        "#]],
    );
    assert_eq!(pair.info(Left).peer_window, 1_000_000);
}

/// RFC 9293 §3.7.1, RFC 1191 §6: an ICMP message "packet too big" makes the segments smaller. The congestion window
/// does not change.
#[test]
fn too_big() {
    let mut pair = opened(&plain_with(&[("mss", "auto"), ("sack", "yes")]));
    let cwnd = pair.info(Left).cwnd;
    check_on(
        "too big",
        &mut pair,
        |pair| {
            pair.judge(|_, side, _, bytes| {
                if side == Left && bytes.len() + 20 > 1000 {
                    anabranch_tcp::testing::Fate::TooBig(1000)
                } else {
                    anabranch_tcp::testing::Fate::Arrive
                }
            });
            pair.write(Left, &pattern(4000));
            pair.settle();
        },
        expect![[r#"
            scenario: too big
               0.150  A ──► B   ACK           seq=1 len=1460 ack=1 win=60000     ✗ larger than 1000
               0.150  A ──► B   ACK           seq=1461 len=1460 ack=1 win=60000     ✗ larger than 1000
               0.150  A ──► B   PSH ACK       seq=2921 len=1080 ack=1 win=60000     ✗ larger than 1000
               0.200  A ──► B   ACK           seq=1 len=960 ack=1 win=60000
               0.200  A ──► B   ACK           seq=961 len=500 ack=1 win=60000
               0.200  A ──► B   ACK           seq=1461 len=960 ack=1 win=60000
               0.200  A ──► B   ACK           seq=2421 len=500 ack=1 win=60000
               0.200  A ──► B   ACK           seq=2921 len=960 ack=1 win=60000
               0.200  A ──► B   PSH ACK       seq=3881 len=120 ack=1 win=60000
               0.250  A ◄── B   ACK           seq=1 ack=961 win=59040
               0.250  A ◄── B   ACK           seq=1 ack=1461 win=60000
               0.250  A ◄── B   ACK           seq=1 ack=2421 win=59040
               0.250  A ◄── B   ACK           seq=1 ack=2921 win=60000
               0.250  A ◄── B   ACK           seq=1 ack=3881 win=59040
               0.250  A ◄── B   ACK           seq=1 ack=4001 win=58920
        "#]],
    );
    assert_eq!(pair.received[1], pattern(4000));
    assert!(pair.info(Left).cwnd >= cwnd && pair.stats(Left).timeouts == 0);
}

/// draft-minshall-nagle-01: a small segment waits only while another small segment is in flight.
#[test]
fn minshall() {
    let mut pair = opened(&plain_with(&[("nagle", "minshall")]));
    check_on(
        "Minshall",
        &mut pair,
        |pair| {
            pair.write(Left, &pattern(2500));
            pair.write(Left, b"small");
            pair.settle();
            pair.write(Left, b"one");
            pair.write(Left, b"two");
            pair.settle();
        },
        expect![[r#"
            scenario: Minshall
               0.150  A ──► B   ACK           seq=1 len=1000 ack=1 win=60000
               0.150  A ──► B   ACK           seq=1001 len=1000 ack=1 win=60000
               0.150  A ──► B   PSH ACK       seq=2001 len=500 ack=1 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=1001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2001 win=60000
               0.200  A ◄── B   ACK           seq=1 ack=2501 win=59500
               0.250  A ──► B   PSH ACK       seq=2501 len=5 ack=1 win=60000
               0.300  A ◄── B   ACK           seq=1 ack=2506 win=59495
               0.350  A ──► B   PSH ACK       seq=2506 len=3 ack=1 win=60000
               0.400  A ◄── B   ACK           seq=1 ack=2509 win=59492
               0.450  A ──► B   PSH ACK       seq=2509 len=3 ack=1 win=60000
               0.500  A ◄── B   ACK           seq=1 ack=2512 win=59489
        "#]],
    );
}

/// RFC 9293 §3.8.6.1: the peer closes its window while data is in flight, and answers all probes. The connection does
/// not time out.
#[test]
fn a_window_closed_over_data_is_waited_for() {
    let mut pair = opened(&plain_with(&[("retries", "3")]));
    pair.judge(|_, side, _, bytes| if side == Left && bytes.len() > 500 { Fate::Lose } else { Fate::Arrive });
    pair.write(Left, &pattern(2000));
    for _ in 0..60 {
        let port = pair.info(Left).local.port();
        let [iss, irs] = pair.first_numbers();
        let header = Header {
            source_port: 80,
            target_port: port,
            seq: Seq(irs),
            ack: Seq(iss),
            flags: Flags::ACK,
            ..Header::default()
        };
        pair.forge_header(Left, &header, b"");
        pair.run_for(Duration::from_secs(2));
    }
    assert!(pair.stats(Left).timeouts > 3);
    pair.judge(|_, _, _, _| Fate::Arrive);
    pair.run_for(Duration::from_secs(300));
    assert!(pair.received[1] == pattern(2000));
}

/// With a limit on unsent data, the send buffer accepts as many bytes as the congestion window plus the limit. The
/// transfer does not stall.
#[test]
fn the_unsent_limit_counts_beyond_the_congestion_window() {
    let run = |limit: Option<u64>| {
        let mut pair = opened(&with(&[("mss", "1000B"), ("sndbuf", "1MB"), ("iw", "10"), ("rcvbuf", "1MB")]));
        let id = pair.id(Left);
        if let Some(bytes) = limit {
            pair.host(Left).limit_unsent(id, bytes);
        }
        let mut most = 0;
        pair.queue(Left, &pattern(400_000));
        pair.pump();
        while !pair.is_fed(Left) && pair.step() {
            let cwnd = pair.info(Left).cwnd;
            most = most.max((pair.host(Left).buffered_bytes(id) as u64).saturating_sub(cwnd));
        }
        pair.settle();
        assert_eq!(pair.received[1], pattern(400_000));
        most
    };
    let (open, bounded) = (run(None), run(Some(16_000)));
    assert!(open > 16_000 && bounded <= 16_000, "{open} {bounded}");
}
