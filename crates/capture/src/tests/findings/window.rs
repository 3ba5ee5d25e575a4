//! Tests of the rules about the receive window of SCTP and TCP, and the flow control of QUIC and HTTP/2.

use super::*;
use crate::data_class::DataClass;
use crate::tests::encrypted::vector;
use crate::timeline::{self, Event};

/// Sends five chunks of 100 bytes, which B acknowledges with this window.
fn window_of(window: u32) -> Scene {
    let scene = (0..5).fold(Scene::sctp(), |scene, n| scene.data(100, 100 + n));
    scene.sack(150, 104, window)
}

#[test]
fn a_window_that_closes_for_good_is_found() {
    let found = check(
        "window_closed",
        [
            window_of(0).data(1_200, 105).sack(1_250, 104, 0).data(3_200, 105).sack(3_250, 104, 0).end(5_000),
            window_of(50).end(5_000),
            Scene::tcp().sends(100, 0, 1_000).acks(150, 1_000, 0).end(10_000),
        ],
        [
            window_of(0).sack(800, 104, 65_536).end(5_000),
            window_of(0).end(650),
            window_of(0)
                .chunk(200, A, |b| Shutdown { cumulative: Tsn(699) }.emit(b))
                .chunk(2_000, B, |b| ShutdownAck.emit(b))
                .chunk(2_050, A, |b| ShutdownComplete::default().emit(b))
                .end(5_000),
        ],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (4_850_000_000, &[10, 11, 13][..]));
    assert!(found[0].text.contains("A probed it in packets 11 and 13."), "{}", found[0].text);
    assert!(found[1].text.contains("(50 bytes left)"), "{}", found[1].text);
}

/// A receive window that closes within a message must be reported as a deadlock. The receiver has no room for the rest
/// of the message, and cannot deliver the message without it.
#[test]
fn a_window_that_closes_within_a_message_is_a_deadlock() {
    let part = |millis, tsn, begin, end| {
        move |scene: Scene| scene.chunk(millis, A, move |b| Data { begin, end, ..data(tsn, 2) }.emit(b))
    };
    let scene = part(100, 101, false, false)(part(100, 100, true, false)(Scene::sctp())).sack(150, 101, 0);
    let scene = part(1_200, 102, false, true)(scene).sack(1_250, 101, 0).end(5_000);
    let findings = scene.conversation().findings;
    let found = findings.iter().find(|finding| finding.rule == "window_closed").expect("a finding");
    assert!(found.text.contains("The message on stream 2 is not complete"), "{}", found.text);
}

/// A sends five chunks at once in each round trip, and B acknowledges all of them with this window.
fn turns(window: u32, count: u32) -> Scene {
    (0..count).fold(Scene::sctp(), |scene, turn| {
        let (at, tsn) = (100 + turn * 50, 100 + turn * 5);
        let scene = (0..5).fold(scene, |scene, n| scene.data(at, tsn + n));
        scene.sack(at + 50, tsn + 4, window)
    })
}

/// A sends four segments of 1,000 bytes in each round trip.
fn tcp_turns(scene: Scene, window: u16) -> Scene {
    let scene = scene.acks(60, 0, window);
    (0..20).fold(scene, |scene, turn| {
        let (at, seq) = (100 + turn * 50, turn * 4_000);
        let scene = (0..4).fold(scene, |scene, n| scene.sends(at, seq + n * 1_000, 1_000));
        scene.acks(at + 50, seq + 4_000, window)
    })
}

fn scaled() -> Scene {
    let with_scale = |mut header: Header| {
        header.options.window_scale = Some(2);
        header
    };
    Scene(Vec::new())
        .segment(0, A, with_scale(syn(0, Flags::SYN)), 0)
        .segment(50, B, with_scale(syn(1, Flags::SYN.with(Flags::ACK))), 0)
        .segment(50, A, acknowledgement(0, 0, 10_000), 0)
}

#[test]
fn a_window_that_limits_the_sender_is_found() {
    let found = check(
        "window_limited",
        [turns(500, 20), tcp_turns(Scene::tcp(), 4_000), tcp_turns(scaled(), 1_000)],
        [
            turns(65_536, 20),
            turns(500, 3),
            // The scale of the window is unknown, because the handshake was not captured.
            tcp_turns(Scene(Vec::new()), 4_000),
        ],
    );
    assert!(found[0].text.contains("limited A for 0.950 s of 0.950 s"), "{}", found[0].text);
    assert!(found[2].text.contains("it was at most 4000 bytes"), "{}", found[2].text);
}

fn piece(stream: u64, offset: u64, ends: bool) -> Event {
    Event::Data(timeline::Data {
        units: (0, 1),
        stream,
        offset,
        bytes: 1_000,
        wire_len: 1_200,
        flight: 1,
        class: DataClass::New,
        begins: false,
        ends,
    })
}

#[test]
fn a_limit_of_flow_control_that_stops_the_sender_is_found() {
    let (a, b) = (0, 1);
    let faults = [
        (
            vec![
                (0, a, piece(4, 0, false)),
                (10, a, Event::Blocked(Some(4), 1_000)),
                (900, b, Event::Limit(Some(4), 9_000)),
                (900, a, piece(4, 1_000, true)),
            ],
            1_000,
        ),
        (vec![(0, a, piece(4, 0, false)), (10, a, Event::Blocked(None, 1_000))], 5_000),
        (
            vec![
                (0, b, Event::Limit(Some(0), 2_000)),
                (0, a, piece(0, 0, false)),
                (1, a, piece(0, 1_000, false)),
                (800, b, Event::Limit(Some(0), 4_000)),
                (800, a, piece(0, 2_000, true)),
            ],
            1_000,
        ),
    ];
    let found: Vec<Finding> = faults.iter().flat_map(|(events, end)| judged("quic", events, *end)).collect();
    let rules: Vec<&str> = found.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["flow_control_limited"; 3], "{found:#?}");
    assert!(found[0].text.contains("of stream 4 limited A for 0.890 s"), "{}", found[0].text);
    assert!(found[1].text.contains("of the connection") && found[1].text.contains("did not raise"));
    let near_misses = [
        vec![
            (0, a, piece(4, 0, false)),
            (10, a, Event::Blocked(Some(4), 1_000)),
            (110, b, Event::Limit(Some(4), 9_000)),
            (1_000, a, piece(4, 1_000, true)),
        ],
        vec![
            (0, b, Event::Limit(Some(4), 9_000)),
            (1, a, piece(4, 0, false)),
            (900, a, piece(4, 1_000, true)),
        ],
        vec![(0, b, Event::Limit(Some(4), 1_000)), (1, a, piece(4, 0, true)), (900, a, piece(8, 0, true))],
    ];
    for events in near_misses {
        assert_eq!(judged("quic", &events, 1_000), []);
    }
}

/// A asks for a response of 3,000 bytes with this initial window of HTTP/2, and raises the window later.
fn http2(initial: u32, raised: u32) -> Scene {
    let frame = |kind: u8, flags: u8, stream: u8, content: &[u8]| {
        [&vector(3, content)[..3], &[kind, flags, 0, 0, 0, stream], content].concat()
    };
    let settings = frame(4, 0, 0, &[&[0, 4][..], &initial.to_be_bytes()].concat());
    let asked = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &frame(1, 5, 1, &[0x82])].concat();
    let part = frame(0, 0, 1, &BYTES[..1_000]);
    let answer = [&frame(1, 4, 1, &[0x88])[..], &part, &part].concat();
    let update = frame(8, 0, 1, &9_000_u32.to_be_bytes());
    let rest = frame(0, 1, 1, &BYTES[..1_000]);
    let [asked_len, answer_len, update_len] = [&asked, &answer, &update].map(|bytes| bytes.len() as u32);
    Scene::tcp()
        .payload(100, A, acknowledgement(0, 0, 10_000), asked)
        .payload(150, B, acknowledgement(0, asked_len, 10_000), answer)
        .payload(raised, A, acknowledgement(asked_len, answer_len, 10_000), update)
        .payload(raised + 50, B, acknowledgement(answer_len, asked_len + update_len, 10_000), rest)
}

#[test]
fn a_small_window_of_http2_is_found() {
    let limited = http2(2_000, 900).conversation().findings;
    let found = limited.iter().find(|finding| finding.rule == "flow_control_limited").expect("a finding");
    assert!(found.text.contains("of stream 1 limited B for 0.750 s"), "{}", found.text);
    for scene in [http2(9_000, 900), http2(2_000, 250)] {
        let findings = scene.conversation().findings;
        assert!(findings.iter().all(|finding| finding.rule != "flow_control_limited"), "{findings:#?}");
    }
}
