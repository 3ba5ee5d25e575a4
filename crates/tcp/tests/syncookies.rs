//! SYN cookies, for a listener that cannot remember all its handshakes (RFC 4987 §3.6).

use crate::common::*;
use anabranch_tcp::testing::{Fate, Pair};
use anabranch_wire::tcp::{Flags, Header, Options, Seq, Timestamps};
use expect_test::expect;

/// Sends a flood of SYNs from ports that never answer.
fn flood(pair: &mut Pair, count: u16) {
    for n in 0..count {
        let header = Header {
            source_port: 1_000 + n,
            target_port: 80,
            seq: Seq(u32::from(n)),
            flags: Flags::SYN,
            window: 1_000,
            options: Options { mss: Some(1_460), ..Options::default() },
            ..Header::default()
        };
        pair.forge_header(Right, &header, b"");
        pair.pump();
    }
}

/// RFC 4987 §3.6: while a flood of SYNs fills the backlog, an honest peer can connect and keeps all its options. The
/// listener remembers no more connections than its backlog allows.
#[test]
fn an_honest_peer_gets_in_through_a_flood() {
    for (syncookies, gets_in) in [("auto", true), ("no", false)] {
        let server = with(&[("syncookies", syncookies), ("backlog", "8"), ("timestamps", "yes")]);
        let mut pair = Pair::with(with(&[("timestamps", "yes")]), server, 1).silent();
        // Packets to the source ports of the flood are lost, so these ports never answer.
        pair.judge(|_, side, _, bytes| {
            let target = u16::from_be_bytes([bytes[2], bytes[3]]);
            if side == Right && (1_000..2_000).contains(&target) { Fate::Lose } else { Fate::Arrive }
        });
        flood(&mut pair, 500);
        assert_eq!(pair.host(Right).connections(), 8);
        pair.connect();
        pair.run_for(std::time::Duration::from_millis(200));
        let open = pair.info(Left).state == anabranch_tcp::State::Established;
        assert_eq!(open, gets_in, "syncookies={syncookies}");
        if gets_in {
            assert_eq!(pair.host(Right).connections(), 9);
            let (client, server) = (pair.info(Left), pair.info(Right));
            assert!(client.sack && server.sack && client.timestamps && server.timestamps);
            pair.write(Left, &pattern(100_000));
            pair.settle();
            assert!(pair.received[1] == pattern(100_000), "every byte");
        }
    }
}

/// With `syncookies=yes`, every handshake uses a cookie. If the peer sends no timestamps, only the MSS of its SYN is
/// preserved.
#[test]
fn without_timestamps_only_the_mss_is_kept() {
    let mut pair = Pair::with(with(&[("timestamps", "no")]), with(&[("syncookies", "yes")]), 1);
    check_on(
        "cookies always",
        &mut pair,
        |pair| {
            pair.open();
            pair.write(Left, b"hello");
            pair.settle();
        },
        expect![[r#"
            scenario: cookies always
               0.000  A ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=65535
               0.150          B accepted
               0.150  A ──► B   PSH ACK       seq=1 len=5 ack=1 win=65535
               0.200  A ◄── B   ACK           seq=1 ack=6 win=65530
        "#]],
    );
    assert_eq!(pair.received[1], b"hello");
    let info = pair.info(Right);
    assert!(!info.sack && !info.timestamps);
    assert_eq!(info.mss, 1_460);
}

/// The ACK that ends the handshake is lost. The first data segment also carries the cookie, and completes the
/// handshake.
#[test]
fn a_lost_ack_is_made_up_for_by_data() {
    let mut pair =
        Pair::with(with(&[("timestamps", "yes")]), with(&[("syncookies", "yes"), ("timestamps", "yes")]), 1);
    check_on(
        "ACK lost",
        &mut pair,
        |pair| {
            pair.judge(|_, side, n, _| if (side, n) == (Left, 2) { Fate::Lose } else { Fate::Arrive });
            pair.connect();
            pair.run_for(std::time::Duration::from_millis(150));
            pair.write(Left, b"hello");
            pair.settle();
        },
        expect![[r#"
            scenario: ACK lost
               0.000  A ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
               0.100  A connected
               0.100  A ──► B   ACK           seq=1 ack=1 win=512     ✗ lost
               0.150  A ──► B   PSH ACK       seq=1 len=5 ack=1 win=512
               0.200          B accepted
               0.200  A ◄── B   ACK           seq=1 ack=6 win=512
        "#]],
    );
    assert_eq!(pair.received[1], b"hello");
}

/// An ACK without a valid cookie is answered with a reset, and opens no connection.
#[test]
fn a_forged_ack_opens_nothing() {
    let mut pair = Pair::with(with(&[]), with(&[("syncookies", "yes")]), 1).silent();
    pair.open();
    let before = pair.host(Right).connections();
    for guess in 0..2_000_u32 {
        let header = Header {
            source_port: 1_000,
            target_port: 80,
            seq: Seq(1),
            ack: Seq(guess.wrapping_mul(0x9e37_79b9)),
            flags: Flags::ACK,
            window: 1_000,
            options: Options { timestamps: Some(Timestamps { value: 1, echo: guess }), ..Options::default() },
            ..Header::default()
        };
        pair.forge_header(Right, &header, b"");
        pair.pump();
    }
    assert_eq!(pair.host(Right).connections(), before);
    assert!(pair.host(Right).dropped().stray >= 2_000);
}
