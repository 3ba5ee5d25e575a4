//! Tests of TLS, DTLS, QUIC and HTTP with packets that are written byte by byte. Tests of the laboratory decode the
//! captures of encrypted races.

use super::*;
use crate::results::Request;

/// Returns the segments of a connection to port 80 as a capture. Each entry has the sender and its bytes.
fn connection(parts: &[(Ipv4Addr, &[u8])]) -> CaptureBuilder {
    let mut tape = CaptureBuilder::ethernet();
    let (mut sent, flags) = ([1_u32, 1], Flags::ACK);
    let header = |seq, ack, flags| Header { seq: Seq(seq), ack: Seq(ack), flags, ..Header::default() };
    tape.tcp(0, A, header(0, 0, Flags::SYN), b"");
    tape.tcp(1, B, header(0, 1, Flags::SYN.with(Flags::ACK)), b"");
    tape.tcp(2, A, header(1, 1, flags), b"");
    for (millis, (from, bytes)) in (10..).zip(parts) {
        let side = usize::from(*from == B);
        tape.tcp(millis, *from, header(sent[side], sent[1 - side], flags), bytes);
        sent[side] += bytes.len() as u32;
    }
    tape
}

fn requests(parts: &[(Ipv4Addr, &[u8])]) -> Vec<Request> {
    let decoded = connection(parts).decoded();
    let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    conversation.requests.clone()
}

/// Returns a vector with a length field of `width` bytes.
pub(super) fn vector(width: usize, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_be_bytes();
    [&length[8 - width..], content].concat()
}

/// Returns the body of a ClientHello for the server name `example`. DTLS has a cookie.
pub(super) fn client_hello(cookie: &[u8]) -> Vec<u8> {
    let name = vector(2, &vector(2, &[&[0][..], &vector(2, b"example")].concat()));
    let extensions = vector(2, &[&[0, 0][..], &name].concat());
    [&[3, 3][..], &[7; 32], &[0], cookie, &vector(2, &[0x13, 1]), &vector(1, &[0]), &extensions].concat()
}

/// Returns the body of a ServerHello that chooses a cipher suite.
pub(super) fn server_hello(version: [u8; 2], suite: [u8; 2]) -> Vec<u8> {
    [&version[..], &[8; 32], &[0], &suite, &[0], &vector(2, &[])].concat()
}

#[test]
fn pipelined_requests_of_http1_are_matched_with_their_responses() {
    let found = requests(&[
        (A, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nHEAD /b HTTP/1.1\r\n\r\nPOST /c HTTP/1.1\r\nContent-Length: 3\r\n\r\nab"),
        (A, b"c"),
        (B, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"),
        (B, b"c\r\n2;x=y\r\nde\r\n0\r\n\r\nHTTP/1.1 204 None\r\n\r\n"),
        (B, b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nfour"),
    ]);
    let shown: Vec<_> = found
        .iter()
        .map(|r| (r.method.as_deref(), r.target.as_deref(), r.status, r.bytes, r.done_ns.is_some()))
        .collect();
    let expected = [
        (Some("GET"), Some("/a"), Some(200), [0, 5], true),
        (Some("HEAD"), Some("/b"), Some(204), [0, 0], true),
        (Some("POST"), Some("/c"), Some(404), [3, 4], true),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn padding_and_continuations_of_http2_are_no_content() {
    let frame = |kind, flags, stream, content: &[u8]| {
        [&vector(3, content)[..3], &[kind, flags, 0, 0, 0, stream], content].concat()
    };
    let asked = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        // A head with a priority, continued in a CONTINUATION frame: GET, https, and the path /a.
        frame(1, 0x21, 1, &[0, 0, 0, 0, 9, 0x82, 0x87]),
        frame(9, 4, 1, &[0x44, 2, b'/', b'a']),
    ]
    .concat();
    // The body has two bytes and five bytes of padding.
    let answered = [frame(1, 4, 1, &[0x88]), frame(0, 9, 1, &[5, b'o', b'k', 0, 0, 0, 0, 0])].concat();
    let found = requests(&[(A, &asked), (B, &answered[..13]), (B, &answered[13..])]);
    let [request] = &found[..] else { panic!("{found:?}") };
    assert_eq!((request.method.as_deref(), request.target.as_deref()), (Some("GET"), Some("/a")));
    assert_eq!((request.status, request.bytes, request.stream), (Some(200), [0, 2], 1));
    assert_eq!((request.answered_ns, request.done_ns), (Some(11_000_000), Some(12_000_000)));
}

#[test]
fn without_keys_the_hellos_are_read() {
    let record = |kind, content: &[u8]| [&[kind, 3, 3][..], &vector(2, content)].concat();
    let message = |kind, body: &[u8]| record(22, &[&[kind][..], &vector(3, body)].concat());
    for (suite, why) in [
        ([0xc0, 0x2f], "no key log has the secrets of this connection"),
        ([0xc0, 0x13], "the cipher suite is none that can be opened: AES-GCM and ChaCha20-Poly1305"),
    ] {
        let hello = message(1, &client_hello(&[]));
        let tape = connection(&[
            (A, &hello[..50]),
            (A, &hello[50..]),
            (B, &message(2, &server_hello([3, 3], suite))),
            (A, &[record(20, &[1]), record(22, &[0; 40]), record(23, &[0; 90])].concat()),
        ]);
        let decoded = tape.decoded();
        let security = decoded.conversations[0].security.as_ref().expect("TLS");
        assert_eq!(
            (security.protocol.as_str(), security.server_name.as_deref()),
            ("TLS 1.2", Some("example"))
        );
        assert_eq!((security.opened, security.sealed, security.why_sealed.as_deref()), (0, 2, Some(why)));
        assert_eq!(security.answered_ns, Some(1_000_000));
        let text = crate::why::render(&decoded);
        assert!(text.contains(&format!("Encrypted: 2 of 2 records were not decrypted ({why}).")), "{text}");
        assert!(!text.contains("Nothing found"), "{text}");
        assert_eq!(text.contains("Give the secrets with --keylog FILE"), why.contains("key log"), "{text}");
    }
}

/// Returns a capture with a DTLS connection: a ClientHello in two fragments, a ServerHello, and an encrypted record.
fn dtls() -> CaptureBuilder {
    let record = |kind, epoch, content: &[u8]| {
        [&[kind, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 1][..], &vector(2, content)].concat()
    };
    let fragment = |kind, body: &[u8], from: usize, to: usize| {
        let length = &vector(3, body)[..3];
        let number = |number: usize| [0, 0, number as u8];
        [&[kind][..], length, &[0, 0], &number(from), &number(to - from), &body[from..to]].concat()
    };
    let (hello, answer) = (client_hello(&[0]), server_hello([0xfe, 0xfd], [0xc0, 0x2b]));
    let mut tape = CaptureBuilder::ethernet();
    for (millis, (from, bytes)) in (0..).zip([
        (A, record(22, 0, &fragment(1, &hello, 0, 40))),
        (A, record(22, 0, &fragment(1, &hello, 40, hello.len()))),
        (B, record(22, 0, &fragment(2, &answer, 0, answer.len()))),
        (A, record(23, 1, &[0; 60])),
    ]) {
        let to = if from == A { B } else { A };
        let mut datagram = [&[0; 8][..], &bytes].concat();
        udp::emit_in_place(&mut datagram, SocketAddr::from((from, 4_433)), SocketAddr::from((to, 4_433)));
        let packet = tape.ip(17, from, to, &datagram);
        tape.frame(millis * 1_000, &packet);
    }
    tape
}

#[test]
fn a_client_hello_of_dtls_in_two_fragments_is_read() {
    let decoded = dtls().decoded();
    let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    let security = conversation.security.as_ref().expect("DTLS");
    assert_eq!((security.protocol.as_str(), security.server_name.as_deref()), ("DTLS 1.2", Some("example")));
    assert_eq!((security.opened, security.sealed), (0, 1));
    assert_eq!((conversation.end.how, conversation.handshake.rtt_ns), ("open", Some(2_000_000)));
}

/// Changes bytes of the captures above, behind their IP headers. The decoder must not panic.
#[test]
fn mutated_conversations_never_panic() {
    let http = connection(&[
        (A, b"GET /a HTTP/1.1\r\n\r\n"),
        (B, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ]);
    let hello = [&[22, 3, 1][..], &vector(2, &[&[1][..], &vector(3, &client_hello(&[]))].concat())].concat();
    let tls = connection(&[(A, &hello), (B, &[22, 3, 3, 0, 4, 2, 0, 0, 0]), (A, &[23, 3, 3, 0, 1, 0])]);
    let mut quic = CaptureBuilder::ethernet();
    let mut datagram =
        [&[0; 8][..], &[0xc0, 0, 0, 0, 1, 4, 1, 2, 3, 4, 0, 0, 0x44, 0xd0], &[9; 1_232]].concat();
    udp::emit_in_place(&mut datagram, SocketAddr::from((A, 4_433)), SocketAddr::from((B, 443)));
    let packet = quic.ip(17, A, B, &datagram);
    quic.frame(0, &packet);
    let mut rng = Rng::new(1);
    for tape in [http, tls, dtls(), quic] {
        for _ in 0..2_000 {
            let mut bytes = tape.bytes.clone();
            for _ in 0..=rng.below(4) {
                let at = 60 + rng.below(bytes.len() as u64 - 60) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            let _ = read(&bytes);
        }
    }
}
