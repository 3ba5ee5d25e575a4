//! Tests of the rules about senders that send nothing, and acknowledgements that come late.

use super::*;

/// Sends the first fragment of a message, which B acknowledges.
fn fragment() -> Scene {
    Scene::sctp().chunk(100, A, |b| Data { end: false, ..data(100, 3) }.emit(b)).sack(150, 100, 65_536)
}

/// Adds an HTTP request for 1,000 bytes, and a response that ends after 100 of them.
fn response() -> Scene {
    let request: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
    let head: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    let (asked, answered) = (request.len() as u32, head.len() as u32);
    Scene::tcp()
        .at(100, move |tape| segment(tape, 100, A, acknowledgement(0, 0, 10_000), request))
        .at(150, move |tape| segment(tape, 150, B, acknowledgement(0, asked, 10_000), head))
        .segment(151, B, acknowledgement(answered, asked, 10_000), 100)
        .segment(152, A, acknowledgement(asked, answered + 100, 10_000), 0)
}

#[test]
fn a_sender_with_room_that_stops_in_a_message_is_found() {
    let found = check(
        "room_unused",
        [
            fragment().end(5_000),
            fragment().chunk(4_000, A, |b| Data { begin: false, ..data(101, 3) }.emit(b)).end(4_500),
            response().end(10_000),
        ],
        [
            Scene::sctp().data(100, 100).sack(150, 100, 65_536).end(60_000),
            Scene::sctp()
                .chunk(100, A, |b| Data { end: false, ..data(100, 3) }.emit(b))
                .sack(150, 100, 0)
                .end(5_000),
            fragment().end(650),
        ],
    );
    assert_eq!((found[1].cost_ns, &found[1].packets[..]), (3_850_000_000, &[6, 7][..]));
    assert!(found[1].text.contains("for 3.850 s, until packet 7."), "{}", found[1].text);
    assert!(found[1].text.contains("stream 3 was not complete, so A had more"), "{}", found[1].text);
    assert!(found[2].text.contains("The packets do not show"), "{}", found[2].text);
}

fn unanswered() -> Scene {
    Scene::sctp().data(100, 100).data(101, 101).sack(150, 100, 65_536)
}

#[test]
fn data_that_is_not_sent_again_is_found() {
    let found = check(
        "not_retransmitted",
        [
            unanswered().end(20_000),
            Scene::tcp().sends(100, 0, 500).acks(150, 500, 10_000).sends(200, 500, 500).end(30_000),
            unanswered().data(1_100, 101).end(40_000),
        ],
        [
            unanswered().end(5_000),
            unanswered().data(1_000, 101).data(3_000, 101).data(7_000, 101).data(15_000, 101).end(26_000),
            unanswered().data(1_100, 101).sack(1_150, 101, 65_536).end(40_000),
        ],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (19_899_000_000, &[6][..]));
}

/// Sends a chunk of 1,000 bytes at each of these times. B acknowledges it a round trip later.
fn paced(times: impl Iterator<Item = u32>, bytes: usize) -> Scene {
    (100..)
        .zip(times)
        .fold(Scene::sctp(), |scene, (tsn, at)| scene.sized(at, tsn, bytes).sack(at + 50, tsn, 65_536))
}

#[test]
fn an_application_that_gives_data_slowly_is_found() {
    let tcp = (0..60).fold(Scene::tcp(), |scene, n| {
        scene.sends(100 + n * 300, n * 1_000, 1_000).acks(150 + n * 300, (n + 1) * 1_000, 10_000)
    });
    // B answers each chunk 200 ms later, and A then sends the next one.
    let answered = (0..60).fold(paced((0..60).map(|n| 100 + n * 300), 1_000), |scene, n| {
        scene.chunk(350 + n * 300, B, move |b| data(700 + n, 0).emit(b))
    });
    let found = check(
        "application_limited",
        [
            paced((0..60).map(|n| 100 + n * 300), 1_000),
            paced((0..60).map(|n| 100 + n * 400 + n % 2 * 200), 1_000),
            tcp,
        ],
        [answered, paced((0..60).map(|n| 100 + n * 50), 1_000), paced((0..60).map(|n| 100 + n * 300), 100)],
    );
    assert!(found[0].text.contains("about 250.0 ms, so the data is paced"), "{}", found[0].text);
    assert!(found[1].text.contains("and they differ"), "{}", found[1].text);
}

/// Sends `count` chunks, each as soon as the one before is acknowledged, which takes a round trip and `delay`.
fn waiting(count: u32, delay: u32) -> Scene {
    (0..count).fold(Scene::sctp(), |scene, n| {
        let at = 100 + n * (50 + delay);
        scene.data(at, 100 + n).sack(at + 50 + delay, 100 + n, 65_536)
    })
}

#[test]
fn delayed_acknowledgements_for_which_the_sender_waits_are_found() {
    let tcp = (0..10).fold(Scene::tcp(), |scene, n| {
        scene.sends(100 + n * 90, n * 100, 100).acks(190 + n * 90, (n + 1) * 100, 10_000)
    });
    let pairs = (0..10).fold(Scene::sctp(), |scene, n| {
        let (at, tsn) = (100 + n * 250, 100 + n * 2);
        scene.data(at, tsn).data(at, tsn + 1).sack(at + 250, tsn + 1, 65_536)
    });
    // The acknowledgement comes with the answer, for which B needs 200 ms.
    let answers = (0..10).fold(Scene::tcp(), |scene, n| {
        let (at, sent) = (100 + n * 250, n * 100);
        scene.segment(at, A, acknowledgement(sent, sent, 10_000), 100).segment(
            at + 250,
            B,
            acknowledgement(sent, sent + 100, 10_000),
            100,
        )
    });
    let found = check(
        "delayed_acknowledgements",
        [waiting(10, 200), tcp, pairs],
        [waiting(40, 0), answers, waiting(5, 200)],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (1_800_000_000, &[5, 6][..]));
    assert!(found[1].text.starts_with("B delayed 9 acknowledgements by about 40.0 ms"), "{}", found[1].text);
}

/// B acknowledges the first write of each response late, and the second one promptly.
#[test]
fn responses_in_two_writes_have_delayed_acknowledgements() {
    let rules = |scene: Scene| -> Vec<&str> {
        scene.conversation().findings.iter().map(|finding| finding.rule).collect()
    };
    let writes = (0..10).fold(Scene::tcp().sends(100, 0, 100).acks(150, 100, 10_000), |scene, n| {
        let (at, sent) = (160 + n * 150, 100 + n * 200);
        scene.sends(at, sent, 100).acks(at + 90, sent + 100, 10_000).sends(at + 90, sent + 100, 100).acks(
            at + 140,
            sent + 200,
            10_000,
        )
    });
    assert_eq!(rules(writes), ["delayed_acknowledgements"]);
    // Only one acknowledgement in six comes late.
    let rare = (0..60).fold(Scene::sctp(), |scene, n| {
        let (at, late) = (100 + n * 50 + n / 6 * 200, if n % 6 == 5 { 200 } else { 0 });
        scene.data(at, 100 + n).sack(at + 50 + late, 100 + n, 65_536)
    });
    assert_eq!(rules(rare), [""; 0]);
}
