//! Path MTU discovery by probes (RFC 8899 §6.2). A probe consists of a HEARTBEAT and a PAD chunk.

use crate::net::{self, A, B, IN_UDP, Narrow, V6};
use crate::script::Script;
use anabranch_base::engine::{Icmp, IcmpKind};
use anabranch_base::time::Duration;
use anabranch_wire::sctp::packet;
use expect_test::expect;

const PROBING: &[(&str, &str)] = &[("pmtud", "plpmtud")];

/// Sets up an association in network `n`, and runs for `ms` milliseconds. The network's MTU is `mtu`. If `sends_icmp`,
/// the network reports dropped packets by ICMP.
fn on(n: usize, mtu: usize, sends_icmp: bool, ms: u64) -> Script {
    let mut script = Script::in_network(n, PROBING);
    script.net.narrow.insert(n, Narrow { mtu, sends_icmp });
    script.associate().run(ms);
    script
}

fn mtu(script: &Script) -> u32 {
    script.net.ends[0].engine.info(script.id(A)).expect("info").paths[0].mtu
}

/// Returns A's probes, with their times, sizes and outcomes. Each line has one probe.
fn probes(script: &mut Script) -> String {
    let drawn = script.net.ladder.take();
    let lines: Vec<_> = drawn
        .lines()
        .filter(|line| line.contains("PAD") && line.contains("──►"))
        .map(|line| {
            let (time, rest) = line.trim_start().split_once(' ').expect("a time");
            let (_, size) = rest.split_once("PAD len=").expect("a size");
            let (filling, fate) = size.split_once(' ').unwrap_or((size, ""));
            // A probe has 68 bytes besides its padding: 20 of IP, 12 of SCTP, 32 of HEARTBEAT, and the PAD header of 4.
            let size = filling.parse::<usize>().expect("a number") + 68;
            format!("{time} {size} {}", fate.trim()).trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

/// RFC 8899 §5.2: on an ordinary path, only BASE_PLPMTU and MAX_PLPMTU are probed, and both probes are answered. New
/// messages are then divided into chunks for the larger size.
#[test]
fn a_path_as_wide_as_the_interface() {
    let mut script = Script::new(PROBING);
    script.associate().run(90).send(A, 0, 3_000).run(1_000).send(A, 0, 3_000).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.075  A ◄── B   HEARTBEAT; PAD len=1132
        0.100          A: established, 10 streams out, 10 in
        0.100  A ──► B   HEARTBEAT; PAD len=1132
        0.100  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1152 B
        0.100  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1152
        0.100  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=696 E
        0.100  A ──► B   HEARTBEAT ACK
        0.125  A ◄── B   HEARTBEAT ACK
        0.125  A ◄── B   SACK          cum=1 rwnd=64384
        0.125          B: received sid=0 len=3000
        0.125  A ◄── B   SACK          cum=3 rwnd=64k
        0.125  A ◄── B   HEARTBEAT; PAD len=1432
        0.150  A ──► B   HEARTBEAT; PAD len=1432
        0.150  A ──► B   HEARTBEAT ACK
        0.175  A ◄── B   HEARTBEAT ACK
        1.090  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1452 B
        1.090  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=1452
        1.090  A ──► B   DATA          tsn=6 sid=0 ssn=1 len=96 E
        1.115  A ◄── B   SACK          cum=5 rwnd=62632
        1.115          B: received sid=0 len=3000
        1.315  A ◄── B   SACK          cum=6 rwnd=64k
    "#]]);
    assert_eq!(mtu(&script), 1_500);
}

/// RFC 8899 §5.3: a link with an MTU of 1400 bytes sends no ICMP. The search starts at 1200. Three lost probes rule out
/// a size. Lost probes count neither as path errors nor as congestion.
#[test]
fn a_silent_link_of_1400() {
    let mut script = on(1, 1_400, false, 30_000);
    expect![[r#"
        0.100 1200
        0.150 1500 ✗ too big
        1.150 1500 ✗ too big
        2.150 1500 ✗ too big
        3.150 1348
        3.200 1424 ✗ too big
        4.200 1424 ✗ too big
        5.200 1424 ✗ too big
        6.200 1384
        6.250 1404 ✗ too big
        7.250 1404 ✗ too big
        8.250 1404 ✗ too big
        9.250 1392
        9.300 1396
        9.350 1400"#]]
    .assert_eq(&probes(&mut script));
    assert_eq!(mtu(&script), 1_400);
    let path = script.net.ends[0].engine.info(script.id(A)).expect("info").paths[0];
    assert_eq!((path.errors, path.rto.as_millis(), path.stats.black_holes), (0, 1_000, 0));
    script.forget();
    // RFC 8899 §5.1.1: the MTU of the link grows. PMTU_RAISE_TIMER expires after 600 s, and larger sizes are probed.
    script.net.narrow.clear();
    script.run(700_000);
    expect!["609.400 1500"].assert_eq(&probes(&mut script));
    assert_eq!(mtu(&script), 1_500);
}

/// RFC 8899 §4.6.2: the size that an ICMP message reports is probed next. The answer to this probe ends the search.
#[test]
fn a_link_of_1400_that_tells() {
    let mut script = on(1, 1_400, true, 5_000);
    expect![[r#"
        0.100 1200
        0.150 1500 ✗ too big, told
        0.150 1400"#]]
    .assert_eq(&probes(&mut script));
    assert_eq!(mtu(&script), 1_400);
}

/// RFC 8899 §4.3: during a transfer the link's MTU drops to 1300, without ICMP. When T3-rtx expires twice for the same
/// chunk, the size of the chunk may be the reason. The path returns to BASE_PLPMTU. Chunks that have a TSN are sent in
/// packets that the IP layer fragments. The search then finds 1300.
#[test]
fn a_black_hole() {
    let mut script = on(1, 1_500, false, 1_000);
    script.forget();
    script.net.narrow.insert(1, Narrow { mtu: 1_300, sends_icmp: false });
    script.send(A, 0, 4_000).run(4_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B     ✗ too big
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ too big
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E
        1.025  A ◄── B   SACK          cum=0 rwnd=64440 gaps=3
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B     ✗ too big
        4.000  A ──► B   HEARTBEAT; PAD len=1132
        4.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B     in fragments
        4.025  A ◄── B   HEARTBEAT ACK
        4.025  A ◄── B   SACK          cum=1 rwnd=62988 gaps=3
        4.050  A ──► B   HEARTBEAT; PAD len=1432     ✗ too big
        4.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     in fragments
        4.075          B: received sid=0 len=4000
        4.075  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
    script.run(30_000);
    expect![[r#"
        5.050 1500 ✗ too big
        6.050 1500 ✗ too big
        7.050 1348 ✗ too big
        8.050 1348 ✗ too big
        9.050 1348 ✗ too big
        10.050 1272
        10.100 1308 ✗ too big
        11.100 1308 ✗ too big
        12.100 1308 ✗ too big
        13.100 1288
        13.150 1296
        13.200 1300
        13.250 1304 ✗ too big
        14.250 1304 ✗ too big
        15.250 1304 ✗ too big"#]]
    .assert_eq(&probes(&mut script));
    assert_eq!(mtu(&script), 1_300);
    script.send(A, 0, 2_000).run(1_000);
    script.check(expect![[r#"
        35.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1252 B
        35.000  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=748 E
        35.025          B: received sid=0 len=2000
        35.025  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
    assert_eq!(script.net.ends[0].engine.info(script.id(A)).expect("info").paths[0].stats.black_holes, 1);
}

/// Two packets are lost by chance while the MTU of the path stays the same. Two probes then confirm the size in use.
#[test]
fn bad_luck_costs_two_probes() {
    let mut script = on(1, 1_500, false, 1_000);
    script.forget();
    script.lose_times(A, "DATA tsn=1 ", 2);
    script.send(A, 0, 1_400).run(8_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1400 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1400 BE     ✗ lost
        4.000  A ──► B   HEARTBEAT; PAD len=1132
        4.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1400 BE
        4.025  A ◄── B   HEARTBEAT ACK
        4.025          B: received sid=0 len=1400
        4.025  A ◄── B   SACK          cum=1 rwnd=64k
        4.050  A ──► B   HEARTBEAT; PAD len=1432
        4.075  A ◄── B   HEARTBEAT ACK
    "#]]);
    assert_eq!(mtu(&script), 1_500);
}

/// RFC 8899 §6.2.2: if packets are encapsulated in UDP, the sizes are 8 bytes smaller.
#[test]
fn in_udp() {
    let mut script = on(IN_UDP, 1_400, true, 3_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.075  A ◄── B   HEARTBEAT; PAD len=1124
        0.100          A: established, 10 streams out, 10 in
        0.100  A ──► B   HEARTBEAT; PAD len=1124
        0.100  A ──► B   HEARTBEAT ACK
        0.125  A ◄── B   HEARTBEAT ACK
        0.125  A ◄── B   HEARTBEAT; PAD len=1424     ✗ too big, told
        0.125  A ◄── B   HEARTBEAT; PAD len=1324
        0.150  A ──► B   HEARTBEAT; PAD len=1424     ✗ too big, told
        0.150  A ──► B   HEARTBEAT; PAD len=1324
        0.150  A ──► B   HEARTBEAT ACK
        0.175  A ◄── B   HEARTBEAT ACK
    "#]]);
    assert_eq!(mtu(&script), 1_400);
    assert_eq!(script.net.ends[0].engine.fragment_size(script.id(A)), 1_400 - 20 - 8 - 12 - 16);
}

/// RFC 8899 §5.1.2: the BASE_PLPMTU of IPv6 is 1280. Smaller sizes are not probed.
#[test]
fn in_ipv6() {
    let mut script = on(V6, 1_400, true, 3_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v6
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.075  A ◄── B   HEARTBEAT; PAD len=1192
        0.100          A: established, 10 streams out, 10 in
        0.100  A ──► B   HEARTBEAT; PAD len=1192
        0.100  A ──► B   HEARTBEAT ACK
        0.125  A ◄── B   HEARTBEAT ACK
        0.125  A ◄── B   HEARTBEAT; PAD len=1412     ✗ too big, told
        0.125  A ◄── B   HEARTBEAT; PAD len=1312
        0.150  A ──► B   HEARTBEAT; PAD len=1412     ✗ too big, told
        0.150  A ──► B   HEARTBEAT; PAD len=1312
        0.150  A ──► B   HEARTBEAT ACK
        0.175  A ◄── B   HEARTBEAT ACK
    "#]]);
    assert_eq!(mtu(&script), 1_400);
    let mut script = on(V6, 1_280, false, 40_000);
    assert_eq!(mtu(&script), 1_280);
    script.send(A, 0, 2_000).run(1_000);
    let drawn = script.net.ladder.take();
    assert!(drawn.ends_with("SACK          cum=2 rwnd=64k\n"), "{drawn}");
}

/// RFC 8899 §5.2: the MTU of a link is below BASE_PLPMTU, and the link sends no ICMP. The search enters the state ERROR
/// and continues with sizes below BASE_PLPMTU. HEARTBEATs without padding, sent because the path is idle, are answered,
/// so the probes must have been lost because of their size.
#[test]
fn narrower_than_base() {
    let mut script = on(1, 600, false, 60_000);
    assert_eq!(mtu(&script), 600);
    script.forget();
    script.send(A, 0, 1_000).run(1_000);
    script.check(expect![[r#"
        60.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=552 B
        60.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=448 E
        60.025  A ◄── B   SACK          cum=1 rwnd=64984
        60.025          B: received sid=0 len=1000
        60.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §5.1 C, RFC 8899 §4.3: DATA bundled with a COOKIE ECHO makes the packet too large for the path. The second
/// COOKIE ECHO is sent without DATA, so that it arrives.
#[test]
fn cookie_echo_with_too_much_data() {
    let mut script = Script::in_network(1, PROBING);
    script.net.narrow.insert(1, Narrow { mtu: 600, sends_icmp: false });
    script.associate().send(A, 0, 900).run(1_900);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=900 BE     ✗ too big
        1.050  A ──► B   COOKIE ECHO
        1.075          B: accepted, 10 streams out, 10 in
        1.075  A ◄── B   COOKIE ACK
        1.075  A ◄── B   HEARTBEAT; PAD len=1132     ✗ too big
        1.100          A: established, 10 streams out, 10 in
        1.100  A ──► B   HEARTBEAT; PAD len=1132     ✗ too big
        1.100  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=900 BE     ✗ too big
    "#]]);
    script.run(60_000);
    assert!(script.app(B).is_served(&Default::default()));
    assert_eq!(mtu(&script), 600);
}

/// RFC 9260 §5.2.6, RFC 8899 §4.3: T1-cookie is longer than the lifetime of a cookie, so every repeated COOKIE ECHO has
/// a stale cookie. Only the first COOKIE ECHO with a new cookie can succeed. If it also carried DATA, it would be too
/// large for this path, and the handshake would never end. Therefore the COOKIE ECHO after a stale cookie is sent
/// without DATA.
#[test]
fn stale_cookie_after_too_much_data() {
    let mut script = Script::in_network(1, &[("pmtud", "plpmtud"), ("cookie_life", "900ms")]);
    script.net.narrow.insert(1, Narrow { mtu: 600, sends_icmp: false });
    script.associate().send(A, 0, 900).send(A, 1, 200).run(1_900);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=900 BE     ✗ too big
        1.050  A ──► B   COOKIE ECHO
        1.075  A ◄── B   ERROR stale-cookie(150000us)
        1.100  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=200ms families=v4
        1.125  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        1.150  A ──► B   COOKIE ECHO
        1.175          B: accepted, 10 streams out, 10 in
        1.175  A ◄── B   COOKIE ACK
        1.175  A ◄── B   HEARTBEAT; PAD len=1132     ✗ too big
        1.200          A: established, 10 streams out, 10 in
        1.200  A ──► B   HEARTBEAT; PAD len=1132     ✗ too big
        1.200  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=900 BE; DATA tsn=2 sid=1 ssn=0 len=200 BE     ✗ too big
    "#]]);
    script.run(60_000);
    assert!(script.app(B).is_served(&Default::default()));
    assert_eq!(mtu(&script), 600);
}

/// RFC 9260 §5.1 C: DATA has arrived with the first COOKIE ECHO, but the COOKIE ACK and the SACK are lost. When the
/// repeated COOKIE ECHO is answered, the DATA is retransmitted and acknowledged. The message is not delivered twice.
#[test]
fn data_that_arrived_with_an_unanswered_cookie_echo() {
    let mut script = Script::new(PROBING);
    script.lose(B, "COOKIE ACK").associate().send(A, 0, 900).run(3_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=900 BE
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=900
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k     ✗ lost
        0.075  A ◄── B   HEARTBEAT; PAD len=1132
        0.100  A ──► B   HEARTBEAT ACK
        0.125  A ◄── B   HEARTBEAT; PAD len=1432
        0.150  A ──► B   HEARTBEAT ACK
        1.050  A ──► B   COOKIE ECHO
        1.075  A ◄── B   COOKIE ACK
        1.100          A: established, 10 streams out, 10 in
        1.100  A ──► B   HEARTBEAT; PAD len=1132
        1.100  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=900 BE
        1.125  A ◄── B   HEARTBEAT ACK
        1.125  A ◄── B   SACK          cum=1 rwnd=64k dups=1
        1.150  A ──► B   HEARTBEAT; PAD len=1432
        1.175  A ◄── B   HEARTBEAT ACK
    "#]]);
}

/// RFC 8899 §4.6.1: ICMP messages have no effect if no host on the path can have sent them, or if they report
/// impossible sizes.
#[test]
fn forged_icmp() {
    let mut script = on(1, 1_500, false, 1_000);
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    let (source, target) = script.ports(A);
    let mut quoted = Vec::new();
    packet::begin(&mut quoted, source, target, tag);
    let (source, target) = (net::address(A, 1).ip(), net::address(B, 1).ip());
    let tell = |script: &mut Script, mtu: u32, quoted: &[u8]| {
        script.net.icmp(A, &Icmp { kind: IcmpKind::TooBig(mtu), source, target }, quoted);
    };
    for size in [0, 1, 68, 296, 508, 1_500, 1_501, 65_535, u32::MAX] {
        tell(&mut script, size, &quoted[..8]);
        assert_eq!(mtu(&script), 1_500, "{size} says nothing");
    }
    let mut wrong = quoted.clone();
    wrong[4] ^= 1;
    tell(&mut script, 1_300, &wrong[..8]);
    tell(&mut script, 1_300, &quoted[..7]);
    assert_eq!(mtu(&script), 1_500, "another tag, or none");
    script.forget();
    script.run(10_000);
    script.check(expect![[""]]);
    // An ICMP message that quotes the right verification tag lowers the path MTU. Later probes raise the MTU again.
    tell(&mut script, 1_300, &quoted[..8]);
    assert_eq!(mtu(&script), 1_200);
    script.run(1_000);
    assert_eq!(mtu(&script), 1_300);
    script.run(610_000);
    assert_eq!(mtu(&script), 1_500);
}

/// In an outage, packets of all sizes are lost, so the path MTU does not change.
#[test]
fn an_outage() {
    let mut script = Script::new(PROBING);
    script.associate().run(90).kill(1).run(20_000).heal(1).run(10_000);
    assert_eq!(mtu(&script), 1_500);
}

/// RFC 8899 §4.3, RFC 9260 §6.1 A: a window probe is as large as other data. If several window probes get no answer,
/// their size may be the reason. So the peer does not count as unreachable.
#[test]
fn a_window_probe_in_a_black_hole() {
    let mut script = Script::established(&[PROBING, &[("rcvbuf", "3000B")]].concat());
    script.app(B).reading_pause = Duration::from_secs(2);
    script.lose_times(B, "rwnd=3000", 9).send(A, 0, 1_452).send(A, 0, 1_452).run(50);
    script.net.narrow.insert(1, Narrow { mtu: 1_300, sends_icmp: false });
    script.send(A, 0, 1_452).run(20_000);
    script.check(expect![[r#"
         1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE
         1.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE
         1.025  A ◄── B   SACK          cum=1 rwnd=1548
         1.225  A ◄── B   SACK          cum=2 rwnd=96
         2.250  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE     ✗ too big
         3.025  A ◄── B   SACK          cum=2 rwnd=3000     ✗ lost
         3.250  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE     ✗ too big
         5.250  A ──► B   HEARTBEAT; PAD len=1132
         5.250  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE     in fragments
         5.275  A ◄── B   HEARTBEAT ACK
         5.300  A ──► B   HEARTBEAT; PAD len=1432     ✗ too big
         5.475  A ◄── B   SACK          cum=3 rwnd=1548
         6.300  A ──► B   HEARTBEAT
         6.300  A ──► B   HEARTBEAT; PAD len=1432     ✗ too big
         6.325  A ◄── B   HEARTBEAT ACK
         7.275  A ◄── B   SACK          cum=3 rwnd=3000     ✗ lost
         7.300  A ──► B   HEARTBEAT; PAD len=1432     ✗ too big
         8.300  A ──► B   HEARTBEAT; PAD len=1280     ✗ too big
         9.300  A ──► B   HEARTBEAT
         9.300  A ──► B   HEARTBEAT; PAD len=1280     ✗ too big
         9.325  A ◄── B   HEARTBEAT ACK
        10.300  A ──► B   HEARTBEAT; PAD len=1280     ✗ too big
        11.300  A ──► B   HEARTBEAT; PAD len=1204
        11.325  A ◄── B   HEARTBEAT ACK
        11.350  A ──► B   HEARTBEAT; PAD len=1240     ✗ too big
        12.350  A ──► B   HEARTBEAT
        12.350  A ──► B   HEARTBEAT; PAD len=1240     ✗ too big
        12.375  A ◄── B   HEARTBEAT ACK
        13.350  A ──► B   HEARTBEAT; PAD len=1240     ✗ too big
        14.350  A ──► B   HEARTBEAT; PAD len=1220
        14.375  A ◄── B   HEARTBEAT ACK
        14.400  A ──► B   HEARTBEAT; PAD len=1228
        14.425  A ◄── B   HEARTBEAT ACK
        14.450  A ──► B   HEARTBEAT; PAD len=1232
        14.475  A ◄── B   HEARTBEAT ACK
        14.500  A ──► B   HEARTBEAT; PAD len=1236     ✗ too big
        15.500  A ──► B   HEARTBEAT
        15.500  A ──► B   HEARTBEAT; PAD len=1236     ✗ too big
        15.525  A ◄── B   HEARTBEAT ACK
        16.500  A ──► B   HEARTBEAT; PAD len=1236     ✗ too big
    "#]]);
}
