//! Associations with several addresses: verification, heartbeats, failover and failback (RFC 9260 §5.4, §6.4, §8).

use crate::net::{self, A, B};
use crate::script::Script;
use anabranch_base::engine::{Icmp, IcmpKind};
use anabranch_base::time::Duration;
use expect_test::expect;

/// RFC 9260 §5.1.2, §5.4: INIT and INIT ACK list the other addresses of each host, which HEARTBEATs then verify.
#[test]
fn two_addresses_each() {
    let mut script = Script::multi_homed(&[25, 40], &[]);
    script.associate().run(3_000);
    script.check(expect![[r#"
           0.000  A.1 ──► B.1   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 families=v4
           0.025  A.1 ◄── B.1   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie ip=10.0.1.2 ip=10.0.2.2
           0.050  A.1 ──► B.1   COOKIE ECHO
           0.075          B: accepted, 10 streams out, 10 in
           0.075  A.1 ◄── B.1   COOKIE ACK
           0.075  A.2 ◄── B.2   HEARTBEAT
           0.100          A: established, 10 streams out, 10 in
           0.100  A.2 ──► B.2   HEARTBEAT
           0.115  A.2 ──► B.2   HEARTBEAT ACK
           0.140  A.2 ◄── B.2   HEARTBEAT ACK
           0.155          B: path to 10.0.2.1 is up
           0.180          A: path to 10.0.2.2 is up
    "#]]);
}

/// RFC 9260 §5.4: an address that does not answer HEARTBEATs is not used. The association uses the other address.
#[test]
fn an_address_that_does_not_answer() {
    let mut script = Script::multi_homed(&[25, 40], &[("path_max_retrans", "2")]);
    script.kill(2).associate().run(10_000);
    script.send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
           0.000          network 2 fails
           0.000  A.1 ──► B.1   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 families=v4
           0.025  A.1 ◄── B.1   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie ip=10.0.1.2 ip=10.0.2.2
           0.050  A.1 ──► B.1   COOKIE ECHO
           0.075          B: accepted, 10 streams out, 10 in
           0.075  A.1 ◄── B.1   COOKIE ACK
           0.075  A.2 ◄── B.2   HEARTBEAT     ✗ lost
           0.100          A: established, 10 streams out, 10 in
           0.100  A.2 ──► B.2   HEARTBEAT     ✗ lost
           1.075  A.2 ◄── B.2   HEARTBEAT     ✗ lost
           1.100  A.2 ──► B.2   HEARTBEAT     ✗ lost
           3.075  A.2 ◄── B.2   HEARTBEAT     ✗ lost
           3.100  A.2 ──► B.2   HEARTBEAT     ✗ lost
           7.075          B: path to 10.0.2.1 is down
           7.100          A: path to 10.0.2.2 is down
          10.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
          10.025          B: received sid=0 len=100
          10.025  A.1 ◄── B.1   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §8.3: an idle destination gets a HEARTBEAT at intervals of HB.interval plus RTO, with a jitter of half an
/// RTO.
#[test]
fn heartbeats() {
    let mut script = Script::new(&[("hb_interval", "5s")]);
    script.associate().run(60_000);
    let drawn = script.net.ladder.take();
    let times: Vec<f64> = drawn
        .lines()
        .filter(|line| line.contains("A ──► B   HEARTBEAT"))
        .filter(|line| !line.contains("ACK"))
        .map(|line| line.split_whitespace().next().expect("a time").parse().expect("a number"))
        .collect();
    // HB.interval is 5 s and the RTO is 1 s, so the intervals between HEARTBEATs are 5.5 to 6.5 s.
    assert!((8..=11).contains(&times.len()), "{times:?}");
    for pair in times.windows(2) {
        assert!((5.4..=6.6).contains(&(pair[1] - pair[0])), "{times:?}");
    }
    let rest: Vec<_> = drawn.lines().take(8).collect();
    assert!(rest.iter().any(|line| line.contains("HEARTBEAT ACK")) || drawn.contains("HEARTBEAT ACK"));
}

/// RFC 9260 §8.2: network 1 fails during a transfer. The RTO is 1 s and Path.Max.Retrans is 2. T3-rtx expires 1, 3 and
/// 7 s after the last acknowledgement. The third expiration exceeds the limit, so the path is declared failed after 7
/// s. Lost data is sent to the alternate address from the first expiration on.
#[test]
fn failover() {
    let mut script = Script::established_on(&[25, 40], &[("path_max_retrans", "2")]);
    script.run_to(10_000).kill(1);
    for _ in 0..12 {
        script.send(A, 0, 1_000).run(1_000);
    }
    script.run(3_000);
    script.check(expect![[r#"
          10.000          network 1 fails
          10.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
          11.000  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
          11.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
          11.040          B: received sid=0 len=1000
          11.040  A.2 ◄── B.2   SACK          cum=1 rwnd=64k
          13.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=1000 BE
          13.000  A.1 ──► B.1   DATA          tsn=3 sid=0 ssn=2 len=1000 BE     ✗ lost
          13.040          B: received sid=0 len=1000
          13.240  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
          17.000          A: path to 10.0.1.2 is down
          17.000  A.2 ──► B.2   DATA          tsn=3 sid=0 ssn=2 len=1000 BE
          17.000  A.2 ──► B.2   DATA          tsn=4 sid=0 ssn=3 len=1000 BE
          17.000  A.2 ──► B.2   DATA          tsn=5 sid=0 ssn=4 len=1000 BE
          17.000  A.2 ──► B.2   DATA          tsn=6 sid=0 ssn=5 len=1000 BE
          17.000  A.2 ──► B.2   DATA          tsn=7 sid=0 ssn=6 len=1000 BE
          17.040          B: received sid=0 len=1000
          17.040          B: received sid=0 len=1000
          17.040  A.2 ◄── B.2   SACK          cum=4 rwnd=64k
          17.040          B: received sid=0 len=1000
          17.040          B: received sid=0 len=1000
          17.040  A.2 ◄── B.2   SACK          cum=6 rwnd=64k
          17.040          B: received sid=0 len=1000
          17.080  A.2 ──► B.2   DATA          tsn=8 sid=0 ssn=7 len=1000 BE
          17.120          B: received sid=0 len=1000
          17.120  A.2 ◄── B.2   SACK          cum=8 rwnd=64k
          18.000  A.2 ──► B.2   DATA          tsn=9 sid=0 ssn=8 len=1000 BE
          18.040          B: received sid=0 len=1000
          18.240  A.2 ◄── B.2   SACK          cum=9 rwnd=64k
          19.000  A.2 ──► B.2   DATA          tsn=10 sid=0 ssn=9 len=1000 BE
          19.040          B: received sid=0 len=1000
          19.240  A.2 ◄── B.2   SACK          cum=10 rwnd=64k
          20.000  A.2 ──► B.2   DATA          tsn=11 sid=0 ssn=10 len=1000 BE
          20.040          B: received sid=0 len=1000
          20.240  A.2 ◄── B.2   SACK          cum=11 rwnd=64k
          21.000  A.2 ──► B.2   DATA          tsn=12 sid=0 ssn=11 len=1000 BE
          21.040          B: received sid=0 len=1000
          21.240  A.2 ◄── B.2   SACK          cum=12 rwnd=64k
    "#]]);
    let failure = script.net.ends[0].engine.totals().path_changes[0];
    assert_eq!(failure.at.as_nanos() / 1_000_000, 17_000, "down after 1 + 2 + 4 s");
}

/// RFC 9260 §8.2, §8.3: the primary path recovers. A HEARTBEAT detects the recovery, and data is sent on the primary
/// path again.
#[test]
fn failback() {
    let changes = [("path_max_retrans", "1"), ("hb_interval", "3s")];
    let mut script = Script::established_on(&[25, 40], &changes);
    script.run_to(10_000).kill(1);
    for _ in 0..6 {
        script.send(A, 0, 1_000).run(1_000);
    }
    script.heal(1).run(20_000);
    script.forget();
    script.send(A, 0, 1_000).run(1_000);
    let drawn = script.net.ladder.take();
    assert!(drawn.contains("A.1 ──► B.1   DATA"), "data is back on the primary:\n{drawn}");
    script.check(expect![[""]]);
}

/// Both networks fail, and one network recovers before Association.Max.Retrans is exceeded. The association survives,
/// and the data arrives.
#[test]
fn everything_fails_for_a_while() {
    let mut script = Script::established_on(&[25, 40], &[("path_max_retrans", "3")]);
    script.run_to(10_000).kill(1).kill(2).send(A, 0, 1_000).run(6_000).heal(2).run(30_000);
    script.check(expect![[r#"
          10.000          network 1 fails
          10.000          network 2 fails
          10.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
          11.000  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
          12.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
          14.000  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
          16.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
          16.000          network 2 is back
          20.000  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
          20.040          B: received sid=0 len=1000
          20.040  A.2 ◄── B.2   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.4: SACKs are sent to the source address of the data. With `sack_path=other`, they are sent to the other
/// address.
#[test]
fn sacks_on_the_other_path() {
    let mut script = Script::established_on(&[25, 40], &[("sack_path", "other")]);
    script.send(A, 0, 5_000).run(2_000);
    script.check(expect![[r#"
           4.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           4.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=0 len=1452
           4.000  A.1 ──► B.1   DATA          tsn=3 sid=0 ssn=0 len=1452
           4.025  A.2 ◄── B.2   SACK          cum=1 rwnd=64084
           4.025  A.2 ◄── B.2   SACK          cum=3 rwnd=61180
           4.065  A.1 ──► B.1   DATA          tsn=4 sid=0 ssn=0 len=644 E
           4.090          B: received sid=0 len=5000
           4.290  A.2 ◄── B.2   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 9260 §11.1.3: the application chooses another primary path. From that time on, data is sent on this path.
#[test]
fn another_primary() {
    let mut script = Script::established_on(&[25, 40], &[]);
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.set_primary(now, id, 1).expect("verified");
    script.send(A, 0, 1_000).run(1_000);
    script.check(expect![[r#"
        4.000          A: primary is 10.0.2.2
        4.000  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
        4.040          B: received sid=0 len=1000
        4.040  A.2 ◄── B.2   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 4960 Appendix A: a CE mark is echoed until a CWR reports that the window was reduced.
#[test]
fn ecn() {
    let mut script = Script::established(&[("ecn", "yes"), ("delack", "0")]);
    script.mark(A, "DATA tsn=2 ").send(A, 0, 4_000).run(400).send(A, 0, 1_000).run(1_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     marked CE
           1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E
           1.025  A ◄── B   SACK          cum=1 rwnd=64084
           1.025  A ◄── B   ECNE          tsn=2; SACK cum=2 rwnd=62632
           1.025          B: received sid=0 len=4000
           1.025  A ◄── B   ECNE          tsn=2; SACK cum=3 rwnd=64k
           1.400  A ──► B   CWR           tsn=2; DATA tsn=4 sid=0 ssn=1 len=1000 BE
           1.425          B: received sid=0 len=1000
           1.425  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
    assert_eq!(stats.ecn_reductions, 1);
}

/// RFC 9260 §7.3, §10 ICMP7: an ICMP message reports a smaller MTU, and later packets are not larger.
#[test]
fn icmp_tells_the_mtu() {
    let mut script = Script::established(&[]);
    script.send(A, 0, 2_000).run(1_000);
    // The ICMP message quotes the ports and the tag of A's last packet.
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    let (source, target) = script.ports(A);
    let mut quoted = Vec::new();
    anabranch_wire::sctp::packet::begin(&mut quoted, source, target, tag);
    let icmp = Icmp {
        kind: IcmpKind::TooBig(600),
        source: net::address(A, 1).ip(),
        target: net::address(B, 1).ip(),
    };
    script.net.icmp(A, &icmp, &quoted[..8]);
    script.send(A, 0, 2_000).run(1_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=548 E
           1.025  A ◄── B   SACK          cum=1 rwnd=64084
           1.025          B: received sid=0 len=2000
           1.225  A ◄── B   SACK          cum=2 rwnd=64k
           2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=552 B
           2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=552
           2.000  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=552
           2.000  A ──► B   DATA          tsn=6 sid=0 ssn=1 len=344 E
           2.025  A ◄── B   SACK          cum=4 rwnd=64432
           2.025          B: received sid=0 len=2000
           2.025  A ◄── B   SACK          cum=6 rwnd=64k
    "#]]);
    // An ICMP message that quotes another tag is forged, and must have no effect.
    quoted[4] ^= 1;
    script.net.icmp(A, &Icmp { kind: IcmpKind::TooBig(300), ..icmp }, &quoted[..8]);
    assert_eq!(script.net.ends[0].engine.info(script.id(A)).expect("info").paths[0].mtu, 600);
}

/// RFC 9260 §8.2: errors on the alternate path alone do not end the association.
#[test]
fn the_alternate_fails() {
    let changes = [("path_max_retrans", "1"), ("hb_interval", "2s"), ("assoc_max_retrans", "3")];
    let mut script = Script::established_on(&[25, 40], &changes);
    script.run_to(10_000).kill(2).run(60_000).send(A, 0, 100).run(1_000);
    let drawn = script.net.ladder.take();
    // The exact times depend on the jitter of the HEARTBEATs, so they are not compared.
    let lines: Vec<_> = drawn
        .lines()
        .filter(|line| line.contains("path to") || line.contains("closed"))
        .map(|line| line.trim_start().split_once(' ').map_or(line, |(_, text)| text.trim()))
        .collect();
    expect![[r#"
        B: path to 10.0.2.1 is down
        A: path to 10.0.2.2 is down
    "#]]
    .assert_eq(&crate::script::flush_left(&lines.join("\n")));
    let _ = B;
}

/// A path fails during a transfer. The interruption begins at the last acknowledgement before the failure, and ends at
/// the first acknowledgement that arrives on the other path. Bytes count for the path on which they were acknowledged.
/// The receiver sees an interruption of the same length.
#[test]
fn an_interruption_is_told_by_both_ends() {
    let changes = [("pf_max_retrans", "0"), ("sndbuf", "20000B"), ("hb_interval", "3s")];
    let mut script = Script::established_on(&[25, 40], &changes);
    script.net.draws_ladder = false;
    // B sends a request, and A answers with data.
    script.run_to(2_000).send(B, 0, 100).run(1_000);
    let send = |script: &mut Script, rounds: u64| {
        for _ in 0..rounds {
            script.send(A, 0, 1_000).run(100);
        }
    };
    send(&mut script, 20);
    let failed = script.net.now;
    script.kill(1);
    send(&mut script, 40);
    let interruptions: Vec<_> = script.net.ends.iter().map(|end| end.engine.totals().interruptions).collect();
    for (side, interruptions) in interruptions.iter().enumerate() {
        let [it] = interruptions[..] else { panic!("{side}: {interruptions:?}") };
        // The interruption begins when the last SACK or DATA arrives on the failed path: at most one SACK delay plus
        // one round trip before the failure. The first DATA after the failure waits for T3-rtx (1 s).
        assert!(it.since <= failed + Duration::from_millis(50), "{side}: {it:?}");
        assert!(failed.since(it.since) <= Duration::from_millis(300), "{side}: {it:?}");
        let outage = it.until.since(it.since);
        assert!((1_000..1_500).contains(&outage.as_millis()), "{side}: {outage:?}");
        assert_ne!(it.from, it.to, "{side}");
    }
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("it lives");
    let acked: Vec<u64> = info.paths.iter().map(|path| path.stats.bytes_acked).collect();
    assert!(acked[0] >= 18 * 1_016 && acked[1] >= 35 * 1_016, "{acked:?}");
    assert_eq!(info.paths.iter().map(|path| path.current).collect::<Vec<_>>(), [false, true]);
}

/// A pause without data to send is no interruption, even if the next data uses another path.
#[test]
fn an_idle_pause_is_no_interruption() {
    let mut script = Script::established_on(&[25, 40], &[("hb_interval", "3s"), ("path_max_retrans", "1")]);
    script.net.draws_ladder = false;
    script.run_to(2_000).send(A, 0, 1_000).run(2_000).kill(1);
    // In 60 s, HEARTBEATs detect the failure.
    script.run(60_000).send(A, 0, 1_000).run(2_000);
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("it lives");
    assert!(info.paths[1].current && info.outstanding == 0, "{info:?}");
    for end in &script.net.ends {
        assert_eq!(end.engine.totals().interruptions, []);
    }
}

/// Returns the beginning and the end of each interruption in milliseconds.
fn times(told: &[anabranch_sctp::Interruption]) -> Vec<(u64, u64)> {
    let ms = |at: anabranch_base::Instant| at.since(anabranch_base::Instant::ZERO).as_millis() as u64;
    told.iter().map(|it| (ms(it.since), ms(it.until))).collect()
}

/// Network 1 fails during a transfer, and each new chunk waits for T3-rtx until the path is declared failed. Each of
/// these waits is an interruption, although the acknowledgements before and after it arrived on the same path. The
/// receiver detects the interruptions, because a part of a message is missing.
#[test]
fn each_wait_for_t3_after_a_failure_is_an_interruption() {
    let mut script = Script::established_on(&[25, 40], &[("path_max_retrans", "2")]);
    script.net.draws_ladder = false;
    // B sends a message first, because only data that arrives after B's own data can be an answer.
    script.run_to(9_000).send(B, 0, 100).run(1_000);
    script.send(A, 0, 1_000).run(100).kill(1).send(A, 0, 30_000).run(20_000);
    let mut told = |side| times(&script.net.end(side).engine.totals().interruptions);
    assert_eq!(told(A), [(10_100, 11_180), (11_380, 13_380), (13_380, 17_180)]);
    assert_eq!(told(B), [(10_025, 11_140), (11_140, 13_140), (13_140, 17_140)]);
}

/// No interruption is recorded while data waits for a round trip, a delayed SACK, or a retransmission before T3-rtx
/// expires. This holds for short and long round trips.
#[test]
fn a_wait_of_less_than_an_rto_is_no_interruption() {
    for delays in [[25, 40], [300, 400]] {
        let mut script = Script::established_on(&delays, &[]);
        script.run_to(9_000).send(B, 0, 100).run(2_000);
        script.lose(A, "tsn=5 ").lose(A, "tsn=20 ").send(A, 0, 60_000).run(30_000);
        let id = script.id(A);
        assert_eq!(script.net.end(A).engine.info(id).expect("it lives").outstanding, 0);
        let stats = script.net.end(A).engine.stats(id).expect("it lives");
        assert_eq!((stats.retransmitted_fast, stats.t3_expirations), (2, 0), "{delays:?}");
        for end in &script.net.ends {
            assert_eq!(end.engine.totals().interruptions, [], "{delays:?}");
        }
    }
}
