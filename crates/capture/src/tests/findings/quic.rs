//! Tests with QUIC connections whose packets are encrypted with known secrets.

use super::*;
use crate::keys::{self, Protocol, TrafficKeys};
use crate::tests::encrypted::{client_hello, server_hello, vector};
use std::collections::BTreeSet;

/// The connection IDs that the client made up for the server, that the client chose, and that the server chose.
const IDS: [&[u8]; 3] = [&[1; 8], &[2; 4], &[3; 4]];
/// The traffic secrets of the client and the server.
const SECRETS: [[u8; 32]; 2] = [[0x11; 32], [0x22; 32]];

/// Returns the key log of all connections. Their ClientHellos have the same random value.
pub(super) fn key_log() -> Vec<u8> {
    let random = "07".repeat(32);
    let line = |name: &str, digits: &str| format!("{name} {random} {}\n", digits.repeat(32));
    (line("CLIENT_TRAFFIC_SECRET_0", "11") + &line("SERVER_TRAFFIC_SECRET_0", "22")).into_bytes()
}

fn number(value: u32) -> [u8; 4] {
    (0x8000_0000 | value).to_be_bytes()
}

/// A connection between A, the client, and B.
pub(super) struct Connection {
    pub scene: Scene,
    /// The number of packets with application data that each side has sent.
    numbers: [u32; 2],
}

impl Connection {
    /// Creates a connection that begins with the two hellos. The round trip takes 50 ms.
    pub fn new() -> Self {
        Self::with_parameters(&[])
    }

    /// Creates a connection that begins with two hellos, and whose client has these transport parameters.
    fn with_parameters(parameters: &[u8]) -> Self {
        let message = |kind: u8, body: &[u8]| [&[kind][..], &vector(3, body)].concat();
        // Splits the ClientHello before its last field, the extensions. The bytes before them have a fixed length.
        let mut hello = client_hello(&[]);
        let extensions = hello.split_off(41);
        let added = [&extensions[2..], &[0, 57], &vector(2, parameters)].concat();
        hello.extend(vector(2, &added));
        let client = initial(0, &message(1, &hello));
        let server = initial(1, &message(2, &server_hello([3, 3], [0x13, 1])));
        let scene = Scene(Vec::new());
        let scene = scene.at(0, move |tape| datagram(tape, 0, A, &client));
        let scene = scene.at(50, move |tape| datagram(tape, 50, B, &server));
        Self { scene, numbers: [0; 2] }
    }

    /// Adds a packet with these frames.
    fn frames(mut self, millis: u32, from: Ipv4Addr, frames: &[u8]) -> Self {
        let bytes = self.packet(from, frames);
        self.scene = self.scene.at(millis, move |tape| datagram(tape, millis, from, &bytes));
        self
    }

    fn packet(&mut self, from: Ipv4Addr, frames: &[u8]) -> Vec<u8> {
        self.updated_packet(from, frames, 0)
    }

    /// Returns a packet after this number of key updates.
    fn updated_packet(&mut self, from: Ipv4Addr, frames: &[u8], updates: u8) -> Vec<u8> {
        let side = usize::from(from == B);
        let packet = self.numbers[side];
        self.numbers[side] += 1;
        let suite = keys::suite(0x1301).expect("a suite");
        let first = TrafficKeys::new(suite, Protocol::Quic1, &SECRETS[side]).expect("keys");
        let later =
            (0..updates).fold(None, |keys: Option<TrafficKeys>, _| keys.as_ref().unwrap_or(&first).next());
        // A packet has at least enough bytes for the sample of the header protection.
        let mut payload = frames.to_vec();
        payload.resize(frames.len().max(4), 0);
        let head = [&[0x43 | (updates & 1) << 2][..], IDS[2 - side]].concat();
        sealed((&first, later.as_ref().unwrap_or(&first)), packet, head, payload)
    }

    /// Adds a packet of A with 1,000 bytes of a stream.
    pub fn stream(self, millis: u32, id: u32, offset: u32) -> Self {
        self.stream_of(A, millis, id, offset)
    }

    fn stream_of(self, from: Ipv4Addr, millis: u32, id: u32, offset: u32) -> Self {
        let head = [&[0x0e][..], &number(id), &number(offset), &number(1_000)].concat();
        self.frames(millis, from, &[&head[..], &BYTES[..1_000]].concat())
    }

    /// Adds an acknowledgement of B of the packets `first..=last`.
    fn ack(self, millis: u32, first: u32, last: u32) -> Self {
        self.frames(
            millis,
            B,
            &[&[2][..], &number(last), &number(0), &number(0), &number(last - first)].concat(),
        )
    }

    /// Adds an acknowledgement of B of all these packets.
    pub fn ack_all(self, millis: u32, packets: &BTreeSet<u32>) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &packet in packets.iter().rev() {
            match ranges.last_mut().filter(|(first, _)| *first == packet + 1) {
                Some(range) => range.0 = packet,
                None => ranges.push((packet, packet)),
            }
        }
        let Some(&(first, last)) = ranges.first() else { return self };
        let mut values = vec![last, 0, ranges.len() as u32 - 1, last - first];
        // RFC 9000 §19.3.1: a gap is given as one less than the number of packets in it.
        for pair in ranges.windows(2) {
            values.extend([pair[0].0 - pair[1].1 - 2, pair[1].1 - pair[1].0]);
        }
        self.frame(millis, B, 2, &values)
    }

    /// Skips a packet of A, which is lost before the place of capture.
    pub fn lost(mut self) -> Self {
        self.numbers[0] += 1;
        self
    }

    /// Adds a packet with a frame that has a type and numbers.
    fn frame(self, millis: u32, from: Ipv4Addr, kind: u8, values: &[u32]) -> Self {
        let values: Vec<u8> = values.iter().flat_map(|value| number(*value)).collect();
        self.frames(millis, from, &[&[kind][..], &values].concat())
    }
}

/// Encrypts a packet whose header is `head` with a packet number of four bytes. The first keys protect the header, which
/// key updates do not change (RFC 9001 §6.1).
fn sealed(
    (header, keys): (&TrafficKeys, &TrafficKeys),
    packet: u32,
    head: Vec<u8>,
    mut payload: Vec<u8>,
) -> Vec<u8> {
    let number_at = head.len();
    let mut bytes = [&head[..], &packet.to_be_bytes()].concat();
    keys.key.seal(packet.into(), &bytes, &mut payload);
    bytes.extend(payload);
    let protection = header.header_protection().expect("a key");
    let mask = protection.new_mask(&bytes[number_at + 4..number_at + 4 + keys::SAMPLE]).expect("a sample");
    bytes[0] ^= mask[0] & if bytes[0] & 0x80 == 0 { 0x1f } else { 0x0f };
    bytes[number_at..number_at + 4].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
    bytes
}

/// Returns an Initial packet with a handshake message, in a full datagram.
fn initial(side: usize, message: &[u8]) -> Vec<u8> {
    let ids = if side == 0 { [IDS[0], IDS[1]] } else { [IDS[1], IDS[2]] };
    initial_to(side, ids, IDS[0], message)
}

/// Returns an Initial packet with these connection IDs. Its keys belong to the ID `keyed`.
fn initial_to(side: usize, [target, source]: [&[u8]; 2], keyed: &[u8], message: &[u8]) -> Vec<u8> {
    let keys = keys::quic_initial(Protocol::Quic1, keyed).expect("keys");
    let mut payload = [&[6][..], &number(0), &number(message.len() as u32), message].concat();
    payload.resize(1_200, 0);
    let length = number(4 + 1_200 + keys::TAG as u32);
    let ids = [&vector(1, target)[..], &vector(1, source)].concat();
    let keys = &keys[side];
    sealed((keys, keys), 0, [&[0xc3, 0, 0, 0, 1][..], &ids, &[0], &length].concat(), payload)
}

fn datagram(tape: &mut CaptureBuilder, millis: u32, from: Ipv4Addr, bytes: &[u8]) {
    let ends = [SocketAddr::from((A, 40_000)), SocketAddr::from((B, 443))];
    let [source, target] = if from == A { ends } else { [ends[1], ends[0]] };
    let mut datagram = [&[0; 8][..], bytes].concat();
    udp::emit_in_place(&mut datagram, source, target);
    let to = if from == A { B } else { A };
    let packet = tape.ip(17, from, to, &datagram);
    tape.frame(millis * 1_000, &packet);
}

const MAX_STREAM_DATA: u8 = 0x11;
const DATA_BLOCKED: u8 = 0x14;
const STREAM_DATA_BLOCKED: u8 = 0x15;

#[test]
fn packets_of_the_tests_are_decrypted() {
    let conversation = Connection::new().stream(100, 0, 0).ack(150, 0, 0).scene.conversation();
    let security = conversation.security.as_ref().expect("QUIC");
    assert_eq!((security.opened, security.sealed), (4, 0), "{security:?}");
    assert_eq!(conversation.directions[0].bytes, 1_000);
    assert_eq!(conversation.directions[0].rtt.min_ns, 50_000_000);
}

/// If a host passes four packets to its network card as one datagram, each of them must be decrypted. All have the same
/// size except the last.
#[test]
fn packets_that_the_network_card_sends_apart_are_decrypted() {
    let mut connection = Connection::new();
    let mut bytes = Vec::new();
    for (n, length) in [(0, 1_300), (1, 1_300), (2, 1_300), (3, 700)] {
        let head = [&[0x0e][..], &number(0), &number(n * 1_300), &number(length)].concat();
        bytes.extend(connection.packet(A, &[&head[..], &BYTES[..length as usize]].concat()));
    }
    let scene = connection.scene.at(100, move |tape| datagram(tape, 100, A, &bytes));
    let conversation = scene.conversation();
    let security = conversation.security.as_ref().expect("QUIC");
    assert_eq!((security.opened, security.sealed), (6, 0), "{security:?}");
    assert_eq!(conversation.directions[0].bytes, 4_600);
}

/// Two packets in one datagram must be decrypted, even if the datagram is shorter than the longest single packet.
#[test]
fn two_short_packets_in_one_datagram_are_decrypted() {
    let mut connection = Connection::new();
    for (millis, sizes) in [(100, &[1_200_u32, 1_200][..]), (101, &[1_200, 100])] {
        let mut bytes = Vec::new();
        for size in sizes {
            let head = [&[0x0e][..], &number(0), &number(bytes.len() as u32), &number(*size)].concat();
            bytes.extend(connection.packet(A, &[&head[..], &BYTES[..*size as usize]].concat()));
        }
        connection.scene = connection.scene.at(millis, move |tape| datagram(tape, millis, A, &bytes));
    }
    let conversation = connection.scene.conversation();
    let security = conversation.security.as_ref().expect("QUIC");
    assert_eq!((security.opened, security.sealed), (6, 0), "{security:?}");
}

/// A client may fill its first datagram with zeros behind the packet, as aioquic does. The zeros must not count as a
/// packet.
#[test]
fn zeros_behind_a_packet_are_no_packet() {
    let hello = initial(0, &[&[1][..], &vector(3, &client_hello(&[]))].concat());
    let bytes = [&hello[..], &[0; 99]].concat();
    let conversation = Scene(Vec::new()).at(0, move |tape| datagram(tape, 0, A, &bytes)).conversation();
    let security = conversation.security.expect("QUIC");
    assert_eq!((security.opened, security.sealed), (1, 0), "{security:?}");
}

#[test]
fn packets_after_several_key_updates_are_decrypted() {
    for updates in [&[0, 1, 1, 2][..], &[1, 2], &[0, 2, 6], &[2], &[0, 8, 8, 9]] {
        let mut connection = Connection::new();
        for (millis, updates) in (100..).zip(updates) {
            let bytes = connection.updated_packet(A, &[1], *updates);
            connection.scene = connection.scene.at(millis, move |tape| datagram(tape, millis, A, &bytes));
        }
        let security = connection.scene.conversation().security.expect("QUIC");
        assert_eq!((security.opened, security.sealed), (2 + updates.len() as u64, 0), "{updates:?}");
    }
}

/// After a Retry, a client may send another ClientHello, as aioquic does. It must be read, because the keys belong to
/// its random value.
#[test]
fn another_client_hello_after_a_retry_is_read() {
    let hello = |random: u8| {
        let mut body = client_hello(&[]);
        body[2..34].fill(random);
        [&[1][..], &vector(3, &body)].concat()
    };
    let retry = [&[0xf0, 0, 0, 0, 1][..], &vector(1, IDS[1]), &vector(1, IDS[2]), &[9; 24]].concat();
    let answer = [&[2][..], &vector(3, &server_hello([3, 3], [0x13, 1]))].concat();
    let packets = [
        (0, A, initial(0, &hello(6))),
        (20, B, retry),
        (30, A, initial_to(0, [IDS[2], IDS[1]], IDS[2], &hello(7))),
        (50, B, initial_to(1, [IDS[1], IDS[2]], IDS[2], &answer)),
    ];
    let scene = packets.into_iter().fold(Scene(Vec::new()), |scene, (millis, from, bytes)| {
        scene.at(millis, move |tape| datagram(tape, millis, from, &bytes))
    });
    let conversation = Connection { scene, numbers: [0; 2] }.stream(100, 0, 0).scene.conversation();
    let security = conversation.security.as_ref().expect("QUIC");
    assert_eq!((security.opened, security.sealed, security.hellos), (4, 0, 2), "{security:?}");
    assert_eq!(conversation.directions[0].bytes, 1_000);
}

/// If the head of a request arrives before the entries of the dynamic table that it needs (RFC 9204), it must be
/// decoded later.
#[test]
fn a_head_of_http3_waits_for_the_dynamic_table() {
    let mut connection = Connection::new();
    let stream = |id: u32, offset: u32, bytes: &[u8]| {
        [&[0x0e][..], &number(id), &number(offset), &number(bytes.len() as u32), bytes].concat()
    };
    // The head has the method GET, and the path from the dynamic table.
    let request = [1, 4, 0x02, 0x00, 0xd1, 0x80];
    let insertion = [&[2, 0x3f, 0xbd, 0x01, 0xc1, 0x02][..], b"/x"].concat();
    // SETTINGS with a table of 220 bytes.
    let settings = [0, 4, 3, 1, 0x40, 220];
    for (millis, from, frames) in [
        (60, B, stream(3, 0, &settings)),
        (100, A, stream(0, 0, &request)),
        (110, A, stream(2, 0, &insertion[..3])),
        (120, A, stream(2, 3, &insertion[3..])),
    ] {
        connection = connection.frames(millis, from, &frames);
    }
    let conversation = connection.scene.conversation();
    let [found] = &conversation.requests[..] else { panic!("{:?}", conversation.requests) };
    assert_eq!((found.method.as_deref(), found.target.as_deref()), (Some("GET"), Some("/x")));
}

#[test]
fn a_limit_in_quic_packets_is_found() {
    let blocked =
        |kind, values: &[u32]| Connection::new().stream(100, 0, 0).frame(110, A, kind, values).ack(160, 0, 1);
    let found = check(
        "flow_control_limited",
        [
            blocked(STREAM_DATA_BLOCKED, &[0, 1_000])
                .frame(900, B, MAX_STREAM_DATA, &[0, 9_000])
                .stream(900, 0, 1_000)
                .scene,
            blocked(DATA_BLOCKED, &[1_000]).scene.end(5_000),
            Connection::new()
                .frame(90, B, MAX_STREAM_DATA, &[0, 2_000])
                .stream(100, 0, 0)
                .stream(101, 0, 1_000)
                .ack(151, 0, 1)
                .frame(700, B, MAX_STREAM_DATA, &[0, 4_000])
                .stream(700, 0, 2_000)
                .scene,
        ],
        [
            blocked(STREAM_DATA_BLOCKED, &[0, 1_000])
                .frame(200, B, MAX_STREAM_DATA, &[0, 9_000])
                .stream(900, 0, 1_000)
                .scene,
            Connection::new()
                .frame(90, B, MAX_STREAM_DATA, &[0, 9_000])
                .stream(100, 0, 0)
                .ack(150, 0, 0)
                .scene
                .end(5_000),
            Connection::new().stream(100, 0, 0).ack(150, 0, 0).scene.end(5_000),
        ],
    );
    assert_eq!((found[0].cost_ns, &found[0].packets[..]), (790_000_000, &[4, 6][..]));
}

/// The limit initial_max_stream_data_bidi_local in the client's transport parameters must be found. It limits the data
/// that the server sends on streams of the client (RFC 9000 §18.2).
#[test]
fn an_initial_limit_in_the_transport_parameters_is_found() {
    let parameter = |limit: u32| [&[5, 4][..], &number(limit)].concat();
    let transfer = |limit: u32| {
        Connection::with_parameters(&parameter(limit))
            .stream(60, 0, 0)
            .stream_of(B, 100, 0, 0)
            .stream_of(B, 101, 0, 1_000)
            .frame(700, A, MAX_STREAM_DATA, &[0, 9_000])
            .stream_of(B, 701, 0, 2_000)
            .scene
            .conversation()
            .findings
    };
    let limited: Vec<&str> = transfer(2_000).iter().map(|finding| finding.rule).collect();
    assert_eq!(limited, ["flow_control_limited"]);
    assert!(transfer(2_000)[0].text.contains("of stream 0 limited B for 0.600 s"));
    assert_eq!(transfer(2_001), []);
}

/// Sends four packets on these streams. The first one is lost and sent again at 500 ms.
fn lost_head(ids: [u32; 4]) -> Connection {
    let mut offsets = [0; 8];
    let sent = (0..4).zip(ids).fold(Connection::new(), |connection, (n, id)| {
        let offset: u32 = offsets[id as usize];
        offsets[id as usize] += 1_000;
        connection.stream(100 + n * 10, id, offset)
    });
    sent.ack(180, 1, 3).stream(500, ids[0], 0).ack(550, 1, 4)
}

#[test]
fn data_behind_lost_data_of_a_quic_stream_is_found() {
    let found = check(
        "head_of_line_blocking",
        [
            lost_head([0, 0, 0, 0]).scene,
            lost_head([0, 4, 4, 0]).scene,
            lost_head([4, 0, 4, 4]).stream(600, 4, 3_000).scene,
        ],
        [
            lost_head([0, 4, 4, 4]).scene,
            Connection::new()
                .stream(100, 0, 0)
                .stream(110, 0, 1_000)
                .ack(160, 0, 1)
                .stream(500, 0, 2_000)
                .scene,
            lost_head([4, 0, 0, 0]).scene,
        ],
    );
    assert_eq!(found[0].cost_ns, 390_000_000);
    assert!(found[1].text.contains("on stream 0 waited"), "{}", found[1].text);
}
