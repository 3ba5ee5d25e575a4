//! Decodes captures of TLS, DTLS and QUIC whose keys are known. The target seals the bytes of the input, so that they
//! reach the decoders behind the ciphers: handshake messages, HTTP/2, SCTP, frames of QUIC, and HTTP/3.
//!
//! The two hello messages are valid, and select version 1.3 and AES-128-GCM. The input determines everything that
//! follows.

use crate::source::Source;
use anabranch_capture::{Settings, csv, decode, table};
use anabranch_wire::ip::v4;
use anabranch_wire::tcp::{self, Flags, Header, Seq};
use anabranch_wire::udp;
use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf;
use std::net::{Ipv4Addr, SocketAddr};

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The maximum number of packets of a capture.
const MAX_PACKETS: usize = 60;
/// The connection IDs of the client and the server.
const IDS: [&[u8]; 2] = [&[5; 4], &[6; 8]];

/// The labels from which keys are derived: prefix, key, IV, header protection.
type Labels = [&'static [u8]; 4];
const TLS: Labels = [b"tls13 ", b"key", b"iv", b"sn"];
const DTLS: Labels = [b"dtls13", b"key", b"iv", b"sn"];
const QUIC: Labels = [b"tls13 ", b"quic key", b"quic iv", b"quic hp"];

/// The keys with which the packets of one direction are encrypted.
struct Keys {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    header: HeaderProtectionKey,
    number: u64,
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// RFC 8446 §7.1: HKDF-Expand-Label with an empty context.
fn expand(prk: &hkdf::Prk, prefix: &[u8], label: &[u8], out: &mut [u8]) {
    let lengths = [0, out.len() as u8, (prefix.len() + label.len()) as u8];
    let info = [&lengths[..], prefix, label, &[0]];
    prk.expand(&info, Length(out.len())).and_then(|okm| okm.fill(out)).expect("a short output");
}

impl Keys {
    fn new(secret: &[u8], [prefix, key, iv, header]: Labels) -> Self {
        let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret);
        let (mut bytes, mut nonce, mut mask) = ([0; 16], [0; NONCE_LEN], [0; 16]);
        expand(&prk, prefix, key, &mut bytes);
        expand(&prk, prefix, iv, &mut nonce);
        expand(&prk, prefix, header, &mut mask);
        Self {
            key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &bytes).expect("a key")),
            iv: nonce,
            header: HeaderProtectionKey::new(&quic::AES_128, &mask).expect("a key"),
            number: 0,
        }
    }

    /// Encrypts `content`. Returns the header `head`, followed by the encrypted content.
    fn seal(&mut self, head: &[u8], content: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(self.number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        self.number += 1;
        let mut sealed = content.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(head), &mut sealed).expect("sealed");
        [head, &sealed].concat()
    }

    /// Masks the two bytes of the packet number or record number at the offset `at`, and the bits `bits` of the first
    /// byte.
    fn mask(&self, packet: &mut [u8], at: usize, sample_at: usize, bits: u8) {
        let Some(sample) = packet.get(sample_at..sample_at + 16) else { return };
        let mask = self.header.new_mask(sample).expect("a sample");
        packet[0] ^= mask[0] & bits;
        let from = usize::from(bits > 0);
        packet[at] ^= mask[from];
        packet[at + 1] ^= mask[from + 1];
    }
}

/// Returns the secret from which the keys of a side are derived, for the handshake or for the time after it.
fn secret(side: usize, is_handshake: bool) -> [u8; 32] {
    [1 + side as u8 + 2 * u8::from(is_handshake); 32]
}

/// Decodes a capture, with a key log that has the secrets of both sides (see [`secret`]).
fn check(capture: &[u8]) {
    let random = "07".repeat(32);
    let mut key_log = String::new();
    for (name, side, is_handshake) in [
        ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 0, true),
        ("SERVER_HANDSHAKE_TRAFFIC_SECRET", 1, true),
        ("CLIENT_TRAFFIC_SECRET_0", 0, false),
        ("SERVER_TRAFFIC_SECRET_0", 1, false),
    ] {
        let secret = format!("{:02x}", secret(side, is_handshake)[0]).repeat(32);
        key_log += &format!("{name} {random} {secret}\n");
    }
    let settings =
        Settings { key_log: key_log.into(), ladder_lines: 20, max_view_items: 20, ..Settings::default() };
    let decoded = decode("fuzz", capture, &settings).expect("a capture");
    assert!(!table::render(&decoded, 3).is_empty() && !csv::render(&decoded).is_empty());
    assert!(decoded.to_json().ends_with('\n'));
}

/// A capture file with raw IP packets, as it is written.
struct Capture(Vec<u8>, u32);

impl Capture {
    fn new() -> Self {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        for field in [0_u32, 0, 65_535, 101] {
            bytes.extend(field.to_le_bytes());
        }
        Self(bytes, 0)
    }

    fn ip(&mut self, source: &mut Source<'_>, side: usize, protocol: u8, payload: &[u8]) {
        let (from, to) = if side == 0 { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let mut packet = vec![0; v4::HEADER_LEN];
        self.1 += 1 + source.below(30_000);
        let header = v4::Header::new(from, to, protocol, payload.len() as u16);
        v4::Header { identification: self.1 as u16, ..header }.emit(&mut packet);
        packet.extend_from_slice(payload);
        let length = packet.len() as u32;
        for field in [self.1 / 1_000_000, self.1 % 1_000_000, length, length] {
            self.0.extend(field.to_le_bytes());
        }
        self.0.extend(packet);
    }

    fn datagram(&mut self, source: &mut Source<'_>, side: usize, bytes: &[u8]) {
        let mut datagram = [&[0; udp::HEADER_LEN][..], bytes].concat();
        let ends = [SocketAddr::from((CLIENT, 5_000)), SocketAddr::from((SERVER, 443))];
        udp::emit_in_place(&mut datagram, ends[side], ends[1 - side]);
        self.ip(source, side, 17, &datagram);
    }
}

/// Returns a vector of TLS: a length field of `width` bytes, and then `content`.
fn vector(width: usize, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_be_bytes();
    [&length[8 - width..], content].concat()
}

/// Returns the bodies of the ClientHello and the ServerHello.
fn hellos(version: [u8; 2], cookie: &[u8]) -> [Vec<u8>; 2] {
    let supported = [&[0, 43][..], &vector(2, &version)].concat();
    let client =
        [&[3, 3][..], &[7; 32], &[0], cookie, &vector(2, &[0x13, 1]), &[1, 0], &vector(2, &[])].concat();
    let server = [&[3, 3][..], &[8; 32], &[0], &[0x13, 1], &[0], &vector(2, &supported)].concat();
    [client, server]
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &vector(3, body)].concat()
}

/// Returns the content of a record: bytes of the input, often after the first bytes of a protocol's message.
fn content(source: &mut Source<'_>) -> Vec<u8> {
    let begins: [&[u8]; 8] = [
        &[],
        b"GET / HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x87, 0x84],
        &[20, 0, 0, 0],
        &[24, 0, 0, 1, 0],
        &[0x0a, 0, 20, 0, 0x40, 0x50],
        &[0x02, 0, 0, 0, 0],
    ];
    [source.pick(&begins), source.bytes(200)].concat()
}

/// Decodes captures of TLS 1.3 in TCP.
pub fn tls(input: &[u8]) {
    let mut source = Source::new(input);
    let (mut capture, mut next) = (Capture::new(), [1_u32, 1]);
    let [client, server] = hellos([3, 4], &[]);
    let record = |kind, body: &[u8]| [&[kind, 3, 3][..], &vector(2, body)].concat();
    let mut keys = [0, 1].map(|side| Keys::new(&secret(side, true), TLS));
    let mut send = |capture: &mut Capture, source: &mut Source<'_>, side: usize, bytes: &[u8]| {
        let ports = if side == 0 { (5_000, 443) } else { (443, 5_000) };
        let mut segment = Vec::new();
        let (source_port, target_port) = ports;
        let (seq, ack) = (Seq(next[side]), Seq(next[1 - side]));
        Header { source_port, target_port, seq, ack, flags: Flags::ACK, window: 9, ..Header::default() }
            .emit(&mut segment);
        segment.extend_from_slice(bytes);
        tcp::seal(
            &mut segment,
            if side == 0 { CLIENT.into() } else { SERVER.into() },
            if side == 0 { SERVER.into() } else { CLIENT.into() },
        );
        // A segment may be missing in the capture, or may be captured twice.
        if !source.one_in(20) {
            capture.ip(source, side, tcp::PROTOCOL, &segment);
        }
        if !source.one_in(20) {
            next[side] = next[side].wrapping_add(bytes.len() as u32);
        }
    };
    send(&mut capture, &mut source, 0, &record(22, &message(1, &client)));
    send(&mut capture, &mut source, 1, &record(22, &message(2, &server)));
    for _ in 0..MAX_PACKETS {
        if source.is_over() {
            break;
        }
        let side = source.below(2) as usize;
        let body = content(&mut source);
        let bytes = match source.below(8) {
            0 => record(source.pick(&[20, 21, 22, 23, 24]), &body),
            1 => {
                keys[side] = Keys::new(&secret(side, source.one_in(2)), TLS);
                Vec::new()
            }
            _ => {
                let kind = source.pick(&[23, 23, 23, 22, 21]);
                let inner = [&body[..], &[kind]].concat();
                let head = [&[23, 3, 3][..], &(inner.len() as u16 + 16).to_be_bytes()].concat();
                keys[side].seal(&head, &inner)
            }
        };
        let (first, rest) = bytes.split_at(source.below(bytes.len() as u32 + 1) as usize);
        for part in [first, rest] {
            send(&mut capture, &mut source, side, part);
        }
    }
    check(&capture.0);
}

/// Decodes captures of DTLS 1.3 that carries SCTP.
pub fn dtls(input: &[u8]) {
    let mut source = Source::new(input);
    let mut capture = Capture::new();
    let [client, server] = hellos([0xfe, 0xfc], &[0]);
    let mut number = 0;
    let mut plain = |kind: u8, body: &[u8]| {
        number += 1;
        [&[kind, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number][..], &vector(2, body)].concat()
    };
    let fragment = |kind, body: &[u8]| {
        let length = &vector(3, body)[..3];
        [&[kind][..], length, &[0, 0, 0, 0, 0], length, body].concat()
    };
    capture.datagram(&mut source, 0, &plain(22, &fragment(1, &client)));
    capture.datagram(&mut source, 1, &plain(22, &fragment(2, &server)));
    let mut keys = [true, false].map(|early| [0, 1].map(|side| Keys::new(&secret(side, early), DTLS)));
    for _ in 0..MAX_PACKETS {
        if source.is_over() {
            break;
        }
        let side = source.below(2) as usize;
        let mut body = content(&mut source);
        let mut bytes = match source.below(8) {
            0 => plain(source.pick(&[20, 21, 22, 23]), &body),
            1 => body,
            chosen => {
                let epoch = u8::from(chosen > 3);
                if source.one_in(2) {
                    // An SCTP packet: its ports and its tag are always the same.
                    body = [&[19, 136, 19, 136, 0, 0, 0, 7, 0, 0, 0, 0][..], &body].concat();
                }
                let kind = source.pick(&[23, 23, 23, 22, 21]);
                let inner = [&body[..], &[kind]].concat();
                let keys = &mut keys[usize::from(epoch)][side];
                let head = [
                    &[0x2e + epoch][..],
                    &(keys.number as u16).to_be_bytes(),
                    &(inner.len() as u16 + 16).to_be_bytes(),
                ]
                .concat();
                let mut record = keys.seal(&head, &inner);
                keys.mask(&mut record, 1, 5, 0);
                record
            }
        };
        change(&mut source, &mut bytes);
        capture.datagram(&mut source, side, &bytes);
    }
    check(&capture.0);
}

/// QUIC with HTTP/3.
pub fn quic(input: &[u8]) {
    let mut source = Source::new(input);
    let mut capture = Capture::new();
    let [client, server] = hellos([3, 4], &[]);
    let salt = [
        0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
        0xbb, 0x7f, 0x0a,
    ];
    let initial = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(IDS[1]);
    let initial = [&b"client in"[..], b"server in"].map(|label| {
        let mut secret = [0; 32];
        expand(&initial, b"tls13 ", label, &mut secret);
        Keys::new(&secret, QUIC)
    });
    let later = [true, false].map(|early| [0, 1].map(|side| Keys::new(&secret(side, early), QUIC)));
    let [handshake, traffic] = later;
    let mut keys = [initial, handshake, traffic];
    let crypto = |body: &[u8]| [&[6, 0, 0x40 | (body.len() >> 8) as u8, body.len() as u8][..], body].concat();
    let mut hello = crypto(&message(1, &client));
    hello.resize(1_200, 0);
    let packet = quic_packet(&mut keys, 0, 0, &hello);
    capture.datagram(&mut source, 0, &packet);
    let packet = quic_packet(&mut keys, 0, 1, &crypto(&message(2, &server)));
    capture.datagram(&mut source, 1, &packet);
    for _ in 0..MAX_PACKETS {
        if source.is_over() {
            break;
        }
        let (side, space) = (source.below(2) as usize, source.pick(&[0, 1, 2, 2, 2, 2, 2, 2]));
        let mut frames = content(&mut source);
        // Pads short frames, because the sample for header protection must lie within the packet (RFC 9001 §5.4.2).
        frames.resize(frames.len().max(4), 0);
        let mut bytes = quic_packet(&mut keys, space, side, &frames);
        if source.one_in(10) {
            bytes.extend(quic_packet(&mut keys, 2, side, &[1, 0, 0, 0]));
        }
        change(&mut source, &mut bytes);
        capture.datagram(&mut source, side, &bytes);
    }
    check(&capture.0);
}

/// Returns an encrypted QUIC packet with these frames. The packet number has two bytes.
fn quic_packet(keys: &mut [[Keys; 2]; 3], space: usize, side: usize, frames: &[u8]) -> Vec<u8> {
    let keys = &mut keys[space][side];
    let number = (keys.number as u16).to_be_bytes();
    let length = (2 + frames.len() + 16) as u16 | 0x4000;
    let (target, source) = (IDS[1 - side], IDS[side]);
    let ids = [&[target.len() as u8][..], target, &[source.len() as u8], source].concat();
    let head = match space {
        0 => [&[0xc1, 0, 0, 0, 1][..], &ids, &[0], &length.to_be_bytes(), &number].concat(),
        1 => [&[0xe1, 0, 0, 0, 1][..], &ids, &length.to_be_bytes(), &number].concat(),
        _ => [&[0x41][..], target, &number].concat(),
    };
    let at = head.len() - 2;
    let mut packet = keys.seal(&head, frames);
    keys.mask(&mut packet, at, at + 4, if space == 2 { 0x1f } else { 0x0f });
    packet
}

/// In some of the calls, changes a byte of `bytes` or truncates them.
fn change(source: &mut Source<'_>, bytes: &mut Vec<u8>) {
    match source.below(20) {
        0 => bytes.truncate(source.below(bytes.len() as u32 + 1) as usize),
        1 if !bytes.is_empty() => {
            let at = source.below(bytes.len() as u32) as usize;
            bytes[at] = source.byte();
        }
        _ => {}
    }
}
