//! Tests of the rules about losses, their repair, and data that waits for the repair.

use super::*;
use anabranch_wire::sctp::{ForwardTsn, IForwardTsn};

/// Sends a chunk that is lost and repaired by a timeout. `turn` counts the repetitions.
fn timeout(scene: Scene, turn: u32) -> Scene {
    let at = 100 + turn * 1_200;
    scene.data(at, 100 + turn).data(at + 1_100, 100 + turn).sack(at + 1_150, 100 + turn, 65_536)
}

/// Sends three chunks of which the first is lost. The gap is reported once.
fn reported_timeout(scene: Scene, turn: u32) -> Scene {
    let (at, tsn) = (100 + turn * 1_200, 100 + turn * 3);
    let scene = (0..3).fold(scene, |scene, n| scene.data(at, tsn + n));
    scene.gap(at + 50, tsn - 1, 2, 3).data(at + 1_100, tsn).sack(at + 1_150, tsn + 2, 65_536)
}

/// Sends five chunks of which the first is lost. After three reports of the gap, it is sent again.
fn fast(scene: Scene, at: u32, tsn: u32) -> Scene {
    let scene = (0..5).fold(scene, |scene, n| scene.data(at + n, tsn + n));
    let scene = (2..5).fold(scene, |scene, n| scene.gap(at + 50 + n, tsn - 1, 2, n as u16));
    scene.data(at + 55, tsn).sack(at + 105, tsn + 4, 65_536)
}

#[test]
fn losses_that_only_timeouts_repair_are_found() {
    let tcp = (0..3).fold(Scene::tcp(), |scene, n| {
        let (at, seq) = (100 + n * 1_200, n * 500);
        scene.sends(at, seq, 500).sends(at + 1_100, seq, 500).acks(at + 1_150, seq + 500, 10_000)
    });
    // B already had all the data, so it reports the retransmissions as duplicates.
    let spurious = (0..3).fold(Scene::sctp(), |scene, n| {
        let (at, tsn) = (100 + n * 1_200, 100 + n);
        scene.data(at, tsn).data(at + 1_100, tsn).chunk(at + 1_150, B, move |b| {
            Sack { duplicates: &[Tsn(tsn)], ..sack(tsn, &[], &[]) }.emit(b);
        })
    });
    let found = check(
        "timeouts_only",
        [(0..3).fold(Scene::sctp(), timeout), tcp, (0..3).fold(Scene::sctp(), reported_timeout)],
        [
            (0..2).fold(Scene::sctp(), timeout),
            fast((0..3).fold(Scene::sctp(), timeout), 4_000, 103),
            spurious,
        ],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (3_300_000_000, &[6, 9, 12][..]));
    assert!(found[0].text.contains("B reported no gap"), "{}", found[0].text);
    assert!(found[2].text.contains("B reported gaps in 3 packets"), "{}", found[2].text);
}

/// Sends a small chunk, which arrives, and a large chunk at each of these times, which does not. B is alive.
fn large(times: &[u32]) -> Scene {
    let scene = Scene::sctp().data(90, 100).sack(140, 100, 65_536);
    let scene = times.iter().fold(scene, |scene, at| scene.sized(*at, 101, 1_400));
    scene.chunk(9_000, B, |b| Heartbeat { info: &[1, 2], rest: &[] }.emit(b))
}

#[test]
fn a_path_mtu_black_hole_is_found() {
    let tcp = || Scene::tcp().sends(100, 0, 1_400).sends(1_100, 0, 1_400).sends(3_100, 0, 1_400);
    let repaired =
        tcp().sends(7_100, 0, 500).acks(7_150, 500, 10_000).sends(7_150, 500, 900).acks(7_200, 1_400, 10_000);
    let found = check(
        "path_mtu_black_hole",
        [
            large(&[200, 1_200, 3_200]).end(10_000),
            repaired,
            tcp().segment(5_000, B, acknowledgement(0, 0, 10_000), 50).end(10_000),
        ],
        [
            large(&[200, 1_200, 3_200]).sized(150, 102, 1_400).gap(250, 100, 2, 2).sack(3_300, 102, 65_536),
            large(&[200, 1_200]).end(10_000),
            // Nothing from B arrives any more.
            tcp().end(10_000),
        ],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (9_800_000_000, &[7, 8, 9][..]));
    assert!(found[0].text.contains("in packets of 1448 bytes was sent 3 times"), "{}", found[0].text);
    assert!(found[1].text.contains("In packet 7, smaller packets repaired it."), "{}", found[1].text);
}

/// A router says in an ICMP error that a packet of A is too big, but A sends it again. Errors that say something else do not
/// explain the loss.
#[test]
fn a_sender_that_ignores_icmp_is_no_silent_black_hole() {
    use super::closing::error;
    use anabranch_base::IcmpKind::{TooBig, Unreachable};
    let stuck = || large(&[200, 1_200, 3_200]).end(10_000);
    let chunk = || (132, sctp(true, TAG_B, |b| data(101, 0).emit(b)));
    let tcp = || Scene::tcp().sends(100, 0, 1_400).sends(1_100, 0, 1_400).sends(3_100, 0, 1_400);
    let segment = || {
        let mut bytes = Vec::new();
        Header { source_port: 40_000, target_port: 80, ..acknowledgement(0, 0, 10_000) }.emit(&mut bytes);
        (6, bytes)
    };
    let repaired =
        tcp().sends(7_100, 0, 500).acks(7_150, 500, 10_000).sends(7_150, 500, 900).acks(7_200, 1_400, 10_000);
    let text = |scene: Scene| {
        let mut decoded =
            decode("test", &scene.tape().bytes[..], &Settings { max_events: EVENTS, ..Settings::default() })
                .expect("a capture");
        let findings = decoded.conversations.remove(0).findings;
        findings.into_iter().find(|finding| finding.rule == "path_mtu_black_hole").map(|finding| finding.text)
    };
    for (scene, words) in [
        (
            error(stuck(), 201, TooBig(1_280), chunk()),
            "in packet 8, that the next hop carries at most 1280 bytes",
        ),
        (error(stuck(), 1_201, TooBig(0), chunk()), "in packet 9, that the next hop carries less"),
        (
            error(repaired, 101, TooBig(576), segment()),
            "in packet 5, that the next hop carries at most 576 bytes",
        ),
    ] {
        let found = text(scene).expect("a finding");
        assert!(found.contains(words) && found.contains("A ignored the message"), "{found}");
    }
    for scene in [
        // The packets are not too big for this next hop.
        error(stuck(), 201, TooBig(1_448), chunk()),
        // The error is about another protocol.
        error(stuck(), 201, TooBig(1_280), (17, chunk().1)),
        error(stuck(), 201, Unreachable(anabranch_wire::icmp::code_v4::PORT), chunk()),
    ] {
        let found = text(scene).expect("a finding");
        assert!(found.ends_with("and no message about it arrives."), "{found}");
    }
    // A sends smaller packets as soon as it knows.
    let obeys = Scene::tcp().sends(100, 0, 1_400).sends(150, 0, 500).acks(200, 500, 10_000);
    assert_eq!(text(error(obeys, 140, TooBig(576), segment())), None);
}

/// Sends five chunks, and then FORWARD TSNs at each of these times. B answers each with a SACK.
fn forward(times: impl Iterator<Item = u32>, answer: u32) -> Scene {
    let scene = (0..5).fold(Scene::sctp(), |scene, n| scene.data(100, 100 + n)).sack(150, 100, 65_536);
    times.fold(scene, |scene, at| {
        scene.chunk(at, A, |b| ForwardTsn::write(b, Tsn(104), [])).sack(at + 50, answer, 65_536)
    })
}

#[test]
fn a_forward_tsn_that_is_never_accepted_is_found() {
    let interleaved = (0..6).fold(
        (0..5).fold(Scene::sctp(), |scene, n| scene.data(100, 100 + n)).sack(150, 100, 65_536),
        |scene, n| {
            let at = 200 + n * 60;
            scene.chunk(at, A, |b| IForwardTsn::write(b, Tsn(104), [])).sack(at + 50, 100, 65_536)
        },
    );
    let found = check(
        "forward_tsn_ping_pong",
        [
            forward((0..6).map(|n| 200 + n * 100), 100),
            interleaved,
            forward((0..20).map(|n| 200 + n * 50), 102),
        ],
        [
            forward((0..4).map(|n| 200 + n * 100), 100),
            forward((0..6).map(|n| 200 + n * 100), 104),
            // The SACKs were in flight when A sent the first FORWARD TSN.
            forward((0..10).map(|n| 200 + n * 4), 100),
        ],
    );
    assert_eq!((found[0].cost_ns, found[0].packets[0], found[0].packets.len()), (500_000_000, 11, 6));
}

/// Sends a chunk every 10 ms, and a FORWARD TSN for it `delay` later. B acknowledges each after a round trip.
fn abandoned(count: u32, delay: u32) -> Scene {
    (0..count).fold(Scene::sctp(), |scene, n| {
        let (at, tsn) = (100 + n * 10, 100 + n);
        let forward = move |b: &mut Vec<u8>| ForwardTsn::write(b, Tsn(tsn), []);
        scene.data(at, tsn).chunk(at + delay, A, forward).sack(at + 50, tsn, 65_536)
    })
}

/// A sender without retransmissions abandons data as soon as it is sent. Its FORWARD TSNs must be found, although
/// nothing is lost.
#[test]
fn forward_tsns_for_data_in_flight_are_found() {
    let rules = |scene: Scene| -> Vec<&str> {
        scene.conversation().findings.iter().map(|finding| finding.rule).collect()
    };
    assert_eq!(rules(abandoned(30, 1)), ["forward_tsn_ping_pong"]);
    assert_eq!(rules(abandoned(10, 1)), [""; 0], "few are harmless");
    assert_eq!(rules(abandoned(30, 60)), [""; 0], "the data had a round trip to arrive");
}

/// Sends chunks on these streams. The first one is lost and sent again after `delay`.
fn lost_head(streams: &'static [u16], delay: u32, unordered: bool) -> Scene {
    let count = streams.len() as u32;
    let chunk = move |n: u32| Data { unordered, ..data(100 + n, streams[n as usize]) };
    let scene =
        (0..count).fold(Scene::sctp(), |scene, n| scene.chunk(100 + n * 10, A, move |b| chunk(n).emit(b)));
    let scene = (2..5).fold(scene, |scene, n| scene.gap(150 + n * 10, 99, 2, n as u16));
    scene
        .chunk(100 + delay, A, move |b| chunk(0).emit(b))
        .sack(150 + delay, 99 + count, 65_536)
        .data(200 + delay, 100 + count)
}

#[test]
fn data_that_waits_for_lost_data_is_found() {
    let tcp = (0..5).fold(Scene::tcp(), |scene, n| scene.sends(100 + n * 10, n * 100, 100));
    let tcp = (2..5).fold(tcp, |scene, n| {
        let mut header = acknowledgement(0, 0, 10_000);
        header.options.sack.push(Seq(101), Seq(1 + n * 100));
        scene.segment(150 + n * 10, B, header, 0)
    });
    let tcp = tcp.sends(500, 0, 100).acks(550, 500, 10_000).sends(600, 500, 100);
    let found = check(
        "head_of_line_blocking",
        [lost_head(&[1, 2, 1, 2, 1], 400, false), tcp, lost_head(&[1, 1, 1, 1, 1, 1], 200, false)],
        [
            lost_head(&[1, 2, 2, 2, 2], 400, false),
            lost_head(&[1, 1, 1, 1, 1], 80, false),
            lost_head(&[1, 1, 1, 1, 1], 400, true),
        ],
    );
    // The chunk of packet 7 was sent at 120 ms.
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (380_000_000, &[7, 13][..]));
    assert!(found[0].text.contains("on stream 1 waited"), "{}", found[0].text);
    assert!(found[1].text.starts_with("All later data of A waited"), "{}", found[1].text);
}

/// Nothing answers the retransmissions, so the later data may be lost as well, and does not wait.
#[test]
fn later_data_does_not_wait_without_a_repair() {
    let scene = (0..5).fold(Scene::sctp(), |scene, n| scene.data(100 + n * 10, 100 + n));
    assert_eq!(scene.data(3_100, 100).data(9_100, 100).conversation().findings, []);
}

/// Sends 40 chunks. The chunks with the numbers `lost` are lost. The loss is reported three times, and they are sent
/// again.
fn burst(lost: impl Iterator<Item = u32> + Clone, duplicates: &'static [Tsn]) -> Scene {
    let scene = (0..40).fold(Scene::sctp(), |scene, n| scene.data(100 + n, 100 + n));
    let first = lost.clone().min().unwrap_or(0);
    let scene = (0..3).fold(scene, |scene, n| {
        let start = 38 - first as u16;
        scene.gap(160 + n, 99 + first, start, start + n as u16)
    });
    let scene = lost.fold(scene, |scene, n| scene.data(170 + n, 100 + n));
    scene.chunk(300, B, move |b| Sack { duplicates, ..sack(139, &[], &[]) }.emit(b))
}

#[test]
fn a_burst_of_losses_is_found() {
    static DUPLICATES: [Tsn; 12] = {
        let mut all = [Tsn(0); 12];
        let mut n = 0;
        while n < 12 {
            all[n] = Tsn(110 + n as u32);
            n += 1;
        }
        all
    };
    let tcp = (0..30).fold(Scene::tcp(), |scene, n| scene.sends(100 + n, n * 100, 100));
    let tcp = (0..3).fold(tcp, |scene, n| {
        let mut header = acknowledgement(0, 500, 10_000);
        header.options.sack.push(Seq(2_001), Seq(2_101 + n * 100));
        scene.segment(160 + n, B, header, 0)
    });
    let tcp = (5..20).fold(tcp, |scene, n| scene.sends(170 + n, n * 100, 100)).acks(300, 3_000, 10_000);
    let found = check(
        "loss_burst",
        [burst(10..22, &[]), tcp, burst((10..34).step_by(2), &[])],
        [burst(10..15, &[]), burst((0..36).step_by(3), &[]), burst(10..22, &DUPLICATES)],
    );
    assert!(found[0].text.starts_with("The network lost 12 pieces of A in one burst."), "{}", found[0].text);
    assert_eq!(found[0].cost_ns, 11_000_000);
}
