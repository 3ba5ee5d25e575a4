//! Tests of the rules about ECN marks, and about queues that grow.

use super::*;
use anabranch_base::Ecn;
use anabranch_wire::ip::ecn;
use anabranch_wire::sctp::Ecne;

/// Sends `count` chunks. The first `marked` of them have these ECN bits.
fn marks(count: u32, marked: u32, bits: Ecn) -> Scene {
    (0..count).fold(Scene::sctp(), |scene, n| {
        let at = 100 + n;
        let scene = scene.at(at, move |tape| {
            let bytes = sctp(true, TAG_B, |b| data(100 + n, 0).emit(b));
            let mut packet = tape.ip(132, A, B, &bytes);
            if n < marked {
                ecn::write(&mut packet, bits);
            }
            tape.frame(at * 1_000, &packet);
        });
        scene.sack(at + 50, 100 + n, 65_536)
    })
}

#[test]
fn congestion_marks_are_found() {
    let tcp = (0..20).fold(Scene::tcp(), |scene, n| {
        let at = 100 + n;
        let scene = scene.at(at, move |tape| {
            let begin = tape.bytes.len();
            segment(tape, at, A, acknowledgement(n * 100, 0, 10_000), &BYTES[..100]);
            // Marks the packet behind the header of the record and the Ethernet header.
            ecn::write(&mut tape.bytes[begin + 16 + 14..], Ecn::Ce);
        });
        let flags = Flags::ACK.with(Flags::ECE);
        scene.segment(at + 50, B, Header { flags, ..acknowledgement(0, (n + 1) * 100, 10_000) }, 0)
    });
    let found = check(
        "congestion_marks",
        [
            marks(50, 15, Ecn::Ce),
            marks(50, 15, Ecn::Ce).chunk(140, B, |b| Ecne { tsn: Tsn(110) }.emit(b)),
            tcp,
        ],
        [marks(50, 5, Ecn::Ce), marks(50, 50, Ecn::Ect0), marks(1_100, 10, Ecn::Ce)],
    );
    assert!(found[0].text.contains("Routers marked 15 of 52 packets from A"), "{}", found[0].text);
    assert!(found[0].text.contains("B reported no mark"), "{}", found[0].text);
    assert!(found[1].text.contains("B reported marks in 1 packet."), "{}", found[1].text);
}

/// Sends a chunk every 10 ms. The round trip grows from 50 ms by `growth` for each chunk, up to `most`.
fn queue(growth: u32, most: u32) -> Scene {
    (0..100).fold(Scene::sctp(), |scene, n| {
        let at = 100 + n * 10;
        scene.data(at, 100 + n).sack(at + (50 + n * growth).min(most), 100 + n, 65_536)
    })
}

#[test]
fn a_queue_that_grows_is_found() {
    let tcp = (0..100).fold(Scene::tcp(), |scene, n| {
        let at = 100 + n * 10;
        scene.sends(at, n * 100, 100).acks(at + 50 + n * 6, (n + 1) * 100, 60_000)
    });
    // One chunk is in flight at a time.
    let single = (0..60).fold(Scene::sctp(), |scene, n| {
        let at = 100 + n * 300;
        scene.data(at, 100 + n).sack(at + if n < 10 { 50 } else { 250 }, 100 + n, 65_536)
    });
    let found = check(
        "queue_growth",
        [queue(5, 1_000), tcp, queue(20, 600)],
        [queue(0, 1_000), queue(2, 120), single],
    );
    assert!(found[0].text.contains("Round trips took 50.0 ms at least (packet"), "{}", found[0].text);
}
