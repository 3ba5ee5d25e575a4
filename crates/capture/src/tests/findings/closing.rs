//! Tests of the rules about handshakes with several attempts, and about resets and closes that do not complete.

use super::*;
use anabranch_base::IcmpKind;
use anabranch_wire::icmp;
use anabranch_wire::sctp::{ReConfig, ReConfigParam, StreamList};

fn init(scene: Scene, millis: u32) -> Scene {
    let init = Init { tag: TAG_A, window: 65_536, tsn: Tsn(100), ..Init::default() };
    scene.at(millis, move |tape| tape.sctp(millis, A, B, 0, |b| init.emit(b)))
}

fn init_ack(scene: Scene, millis: u32) -> Scene {
    let answer = Init { tag: TAG_B, window: 65_536, tsn: Tsn(700), ..Init::default() };
    scene.chunk(millis, B, move |b| {
        let mut chunk = InitAck(answer).open(b);
        Param::StateCookie(&[1; 8]).emit(&mut chunk);
        chunk.close();
    })
}

fn cookie_echo(scene: Scene, millis: u32) -> Scene {
    scene.chunk(millis, A, |b| CookieEcho { cookie: &[1; 8] }.emit(b))
}

#[test]
fn handshakes_with_several_attempts_are_found() {
    let nothing = || Scene(Vec::new());
    let once = || init_ack(init(nothing(), 0), 50);
    let request = |millis| nothing().segment(millis, A, syn(0, Flags::SYN), 0);
    let reset = Header { ack: Seq(1), flags: Flags::RST.with(Flags::ACK), ..Header::default() };
    let found = check(
        "handshake_retries",
        [
            [0, 1_000, 3_000].into_iter().fold(nothing(), init).end(10_000),
            request(0).handshake(1_000),
            init_ack(init(once(), 1_000), 1_050),
        ],
        [Scene::sctp(), Scene::tcp().end(60_000), request(0).segment(50, B, reset, 0)],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (10_000_000_000, &[1, 2, 3][..]));
    assert!(found[0].text.starts_with("B never answered: A sent its INIT 3 times"), "{}", found[0].text);
    assert!(found[1].text.contains("before B answered in packet 3"), "{}", found[1].text);
    assert!(found[2].text.contains("although the INIT ACK of B was captured"), "{}", found[2].text);
    let silent = [0, 1_000].into_iter().fold(nothing(), init);
    let unanswered =
        silent.chunk(1_500, B, |b| Heartbeat { info: &[1; 8], rest: &[] }.emit(b)).end(10_000).conversation();
    let text = &unanswered.findings[0].text;
    assert!(
        text.contains("no INIT ACK was captured. B sent 1 packet meanwhile, so it is reachable"),
        "{text}"
    );
    let cookies = [50, 1_050, 3_050].into_iter().fold(once(), cookie_echo).conversation();
    let [finding] = &cookies.findings[..] else { panic!("{:?}", cookies.findings) };
    assert_eq!((finding.cost_ns, &finding.packets[..]), (3_000_000_000, &[3, 4, 5][..]));
    assert!(finding.text.contains("COOKIE ECHO 3 times, in packets 3, 4 and 5, and no COOKIE ACK"));
}

/// A second ClientHello with a cookie, for which a DTLS server has asked, must not count as a retry.
#[test]
fn a_second_hello_that_the_server_asked_for_is_no_retry() {
    let verified = [(0, 0, Event::Request), (50, 1, Event::Answer), (50, 0, Event::Request)];
    let lost = [(0, 0, Event::Request), (1_000, 0, Event::Request), (1_050, 1, Event::Answer)];
    for transport in ["dtls", "quic"] {
        assert_eq!(judged(transport, &verified, 1_100), []);
        assert_eq!(judged(transport, &lost, 1_100)[0].rule, "handshake_retries");
    }
}

/// Adds a request to reset streams, with its number.
fn reset(scene: Scene, millis: u32, request: u32) -> Scene {
    scene.chunk(millis, A, move |b| {
        let streams = StreamList::new(&[0, 1]);
        ReConfig::write(
            b,
            &[ReConfigParam::ResetOutgoing { request, response: 699, last: Tsn(99), streams }],
        );
    })
}

/// Adds a response to a request.
fn response(scene: Scene, millis: u32, response: u32, result: u32) -> Scene {
    scene.chunk(millis, B, move |b| {
        ReConfig::write(b, &[ReConfigParam::Response { response, result, next: None }]);
    })
}

#[test]
fn a_reset_of_streams_that_does_not_end_is_found() {
    let asked = || reset(Scene::sctp(), 200, 100);
    let repeated = |scene| reset(reset(scene, 1_200, 100), 3_200, 100);
    let found = check(
        "reset_unfinished",
        [
            repeated(asked()).end(10_000),
            response(repeated(response(asked(), 250, 100, 6)), 3_250, 100, 6).end(10_000),
            reset(response(asked(), 250, 100, 1), 300, 101).end(10_000),
        ],
        [
            response(repeated(asked()), 3_250, 100, 1).end(10_000),
            response(asked(), 250, 100, 2).end(10_000),
            response(response(asked(), 250, 100, 6), 4_000, 100, 1).end(10_000),
        ],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (9_800_000_000, &[5, 6, 7][..]));
    assert!(found[0].text.contains("No response of B was captured."), "{}", found[0].text);
    assert!(found[1].text.contains("B answered 2 times, last in packet 9"), "{}", found[1].text);
    assert_eq!(found[2].packets, [7]);
}

fn shutdown(scene: Scene, millis: u32) -> Scene {
    scene.chunk(millis, A, |b| Shutdown { cumulative: Tsn(699) }.emit(b))
}

fn shutdown_ack(scene: Scene, millis: u32) -> Scene {
    scene.chunk(millis, B, |b| ShutdownAck.emit(b))
}

fn fin(scene: Scene, millis: u32, from: Ipv4Addr, seq: u32, ack: u32) -> Scene {
    let flags = Flags::ACK.with(Flags::FIN);
    scene.segment(millis, from, Header { flags, ..acknowledgement(seq, ack, 10_000) }, 0)
}

#[test]
fn a_close_that_does_not_end_is_found() {
    let half_closed = || fin(Scene::tcp(), 100, A, 0, 0).acks(150, 1, 10_000);
    let complete = shutdown_ack(shutdown(Scene::sctp(), 200), 250)
        .chunk(250, A, |b| ShutdownComplete::default().emit(b))
        .end(60_000);
    let downloads = (0..40).fold(half_closed(), |scene, n| {
        scene.segment(1_000 + n * 1_000, B, acknowledgement(n * 100, 1, 10_000), 100)
    });
    let found = check(
        "close_unfinished",
        [
            [200, 1_200, 3_200].into_iter().fold(Scene::sctp(), shutdown).end(10_000),
            [250, 1_250, 3_250].into_iter().fold(shutdown(Scene::sctp(), 200), shutdown_ack).end(10_000),
            half_closed().end(60_000),
        ],
        [complete, downloads, shutdown(Scene::sctp(), 200).end(1_500)],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (9_800_000_000, &[5, 6, 7][..]));
    assert!(found[0].text.contains("B sent no SHUTDOWN ACK and no data."), "{}", found[0].text);
    assert!(found[1].text.contains("B answered in packet 6, but A did not complete"), "{}", found[1].text);
    assert!(found[2].text.contains("its application does not close"), "{}", found[2].text);
}

/// Adds transmissions of TSN 104 at these times, after four chunks that B has acknowledged at 150 ms.
fn unanswered(times: &[u32]) -> Scene {
    let sent = (100..104).fold(Scene::sctp(), |scene, tsn| scene.data(100, tsn)).sack(150, 103, 65_536);
    times.iter().fold(sent, |scene, millis| scene.data(*millis, 104))
}

#[test]
fn a_peer_that_falls_silent_is_found() {
    let large =
        |scene: Scene, times: &[u32]| times.iter().fold(scene, |scene, at| scene.sized(*at, 104, 1_200));
    let acknowledged = |scene: Scene, at| scene.sack(at, 104, 65_536);
    let found = check(
        "peer_silent",
        [
            unanswered(&[160, 1_160, 3_160, 7_160]).end(9_000),
            acknowledged(unanswered(&[160, 1_160, 3_160, 7_160]), 8_000)
                .data(8_100, 105)
                .sack(8_150, 105, 65_536),
            large(unanswered(&[]), &[160, 1_160, 3_160, 7_160]).end(9_000),
        ],
        [
            // Two lost packets are no silence. A peer that had nothing to answer is not silent, either.
            acknowledged(unanswered(&[160, 1_160, 3_160]), 3_210),
            acknowledged(unanswered(&[160]), 210).end(60_000),
            // The peer is not silent, because other packets from it arrive.
            unanswered(&[160, 1_160, 3_160, 7_160])
                .chunk(7_500, B, |b| Heartbeat { info: &[1; 8], rest: &[] }.emit(b))
                .end(9_000),
        ],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (8_840_000_000, &[11, 12, 13][..]));
    let text = &found[0].text;
    assert!(
        text.starts_with("B stopped answering at 0.160 s, and it sent nothing until the capture ended"),
        "{text}"
    );
    assert!(text.contains("sent data again in packets 11, 12 and 13. The process or host of B"), "{text}");
    assert!(found[1].text.contains("7.840 s later it went on, in packet 14."), "{}", found[1].text);
    assert!(found[2].text.contains("a router that drops large packets"), "{}", found[2].text);
    let rules: Vec<&str> = unanswered(&[160, 1_160, 3_160, 7_160])
        .end(9_000)
        .conversation()
        .findings
        .iter()
        .map(|finding| finding.rule)
        .collect();
    assert_eq!(rules, ["peer_silent"]);
}

/// Adds an ICMP error of B that quotes a packet of A with this protocol and content.
pub(super) fn error(scene: Scene, millis: u32, kind: IcmpKind, (protocol, content): (u8, Vec<u8>)) -> Scene {
    scene.at(millis, move |tape| {
        let quoted = tape.ip(protocol, A, B, &content);
        let mut packet = Vec::new();
        icmp::append(&mut packet, B.into(), A.into(), kind, &quoted);
        tape.frame(millis * 1_000, &packet);
    })
}

#[test]
fn icmp_errors_name_the_reason() {
    const PORT: IcmpKind = IcmpKind::Unreachable(icmp::code_v4::PORT);
    let text = |scene: Scene| {
        let mut decoded =
            decode("test", &scene.tape().bytes[..], &Settings { max_events: EVENTS, ..Settings::default() })
                .expect("a capture");
        decoded.conversations.remove(0).findings.remove(0).text
    };
    let packet = || (132, sctp(true, TAG_B, |b| data(104, 0).emit(b)));
    let silent = || unanswered(&[160, 1_160, 3_160, 7_160]).end(9_000);
    let found = text(error(silent(), 161, PORT, packet()));
    assert!(found.ends_with("By ICMP in packet 11, no program listens at the port."), "{found}");
    let begun = [0, 1_000, 3_000].into_iter().fold(Scene(Vec::new()), init).end(9_000);
    let unreachable = IcmpKind::Unreachable(icmp::code_v4::NETWORK);
    let found = text(error(error(begun, 1, unreachable, packet()), 1_001, unreachable, packet()));
    assert!(
        found.contains("captured. By ICMP in packets 2 and 4, there is no route to the host."),
        "{found}"
    );
    // An error for a packet of another protocol says nothing about this conversation.
    let found = text(error(silent(), 161, PORT, (17, packet().1)));
    assert!(!found.contains("ICMP"), "{found}");
}
